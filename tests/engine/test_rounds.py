"""Rounds are bounded, so inputs finish one after another; on a GPU two teams take turns, and no record changes."""

import gc
import weakref

import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.engine import rounds
from sigmax.engine.inputs import Item, Noisy
from sigmax.rules.certificate import Role
from sigmax.rules.procedure import ScoreRequest, VoteRequest


def request(n):
    return VoteRequest("", Role.ESTIMATION, 2, sx.noise.Gaussian(0.5), n)


def test_the_first_inputs_come_first_and_scores_are_free():
    asked = {0: request(50), 3: request(60), 4: ScoreRequest("", 2), 7: request(40), 9: request(30)}
    assert list(rounds.first_requests(asked, 100)) == [0, 4, 7]
    assert list(rounds.first_requests({5: request(1000), 6: request(1)}, 100)) == [5]


def asking(*sizes):
    """What procedures ask that want so many votes each."""
    return rounds.Asking([iter([request(n)]) for n in sizes])


def test_there_are_two_teams_where_each_fills_a_batch():
    """Of every second input, so that the first ones still end first."""
    one, two = (asking(60, 50, 40, 50).in_teams(batch) for batch in (101, 100))
    assert [list(team.asked) for team in one] == [[0, 1, 2, 3]]
    assert [list(team.asked) for team in two] == [[0, 2], [1, 3]]


def test_a_team_that_joins_another_brings_what_was_cast_ahead():
    first, second = asking(60, 50, 40, 50).in_teams(100)
    first.ahead.keep(Item(0, (request(60),), ahead=True), ((40, 20),))
    second.ahead.keep(Item(3, (request(50),), ahead=True), ((30, 20),))
    first.join(second)
    assert (sorted(first.asked), second.asked) == ([0, 1, 2, 3], {})
    assert [first.ahead.take(i, first.asked[i]) for i in range(4)] == [((40, 20),), None, None, ((30, 20),)]


def test_two_teams_take_turns_and_share_what_a_round_may_fill(monkeypatch):
    monkeypatch.setattr(rounds, "HOST", "nowhere")
    monkeypatch.setattr(rounds, "MOST_BATCHES", 8)
    answered, answer = [], rounds.answer
    monkeypatch.setattr(rounds, "answer", lambda asked, *rest: answered.append(dict(asked)) or answer(asked, *rest))
    scheme = sx.Smoothed(nn.Flatten(), sigma=0.5, classes=3, batch=64)
    procedures = [scheme.rule.certifying(n0=32, n=256, alpha=1e-3) for _ in range(16)]
    assert len(list(rounds.run(procedures, Noisy(torch.zeros(16, 3), range(16), 0), scheme.voters))) == 16
    *turns, rest = answered
    assert [{i % 2 for i in asked} for asked in turns] == [{0}, {1}] * (len(turns) // 2) + [{0}] * (len(turns) % 2)
    assert all(sum(question.n for question in asked.values()) <= 4 * 64 for asked in answered)
    assert {i % 2 for i in rest} == {1}


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


@pytest.mark.parametrize("together", [False, True])
def test_results_are_handed_out_by_batches_or_by_rounds(together, monkeypatch):
    """Each time costs a change of every network's mode."""
    times, voting = [], rounds.voting
    monkeypatch.setattr(rounds, "voting", lambda voters: times.append(1) or voting(voters))
    scheme = sx.Smoothed(nn.Flatten(), sigma=0.5, classes=3, batch=64)
    procedures = [scheme.rule.certifying(n0=32, n=64, alpha=1e-3) for _ in range(16)]
    noisy = Noisy(torch.zeros(16, 3), range(16), 0)
    assert len(list(rounds.run(procedures, noisy, scheme.voters, together=together))) == 16
    assert len(times) == (2 if together else 17)


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


@pytest.mark.parametrize("host", ["cpu", "nowhere"])
@pytest.mark.parametrize("was_on", [True, False])
def test_an_error_in_the_middle_leaves_everything_as_it_was(host, was_on, monkeypatch):
    """Also where two teams take turns: networks in their mode, the collector as it was, and the next call works."""
    monkeypatch.setattr(rounds, "HOST", host)

    class Fails(nn.Module):
        seen, fails_at = 0, 0

        def forward(self, batch):
            self.seen += 1
            if self.seen == self.fails_at:
                raise ValueError("no more")
            assert not self.training
            collecting.append(gc.isenabled())
            return batch.flatten(1)

    collecting, network = [], Fails()
    scheme, x = sx.Smoothed(network, sigma=0.5, classes=3, batch=16), torch.rand(8, 3)
    before = scheme.certify(x, n=300, alpha=0.01)
    network.fails_at = network.seen // 2
    network.seen = 0
    if not was_on:
        gc.disable()
    try:
        with pytest.raises(ValueError, match="no more"):
            scheme.certify(x, n=300, alpha=0.01)
        assert (gc.isenabled(), network.training) == (was_on, True)
        assert scheme.certify(x, n=300, alpha=0.01) == before
        assert (gc.isenabled(), network.training) == (was_on, True)
    finally:
        gc.enable()
    assert not any(collecting[-50:])
