"""CIFAR-10: both published versions, their equality, and the real data where it is at hand."""

import os
import pickle
import struct
import subprocess
import sys

import numpy as np
import pytest

from sigmax.data import load
from sigmax.errors import RequestError

TRAIN = [f"data_batch_{i}" for i in range(1, 6)]


def records(count, seed):
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (count, 3072), np.uint8), generator.integers(0, 10, count)


def write_binary(folder, name, pixels, labels):
    folder.mkdir(parents=True, exist_ok=True)
    rows = np.concatenate([labels[:, None].astype(np.uint8), pixels], axis=1)
    (folder / f"{name}.bin").write_bytes(rows.tobytes())


def write_python(folder, name, pixels, labels, protocol=2):
    folder.mkdir(parents=True, exist_ok=True)
    batch = {b"batch_label": b"testing", b"labels": labels.tolist(), b"data": pixels, b"filenames": [b"a.png"]}
    (folder / name).write_bytes(pickle.dumps(batch, protocol=protocol))


def as_python_2_wrote_it(pixels, labels):
    """The instructions of the published pickles: byte strings as U and T, numpy's old module names."""
    shape = b"M" + struct.pack("<H", len(pixels)) + b"M" + struct.pack("<H", 3072) + b"\x86"
    dtype = b"cnumpy\ndtype\nU\x02u1K\0K\1\x87R(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
    raw = b"T" + struct.pack("<I", pixels.size) + pixels.tobytes()
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R(K\1" + shape + dtype
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(U\4data" + array + b"\x89" + raw + b"tbU\6labels" + listed + b"u."


def test_records_are_a_label_and_three_planes(tmp_path):
    pixels, labels = records(4, seed=0)
    write_binary(tmp_path, "test_batch", pixels, labels)
    data = load(f"cifar10:{tmp_path}")
    assert data.shape == (3, 32, 32)
    assert data.labels.tolist() == labels.tolist()
    assert data.images[2, 1, 3, 5] == pixels[2, 1024 + 3 * 32 + 5]
    assert " ".join(data.classes) == "airplane automobile bird cat deer dog frog horse ship truck"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("split", ["train", "test"])
def test_both_versions_are_one_data_set(split, protocol, tmp_path):
    for number, name in enumerate(TRAIN if split == "train" else ["test_batch"]):
        batch = records(3, seed=number)
        write_binary(tmp_path / "one", name, *batch)
        write_python(tmp_path / "two", name, *batch, protocol=protocol)
    binary, python = load(f"cifar10:{tmp_path}/one", split), load(f"cifar10:{tmp_path}/two", split)
    np.testing.assert_array_equal(binary.images, python.images)
    assert len(binary) == (15 if split == "train" else 3)
    assert binary.fingerprint == python.fingerprint


def test_a_pickle_of_python_2_is_the_same_data_set(tmp_path):
    pixels, labels = records(3, seed=1)
    write_binary(tmp_path / "one", "test_batch", pixels, labels)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "test_batch").write_bytes(as_python_2_wrote_it(pixels, labels))
    assert load(f"cifar10:{tmp_path}/one").fingerprint == load(f"cifar10:{tmp_path}/two").fingerprint


@pytest.mark.parametrize(("folder", "write"), [("bin", write_binary), ("py", write_python)])
def test_the_unpacked_archive_is_found_below_the_path(folder, write, tmp_path):
    write(tmp_path / f"cifar-10-batches-{folder}", "test_batch", *records(2, seed=0))
    assert len(load(f"cifar10:{tmp_path}")) == 2


def test_a_complete_version_is_preferred_to_an_incomplete_one(tmp_path):
    write_binary(tmp_path, "data_batch_1", *records(1, seed=0))
    for name in TRAIN:
        write_python(tmp_path / "cifar-10-batches-py", name, *records(2, seed=0))
    assert len(load(f"cifar10:{tmp_path}", "train")) == 10


def test_missing_files_are_named(tmp_path):
    for name in TRAIN[:2] + TRAIN[3:]:
        write_binary(tmp_path / "cifar-10-batches-bin", name, *records(1, seed=0))
    with pytest.raises(RequestError, match=r"cifar-10-batches-bin lacks data_batch_3\.bin; expected .*unpacked"):
        load(f"cifar10:{tmp_path}", "train")
    with pytest.raises(RequestError, match=r"lacks test_batch\.bin"):
        load(f"cifar10:{tmp_path}")


@pytest.mark.parametrize("length", [0, 1, 3072, 3074, 2 * 3073 - 1])
def test_broken_records_are_refused(length, tmp_path):
    (tmp_path / "test_batch.bin").write_bytes(bytes(length))
    with pytest.raises(RequestError, match=f"{length} bytes; expected whole records of 3073"):
        load(f"cifar10:{tmp_path}")


def test_a_label_beyond_the_classes_is_refused(tmp_path):
    write_binary(tmp_path, "test_batch", records(2, seed=0)[0], np.array([3, 10]))
    with pytest.raises(RequestError, match="label 1 is 10"):
        load(f"cifar10:{tmp_path}")


PIXELS, LABELS = records(2, seed=0)


@pytest.mark.parametrize(
    "batch",
    [
        {b"data": PIXELS},
        {b"labels": LABELS.tolist()},
        {b"data": PIXELS, b"labels": [1]},
        {b"data": PIXELS, b"labels": [1, "two"]},
        {b"data": PIXELS, b"labels": [1, 2**70]},
        {b"data": PIXELS[:, :-1], b"labels": LABELS.tolist()},
        {b"data": PIXELS.tolist(), b"labels": LABELS.tolist()},
        [PIXELS],
        None,
    ],
)
def test_a_pickle_that_is_no_batch_is_refused(batch, tmp_path):
    (tmp_path / "test_batch").write_bytes(pickle.dumps(batch))
    with pytest.raises(RequestError, match="not a CIFAR-10 batch: expected b'data'"):
        load(f"cifar10:{tmp_path}")


def test_a_hostile_batch_is_refused_and_not_run(tmp_path):
    class Gadget:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "mark"),)

    batch = {b"data": PIXELS, b"labels": LABELS.tolist(), b"filenames": Gadget()}
    (tmp_path / "test_batch").write_bytes(pickle.dumps(batch))
    with pytest.raises(RequestError, match=r"refused: it asks for \w+\.mkdir"):
        load(f"cifar10:{tmp_path}")
    assert not (tmp_path / "mark").exists()


def test_the_real_test_set(shared, tmp_path):
    script = shared / "data" / "unpack_cifar10.py"
    subprocess.run([sys.executable, script, tmp_path, "--splits", "test"], check=True, capture_output=True)
    data = load(f"cifar10:{tmp_path}")
    assert len(data) == 10_000
    assert np.bincount(data.labels).tolist() == [1000] * 10
    assert [data.classes[label] for label in data.labels[:4]] == ["cat", "ship", "ship", "airplane"]
    assert data.fingerprint == "2fb2063dc1d4e4ab4c584241dcb2cf77"
