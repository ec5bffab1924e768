"""Tables on terminals of any width: numbers whole, names readable, and what has no room is named."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sigmax.cli import tables
from sigmax.records.certificate import Certificate, Outcome, Stage
from sigmax.records.lines import Record
from sigmax.records.plan import Plan
from sigmax.records.run import Run

NAMES = ("baseline-gaussian", "ours-with-a-very-long-name-indeed", "third")


def run_named(name: str, sigma: float, n: int) -> Run:
    stage = Stage("estimation", sigma, (n, 0), n, alpha=0.001, lower=0.9, radius=1.1)
    right = Certificate(0, 1.1, Outcome.CERTIFIED, 0.001, (stage,))
    plan = Plan(
        rule={"scheme": "smoothed", "sigma": sigma, "classes": 2, "bound": "one-sided"},
        n0=10,
        n=n,
        alpha=0.001,
        seed=0,
        noise="none",
        arithmetic="none",
        data={"name": "two", "split": "test", "fingerprint": "f00d"},
        inputs={"start": 0, "skip": 1, "count": 3},
        system=name,
    )
    return Run(
        Path(f"{name}.jsonl"), plan, tuple(Record(i, int(i > 1), right, 0.1) for i in range(3)), finished=True
    )


def printed(width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    console = Console(width=width, record=True, file=StringIO())
    monkeypatch.setattr(tables, "console", console)
    runs = [run_named(name, *of) for name, of in zip(NAMES, ((0.25, 500), (0.5, 1000), (1.0, 2000)), strict=True)]
    console.print(tables.summary_table(runs))
    return console.export_text()


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_names_and_numbers_are_whole_at_every_width(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(width, monkeypatch)
    assert max(map(len, text.splitlines())) <= width
    names = "".join(line.split("│")[1].strip() for line in text.splitlines() if line.startswith("│"))
    assert names == "".join(NAMES)
    for number in ("66.6", "0.25", "0.5"):  # sigmas among them
        assert number in text


def test_what_is_left_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "a wider terminal shows" in printed(60, monkeypatch)
    wide = printed(160, monkeypatch)
    assert "a wider terminal shows" not in wide
    assert "ACR" in wide


def test_what_is_lost_is_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(line for line in printed(160, monkeypatch).splitlines() if "third" in line)
    cells = [cell.strip() for cell in row.split("│")[1:-1]]
    assert cells[-2:] == ["15.0", "0.0"]
    assert "0.733" in cells
