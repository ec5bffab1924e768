"""End to end: certificates of routers that name a class or pass, against exact radii, for both rules.

# N certifications at alpha each; a certificate is wrong if its class is, or its radius exceeds the truth
# outcomes of the routers: 0 and 1 are classes, 2 passes
"""

import numpy as np
import pytest
import torch
from scipy.stats import norm

import sigmax as sx
from sigmax import models, report, train
from sigmax.bench import field_loop
from sigmax.certify import naming as naming_module
from sigmax.certify.smoothed_rule import SmoothedRule
from tests.certify.regions import Known, naming, planes, smoothed
from tests.certify.test_adaptive_soundness import QUESTIONS
from tests.certify.test_dual_soundness import (
    ALPHA,
    N0,
    REPEATS,
    RULES,
    SLANTED,
    SUSPICIOUS,
    N,
    X,
    Y,
    far,
    opposed,
    suspicion,
    torn,
    wrong,
)

pytestmark = pytest.mark.filterwarnings("ignore:the router's sigma")
ASKED = ("the radius", "one target", "many targets", "tolerance")


def within(rule: str) -> Known:
    """A system that names, below another: the inner one passes at the origin, and its expert is of class 1."""
    return naming(SLANTED, [-0.9, 1.1], (0, 2, 1), 0.5, smoothed(Y, [-0.5], 0.5), rule)


# By what limits the certificate at the origin: the system by a rule, and what part of alpha the bounds that could
# make it wrong are granted by "min" and by "consensus".
SYSTEMS = {
    # class 1 is named there; beyond the edge an expert of the other class, or the other class itself
    "named, expert disagrees": (lambda r: naming(X, [-0.4, -0.4], (0, 2, 1), 1.0, opposed(), r), 1 / 2, 1 / 2),
    "named beside its edge": (lambda r: naming(X, [-3.0, -0.001], (0, 2, 1), 1.0, opposed(), r), 1 / 2, 1 / 2),
    "named, the rival limits": (lambda r: naming(X, [-0.6, -0.3], (0, 2, 1), 1.0, far(), r), 1 / 2, 1 / 2),
    "named, the expert limits": (
        lambda r: naming(X, [-4.0, -0.2], (0, 2, 1), 1.0, smoothed(X, [-0.5], 0.5), r),
        1,
        1,
    ),
    # it passes there
    "passes, the rival limits": (lambda r: naming(X, [-0.4, 3.0], (0, 2, 1), 1.0, far(), r), 1 / 2, 1 / 2),
    "passes beside the rival": (lambda r: naming(X, [-0.001, 0.5], (0, 2, 1), 1.0, far(), r), 1 / 2, 1 / 2),
    "passes, its own name is near": (lambda r: naming(X, [-0.7, 0.05], (0, 2, 1), 1.0, far(), r), 1, 1),
    "passes, the expert limits": (
        lambda r: naming(X, [-4.0, 4.0], (0, 2, 1), 1.0, smoothed(Y, [-0.3], 0.5), r),
        1 / 2,
        1 / 2,
    ),
    "passes beside its expert's edge": (
        lambda r: naming(X, [-4.0, 4.0], (0, 2, 1), 1.0, smoothed(Y, [-0.001], 0.5), r),
        1 / 2,
        1 / 2,
    ),
    "passes, its expert has no majority": (
        lambda r: naming(X, [-4.0, 4.0], (0, 3, 2), 1.0, torn(Y), r),
        1 / 2,
        1 / 2,
    ),
    "a slab of a name between": (lambda r: naming(X, [-2.9, -0.3], (2, 0, 1), 1.0, opposed(SLANTED), r), 1, 1),
    "deterministic expert": (lambda r: naming(X, [-0.5, 0.1], (0, 2, 1), 1.0, planes(Y, -0.7), r), 1, 1),
    "system within": (lambda r: naming(X, [-0.6, 1.2], (0, 2, 1), 1.0, within(r), r), 1, 1),
}
TIGHT = ("named, expert disagrees", "named beside its edge", "passes, the rival limits")


def certificates(system: Known, repeats: int = REPEATS, **asked):
    return system.scheme.certify(torch.zeros(repeats, 2), n0=N0, n=N, alpha=ALPHA, seed=1, **asked)


