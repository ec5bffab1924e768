"""Smoothed: the contract's objects, the rules they follow, and requests that are refused."""

import numpy as np
import pytest
import torch
from scipy import stats

import sigmax as sx
from sigmax import bounds, radius
from sigmax.rules.certificate import Role
from sigmax.rules.registry import rebuild
from sigmax.rules.replay import replay
from sigmax.rules.smoothed import SmoothedRule


def voter(shares):
    """A classifier of vectors that votes class c with the given shares, by the noise's first coordinate."""
    edges = torch.tensor(stats.norm.ppf(np.cumsum(shares)[:-1]), dtype=torch.float32)
    return lambda batch: torch.bucketize(batch[:, 0].contiguous(), edges)


ORIGIN = torch.zeros(1, 2)


def test_a_certificate_is_what_cohens_procedure_gives():
    f = sx.Smoothed(voter([0.1, 0.9]), sigma=1.0, classes=2)
    (c,) = f.certify(ORIGIN, n0=100, n=10_000, alpha=1e-3, seed=3)
    selection, estimation = c.stages
    assert (selection.name, selection.n, selection.alpha, selection.lower) == ("selection", 100, 0.0, None)
    assert (estimation.name, estimation.n, estimation.alpha) == ("estimation", 10_000, 1e-3)
    assert sum(estimation.counts) == 10_000
    lower = bounds.lower(estimation.counts[1], 10_000, 1e-3)
    assert (estimation.lower, estimation.upper) == (lower, None)
    assert c.radius == estimation.radius == radius.gaussian(1.0, lower)
    assert (c.predicted, c.outcome, c.alpha, c.samples) == (1, sx.Outcome.CERTIFIED, 1e-3, 10_100)


def test_selection_and_estimation_use_different_samples():
    f = sx.Smoothed(voter([0.5, 0.5]), sigma=1.0, classes=2)
    found = f.certify(ORIGIN.expand(200, 2), n0=100, n=100, alpha=0.4)
    picked = np.array([c.stages[0].counts[0] for c in found])
    estimated = np.array([c.stages[1].counts[0] for c in found])
    assert abs(np.corrcoef(picked, estimated)[0, 1]) < 0.3


@pytest.mark.parametrize(
    ("picks", "votes", "bound", "outcome"),
    [
        ((90, 10, 0), (900, 100, 0), "one-sided", sx.Outcome.CERTIFIED),
        ((90, 10, 0), (505, 495, 0), "one-sided", sx.Outcome.TOO_CLOSE),
        ((90, 10, 0), (450, 300, 250), "one-sided", sx.Outcome.NO_MAJORITY),
        ((90, 10, 0), (100, 900, 0), "one-sided", sx.Outcome.SELECTION_MISSED),
        ((90, 10, 0), (450, 300, 250), "runner-up", sx.Outcome.CERTIFIED),
        ((90, 10, 0), (340, 335, 325), "runner-up", sx.Outcome.TOO_CLOSE),
        ((90, 10, 0), (100, 900, 0), "runner-up", sx.Outcome.SELECTION_MISSED),
    ],
)
def test_every_outcome_and_its_advice(picks, votes, bound, outcome):
    rule = SmoothedRule.gaussian(sigma=0.5, classes=3, bound=bound)
    stages = (
        sx.Stage("", Role.SELECTION, 0.5, picks, 100),
        sx.Stage("", Role.ESTIMATION, 0.5, votes, 1000),
    )
    c = replay(rule.certifying(n0=100, n=1000, alpha=1e-3), stages)
    assert c.outcome is outcome
    assert len(c.outcome.advice) > 20
    abstained = outcome is not sx.Outcome.CERTIFIED
    assert (c.predicted is None) == abstained
    assert (c.radius == 0.0) == abstained


