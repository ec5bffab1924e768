"""A round is bounded: inputs finish one after another, also where all ask look by look."""

import torch
from torch import nn

import sigmax as sx
from sigmax.certify.procedure import Ask, Look
from sigmax.noise import votes


def ask(n):
    return Ask("base", "estimation", 2, 0.5, n)


def test_the_first_inputs_come_first_and_looks_are_free():
    asked = {0: ask(50), 3: ask(60), 4: Look("base", "measure", 2), 7: ask(40), 9: ask(30)}
    assert list(votes.first_asks(asked, 100)) == [0, 4, 7]
    assert list(votes.first_asks({5: ask(1000), 6: ask(1)}, 100)) == [5]


def test_an_adaptive_run_that_is_cut_has_its_first_inputs(monkeypatch):
    """Inputs that need all their draws do not all end at the end."""
    cast = []

    class Coin(nn.Module):
        def forward(self, batch):
            cast.append(len(batch))
            return torch.stack([batch[:, 0], -batch[:, 0] - 10], 1)

    scheme = sx.Smoothed(Coin(), sigma=0.5, classes=2, batch=64)
    procedures = [
        scheme.rule.certifying(n0=32, n=10_000, alpha=1e-3, sampling=sx.Sampling("adaptive")) for _ in range(64)
    ]
    noisy = votes.Noisy(torch.zeros(64, 3), range(64), 0)
    found = votes.run(procedures, noisy, scheme.voters)
    first, _ = next(found)
    assert first == 0
    assert sum(cast) < 0.2 * 64 * 10_000
    assert [position for position, _ in found] == list(range(1, 64))
