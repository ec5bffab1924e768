import torch

from sigmax.train.augment import augment, crop, flip


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
