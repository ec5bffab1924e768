"""A report on dual runs: what appears by itself beside the runs of the experts, and what without them."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from sigmax import RequestError
from sigmax.cli.main import main
from sigmax.cli.tables import summary_table
from sigmax.records.run import Run
from sigmax.records.verify import verify
from sigmax.report import (
    acr,
    certified_accuracy,
    compare,
    diagnose,
    draw,
    draw_routing,
    routing,
    write,
)
from sigmax.report.metrics.radii import true_radii
from tests.report.duals import CONSENSUS, HIGH, LOW, routed, run_of, votes
from tests.report.pages import markdown_of

Runs = dict[str, Run]
EXPERTS = ("low", "mid", "high")
ORACLE, ENVELOPE = "oracle (best expert each input)", "envelope (best expert each radius)"
TABLES, PLOTS = ["table.md", "table.csv"], ["curve.pdf", "curve.png", "routing.pdf", "routing.png"]
FILES = ["report.html", "report.md", *TABLES, *PLOTS]


def given(runs: Runs, *names: str) -> list[Run]:
    return [runs[name] for name in names]


@pytest.fixture
def small() -> list[Run]:
    """Two experts and a dual run; four inputs: agreed on, agreed on nearby, disputed, sent to the wrong expert."""
    low = [(1, votes(1, k)) for k in (900, 950, 950, 900)]
    high = [(1, votes(c, 900)) for c in (1, 1, 2, 2)]
    dual = [
        (1, routed(route, k, one, other))
        for route, k, (_, one), (_, other) in zip((0, 0, 0, 1), (990, 600, 510, 990), low, high, strict=True)
    ]
    return [run_of(LOW, low, name="low"), run_of(HIGH, high, name="high"), run_of(CONSENSUS, dual, name="dual")]


# ---- real runs -------------------------------------------------------------------------------------


def test_real_runs_hold_and_agree_with_their_diagnosis(digits_runs: Runs) -> None:
    for run in digits_runs.values():
        assert verify(run.path).holds
    for rule in ("consensus", "min"):
        frame = diagnose(digits_runs[rule], given(digits_runs, *EXPERTS)).frame
        assert len(frame) == 40
        assert set(frame["route"]) == {0, 1, 2}
        smaller = np.minimum(frame["R_sigma"].fillna(0.0), frame["R_c"])
        assert np.all(frame["radius"] <= frame["R_c"])
        assert np.all(frame["radius"] >= smaller if rule == "consensus" else frame["radius"] == smaller)
        assert np.all(frame["bottleneck"] == (frame["radius"] < frame["R_c"]))
        assert np.all(frame["R_best"] >= frame["R_c"])
        assert frame["bottleneck"].any()
        assert not frame["bottleneck"].all()
        recorded = digits_runs[rule].frame().sort_values("index")
        assert frame["radius"].tolist() == recorded["radius"].where(recorded["correct"], 0.0).tolist()


def test_no_expert_alone_is_above_the_oracle(digits_runs: Runs) -> None:
    runs = given(digits_runs, *EXPERTS)
    found = diagnose(digits_runs["consensus"], runs)
    alone = [true_radii(run, alpha=0.001 / 6) for run in runs]
    assert found.oracle.acr == pytest.approx(np.max(alone, axis=0).mean())


def test_a_whole_report(digits_runs: Runs, tmp_path: Path) -> None:
    runs = given(digits_runs, *EXPERTS, "consensus")
    assert [path.name for path in write(runs, tmp_path)] == FILES
    table = pd.read_csv(tmp_path / "table.csv", index_col="name")
    assert table.index.tolist() == [*EXPERTS, "consensus", ORACLE, ENVELOPE]
    best = table.loc[list(EXPERTS), "0":"ACR"].drop(columns="ACR").max()
    assert table.loc[ENVELOPE, "0":"ACR"].drop("ACR").astype(float).tolist() == best.tolist()
    page = (tmp_path / "report.md").read_text()
    for fact in (
        "![routing of the inputs](routing.png)",
        "* scheme: dual, rule consensus, router sigma 0.4, experts 0.1 / 0.2 / 0.4\n",
        "* sigma: 0.1, 0.2, 0.4\n",
        "* samples: n=500 after n0=20 for selection, for each part asked; ",
        "* outcomes: certified ",
        f"| {ORACLE} | 0.1, 0.2, 0.4 | 500 | 0.001 | 40 | ",
        "* oracle and envelope are not certificates",
        "batch router/base 1024 expert-0/base 1024",
    ):
        assert fact in page
    assert "{" not in page
    drawn = sum(record.certificate.samples for record in runs[3].records) / 40
    assert f"for each part asked; {drawn:,.0f} an input on average" in page


@pytest.mark.slow
def test_the_same_runs_give_the_same_bytes(digits_runs: Runs, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write(given(digits_runs, *EXPERTS, "min"), tmp_path / folder)
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_a_tree_of_routers(digits_runs: Runs) -> None:
    """Its second expert is a dual system: without the run of that one there is nothing to hold the tree against."""
    frame = routing(digits_runs["tree"])
    assert set(frame["route"]) == {0, 1}
    assert np.all(frame["asked"] <= 2)
    assert np.all(frame["radius"] <= frame["R_c"])
    page = markdown_of(given(digits_runs, *EXPERTS, "tree"))
    assert "experts 0.1 / (dual, rule consensus, router sigma 0.4, experts 0.2 / 0.4)\n" in page
    assert ORACLE not in page
    found = diagnose(digits_runs["tree"], given(digits_runs, "inner", "low"))
    assert np.all(found.frame["R_best"] >= found.frame["R_c"])
    known = found.frame.dropna(subset="R_sigma")
    assert 0 < len(known) < len(frame), "the router is asked only where the expert certifies"
    assert np.all(known["dRs"] == known["R_sigma"] - known["R_c"])
    # One router's part of alpha is the whole of the other's: its radii shrink, and no more than that.
    held, whole = true_radii(digits_runs["inner"], alpha=0.001 / 4), true_radii(digits_runs["inner"])
    assert np.all(held <= whole)
    assert np.sum(held > 0.5 * whole) > 20
    names = compare(given(digits_runs, *EXPERTS, "inner", "tree"))["name"].tolist()
    assert names[5:] == [f"{ORACLE}, inner", f"{ORACLE}, tree", f"{ENVELOPE}, inner", f"{ENVELOPE}, tree"]


def test_a_deterministic_expert(digits_runs: Runs) -> None:
    page = markdown_of(given(digits_runs, "exact", "high", "with-exact"))
    assert "| exact | none | 500 |" in page
    assert "| with-exact | none, 0.4 | 500 |" in page
    assert "* samples: none: the network is read once for each input, without noise" in page
    assert "experts lipschitz / 0.4\n" in page
    assert f"| {ORACLE} | none, 0.4 |" in page


# ---- without the experts ---------------------------------------------------------------------------


def test_a_dual_run_alone(small: list[Run]) -> None:
    page = markdown_of(small[2])
    assert "| run | inputs | top route in % | experts asked | router limits | next route nearer |\n" in page
    assert "| dual | 4 | 0.5: 75.0, 1: 25.0 | 1.50 | 25.0 | 50.0 |\n" in page
    for absent in (ORACLE, ENVELOPE, "mean dRc", "not certificates", "best expert", "no oracle"):
        assert absent not in page


def test_one_expert_is_not_all(small: list[Run]) -> None:
    assert compare(small[1:])["name"].tolist() == ["high", "dual"]


def test_runs_that_are_not_of_its_experts_are_noted(small: list[Run]) -> None:
    low, high, dual = small
    other = replace(high, plan=replace(high.plan, system="beef"))
    for runs, found in (([low, other, dual], "1"), ([other, dual], "none")):
        page = markdown_of(runs)
        assert f"* dual:\n  * no oracle and envelope: there are runs of {found} of its 2 experts" in page
    assert "no oracle and envelope" not in markdown_of(small)


def test_experts_of_other_data_are_noted_and_left_alone(small: list[Run]) -> None:
    low, high, dual = small
    data = {"name": "digits", "split": "train", "fingerprint": "beef"}
    page = markdown_of([low, replace(high, plan=replace(high.plan, data=data)), dual])
    assert "* dual:\n  * not compared with its experts: the runs are of different data: dual.jsonl" in page
    assert ORACLE not in page


# ---- beside the experts ----------------------------------------------------------------------------


def test_the_rows_by_hand(small: list[Run]) -> None:
    """Each expert is right on 4 and 2 of 4 with 900 or 950 votes: radii 0.555, 0.717 and, with much noise, 1.11."""
    frame = compare(small, [0.0, 0.6, 1.0, 2.0]).set_index("name")
    assert frame.loc["low", ["0", "0.6", "1", "2"]].tolist() == [100, 50, 0, 0]
    assert frame.loc["high", ["0", "0.6", "1", "2"]].tolist() == [50, 50, 50, 0]
    assert frame.loc["dual", ["0", "0.6", "1", "2"]].tolist() == [50, 25, 0, 0]
    assert frame.loc[ENVELOPE, ["0", "0.6", "1", "2"]].tolist() == [100, 50, 50, 0]
    assert frame.loc[ORACLE, ["0", "0.6", "1", "2"]].tolist() == [100, 75, 50, 0]
    assert frame.loc[ORACLE, ["sigma", "n", "alpha", "inputs"]].tolist() == ["0.5, 1", 1000, 0.001, 4]
    assert np.isnan(frame.loc[ORACLE, "abstained"])
    page = markdown_of(small, [0.0, 0.6, 1.0, 2.0])
    assert (
        "| run | 0 | 0.6 | 1 | 2 |\n| --- | ---: | ---: | ---: | ---: |\n| dual | 0.500 | 0.500 | 0.000 | - |" in page
    )


def test_two_routers_of_the_same_experts_share_their_references(small: list[Run]) -> None:
    other = replace(small[2], path=Path("other.jsonl"))
    assert compare([*small, other])["name"].tolist() == ["low", "high", "dual", "other", ORACLE, ENVELOPE]


def test_rules_that_share_alpha_otherwise_have_an_oracle_each(digits_runs: Runs) -> None:
    names = compare(given(digits_runs, *EXPERTS, "consensus", "min"))["name"].tolist()
    assert names[5:] == [f"{ORACLE}, consensus", f"{ORACLE}, min", ENVELOPE]


def test_references_are_dashed_grey_lines(small: list[Run]) -> None:
    lines = draw(small).get_lines()
    assert [line.get_label() for line in lines[3:]] == [ORACLE, ENVELOPE]
    assert all(0 < float(str(line.get_color())) < 1 for line in lines[3:])
    assert all(line.get_linestyle() == "--" for line in lines[3:])
    x, y = (np.asarray(part) for part in (lines[4].get_xdata(), lines[4].get_ydata()))
    for r, share in zip(x[:-1], y[:-1], strict=True):
        assert share == 100 * max(certified_accuracy(run, r).iloc[0] for run in small[:2])


def test_the_routing_figure_is_the_empirical_distribution(small: list[Run]) -> None:
    frame = diagnose(small[2], small[:2]).frame
    lost, near = draw_routing(small)
    for ax, column in ((lost, "dRc"), (near, "dRs")):
        line = ax.get_lines()[0]
        assert line.get_drawstyle() == "steps-post"
        for x, y in zip(*(np.asarray(part) for part in (line.get_xdata()[1:], line.get_ydata()[1:])), strict=True):
            assert y == 100 * (frame[column] <= x).mean()
    legend = near.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["dual: 25.0%"]
    assert "limited by the router" in legend.get_title().get_text()


def test_without_experts_the_figure_has_one_panel(small: list[Run]) -> None:
    (near,) = draw_routing(small[2])
    assert r"\sigma" in near.get_xlabel()
    with pytest.raises(RequestError, match="none of the runs has a router"):
        draw_routing(small[:2])


# ---- on the terminal -------------------------------------------------------------------------------


def test_the_terminal_shows_the_references(digits_runs: Runs) -> None:
    console = Console(width=80, record=True)
    console.print(summary_table(given(digits_runs, *EXPERTS, "consensus")))
    text = console.export_text()
    assert "envelope" in text
    assert f"{ORACLE}, {ENVELOPE}" in text
    assert "abstained" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.slow
def test_the_report_verb(
    digits_runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(run.path) for run in given(digits_runs, *EXPERTS, "min")]
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "argv", ["sigmax", "report", *paths, "--out", str(tmp_path / "report")])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    out = capsys.readouterr().out
    found = diagnose(digits_runs["min"], given(digits_runs, *EXPERTS))
    assert "min: top route in % 0.1: " in out
    assert f"the router limits {100 * found.frame['bottleneck'].mean():.1f}% of the radii" in " ".join(out.split())
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == sorted(FILES)
    assert acr(digits_runs["min"]) == pytest.approx(acr(found.run))
