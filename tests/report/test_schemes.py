"""Schemes in words, and schemes that other packages register."""

from collections.abc import Mapping
from typing import Any

import pytest

from sigmax import RequestError, report
from sigmax.radius import Uniform
from sigmax.records.run import Run
from sigmax.report import scheme_table
from sigmax.report.notes import on_run
from sigmax.report.schemes import assumed_by, in_words, one_sided, scheme_text
from sigmax.rules import registry
from sigmax.rules.lipschitz import LipschitzRule
from sigmax.rules.registry import Entry, rebuild
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.smoothed import SmoothedRule
from tests.report.duals import CONSENSUS, HIGH, LOW, ROUTER, run_of, votes
from tests.report.pages import data, markdown_of, page_of


class OutsideRule(SmoothedRule):
    """A rule of another package."""

    def describe(self) -> Mapping[str, Any]:
        return {"scheme": "outside", "sigma": self.sigma, "classes": self.classes, "depth": 3}


def test_a_scheme_of_another_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry(
        "outside",
        summary="a scheme from elsewhere",
        fields=("sigma", "classes", "depth"),
        from_dict=lambda plain, part: OutsideRule.gaussian(plain["sigma"], plain["classes"]),
        assumes=lambda plain: ("a full moon",),
    )
    monkeypatch.setitem(registry._entries, "outside", entry)
    run = run_of(OutsideRule.gaussian(0.5, 3), [(0, votes(0, 900)), (0, votes(0, 500))], name="out")
    page = markdown_of(run)
    assert "* scheme: outside, sigma 0.5, depth 3\n" in page
    assert "* out:\n  * its certificates assume: a full moon\n" in page
    assert [stage["title"] for stage in data(page_of(run), "data-run-0")["stages"]] == ["selection", "estimation"]
    assert scheme_table([run])["assumes"].tolist() == ["a full moon"]


def test_schemes_in_words(cascade_run: Run) -> None:
    assert scheme_text(CONSENSUS.describe()) == "dual, rule consensus, router sigma 1, experts 0.5 / 1"
    selective = SmoothedRule.gaussian(0.25, 3, defers=True)
    assert scheme_text(selective.describe()) == "smoothed, noise gaussian, sigma 0.25, bound one-sided, defers"
    rival = SmoothedRule.gaussian(0.25, 3, bound="runner-up")
    assert in_words(rival.describe()) == "smoothed, sigma 0.25 runner-up"
    assert scheme_text(cascade_run.plan.rule) == "cascade, thresholds 0.5, levels 0.4, last sigma 0.1"
    assert rebuild(cascade_run.plan.rule).describe() == cascade_run.plan.rule
    assert not one_sided(DualRule(ROUTER, (rival, LOW), "min").describe())


def test_a_scheme_assumes_what_its_parts_assume() -> None:
    assert assumed_by(CONSENSUS.describe()) == []
    rule = DualRule(ROUTER, (LipschitzRule(constant=1.0, classes=3), HIGH), "consensus")
    (assumed,) = assumed_by(rule.describe())
    assert "Lipschitz constant" in assumed
    run = run_of(LipschitzRule(constant=1.0, classes=3), [], name="exact")
    assert on_run(run) == [f"its certificates assume: {assumed}"]


def test_runs_in_different_norms_stand_in_no_table_or_figure() -> None:
    l2 = run_of(LOW, [(0, votes(0, 900))], name="l2")
    l1 = run_of(SmoothedRule(Uniform(0.5), 3), [(0, votes(0, 900))], name="l1")
    for together in (report.compare, report.scheme_table, report.dominance, report.best_over_sigma, report.draw):
        with pytest.raises(RequestError, match="radii of the runs are in different norms"):
            together([l2, l1])
    with pytest.raises(RequestError, match="radii of the runs are in different norms"):
        report.scheme_table({"one": l2, "other": l1})
    with pytest.raises(RequestError, match="radii of the runs are in different norms"):
        report.accuracy_gain(l2, l1, 0.1)
