"""Tables on terminals of any width: numbers whole, names readable, and what has no room is named."""

import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sigmax.cli import tables
from sigmax.records.lines import Record
from sigmax.records.plan import Plan
from sigmax.records.run import Run
from sigmax.rules.certificate import Certificate, Outcome, Role, Stage
from sigmax.rules.smoothed import SmoothedRule

NAMES = ("baseline-gaussian", "ours-with-a-very-long-name-indeed", "third")


def run_named(name: str, sigma: float, n: int) -> Run:
    stage = Stage("", Role.ESTIMATION, sigma, (n, 0), n, alpha=0.001, lower=0.9, radius=1.1)
    right = Certificate(0, 1.1, Outcome.CERTIFIED, 0.001, (stage,), answered_by="", limited_by=stage.name)
    plan = Plan(
        rule=dict(SmoothedRule.gaussian(sigma, 2).describe()),
        norm="l2",
        n0=10,
        n=n,
        alpha=0.001,
        seed=0,
        generator="none",
        arithmetic="none",
        data={"name": "two", "split": "test", "fingerprint": "f00d"},
        inputs={"start": 0, "skip": 1, "count": 3},
        system=name,
    )
    return Run(Path(f"{name}.jsonl"), plan, tuple(Record(i, int(i > 1), right, 0.1) for i in range(3)), finished=True)


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
    begun = [line.partition(" ")[0] for line in text.splitlines()]
    assert NAMES[1] in "".join(begun), "a long name goes on below"
    assert {word for name in NAMES for word in name.split("-")} <= set("-".join(begun).split("-")), "no word is broken"
    assert text.count("66.6") >= 3 * 4


def test_what_is_left_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "a wider terminal also shows" in printed(60, monkeypatch)
    wide = printed(160, monkeypatch)
    assert "a wider terminal also shows" not in wide
    assert "ACR" in wide


def test_a_narrow_terminal_drops_what_misleads_first_and_radii_last(monkeypatch: pytest.MonkeyPatch) -> None:
    def heads(width: int) -> list[str]:
        return re.split(r"\s{2,}", printed(width, monkeypatch).splitlines()[1].strip())

    radii = ["0", "0.25", "0.5", "0.75", "1"]
    assert heads(110) == ["name", "sigma", "n", *radii, "ACR", "top 10%", "abstained"]
    assert heads(90) == ["name", "sigma", "n", *radii, "ACR", "abstained"]
    assert heads(80) == ["name", "sigma", "n", *radii, "abstained"]
    assert heads(52) == ["name", *radii]
    assert heads(46) == ["name", "0", "0.25", "0.75", "1"]
    assert "a wider terminal also shows sigma, n, ACR, top 10%, abstained, the radius 0.5" in " ".join(
        printed(46, monkeypatch).split()
    )


def test_what_is_lost_is_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(line for line in printed(160, monkeypatch).splitlines() if "third" in line)
    cells = row.split()
    assert cells[-2:] == ["15.0", "0.0"]
    assert "0.733" in cells
