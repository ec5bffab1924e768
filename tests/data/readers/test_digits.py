"""The bundled digits and their seedless split."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sigmax.data import load
from sigmax.errors import RequestError


def test_sizes_shapes_and_scale():
    train, test = load("digits", "train"), load("digits", "test")
    assert (len(train), len(test)) == (1437, 360)
    assert train.shape == test.shape == (1, 8, 8)
    assert test.classes == tuple("0123456789")
    pixels = train.pixels(range(len(train)))
    assert (pixels.min(), pixels.max()) == (0, 1)
    np.testing.assert_array_equal(pixels * 16, np.rint(pixels * 16))


def test_the_two_parts_are_the_bundle_in_its_own_order():
    bundle = [(label, image.tobytes()) for label, image in zip(*reversed(load_digits(return_X_y=True)), strict=True)]
    parts = {}
    for split in ("train", "test"):
        part = load("digits", split)
        rows = part.pixels(range(len(part))).reshape(len(part), 64).astype(float) * 16
        parts[split] = [(label, row.tobytes()) for label, row in zip(part.labels, rows, strict=True)]
    assert sorted(parts["train"] + parts["test"]) == sorted(bundle)
    position = {entry: i for i, entry in enumerate(bundle)}
    for entries in parts.values():
        places = [position[entry] for entry in entries]
        assert places == sorted(places)


def test_every_class_is_in_both_parts_in_proportion():
    train = np.bincount(load("digits", "train").labels)
    test = np.bincount(load("digits", "test").labels)
    assert np.abs(test - (train + test) / 5).max() < 1


def test_fingerprints_never_change():
    assert load("digits", "train").fingerprint == "ab8b75487123038930bd499fec4ecf15"
    assert load("digits", "test").fingerprint == "ba1354960d9732ae4257e290e2ae6381"


def test_it_takes_no_path():
    with pytest.raises(RequestError, match="takes no path, got 'here'"):
        load("digits:here")


def test_without_scikit_learn_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(RequestError, match=r"pip install 'sigmax\[digits\]'"):
        load("digits")
