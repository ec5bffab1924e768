"""Make the corpus again: small whole files of every kind that sigmax reads.

PYTHONPATH=src python -m tests.fuzz.seeds
"""

import gzip
import pickle
import shutil
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import sigmax as sx
from sigmax import models
from sigmax.data import Dataset
from sigmax.records.journal import write_all
from sigmax.records.logs.read import read_log
from sigmax.schemes.scheme import Scheme
from tests.data.table import ROWS, idx
from tests.fuzz.targets import CORPUS
from tests.models.adapters.exports import as_onnx, network
from tests.pipeline.helpers import CASCADE, DUAL

LOG = """idx label predict radius correct time
0 3 3 0.75 1 0:00:01.5
20 5 -1 0.0 0 0:00:01.4
40 8 2 0.1 0 1.2
"""
STAGED = """idx label predict radius correct stage sampleSize time
0 3 3 0.75 1 0 100 0:00:01
1 1 -2 0.0 0 2 100 0:00:02
"""
BY_ROW = """idx label predict radius correct sigma time
0 3 3 0.75 1 0.5 0:00:01
1 1 1 0.2 1 0.25 0:00:01
"""
COMPARE = """
out = "work"
radii = [0.0, 0.25]
[data]
source = "digits"
skip = 20
[certify]
n0 = 20
n = 100
[networks]
low = "low.safetensors"
[schemes.constant]
kind = "smoothed"
network = "low"
sigma = 0.25
[schemes.multiscale]
kind = "multiscale"
sigmas = [0.25, 0.5]
networks = ["low", "low"]
"""


def main() -> None:
    """Write the whole corpus."""
    shutil.rmtree(CORPUS, ignore_errors=True)
    for make in (runs, logs, data, networks, configurations):
        make()


def place(target: str, name: str, file: str = "") -> Path:
    """A new folder of the corpus, or a file in it."""
    folder = CORPUS / target / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder / file


def small(seed: int, classes: int = 3) -> models.Classifier:
    """A network of a few hundred weights."""
    torch.manual_seed(seed)
    described = models.Description(
        architecture="small-cnn", classes=classes, input_shape=(1, 4, 4), options={"width": 2}, sigma=0.5
    )
    return models.create(described)


def schemes() -> dict[str, Scheme]:
    """One of several kinds each."""
    experts = [sx.Smoothed(small(i), sigma=s, classes=3) for i, s in enumerate((0.25, 0.5))]
    selective = sx.Smoothed(models.selective(small(2), confidence=0.4), sigma=0.5, classes=3)
    return {
        "smoothed": experts[0],
        "dual": sx.Dual(sx.Smoothed(small(3, 2), sigma=0.5, classes=2), experts),
        "cascade": sx.Cascade([selective], last=experts[0]),
        "memorized": sx.Memorized(small(0), sigma0=0.25, classes=3),
        "l1": sx.Cascade(
            [sx.Smoothed(models.selective(small(2), confidence=0.37), noise=sx.noise.Uniform(0.5), classes=3)],
            last=sx.Splitting(small(1), scale=0.1, classes=3),
        ),
    }


def runs() -> None:
    """Finished, unfinished, adaptive, gzipped."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (3, 1, 4, 4), np.uint8)
    inputs = Dataset("noise", "test", images, np.array([0, 1, 2]), ("a", "b", "c"))
    for name, scheme in schemes().items():
        sampling = {"sampling": "adaptive", "targets": (0.1, 0.3)} if name == "cascade" else {}
        sx.certify_run(scheme, inputs, place("journal", name, f"{name}.jsonl"), n0=20, n=200, alpha=0.01, **sampling)
    whole = (CORPUS / "journal/smoothed/smoothed.jsonl").read_bytes()
    place("journal", "gzipped", "run.jsonl.gz").write_bytes(gzip.compress(whole, mtime=0))
    place("journal", "unfinished", "run.jsonl").write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
    found = read_log(_log("plain", LOG), sigma=0.5, n=1_000, alpha=0.001)
    write_all(place("journal", "imported", "run.jsonl"), found.plan, found.records)


def _log(name: str, text: str) -> Path:
    path = place("log", name, f"{name}.tsv")
    path.write_text(text.replace(" ", "\t"))
    return path


def logs() -> None:
    """Published logs of three shapes."""
    for name, text in {"plain": LOG, "cascade": STAGED, "by_row": BY_ROW}.items():
        _log(name, text)


def data() -> None:
    """Two images of each format."""
    random = np.random.default_rng(0)
    grey, colour = (random.integers(0, 256, (2, *shape), np.uint8) for shape in ((1, 4, 4), (3, 32, 32)))
    labels = np.array([0, 1])
    np.savez(place("npz", "plain", "data.npz"), images=grey, labels=labels)
    np.savez_compressed(place("npz", "named", "data.npz"), images=grey / 255, labels=["cat", "dog"])
    np.savez(place("npz", "split", "data.npz"), test_images=grey, test_labels=labels, classes=["a", "b"])
    for ending, pack in {"": bytes, ".gz": lambda content: gzip.compress(content, mtime=0)}.items():
        folder = place("mnist", "zipped" if ending else "plain")
        (folder / f"t10k-images-idx3-ubyte{ending}").write_bytes(pack(idx(grey[:, 0])))
        (folder / f"t10k-labels-idx1-ubyte{ending}").write_bytes(pack(idx(labels)))
    for version in ("cifar10 binary", "cifar10 pickle"):
        ROWS[version].write(place("cifar10", version.split()[1]), "test", colour[:1], labels[:1])
    batch = {b"labels": [1], b"data": colour[:1].reshape(1, -1)}
    place("cifar10", "pickle5", "test_batch").write_bytes(pickle.dumps(batch, protocol=5))
    for ending in ("png", "jpg", "bmp", "webp"):
        for label, image in enumerate(colour[:, :, :8, :8]):
            file = place("folder", f"{ending}/test/{'ab'[label]}", f"0.{ending}")
            Image.fromarray(image.transpose(1, 2, 0)).save(file)


def networks() -> None:
    """Checkpoints, systems and ONNX files."""
    models.save(place("checkpoint", "plain", "net.safetensors"), small(0))
    rounded = small(1)
    models.round_weights(rounded)
    models.save(place("checkpoint", "rounded", "net.safetensors"), rounded, store="bf16")
    for name, scheme in schemes().items():
        scheme.save(place("system", name))
    as_onnx(place("onnx", "whole", "net.onnx"), network())
    as_onnx(place("onnx", "beside", "net.onnx"), network(), data="net.onnx.data")


def configurations() -> None:
    """Pipelines and a comparison."""
    for name, text in {"dual": DUAL, "cascade": CASCADE, "compare": COMPARE}.items():
        place("configuration", name, f"{name}.toml").write_text(text)


if __name__ == "__main__":
    main()
