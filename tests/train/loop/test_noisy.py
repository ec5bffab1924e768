from itertools import pairwise

import pytest
import torch

from sigmax.errors import RequestError
from sigmax.train import GaussianTraining, Router
from sigmax.train.loop.noisy import (
    Share,
    SharedGenerator,
    add_to_copies,
    by_copy,
    noisy_copies,
    per_image,
    standard_noise,
    uniform,
)


def generator(seed=0, share=None):
    made = SharedGenerator("cpu")
    made.manual_seed(seed)
    made.share = share
    return made


PIXELS = torch.rand(7, 3, 5, 5, generator=torch.Generator().manual_seed(9))


def test_copies_come_one_after_the_other_and_are_not_clamped():
    found = noisy_copies(PIXELS, 2.0, 4, generator())
    noise = torch.randn(4, 7, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    assert found.shape == (28, 3, 5, 5)
    for copy in range(4):
        for image in range(7):
            assert torch.equal(found[7 * copy + image], PIXELS[image] + 2.0 * noise[copy, image])
    assert found.min() < 0
    assert found.max() > 1


def test_one_copy_samples_what_was_always_drawn():
    noise = torch.randn(PIXELS.shape, generator=torch.Generator().manual_seed(0))
    assert torch.equal(noisy_copies(PIXELS, 0.25, 1, torch.Generator().manual_seed(0)), PIXELS + 0.25 * noise)


def test_every_image_can_have_its_own_sigma():
    sigma = torch.linspace(0, 2, 7, dtype=torch.float64)
    noise = by_copy(standard_noise(PIXELS, 3, generator()), 3)
    found = by_copy(noisy_copies(PIXELS, sigma, 3, generator()), 3)
    assert found.dtype == torch.float32
    for image in range(7):
        expected = PIXELS[image] + sigma[image].float() * noise[:, image]
        assert torch.equal(found[:, image], expected)
    assert torch.equal(found[:, 0], PIXELS[0].expand(3, -1, -1, -1))
    same = noisy_copies(PIXELS, torch.full((7,), 0.5), 3, generator())
    assert torch.equal(same, noisy_copies(PIXELS, 0.5, 3, generator()))
    assert torch.equal(same, noisy_copies(PIXELS, torch.tensor(0.5), 3, generator()))


def test_noise_that_was_drawn_before_is_added_in_the_same_way():
    noise = standard_noise(PIXELS, 2, generator())
    assert torch.equal(add_to_copies(PIXELS, 0.5, noise), noisy_copies(PIXELS, 0.5, 2, generator()))


def test_what_was_computed_of_copies_comes_apart_again():
    stacked = torch.arange(12).reshape(6, 2)
    assert by_copy(stacked, 3).tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]]
    assert by_copy(torch.arange(4), 2).tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("processes", [1, 2, 3, 7])
def test_processes_that_share_a_batch_draw_what_one_would(processes):
    """Noise, then numbers, then noise again: all in the same state after each."""
    ends = [k * 7 // processes for k in range(processes + 1)]
    alone = generator()
    whole = [by_copy(standard_noise(PIXELS, 3, alone), 3), uniform(PIXELS, alone)[None]]
    whole.append(by_copy(standard_noise(PIXELS, 2, alone), 2))
    parts = []
    for first, last in pairwise(ends):
        mine, pixels = generator(share=Share(first, last, 7)), PIXELS[first:last]
        part = [by_copy(standard_noise(pixels, 3, mine), 3), uniform(pixels, mine)[None]]
        parts.append([*part, by_copy(standard_noise(pixels, 2, mine), 2)])
    for expected, found in zip(whole, zip(*parts, strict=True), strict=True):
        assert torch.equal(expected, torch.cat(found, dim=1))


def test_any_draw_can_be_shared():
    def draw(from_generator):
        return lambda n: torch.randint(1000, (n,), generator=from_generator)

    whole = per_image(draw(g := generator()), 7, g)
    part = per_image(draw(g := generator(share=Share(2, 5, 7))), 3, g)
    assert torch.equal(part, whole[2:5])


def test_a_step_has_batch_inputs_in_all():
    assert GaussianTraining(0.5).images(64) == 64
    assert GaussianTraining(0.5, copies=4).images(64) == 16
    with pytest.raises(RequestError, match=r"batch=64.*copies=5 does not divide it; choose a batch.*multiple of 5"):
        GaussianTraining(0.5, copies=5).images(64)
    assert Router(sigma=0.5, shares=(0.5, 0.5), scale=1.0, copies=3).images(64) == 64
