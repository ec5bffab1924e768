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
    """torch has an older and a newer set of them; once the newer was used, reading the older is an error."""
    backends: Any = torch.backends
    cudnn, cuda, mkldnn = backends.cudnn, backends.cuda, backends.mkldnn
    convolutions = Switch(lambda: cudnn.allow_tf32, lambda value: setattr(cudnn, "allow_tf32", value), False)
    products = Switch(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "highest")
    if not hasattr(mkldnn, "conv"):
        return [convolutions, products]
    try:
        older = [switch for switch in (convolutions, products) if switch.read() is not None]
        return [*older, *map(_newer, (mkldnn.conv, mkldnn.rnn))]
    except RuntimeError:
        places = cudnn.conv, cudnn.rnn, cuda.matmul, mkldnn.conv, mkldnn.rnn, mkldnn.matmul
        return [_newer(place) for place in places]


def _newer(place: object) -> Switch:
    name = "fp32_precision"
    return Switch(partial(getattr, place, name), partial(setattr, place, name), "ieee")