@pytest.mark.parametrize("rule", RULES)
def test_no_system_is_certified_beyond_its_exact_radius_more_often_than_alpha(rule):
    """9,100 certifications a rule; also each system by itself, against what its own bounds were granted."""
    errors = total = 0
    for name, (build, *granted) in SYSTEMS.items():
        system = build(rule)
        found = certificates(system)
        assert any(c.predicted is not None for c in found), name
        assert suspicion(wrong(system, found), REPEATS, ALPHA * granted[RULES.index(rule)]) > SUSPICIOUS, name
        errors += wrong(system, found)
        total += len(found)
    assert suspicion(errors, total, ALPHA) > SUSPICIOUS


@pytest.mark.parametrize("name", TIGHT)
def test_the_claims_press_against_what_they_were_granted(name):
    """So the test above can fail. A quarter of alpha is what L and U, or each of two bounds behind U, get."""
    system = SYSTEMS[name][0]("consensus")
    assert wrong(system, certificates(system)) > REPEATS * ALPHA / 4 / 3


@pytest.mark.parametrize("rule", RULES)
def test_nor_where_sampling_is_adaptive(rule):
    """3,120 certifications a rule."""
    repeats, errors = 60, 0
    for name, (build, *granted) in SYSTEMS.items():
        system, here = build(rule), 0
        for question in ASKED:
            found = certificates(system, repeats, sampling=QUESTIONS[question])
            here += wrong(system, found)
        assert suspicion(here, len(ASKED) * repeats, ALPHA * granted[RULES.index(rule)]) > SUSPICIOUS, name
        errors += here
    assert suspicion(errors, len(ASKED) * repeats * len(SYSTEMS), ALPHA) > SUSPICIOUS


def test_a_router_of_two_minds_is_no_loss_where_its_expert_agrees():
    """Between naming class 1 and passing to an expert of class 1 the rule "min" proves next to nothing."""
    system = {rule: SYSTEMS["passes, its own name is near"][0](rule) for rule in RULES}
    radii = {rule: np.mean([c.radius for c in certificates(system[rule], 200)]) for rule in RULES}
    assert radii["consensus"] > 3 * radii["min"]


@pytest.mark.parametrize("name", TIGHT)
def test_bounds_that_overspend_are_caught(name, monkeypatch):
    system = SYSTEMS[name][0]("consensus")
    right = naming_module.Pay.of
    monkeypatch.setattr(
        naming_module.Pay, "of", lambda alpha, *, picked, blind: right(16 * alpha, picked=picked, blind=blind)
    )
    assert suspicion(wrong(system, certificates(system)), REPEATS, ALPHA) < SUSPICIOUS


def test_a_rival_that_is_not_bounded_is_caught(monkeypatch):
    system = SYSTEMS["passes, its expert has no majority"][0]("consensus")
    assert any(c.radius > 0 for c in certificates(system))
    right = SmoothedRule._bounds
    monkeypatch.setattr(
        SmoothedRule,
        "_bounds",
        lambda rule, k, rival, n, alpha: (
            right(rule, k, rival, n, alpha) if rule.bound == "one-sided" else (k / n, rival / n)
        ),
    )
    assert suspicion(wrong(system, certificates(system)), REPEATS, ALPHA) < SUSPICIOUS


# The truth itself


