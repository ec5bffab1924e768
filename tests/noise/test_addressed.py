"""Addressed noise: the same address, the same numbers; another address, independent ones."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import stats

from sigmax.errors import RequestError
from sigmax.noise import addressed
from sigmax.noise.addressed import BLOCK, Address, BlockSource, Left, check_uint64
from sigmax.noise.gaussian import SAMPLER, GaussianSampler, block

ADDRESS = {"seed": 3, "input_id": 17, "stage": "estimation", "index": 5, "shape": (2, 3)}


def room(samples):
    return np.empty((samples, 2, 3), dtype=np.float32)


def test_an_address_always_gives_the_same_block():
    assert torch.equal(block(**ADDRESS), block(**ADDRESS))
    assert block(**ADDRESS).shape == (BLOCK, 2, 3)
    assert block(**ADDRESS).dtype == torch.float32


@pytest.mark.parametrize("change", [{"seed": 4}, {"input_id": 18}, {"stage": "selection"}, {"index": 6}])
def test_every_part_of_the_address_matters(change):
    first, other = block(**ADDRESS).numpy().ravel(), block(**{**ADDRESS, **change}).numpy().ravel()
    assert not np.isin(first, other).all()
    assert abs(np.corrcoef(first, other)[0, 1]) < 5 / np.sqrt(first.size)


def test_the_values_of_one_address_never_change():
    """A change here changes every certificate ever seeded: rename GENERATOR and say so in the changelog."""
    first = block(seed=0, input_id=0, stage="selection", index=0, shape=(2,))[0]
    assert first.tolist() == pytest.approx([-0.7209862470626831, -0.09695018827915192], rel=1e-6)


def test_the_samples_are_standard_normal():
    samples = np.concatenate(
        [
            block(seed=1, input_id=i, stage="estimation", index=j, shape=(16,)).numpy().ravel()
            for i in range(20)
            for j in range(20)
        ]
    )
    assert stats.kstest(samples, "norm").pvalue > 1e-3
    assert abs(samples.mean()) < 4 / np.sqrt(samples.size)
    assert 0.001 < stats.chi2(samples.size).cdf((samples.astype(float) ** 2).sum()) < 0.999
    # Tails decide large radii: the share beyond 3 and 4 standard deviations must be right.
    for t in (3.0, 4.0):
        beyond = int((np.abs(samples) > t).sum())
        assert stats.binomtest(beyond, samples.size, 2 * stats.norm.sf(t)).pvalue > 1e-3


def test_neighbouring_addresses_are_uncorrelated():
    rows = np.stack([block(seed=0, input_id=i, stage="s", index=0, shape=(8,)).numpy().ravel() for i in range(60)])
    correlations = np.corrcoef(rows)[np.triu_indices(60, 1)] * np.sqrt(rows.shape[1])
    assert stats.kstest(correlations, "norm").pvalue > 1e-3


def test_parts_of_an_address_cannot_stand_in_for_each_other():
    """Many addresses whose parts are alike or exchanged: no two blocks begin with the same numbers."""
    words, stages = (0, 1, 2, 255, 256, 2**32, 2**32 + 1, 2**64 - 1), ("", "a", "b", "ab", "a/b", "\0", "a\0")
    firsts = {
        tuple(block(seed=s, input_id=i, stage=t, index=k, shape=(1,))[:8, 0].tolist())
        for s in words for i in words for k in (0, 1, 2, 2**32) for t in stages
    }  # fmt: skip
    assert len(firsts) == len(words) ** 2 * 4 * len(stages)


@pytest.mark.parametrize("cuts", [(0, 128), (0, 1, 128), (0, 100, 128), (0, 64, 65, 100, 128)])
def test_a_block_sampled_in_parts_is_the_same_block(cuts):
    whole = block(**ADDRESS)
    address = Address(3, 17, "estimation", 5)
    going_on, left = BlockSource(SAMPLER), Left()
    for a, b in pairwise(cuts):
        assert np.array_equal(going_on.fill(room(b - a), address, a), whole[a:b])
        by_itself = BlockSource(SAMPLER).fill(room(b - a), address, a)
        assert np.array_equal(by_itself, whole[a:b])
        taken_up = BlockSource(SAMPLER, left)  # where another source left it
        taken_up.fill(room(3), Address(3, 17, "selection", 5))
        assert np.array_equal(taken_up.fill(room(b - a), address, a), whole[a:b])


@pytest.mark.parametrize("more", [False, True])
def test_samples_may_be_asked_for_again_and_in_any_order(more):
    """As those that were cast ahead are, and those of a look whose source was told that no more would come."""
    whole, address = block(**ADDRESS), Address(3, 17, "estimation", 5)
    source = BlockSource(SAMPLER)
    for a, b in ((0, 16), (0, 16), (16, 32), (0, 32), (64, 100), (32, 64), (100, 128), (0, 128), (16, 32), (32, 64)):
        assert np.array_equal(source.fill(room(b - a), address, a, more=more), whole[a:b])


def test_blocks_are_taken_up_where_they_were_left_without_sampling_them_again(monkeypatch):
    """As at the looks of adaptive sampling, with other inputs' between them; what was forgotten is sampled again."""
    numbers = []

    class Counting(GaussianSampler):
        def fill(self, generator, out):
            numbers.append(out.size)
            super().fill(generator, out)

    monkeypatch.setattr(addressed, "_KEPT", 3)
    for inputs, samples in ((3, 3 * 128), (4, 4 * 128 + 4 * 32 + 64)):
        numbers.clear()
        left, found = Left(), {i: [] for i in range(inputs)}
        for a, b in pairwise((0, 32, 64, 128)):
            source = BlockSource(Counting(), left)
            for i in range(inputs):
                found[i].append(source.fill(room(b - a), Address(1, i, "estimation", 0), a))
        assert sum(numbers) == samples * 6
        for i in range(inputs):
            whole = block(seed=1, input_id=i, stage="estimation", index=0, shape=(2, 3))
            assert np.array_equal(np.concatenate(found[i]), whole)


@pytest.mark.slow
def test_large_values_come_as_often_as_they_should():
    """Torch's 32-bit normals end at 5.77; these must not: a large image samples that far out."""
    samples = block(seed=3, input_id=0, stage="s", index=0, shape=(400_000,)).abs()
    for t in (4.5, 5.0, 5.5):
        beyond = int((samples > t).sum())
        assert stats.binomtest(beyond, samples.numel(), 2 * stats.norm.sf(t)).pvalue > 1e-3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_torchs_default_dtype_changes_no_noise(dtype):
    before = block(**ADDRESS)
    try:
        torch.set_default_dtype(dtype)
        assert torch.equal(block(**ADDRESS), before)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("value", [-1, 2**64, 1.5, True, "7", None])
def test_a_seed_must_fit_the_address(value):
    with pytest.raises(RequestError, match="seed must be a whole number"):
        check_uint64("seed", value)
