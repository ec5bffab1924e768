import json
from functools import partial

import numpy as np
import pytest
import torch
from scipy.stats import beta, norm
from torch import nn

from sigmax import models
from sigmax.errors import RequestError
from sigmax.train import Settings, train_classifier
from sigmax.train.loop.held_out import split
from sigmax.train.loop.quick_check import ALPHA, RADII, SAMPLES, QuickCheck

SIGMA = 0.5


class Brightness(nn.Module):
    """Class 1 where the mean pixel passes one half: under noise a class with a known probability."""

    def forward(self, images):
        bright = images.flatten(1).mean(dim=1)
        return torch.stack([0.5 - bright, bright - 0.5], dim=1)


def grey(*levels):
    return torch.tensor(levels)[:, None, None, None].expand(-1, 1, 4, 4).contiguous()


def check(pixels, labels, **changed):
    validation_of = {"classes": 2, "sigma": SIGMA, "seed": 3, "epochs": 10, **changed}
    return QuickCheck(pixels=pixels, labels=np.array(labels), **validation_of)


def test_what_is_told_follows_from_the_votes():
    """Clopper-Pearson by scipy's beta distribution and Cohen's radius, written out once more."""
    pixels = grey(0.1, 0.3, 0.45, 0.55, 0.7, 0.9, 0.9)
    labels = [0, 0, 0, 1, 1, 1, 0]  # the last is wrong
    counts = []

    class Watched(Brightness):
        def forward(self, images):
            logits = super().forward(images)
            counts.append(logits.argmax(1))
            return logits

    found = check(pixels, labels)(Watched(), 4)
    votes = torch.cat(counts).view(7, SAMPLES)
    right = [int((row == label).sum()) for row, label in zip(votes, labels, strict=True)]
    radii = []
    for k in right:
        lower = beta.ppf(ALPHA, k, SAMPLES - k + 1) if k else 0.0
        radii.append(max(0.0, SIGMA * norm.ppf(lower)) if 2 * k > SAMPLES else 0.0)
    assert found["images"] == 7
    assert found["samples"] == SAMPLES
    assert found["accuracy"] == pytest.approx(sum(right) / 700)
    assert found["smoothed"] == pytest.approx(sum(2 * k > SAMPLES for k in right) / 7)
    assert found["radii"] == pytest.approx([times * SIGMA for times in RADII])
    assert found["radius"] == pytest.approx(sum(radii) / 7, abs=1e-6)
    for r, share in zip(found["radii"], found["certified"], strict=True):
        assert share == pytest.approx(sum(x >= r and x > 0 for x in radii) / 7)
    assert found["certified"][0] > found["certified"][-1] > 0  # unanimous votes reach 1.5 sigma


def test_it_looks_in_its_turn_and_at_the_end():
    quick = check(grey(0.1), [0], every=4)
    assert [epoch for epoch in range(10) if quick(Brightness(), epoch)] == [3, 7, 9]
    assert quick(Brightness(), 3) == quick(Brightness(), 3)


def test_without_noise_there_is_nothing_to_certify():
    found = check(grey(0.1, 0.9, 0.9), [0, 1, 0], sigma=0.0)(Brightness(), 0)
    assert found == {"images": 3, "samples": 1, "accuracy": pytest.approx(2 / 3)}


@pytest.fixture
def train(bars, tmp_path):
    return partial(
        train_classifier,
        bars,
        architecture="small-cnn",
        options={"width": 4},
        sigma=0.25,
        settings=Settings(epochs=5, batch=16, lr=0.05),
        out=tmp_path / "bars.safetensors",
    )


def validation_of(path):
    lines = path.with_name(f"{path.name}.metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["validation"] for line in lines]


def test_a_share_is_held_out_and_never_trained_on(train, bars, tmp_path):
    path = train(validation=0.25, validate_every=2)
    found = validation_of(path)
    assert [bool(one) for one in found] == [False, True, False, True, True]
    assert found[-1]["images"] == 15
    assert models.read(path).description.notes["training"]["validation"] == 0.25
    held, taught = split(60, 0.25, 0)
    assert sorted([*held, *taught]) == list(range(60))
    alone = train_classifier(bars.take(taught), **{**train.keywords, "out": tmp_path / "alone.safetensors"})
    assert models.fingerprint(path) == models.fingerprint(alone)
    with pytest.raises(RequestError, match="validation is 0.25 there and not given here"):
        train()


def test_another_split_is_looked_at_and_changes_nothing(train, bars, tmp_path):
    plain = train(out=tmp_path / "plain.safetensors")
    path = train(validation=bars.take(np.arange(20)), validate_every=5)
    assert models.read(path).fingerprint == models.read(plain).fingerprint
    assert [bool(one) for one in validation_of(path)] == [False] * 4 + [True]
    assert validation_of(plain) == [{}] * 5
    assert train(on_epoch=pytest.fail) == path  # checking is no part of the plan


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"validation": 1.0}, "validation: expected a share between 0 and 1, got 1.0"),
        ({"validation": -0.1}, "validation: expected a share between 0 and 1"),
        ({"validation": 0.001}, "leaves 0 to check on and 60 to train on"),
        ({"validation": 0.1, "validate_every": 0}, "validate_every: expected a whole number of at least 1, got 0"),
    ],
)
def test_wrong_requests(train, tmp_path, wrong, message):
    with pytest.raises(RequestError, match=message):
        train(**wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_split_of_other_data_is_refused(train, bars):
    other = type(bars)(
        name="other", split="test", images=bars.pixels(range(9)), labels=bars.labels[:9], classes=("a", "b", "c")
    )
    with pytest.raises(RequestError, match="the images to check on have other classes than those to train on"):
        train(validation=other)
    wide = type(bars)(
        name="wide",
        split="test",
        images=np.zeros((3, 1, 8, 9), np.float32),
        labels=bars.labels[:3],
        classes=bars.classes,
    )
    with pytest.raises(RequestError, match=r"other shape than those to train on: \(1, 8, 9\) and \(1, 8, 8\)"):
        train(validation=wide)
