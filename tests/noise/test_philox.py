"""Noise made on the device: known answers, its distribution, and that an address is all it needs."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

import sigmax as sx
from sigmax.engine import votes
from sigmax.engine.fillers import DeviceFiller
from sigmax.engine.inputs import Item, Noisy
from sigmax.noise import Gaussian, philox
from sigmax.noise.gaussian import SAMPLER, pair
from sigmax.rules.certificate import Role
from sigmax.rules.procedure import VoteRequest

CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))


def words(count, *, stage="estimation", seed=0):
    return torch.tensor([philox.stream_of(seed=seed, input_id=i, stage=stage) for i in range(count)])


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers_of_philox(counter, key, answer):
    """The test vectors of the paper's own library, Random123."""
    found = philox.integers([torch.tensor([c]) for c in counter], [torch.tensor([k]) for k in key])
    assert tuple(int(word) for word in found) == answer


def test_the_integers_are_those_of_plain_arithmetic():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2**32, size=(50, 6))
    found = philox.integers(
        [torch.from_numpy(rows[:, i].copy()) for i in range(4)],
        [torch.from_numpy(rows[:, i].copy()) for i in (4, 5)],
    )
    for row, *answer in zip(rows.tolist(), *(word.tolist() for word in found), strict=True):
        a, b, c, d, k0, k1 = row
        for _ in range(10):
            p0, p1 = a * 0xD2511F53, c * 0xCD9E8D57
            a, b, c, d = (p1 >> 32) ^ b ^ k0, p1 % 2**32, (p0 >> 32) ^ d ^ k1, p0 % 2**32
            k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
        assert answer == [a, b, c, d]


def test_the_numbers_are_standard_normal_and_uncorrelated():
    noise = SAMPLER.numbers(words(40), torch.arange(40) % 5, 5_003).double()
    assert noise.shape == (40, 5_003)
    assert stats.kstest(noise.flatten().numpy(), "norm").pvalue > 1e-4
    assert abs(noise.mean()) < 4 / math.sqrt(noise.numel())
    assert noise.var().item() == pytest.approx(1, abs=5 * math.sqrt(2 / noise.numel()))
    for shift in (1, 2, 3, 4):  # within a quad, and from one to the next
        pairs = (noise[:, shift:] * noise[:, :-shift]).flatten()
        assert abs(pairs.mean()) < 4.5 / math.sqrt(len(pairs))
    assert abs((noise[1:] * noise[:-1]).mean()) < 4.5 / math.sqrt(noise[1:].numel())


def test_tails_go_beyond_what_32_bits_reach():
    high, low, angle = (torch.tensor([value]) for value in (0, 0, 0))
    first, second = pair(high, low, angle)
    assert first.item() == pytest.approx(math.sqrt(2 * 65 * math.log(2)), rel=1e-6)
    assert first.item() > 9.4
    assert second.item() == 0
    assert torch.isfinite(torch.stack(pair(torch.tensor([2**32 - 1]), torch.tensor([2**32 - 1]), angle))).all()


def test_an_address_is_all_that_a_sample_depends_on():
    alone = SAMPLER.numbers(words(3)[2:], torch.tensor([7]), 100)
    among = SAMPLER.numbers(words(3).repeat(4, 1), torch.arange(12), 100)[[2 + 3 * 3]]
    assert not torch.equal(alone, among)  # sample 11, not 7
    among = SAMPLER.numbers(words(3)[[0, 2, 1]], torch.tensor([1, 7, 0]), 100)[[1]]
    assert torch.equal(alone, among)
    assert torch.equal(
        SAMPLER.numbers(words(1), torch.tensor([0]), 10), SAMPLER.numbers(words(1), torch.tensor([0]), 100)[:, :10]
    )
    assert not torch.equal(words(1, stage="selection"), words(1))
    assert not torch.equal(words(1, seed=1), words(1))


