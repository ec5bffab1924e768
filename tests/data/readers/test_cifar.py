"""CIFAR-10 beyond the table: pickles of Python 2, where the files may lie, and the real data where it is."""

import os
import pickle
import struct
import subprocess
import sys

import numpy as np
import pytest

from sigmax.data import load
from sigmax.errors import RequestError
from tests.data.table import ROWS, TRAIN_BATCHES, sample, write_cifar10_binary, write_cifar10_pickle

IMAGES, LABELS = sample(ROWS["cifar10 binary"])
PIXELS = IMAGES.reshape(len(IMAGES), -1)


def as_python_2_wrote_it(pixels, labels):
    """The instructions of the published pickles: byte strings as U and T, numpy's old module names."""
    shape = b"M" + struct.pack("<H", len(pixels)) + b"M" + struct.pack("<H", 3072) + b"\x86"
    dtype = b"cnumpy\ndtype\nU\x02u1K\0K\1\x87R(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
    raw = b"T" + struct.pack("<I", pixels.size) + pixels.tobytes()
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R(K\1" + shape + dtype
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(U\4data" + array + b"\x89" + raw + b"tbU\6labels" + listed + b"u."


def test_a_pickle_of_python_2_is_the_same_data_set(tmp_path):
    binary = load(write_cifar10_binary(tmp_path, "test", IMAGES, LABELS))
    assert " ".join(binary.classes) == "airplane automobile bird cat deer dog frog horse ship truck"
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "test_batch").write_bytes(as_python_2_wrote_it(PIXELS, LABELS))
    assert load(f"cifar10:{tmp_path}/old").fingerprint == binary.fingerprint


def test_the_complete_version_below_the_path_is_found(tmp_path):
    (tmp_path / "cifar-10-batches-bin").mkdir()
    (tmp_path / "cifar-10-batches-py").mkdir()
    write_cifar10_pickle(tmp_path / "cifar-10-batches-py", "train", IMAGES, LABELS)
    write_cifar10_binary(tmp_path / "cifar-10-batches-bin", "train", IMAGES[:5], LABELS[:5])
    assert len(load(f"cifar10:{tmp_path}", "train")) == 5, "the binary version is preferred"
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").unlink()
    assert len(load(f"cifar10:{tmp_path}", "train")) == 10
    for name in TRAIN_BATCHES[1:]:
        (tmp_path / "cifar-10-batches-py" / name).unlink()
    with pytest.raises(RequestError, match=r"cifar-10-batches-bin lacks data_batch_3\.bin; expected .*unpacked"):
        load(f"cifar10:{tmp_path}", "train")


@pytest.mark.parametrize("length", [0, 3072, 2 * 3073 - 1])
def test_broken_records_are_refused(length, tmp_path):
    (tmp_path / "test_batch.bin").write_bytes(bytes(length))
    with pytest.raises(RequestError, match=f"{length} bytes; expected whole records of 3073"):
        load(f"cifar10:{tmp_path}")


@pytest.mark.parametrize(
    "batch",
    [
        {b"data": PIXELS},
        {b"data": PIXELS, b"labels": [1]},
        {b"data": PIXELS[:2], b"labels": [1, "two"]},
        {b"data": PIXELS[:2], b"labels": [1, 2**70]},
        {b"data": PIXELS[:, :-1], b"labels": LABELS.tolist()},
        {b"data": PIXELS.tolist(), b"labels": LABELS.tolist()},
        [PIXELS],
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
