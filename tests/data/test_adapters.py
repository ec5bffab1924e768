"""Images in whatever a user has them: every kind becomes the same data set, lazily, or is refused with advice."""

import warnings
from collections import namedtuple

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

from sigmax.data import Dataset, as_dataset, is_data_source
from sigmax.errors import RequestError
from tests.data.table import ROWS, sample

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 3, 4, 5), np.uint8)
LABELS = np.array([0, 1, 2, 2, 1, 0])
FLOATS = (IMAGES / np.float32(255)).astype(np.float32)
NAMES = ("cat", "dog", "eel")
WANTED = Dataset("any", "name", IMAGES, LABELS, NAMES)


class Items:
    """A map-style data set that counts what is read of it."""

    def __init__(self, items, **more):
        self.items, self.read = list(items), 0
        self.__dict__.update(more)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        self.read += 1
        return self.items[index]


def pictures(images=IMAGES):
    return [Image.fromarray(image.transpose(1, 2, 0)) for image in images]


def pairs(images, labels=LABELS):
    return list(zip(images, labels, strict=True))


def tensors():
    return TensorDataset(torch.from_numpy(FLOATS), torch.from_numpy(LABELS))


SOURCES = {
    "a data set": lambda: WANTED,
    "8-bit arrays": lambda: (IMAGES, LABELS),
    "channels last": lambda: (IMAGES.transpose(0, 2, 3, 1), LABELS),
    "float64 and a list": lambda: (FLOATS.astype(np.float64), LABELS.tolist()),
    "tensors": lambda: (torch.from_numpy(FLOATS).requires_grad_(), torch.from_numpy(LABELS)),
    "8-bit tensors": lambda: (torch.from_numpy(IMAGES), torch.from_numpy(LABELS)),
    "pictures and labels": lambda: (pictures(), LABELS),
    "labels by name": lambda: (IMAGES, [NAMES[label] for label in LABELS]),
    "a list of pairs": lambda: pairs(pictures()),
    "torchvision-style pictures": lambda: Items(pairs(pictures()), classes=list(NAMES)),
    "torchvision-style tensors": lambda: Items(pairs(map(torch.from_numpy, FLOATS), map(int, LABELS))),
    "dicts": lambda: Items({"image": image, "label": label} for image, label in pairs(pictures())),
    "a torch Dataset": tensors,
    "a part of one": lambda: Subset(tensors(), range(6)),
    "a DataLoader": lambda: DataLoader(tensors(), batch_size=4),
    "a DataLoader of single items": lambda: DataLoader(tensors(), batch_size=None),
}


@pytest.mark.filterwarnings("ignore:.*numbered alphabetically")
@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES.keys())
def test_every_kind_is_the_same_data_set(make):
    data = as_dataset(make(), classes=3 if make != SOURCES["labels by name"] else None)
    assert is_data_source(make())
    np.testing.assert_array_equal(data.pixels([4, 0]), FLOATS[[4, 0]])
    assert data.labels.tolist() == LABELS.tolist()
    assert data.fingerprint == WANTED.fingerprint
    assert data.take([1, 3]).fingerprint == WANTED.take([1, 3]).fingerprint
    assert len(data.classes) == 3


UNLABELLED = {
    "an array": lambda: IMAGES,
    "a tensor": lambda: torch.from_numpy(FLOATS),
    "a pair": lambda: (IMAGES, None),
    "pictures": lambda: (pictures(), None),
    "a list of pictures": pictures,
    "a torch Dataset": lambda: TensorDataset(torch.from_numpy(FLOATS)),
    "dicts": lambda: Items({"img": image} for image in IMAGES),
}


@pytest.mark.parametrize("make", UNLABELLED.values(), ids=UNLABELLED.keys())
def test_labels_may_be_missing(make):
    data = as_dataset(make())
    assert (data.labels, data.classes, len(data)) == (None, (), 6)
    assert data.fingerprint == Dataset("any", "name", IMAGES, None, ()).fingerprint


