"""Splitting: exact certificates of whole schemes, compared with every small image there is."""

import subprocess
import sys
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.noise import Uniform
from sigmax.radius.splitting import Split
from tests.schemes.schemes import linear

GRID = 3
IMAGES = torch.tensor(list(product(range(GRID + 1), repeat=4)), dtype=torch.float32).view(-1, 1, 2, 2) / GRID


def small(seed: int = 0, classes: int = 3) -> nn.Module:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, classes))
    with torch.no_grad():
        net[1].weight.mul_(6)
    return net.eval()


def nearest_other(classes):
    """l1 distances, in steps, of every image to the nearest one that is not surely of its class."""
    steps = (IMAGES.flatten(1) * GRID).round()
    apart = torch.cdist(steps, steps, p=1)
    known = torch.tensor([-1 if c is None else c for c in classes])
    other = (known[:, None] != known[None]) | (known[None] < 0)
    return torch.where(other, apart, torch.inf).min(1).values


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_no_image_within_a_radius_has_another_class(scale, seed):
    f = sx.Splitting(small(seed), scale=scale, grid=GRID, classes=3, batch=37)
    found = f.certify(IMAGES)
    predicted = [p.predicted for p in f.predict(IMAGES)]
    assert [c.predicted for c in found] == predicted
    truth = nearest_other(predicted)
    for c, t in zip(found, truth.tolist(), strict=True):
        assert c.predicted is None or c.radius < t / GRID
    assert any(c.radius > 1 / GRID for c in found)
    assert all(c.ledger == () and sum(c.stages[0].counts) == 2 * scale * GRID for c in found)


def test_a_cascade_and_a_dual_hold_for_all_images_too():
    """What they are is predicted for every image; certificates of some are held against all within their radius."""
    last = sx.Splitting(small(1), scale=2.0, grid=GRID, classes=3)
    first = sx.Smoothed(small(2), noise=Uniform(2.0), classes=3)
    router = sx.Smoothed(small(3, 2), noise=Uniform(2.0), classes=2)
    far = 0
    steps = (IMAGES.flatten(1) * GRID).round()
    for scheme in (sx.Cascade([first], last, thresholds=0.6), sx.Dual(router, [last, first])):
        assert scheme.rule.norm == "l1"
        classes = [p.predicted for p in scheme.predict(IMAGES, n=2_000, seed=1)]
        chosen = range(0, len(IMAGES), 4)
        found = scheme.certify(IMAGES[chosen], n0=50, n=1_000, ids=chosen)
        for i, c in zip(chosen, found, strict=True):
            apart = (steps - steps[i]).abs().sum(1) / GRID
            within = {classes[j] for j in (apart <= c.radius).nonzero()[:, 0].tolist()}
            assert c.predicted is None or within <= {c.predicted, None}
        assert any(c.radius for c in found)
        far += sum(c.radius > 1 / GRID for c in found)
        parts = {stage.name for c in found for stage in c.stages}
        assert parts & {"last/offsets", "expert-0/offsets"}
    assert far >= 3


def test_no_alpha_goes_to_what_is_certain():
    last = sx.Splitting(small(1), scale=1.0, grid=GRID, classes=3)
    first = sx.Smoothed(small(2), noise=Uniform(1.0), classes=3)
    cascade = sx.Cascade([first], last)
    assert cascade.rule.alpha_split(0.01) == (0.01, 0.01)
    assert cascade.grid == GRID
    assert cascade.noise_grid is None
    assert not last.rule.is_random


def test_batches_hold_the_offsets_of_several_images_and_scales():
    """One network under two scales is one voter, and its batches mix both."""
    net = small()
    router = sx.Smoothed(small(3, 2), noise=Uniform(1.0), classes=2)
    alone = [sx.Splitting(net, scale=scale, grid=GRID, classes=3) for scale in (0.5, 2.0)]
    both = sx.Dual(router, [sx.Splitting(net, scale=s, grid=GRID, classes=3, batch=50) for s in (0.5, 2.0)])
    found = both.certify(IMAGES[:40], n=200)
    for i, one in enumerate(zip(*(f.certify(IMAGES[:40]) for f in alone), strict=True)):
        for stage in found[i].stages:
            if stage.part.startswith("expert-"):
                assert stage.counts == one[int(stage.part[-1])].stages[0].counts