def test_the_runner_up_bound_pays_half_for_each_side():
    rule = SmoothedRule.gaussian(sigma=0.5, classes=3, bound="runner-up")
    stage = rule.estimate(0, (700, 200, 100), 1e-3)
    assert stage.lower == bounds.lower(700, 1000, 5e-4)
    assert stage.upper == bounds.upper(200, 1000, 5e-4)
    assert stage.radius == radius.gaussian(0.5, stage.lower, stage.upper)


def test_a_prediction_is_the_two_sided_binomial_test():
    f = sx.Smoothed(voter([0.1, 0.5, 0.4]), sigma=1.0, classes=3)
    for n in (50, 500, 5000):
        (p,) = f.predict(ORIGIN, n=n, alpha=1e-3, seed=1)
        first, second = sorted(p.stages[0].counts, reverse=True)[:2]
        assert p.p_value == pytest.approx(stats.binomtest(first, first + second, 0.5).pvalue, rel=1e-9)
        assert (p.predicted is not None) == (p.p_value <= 1e-3)
        assert p.outcome is (sx.Outcome.PREDICTED if p.p_value <= 1e-3 else sx.Outcome.TOO_CLOSE)
        assert (p.alpha, p.samples) == (1e-3, n)


def test_a_predictor_without_a_seed_samples_a_fresh_one():
    f = sx.Smoothed(voter([0.5, 0.5]), sigma=1.0, classes=2)
    votes = {f.predict(ORIGIN, n=5000)[0].stages[0].counts for _ in range(5)}
    assert len(votes) > 1
    assert len({f.predict(ORIGIN, n=5000, seed=1)[0].stages[0].counts for _ in range(3)}) == 1


def test_numpy_inputs_and_other_float_types_are_taken():
    f = sx.Smoothed(voter([0.2, 0.8]), sigma=1.0, classes=2)
    expected = f.certify(ORIGIN, n=200)
    assert f.certify(np.zeros((1, 2), dtype=np.float32), n=200) == expected
    assert f.certify(ORIGIN.double(), n=200) == expected


@pytest.mark.parametrize("bound", ["one-sided", "runner-up"])
def test_a_rule_survives_its_description(bound):
    rule = SmoothedRule.gaussian(sigma=0.25, classes=7, bound=bound)
    assert rebuild(rule.describe()) == rule
    with pytest.raises(sx.RequestError, match="unknown scheme 'future'"):
        rebuild({"scheme": "future"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sigma": 0}, "sigma must be a positive number"),
        ({"sigma": -0.5}, "sigma must be a positive number"),
        ({"sigma": float("nan")}, "sigma must be a positive number"),
        ({"sigma": float("inf")}, "sigma must be a positive number"),
        ({"sigma": "0.5"}, "sigma must be a positive number"),
        ({"classes": 1}, "classes must be a whole number of at least 2"),
        ({"classes": 2.5}, "classes must be a whole number"),
        ({"bound": "two-sided"}, "one-sided, runner-up; got 'two-sided'"),
        ({"batch": 0}, "batch must be a whole number"),
        ({"dtype": torch.float64}, "dtype must be one of"),
        ({"model": 3}, r"model must be callable \(batch -> logits or class ids\); got int$"),
        ({"model": "mine.pth"}, r"got str\. A file's network is .*open_program.* load_state_dict\. .*sx\.load"),
        ({"model": torch.nn.Linear(2, 2).state_dict()}, "got OrderedDict; if it is a state dict, build the network"),
    ],
)
def test_a_scheme_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(sx.RequestError, match=message):
        sx.Smoothed(**{"model": voter([0.5, 0.5]), "sigma": 0.5, "classes": 2, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 9}, r"n=9 samples can never certify at alpha=0.001 .* use n >= 10"),
        ({"n": 0}, "n must be a whole number of samples"),
        ({"n0": 0}, "n0 must be a whole number of samples"),
        ({"n": 1.5}, "n must be a whole number of samples"),
        ({"alpha": 0}, "alpha must lie strictly between 0 and 1"),
        ({"alpha": 1}, "alpha must lie strictly between 0 and 1"),
        ({"alpha": float("nan")}, "alpha must lie strictly between 0 and 1"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"ids": [1, 2]}, "ids must name each of the 1 inputs differently"),
        ({"x": torch.zeros(2)}, "must be a batch"),
        ({"x": torch.zeros(0, 2)}, "at least one input"),
        ({"x": torch.zeros(2, 0)}, "at least one input"),
        ({"x": torch.zeros(1, 2, dtype=torch.uint8)}, "Divide by 255"),
        ({"x": torch.zeros(1, 2, dtype=torch.int64)}, "Divide by their largest possible value"),
        ({"x": torch.tensor([[0.0, float("nan")]])}, "input 0 holds NaN"),
        ({"x": torch.full((2, 1, 2, 2), 255.0)}, r"pixels must lie in \[0, 1\]; input 0 spans 255 to 255"),
    ],
)
def test_a_bad_request_is_refused_before_any_vote(arguments, message):
    votes = []

    def model(batch):
        votes.append(len(batch))
        return torch.zeros(len(batch), dtype=torch.long)

    f = sx.Smoothed(model, sigma=0.5, classes=2)
    f.check(ORIGIN)
    trial = votes.copy()  # what finds out whether model and inputs fit
    with pytest.raises(sx.RequestError, match=message):
        f.certify(**{"x": ORIGIN, **arguments})
    assert votes in (trial, 2 * trial)


