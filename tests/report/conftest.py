from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sigmax.records.journal import write_all
from sigmax.records.lines import Record
from sigmax.records.logs.read import read_log
from sigmax.records.plan import Plan
from sigmax.records.run import Run, read
from sigmax.rules.certificate import Certificate, Outcome, Role, Stage
from sigmax.rules.smoothed import SmoothedRule
from tests.report.digits import SYSTEMS, digits_run

MakeRun = Callable[..., Run]


@pytest.fixture(scope="session")
def make_run() -> MakeRun:
    """A run of (label, predicted, radius) triples; `planned`, `path`, `data` and parts of the plan as asked."""

    def make(
        *inputs: tuple[int, int | None, float],
        planned: int | None = None,
        path: str | Path = "run.jsonl",
        sigma: float = 0.5,
        **plan: Any,
    ) -> Run:
        fields = {
            "rule": dict(SmoothedRule.gaussian(sigma, 3).describe()),
            "norm": "l2",
            "n0": 10,
            "n": 1000,
            "alpha": 0.001,
            "seed": 7,
            "generator": "philox-1",
            "arithmetic": "cpu float32",
            "data": {"name": "digits", "split": "test", "fingerprint": "f00d"},
            "inputs": {"start": 0, "skip": 2, "count": len(inputs) if planned is None else planned},
            "system": "5e1f",
            "made_with": {"sigmax": "0.1.0", "batch": 512},
        }
        records = tuple(_record(2 * i, sigma, *one) for i, one in enumerate(inputs))
        return Run(Path(path), Plan(**{**fields, **plan}), records, finished=planned is None)

    return make


def _record(index: int, sigma: float, label: int, predicted: int | None, radius: float) -> Record:
    stage = Stage("", Role.ESTIMATION, sigma, (0, 1000, 0), 1000, alpha=0.001, lower=0.9, radius=radius)
    outcome = Outcome.TOO_CLOSE if predicted is None else Outcome.CERTIFIED
    by = {"answered_by": "", "limited_by": stage.name}
    return Record(index, label, Certificate(predicted, radius, outcome, 0.001, (stage,), **by), 0.5)


@pytest.fixture(scope="session")
def published(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Run]:
    """A published log by a part of its name, imported once and read back from its run file."""
    stated: dict[str, dict[str, Any]] = {
        "cohen": {"sigma": 0.25, "data": "cifar10", "split": "test"},
        "imagenet": {"sigma": 0.25, "data": "imagenet", "split": "val", "inputs": 500},
        "catrs-noise_1.0": {"sigma": 1.0, "data": "cifar10", "split": "test"},
        "gaussian-noise_0.5": {"sigma": 0.5},
    }
    logs = shared / "fixtures" / "field-logs"
    folder = tmp_path_factory.mktemp("published")
    done: dict[str, Run] = {}

    def get(part: str) -> Run:
        if part not in done:
            (log,) = logs.glob(f"*{part}*")
            plan, records, _ = read_log(log, n=100_000, alpha=0.001, **stated[part])
            path = folder / f"{part}.jsonl"
            write_all(path, plan, records)
            done[part] = read(path)
        return done[part]

    return get


@pytest.fixture(scope="session")
def digits_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Real runs on 40 digits: three experts by themselves, routed by both rules, routed with a tree of routers."""
    folder = tmp_path_factory.mktemp("digits")
    return {name: digits_run(name, folder) for name in SYSTEMS}


@pytest.fixture(scope="session")
def cascade_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A real run whose first level defers on noisy copies it is not confident about."""
    return digits_run("cascade", tmp_path_factory.mktemp("cascade"))
