"""Products of 32-bit floats that are really made of 32-bit floats."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch


class Switch(NamedTuple):
    """A setting of torch that allows rounding, and the value by which it does not."""

    read: Callable[[], Any]
    write: Callable[[Any], None]
    whole: object


@contextmanager
def whole_products() -> Iterator[None]:
    """Within it, convolutions and matrix products round their results and nothing else.

    By default a GPU's convolutions round their factors to 11 bits (TF32), and users may allow the same, or bf16,
    for matrix products. Votes may be cast so; a margin measured so would not be what it seems.
    """
    switches = _switches()
    before = [switch.read() for switch in switches]
    for switch in switches:
        switch.write(switch.whole)
    try:
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.write(value)


def _switches() -> list[Switch]:
    """torch's older switches and then its newer ones, by which what the older ones moved is put back one by one."""
    backends: Any = torch.backends
    cudnn, cuda, mkldnn = backends.cudnn, backends.cuda, backends.mkldnn
    convolutions = Switch(lambda: cudnn.allow_tf32, lambda value: setattr(cudnn, "allow_tf32", value), False)
    products = Switch(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest")
    older = [switch for switch in (convolutions, products) if _readable(switch)]
    if not hasattr(mkldnn, "conv"):
        return older
    places = cudnn.conv, cudnn.rnn, cuda.matmul, mkldnn.conv, mkldnn.rnn, mkldnn.matmul
    return [*older, *map(_newer, places)]


def _readable(switch: Switch) -> bool:
    """An older switch cannot be read once the newer ones say more than it could."""
    try:
        switch.read()
    except RuntimeError:
        return False
    return True


def _newer(place: object) -> Switch:
    name = "fp32_precision"
    return Switch(partial(getattr, place, name), partial(setattr, place, name), "ieee")