@pytest.mark.parametrize(
    ("x", "sigma"),
    [(torch.tensor([[2.0**30 + 60, 0.0]], dtype=torch.float64), 10.0), (torch.full((1, 1, 2, 2), 0.5), 1e-8)],
)
def test_noise_that_floats_would_round_away_is_refused(x, sigma):
    f = sx.Smoothed(lambda batch: batch.flatten(1)[:, 0].ge(0.5).long(), sigma=sigma, classes=2)
    with pytest.raises(sx.RequestError, match="32-bit floats are .* apart there"):
        f.certify(x)


def test_numpy_numbers_are_taken_as_plain_ones():
    f = sx.Smoothed(voter([0.2, 0.8]), sigma=np.float32(0.7), classes=np.int64(2))
    (c,) = f.certify(ORIGIN, n0=np.int64(50), n=np.int64(500), alpha=np.float64(0.01))
    assert type(f.rule.sigma) is float
    # The noise was scaled by the 32-bit 0.7, and no radius counts on more than that.
    assert f.rule.noise == sx.noise.Gaussian(float(np.float32(0.7)))
    plain = sx.Smoothed(voter([0.2, 0.8]), sigma=0.7, classes=2).rule
    assert plain.largest_radius(n=500, alpha=0.01) == f.rule.largest_radius(n=500, alpha=0.01)
    assert c.predicted == 1


def test_the_runner_up_bound_needs_its_own_number_of_samples():
    f = sx.Smoothed(voter([0.5, 0.5]), sigma=0.5, classes=2, bound="runner-up")
    with pytest.raises(sx.RequestError, match="use n >= 11"):
        f.certify(ORIGIN, n=10)


def test_too_few_samples_to_predict_are_refused():
    f = sx.Smoothed(voter([0.5, 0.5]), sigma=0.5, classes=2)
    with pytest.raises(sx.RequestError, match=r"n=10 samples can never predict .* 0.00195\); use n >= 11"):
        f.predict(ORIGIN, n=10)


def test_what_is_no_image_may_leave_the_unit_interval():
    f = sx.Smoothed(lambda batch: batch.flatten(1).sum(1).gt(0).long(), sigma=0.5, classes=2, domain=None)
    f.certify(torch.full((1, 1, 2, 2), 3.0), n=100)
    bounded = sx.Smoothed(lambda batch: batch.sum(1).gt(0).long(), sigma=0.5, classes=2, domain=(-1.0, 1.0))
    with pytest.raises(sx.RequestError, match=r"must lie in \[-1, 1\]"):
        bounded.certify(torch.full((1, 2), 3.0), n=100)
