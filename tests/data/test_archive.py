"""npz files: layouts, splits, class names, and nothing executed."""

import os
import struct
import zipfile

import numpy as np
import pytest

from sigmax.data import Dataset, load
from sigmax.errors import RequestError

IMAGES = np.arange(4 * 3 * 5 * 6, dtype=np.uint8).reshape(4, 3, 5, 6)
LABELS = np.array([0, 1, 2, 1])


@pytest.fixture
def save(tmp_path):
    """Writes arrays to a file and returns it as a source."""

    def write(**arrays):
        np.savez(tmp_path / "mine.npz", **arrays)
        return f"npz:{tmp_path / 'mine.npz'}"

    return write


@pytest.mark.parametrize("compress", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    "images",
    [IMAGES, IMAGES.transpose(0, 2, 3, 1), (IMAGES / 255).astype(np.float32), IMAGES / 255.0],
    ids=["channels first", "channels last", "float32", "float64"],
)
def test_every_form_is_one_data_set(images, compress, tmp_path):
    compress(tmp_path / "mine.npz", images=images, labels=LABELS)
    data = load(f"npz:{tmp_path}/mine.npz")
    assert (data.name, data.split, data.shape) == ("mine", "all", (3, 5, 6))
    assert data.fingerprint == Dataset("any", "any", IMAGES, LABELS, ("a", "b", "c")).fingerprint


def test_images_without_channels_are_grey(save):
    data = load(save(images=IMAGES[:, 0], labels=LABELS))
    assert data.shape == (1, 5, 6)
    assert load(save(images=IMAGES[:, 0, :, :, None], labels=LABELS)).fingerprint == data.fingerprint


def test_plain_names_are_the_only_split_whatever_is_asked_for(save):
    source = save(images=IMAGES, labels=LABELS)
    assert load(source, "train").fingerprint == load(source, "test").fingerprint
    assert load(source, "train").split == load(source, "test").split == "all"


def test_named_splits_are_told_apart(save):
    source = save(
        train_images=IMAGES, train_labels=LABELS, test_images=IMAGES[:2], test_labels=LABELS[:2], images=IMAGES
    )
    assert len(load(source, "train")) == 4
    assert len(load(source, "test")) == 2
    assert load(source, "test").classes == ("0", "1", "2"), "classes are counted over the whole file"
    with pytest.raises(RequestError, match="no split 'val'; ask for one of: train, test"):
        load(source, "val")


@pytest.mark.parametrize("names", [["cat", "dog", "eel"], np.array([b"cat", b"dog", b"eel"])])
def test_classes_may_be_named(names, save):
    assert load(save(images=IMAGES, labels=LABELS, classes=names)).classes == ("cat", "dog", "eel")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": IMAGES, "y": LABELS}, ["lacks images and labels", "got x, y"]),
        ({"images": IMAGES}, ["lacks labels", "got images"]),
        ({"test_images": IMAGES, "labels": LABELS}, ["lacks test_labels"]),
        ({"images": IMAGES[0, 0], "labels": LABELS}, ["(N, H, W, C)", "(5, 6)"]),
        ({"images": np.zeros((4, 5, 6, 4), np.uint8), "labels": LABELS}, ["1 or 3 channels", "Dataset"]),
        ({"images": IMAGES.astype(np.float32), "labels": LABELS}, ["mine all", "divide by 255"]),
        ({"images": IMAGES.astype(int), "labels": LABELS}, ["int64", "uint8"]),
        ({"images": IMAGES, "labels": LABELS[:3]}, ["4 images but 3 labels"]),
        ({"images": IMAGES, "labels": LABELS / 1.0}, ["integers", "float64"]),
        ({"images": IMAGES, "labels": ["a", "b", "c", "d"]}, ["integers"]),
        ({"images": IMAGES, "labels": -LABELS}, ["label 1 is -1"]),
        ({"images": IMAGES, "labels": LABELS + 2**40}, ["class indices", "1099511627778"]),
        ({"images": IMAGES, "labels": LABELS, "classes": ["cat", "dog"]}, ["label 2 is 2", "2 classes"]),
    ],
)
def test_what_does_not_fit_is_refused_with_advice(arrays, words, save):
    with pytest.raises(RequestError) as refusal:
        load(save(**arrays))
    for word in words:
        assert word in str(refusal.value)


def test_objects_are_refused_and_not_run(save, tmp_path):
    class Gadget:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "mark"),)

    source = save(images=IMAGES, labels=LABELS, classes=np.array([Gadget(), None], object))
    with pytest.raises(RequestError, match="classes as strings"):
        load(source)
    assert not (tmp_path / "mark").exists()


def test_what_is_no_npz_is_refused(tmp_path):
    file = tmp_path / "mine.npz"
    for content in (b"", b"junk", b"\x93NUMPY\x01\x00"):
        file.write_bytes(content)
        with pytest.raises(RequestError, match=r"not an \.npz file; .*numpy\.savez"):
            load(f"npz:{file}")
    with pytest.raises(RequestError, match=r"not an \.npz file"):
        load(f"npz:{tmp_path}")


def test_damage_inside_is_noticed(save, tmp_path):
    source = save(images=IMAGES, labels=LABELS)
    file = tmp_path / "mine.npz"
    content = bytearray(file.read_bytes())
    content[200] ^= 0xFF
    file.write_bytes(content)
    with pytest.raises(RequestError, match="cannot be read"):
        load(source)


def npy(header):
    """A member whose header says this and that holds nothing else."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()


@pytest.mark.parametrize("place", ["images", "labels", "classes"])
@pytest.mark.parametrize(
    ("ending", "content"),
    [
        ("", b"plain bytes"),
        (".npy", b"no magic number"),
        (".npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1,\n")),
        (".npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1L,\n")),
        (".npy", npy(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({2**48}, 1, 1), }}\n")),
        (".npy", npy("(" * 5000 + "\n")),
    ],
    ids=["no npy", "no magic", "cut header", "cut header of python 2", "256 TiB", "nested"],
)
def test_a_member_that_is_no_array_is_refused(place, ending, content, save, tmp_path):
    arrays = {"images": IMAGES, "labels": LABELS, "classes": ["a", "b", "c"]}
    source = save(**{name: array for name, array in arrays.items() if name != place})
    with zipfile.ZipFile(tmp_path / "mine.npz", "a") as file:
        file.writestr(f"{place}{ending}", content)
    with pytest.raises(RequestError, match=r"mine\.npz cannot be read .*numpy\.savez"):
        load(source)
