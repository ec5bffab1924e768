"""The benchmark of coverage with fewer certifications: every scheme holds alpha, and every fault is caught."""

import pytest
from scipy.special import ndtr
from scipy.stats import norm

from benchmarks import coverage
from benchmarks.coverage_mutants import MUTANTS
from benchmarks.coverage_problems import CERTIFICATES, PREDICTIONS, runner_up, semi_elastic
from sigmax import radius


@pytest.mark.slow
def test_no_scheme_errs_more_often_than_alpha_and_every_fault_is_caught():
    """260,000 certifications and predictions, and as many with faults."""
    found = list(coverage.rows(10_000, [0.05]))
    assert len(found) == len(MUTANTS) + 2
    for row in found:
        assert row.holds, row
        assert row.caught or row.scheme == "Lipschitz", row
        # It presses: an error rate far below what is paid would show little.
        assert row.wrong > row.count * row.allowed / 5 or row.scheme == "Lipschitz", row
    certain = next(row for row in found if row.scheme == "Lipschitz" and row.kind == "certify")
    assert (certain.wrong, certain.caught) == (0, True)


def test_every_problem_has_its_fault():
    certified = {scheme for scheme, kind in MUTANTS if kind != "predict"}
    predicted = {scheme for scheme, kind in MUTANTS if kind == "predict"}
    assert (certified, predicted) == (set(CERTIFICATES), set(PREDICTIONS))


# The truth itself


def test_the_ball_is_the_worst_case_of_the_theorem():
    """Its shares come from scipy alone; the theorem finds the distance that it was made for."""
    problem = semi_elastic(0.05, adaptive=False)
    share = problem.shares[""][1]
    assert radius.semi_elastic(0.5, share, 0.1, 64) == pytest.approx(problem.radius, rel=1e-7)


def test_the_outer_slabs_meet_before_the_middle_one_leads():
    problem = runner_up(0.05, adaptive=False)
    low, middle, _ = problem.shares[""]
    edges = norm.ppf([low, low + middle]) * 0.5  # of the three slabs, seen from the input
    shares = [ndtr((edges[0] + problem.radius) / 0.5), 1 - ndtr((edges[1] + problem.radius) / 0.5)]
    assert shares[0] == pytest.approx(shares[1], abs=1e-9)
    assert 1 - sum(shares) < shares[0]