def test_inputs_off_the_grid_are_refused():
    f = sx.Splitting(linear(), scale=0.5, classes=10)
    with pytest.raises(sx.RequestError, match=r"multiples of 1/255.*input 0 holds .*round them"):
        f.certify(torch.full((1, 1, 8, 8), 0.3001))
    cascade = sx.Cascade([sx.Smoothed(linear(), noise=Uniform(1.0), classes=10)], f)
    with pytest.raises(sx.RequestError, match=r"multiples of 1/255"):
        cascade.certify(torch.full((1, 1, 8, 8), 0.3001))
    as_stored = torch.randint(0, 256, (2, 1, 8, 8), dtype=torch.uint8)
    assert f.certify(as_stored) == f.certify(as_stored / 255)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "give either scale= or noise="),
        ({"scale": 0.5, "noise": Split(255)}, "give either scale= or noise="),
        ({"noise": Split(100, 50), "grid": 50}, "grid= and seed= go with scale="),
        ({"noise": Split(100, 50), "seed": 0}, "grid= and seed= go with scale="),
        ({"scale": -1.0}, "scale must be a positive number"),
        ({"scale": 0.5, "grid": 2.5}, "grid must be a whole number"),
        ({"scale": 0.5, "seed": -1}, "seed must be a whole number"),
        ({"scale": 0.5, "classes": 1}, "classes must be a whole number"),
    ],
)
def test_bad_settings_are_refused(options, named):
    with pytest.raises(sx.RequestError, match=named):
        sx.Splitting(linear(), **{"classes": 10, **options})


def test_targets_beyond_all_offsets_are_refused():
    f = sx.Splitting(linear(), scale=0.5, grid=16, classes=10)
    with pytest.raises(sx.RequestError, match="this system proves at most 0.5000, .* use more noise, or ask"):
        f.certify(torch.zeros(1, 1, 8, 8), sampling="adaptive", targets=(0.6,))


def test_norms_must_agree_and_levels_must_not_be_certain():
    f = sx.Splitting(linear(), scale=0.5, classes=10)
    with pytest.raises(sx.RequestError, match="the same norm; they have level-0: l2, last: l1.*noise with l1"):
        sx.Cascade([sx.Smoothed(linear(), sigma=0.5, classes=10)], f)
    with pytest.raises(sx.RequestError, match="level-0 must be a Smoothed classifier"):
        sx.Cascade([f], f)
    with pytest.raises(sx.RequestError, match="a selective model belongs in a level"):
        sx.Splitting(sx.models.selective(linear(), confidence=0.5), scale=0.5, classes=10)


@pytest.mark.parametrize("bound", ["one-sided", "runner-up"])
def test_some_offsets_are_no_samples(bound):
    """The first of the offsets say nothing of the rest: votes on them have no confidence bound."""
    with pytest.raises(sx.RequestError, match=r"noise must be a distribution .* got Split\(.*use sx.Splitting"):
        sx.Smoothed(lambda batch: (batch[:, 0] > 0.5).long(), noise=Split(1000), classes=2, bound=bound)


def test_a_record_is_verified_without_torch(tmp_path):
    f = sx.Splitting(linear(), scale=0.5, grid=16, classes=10)
    run = sx.certify_run(f, sx.data.load("digits"), tmp_path / "run.jsonl", maximum=12)
    assert run.plan.norm == "l1"
    code = f"import sigmax, sys; v = sigmax.verify({str(run.path)!r}); print(v.holds, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]
    assert np.all(run.frame()["sigma"] == 0.5)
    with pytest.raises(sx.RequestError, match="of a deterministic classifier, which samples no votes"):
        sx.report.vote_shares(run)
