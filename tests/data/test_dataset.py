"""Dataset: what it refuses when built, what pixels and fingerprints it promises."""

import hashlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sigmax.data import Dataset
from sigmax.errors import RequestError

BYTES = hnp.arrays(np.uint8, hnp.array_shapes(min_dims=4, max_dims=4, max_side=5))


def build(images=None, labels=(0, 1, 2), classes=("a", "b", "c")):
    images = np.arange(3 * 2 * 4 * 5, dtype=np.uint8).reshape(3, 2, 4, 5) if images is None else images
    return Dataset("toy", "test", images, labels, classes)


class Recorded:
    """A lazy source over an array that notes what was read."""

    def __init__(self, images, shape=None):
        self.images = images
        self.shape = images.shape[1:] if shape is None else shape
        self.asked = []

    def __len__(self):
        return len(self.images)

    def read(self, indices):
        self.asked.append(indices.tolist())
        return self.images[indices]

    def take(self, indices):
        return Recorded(self.images[indices], self.shape)

    def content(self):
        yield self.images.tobytes()


def test_says_what_it_holds():
    data = build()
    assert len(data) == 3
    assert data.shape == (2, 4, 5)
    assert data.labels.dtype == np.int64
    assert repr(data) == "Dataset(toy test: 3 images (2, 4, 5), 3 classes)"


def test_importing_it_loads_nothing_heavy():
    check = "import sys, sigmax.data; print(sorted({'torch', 'PIL', 'sklearn', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@given(BYTES)
def test_bytes_become_exact_255ths(images):
    data = Dataset("toy", "test", images, np.zeros(len(images), np.uint8), ("only",))
    pixels = data.pixels(range(len(data)))
    assert pixels.dtype == np.float32
    np.testing.assert_array_equal(pixels, (images / 255.0).astype(np.float32))
    np.testing.assert_array_equal(np.rint(pixels * 255), images)


@given(st.lists(st.integers(0, 2), max_size=7))
def test_pixels_come_in_the_order_asked_for(indices):
    pixels = build().pixels(indices)
    assert pixels.shape == (len(indices), 2, 4, 5)
    for row, index in zip(pixels, indices, strict=True):
        np.testing.assert_array_equal(row, build().pixels([index])[0])


def test_pixels_are_contiguous_and_belong_to_the_caller():
    data = build(np.zeros((3, 4, 5, 2), np.float32).transpose(0, 3, 1, 2))
    pixels = data.pixels([0, 1])
    assert pixels.flags.c_contiguous
    pixels += 1
    assert data.pixels([0, 1]).max() == 0


def test_arrays_are_read_only():
    data = build()
    with pytest.raises(ValueError, match="read-only"):
        data.images[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        data.labels[0] = 1


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_any_float_becomes_float32(dtype):
    data = build(np.full((3, 1, 2, 2), 0.5, dtype))
    assert data.images.dtype == np.float32
    assert data.pixels([2]).max() == 0.5


def floats(value, at=1):
    images = np.full((3, 1, 2, 2), 0.5, np.float32)
    images[at, 0, 1, 0] = value
    return images


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (floats(255.0), ["image 1 ", "holds 255", "divide by 255"]),
        (floats(16.0), ["image 1 ", "holds 16", "divide them by their largest possible value", "here is 16"]),
        (floats(1.01, at=2), ["image 2 ", "1.01", "[0, 1]"]),
        (floats(-2.1), ["image 1 ", "-2.1", "normalisation"]),
        (floats(np.nan), ["image 1 ", "nan", "not finite"]),
        (floats(np.inf, at=0), ["image 0 ", "inf", "not finite"]),
        (floats(65535.0), ["65535", "largest possible value"]),
        (np.zeros((3, 1, 2, 2), np.int64), ["int64", "uint8"]),
        (np.zeros((3, 1, 2, 2), np.uint16), ["uint16", "uint8"]),
        (np.zeros((3, 1, 2, 2), bool), ["bool", "uint8"]),
        (np.zeros((3, 2, 2), np.uint8), ["(N, C, H, W)", "(3, 2, 2)", "C=1"]),
        (np.zeros((0, 1, 2, 2), np.uint8), ["no empty axis", "(0, 1, 2, 2)"]),
        ([[1, 2]], ["numpy array", "list"]),
    ],
)
def test_bad_images_are_refused_with_advice(images, words):
    with pytest.raises(RequestError) as refusal:
        build(images)
    for word in ["toy test", *words]:
        assert word in str(refusal.value)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ((0, 3, 9), ["label 1 is 3", "0..2", "3 classes"]),
        ((0, 1, -1), ["label 2 is -1"]),
        ((0, 1), ["3 images but 2 labels"]),
        ((0.0, 1.0, 2.0), ["integers", "float64"]),
        (("0", "1", "2"), ["integers", "<U1", "labels.astype('int64')"]),
        (("a", "b", "c"), ["integers", "<U1", "sigmax.data.as_dataset((images, labels)) numbers text labels"]),
        (np.eye(3, dtype=int), ["(3, 3)", "argmax"]),
        (np.array([0, 1, 2**63], np.uint64), ["label 2 is 9223372036854775808"]),
    ],
)
def test_bad_labels_are_refused_with_advice(labels, words):
    with pytest.raises(RequestError) as refusal:
        build(labels=labels)
    for word in words:
        assert word in str(refusal.value)


