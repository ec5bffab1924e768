"""npz files beyond the table: one set without splits, class names, each mistake by its words, nothing executed."""

import os
import struct
import warnings
import zipfile

import numpy as np
import pytest

from sigmax.data import load
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
        ({"x": IMAGES, "y": LABELS}, ["lacks images", "got x, y"]),
        ({"images": IMAGES, "y": LABELS}, ["lacks labels but holds y", "rename them to labels"]),
        ({"test_images": IMAGES, "labels": LABELS}, ["lacks test_labels"]),
        ({"images": IMAGES[0, 0], "labels": LABELS}, ["(N, H, W, C)", "(5, 6)"]),
        ({"images": np.zeros((4, 5, 6, 4), np.uint8), "labels": LABELS}, ["1 or 3 channels", "Dataset"]),
        ({"images": IMAGES.astype(np.float32), "labels": LABELS}, ["mine all", "divide by 255"]),
        ({"images": IMAGES.astype(int), "labels": LABELS}, ["int64", "uint8"]),
        ({"images": IMAGES, "labels": LABELS[:3]}, ["4 images but 3 labels"]),
        ({"images": IMAGES, "labels": LABELS / 1.0}, ["integers", "float64"]),
        ({"images": IMAGES, "labels": ["1", "2", "10", "1"]}, ["numbers written as text", "astype('int64')"]),
        ({"images": IMAGES, "labels": [True] * 4}, ["integers", "bool"]),
        (
            {"images": IMAGES, "labels": ["cat"] * 4, "classes": ["dog", "eel"]},
            ["no class is called 'cat'", "dog, eel"],
        ),
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


def test_labels_may_be_left_out_and_are_then_part_of_the_fingerprint(save):
    data = load(save(images=IMAGES))
    assert (data.labels, data.classes, data.labelled, len(data)) == (None, (), False, 4)
    assert data.take([1, 3]).labels is None
    assert "no labels" in repr(data)
    assert load(save(images=IMAGES, classes=["cat", "dog"])).classes == ("cat", "dog")
    assert load(save(images=IMAGES, labels=LABELS)).fingerprint != data.fingerprint
    with pytest.raises(RequestError, match="mine all has no labels, which training needs; give data with labels"):
        data.needed_labels("training")


@pytest.mark.filterwarnings("ignore:.*numbered alphabetically")
@pytest.mark.parametrize("kind", [str, bytes])
def test_labels_by_name_are_numbered_in_alphabetical_order_over_the_whole_file(kind, save):
    of = {str: lambda names: np.array(names), bytes: lambda names: np.array(names, "S")}[kind]
    source = save(
        train_images=IMAGES,
        train_labels=of(["eel", "cat", "dog", "cat"]),
        test_images=IMAGES[:1],
        test_labels=of(["eel"]),
    )
    with pytest.warns(UserWarning, match="numbered alphabetically") as caught:
        assert load(source, "train").labels.tolist() == [2, 0, 1, 0]
    assert len(caught) == 1
    assert (load(source, "test").labels.tolist(), load(source).classes) == ([2], ("cat", "dog", "eel"))
    given = save(images=IMAGES, labels=of(["eel", "cat", "dog", "cat"]), classes=["eel", "dog", "cat"])
    assert load(given).labels.tolist() == [0, 2, 1, 2]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([1, 2, 3, 1], ["no label is 0, but one is 3", "subtract 1"]),
        ([0, 5, 9, 5], ["no label is 1, 2, 3, 4, 6, ...", "numpy.unique"]),
    ],
)
def test_labels_that_leave_classes_out_are_warned_of_unless_the_classes_are_named(labels, words, save):
    with pytest.warns(UserWarning, match="Labels are class indices from 0") as caught:
        load(save(images=IMAGES, labels=labels))
    assert len(caught) == 1
    assert all(word in str(caught[0].message) for word in words)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(save(images=IMAGES, labels=labels, classes=[f"class {i}" for i in range(10)]))


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


def npy(header):
    """A member whose header says this and that holds nothing else."""
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()


@pytest.mark.parametrize(
    ("place", "ending", "content"),
    [
        ("images", "", b"plain bytes"),
        ("labels", ".npy", b"no magic number"),
        ("classes", ".npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (1,\n")),
        ("images", ".npy", npy(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({2**48}, 1, 1), }}\n")),
        ("labels", ".npy", npy("(" * 5000 + "\n")),
    ],
    ids=["no npy", "no magic", "cut header", "256 TiB", "nested"],
)
def test_a_member_that_is_no_array_is_refused(place, ending, content, save, tmp_path):
    arrays = {"images": IMAGES, "labels": LABELS, "classes": ["a", "b", "c"]}
    source = save(**{name: array for name, array in arrays.items() if name != place})
    with zipfile.ZipFile(tmp_path / "mine.npz", "a") as file:
        file.writestr(f"{place}{ending}", content)
    with pytest.raises(RequestError, match=r"mine\.npz cannot be read .*numpy\.savez"):
        load(source)