def items(count, *, n=5, sigma=0.5):
    return [Item(i, (VoteRequest("", Role.ESTIMATION, 2, Gaussian(sigma * (i + 1)), n),)) for i in range(count)]


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_batches_hold_the_inputs_and_their_noise(device):
    x, asked = torch.rand(4, 3, 5, 7), items(4)
    inputs = Noisy(x, [10, 11, 12, 13], 3)
    filler = DeviceFiller(inputs, asked, 16, torch.device(device))
    batch, rows = filler.fill([(0, 2, 5), (2, 0, 4), (3, 1, 2)])
    assert rows.tolist() == [0, 0, 0, 2, 2, 2, 2, 3]
    for row, (i, sample) in enumerate([(0, 2), (0, 3), (0, 4), (2, 0), (2, 1), (2, 2), (2, 3), (3, 1)]):
        stream = torch.tensor([philox.stream_of(seed=3, input_id=10 + i, stage="estimation")])
        noise = SAMPLER.numbers(stream, torch.tensor([sample]), 105).view(3, 5, 7)
        assert torch.allclose(batch[row].cpu(), x[i] + asked[i].request.sigma * noise, atol=1e-5)
    again, _ = filler.fill([(2, 1, 3)])
    other = DeviceFiller(inputs, asked[2:], 2, torch.device(device))
    assert torch.equal(again, other.fill([(0, 1, 3)])[0])


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_certificates_by_device_noise_are_as_good(device, monkeypatch):
    """An affine classifier, certified by either noise: shares of votes agree within what chance allows."""
    if device == "cpu":
        monkeypatch.setattr(votes, "filler_for", lambda device, *rest: DeviceFiller(*rest, device))
    x, w = torch.linspace(-1, 1, 20)[:, None].repeat(1, 6), torch.full((6,), 1 / math.sqrt(6), device=device)
    f = sx.Smoothed(lambda batch: (batch @ w > 0).long(), sigma=0.8, classes=2, device=device)
    found = f.certify(x, n=2_000, alpha=0.001, seed=5)
    for i, certificate in enumerate(found):
        share = stats.norm.cdf(float(x[i, 0]) * math.sqrt(6) / 0.8)
        count = certificate.stages[-1].counts[1]
        assert stats.binomtest(count, 2_000, share).pvalue > 1e-5
        truth = abs(float(x[i, 0])) * math.sqrt(6)
        assert certificate.radius <= truth + 0.2
    assert f.certify(x[3:9], n=2_000, alpha=0.001, seed=5, ids=range(3, 9)) == found[3:9]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_kernel_makes_numbers_of_the_definition_everywhere():
    """Fifty million of them, all finite, each within rounding of what the definition gives."""
    asked = [Item(i, (VoteRequest("", Role.ESTIMATION, 2, Gaussian(1.0), 256),)) for i in range(64)]
    filler = DeviceFiller(Noisy(torch.zeros(64, 3072), list(range(64)), 0), asked, 256, torch.device("cuda"))
    for i in range(64):
        batch, _ = filler.fill([(i, 0, 256)])
        stream = words(64)[[i]].cuda().expand(256, 4)
        expected = SAMPLER.numbers(stream, torch.arange(256, device="cuda"), 3072)
        assert bool(batch.isfinite().all())
        assert (batch - expected).abs().max().item() < 2e-5


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_model_that_works_in_place_is_voted_on_again_unharmed():
    first = []

    def greedy(batch):
        answer = (batch.flatten(1).mean(1) > 0).long()
        batch.fill_(-9.0)
        if len(batch) > 512 and len(first) < 3:
            first.append(len(batch))
            raise torch.OutOfMemoryError("no room")
        return answer

    x = torch.full((1, 1, 8, 8), 0.5)
    (found,) = sx.Smoothed(greedy, sigma=0.5, classes=2, device="cuda", batch=2048).certify(x, n=4096)
    assert first
    assert found.stages[-1].counts == (0, 4096)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_batch_too_large_for_the_memory_is_divided():
    def hungry(batch):
        return batch.flatten(1)[:, :2] + torch.zeros(len(batch), 2**26, device=batch.device).sum()

    f = sx.Smoothed(hungry, sigma=0.5, classes=2, device="cuda", batch=2**14)
    (certificate,) = f.certify(torch.rand(1, 1, 8, 8), n=20_000)
    assert certificate.samples == 20_100
    assert f.voters["base"].batch < 2**14
