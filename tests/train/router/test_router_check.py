import math

import numpy as np
import pytest
import torch
from scipy.special import ndtri
from torch import nn

import sigmax as sx
from sigmax.train.loop.progress import EpochReport
from sigmax.train.loop.quick_check import vote
from sigmax.train.router.check import ALPHA, SAMPLES, Watcher, newly_dying

SIGMA = 0.5


class Brightness(nn.Module):
    """Sends dark, middle and bright images three ways. The mean of 64 pixels has noise of sigma / 8."""

    def forward(self, images):
        mean = images.mean(dim=(1, 2, 3))
        return torch.stack([0.45 - mean, torch.full_like(mean, 0.0), mean - 0.55], dim=1)


def grey(levels):
    return torch.tensor(levels, dtype=torch.float32)[:, None, None, None].expand(-1, 1, 8, 8).clone()


def watcher(pixels, radii=None, **more):
    radii = np.tile([0.1, 0.2, 0.3], (len(pixels), 1)) if radii is None else np.asarray(radii, dtype=float)
    given = {"shares": (0.4, 0.3, 0.3), "sigma": SIGMA, "seed": 0, "epochs": 9, "advice": "Try more."}
    return Watcher(pixels, radii, routes=("dark", "middle", "bright"), **{**given, **more})


def test_votes_fall_as_often_as_they_must():
    """The exact chance of each route is known; 100,000 samples come within 4 standard errors."""
    counts = vote(
        Brightness(),
        grey([0.5] * 1000),
        SIGMA,
        classes=3,
        samples=SAMPLES,
        generator=torch.Generator().manual_seed(0),
    )
    assert (counts.sum(axis=1) == SAMPLES).all()
    outer = 0.5 * math.erfc(0.05 / (SIGMA / 8) / math.sqrt(2))
    assert (counts / SAMPLES).mean(axis=0) == pytest.approx([outer, 1 - 2 * outer, outer], abs=0.006)


def test_the_metrics_are_those_of_a_certified_run():
    """Same network, other noise: mean radius, routes and abstentions of 256 inputs agree with `Smoothed`."""
    pixels = grey(np.linspace(0.2, 0.8, 256).tolist())
    found = watcher(pixels)(Brightness(), 0)
    scheme = sx.Smoothed(Brightness(), sigma=SIGMA, classes=3)
    certificates = scheme.certify(pixels, n0=100, n=SAMPLES, alpha=ALPHA, seed=7)
    assert found["inputs"] == 256
    # A radius of a hundred samples wanders by some 0.08, so a mean of 256 by 0.005.
    assert found["radius"] == pytest.approx(np.mean([c.radius for c in certificates]), abs=0.02)
    assert found["abstained"] == pytest.approx(np.mean([c.predicted is None for c in certificates]), abs=0.06)
    votes = np.array([c.stages[0].counts for c in certificates])
    assert found["routes"] == pytest.approx((np.bincount(votes.argmax(1), minlength=3) / 256).tolist(), abs=0.04)


def test_a_sure_router_is_certified_as_far_as_the_samples_allow():
    best_for_each = [[0.3, 0.1, 0.2], [0.1, 0.2, 0.3], [0.0, 0.2, 0.1]]
    found = watcher(grey([0.0, 1.0, 1.0]), best_for_each)(Brightness(), 0)
    assert found["radius"] == pytest.approx(sx.radius.largest(SIGMA, SAMPLES, ALPHA))
    assert found["abstained"] == 0
    assert found["routes"] == pytest.approx([1 / 3, 0, 2 / 3])
    assert found["labels"] == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert found["matching"] == pytest.approx(2 / 3)
    assert found["lost"] == pytest.approx((0 + 0 + 0.1) / 3)
    assert found["warnings"] == []


def test_a_look_depends_on_seed_and_epoch_alone():
    pixels, model = grey(np.linspace(0.3, 0.7, 50).tolist()), Brightness()
    first = watcher(pixels)(model, 3)
    torch.rand(5)
    before = torch.random.get_rng_state()
    again = watcher(pixels)(model, 3)
    assert torch.equal(before, torch.random.get_rng_state())
    assert first == again
    assert first["radius"] != watcher(pixels)(model, 4)["radius"]
    assert first["radius"] != watcher(pixels, seed=1)(model, 3)["radius"]


HALF = [0.5, 0.3, 0.2]


