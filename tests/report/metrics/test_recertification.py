from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from sigmax import RequestError
from sigmax.bounds import lower
from sigmax.radius import Uniform, gaussian
from sigmax.records.run import Run
from sigmax.report import acr, certified_accuracy, plug_in, recertify, resample, vote_shares
from sigmax.rules.smoothed import SmoothedRule
from tests.report.duals import CONSENSUS, LOW, MINIMUM, N, reach, routed, run_of, votes

GRID = np.array([0.0, 0.1, 0.25, 0.4, 0.5, 0.75, 1.0, 1.5])
Published = Callable[[str], Run]


def expected_by_scipy(counts: list[int], n: int, alpha: float, r: float) -> float:
    """The chance of reaching r, added up over inputs, by an implementation of its own."""
    k = np.arange(n + 1)
    radii = gaussian(0.5, lower(k, n, alpha))
    enough = (radii > 0) & (radii >= r)
    return float(sum(hypergeom(N, votes, n).pmf(k)[enough].sum() for votes in counts))


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(0, N), min_size=1, max_size=6), st.integers(12, N), st.sampled_from([1e-3, 0.01, 0.2]))
def test_fewer_samples_are_expected_exactly(counts: list[int], n: int, alpha: float) -> None:
    wrong = (1, votes(0, 900))
    run = run_of(LOW, [*((0, votes(0, k)) for k in counts), wrong], name="some")
    found = recertify(run, n=n, alpha=alpha)
    for r, share in zip(GRID, found.accuracy(GRID), strict=True):
        assert share == pytest.approx(expected_by_scipy(counts, n, alpha, r) / (len(counts) + 1), rel=1e-8, abs=1e-12)


