"""Noise that depends on the input, held against the inputs: is each recorded sigma the one that the run says it is?"""

# x, y inputs of the run, sigma(x) as recorded. Radii of a field rest on
#     |log sigma(x) - log sigma(y)| <= rate * |x - y| + jitter
# With the field each sigma is recomputed. Without it every pair of inputs must keep to the rate, which is what can be
# seen from the inputs alone.

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.radius.distances import near_distances, relative_error, square_norms, squares_about
from sigmax.records.run import Run, numbered_records
from sigmax.records.verify import Finding
from sigmax.rules.certificate import Role, joined
from sigmax.rules.elastic import PROVED, ROUNDING
from sigmax.rules.registry import parts_of
from sigmax.schemes.fields import NearestNeighbourSigma, SigmaField

if TYPE_CHECKING:
    from sigmax.schemes.scheme import Scheme

SEARCH = 1e-3  # relative; a search repeats what the run did up to the rounding of its network
AT_ONCE = 256  # inputs


class Sigmas(NamedTuple):
    """The recorded noise of one part, of the inputs that have it."""

    lines: list[int]
    indices: list[int]
    values: NDArray[np.float64]


def sigma_findings(
    run: Run,
    dataset: Dataset,
    unknown: list[str],
    *,
    train: Dataset | None = None,
    scheme: "Scheme | None" = None,
) -> Iterator[Finding]:
    """Where a recorded sigma is not what the field, the search or the rate allows; nothing if all is right.

    `unknown` is given what could not be checked, and what to pass to check it.
    """
    for part, plain in described(run.plan.rule):
        of = f" of {part}" if part else ""
        if plain["scheme"] == "semi-elastic":
            found, recorded = field_of(part, plain["field"], train, scheme), _recorded(run, part)
            if found is not None:
                yield from _against_field(recorded, plain["field"], found, dataset)
                continue
            proved = plain["field"].get("field") in PROVED
            give = "--train with its training images, or --system" if proved else "scheme= in Python: it is a function"
            unknown.append(
                f"that each sigma{of} is the field's at its input: no two inputs break its rate; to recompute each "
                f"pass {give}"
            )
            yield from _against_rate(recorded, plain["field"], dataset)
        elif plain["scheme"] == "memorized":
            if scheme is None:
                unknown.append(f"that each sigma{of} is what the search found, on which no radius rests: pass --system")
            else:
                yield from _against_search(run, scheme, dataset)


def described(rule: Mapping[str, Any], part: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The description of the scheme and of all its parts, each with the path of its part."""
    yield part, rule
    for inner in parts_of(rule):
        yield from described(inner.description, joined(part, inner.name))


def field_of(part: str, plain: Mapping[str, Any], train: Dataset | None, scheme: "Scheme | None") -> SigmaField | None:
    """The field of a part: the system's own, or made of the training images if they are those it names."""
    if scheme is not None:
        return scheme.fields[joined(part, "field")]
    if train is None or plain.get("field") not in PROVED or not 0 < plain["points"] <= len(train):
        return None
    points = train.pixels(range(plain["points"]))
    points.setflags(write=False)  # so that the field need not copy them
    found = NearestNeighbourSigma(points, *(plain[name] for name in ("base", "rate", "k", "offset")))
    return found if found.fingerprint == plain["train"] else None


def _recorded(run: Run, part: str) -> Sigmas:
    rows = [
        (line, record.index, stage.sigma)
        for line, record in numbered_records(run)
        for stage in record.certificate.stages
        if stage.role is Role.SIGMA and stage.part == part
    ]
    return Sigmas([row[0] for row in rows], [row[1] for row in rows], np.array([row[2] for row in rows]))


def _against_field(
    recorded: Sigmas, plain: Mapping[str, Any], field: SigmaField, dataset: Dataset
) -> Iterator[Finding]:
    """Recomputed; both may differ from the true noise by half of the jitter and by half of a 32-bit step."""
    if plain["jitter"] < field.jitter * (1 - 1e-9):
        yield Finding(1, f"the plan gives the field a jitter of {plain['jitter']}; its points give {field.jitter}")
    for some in _blocks(len(recorded.indices)):
        expected = field.sigmas(dataset.pixels(recorded.indices[some]))
        yield from _differing(recorded, some, expected, field.jitter + ROUNDING, "the field gives")


def _against_search(run: Run, scheme: "Scheme", dataset: Dataset) -> Iterator[Finding]:
    from sigmax.jobs.certify import arithmetic

    here, there = arithmetic(scheme).split()[:2], (run.plan.arithmetic or "").split()[:2]
    if here != there:
        raise RequestError(
            f"the run was made with {' '.join(there)}, the system is loaded with {' '.join(here)}; a search is "
            "repeated only by the same arithmetic. Verify on such a device, or without --system"
        )
    recorded = _recorded(run, "")
    for some in _blocks(len(recorded.indices)):
        x = scheme.check(dataset.pixels(recorded.indices[some]))
        (found,) = scheme.own_noise(x, recorded.indices[some], run.plan.seed or 0).values()
        yield from _differing(recorded, some, np.array(found), SEARCH, "the search finds")


def _differing(
    recorded: Sigmas, some: slice, expected: NDArray[np.float64], within: float, source: str
) -> Iterator[Finding]:
    rows = zip(recorded.lines[some], recorded.indices[some], recorded.values[some], expected, strict=True)
    for line, index, value, right in rows:
        if not value > 0 or abs(math.log(value / right)) > within:
            yield Finding(line, f"input {index}: sigma is recorded as {value}; {source} {float(np.float32(right))}")


def _against_rate(recorded: Sigmas, plain: Mapping[str, Any], dataset: Dataset) -> Iterator[Finding]:
    """Pairs whose noise differs by more than their distance allows, one for the later input of each."""
    if not recorded.indices:
        return
    points = dataset.pixels(recorded.indices).reshape(len(recorded.indices), -1)
    norms, logs, rate = square_norms(points), np.log(recorded.values), float(plain["rate"])
    slack = float(plain["jitter"]) + ROUNDING
    for some in _blocks(len(points)):
        about, off = squares_about(points, norms, points[some])
        least = np.sqrt(np.maximum(about - off, 0.0))
        perhaps = np.abs(logs[some, None] - logs) > rate * least + slack
        for row, place in zip(perhaps, range(some.start, some.stop), strict=True):
            earlier = np.flatnonzero(row[:place])
            apart = near_distances(points, earlier, points[place]) * (1 + relative_error(points.shape[1]))
            wrong = np.flatnonzero(np.abs(logs[place] - logs[earlier]) > (rate * apart + slack) * (1 + 1e-9))
            if len(wrong):
                yield _too_fast(recorded, place, int(earlier[wrong[0]]), float(apart[wrong[0]]))


def _too_fast(recorded: Sigmas, place: int, other: int, apart: float) -> Finding:
    return Finding(
        recorded.lines[place],
        f"input {recorded.indices[place]}: sigma is recorded as {recorded.values[place]}, that of input "
        f"{recorded.indices[other]} at distance {apart:.6g} as {recorded.values[other]}; the rate of the field does "
        "not allow both",
    )


def _blocks(count: int) -> Sequence[slice]:
    return [slice(start, min(start + AT_ONCE, count)) for start in range(0, count, AT_ONCE)]
