"""Damaged and hostile files are refused in words: nothing else is raised, nothing is run, memory stays small."""

import contextlib
import gzip
import json
import pickle
import resource
import shutil
import struct
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pytest

import sigmax as sx
from benchmarks import fuzz
from sigmax import models
from sigmax.errors import RequestError
from tests.fuzz.targets import CORPUS, TARGETS, put, seeds

FOUND = CORPUS.parent / "found"  # inputs that the fuzzer found
BOMB = 2**28  # bytes of zeros, about 0.3 MB when compressed


@pytest.mark.parametrize("target", TARGETS)
def test_the_corpus_is_whole(target, tmp_path):
    for files in seeds(target):
        put(files, tmp_path / "input")
        TARGETS[target](tmp_path / "input")


@pytest.mark.parametrize("folder", sorted(FOUND.iterdir()), ids=lambda folder: folder.name)
def test_what_broke_a_reader_once_is_refused_or_read(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "input")
    with contextlib.suppress(RequestError):
        TARGETS[folder.name.partition("-")[0]](tmp_path / "input")


@pytest.mark.slow
def test_no_reader_breaks(capsys):
    assert fuzz.main(["--seconds", "12", "--seed", "5"]) == 0, capsys.readouterr().out


def zeros(path):
    """Gzipped zeros; written in parts, since the test itself must not need the memory."""
    with gzip.open(path, "wb") as stream:
        for _ in range(BOMB >> 20):
            stream.write(bytes(1 << 20))


def as_run(folder):
    zeros(folder / "run.jsonl.gz")
    return f"sx.read('{folder}/run.jsonl.gz')"


def as_idx(folder):
    zeros(folder / "t10k-images-idx3-ubyte.gz")
    (folder / "t10k-labels-idx1-ubyte").write_bytes(b"")
    return f"sx.data.load('mnist:{folder}', 'test')"


def as_npz(folder):
    head = b"\x93NUMPY\x01\x00v\x00" + f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({BOMB},), }}".encode()
    with zipfile.ZipFile(folder / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("images.npy", "w") as member:
            member.write(head.ljust(127) + b"\n")
            for _ in range(BOMB >> 20):
                member.write(bytes(1 << 20))
        archive.writestr("labels.npy", b"")
    return f"sx.data.load('npz:{folder}/x.npz', 'test')"


def as_png(folder):
    """A picture of 100,000 x 1,000 pixels, all white."""
    rows = zlib.compress(bytes(1 + 100_000) * 1_000)
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 100_000, 1_000, 8, 0, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b"")]
    (folder / "x.png").write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + b"".join(struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in chunks)
    )
    return f"sx.data.load('folder:{folder}', 'test', size=8)"


def as_checkpoint(folder, **changes):
    """A small network that says it is a large one."""
    (files,) = (each for each in seeds("checkpoint") if b'"sigmax":' in each["net.safetensors"])
    content = files["net.safetensors"]
    length = struct.unpack_from("<Q", content)[0]
    head = json.loads(content[8 : 8 + length])
    described = json.loads(head["__metadata__"]["sigmax"])
    head["__metadata__"]["sigmax"] = json.dumps({**described, **(changes or {"options": {"width": 20_000}})})
    text = json.dumps(head).encode()
    (folder / "net.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
    return f"sx.models.load('{folder}/net.safetensors')"


@pytest.mark.slow
@pytest.mark.parametrize("write", [as_run, as_idx, as_npz, as_png, as_checkpoint])
def test_a_file_that_unpacks_to_more_than_memory_is_refused(write, tmp_path):
    call = write(tmp_path)
    before = "import resource, sigmax as sx, sigmax.errors, sigmax.models, sigmax.data, torch, PIL.Image\n"
    peak = "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss"
    code = f"{before}held = {peak}\ntry:\n    {call}\nexcept sigmax.errors.RequestError as error:\n    print(error)\n"
    code += f"else:\n    print('taken')\nassert {peak} - held < 200 * 1024, {peak} - held\n"
    limit = 16 << 30
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert done.returncode == 0, done.stderr
    assert any(word in done.stdout for word in ("times its size", "pixels, more than", "far larger network")), done


def test_compressible_data_is_no_bomb(tmp_path):
    """White images of a real data set's size, and a gzipped run of thousands of like lines."""
    np.savez_compressed(tmp_path / "x.npz", images=np.zeros((2_000, 28, 28), np.uint8), labels=np.zeros(2_000, int))
    assert len(sx.data.load(f"npz:{tmp_path}/x.npz", "test")) == 2_000


def test_images_of_any_size_are_not_claimed(tmp_path):
    as_checkpoint(tmp_path, input_shape=[3, 100_000, 100_000])
    with pytest.raises(RequestError, match="input_shape must be of at most"):
        models.load(tmp_path / "net.safetensors")


class Touch:
    """What unpickling would run."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (exec, (f"open({str(self.path)!r}, 'w')",))


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickled_batch_runs_nothing(tmp_path, protocol):
    ran = tmp_path / "ran"
    batch = {b"labels": [1], b"data": Touch(ran)}
    (tmp_path / "test_batch").write_bytes(pickle.dumps(batch, protocol=protocol))
    with pytest.raises(RequestError, match="nothing of it was run"):
        sx.data.load(f"cifar10:{tmp_path}", "test")
    assert not ran.exists()
