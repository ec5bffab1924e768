"""Image folders: which files are which class, and which split."""

import sys

import numpy as np
import pytest
from PIL import Image

from sigmax.data import load
from sigmax.errors import RequestError


def draw(file, value=0, size=(4, 3), mode="RGB"):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value, 0, 255)).save(file)


def test_classes_and_files_are_sorted_by_name(tmp_path):
    for value, name in enumerate(["eel/2.png", "eel/10.png", "cat/b.PNG", "cat/a.bmp", "dog/x.webp"]):
        draw(tmp_path / "set" / "test" / name, value)
    data = load(f"folder:{tmp_path}/set")
    assert (data.name, data.split, data.shape) == ("set", "test", (3, 3, 4))
    assert data.classes == ("cat", "dog", "eel")
    assert data.labels.tolist() == [0, 0, 1, 2, 2]
    assert np.rint(data.pixels([0, 1, 3, 4])[:, 0, 0, 0] * 255).tolist() == [3, 2, 1, 0]
    assert data.files_at([0, 3]) == ["cat/a.bmp", "eel/10.png"]


def test_splits_are_folders_and_a_single_split_needs_none(tmp_path):
    draw(tmp_path / "two/train/cat/1.png", 1)
    draw(tmp_path / "two/test/cat/1.png", 2)
    draw(tmp_path / "one/cat/1.png", 2)
    train, test = load(f"folder:{tmp_path}/two", "train"), load(f"folder:{tmp_path}/two", "test")
    assert train.fingerprint != test.fingerprint
    assert load(f"folder:{tmp_path}/one", "test").fingerprint == test.fingerprint
    assert load(f"folder:{tmp_path}/one", "val").fingerprint == test.fingerprint


def test_what_is_no_image_is_passed_over(tmp_path):
    draw(tmp_path / "cat/1.png")
    draw(tmp_path / "cat/._1.png")
    draw(tmp_path / ".thumbnails/1.png")
    (tmp_path / "cat/notes.txt").write_text("not an image")
    (tmp_path / "LICENSE").write_text("free")
    data = load(f"folder:{tmp_path}")
    assert len(data) == 1
    assert data.classes == ("cat",)


def test_pictures_of_other_formats_are_counted_aloud(tmp_path):
    draw(tmp_path / "1.png")
    for name in ("a.tiff", "b.TIFF", "c.gif", "notes.txt"):
        (tmp_path / name).touch()
    with pytest.warns(UserWarning, match=r"skipped: 2 \.tiff, 1 \.gif; only \.png .* so convert them"):
        assert len(load(f"folder:{tmp_path}")) == 1


def test_an_empty_folder_is_a_class_without_images(tmp_path):
    draw(tmp_path / "dog/1.png")
    (tmp_path / "cat").mkdir()
    assert load(f"folder:{tmp_path}").labels.tolist() == [1]


def test_a_split_that_would_shift_the_labels_is_refused(tmp_path):
    for name in ("train/cat", "train/dog", "train/eel", "test/cat", "test/eel"):
        draw(tmp_path / name / "1.png")
    with pytest.raises(RequestError, match="same classes, but only one of them has dog; add the missing folders"):
        load(f"folder:{tmp_path}")
    (tmp_path / "test/dog").mkdir()
    assert load(f"folder:{tmp_path}").labels.tolist() == [0, 2]


def test_pictures_in_no_class_folder_have_no_labels(tmp_path):
    for value, name in enumerate(["b.png", "a.png", "c.jpg"]):
        draw(tmp_path / name, 100 * value)
    (tmp_path / "empty").mkdir()
    data = load(f"folder:{tmp_path}")
    assert (data.labels, data.classes, len(data)) == (None, (), 3)
    assert data.take([2, 0]).files_at([0, 1]) == ["c.jpg", "a.png"]
    assert np.rint(data.pixels([0, 1])[:, 0, 0, 0] * 255).tolist() == [100, 0]
    draw(tmp_path / "split/test/x.png")
    assert load(f"folder:{tmp_path}/split").labels is None
    draw(tmp_path / "cat/1.png")
    with pytest.raises(RequestError, match=r"images of its own \(a.png\) and folders of images \(cat\)"):
        load(f"folder:{tmp_path}")


def test_a_split_of_another_name_is_suggested(tmp_path):
    draw(tmp_path / "train/cat/1.png")
    draw(tmp_path / "val/cat/1.png")
    with pytest.raises(RequestError) as refusal:
        load(f"folder:{tmp_path}", "test")
    for word in ["no images for the split 'test'", "folders train, val", "test/<class>/", "*.png", "another split"]:
        assert word in str(refusal.value)


def test_empty_folders_and_files_are_refused(tmp_path):
    with pytest.raises(RequestError, match=r"holds the folders \(none\)"):
        load(f"folder:{tmp_path}")
    (tmp_path / "file").touch()
    with pytest.raises(RequestError, match="not a folder"):
        load(f"folder:{tmp_path}/file")


def test_without_pillow_it_says_what_to_install(tmp_path, monkeypatch):
    draw(tmp_path / "cat/1.png")
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(RequestError, match=r"pip install 'sigmax\[images\]'"):
        load(f"folder:{tmp_path}")