def test_uniform_noise_is_expected_exactly_and_by_the_plug_in() -> None:
    """R = s (2 L - 1); the hypergeometric expectation by scipy."""
    rule, counts, n = SmoothedRule(Uniform(2.0), 3), [520, 700, 990], 200
    run = run_of(rule, [(0, votes(0, k)) for k in counts], name="some")
    assert recertify(run).accuracy(GRID).tolist() == certified_accuracy(run, GRID).tolist()
    radii = 2.0 * (2 * lower(np.arange(n + 1), n, 0.01) - 1)
    found, short = recertify(run, n=n, alpha=0.01), plug_in(run, n=n, alpha=0.01)
    for r in GRID:
        enough = (radii > 0) & (radii >= r)
        chances = [hypergeom(N, k, n).pmf(np.arange(n + 1))[enough].sum() for k in counts]
        assert found.accuracy(r).iloc[0] == pytest.approx(sum(chances) / 3, rel=1e-8, abs=1e-12)
        assert short.accuracy(r).iloc[0] == pytest.approx(np.mean([enough[k * n // N] for k in counts]))


def test_all_the_samples_at_the_same_alpha_change_nothing(digits_runs: dict[str, Run]) -> None:
    for name in ("low", "high", "consensus", "min", "tree", "exact", "with-exact"):
        run = digits_runs[name]
        found = recertify(run)
        assert found.accuracy(GRID).tolist() == certified_accuracy(run, GRID).tolist(), name
        assert found.acr == pytest.approx(acr(run)), name


def test_another_alpha_follows_from_the_counts() -> None:
    run = run_of(LOW, [(0, votes(0, 900)), (0, votes(0, 530)), (0, votes(1, 900))], name="some")
    found = recertify(run, alpha=0.2)
    assert found.radii == pytest.approx([reach(530, 0.5, 0.2), reach(900, 0.5, 0.2)])
    assert found.weight.tolist() == [1.0, 1.0]
    assert found.acr == pytest.approx((reach(530, 0.5, 0.2) + reach(900, 0.5, 0.2)) / 3)


def test_fewer_samples_have_fewer_steps_the_average_of_which_is_known() -> None:
    """The mean of K/n is k/N: with the radius left out, the expectation must give the share back."""
    run = run_of(LOW, [(0, votes(0, 900))], name="one")
    found = recertify(run, n=100, alpha=0.3)
    assert found.weight.sum() == pytest.approx(1.0, abs=1e-9)
    radii = gaussian(0.5, lower(np.arange(101), 100, 0.3))
    k = np.searchsorted(radii, found.radii)
    assert float(k @ found.weight) / 100 == pytest.approx(0.9, abs=1e-9)


def test_the_curve_is_a_falling_step_function() -> None:
    run = run_of(LOW, [(0, votes(0, k)) for k in (600, 800, 1000)], name="some")
    found = recertify(run, n=200)
    radii = np.append(0.0, found.radii)
    accuracy = found.accuracy(radii)
    assert np.all(np.diff(accuracy) < 1e-15)
    assert float(np.sum(np.diff(radii, prepend=0.0) * accuracy)) == pytest.approx(found.acr)
    top = found.radii[-1]
    assert found.accuracy(top).iloc[0] > 0 == found.accuracy(np.nextafter(top, 9)).iloc[0]


# ---- the plug-in -----------------------------------------------------------------------------------


def test_the_plug_in_takes_the_share_for_the_truth() -> None:
    """Sun et al. (2025), App. B.1: r = 0.5, sigma = 1, N = 100, alpha = 0.01 needs a share of 0.81."""
    rule = SmoothedRule.gaussian(1.0, 3)
    run = run_of(rule, [(0, votes(0, 809)), (0, votes(0, 810)), (0, votes(0, 990)), (1, votes(0, 990))], name="some")
    assert plug_in(run, n=100, alpha=0.01).accuracy(0.5).iloc[0] == 0.5
    assert plug_in(run).accuracy(GRID).tolist() == certified_accuracy(run, GRID).tolist()
    assert plug_in(run, n=10**6).accuracy(2.3).iloc[0] == 0.25, "beyond what was drawn"
    with pytest.raises(RequestError, match="holds 1000 samples a stage, fewer than n=10000"):
        recertify(run, n=10_000)


def test_the_plug_in_on_a_published_log(published: Published) -> None:
    """The paper's figure 8: P(p_A >= 0.81) read off the distribution, and near it what the scatter makes of it."""
    run = published("catrs-noise_1.0")
    found = plug_in(run, n=100, alpha=0.01)
    shares = vote_shares(run)["p_A"]
    assert found.accuracy(0.5).iloc[0] == (shares >= 0.81).mean()
    assert recertify(run, n=100, alpha=0.01).accuracy(0.5).iloc[0] == pytest.approx(
        found.accuracy(0.5).iloc[0], abs=3e-3
    )
    assert found.unknown == 5_683


@pytest.mark.slow
def test_a_published_log_at_its_own_settings(published: Published) -> None:
    run = published("catrs-noise_1.0")
    found = recertify(run)
    # A radius printed with three digits may lie on the other side of r than the one its votes prove.
    assert np.abs(found.accuracy(GRID) - certified_accuracy(run, GRID)).max() <= 0.0015
    assert found.acr == pytest.approx(0.815, abs=5e-4)
    fewer = [recertify(run, n=n).acr for n in (100, 1_000, 10_000)]
    assert fewer == sorted(fewer)
    assert fewer[-1] < found.acr


# ---- by doing it -----------------------------------------------------------------------------------


def test_trials_agree_with_the_expectation() -> None:
    run = run_of(LOW, [(0, votes(0, k)) for k in (560, 620, 700, 800, 900)], name="some")
    exact, tried = recertify(run, n=150), resample(run, n=150, seed=1, times=400)
    # 2,000 trials: a mean of shares is off by more than 5 / sqrt(4 * 2000) = 0.056 once in a million times
    assert np.abs(exact.accuracy(GRID) - tried.accuracy(GRID)).max() < 0.056
    assert resample(run, n=150, seed=1).acr == resample(run, n=150, seed=1).acr


def test_trials_with_all_samples_are_the_run_itself(digits_runs: dict[str, Run]) -> None:
    for name in ("low", "consensus", "min", "tree", "with-exact"):
        run = digits_runs[name]
        assert resample(run, n=run.plan.n).accuracy(GRID).tolist() == certified_accuracy(run, GRID).tolist(), name


def test_routed_runs_with_fewer_samples(digits_runs: dict[str, Run]) -> None:
    for name in ("consensus", "min"):
        run = digits_runs[name]
        with pytest.raises(RequestError, match=r"is of another rule. Use resample\(run, n=200"):
            recertify(run, n=200)
        assert 0 < resample(run, n=200, times=3).acr < acr(run)


def test_an_expert_never_asked_counts_as_undecided() -> None:
    """With 60 samples the router cannot rule out the second expert, whose votes were never cast."""
    answers = routed(0, 1000, votes(0, 900), votes(0, 900))
    run = run_of(CONSENSUS, [(0, answers)], name="dual")
    assert len({stage.name.split("/")[0] for stage in run.records[0].certificate.stages}) == 2
    assert 0 < resample(run, n=60).acr < acr(run)


# ---- refusals --------------------------------------------------------------------------------------


def test_requests_that_make_no_sense(published: Published) -> None:
    run = run_of(LOW, [(0, votes(0, 900))], name="one")
    for call in (recertify, plug_in, resample):
        with pytest.raises(RequestError, match="alpha must lie strictly between 0 and 1"):
            call(run, n=100, alpha=0.0)
        with pytest.raises(RequestError, match="n must be a whole number of samples"):
            call(run, n=0)
    with pytest.raises(RequestError, match="n=5 samples can never certify at alpha=0.001"):
        recertify(run, n=5)
    with pytest.raises(RequestError, match="times must be a whole number"):
        resample(run, n=100, times=0)
    with pytest.raises(RequestError, match="holds no counts to take samples from"):
        resample(published("catrs-noise_1.0"), n=100)
    with pytest.raises(RequestError, match="not a function of one p_A"):
        plug_in(run_of(MINIMUM, [(0, routed(0, 1000, votes(0, 900), votes(0, 900)))], name="dual"), n=100)


def test_a_run_that_stopped_early_is_refused() -> None:
    run = run_of(LOW, [(0, votes(0, 900))], name="one")
    early = replace(run, plan=replace(run.plan, n=2_000))
    with pytest.raises(RequestError, match="input 0 of one.jsonl stopped at 1000 of 2000 samples"):
        recertify(early, n=500)


def test_the_plug_in_refuses_a_bound_that_asks_for_the_runner_up() -> None:
    rule = SmoothedRule.gaussian(0.5, 3, bound="runner-up")
    with pytest.raises(RequestError, match="of the runner-up bound, whose radius depends on a rival's votes too"):
        plug_in(run_of(rule, [(0, votes(0, 900))], name="rival"))