def test_a_source_is_what_the_command_line_reads(tmp_path):
    source = ROWS["npz"].write(tmp_path, "test", *sample(ROWS["npz"]))
    assert as_dataset(source).fingerprint == as_dataset(f"npz:{tmp_path}/mine.npz", split="test").fingerprint


def test_names_of_classes_come_from_the_data_or_the_caller():
    assert as_dataset(Subset(Items(pairs(pictures()), classes=list(NAMES)), [0, 1, 2])).classes == NAMES
    assert as_dataset((IMAGES, LABELS), classes=NAMES).classes == NAMES
    assert as_dataset((IMAGES, LABELS), classes=5).classes == tuple("01234")
    by_name = as_dataset((IMAGES, ["eel", "cat", "dog"] * 2), classes=("dog", "cat", "eel", "fox"))
    assert by_name.labels.tolist() == [2, 1, 0] * 2


def test_labels_are_numbered_in_the_order_of_the_names_given(tmp_path):
    order = ("dog", "eel", "cat")
    for name, image, label in zip("abcdef", pictures(), LABELS, strict=True):
        (tmp_path / NAMES[label]).mkdir(exist_ok=True)
        image.save(tmp_path / NAMES[label] / f"{name}.png")
    items = Items(pairs(pictures()), classes=list(NAMES))
    for source in (WANTED, f"folder:{tmp_path}", items):
        before, after = as_dataset(source), as_dataset(source, classes=order)
        assert after.classes == order
        assert [order[label] for label in after.labels] == [NAMES[label] for label in before.labels]
        np.testing.assert_array_equal(after.pixels(range(6)), before.pixels(range(6)))
    assert as_dataset(WANTED, classes=NAMES) is as_dataset(WANTED, classes=3) is WANTED
    more = as_dataset(WANTED, classes=("fox", *order))
    assert [more.classes[label] for label in more.labels] == [NAMES[label] for label in LABELS]
    numbers = Dataset("any", "name", IMAGES, LABELS, ("0", "1", "2"))
    assert as_dataset(numbers, classes=order).classes == order
    assert as_dataset(numbers, classes=order).labels.tolist() == LABELS.tolist()
    unlabelled = Dataset("any", "name", IMAGES, None, ())
    assert (as_dataset(unlabelled, classes=order).labels, as_dataset(unlabelled, classes=order).classes) == (
        None,
        order,
    )


@pytest.mark.parametrize("wrong", [("dog", "cat"), ("dog", "cat", "owl"), ("dog", "cat", "eel", "eel"), "dog", ()])
def test_names_that_are_not_those_of_the_data_are_refused(wrong):
    with pytest.raises(RequestError, match=r"cat, dog, eel\), got . names|must be a non-empty tuple of names, got"):
        as_dataset(WANTED, classes=wrong)


def test_images_are_read_when_asked_for():
    items = Items(pairs(pictures()))
    data = as_dataset(items)
    before = items.read
    data.pixels([2, 5])
    assert items.read == before + 2
    assert isinstance(data.images.source, Items)


def test_grey_pictures_among_coloured_ones_become_coloured():
    mixed = [*pictures(), Image.new("L", (5, 4), 7)]
    assert as_dataset((mixed, None)).pixels([6]).shape == (1, 3, 4, 5)
    assert as_dataset(([Image.new("L", (5, 4), 7)], None)).shape == (1, 4, 5)


class Stream(IterableDataset):
    """A data set without an index."""

    def __iter__(self):
        return iter(pairs(FLOATS))


def flipped():
    """Items that change at random, as training data does."""
    generator = np.random.default_rng(0)
    return type("Flipped", (Items,), {"__getitem__": lambda self, i: generator.random((3, 4, 5), np.float32)})([0] * 6)


class Raising(Items):
    """A data set with a mistake."""

    def __init__(self):
        super().__init__([0])

    def __getitem__(self, index):
        return {}[index]


