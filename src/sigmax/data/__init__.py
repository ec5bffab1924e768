"""Images in [0, 1], with labels or without, from wherever they lie.

    test = sigmax.data.load("cifar10:~/datasets", "test")
    mine = sigmax.data.as_dataset((images, labels))      # or a torch Dataset, a DataLoader, a Hugging Face dataset

Pixels always come out as float32 in [0, 1], shaped (n, C, H, W): the scale every sigma in this library is
measured on. Normalisation belongs to the model, after the noise.
"""

from sigmax.data.adapters import as_dataset, is_data_source
from sigmax.data.dataset import Dataset, LazyImages
from sigmax.data.registry import DataRequest, register
from sigmax.data.sources import load, select

__all__ = ["DataRequest", "Dataset", "LazyImages", "as_dataset", "is_data_source", "load", "register", "select"]
