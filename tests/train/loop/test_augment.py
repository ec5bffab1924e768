import pytest
import torch

from sigmax.train.loop import augment as module
from sigmax.train.loop.augment import augment, cover, crop, flip, tint, warp


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def shifted(image, down, right):
    """The image moved by hand, black where nothing came in."""
    moved = torch.zeros_like(image)
    height, width = image.shape[-2:]
    for row in range(height):
        for column in range(width):
            if 0 <= row - down < height and 0 <= column - right < width:
                moved[:, row, column] = image[:, row - down, column - right]
    return moved


def test_crop_is_a_shift_of_up_to_an_eighth_and_all_shifts_occur():
    images = torch.rand(1, 3, 8, 16).repeat(200, 1, 1, 1)
    by_hand = {(d, r): shifted(images[0], d, r) for d in (-1, 0, 1) for r in (-2, -1, 0, 1, 2)}
    seen = set()
    for found in crop(images, generator()):
        (shift,) = [shift for shift, expected in by_hand.items() if torch.equal(found, expected)]
        seen.add(shift)
    assert seen == set(by_hand)


def test_flip_mirrors_about_half():
    images = torch.rand(1, 1, 4, 4).repeat(1000, 1, 1, 1)
    found = flip(images, generator())
    mirrored = (found == images.flip(-1)).all(dim=(1, 2, 3))
    assert ((found == images).all(dim=(1, 2, 3)) | mirrored).all()
    assert 430 < mirrored.sum() < 570


def test_kinds():
    images = torch.rand(50, 1, 8, 8)
    assert augment("none", images, generator()) is images
    assert torch.equal(augment("crop", images, generator()), crop(images, generator()))
    assert not torch.equal(augment("crop-flip", images, generator()), crop(images, generator()))


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (3, 9, 20)])
def test_strong_keeps_images_images_and_changes_each_in_its_own_way(shape):
    images = torch.rand(1, *shape).repeat(200, 1, 1, 1)
    found = augment("strong", images, generator())
    assert found.shape == images.shape
    assert found.min() >= 0
    assert found.max() <= 1
    assert len(found.flatten(1).unique(dim=0)) > 150
    assert torch.equal(found, augment("strong", images, generator()))
    assert not torch.equal(found, augment("strong", images, generator(1)))


@pytest.mark.parametrize("change", [warp, tint, cover])
def test_each_distortion_is_made_to_about_half(change, monkeypatch):
    images = torch.rand(400, 3, 16, 16)
    for other in {"warp", "tint", "cover"} - {change.__name__}:
        monkeypatch.setattr(module, other, lambda images, generator: images)
    changed = (module.distort(images, generator()) != images).flatten(1).any(dim=1)
    assert 150 < changed.sum() < 250


def test_a_warp_moves_what_lies_outside_and_leaves_the_middle(monkeypatch):
    ring = torch.zeros(1, 1, 33, 33)
    ring[0, 0, 16, 16] = 1
    found = warp(ring.repeat(50, 1, 1, 1), generator())
    assert (found[:, 0, 15:18, 15:18].sum(dim=(1, 2)) > 0.5).all(), "it turns about the middle"
    monkeypatch.setattr(module, "_between", lambda count, images, generator: torch.zeros(count, len(images)))
    still = torch.rand(4, 3, 10, 12)
    assert torch.allclose(warp(still, generator()), still, atol=1e-5)
    assert torch.allclose(tint(still, generator()), still, atol=1e-6)


def test_a_warp_by_hand(monkeypatch):
    """A quarter turn and no more: rows become columns."""
    monkeypatch.setattr(module, "_TURN", torch.pi / 2)
    monkeypatch.setattr(
        module, "_between", lambda count, images, generator: torch.tensor([1.0, 0.0, 0.0, 0.0])[:, None]
    )
    image = torch.rand(1, 1, 6, 6)
    assert torch.allclose(warp(image, generator())[0, 0], image[0, 0].rot90(1), atol=1e-5)


def test_a_cover_is_a_grey_square_of_a_quarter_of_the_side():
    found = cover(torch.zeros(500, 3, 32, 32), generator())
    grey = found[:, 0] == 0.5
    assert torch.equal(found, 0.5 * grey[:, None].expand(-1, 3, -1, -1))
    assert grey.sum(dim=(1, 2)).max() == 64
    assert (grey.any(dim=2).sum(dim=1) <= 8).all()
    assert grey.any(dim=0).all(), "it may lie anywhere"
