"""Training on images as uint8, from files or arrays; parts of photographs; weights of other classes to begin with."""

from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image

from sigmax import data, models
from sigmax.train import Settings, make_method, train_classifier
from sigmax.train.loop import stored
from sigmax.train.loop.augment import resized_crop
from sigmax.train.loop.network import examples_of

CPU = torch.device("cpu")


@pytest.fixture
def photographs(tmp_path):
    values = np.random.default_rng(0).integers(0, 256, (2, 70, 12, 12, 3), dtype=np.uint8)
    for label, images in enumerate(values):
        (tmp_path / "photos" / "train" / f"class-{label}").mkdir(parents=True)
        for number, image in enumerate(images):
            Image.fromarray(image).save(tmp_path / "photos" / "train" / f"class-{label}" / f"{number:03}.png")
    return data.load(f"folder:{tmp_path / 'photos'}", "train")


@pytest.fixture
def packed(photographs, tmp_path):
    """The same pixels as arrays of one file."""
    images = photographs.images.read(np.arange(len(photographs)))
    np.savez(tmp_path / "photos.npz", train_images=images, train_labels=photographs.labels)
    return data.load(f"npz:{tmp_path / 'photos.npz'}", "train")


@pytest.mark.parametrize("name", ["photographs", "packed"])
def test_images_are_held_as_uint8_and_seen_as_the_data_set_has_them(name, request):
    dataset = request.getfixturevalue(name)
    examples = examples_of(dataset)(CPU)
    assert examples.pixels.dtype == torch.uint8
    assert np.array_equal(examples.at(slice(None)).numpy(), dataset.pixels(range(len(dataset))))


def test_files_too_large_to_hold_are_decoded_batch_by_batch(photographs, monkeypatch):
    held = examples_of(photographs)(CPU)
    monkeypatch.setattr(stored, "HELD_ON_CPU", 100)
    streamed = examples_of(photographs)(CPU)
    assert isinstance(streamed.pixels, stored.Streamed)
    assert len(streamed) == len(held)
    parts = torch.randperm(140, generator=torch.Generator().manual_seed(0)).tensor_split(11)
    for one, other in zip(streamed.batches(parts), held.batches(parts), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(streamed.at(slice(100, None)), held.at(slice(100, None)))
    some = streamed.take(parts[3])
    assert torch.equal(some.at(slice(None)), held.at(parts[3]))
    assert torch.equal(some.targets, held.targets[parts[3]])


def test_a_batch_is_decoded_before_its_turn_and_no_further(photographs, monkeypatch):
    asked = []
    monkeypatch.setattr(stored.ImageFiles, "read", lambda _, which: asked.extend(which) or np.zeros((len(which), 1)))
    batches = stored.Streamed(photographs.images, CPU).batches(torch.arange(140).split(10))
    next(batches)
    batches.close()
    assert set(asked) <= set(range(10 * (1 + stored.AHEAD)))


@pytest.mark.parametrize("method", ["gaussian", "easy-samples"])
def test_the_result_depends_neither_on_the_container_nor_on_what_is_held(method, photographs, packed, tmp_path):
    asked = Settings(epochs=2, batch=32, lr=0.02, augment="resized", precision="bf16", channels_last=True)
    hyper = {"discard_epoch": 1, "threshold": 0.0, "steps": 1} if method == "easy-samples" else {}
    found = set()
    for name, dataset, room in (("held", photographs, 2**30), ("streamed", photographs, 100), ("packed", packed, 0)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stored, "HELD_ON_CPU", room)
            out = tmp_path / f"{name}.safetensors"
            made = partial(make_method, method, hyper=hyper)
            train_classifier(dataset, sigma=0.25, options={"width": 4}, settings=asked, out=out, method=made)
        found.add(models.fingerprint(models.load(out)[0]))
    assert len(found) == 1


def test_parts_of_a_photograph_lie_inside_it_and_half_are_mirrored():
    across = torch.linspace(0, 1, 56).expand(200, 1, 56, 56)
    parts = resized_crop(across, torch.Generator().manual_seed(0))
    width = parts[:, 0, 0, -1] - parts[:, 0, 0, 0]
    assert parts.min() >= 0
    assert parts.max() <= 1
    assert 0.65 < width.abs().min() < 0.75
    assert 0.95 < width.abs().max() <= 1
    assert 70 < (width < 0).sum() < 130


def test_fine_tuning_resumes_exactly_and_replaces_the_last_layer(photographs, tmp_path):
    torch.manual_seed(0)
    start = models.create(
        models.Description(architecture="resnet18", options={"width": 4}, classes=7, input_shape=(3, 12, 12))
    )
    asked = Settings(epochs=3, batch=32, lr=0.02, augment="resized")

    def train(name, stop=None):
        def on_epoch(report):
            if report.epoch == stop:
                raise KeyboardInterrupt

        out = tmp_path / f"{name}.safetensors"
        train_classifier(photographs, sigma=0.25, start=start, settings=asked, out=out, on_epoch=on_epoch)
        return models.load(out)

    whole, description = train("whole")
    assert (description.classes, description.architecture) == (2, "resnet18")
    with pytest.raises(KeyboardInterrupt):
        train("cut", stop=1)
    assert models.fingerprint(train("cut")[0]) == models.fingerprint(whole)
