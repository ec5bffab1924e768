"""Runs whose sampling could stop early: read at what they were asked, and not for what their votes do not tell."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sigmax as sx
from sigmax import RequestError, report
from sigmax.records.run import Run
from sigmax.report.compare.comparison import figures_in, summary
from sigmax.report.metrics.adaptive import furthest_asked, mean_samples, shared_targets, up_to
from sigmax.report.notes import facts
from tests.report.digits import INPUTS, N, adaptive_run, system
from tests.report.pages import at, data, markdown_of, page_of

Runs = dict[str, Run]
TARGETS = (0.25, 0.5)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """One system asked in every way, and a dual one."""
    folder = tmp_path_factory.mktemp("asked")
    fixed = sx.certify_run(
        system("high"), sx.data.load("digits", "test"), folder / "fixed.jsonl", n0=20, n=2 * N, maximum=INPUTS
    )
    return {
        "fixed": fixed,
        "targets": adaptive_run("high", folder / "targets.jsonl", targets=TARGETS),
        "tolerance": adaptive_run("high", folder / "tolerance.jsonl", tolerance=0.05),
        "free": adaptive_run("high", folder / "free.jsonl"),
        "dual": adaptive_run("consensus", folder / "dual.jsonl", targets=TARGETS),
    }


def test_a_summary_from_the_file_is_the_table_of_the_run(asked: Runs) -> None:
    for run in asked.values():
        pd.testing.assert_frame_equal(summary(run.path, figures_in(run.path, run.plan)), report.compare([run]))
    few = asked["free"].only({"start": 0, "skip": 2, "count": 3})
    pd.testing.assert_frame_equal(summary(few.path, figures_in(few.path, few.plan)), report.compare([few]))


SHARES: dict[str, Callable[[Run], object]] = {
    "vote_shares": report.vote_shares,
    "ecdf": report.ecdf,
    "ecdf_by_class": report.ecdf_by_class,
    "draw_ecdf": report.draw_ecdf,
    "draw_ecdf_by_class": report.draw_ecdf_by_class,
}


@pytest.mark.parametrize("name", SHARES)
def test_shares_of_votes_that_ended_early_are_refused(asked: Runs, name: str) -> None:
    for run in ("targets", "tolerance", "free", "dual"):
        with pytest.raises(RequestError, match=rf"{run}\.jsonl was sampled adaptively.*certify with fixed sampling"):
            SHARES[name](asked[run])
    assert SHARES[name](asked["fixed"]) is not None


def test_dominance_by_radius_and_only_where_both_were_asked(asked: Runs) -> None:
    (found,) = report.dominance([asked["fixed"], asked["targets"]])
    assert (found.scale, found.end, found.only) == ("radius", 0.5, TARGETS)
    assert {s.stop for s in found.stretches} <= set(TARGETS)
    sentence = "targets was asked only about 0.25, 0.5; between them it may prove less than it could."
    assert str(found).endswith(sentence)
    assert "at the radii 0.25, 0.5" in str(found)
    (found,) = report.dominance([asked["fixed"], asked["free"]])
    assert (found.scale, found.end, found.only) == ("radius", math.inf, ())


def test_at_the_targets_the_verdict_is_that_of_the_accuracies(asked: Runs, tmp_path: Path) -> None:
    other = adaptive_run("mid", tmp_path / "mid.jsonl", targets=(0.25, 0.4))
    (found,) = report.dominance([asked["targets"], other])
    assert found.only == shared_targets(asked["targets"], other) == (0.25,)
    mine, theirs = (report.certified_accuracy(run, 0.25).iloc[0] for run in (asked["targets"], other))
    assert mine != theirs
    assert sum(s.gap * (1 if s.better == "targets" else -1) for s in found.stretches) == pytest.approx(mine - theirs)
    assert "at radius 0.25, by up to" in str(found)


def test_without_a_radius_in_common_they_are_compared_up_to_the_smaller_limit(asked: Runs, tmp_path: Path) -> None:
    other = adaptive_run("high", tmp_path / "near.jsonl", targets=0.1)
    (found,) = report.dominance([asked["targets"], other])
    assert (found.only, found.end) == ((), 0.1)
    assert "at every radius up to 0.1" in str(found)
    assert all(s.stop <= 0.1 for s in found.stretches)


def test_tables_say_nothing_beyond_what_was_asked(asked: Runs) -> None:
    frame = report.compare(asked.values(), [0.0, 0.25, 0.5, 0.5001, 0.75]).set_index("name")
    assert frame.loc["targets", ["0.25", "0.5"]].notna().all()
    assert frame.loc["targets", ["0.5001", "0.75"]].isna().all()
    assert frame.loc[["fixed", "free", "tolerance"], ["0.5001", "0.75"]].notna().all(axis=None)
    assert frame.loc["targets", "mean samples"] == pytest.approx(mean_samples(asked["targets"]))
    assert math.isnan(frame.loc["fixed", "mean samples"])
    assert "mean samples" not in report.compare(asked["fixed"])


def test_accuracies_are_nan_beyond_what_was_asked(asked: Runs) -> None:
    radii = [0.5, 0.6]
    for name, nan in (("targets", [False, True]), ("dual", [False, True]), ("fixed", [False, False])):
        assert report.certified_accuracy(asked[name], radii).isna().tolist() == nan
        assert report.certified_share(asked[name], radii).isna().tolist() == nan
        columns = report.certified_interval(asked[name], radii)[["accuracy", "low", "high"]]
        assert columns.isna().to_numpy().tolist() == [[of] * 3 for of in nan]


def test_radii_asked_about_are_columns_of_their_own(tmp_path: Path) -> None:
    run = adaptive_run("high", tmp_path / "odd.jsonl", targets=(0.3, 0.45))
    columns = [column for column in report.compare(run).columns if column[:1].isdigit()]
    assert columns == ["0", "0.25", "0.3", "0.45"]


def test_the_page_says_what_was_asked(asked: Runs) -> None:
    page = markdown_of(asked.values())
    drawn = f"{mean_samples(asked['targets']):,.0f}"
    assert f"| targets | 0.4 | at most 1000, {drawn} samples an input on average |" in page
    assert "| fixed | 0.4 | 1000 |" in page
    for sentence in (
        "sampled: adaptive, asked which of 0.25, 0.5 hold; no distribution of p_A",
        "it was asked about the radii 0.25, 0.5 alone: read its accuracies there",
        "its radii may fall short of what all samples would prove by 0.05 of sigma",
        "the runs were not asked the same",
        "-: beyond the largest radius asked about.",
    ):
        assert sentence in page
    assert "not asked the same" not in "".join(report.notes.on_comparing([asked["fixed"]] * 2))


def test_the_facts_of_a_run_say_where_samples_are_at_most_so_many(asked: Runs) -> None:
    run = asked["targets"]
    looked_at, whole = (replace(run, plan=replace(run.plan, n0=n0)) for n0 in (100, 10))
    assert dict(facts(looked_at))["samples"].startswith("at most n=1,000 after at most n0=100 for selection, adaptive")
    assert dict(facts(whole))["samples"].startswith("at most n=1,000 after n0=10 for selection, adaptive")
    assert dict(facts(asked["fixed"]))["samples"] == "n=1,000 after n0=20 for selection"


def test_figures_of_the_page_leave_out_what_is_not_known(asked: Runs) -> None:
    figures = {figure["key"]: figure for figure in data(page_of(asked.values()), "data-page")["figures"]}
    assert [line["name"] for line in figures["shares"]["lines"]] == ["fixed"]
    assert "Left out, as sampled adaptively: targets, tolerance, free, dual" in figures["shares"]["note"]
    lines = {line["name"]: line for line in figures["accuracy"]["lines"]}
    assert lines["targets"]["x"][-1] == 500_000
    assert lines["targets"]["cut"]
    assert not lines["free"]["cut"]
    assert "The line of targets, dual ends at the largest radius" in figures["accuracy"]["note"]
    alone = {figure["key"] for figure in data(page_of(asked["targets"]), "data-page")["figures"]}
    assert "shares" not in alone


def test_the_curve_ends_where_nothing_more_was_asked(asked: Runs) -> None:
    lines = {line.get_label(): line for line in report.draw([asked["fixed"], asked["targets"]]).get_lines()}
    x, y = (np.asarray(of) for of in (lines["targets"].get_xdata(), lines["targets"].get_ydata()))
    assert x[-1] == 0.5
    assert y[-1] == pytest.approx(100 * report.certified_accuracy(asked["targets"], 0.5).iloc[0])
    assert np.asarray(lines["fixed"].get_ydata())[-1] == 0


def test_the_page_holds_every_look(asked: Runs) -> None:
    for name in ("targets", "dual"):
        columns = data(page_of(asked[name]), "data-run-0")
        for row, record in enumerate(asked[name].records):
            for stage in record.certificate.stages:
                (kept,) = [of for of in columns["stages"] if of["name"] == stage.name]
                place = row if kept["inputs"] is None else kept["inputs"].index(row)
                looks = kept["looks"][place] if kept["looks"] else []
                assert [sum(look[1::2]) for look in looks] == np.cumsum([sum(look) for look in stage.looks]).tolist()
                if looks:
                    assert looks[-1] == kept["votes"][place]
                    assert sum(looks[-1][1::2]) == at(kept["n"], place) == stage.n
    assert all(stage["looks"] is None for stage in data(page_of(asked["fixed"]), "data-run-0")["stages"])


def test_up_to_an_end() -> None:
    places = np.array([0.0, 0.25, 0.3])
    assert up_to(places, math.inf).tolist() == places.tolist()
    assert up_to(places, 0.25).tolist() == [0.0, 0.25]
    assert up_to(places, 1.0).tolist() == [0.0, 0.25, 0.3, 1.0]
    assert furthest_asked() == math.inf