@pytest.mark.parametrize("classes", [(), "abc", None, (0, 1, 2)])
def test_bad_classes_are_refused(classes):
    with pytest.raises(RequestError, match="class"):
        build(classes=classes)


@pytest.mark.parametrize(
    ("indices", "word"),
    [([3], "index 3 "), ([0, -1], "index -1 "), ([True, False], "flatnonzero"), ([0.5], "integers"), (1, r"\[i\]")],
)
def test_bad_indices_are_refused(indices, word):
    with pytest.raises(RequestError, match=word):
        build().pixels(indices)
    with pytest.raises(RequestError, match=word):
        build().take(indices)


def test_take_keeps_order_labels_and_classes():
    part = build().take([2, 0])
    assert part.labels.tolist() == [2, 0]
    assert part.classes == ("a", "b", "c")
    np.testing.assert_array_equal(part.pixels([0, 1]), build().pixels([2, 0]))


def test_a_set_without_images_is_refused():
    with pytest.raises(RequestError, match="empty"):
        build().take([])
    with pytest.raises(RequestError, match="no images"):
        build(Recorded(np.zeros((0, 1, 2, 2), np.uint8)), labels=[])


def test_fingerprint_is_sha256_of_shape_labels_and_float_pixels():
    data = build()
    expected = hashlib.sha256(b"sigmax data 1 3 (2, 4, 5)")
    expected.update(np.array([0, 1, 2], "<i8").tobytes())
    expected.update((data.images / 255.0).astype("<f4").tobytes())
    assert data.fingerprint == expected.hexdigest()[:32]


@given(BYTES)
def test_fingerprint_does_not_depend_on_how_the_pixels_are_held(images):
    labels = np.zeros(len(images), int)
    held = [
        images,
        np.asfortranarray(images),
        (images / 255.0).astype(np.float32),
        np.ascontiguousarray(images.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    ]
    prints = {Dataset(f"set {i}", "any", form, labels, ("only",)).fingerprint for i, form in enumerate(held)}
    assert len(prints) == 1


def test_fingerprint_does_not_depend_on_the_block_size(monkeypatch):
    whole = build().fingerprint
    monkeypatch.setattr("sigmax.data.dataset._HASH_BLOCK", 2)
    assert build().fingerprint == whole


def test_fingerprint_tells_pixels_labels_order_and_shape_apart():
    images = build().images
    other = images.copy()
    other[1, 0, 0, 0] ^= 1
    prints = [
        build().fingerprint,
        build(other).fingerprint,
        build(labels=(0, 1, 1)).fingerprint,
        build().take([1, 0, 2]).fingerprint,
        build().take([0, 1]).fingerprint,
        build(images.reshape(3, 2, 5, 4)).fingerprint,
    ]
    assert len(set(prints)) == len(prints)


def test_lazy_images_are_read_only_when_asked_for():
    images = np.arange(12, dtype=np.uint8).reshape(3, 1, 2, 2)
    source = Recorded(images)
    data = build(source)
    assert data.shape == (1, 2, 2)
    assert data.fingerprint == build(Recorded(images.copy())).fingerprint
    assert source.asked == []
    np.testing.assert_array_equal(data.pixels([2, 0]), (images[[2, 0]] / 255.0).astype(np.float32))
    assert data.pixels([]).shape == (0, 1, 2, 2)
    assert source.asked == [[2, 0]]
    np.testing.assert_array_equal(data.take([1]).pixels([0]), data.pixels([1]))


def test_lazy_images_are_checked_as_they_come():
    with pytest.raises(RequestError, match="image 2 holds 7"):
        build(Recorded(floats(7.0, at=2))).pixels([0, 2])
    with pytest.raises(RequestError, match="int64"):
        build(Recorded(np.zeros((3, 1, 2, 2), int))).pixels([0])
    with pytest.raises(RequestError, match=r"shape \(1, 9, 9\)"):
        build(Recorded(floats(0.0), shape=(1, 9, 9))).pixels([0])


def test_survives_being_sent_to_another_process():
    assert pickle.loads(pickle.dumps(build())).fingerprint == build().fingerprint
