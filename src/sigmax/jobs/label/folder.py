"""The folder that labels lie in: what was asked for, and how far each expert got.

`labels.toml` is the request and is written first; `expert-0.jsonl` and so on are ordinary run files, one for each
expert, with the counts of every input: `sigmax verify` checks them like any other. They are runs over the data in a
random order that the seed fixes, of as many inputs as were asked for; a larger fraction extends them.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from sigmax.errors import RequestError
from sigmax.files import written_whole
from sigmax.numbers import is_number
from sigmax.records.run import Run, read
from sigmax.request import differing, refuse_other

FORMAT = 4
HEAD = "labels.toml"
GROWS = {"fraction", "data.labelled"}  # what more inputs of the same request differ in

Head = Mapping[str, Any]


def shuffled(count: int, seed: int | Sequence[int]) -> NDArray[np.int64]:
    """The numbers below `count` in an order that the seed fixes; the same on every machine.

    Every input has a random uint64 of its own and is placed by it. They are a bit generator's raw output, which
    numpy never changes.
    """
    return np.argsort(np.random.SFC64(seed).random_raw(count), kind="stable").astype(np.int64)


def size_of(count: int, fraction: float) -> int:
    """How many inputs a fraction of `count` is, at least one."""
    if not (is_number(fraction) and 0 < fraction <= 1):
        raise RequestError(f"fraction must lie above 0 and at most at 1 (all inputs); got {fraction!r}")
    return max(1, round(fraction * count))


def begin(folder: Path, head: Head) -> Head:
    """Write the request, unless it is there, and return it; a larger fraction of it continues, others are refused."""
    if (folder / HEAD).exists():
        there = read_head(folder)
        if head["fraction"] <= there["fraction"] or not set(differing(there, head)) <= GROWS:
            hints = {"fraction": "a larger fraction continues the labels, a smaller one needs a folder of its own"}
            refuse_other(there, head, f"{folder} holds the labels of another request", hints=hints)
            return there
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
        whole = size_of(head["data"]["inputs"], head["fraction"]) == head["data"]["labelled"]
        whole = whole and all(_expected(head, name) for name in head["experts"])
    except (LookupError, TypeError, ValueError) as error:
        raise RequestError(f"{path} is damaged ({error!r}); label the data into another folder") from error
    if not whole:
        raise RequestError(f"{path} is damaged (its numbers contradict); label the data into another folder")
    return head


def recorded(folder: Path, head: Head) -> dict[str, Run | None]:
    """The run of each expert as far as it got, None where it has not begun; one of another plan is refused."""
    return {name: _run(folder / f"{name}.jsonl", head, name) for name in head["experts"]}


def is_whole(run: Run | None, head: Head) -> bool:
    """Whether an expert has labelled all inputs: a run of a smaller fraction may be finished, and is to grow."""
    return run is not None and run.finished and run.planned == head["data"]["labelled"]


def _run(path: Path, head: Head, name: str) -> Run | None:
    if not _has_begun(path):
        return None
    run, expected = read(path), _expected(head, name)
    there = {name: getattr(run.plan, name) for name in expected if name != "data"}
    there["data"] = run.plan.data.get("fingerprint")
    expected["inputs"]["count"] = min(run.planned, head["data"]["labelled"])
    refuse_other(there, expected, f"{path} is not the run that {HEAD} beside it asks for")
    return run


def _expected(head: Head, name: str) -> dict[str, Any]:
    """What the plan of an expert's run must say."""
    expert = head["experts"][name]
    return {
        "sampling": head["sampling"],
        "system": expert["fingerprint"],
        "behaviour": expert["behaviour"],
        "arithmetic": expert["arithmetic"],
        "data": head["data"]["shuffled"],
        "inputs": {"start": 0, "skip": 1, "count": head["data"]["labelled"]},
        **{key: head[key] for key in ("n0", "n", "alpha", "seed")},
    }


def _has_begun(path: Path) -> bool:
    """Whether the plan is there: a run killed at birth leaves an empty file, or half a line."""
    if not path.exists():
        return False
    with path.open("rb") as file:
        return file.readline().endswith(b"\n")
