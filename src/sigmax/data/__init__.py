"""Images in [0, 1] and their labels, from wherever they lie.

    import sigmax.data as data

    test = data.load("cifar10:~/datasets", "test")
    chosen = data.select(len(test), skip=20, maximum=500)
    batch, labels = test.pixels(chosen), test.labels[chosen]

Pixels always come out as float32 in [0, 1], shaped (n, C, H, W): the scale every sigma in this library is
measured on. Normalisation belongs to the model, after the noise. Needs numpy alone; scikit-learn (digits)
and Pillow (image folders) are imported only by the sources that use them.
"""

from sigmax.data.dataset import Dataset, LazyImages
from sigmax.data.request import Request
from sigmax.data.selection import select
from sigmax.data.sources import load, register

__all__ = ["Dataset", "LazyImages", "Request", "load", "register", "select"]
