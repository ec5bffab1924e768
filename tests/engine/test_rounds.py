"""Rounds are bounded, so inputs finish one after another; on a GPU two teams take turns, and no record changes."""

import weakref

import torch
from torch import nn

import sigmax as sx
from sigmax.engine import rounds
from sigmax.engine.inputs import Noisy
from sigmax.rules.certificate import Role
from sigmax.rules.procedure import ScoreRequest, VoteRequest


def request(n):
    return VoteRequest("", Role.ESTIMATION, 2, sx.noise.Gaussian(0.5), n)


def test_the_first_inputs_come_first_and_scores_are_free():
    asked = {0: request(50), 3: request(60), 4: ScoreRequest("", 2), 7: request(40), 9: request(30)}
    assert list(rounds.first_requests(asked, 100)) == [0, 4, 7]
    assert list(rounds.first_requests({5: request(1000), 6: request(1)}, 100)) == [5]


def test_an_adaptive_run_that_is_cut_has_its_first_inputs(monkeypatch):
    """Inputs that need all their samples do not all end at the end."""
    monkeypatch.setattr(rounds, "MOST_BATCHES", 16)
    cast = []

    class Coin(nn.Module):
        def forward(self, batch):
            cast.append(len(batch))
            return torch.stack([batch[:, 0], -batch[:, 0] - 10], 1)

    scheme = sx.Smoothed(Coin(), sigma=0.5, classes=2, batch=64)
    procedures = [
        scheme.rule.certifying(n0=32, n=3_000, alpha=1e-3, sampling=sx.Sampling("adaptive")) for _ in range(64)
    ]
    noisy = Noisy(torch.zeros(64, 3), range(64), 0)
    found = rounds.run(procedures, noisy, scheme.voters)
    first, _ = next(found)
    assert first == 0
    assert sum(cast) < 0.2 * 64 * 3_000
    assert [position for position, _ in found] == list(range(1, 64))


def test_what_a_network_leaves_in_cycles_goes_with_its_batch():
    """Python does not look for it during a round, which may have thousands of batches."""
    alive, most = weakref.WeakSet(), []

    class Knot(nn.Module):
        def forward(self, batch):
            self_referring = {"batch": batch.clone()}
            self_referring["itself"] = self_referring
            alive.add(self_referring["batch"])
            most.append(len(alive))
            return batch.flatten(1)

    scheme = sx.Smoothed(Knot(), sigma=0.5, classes=3, batch=16)
    procedures = [scheme.rule.certifying(n0=16, n=2_000, alpha=1e-3) for _ in range(2)]
    assert len(list(rounds.run(procedures, Noisy(torch.zeros(2, 3), range(2), 0), scheme.voters))) == 2
    assert len(most) > 200
    assert max(most) <= 2
