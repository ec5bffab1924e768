"""load and register: from a source as written to a data set."""

import numpy as np
import pytest

from sigmax.data import Dataset, load, register, sources
from sigmax.errors import RequestError


@pytest.fixture
def registry(monkeypatch):
    """A registry whose additions are forgotten after the test."""
    monkeypatch.setattr(sources, "_ADDED", {})


def squares(request):
    images = np.zeros((2, 1, 3, 3), np.uint8)
    return Dataset(f"{request.kind} in {request.path}", request.split, images, [0, 1], ("small", "large"))


@pytest.mark.usefixtures("registry")
def test_a_source_of_ones_own_is_used_like_any_other():
    register("squares", squares)
    data = load("squares:C:/over there", "val")
    assert (data.name, data.split) == ("squares in C:/over there", "val")


@pytest.mark.usefixtures("registry")
def test_an_unknown_source_is_told_what_is_known():
    register("squares", squares)
    with pytest.raises(RequestError) as refusal:
        load("imagenet:somewhere")
    for word in ["'imagenet:somewhere'", "digits", "mnist:PATH", "fashion:PATH", "cifar10:PATH", "npz:PATH"]:
        assert word in str(refusal.value)
    assert "folder:PATH, squares" in str(refusal.value)


@pytest.mark.usefixtures("registry")
def test_own_sources_may_be_replaced_but_not_those_of_the_library():
    register("squares", lambda _: pytest.fail("the first loader was used"))
    register("squares", squares)
    assert len(load("squares")) == 2
    with pytest.raises(RequestError, match="cannot be replaced"):
        register("digits", squares)


@pytest.mark.parametrize("kind", ["", "a:b"])
def test_a_kind_must_be_a_plain_name(kind):
    with pytest.raises(RequestError, match="without a colon"):
        register(kind, squares)


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("mnist", "t10k-images-idx3-ubyte"),
        ("fashion", "t10k-labels-idx1-ubyte"),
        ("cifar10", "test_batch.bin"),
        ("npz", "images and labels"),
        ("folder", "test/<class>/"),
    ],
)
def test_a_missing_path_is_named_with_what_should_be_there(kind, file, tmp_path):
    with pytest.raises(RequestError) as refusal:
        load(f"{kind}:{tmp_path}/nowhere")
    assert f"{tmp_path}/nowhere does not exist" in str(refusal.value)
    assert file in str(refusal.value)
    with pytest.raises(RequestError, match=f"write {kind}:PATH"):
        load(kind)


@pytest.mark.parametrize("kind", ["mnist", "fashion", "cifar10", "npz", "folder"])
@pytest.mark.parametrize("path", ["~nosuchuser/x", "x" * 300, "a\0b"], ids=["nobody's home", "too long", "null"])
def test_a_path_that_cannot_be_is_refused(kind, path):
    with pytest.raises(RequestError, match="; expected "):
        load(f"{kind}:{path}")


@pytest.mark.usefixtures("registry")
def test_what_cannot_be_opened_later_is_refused_too(tmp_path):
    def closed(request):
        raise PermissionError("not yours")

    register("closed", closed)
    with pytest.raises(RequestError, match="'test' cannot be read .not yours.; check the names"):
        load("closed:x")
    with pytest.raises(RequestError, match="cannot be read .*name too long"):
        load(f"folder:{tmp_path}", "x" * 300)


def test_home_is_understood(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    np.savez(tmp_path / "mine.npz", images=np.zeros((1, 2, 2), np.uint8), labels=[0])
    assert load("npz:~/mine.npz").name == "mine"


@pytest.mark.parametrize("source", ["digits", "mnist:x", "fashion:x", "cifar10:x", "npz:x"])
def test_a_size_is_only_for_folders(source):
    with pytest.raises(RequestError, match="only for folders"):
        load(source, size=32)


@pytest.mark.parametrize("source", ["digits", "mnist:x", "fashion:x", "cifar10:x"])
def test_fixed_splits_are_named(source):
    with pytest.raises(RequestError, match="train and test, got 'val'"):
        load(source, "val")


def test_senseless_options_are_refused():
    with pytest.raises(RequestError, match="positive number of pixels, got 0"):
        load("digits", size=0)
    with pytest.raises(RequestError, match="split"):
        load("digits", "")
