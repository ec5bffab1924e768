"""Broken certifiers are caught: each bug is put into the real procedure, which then certifies and is attacked."""

from fractions import Fraction

import numpy as np
import pytest

import sigmax as sx
from sigmax.rules import smoothed as smoothed_rule
from sigmax.rules.certificate import Role
from sigmax.rules.routed import certifying
from tests.jobs.attack.problems import halfplane, images


def attacked(scheme, data, folder, *, options, **how):
    run = sx.certify_run(scheme, data, folder / "run.jsonl", **how)
    return sx.attack_run(run, scheme, data, folder / "attack", options=options)


def alpha_ignored(monkeypatch):
    """The share of the votes itself stands where its lower bound should."""
    monkeypatch.setattr(smoothed_rule.table, "lower", lambda k, n, alpha: min(k, n - 0.5) / n)


def samples_reused(monkeypatch):
    """The estimation votes are cast on the selection samples: whichever class was lucky is bounded by its luck."""
    honest = smoothed_rule.SmoothedRule.request

    def request(self, role, n, then=None):
        asked = honest(self, role, n)
        return asked._replace(stream=str(Role.SELECTION)) if role is Role.ESTIMATION else asked

    monkeypatch.setattr(smoothed_rule.SmoothedRule, "request", request)


def largest_counts(monkeypatch):
    """In the published rule of Dual the larger of the two radii is taken."""
    monkeypatch.setattr(certifying, "min", max, raising=False)


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True])
def test_a_point_estimate_in_place_of_a_bound(broken, monkeypatch, tmp_path):
    """0.08 from the edge the radius of a point estimate of 40 votes is too large every other time."""
    if broken:
        alpha_ignored(monkeypatch)
    found = attacked(
        halfplane(),
        images(80, first=0.42),
        tmp_path,
        options=sx.Attack(steps=10, restarts=1, samples=8, walk=0, n=3_000),
        n0=20, n=40, alpha=0.05,
    )  # fmt: skip
    assert found.verdict.refuted == broken
    assert found.verdict.certified >= 50
    if broken:
        assert found.verdict.false_alarm < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("broken", [False, True])
def test_selection_samples_reused_for_estimation(broken, monkeypatch, tmp_path):
    """On the edge each class has half of the votes, and 4 of 5 votes or more certify it: chance 0.1875, below alpha.

    With samples of its own the class picked has that chance; reused, whichever class has 4 of 5 votes is certified, and
    the chance doubles. A single false certificate proves nothing: the verdict counts them against alpha = 0.22.
    """
    if broken:
        samples_reused(monkeypatch)
    found = attacked(
        halfplane(),
        images(400, first=0.5),
        tmp_path,
        options=sx.Attack(steps=5, restarts=1, samples=8, walk=0, n=12_000),
        n0=5, n=5, alpha=0.22,
    )  # fmt: skip
    assert found.verdict.violations > 0
    assert found.verdict.refuted == broken


@pytest.mark.parametrize("broken", [False, True])
def test_the_larger_radius_in_the_rule_of_dual(broken, monkeypatch, tmp_path):
    """The route changes 0.3 away, the class 0.1: with the larger radius one certificate is enough to be refuted."""
    if broken:
        largest_counts(monkeypatch)
    scheme = sx.Dual(halfplane(axis=1, edge=0.8), [halfplane(edge=0.5), halfplane(edge=0.9)], rule="min")
    data = images(3, first=0.4, second=0.5)
    found = attacked(scheme, data, tmp_path, options=sx.Attack(), n=2_000)
    assert found.verdict.violations == (3 if broken else 0)
    assert found.verdict.refuted == broken
    saved = sorted(path.name for path in found.folder.glob("*.npz"))
    assert saved == [f"violation-{index}.npz" for index in range(3 if broken else 0)]
    for name in saved:
        point = np.load(found.folder / name)
        pairs = zip(point["x"].ravel().tolist(), point["point"].ravel().tolist(), strict=True)
        exact = sum((Fraction(a) - Fraction(b)) ** 2 for a, b in pairs)
        assert exact < Fraction(float(point["radius"])) ** 2
        answers = {p.predicted for p in scheme.predict(point["point"][None].repeat(3, 0), n=10_000)}
        assert answers == {int(point["answer"])} != {int(point["certified"])}


def test_a_violation_by_way_of_the_routes(monkeypatch, tmp_path):
    """The class changes only where the route does: the search must cross the router's edge, not the expert's."""
    largest_counts(monkeypatch)
    scheme = sx.Dual(halfplane(axis=1, edge=0.6), [halfplane(edge=0.9), halfplane(edge=0.2)], rule="min")
    data = images(2, first=0.5, second=0.5)
    found = attacked(scheme, data, tmp_path, options=sx.Attack(), n=2_000)
    assert found.verdict.violations == 2
    assert all(0.1 <= row.nearest < 0.2 for row in found.rows)
