"""Noise in whole steps of a grid: exact sums, however they are computed, and a distribution known exactly."""

import numpy as np
import pytest
import torch
from scipy import stats

from sigmax.engine.fillers import CpuFiller, DeviceFiller
from sigmax.engine.inputs import Item, Noisy
from sigmax.errors import RequestError
from sigmax.noise import Gaussian
from sigmax.noise.gaussian import SAMPLER, block
from sigmax.radius.noise import described, noise_from
from sigmax.rules.certificate import Role
from sigmax.rules.procedure import VoteRequest

FILLERS = [
    pytest.param(CpuFiller, "cpu", id="blocks"),
    pytest.param(DeviceFiller, "cpu", id="philox"),
    pytest.param(
        DeviceFiller,
        "cuda",
        id="kernel",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    ),
]


def copies(filler, device, x, noise, n=128):
    """n noisy copies of every input, (inputs, n, ...); all have the id 0, and so the same noise."""
    items = [Item(i, (VoteRequest("", Role.ESTIMATION, 2, noise, n),)) for i in range(len(x))]
    same_noise = Noisy(x, [0] * len(x), seed=7)
    batch, _ = filler(same_noise, items, n * len(x), torch.device(device)).fill([(i, 0, n) for i in range(len(x))])
    return batch.reshape(len(x), n, *x.shape[1:]).cpu()


@pytest.mark.parametrize(("filler", "device"), FILLERS)
@pytest.mark.parametrize("grid", [255, 1, 65535])
def test_copies_are_the_floats_nearest_to_whole_steps_and_move_with_the_input(filler, device, grid):
    """Whatever the input, a copy is a function of one whole number: that of the input plus that of the noise."""
    steps = torch.linspace(0, grid, 64).round()[:, None].expand(-1, 9)
    found = copies(filler, device, (steps / grid).contiguous(), Gaussian(0.37, grid))
    whole = (found.double() * grid).round()
    assert torch.equal(found, (whole / grid).float())
    noise = whole - steps[:, None].double()
    assert torch.equal(noise, noise[:1].expand_as(noise))
    assert noise.std() > 0.2 * grid


@pytest.mark.parametrize(("filler", "device"), FILLERS)
def test_the_noise_is_that_of_floats_rounded(filler, device):
    zero = torch.zeros(1, 50)
    floats, rounded = (copies(filler, device, zero, Gaussian(0.25, grid)) for grid in (None, 255))
    assert torch.equal((rounded * 255).round(), (floats * 255).round())


def test_steps_have_the_chances_of_a_rounded_normal():
    noise = Gaussian(0.01, 255)  # 2.55 steps: the rounding matters
    samples = block(seed=1, input_id=0, stage="s", index=0, shape=(2000,))
    SAMPLER.add_to(np.zeros(2000, dtype=np.float32), noise, samples.numpy())
    steps = (samples * 255).round().long().flatten()
    counted = torch.bincount(steps.clamp(-9, 9) + 9, minlength=19).numpy()
    edges = np.concatenate([[-np.inf], np.arange(-8.5, 9), [np.inf]])
    expected = np.diff(stats.norm.cdf(edges / 2.55)) * steps.numel()
    assert stats.chisquare(counted, expected).pvalue > 1e-3


def test_a_noise_with_a_grid_survives_a_file_and_other_grids_are_refused():
    noise = Gaussian(0.5, np.int64(255))
    assert described(noise) == {"noise": "gaussian", "sigma": 0.5, "grid": 255}
    assert noise_from(described(noise)) == noise
    assert described(Gaussian(0.5)) == {"noise": "gaussian", "sigma": 0.5}
    assert noise != Gaussian(0.5)
    for grid in (0, -1, 2**16, 255.0, True, "255"):
        with pytest.raises(RequestError, match="grid must be a whole number of steps from 0 to 1"):
            Gaussian(0.5, grid)
