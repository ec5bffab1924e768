"""Every reader as one row: how its files are written, and what it declares. `test_readers` holds them all to it."""

import gzip
import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

TRAIN_BATCHES = [f"data_batch_{i}" for i in range(1, 6)]


@dataclass(frozen=True)
class Row:
    """write(folder, split, images, labels) stores uint8 images (N, C, H, W) and returns the source to load."""

    write: Callable
    shape: tuple[int, int, int]
    expects: str = ""  # what the refusal of a missing path says should be there
    splits: tuple[str, ...] | None = ("train", "test")
    classes: int = 10
    sizes: bool = False
    by_pixels: bool = True  # the fingerprint is of the pixels, whatever the container


def idx(array):
    """An array of bytes in the idx format."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def write_idx(kind, joint="-", ending=""):
    def write(folder, split, images, labels):
        prefix = "train" if split == "train" else "t10k"
        pack = gzip.compress if ending else bytes
        (folder / f"{prefix}-images{joint}idx3-ubyte{ending}").write_bytes(pack(idx(images[:, 0])))
        (folder / f"{prefix}-labels{joint}idx1-ubyte{ending}").write_bytes(pack(idx(np.asarray(labels))))
        return f"{kind}:{folder}"

    return write


def write_cifar10_binary(folder, split, images, labels):
    rows = np.concatenate([np.asarray(labels)[:, None].astype(np.uint8), images.reshape(len(images), -1)], axis=1)
    for name, part in batches(split, rows):
        (folder / f"{name}.bin").write_bytes(part.tobytes())
    return f"cifar10:{folder}"


def write_cifar10_pickle(folder, split, images, labels):
    rows = zip(batches(split, images.reshape(len(images), -1)), batches(split, np.asarray(labels)), strict=True)
    for (name, pixels), (_, part) in rows:
        batch = {b"batch_label": b"testing", b"labels": part.tolist(), b"data": pixels, b"filenames": [b"a.png"]}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    return f"cifar10:{folder}"


def write_cifar100(folder, split, images, labels):
    batch = {b"fine_labels": np.asarray(labels).tolist(), b"coarse_labels": [0] * len(images)}
    (folder / split).write_bytes(pickle.dumps({**batch, b"data": images.reshape(len(images), -1)}, protocol=2))
    return f"cifar100:{folder}"


def batches(split, values):
    names = TRAIN_BATCHES if split == "train" else ["test_batch"]
    return list(zip(names, np.array_split(values, len(names)), strict=True))


def write_npz(form=lambda images: images, **options):
    def write(folder, split, images, labels):
        file = folder / "mine.npz"
        kept = dict(np.load(file)) if file.exists() else {}
        save = np.savez_compressed if options.get("compressed") else np.savez
        save(file, **{**kept, f"{split}_images": form(images), f"{split}_labels": labels})
        return f"npz:{file}"

    return write


def write_folder(folder, split, images, labels):
    for number in range(10):
        (folder / split / f"class {number}").mkdir(parents=True, exist_ok=True)
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        Image.fromarray(image.transpose(1, 2, 0)).save(folder / split / f"class {label}" / f"{i:03}.png")
    return f"folder:{folder}"


GREY, COLOUR = (1, 4, 5), (3, 4, 5)
ROWS = {
    "mnist": Row(write_idx("mnist"), GREY, "t10k-images-idx3-ubyte"),
    "mnist zipped": Row(write_idx("mnist", ".", ".gz"), GREY, "plain or .gz"),
    "fashion": Row(write_idx("fashion"), GREY, "t10k-labels-idx1-ubyte"),
    "cifar10 binary": Row(write_cifar10_binary, (3, 32, 32), "test_batch.bin"),
    "cifar10 pickle": Row(write_cifar10_pickle, (3, 32, 32), "(Python version)"),
    "cifar100": Row(write_cifar100, (3, 32, 32), "the file test of CIFAR-100", classes=100),
    "npz": Row(write_npz(), COLOUR, "images and labels", splits=None),
    "npz grey": Row(write_npz(lambda images: images[:, 0]), GREY, "images and labels", splits=None),
    "npz channels last": Row(
        write_npz(lambda images: images.transpose(0, 2, 3, 1), compressed=True),
        COLOUR,
        "images and labels",
        splits=None,
    ),
    "npz floats": Row(write_npz(lambda images: images / 255.0), COLOUR, "images and labels", splits=None),
    "folder": Row(write_folder, COLOUR, "test/<class>/", splits=None, sizes=True, by_pixels=False),
}


def sample(row, count=10, seed=0):
    """Images of the row's shape, and labels in rising order, since a folder sorts by class."""
    generator = np.random.default_rng(seed)
    return generator.integers(0, 256, (count, *row.shape), np.uint8), np.sort(np.arange(count) % row.classes)


def files_below(folder: Path):
    return sorted(path for path in folder.rglob("*") if path.is_file())
