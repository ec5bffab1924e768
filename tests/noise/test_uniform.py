"""Uniform samples: every cell, exactly, the same on every device; and an address is all they depend on."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from sigmax.engine.fillers import CpuFiller, DeviceFiller
from sigmax.engine.inputs import Item, Noisy
from sigmax.noise import Uniform, philox
from sigmax.noise.uniform import CELLS, SAMPLER
from sigmax.rules.certificate import Role
from sigmax.rules.procedure import VoteRequest

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))


def streams(count):
    return torch.tensor([philox.stream_of(seed=0, input_id=i, stage="estimation") for i in range(count)])


def by_blocks():
    out = np.empty(200_000, dtype=np.float32)
    SAMPLER.fill(np.random.default_rng(0), out)
    return torch.from_numpy(out)


def by_philox():
    return SAMPLER.numbers(streams(40), torch.arange(40) % 5, 5_003).flatten()


@pytest.mark.parametrize("sampled", [by_blocks, by_philox])
def test_samples_are_midpoints_of_equal_cells_of_the_whole_range(sampled):
    noise = sampled().double()
    places = (noise + 1) * CELLS / 2 - 0.5
    assert torch.equal(places, places.round())  # no number was rounded
    assert 0 <= int(places.min()) < CELLS / 1_000
    assert CELLS - CELLS / 1_000 < int(places.max()) <= CELLS - 1
    assert stats.kstest(noise.numpy(), "uniform", args=(-1, 2)).pvalue > 1e-4
    assert abs((places % 2).mean() - 0.5) < 5 / math.sqrt(len(places))  # the last bit is one as often as not
    for shift in (1, 2, 3, 4):
        pairs = noise[shift:] * noise[:-shift]
        assert abs(pairs.mean()) < 4.5 / 3 / math.sqrt(len(pairs))


def test_the_ends_of_the_range_are_as_likely_as_its_middle():
    """The first and the last integer that a generator can give land half a cell inside of -1 and 1."""

    class Fixed:
        def __init__(self, value):
            self.value = value

        def random(self, dtype, out):
            out[:] = self.value

    out = np.empty(1, dtype=np.float32)
    for integer, expected in ((0, 1 / CELLS - 1), (1, 1 / CELLS - 1), (2, 3 / CELLS - 1), (2**24 - 1, 1 - 1 / CELLS)):
        SAMPLER.fill(Fixed(np.float32(integer * 2.0**-24)), out)
        assert out[0] == np.float32(expected) == expected


def test_numbers_are_the_words_of_their_own_counters():
    own, samples, count = streams(5), torch.arange(5) + 3, 21
    words, _ = philox.words(own, samples, count)
    upper = torch.stack(words, dim=2).flatten(1)[:, :count] >> 9
    assert torch.equal((SAMPLER.numbers(own, samples, count).double() + 1) * CELLS / 2 - 0.5, upper.double())


def test_numbers_of_a_sample_do_not_depend_on_how_many_are_asked_for():
    whole = SAMPLER.numbers(streams(1), torch.tensor([3]), 101)
    assert torch.equal(SAMPLER.numbers(streams(1), torch.tensor([3]), 10), whole[:, :10])
    assert not torch.equal(SAMPLER.numbers(streams(1), torch.tensor([4]), 10), whole[:, :10])


@pytest.mark.parametrize(("filler", "device"), [(CpuFiller, "cpu"), (DeviceFiller, "cpu"), (DeviceFiller, "cuda")])
def test_batches_hold_the_inputs_and_their_noise(filler, device):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    x = torch.rand(2, 3, 40)
    items = [Item(i, (VoteRequest("", Role.ESTIMATION, 2, Uniform(0.5 + i), 256),)) for i in range(2)]
    inputs = Noisy(x, [0, 1], 0)
    batch, rows = filler(inputs, items, 300, torch.device(device)).fill([(0, 0, 150), (1, 100, 250)])
    batch, rows = batch.cpu(), rows.cpu()
    for i in range(2):
        noise = (batch[rows == i] - x[i]) / (0.5 + i)
        assert noise.abs().max() <= 1 + 1e-6
        assert noise.std().item() == pytest.approx(3**-0.5, rel=0.02)
    if filler is DeviceFiller:
        expected = SAMPLER.numbers(philox_streams(inputs), torch.arange(150), 120).view(150, 3, 40)
        assert torch.allclose(batch[:150], x[0] + 0.5 * expected, atol=1e-6)
    other = filler(inputs, items, 50, torch.device(device)).fill([(1, 120, 170)])[0].cpu()
    assert torch.equal(other, batch[170:220])  # in another batch the same noise


def philox_streams(inputs):
    seed, input_id = inputs.key(0)
    return torch.tensor([philox.stream_of(seed=seed, input_id=input_id, stage="estimation")]).expand(150, 4)


@pytest.mark.parametrize("device", [CUDA])
def test_the_kernel_makes_the_very_numbers_of_the_definition(device):
    asked = [Item(0, (VoteRequest("", Role.ESTIMATION, 2, Uniform(1.0), 256),))]
    filler = DeviceFiller(Noisy(torch.zeros(1, 3072), [0], 0), asked, 256, torch.device(device))
    batch, _ = filler.fill([(0, 0, 256)])
    stream = streams(1).expand(256, 4)
    assert torch.equal(batch.cpu(), SAMPLER.numbers(stream, torch.arange(256), 3072))
