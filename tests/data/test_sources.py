"""load and register: from a source as written to a data set."""

import numpy as np
import pytest

from sigmax.data import Dataset, load, register
from sigmax.errors import RequestError

pytestmark = pytest.mark.usefixtures("registrations_are_forgotten")


def squares(request):
    images = np.zeros((2, 1, 3, 3), np.uint8)
    return Dataset(f"{request.kind} in {request.path}", request.split, images, [0, 1], ("small", "large"))


def test_an_added_source_is_used_like_any_other_and_may_be_replaced():
    register("squares")(lambda _: pytest.fail("the first reader was used"))
    register("squares")(squares)
    data = load("squares:C:/over there", "val")
    assert (data.name, data.split) == ("squares in C:/over there", "val")
    assert load("squares").name == "squares in "


def test_what_a_source_declares_is_checked_before_its_reader_is_called():
    register("squares", path=False, splits=("one", "two"))(lambda _: pytest.fail("it was called"))
    for source, split, size, words in [
        ("squares:x", "one", None, "takes no path, got 'x'"),
        ("squares", "three", None, "the splits are one and two, got 'three'; .*--split two"),
        ("squares", "one", 32, "only for the source folder, got 32"),
    ]:
        with pytest.raises(RequestError, match=words):
            load(source, split, size=size)


def test_an_unknown_source_lists_what_is_known():
    register("squares")(squares)
    with pytest.raises(RequestError) as refusal:
        load("imagenet:somewhere")
    listed = "cifar10:PATH, cifar100:PATH, digits, fashion:PATH, folder:PATH, mnist:PATH, npz:PATH, squares:PATH"
    assert f"'imagenet'; expected one of: {listed}" in str(refusal.value)


def test_a_reader_must_return_a_data_set():
    register("pair")(lambda _: (np.zeros((2, 1, 3, 3)), [0, 1]))
    with pytest.raises(RequestError, match="pair:x: the reader registered for 'pair' must return .*Dataset, got tuple"):
        load("pair:x")


def test_a_path_alone_suggests_its_source(tmp_path, monkeypatch):
    (tmp_path / "png").mkdir()
    monkeypatch.chdir(tmp_path)
    for given, meant in (("my.npz", "npz:my.npz"), ("png/", "folder:png"), ("png", "folder:png")):
        with pytest.raises(RequestError, match=f"source '{given}' .did you mean {meant}\\?.; expected one of"):
            load(given)
    with pytest.raises(RequestError, match="source '1{300}'; expected"):
        load("1" * 300)


def test_sources_of_the_library_cannot_be_replaced():
    with pytest.raises(RequestError, match="cannot be replaced"):
        register("digits")(squares)
    for kind in ("", "a:b"):
        with pytest.raises(RequestError, match="no colon"):
            register(kind)


def test_what_cannot_be_opened_later_is_refused_too(tmp_path):
    @register("closed")
    def closed(request):
        raise PermissionError("not yours")

    with pytest.raises(RequestError, match="'test' cannot be read .not yours.; check the names"):
        load("closed:x")
    with pytest.raises(RequestError, match="cannot be read .*name too long"):
        load(f"folder:{tmp_path}", "x" * 300)


def test_home_is_understood(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    np.savez(tmp_path / "mine.npz", images=np.zeros((1, 2, 2), np.uint8), labels=[0])
    assert load("npz:~/mine.npz").name == "mine"


def test_senseless_options_are_refused():
    with pytest.raises(RequestError, match="positive number of pixels, got 0"):
        load("digits", size=0)
    with pytest.raises(RequestError, match="split"):
        load("digits", "")
