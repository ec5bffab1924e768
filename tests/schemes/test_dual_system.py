"""Dual as a system: shared networks, any kind of expert, and requests that are refused."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.engine.trial import SMALL
from tests.schemes.helpers import halfspace

# Systems


def undecided(rule="consensus", shift=1.0):
    """At the origin each route has half of the votes, and both experts see class 1 at a distance of `shift`."""
    router = sx.Smoothed(halfspace([1.0, 0.0]), sigma=1.0, classes=2)
    experts = [sx.Smoothed(halfspace([0.0, 1.0], shift), sigma=s, classes=2) for s in (0.5, 1.0)]
    return sx.Dual(router, experts, rule=rule)


ORIGIN = torch.zeros(1, 2)


def test_where_all_experts_agree_an_undecided_router_is_certified():
    (found,) = undecided().certify(ORIGIN, n=2000, alpha=1e-3)
    (published,) = undecided("min").certify(ORIGIN, n=2000, alpha=1e-3)
    assert published.outcome is sx.Outcome.ROUTER_UNDECIDED
    assert (found.outcome, found.predicted) == (sx.Outcome.CERTIFIED, 1)
    assert 0.8 < found.radius < 1.0  # of the true 1.0
    (guess,) = undecided().predict(ORIGIN, seed=0)
    assert guess.predicted == 1
    assert undecided("min").predict(ORIGIN, seed=0)[0].outcome is sx.Outcome.ROUTER_UNDECIDED


def test_a_system_may_hold_anything_that_certifies_also_another_system():
    planes = sx.Lipschitz(lambda batch: torch.stack([-batch[:, 1], batch[:, 1]], 1) / 2**0.5 + 0.5, 1.0, classes=2)
    outer = sx.Dual(sx.Smoothed(halfspace([1.0, 0.0], 0.5), sigma=1.0, classes=2), [planes, undecided()])
    x = torch.tensor([[-3.0, 1.0], [0.0, 1.0]])
    beside, between = outer.certify(x, n=2000)
    assert [stage.name for stage in beside.stages][-1] == "expert-0/score"
    assert (beside.predicted, beside.sigma) == (1, 0.0)
    assert 0.99 < beside.radius <= 1.0
    assert "expert-1/router/estimation" in {stage.name for stage in between.stages}
    assert "expert-1/expert-0/estimation" in {stage.name for stage in between.stages}
    assert between.predicted == 1
    assert sum(Fraction(entry.alpha) for entry in between.ledger) <= Fraction(1e-3)
    assert [p.predicted for p in outer.predict(x, seed=1)] == [1, 1]


@pytest.mark.parametrize("rule", ["min", "consensus"])
def test_batch_order_and_subset_change_no_certificate(rule):
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(12, 2))).float()
    whole = undecided(rule).certify(x, n0=20, n=300, alpha=0.05, ids=range(12))
    small = undecided(rule)
    for voter in small.voters.values():
        voter.batch, voter._batch_was_given = 7, True
    assert small.certify(x, n0=20, n=300, alpha=0.05, ids=range(12)) == whole
    picked = undecided(rule).certify(x[[9, 2, 5]], n0=20, n=300, alpha=0.05, ids=[9, 2, 5])
    assert picked == [whole[9], whole[2], whole[5]]


def test_no_two_parts_share_their_noise():
    seen = {}

    class Watching(nn.Module):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def forward(self, batch):
            seen.setdefault(self.name, []).append(batch.clone())
            return torch.zeros(len(batch), dtype=torch.long)

    names = ("router", "expert-0", "expert-1")
    router, *experts = (sx.Smoothed(Watching(name), sigma=1.0, classes=2, batch=100) for name in names)
    system = sx.Dual(router, experts)
    system.check(ORIGIN)  # full batches are tried here, and not again
    seen.clear()
    system.certify(ORIGIN, n0=100, n=100, alpha=0.5)
    rows = torch.cat([batch for name in seen for batch in seen[name] if len(batch) == 100])
    assert len(rows) >= 400  # the router's two stages and an expert's
    assert len(torch.unique(rows, dim=0)) == len(rows)


def test_a_network_that_serves_two_experts_is_one_voter_and_fills_its_batches():
    sizes = []

    class Network(nn.Module):
        def forward(self, batch):
            sizes.append(len(batch))
            return torch.zeros(len(batch), dtype=torch.long)

    network = Network()
    experts = [sx.Smoothed(network, sigma=s, classes=3) for s in (0.25, 0.5)]
    system = sx.Dual(sx.Smoothed(halfspace([1.0, 0.0]), sigma=0.5, classes=2), experts)
    assert system.voters["expert-0/base"] is system.voters["expert-1/base"]
    x = torch.tensor([[5.0, 0.0], [-5.0, 0.0]])
    system.check(x)  # full batches are tried here, and not again
    sizes.clear()
    found = system.certify(x, n0=10, n=100)
    assert {stage.name.split("/")[0] for c in found for stage in c.stages} == {"router", "expert-0", "expert-1"}
    assert [n for n in sizes if n != SMALL] == [20, 200]  # both experts in one batch, selection and then estimation


def test_experts_used_before_still_share_their_network():
    network = halfspace([0.0, 1.0])
    experts = [sx.Smoothed(network, sigma=s, classes=2) for s in (0.25, 0.5)]
    flat = sx.Smoothed(lambda batch: network(batch[:, :2]), sigma=0.5, classes=2)
    flat.certify(torch.zeros(1, 2000), n=100)
    assert flat.voters["base"].batch < experts[0].voters["base"].batch  # a batch follows what was seen last
    experts[0].voters["base"].batch = flat.voters["base"].batch
    system = sx.Dual(sx.Smoothed(halfspace([1.0, 0.0]), sigma=0.5, classes=2), experts)
    assert system.voters["expert-0/base"] is system.voters["expert-1/base"]


def test_a_shared_network_that_takes_sigma_is_told_the_sigma_of_its_noise():
    seen = []

    class Denoiser(nn.Module):
        takes_sigma = True

        def forward(self, batch, sigma):
            if len(batch) > SMALL:
                seen.append((sigma, float(batch[:, 1].std())))
            return torch.zeros(len(batch), dtype=torch.long)

    network = Denoiser()
    experts = [sx.Smoothed(network, sigma=s, classes=2) for s in (0.25, 1.0)]
    system = sx.Dual(sx.Smoothed(halfspace([1.0, 0.0]), sigma=1.0, classes=2), experts)
    x = torch.tensor([[6.0, 0.0], [-6.0, 0.0], [0.0, 0.0]])
    system.check(x)  # full batches are tried here, and not again
    seen.clear()
    system.certify(x, n0=500, n=500)
    assert {sigma for sigma, _ in seen} == {0.25, 1.0}
    assert all(spread == pytest.approx(sigma, rel=0.15) for sigma, spread in seen)


def test_groups_are_cut_by_the_networks_that_vote():
    voting = [sx.Smoothed(halfspace([0.0, 1.0], b), sigma=0.5, classes=2, batch=32) for b in (0.0, 1.0)]
    planes = sx.Lipschitz(lambda batch: batch, 1.0, classes=2)
    system = sx.Dual(voting[0], [voting[1], planes])
    assert system.group(20) == voting[0].group(20) < planes.group(20)


def test_networks_that_vote_otherwise_are_not_one():
    def network(batch):
        return torch.zeros(len(batch), 2)

    router = sx.Smoothed(halfspace([1.0, 0.0]), sigma=0.5, classes=3)
    experts = [
        sx.Smoothed(network, sigma=0.5, classes=2),
        sx.Smoothed(network, sigma=0.5, classes=2, dtype=torch.bfloat16),
        sx.Lipschitz(network, 1.0, classes=2),
    ]
    voters = sx.Dual(router, experts).voters
    assert len({id(voter) for voter in voters.values()}) == 4


# Requests


def expert(**changes):
    return sx.Smoothed(**{"model": halfspace([0.0, 1.0]), "sigma": 0.5, "classes": 2, **changes})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"experts": [expert()]}, "router has 2 routes, but there are 1 experts; give one expert for each"),
        ({"experts": [expert()] * 3}, "router has 2 routes, but there are 3 experts"),
        ({"experts": []}, "but there are 0 experts"),
        (
            {"router": sx.Smoothed(halfspace([1.0, 0.0]), sigma=1.0, classes=3), "experts": [expert()]},
            "router has 3 routes, but there are 1 experts; .* answers or defers belongs in a Cascade",
        ),
        ({"experts": [expert(), expert(classes=3)]}, "same classes; they have 2, 3"),
        ({"router": halfspace([1.0, 0.0])}, "router must be a Smoothed classifier .* got function"),
        (
            {"router": sx.Lipschitz(lambda b: b, 1.0, classes=2)},
            "must be a Smoothed classifier .* got Lipschitz",
        ),
        ({"router": undecided()}, "router must be a Smoothed classifier .* got Dual"),
        ({"experts": [expert(), halfspace([0.0, 1.0])]}, "an expert must be a scheme such as"),
        ({"experts": expert()}, "experts must be a list of schemes, one for each route; got Smoothed"),
        ({"experts": None}, "experts must be a list of schemes, one for each route; got NoneType"),
        ({"rule": "max"}, "rule must be one of consensus, min; got 'max'"),
        ({"experts": [expert(), expert(domain=[0.0, 1.0])]}, "same range of inputs"),
        (
            {"experts": [expert(), expert(domain=None)]},
            "same range of inputs; their domains are router: images, expert-0: images, expert-1: None",
        ),
    ],
)
def test_a_system_that_makes_no_sense_is_refused(arguments, message):
    router = sx.Smoothed(halfspace([1.0, 0.0]), sigma=1.0, classes=2)
    with pytest.raises(sx.RequestError, match=message):
        sx.Dual(**{"router": router, "experts": [expert(), expert()], **arguments})


def test_experts_may_come_from_a_generator():
    system = sx.Dual(sx.Smoothed(halfspace([1.0, 0.0]), sigma=1.0, classes=2), (expert() for _ in range(2)))
    assert len(system.experts) == 2


def test_a_router_with_less_noise_than_its_experts_is_pointed_out():
    router = sx.Smoothed(halfspace([1.0, 0.0]), sigma=0.25, classes=2)
    with pytest.warns(
        UserWarning, match=r"sigma 0.25 is below the largest sigma of its experts, 0.5: .* limits"
    ) as warned:
        sx.Dual(router, [expert(sigma=0.12), expert(sigma=0.5)])
    assert warned[0].filename == __file__
    inner = undecided()  # its experts' largest noise is 1.0, whatever its own router has
    with pytest.warns(UserWarning, match=r"largest sigma of its experts, 1:"):
        sx.Dual(sx.Smoothed(halfspace([1.0, 0.0]), sigma=0.5, classes=2), [inner, expert()])


@pytest.mark.filterwarnings("error")
def test_a_router_with_enough_noise_is_not():
    undecided()
    planes = sx.Lipschitz(lambda batch: batch, 1.0, classes=2)
    sx.Dual(sx.Smoothed(halfspace([1.0, 0.0]), sigma=0.1, classes=2), [planes, planes])


@pytest.mark.parametrize(
    ("rule", "call", "message"),
    [
        ("consensus", {"n": 11}, r"expert-0, which gets 0.00025 of alpha=0.001: n=11 samples .* use n >= 12"),
        ("min", {"n": 10}, r"expert-0, which gets 0.0005 of alpha=0.001: n=10 samples .* use n >= 11"),
        ("consensus", {"n": 0}, "n must be a whole number of samples"),
        ("consensus", {"n0": 0}, "n0 must be a whole number of samples"),
        ("consensus", {"alpha": 0}, "alpha must lie strictly between 0 and 1"),
        ("min", {"alpha": 1.0}, "alpha must lie strictly between 0 and 1"),
    ],
)
def test_too_few_samples_for_a_parts_share_are_refused(rule, call, message):
    with pytest.raises(sx.RequestError, match=message):
        undecided(rule).certify(ORIGIN, **call)


def test_a_router_that_could_never_decide_is_refused_by_the_published_rule_only():
    planes = sx.Lipschitz(lambda batch: batch, 1.0, classes=2)
    router = sx.Smoothed(halfspace([1.0, 0.0]), sigma=1.0, classes=2)
    with pytest.raises(sx.RequestError, match="router, which gets 0.0005 of alpha=0.001: n=5"):
        sx.Dual(router, [planes, planes], rule="min").certify(ORIGIN, n=5)
    (found,) = sx.Dual(router, [planes, planes]).certify(torch.tensor([[0.0, 3.0]]), n=5)
    assert found.predicted == 1  # it may have been of either route, and both say so
    with pytest.raises(sx.RequestError, match="expert-0, which gets 0.0005 of alpha=0.001: n=11 samples can never"):
        undecided().predict(ORIGIN, n=11)
    with pytest.raises(sx.RequestError, match="router, which gets 0.0005 of alpha=0.001: n=11 samples can never"):
        sx.Dual(router, [planes, planes], rule="min").predict(ORIGIN, n=11)


def test_every_part_checks_the_inputs_for_its_own_noise():
    system = sx.Dual(sx.Smoothed(halfspace([1.0, 0.0]), sigma=1.0, classes=2), [expert(sigma=1e-8), expert(sigma=0.5)])
    with pytest.raises(sx.RequestError, match="sigma=1e-08 is too small beside inputs"):
        system.certify(torch.ones(1, 2))


def test_schemes_are_printed_in_short():
    inner = undecided("min")
    planes = sx.Lipschitz(lambda batch: batch, 2.0, classes=2)
    router = sx.Smoothed(halfspace([1.0, 0.0]), sigma=1.0, classes=3)
    assert repr(planes) == "Lipschitz(constant 2, 2 classes)"
    assert repr(expert(sigma=0.25)) == "Smoothed(sigma 0.25, 2 classes)"
    tree = sx.Dual(router, [expert(sigma=0.25), planes, inner])
    assert repr(inner) == "Dual(min, router sigma 1, experts 0.5 / 1, 2 classes)"
    assert repr(tree) == f"Dual(consensus, router sigma 1, experts 0.25 / {planes!r} / {inner!r}, 2 classes)"
