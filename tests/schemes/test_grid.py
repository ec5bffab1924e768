"""Noise on the grid of 8-bit images: what floats leak and it does not, in every scheme and its records."""

import json

import numpy as np
import pytest
import torch
from scipy import stats

import sigmax as sx
from sigmax import models
from sigmax.errors import RequestError
from sigmax.systems import fingerprint
from tests.schemes.schemes import Router, linear, registered

SHAPE = (3, 32, 32)
ZERO, ONE_STEP = torch.zeros(1, *SHAPE), torch.full((1, *SHAPE), 1 / 255)
APART = (ONE_STEP - ZERO).double().norm().item()  # 0.217
FINE, NEAR = 2.0**-32, 2.0**-9


def reads_low_bits(batch):
    """Class 1 where every small number is a multiple of 2^-32, as sums with 1/255 are; noise alone is finer."""
    small = batch.abs() < NEAR
    coarse = (batch / FINE).frac() == 0
    return (coarse | ~small).flatten(1).all(1).long()


def test_noise_in_floats_leaks_the_image_and_certifies_falsely():
    """The gap of every implementation that adds floats: two certificates contradict each other."""
    f = sx.Smoothed(reads_low_bits, sigma=0.5, classes=2)
    at_zero, beside = f.certify(torch.cat([ZERO, ONE_STEP]), n=1000)
    assert (at_zero.predicted, beside.predicted) == (0, 1)
    assert beside.stages[-1].counts == (0, 1000)
    assert min(at_zero.radius, beside.radius) > 5 * APART


def test_on_the_grid_the_same_classifier_learns_nothing():
    f = sx.Smoothed(reads_low_bits, sigma=0.5, classes=2, grid=255)
    at_zero, beside = f.certify(torch.cat([ZERO, ONE_STEP]), n=1000)
    assert at_zero.predicted == beside.predicted == 1
    assert at_zero.stages[-1].counts == beside.stages[-1].counts == (0, 1000)


def test_radii_do_not_pass_the_boundary_after_rounding():
    """The first number alone decides, at sigma = 2.55 steps: f after rounding is a half-space, 4.5 steps away."""
    first_is_large = lambda batch: (batch[:, 0] * 255 > 99.5).long()  # noqa: E731
    f = sx.Smoothed(first_is_large, sigma=0.01, classes=2, grid=255)
    steps = torch.full((400, 2), 104.0)
    found = f.certify(steps / 255, n0=10, n=200, alpha=0.05)
    votes = np.array([c.stages[-1].counts[1] for c in found])
    assert stats.binomtest(int(votes.sum()), 200 * 400, stats.norm.cdf(4.5 / 2.55)).pvalue > 1e-3
    wrong = sum(c.radius > 4.5 / 255 for c in found)
    assert wrong > 0
    assert stats.binomtest(wrong, 400, 0.05, alternative="greater").pvalue > 1e-4


def built(name, model, classes, grid):
    """Every scheme with noise, small."""
    one = lambda net, sigma, k=classes: sx.Smoothed(net, sigma=sigma, classes=k, grid=grid, batch=64)  # noqa: E731
    points = np.random.default_rng(0).random((50, 64), dtype=np.float32)
    router = registered(seed=1, classes=2) if isinstance(model, models.Classifier) else Router()
    return {
        "smoothed": lambda: one(model, 0.5),
        "dual": lambda: sx.Dual(one(router, 0.5, 2), [one(model, 0.25), one(model, 0.5)]),
        "cascade": lambda: sx.Cascade([one(models.selective(model, confidence=0.3), 0.5)], one(model, 0.25)),
        "multiscale": lambda: sx.Multiscale(model, sigmas=(0.25, 0.5), classes=classes, grid=grid, batch=64),
        "semi-elastic": lambda: sx.SemiElastic(
            model,
            field=sx.NearestNeighbourSigma(points, base=0.25, rate=0.02, k=5, offset=3.0),
            classes=classes,
            grid=grid,
            batch=64,
        ),
        "memorized": lambda: sx.Memorized(
            model, sigma0=0.25, classes=classes, search="grid", steps=3, noises=4, grid=grid, batch=64
        ),
    }[name]()