Triple = namedtuple("Triple", "image label weight")
REFUSED = {
    "a shuffling loader": (lambda: DataLoader(tensors(), shuffle=True), "shuffle=False"),
    "a collating loader": (lambda: DataLoader(tensors(), collate_fn=list), "collate_fn"),
    "a loader of a stream": (lambda: DataLoader(Stream()), "IterableDataset"),
    "a stream": (Stream, "has no index; read it into arrays"),
    "items that change": (flipped, "not the same each time it is read; leave random transforms out"),
    "items of three": (lambda: [Triple(*pair, 1) for pair in pairs(IMAGES)], "returns (image, label)"),
    "other keys": (lambda: [{"pixels": image} for image in IMAGES], "got keys pixels"),
    "four channels": (lambda: (np.zeros((2, 4, 5, 5), np.uint8), None), "1 or 3 channels"),
    "an item of four channels": (lambda: [(np.zeros((4, 5, 5)), 0)], "channels first where both fit; got (4, 5, 5)"),
    "16 bits": (lambda: [(Image.new("I;16", (4, 4)), 0)], "more than 8 bits"),
    "normalised images": (lambda: TensorDataset(torch.from_numpy(FLOATS) - 0.5), "undo the normalisation"),
    "two sizes": (lambda: [(np.zeros((1, 4, 4)), 0), (np.zeros((1, 5, 4)), 0)], "image 1 has shape (1, 5, 4)"),
    "some labels": (lambda: pairs(IMAGES, [0, 1, None, 1, 0, 0]), "item 2 has no label, but others have"),
    "too few labels": (lambda: (pictures(), LABELS[:4]), "6 images but 4 labels"),
    "counted from 1": (lambda: (IMAGES, LABELS + 1), "counted from 1; subtract 1"),
    "numbers as text": (lambda: (IMAGES, LABELS.astype(str)), "numbers written as text"),
    "too few names": (
        lambda: (IMAGES, ["cat", "dog"] * 3),
        "the labels name 2 classes (cat, dog, ...), and there are 3",
    ),
    "nothing": (list, "no images"),
    "a dict": (lambda: {"train": tensors()}, "dict with the keys train; choose one"),
    "a number": (lambda: 5, "got int"),
    "one picture": (lambda: pictures()[0], "a single image; put it into a list"),
    "items that raise": (Raising, "item 0 cannot be read (KeyError: 0)"),
}


@pytest.mark.parametrize(("make", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_read_is_refused_with_advice(make, words):
    with pytest.raises(RequestError) as refusal:
        as_dataset(make(), classes=3).fingerprint  # noqa: B018 (it is computed)
    assert words in str(refusal.value)


def test_labels_that_leave_classes_out_are_warned_of():
    with pytest.warns(UserWarning, match="no label is 0, but one is 3.*subtract 1"):
        as_dataset((IMAGES, LABELS + 1))
    many = np.tile(LABELS, 10)
    with pytest.warns(UserWarning, match="no label is 1, but one is 2"):
        as_dataset((np.tile(IMAGES, (10, 1, 1, 1)), np.where(many == 1, 2, many)), classes=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_dataset((IMAGES[:2], [2, 3]), classes=4)  # few images need not have every class


def test_names_numbered_alphabetically_are_warned_of_with_the_fix():
    names = ["zero", "one", "two", "three", "four", "five"]
    with pytest.warns(
        UserWarning, match=r"0 five, 1 four, 2 one, \.\.\.\)\. Name all classes in the order of"
    ) as caught:
        as_dataset((IMAGES, names))
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert as_dataset((IMAGES, names), classes=names).labels.tolist() == list(range(6))


def test_a_batch_of_inputs_is_no_data_source():
    for batch in (IMAGES, torch.from_numpy(FLOATS), [[0.1, 0.2], [0.3, 0.4]], [np.zeros(2), np.ones(2)], []):
        assert not is_data_source(batch)
