"""Data sets of Hugging Face's library, where it is installed."""

import numpy as np
import pytest
from PIL import Image

from sigmax.data import Dataset, as_dataset
from sigmax.errors import RequestError

datasets = pytest.importorskip("datasets")

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 3, 4, 5), np.uint8)
LABELS = [0, 1, 2, 2, 1, 0]
NAMES = ["cat", "dog", "eel"]
WANTED = Dataset("any", "name", IMAGES, np.array(LABELS), tuple(NAMES))
PICTURES = [Image.fromarray(image.transpose(1, 2, 0)) for image in IMAGES]


def made(columns, **features):
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


def test_pictures_and_class_labels_whatever_the_columns_are_called(tmp_path):
    features = {"photo": datasets.Image(), "species": datasets.ClassLabel(names=NAMES), "id": datasets.Value("int64")}
    source = made({"photo": PICTURES, "species": LABELS, "id": range(6)}, **features)
    source.save_to_disk(tmp_path / "stored")
    for of in (source, datasets.load_from_disk(tmp_path / "stored"), source.with_format("torch")):
        data = as_dataset(of, classes=3)
        assert (data.classes, data.fingerprint) == (tuple(NAMES), WANTED.fingerprint)


def test_arrays_text_labels_and_missing_ones():
    array = datasets.Array3D((3, 4, 5), "uint8")
    source = made({"image": IMAGES, "label": [NAMES[i] for i in LABELS]}, image=array, label=datasets.Value("string"))
    assert as_dataset(source).fingerprint == WANTED.fingerprint
    nothing = made(
        {"image": PICTURES, "label": [-1] * 6}, image=datasets.Image(), label=datasets.ClassLabel(names=NAMES)
    )
    assert (as_dataset(nothing).labels, as_dataset(nothing).classes) == (None, tuple(NAMES))
    assert as_dataset(source.select_columns(["image"])).labels is None


def test_folders_of_pictures_are_read_from_disk(tmp_path):
    for i, (picture, label) in enumerate(zip(PICTURES, LABELS, strict=True)):
        (tmp_path / NAMES[label]).mkdir(exist_ok=True)
        picture.save(tmp_path / NAMES[label] / f"{i}.png")
    source = datasets.load_dataset(
        "imagefolder", data_dir=str(tmp_path), split="train", cache_dir=str(tmp_path / "cache")
    )
    data = as_dataset(source)
    assert (data.split, data.classes, sorted(data.labels.tolist())) == ("train", tuple(NAMES), sorted(LABELS))


def test_what_is_ambiguous_or_has_no_index_is_refused():
    one = made({"image": PICTURES, "label": LABELS}, image=datasets.Image(), label=datasets.Value("int64"))
    cases = {
        "choose one: dataset['train']": datasets.DatasetDict({"train": one, "test": one}),
        "streaming=False": one.to_iterable_dataset(),
        "keep one of them: dataset.remove_columns(['other'])": made(
            {"image": PICTURES, "other": PICTURES}, image=datasets.Image(), other=datasets.Image()
        ),
        "no column of images among label": one.select_columns(["label"]),
    }
    for words, source in cases.items():
        with pytest.raises(RequestError) as refusal:
            as_dataset(source)
        assert words in str(refusal.value)
