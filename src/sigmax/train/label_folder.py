"""The folder that labels lie in: what was asked for, and how far each expert got.

`labels.toml` is the request and is written first; `expert-0.jsonl` and so on are ordinary run files, one an expert,
with the counts of every input: `sigmax verify` checks them like any other.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigmax.certify.checks import is_number
from sigmax.errors import RequestError
from sigmax.files import written_whole
from sigmax.noise.draws import check_word
from sigmax.records.run import Run, read
from sigmax.system.toml import dumps
from sigmax.train.partial import refuse_other_plan

FORMAT = 1
HEAD = "labels.toml"

Head = Mapping[str, Any]


def sample(count: int, fraction: float, sample_seed: int) -> NDArray[np.int64]:
    """Rising indices of a random `fraction` of `count` inputs, at least one; the same on every machine.

    Every input has a random word of its own and those with the smallest are taken, so a larger fraction of the
    same seed holds the smaller one. The words are a bit generator's raw output, which numpy never changes.
    """
    if not (is_number(fraction) and 0 < fraction <= 1):
        raise RequestError(f"fraction must lie above 0 and at most at 1 (all inputs); got {fraction!r}")
    words = np.random.SFC64(check_word("sample_seed", sample_seed)).random_raw(count)
    taken = np.argsort(words, kind="stable")[: max(1, round(fraction * count))]
    return np.sort(taken).astype(np.int64)


def claim(folder: Path, head: Head) -> None:
    """Make the folder this request's, or see that it is already; a folder of another request is refused."""
    if (folder / HEAD).exists():
        refuse_other_plan(read_head(folder), head, f"{folder} holds the labels of another request")
        return
    with written_whole(folder / HEAD) as draft:
        draft.write_text(dumps(head))


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
        raise RequestError(f"{path} has format {head.get('format')!r}; this version reads {FORMAT}")
    try:
        inputs = sample(head["data"]["inputs"], head["fraction"], head["sample_seed"])
        whole = len(inputs) == head["data"]["labelled"] and all(_expected(head, name) for name in head["experts"])
    except (LookupError, TypeError, ValueError) as error:
        raise RequestError(f"{path} is damaged ({error!r}); label the data into another folder") from error
    if not whole:
        raise RequestError(f"{path} is damaged (its numbers contradict); label the data into another folder")
    return head


def recorded(folder: Path, head: Head) -> list[Run | None]:
    """The run of each expert as far as it got, None where it has not begun; one of another plan is refused."""
    return [_run(folder / f"{name}.jsonl", _expected(head, name)) for name in head["experts"]]


def _run(path: Path, expected: Mapping[str, Any]) -> Run | None:
    if not _has_begun(path):
        return None
    run = read(path)
    there = {name: getattr(run.plan, name) for name in expected if name != "sample"}
    there["sampling"] = dict(run.plan.sampling)
    there["sample"] = run.plan.data.get("fingerprint")
    refuse_other_plan(there, expected, f"{path} is not the run that {HEAD} beside it asks for")
    return run


def _expected(head: Head, name: str) -> dict[str, Any]:
    """What the plan of an expert's run must say."""
    expert = head["experts"][name]
    return {
        "sampling": head.get("sampling", {"kind": "fixed"}),
        "system": expert["fingerprint"],
        "arithmetic": expert["arithmetic"],
        "sample": head["data"]["sample"],
        "inputs": {"start": 0, "skip": 1, "count": head["data"]["labelled"]},
        **{key: head[key] for key in ("n0", "n", "alpha", "seed")},
    }


def _has_begun(path: Path) -> bool:
    """Whether the plan is there: a run killed at birth leaves an empty file, or half a line."""
    if not path.exists():
        return False
    with path.open("rb") as file:
        return file.readline().endswith(b"\n")
