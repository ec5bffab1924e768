"""The contest: one system, the same images, n and alpha; votes, seconds and share of the ceiling of each."""

import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from sigmax import __version__
from sigmax.bench import ceiling, field_loop
from sigmax.bench.stages import Shares
from sigmax.certify.dual_parts import NAMED, ROUTER
from sigmax.certify.sampling import Sampling
from sigmax.certify.scheme import Scheme
from sigmax.records.certificate import Certificate
from sigmax.system.job import arithmetic

USUAL_RADII = tuple(0.25 * i for i in range(11))
TOLERANCE = 0.2
WARM_UP = 2  # inputs each contender certifies before the clock runs


@dataclass(frozen=True)
class Row:
    """What one contender did. `ratio`: how many times faster than the field an input is done with."""

    contender: str
    inputs: int
    draws_per_input: float
    votes_per_s: float
    s_per_input: float
    ratio: float
    of_ceiling: float  # share of the device's measured matrix operations a second
    certified: float | None = None  # share of inputs with a certificate, right or wrong; the loop makes none


@dataclass(frozen=True)
class Question:
    """What all contenders are asked."""

    n0: int
    n: int
    alpha: float
    radius: float  # the one radius that adaptive sampling is asked about
    field_inputs: int  # the field's loop is slow and its speed the same for every input, so it gets fewer


def contest(scheme: Scheme, rival: Scheme, x: Tensor, asked: Question) -> Iterator[Row]:
    """One row a contender, as soon as it is known. `rival` holds the same networks as the field would run them."""
    cost = {name: ceiling.operations(voter, x[:1], rival.sigma_of(name)) for name, voter in rival.voters.items()}
    device, dtype = main_device(rival)
    top, few = ceiling.ceiling(device, dtype), x[: asked.field_inputs]
    seconds, voted = _field(rival, few, asked)
    each, slow = asked.n0 + asked.n, seconds / len(few)
    done = sum(each * cost[name] for name in voted)
    yield _row("field's loop", few, draws=each * len(voted), seconds=seconds, slow=slow, at_best=done / top)
    top = ceiling.ceiling(*main_device(scheme))
    for name, sampling in _ways(scheme, asked):
        seconds, found = _engine(scheme, x, asked, sampling)
        done, draws = sum(_operations(c, cost) for c in found), sum(c.draws for c in found)
        certified = sum(c.predicted is not None for c in found) / len(x)
        yield _row(name, x, draws=draws, seconds=seconds, slow=slow, at_best=done / top, certified=certified)


def _row(
    name: str,
    x: Tensor,
    *,
    draws: int,
    seconds: float,
    slow: float,
    at_best: float,
    certified: float | None = None,
) -> Row:
    """`slow`: the field's seconds an input; `at_best`: the seconds the work would take at the device's ceiling."""
    each = seconds / len(x)
    return Row(name, len(x), draws / len(x), draws / seconds, each, slow / each, at_best / seconds, certified)


def _ways(scheme: Scheme, asked: Question) -> Iterator[tuple[str, Sampling]]:
    yield "fixed", Sampling()
    yield "adaptive", Sampling("adaptive")
    yield f"adaptive, to {TOLERANCE:g} sigma", Sampling("adaptive", tolerance=TOLERANCE)
    if asked.radius <= scheme.rule.largest_radius(n=asked.n, alpha=asked.alpha):
        yield f"adaptive, radius {asked.radius:g}?", Sampling("adaptive", targets=(asked.radius,))
    yield "adaptive, the 11 radii?", Sampling("adaptive", targets=USUAL_RADII)


def _field(rival: Scheme, x: Tensor, asked: Question) -> tuple[float, list[str]]:
    """Seconds, and the networks that voted, each n0 + n times."""
    for voter in rival.voters.values():
        voter.ready()
        if isinstance(voter.model, torch.nn.Module):
            voter.model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # an option torch has
    there = x.to(main_device(rival)[0])
    field_loop.sampler(rival, n0=asked.n0, n=min(asked.n, field_loop.BATCH))(there[0])
    certify = field_loop.sampler(rival, n0=asked.n0, n=asked.n)
    begun = time.perf_counter()
    voted = [name for one in there for name in certify(one)]
    return time.perf_counter() - begun, voted


def _engine(scheme: Scheme, x: Tensor, asked: Question, sampling: Sampling) -> tuple[float, list[Certificate]]:
    told: Mapping[str, Any] = {"n0": asked.n0, "alpha": asked.alpha, "sampling": sampling}
    scheme.certify(x[:WARM_UP], n=asked.n, **told)
    begun = time.perf_counter()
    found = scheme.certify(x, n=asked.n, **told)
    return time.perf_counter() - begun, found


def _operations(certificate: Certificate, cost: Mapping[str, int]) -> int:
    """Operations behind a certificate: a stage `expert-1/estimation` is voted on by the network `expert-1/base`."""
    return sum(stage.n * cost[_network(stage.name)] for stage in certificate.stages)


def _network(stage: str) -> str:
    *parts, _ = stage.split("/")
    if parts and parts[-1] == NAMED:  # by the router itself
        parts[-1] = ROUTER
    return "/".join([*parts, "base"])


def main_device(scheme: Scheme) -> tuple[torch.device, torch.dtype]:
    """Where and in which precision the largest network votes."""
    voter = max(scheme.voters.values(), key=lambda v: sum(p.numel() for p in _parameters(v.model)))
    return voter.device, voter.dtype


def _parameters(model: object) -> Sequence[Tensor]:
    return list(model.parameters()) if isinstance(model, torch.nn.Module) else []


def as_json(
    scheme: Scheme, asked: Question, rows: Sequence[Row], what: str, parts: Mapping[str, Shares] | None = None
) -> dict[str, Any]:
    """The run as plain data: the request, the machine and the rows; `parts`: what `stages` found."""
    device, dtype = main_device(scheme)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu"
    return {
        "kind": "sigmax bench",
        "system": what,
        "rule": dict(scheme.rule.describe()),
        "asked": asdict(asked),
        "machine": {"device": name, "threads": torch.get_num_threads(), "torch": torch.__version__},
        "arithmetic": arithmetic(scheme),
        "batch": {name: voter.batch for name, voter in scheme.voters.items()},
        "ceiling": {"operations_per_s": ceiling.ceiling(device, dtype), "dtype": str(dtype)},
        "sigmax": __version__,
        **({"stages": parts} if parts else {}),
        "rows": [asdict(row) for row in rows],
    }