@pytest.mark.parametrize(
    ("first_route", "epochs", "expected"),
    [
        ([0.5, 0.5, 0.5, 0.04, 0.04], 9, [4]),
        ([0.5, 0.5, 0.5, 0.04, 0.06, 0.04], 9, []),
        ([0.5, 0.5, 0.5, 0.04, 0.05], 9, []),
        ([0.0, 0.0, 0.0, 0.0, 0.3], 9, []),
        ([0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 9, [4]),
        ([0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0], 9, [6]),
        ([0.0, 0.0, 0.0], 3, [2]),
        ([0.0], 1, []),
    ],
)
def test_a_route_dies_in_two_epochs_in_a_row_after_the_first_third(first_route, epochs, expected):
    history = [[share, 0.9 - share, 0.1] for share in first_route]
    warned = [e for e in range(len(history)) if 0 in newly_dying(history[: e + 1], HALF, epochs)]
    assert warned == expected
    assert all(1 not in newly_dying(history[: e + 1], HALF, epochs) for e in range(len(history)))


def test_a_route_that_few_inputs_need_may_die():
    history = [[0.0, 0.5, 0.5]] * 6
    assert newly_dying(history[:5], [0.02, 0.49, 0.49], 9) == [0]
    assert newly_dying(history[:5], [0.019, 0.49, 0.491], 9) == []


def dying_watcher(heard, **more):
    """Half of the inputs belong to the dark route, and none is dark."""
    return watcher(grey([1.0] * 10), [[0.3, 0.1, 0.1]] * 5 + [[0.1, 0.1, 0.3]] * 5, on_warning=heard.append, **more)


def test_a_warning_is_given_once_with_numbers_and_advice():
    heard = []
    watch = dying_watcher(heard)
    found = [watch(Brightness(), epoch) for epoch in range(9)]
    assert [len(look["warnings"]) for look in found] == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert heard == found[4]["warnings"]
    for part in ("epoch 5 of 9", "the route to dark is dying", "best for 50.0%", "taken for 0.0%", "Try more."):
        assert part in heard[0]


def test_a_rare_route_is_not_missed_because_the_sample_has_some_of_its_inputs():
    watch = dying_watcher([], shares=(0.01, 0.39, 0.6))
    assert [watch(Brightness(), epoch)["warnings"] for epoch in range(9)] == [[]] * 9


@pytest.mark.parametrize("cut", range(9))
def test_a_resumed_watcher_sees_what_the_first_would_have(cut):
    heard = []
    whole = dying_watcher([])
    looks = [whole(Brightness(), epoch) for epoch in range(9)]
    resumed = dying_watcher(heard)
    resumed.remember([EpochReport(e + 1, 9, 0.0, 0.0, 0.1, 1.0, looks[e]) for e in range(cut)])
    assert [resumed(Brightness(), epoch) for epoch in range(cut, 9)] == looks[cut:]
    assert len(heard) == (1 if cut <= 4 else 0)


def test_what_is_attained_is_the_radius_of_the_consensus_rule():
    """Input by input, from the same counts: the theorem's own function, with the bounds that a certificate uses."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(SAMPLES, [0.7, 0.2, 0.1], 200)
    counts[:50] = rng.multinomial(SAMPLES, [0.02, 0.97, 0.01], 50)
    radii = rng.uniform(0, 0.5, (200, 3)) * (rng.random((200, 3)) < 0.7)
    found = watcher(grey([0.5] * 200), radii)._consensus(counts)
    for i, row in enumerate(counts):
        top = int(row.argmax())
        lead = ndtri(sx.bounds.lower(int(row[top]), SAMPLES, ALPHA))
        rivals = [ndtri(sx.bounds.upper(int(k), SAMPLES, ALPHA)) for k in row]
        reach = [0.0 if j == top else max(0.0, SIGMA / 2 * (lead - rivals[j])) for j in range(3)]
        certifies = radii[i, top] > 0  # else nothing is certified, or another class
        labels = [4 if r > 0 else None for r in radii[i]]
        expected = sx.radius.routed(reach, radii[i].tolist(), labels) if certifies else 0.0
        assert found[i] == pytest.approx(expected)
    assert (found > 0).sum() > 60
    found = watcher(grey([0.0, 1.0]), [[0.3, 0.1, 0.2], [0.0, 0.0, 0.4]])(Brightness(), 0)
    assert found["possible"] == pytest.approx(0.35)
    assert found["attained"] == pytest.approx(0.35)
