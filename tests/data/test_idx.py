"""idx files: round trips, every spelling, and every way to be damaged."""

import gzip
import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sigmax.data import load
from sigmax.data.idx import read_idx
from sigmax.errors import RequestError

IMAGES = hnp.arrays(np.uint8, hnp.array_shapes(min_dims=3, max_dims=3, max_side=6))


def encode(array):
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    return head + array.astype(np.uint8).tobytes()


def write(folder, images, labels, *, prefix="t10k", joint="-", ending=""):
    folder.mkdir(parents=True, exist_ok=True)
    pack = gzip.compress if ending else bytes
    (folder / f"{prefix}-images{joint}idx3-ubyte{ending}").write_bytes(pack(encode(images)))
    (folder / f"{prefix}-labels{joint}idx1-ubyte{ending}").write_bytes(pack(encode(labels)))


def sample(count=4):
    return np.arange(count * 6, dtype=np.uint8).reshape(count, 2, 3), np.arange(count, dtype=np.uint8)


@given(IMAGES, st.sampled_from(["-", "."]), st.sampled_from(["", ".gz"]), st.sampled_from(["train", "test"]))
def test_what_is_written_is_read(images, joint, ending, split):
    labels = np.arange(len(images)) % 10
    with tempfile.TemporaryDirectory() as folder:
        prefix = "train" if split == "train" else "t10k"
        write(Path(folder), images, labels, prefix=prefix, joint=joint, ending=ending)
        data = load(f"mnist:{folder}", split)
    np.testing.assert_array_equal(data.images, images[:, None])
    np.testing.assert_array_equal(data.labels, labels)


def test_plain_and_gzipped_have_one_fingerprint(tmp_path):
    write(tmp_path / "plain", *sample())
    write(tmp_path / "zipped", *sample(), joint=".", ending=".gz")
    plain, zipped = load(f"mnist:{tmp_path}/plain"), load(f"mnist:{tmp_path}/zipped")
    assert plain.fingerprint == zipped.fingerprint


def test_names_of_the_classes(tmp_path):
    write(tmp_path, *sample())
    assert load(f"mnist:{tmp_path}").classes[9] == "9"
    assert load(f"fashion:{tmp_path}").classes[9] == "Ankle boot"
    assert load(f"fashion:{tmp_path}").name == "fashion"


def test_two_sets_under_one_root_are_not_confused(tmp_path):
    write(tmp_path / "MNIST/raw", *sample(4))
    write(tmp_path / "FashionMNIST/raw", *sample(5))
    assert len(load(f"mnist:{tmp_path}")) == 4
    assert len(load(f"fashion:{tmp_path}")) == 5


def test_a_missing_file_is_named(tmp_path):
    write(tmp_path, *sample())
    with pytest.raises(RequestError, match=r"holds no train-images-idx3-ubyte; expected .* plain or \.gz"):
        load(f"mnist:{tmp_path}", "train")
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(RequestError, match="holds no t10k-labels-idx1-ubyte"):
        load(f"mnist:{tmp_path}")


def test_every_truncation_is_noticed(tmp_path):
    whole = encode(sample()[0])
    file = tmp_path / "images"
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(RequestError, match="truncated: expected" if length >= 4 else "not an idx file"):
            read_idx(file, axes=3)


def test_every_truncation_of_a_gzipped_file_is_noticed(tmp_path):
    whole = gzip.compress(encode(sample()[0]))
    file = tmp_path / "images.gz"
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(RequestError, match="images.gz"):
            read_idx(file, axes=3)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (encode(sample()[1]), ["00000803", "00000801", "exchanged"]),
        (encode(sample()[0]) + b"\0", ["goes on after"]),
        (b"\0\0\x0d\3" + encode(sample()[0])[4:], ["00000d03"]),
        (b"\0\0\x08\3" + b"\xff" * 12, ["truncated"]),
        (b"<html>not found</html>", ["not an idx file", "3c68746d"]),
        (b"", ["got nothing"]),
    ],
)
def test_what_is_not_idx_is_refused(content, words, tmp_path):
    write(tmp_path, *sample())
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(content)
    with pytest.raises(RequestError) as refusal:
        load(f"mnist:{tmp_path}")
    for word in ["t10k-images-idx3-ubyte", *words]:
        assert word in str(refusal.value)


def test_what_is_not_gzip_is_refused(tmp_path):
    write(tmp_path, *sample(), ending=".gz")
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(encode(sample()[1]))
    with pytest.raises(RequestError, match="cannot be unzipped"):
        load(f"mnist:{tmp_path}")


def test_images_and_labels_must_agree(tmp_path):
    write(tmp_path, sample(4)[0], sample(3)[1])
    with pytest.raises(RequestError, match="4 images but 3 labels"):
        load(f"mnist:{tmp_path}")
    write(tmp_path, sample(4)[0], np.array([0, 1, 10, 2]))
    with pytest.raises(RequestError, match="label 2 is 10"):
        load(f"mnist:{tmp_path}")
