"""The folder that labels lie in: what was asked for, and how far each expert got.

`labels.toml` is the request and is written first; `expert-0.jsonl` and so on are ordinary run files, one for each
expert, with the counts of every input: `sigmax verify` checks them like any other. They are runs over the data in a
random order that the seed fixes, of as many inputs as were asked for. A larger fraction adds runs of the inputs that
follow, such as `expert-0-from-500.jsonl`.
"""

import tomllib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w
from numpy.typing import NDArray

from sigmax.errors import RequestError
from sigmax.files import written_whole
from sigmax.noise.addressed import check_uint64
from sigmax.numbers import is_number
from sigmax.records.run import Run, read
from sigmax.request import differing, refuse_other

FORMAT = 3
HEAD = "labels.toml"
GROWS = {"fraction", "data.labelled", "ends"}  # what more inputs of the same request differ in

Head = Mapping[str, Any]


def shuffled(count: int, sample_seed: int) -> NDArray[np.int64]:
    """The numbers below `count` in an order that the seed fixes; the same on every machine.

    Every input has a random uint64 of its own and is placed by it. They are a bit generator's raw output, which
    numpy never changes.
    """
    order = np.random.SFC64(check_uint64("sample_seed", sample_seed)).random_raw(count)
    return np.argsort(order, kind="stable").astype(np.int64)


def size_of(count: int, fraction: float) -> int:
    """How many inputs a fraction of `count` is, at least one."""
    if not (is_number(fraction) and 0 < fraction <= 1):
        raise RequestError(f"fraction must lie above 0 and at most at 1 (all inputs); got {fraction!r}")
    return max(1, round(fraction * count))


def begin(folder: Path, head: Head) -> Head:
    """Write the request, unless it is there, and return it; a larger fraction of it continues, others are refused."""
    count = head["data"]["labelled"]
    head = {**head, "ends": [count]}
    if (folder / HEAD).exists():
        there = read_head(folder)
        same = {**head, "ends": there["ends"]}
        if head["fraction"] <= there["fraction"] or not set(differing(there, same)) <= GROWS:
            hints = {"fraction": "a larger fraction continues the labels, a smaller one needs a folder of its own"}
            refuse_other(there, same, f"{folder} holds the labels of another request", hints=hints)
            return there
        head = {**head, "ends": [*there["ends"], *([count] if count > there["ends"][-1] else [])]}
    with written_whole(folder / HEAD) as draft:
        draft.write_text(tomli_w.dumps(head))
    return head


def read_head(folder: Path) -> Head:
    """The request that a folder of labels was made for."""
    path = folder / HEAD
    if not path.is_file():
        raise RequestError(f"expected labels with a {HEAD} at {folder}; `sigmax label` writes them")
    try:
        head = tomllib.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise RequestError(f"{path} cannot be read: {error}; choose another folder") from error
    if head.get("format") != FORMAT:
        raise RequestError(
            f"{path} has format {head.get('format')!r}; this version reads {FORMAT}: label the data again"
        )
    try:
        whole = size_of(head["data"]["inputs"], head["fraction"]) == head["data"]["labelled"] == head["ends"][-1]
        whole = whole and all(_expected(head, name, part) for name in head["experts"] for part in parts(head, name))
    except (LookupError, TypeError, ValueError) as error:
        raise RequestError(f"{path} is damaged ({error!r}); label the data into another folder") from error
    if not whole:
        raise RequestError(f"{path} is damaged (its numbers contradict); label the data into another folder")
    return head


class LabelRun(NamedTuple):
    """Inputs that were labelled together: the run file, the first of them, how many."""

    file: str
    start: int
    size: int


def parts(head: Head, name: str) -> list[LabelRun]:
    """The runs that hold an expert's labels."""
    bounds = [0, *head["ends"]]
    return [
        LabelRun(f"{name}-from-{start}.jsonl" if start else f"{name}.jsonl", start, end - start)
        for start, end in pairwise(bounds)
    ]


def recorded(folder: Path, head: Head) -> dict[str, list[Run | None]]:
    """The runs of each expert as far as they got, None where one has not begun; one of another plan is refused."""
    return {
        name: [_run(folder / part.file, _expected(head, name, part)) for part in parts(head, name)]
        for name in head["experts"]
    }


def _run(path: Path, expected: Mapping[str, Any]) -> Run | None:
    if not _has_begun(path):
        return None
    run = read(path)
    there = {name: getattr(run.plan, name) for name in expected if name != "data"}
    there["data"] = run.plan.data.get("fingerprint")
    refuse_other(there, expected, f"{path} is not the run that {HEAD} beside it asks for")
    return run


def _expected(head: Head, name: str, part: LabelRun) -> dict[str, Any]:
    """What the plan of a run must say."""
    expert = head["experts"][name]
    return {
        "sampling": head["sampling"],
        "system": expert["fingerprint"],
        "behaviour": expert["behaviour"],
        "arithmetic": expert["arithmetic"],
        "data": head["data"]["shuffled"],
        "inputs": {"start": part.start, "skip": 1, "count": part.size},
        **{key: head[key] for key in ("n0", "n", "alpha", "seed")},
    }


def _has_begun(path: Path) -> bool:
    """Whether the plan is there: a run killed at birth leaves an empty file, or half a line."""
    if not path.exists():
        return False
    with path.open("rb") as file:
        return file.readline().endswith(b"\n")