def test_the_exact_regions_are_exact():
    """Classes by regions against shares of the votes computed at random points."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        low, high = np.sort(rng.normal(size=2))
        sigma = rng.uniform(0.1, 1.0)
        system = naming(X, [low, high], (0, 2, 1), sigma, smoothed(Y, [0.2], 0.5), "consensus")
        x = rng.normal(size=2) * 1.5
        q0, q1 = norm.cdf(low, x[0], sigma), 1 - norm.cdf(high, x[0], sigma)
        expected = 0 if q0 > 0.5 else 1 if q1 > 0.5 else int(x[1] > 0.2)
        assert system.at(x)[0] == expected


# Predictions


@pytest.mark.parametrize("rule", RULES)
def test_predictions_are_wrong_no_more_often_than_alpha(rule):
    for name, (build, *_) in SYSTEMS.items():
        system = build(rule)
        here, _ = system.at(np.zeros(2))
        found = system.scheme.predict(torch.zeros(400, 2), n=N, alpha=ALPHA, seed=2)
        errors = sum(p.predicted not in (None, here) for p in found)
        assert suspicion(errors, 400, ALPHA) > SUSPICIOUS, name
    sure = SYSTEMS["passes, the expert limits"][0](rule).scheme
    assert all(p.predicted == 1 for p in sure.predict(torch.tensor([[0.0, 1.5]] * 20), n=N, alpha=ALPHA))


def test_requests():
    router = sx.Smoothed(lambda batch: batch[:, 0].long(), sigma=1.0, classes=3)
    expert = sx.Smoothed(lambda batch: batch[:, 0].long(), sigma=0.5, classes=2)
    system = sx.Dual(router, [expert])
    assert "names or passes to 0.5" in repr(system)
    with pytest.raises(sx.RequestError, match="one class more than the expert"):
        sx.Dual(sx.Smoothed(lambda batch: batch, sigma=1.0, classes=4), [expert])
    with pytest.raises(sx.RequestError, match="router, which gets .* can never certify"):
        system.certify(torch.zeros(1, 2), n0=10, n=11, alpha=0.001)
    three = [sx.Smoothed(lambda batch: batch[:, 0].long(), sigma=1.0, classes=k) for k in (4, 3)]
    with pytest.raises(sx.RequestError, match="router, which gets .* can never predict"):
        sx.Dual(three[0], three[1:]).predict(torch.zeros(1, 2), n=11, alpha=0.002)


def test_a_class_that_most_draws_do_not_name_is_left_to_the_expert():
    """A class with the most votes, but not half of them, is not what is claimed: here the expert knows better."""

    def router(batch):
        place = torch.arange(len(batch)) % 50
        return torch.where(place < 19, 0, torch.where(place < 21, 1, torch.where(place < 31, 2, 3)))

    expert = sx.Smoothed(lambda batch: torch.ones(len(batch), dtype=torch.long), sigma=0.25, classes=3)
    system = sx.Dual(sx.Smoothed(router, sigma=0.5, classes=4, batch=50), [expert])
    found = system.certify(torch.zeros(5, 2), n0=100, n=1000, alpha=0.001)
    assert all(c.predicted == 1 and c.radius > 0.05 for c in found)
    assert not any("named" in stage.name for c in found for stage in c.stages)


def test_a_network_that_is_out_of_its_mind_names_nothing():
    told = models.Description(
        architecture="small-cnn", classes=10, input_shape=(1, 8, 8), options={"width": 4}, sigma=0.5
    )
    broken = models.create(told)
    with torch.no_grad():
        broken.network.linear.bias.fill_(torch.nan)
    router = sx.Smoothed(models.sureness(broken, names=True), sigma=0.5, classes=11)
    system = sx.Dual(router, [sx.Smoothed(models.create(told), sigma=0.25, classes=10)])
    with pytest.raises(sx.RunError, match="NaN logits"):
        system.certify(torch.rand(1, 1, 8, 8), n0=20, n=100, alpha=0.01)


def test_a_router_that_was_trained_for_routes_does_not_name():
    notes = {"router": {"experts": ["a", "b", "c"]}}
    told = models.Description(
        architecture="small-cnn", classes=3, input_shape=(1, 8, 8), options={"width": 4}, notes=notes
    )
    expert = sx.Smoothed(lambda batch: batch, sigma=0.25, classes=2)
    with pytest.raises(sx.RequestError, match="trained to choose among 3 experts, but there are 1"):
        sx.Dual(sx.Smoothed(models.create(told), sigma=0.5, classes=3), [expert])


def test_what_is_for_routes_is_refused(tmp_path):
    told = models.Description(architecture="small-cnn", classes=10, input_shape=(1, 8, 8), options={"width": 4})
    low, high = models.create(told), models.create(told)
    router = sx.Smoothed(models.sureness(high, names=True), sigma=0.5, classes=11)
    system = sx.Dual(router, [sx.Smoothed(low, sigma=0.25, classes=10)])
    digits = sx.data.load("digits")
    with pytest.raises(sx.RequestError, match="no routes to fine-tune experts for"):
        train.fine_tune(system, digits, tmp_path / "tuned", settings=train.Settings(epochs=1))
    run = sx.certify_run(system, digits, tmp_path / "run.jsonl", n0=10, n=50, alpha=0.05, maximum=3)
    with pytest.raises(sx.RequestError, match="no routes to tell apart"):
        report.routing(run)


def test_the_field_s_loop_asks_whoever_is_in_charge():
    """Two inputs: one that the router names, one that it passes."""
    router = sx.Smoothed(lambda b: torch.nn.functional.one_hot(2 - (b[:, 0] > 5).long(), 3), sigma=0.5, classes=3)
    expert = sx.Smoothed(lambda b: torch.nn.functional.one_hot((b[:, 0] > 0).long(), 2), sigma=0.25, classes=2)
    asked = field_loop.sampler(sx.Dual(router, [expert]), n0=10, n=20)
    assert asked(torch.tensor([9.0])) == ["router/base"]
    assert asked(torch.tensor([-9.0])) == ["router/base", "expert-0/base"]
