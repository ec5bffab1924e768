"""Training on image files: uint8 in memory, parts of photographs, a network begun with weights of other classes."""

import numpy as np
import pytest
import torch
from PIL import Image

from sigmax import data, models
from sigmax.train import Settings, train_classifier
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


def test_files_are_held_as_uint8_and_seen_as_the_data_set_has_them(photographs):
    examples = examples_of(photographs)(CPU)
    assert examples.pixels.dtype == torch.uint8
    assert np.array_equal(examples.at(slice(None)).numpy(), photographs.pixels(range(len(photographs))))


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