class OnGrid(torch.nn.Module):
    """Passes batches on, and keeps whether all of them were the floats nearest to multiples of 1/255."""

    def __init__(self, net):
        super().__init__()
        self.net, self.batches = net, []

    def forward(self, batch):
        self.batches.append(torch.equal(batch, ((batch.double() * 255).round() / 255).float()))
        return self.net(batch)


SCHEMES = ("smoothed", "dual", "cascade", "multiscale", "semi-elastic", "memorized")
IMAGES = np.random.default_rng(2).integers(0, 256, (4, 1, 8, 8), dtype=np.uint8)
SAMPLES = {"n0": 20, "n": 100, "alpha": 0.05}


@pytest.mark.parametrize("name", SCHEMES)
def test_networks_of_every_scheme_vote_on_the_grid_alone(name):
    net = OnGrid(linear())
    scheme = built(name, net, 10, 255)
    x = scheme.check(IMAGES)
    own = scheme.own_noise(x, range(len(x)), 0)  # a search for sigma may try floats: no bound rests on it
    net.batches.clear()
    scheme.check, scheme.own_noise = lambda x: x, lambda *_: own
    scheme.certify(x, **SAMPLES)
    scheme.certify(x, **SAMPLES, sampling="adaptive")
    scheme.predict(x, n=100, alpha=0.05, seed=0)
    assert net.batches
    assert all(net.batches)


@pytest.mark.parametrize("name", SCHEMES)
def test_the_grid_is_part_of_a_system_and_of_its_records(name, tmp_path):
    model = registered()
    scheme, floats = built(name, model, 10, 255), built(name, model, 10, None)
    assert fingerprint(scheme) != fingerprint(floats)
    assert "grid" not in json.dumps(floats.rule.describe()).replace('"search": "grid"', "")
    assert fingerprint(sx.systems.on_grid(floats, 255)) == fingerprint(scheme)
    again = sx.load(scheme.save(tmp_path / "system"))
    assert again.grid == 255
    assert again.rule == scheme.rule
    images = (IMAGES.astype(np.float32) / 255, [0, 1, 2, 3])
    run = sx.certify_run(again, images, tmp_path / "run.jsonl", **SAMPLES, watch=sx.silent)
    assert '"grid":255' in (tmp_path / "run.jsonl").read_text()
    assert sx.verify(run).holds
    with pytest.raises(RequestError, match="grid"):
        sx.certify_run(floats, images, tmp_path / "run.jsonl", **SAMPLES, watch=sx.silent)


def test_inputs_off_the_grid_are_refused():
    f = sx.Smoothed(linear(), sigma=0.5, classes=10, grid=255)
    whole = torch.from_numpy(IMAGES)
    exact = whole / 255
    for same in (IMAGES, exact, exact.double(), whole * np.float32(1 / 255), torch.nextafter(exact, exact + 1)):
        assert torch.equal(f.check(same), exact)
    for x in (exact * 0.999, exact + 1e-6, exact.half(), exact / 2):
        with pytest.raises(RequestError, match=r"multiples of 1/255.*input 0 holds 0\..*leave out grid"):
            f.certify(x.clamp(0, 1))
        with pytest.raises(RequestError, match="multiples of 1/255"):
            f.predict(x.clamp(0, 1))
    with pytest.raises(RequestError, match="multiples of 1/255"):  # beyond what 32 bits count exactly
        sx.Smoothed(linear(), sigma=9.0, classes=10, grid=255, domain=None).check(torch.full((1, 64), 20_000.0))


def test_parts_must_share_a_grid_and_those_without_noise_have_none():
    net = linear(2)
    one = lambda grid: sx.Smoothed(net, sigma=0.5, classes=2, grid=grid)  # noqa: E731
    for router, expert in ((255, None), (None, 255), (255, 65535)):
        with pytest.raises(RequestError, match=f"same grid, or none; they have router: {router}, expert-0: {expert}"):
            sx.Dual(one(router), [one(expert), one(expert)])
    assert sx.Dual(one(255), [one(255), sx.Lipschitz(net, 1.0, classes=2)]).grid == 255
    with pytest.raises(RequestError, match="belongs to the noise"):
        sx.Smoothed(net, noise=sx.noise.Gaussian(0.5), grid=255, classes=2)
    assert "grid 255" in repr(one(255))
