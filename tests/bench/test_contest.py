"""The contest runs every scheme, and the reference loop casts the votes that it is described to cast."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax.bench import contest as contest_module
from sigmax.bench import forward
from sigmax.bench.contest import Conditions, contest
from sigmax.bench.contest import _reference as reference
from sigmax.bench.reference_loop import certify
from sigmax.models import selective

X = torch.rand(3, 1, 4, 4, generator=torch.Generator().manual_seed(0)).mul(255).round() / 255
ASKED = Conditions(n0=10, n=100, alpha=0.01, radius=0.1, reference_inputs=1, seconds=0.0)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(forward, "SECONDS", 0.01)


def linear(classes=3, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, classes))


def smoothed(sigma=0.25, *, classes=3, seed=0, model=None):
    return sx.Smoothed(model or linear(classes, seed), sigma=sigma, classes=classes)


def dual():
    return sx.Dual(smoothed(0.5, classes=2), [smoothed(0.25), smoothed(0.5, seed=1)])


def cascade(confidence=0.6):
    levels = [smoothed(1.0, model=selective(linear(), confidence=confidence))]
    return sx.Cascade(levels, last=dual())


SCHEMES = {
    "smoothed": smoothed,
    "class ids": lambda: smoothed(model=lambda batch: batch.flatten(1)[:, :3].numpy().argmax(1)),
    "dual": dual,
    "cascade": cascade,
    "multiscale": lambda: sx.Multiscale(linear(), sigmas=(0.25, 0.5, 1.0), classes=3),
    "semi-elastic": lambda: sx.SemiElastic(
        linear(), field=sx.VouchedField(lambda x: np.full(len(x), 0.3), rate=0.0), classes=3, dim=16
    ),
    "memorized": lambda: sx.Memorized(linear(), sigma0=0.25, classes=3, search="grid", steps=3),
    "uniform": lambda: sx.Smoothed(linear(), noise=sx.noise.Uniform(0.5), classes=3),
    "splitting": lambda: sx.Cascade(
        [sx.Smoothed(linear(), noise=sx.noise.Uniform(0.5), classes=3)],
        sx.Splitting(linear(), scale=0.25, classes=3),
    ),
    "lipschitz": lambda: sx.Lipschitz(linear(), 2.0, classes=3),
}


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.filterwarnings("ignore:operator")
def test_every_scheme_is_measured_beside_the_reference_loop(name):
    rows = list(contest(SCHEMES[name](), SCHEMES[name](), X, ASKED))
    assert rows[0].contender == "reference loop"
    assert rows[0].ratio == 1
    assert rows[0].inputs == 1
    assert len(rows) >= 4
    assert all(row.inputs == 3 and row.samples_per_input > 0 and row.ratio > 0 for row in rows[1:])
    assert all(row.of_ceiling == pytest.approx(row.votes_per_s / row.ceiling_votes_per_s) for row in rows)


def test_what_is_done_soon_is_done_again_and_shares_of_the_ceiling_agree_with_the_votes_a_second(monkeypatch):
    loops = []
    monkeypatch.setattr(contest_module, "_reference", lambda *given: loops.append(1) or reference(*given))
    rows = list(contest(smoothed(), smoothed(), X, replace(ASKED, seconds=0.2)))
    assert len(loops) > 2
    assert len({round(row.ceiling_votes_per_s, 3) for row in rows}) == 1  # one network, so one ceiling
    for row in rows:
        assert row.of_ceiling == pytest.approx(row.votes_per_s / row.ceiling_votes_per_s)
        assert row.votes_per_s == pytest.approx(row.samples_per_input / row.s_per_input)
        assert row.ratio == pytest.approx(rows[0].s_per_input / row.s_per_input)


def voted(scheme, n0=10, n=20):
    return dict(certify(scheme, X[0], n0=n0, n=n)[1])


def test_the_reference_loop_asks_one_expert_and_goes_down_a_cascade():
    assert voted(smoothed()) == {"base": 30}
    (router, expert) = voted(dual())
    assert router == "router/base"
    assert expert in ("expert-0/base", "expert-1/base")
    assert voted(cascade(confidence=1e-6)) == {"level-0/base": 30}
    names = list(voted(cascade(confidence=1 - 1e-6)))
    assert names[:2] == ["level-0/base", "last/router/base"]
    assert len(names) == 3
    assert set(voted(SCHEMES["lipschitz"]()).values()) == {1}
