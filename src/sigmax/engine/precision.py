"""Full precision of 32-bit floats, where torch may be set to round their products."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from sigmax.errors import RequestError


class Switch(NamedTuple):
    """A setting of torch that allows rounding, and the value by which it does not."""

    read: Callable[[], Any]
    write: Callable[[Any], None]
    full: object


class Held:
    """The caller's settings, as long as anybody computes in full precision."""

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.settings: list[tuple[Switch, object]] = []


_held = Held()


@contextmanager
def full_precision() -> Iterator[None]:
    """Within it, convolutions and matrix products round their results and nothing else.

    By default a GPU's convolutions round their factors to 11 bits (TF32), and users may allow the same, or bf16,
    for matrix products. Votes may be cast so; a margin measured so would not be what it seems. The settings are the
    process's, so the caller's come back when the last of several threads is done.
    """
    with _held.lock:
        if not _held.users:
            _held.settings = [(switch, switch.read()) for switch in _switches()]
            for switch, _ in _held.settings:
                switch.write(switch.full)
        _held.users += 1
    try:
        yield
    finally:
        with _held.lock:
            _held.users -= 1
            if not _held.users:
                for switch, value in _held.settings:
                    switch.write(value)


def check_computes_in(model: object, dtype: torch.dtype) -> None:
    """Raise where a network has a precision of its own, its `computes_in`, and a plan would record another."""
    parts = model.modules() if isinstance(model, nn.Module) else [model]
    networks = [one for part in parts for one in (part, *getattr(part, "__dict__", {}).values())]
    for network in networks if dtype != torch.float32 else ():
        own = getattr(network, "computes_in", dtype)
        if own != dtype:
            raise RequestError(
                f"{network!r} computes in {_name(own)} whatever it is asked for, so {_name(dtype)} would not be what "
                "is certified; leave out --dtype (dtype= in Python)"
            )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def rounded_products(device: str) -> str:
    """What torch is set to round of 32-bit factors on this kind of device, as " (tf32 convolutions)"; "" if nothing."""
    backends: Any = torch.backends
    cuda = device == "cuda"
    if hasattr(backends.mkldnn, "conv"):
        library, products = (backends.cudnn, backends.cuda) if cuda else (backends.mkldnn, backends.mkldnn)
        found = {"convolutions": library.conv.fp32_precision, "matrix products": products.matmul.fp32_precision}
    else:  # torch before 2.9
        precision = {"highest": "ieee", "high": "tf32", "medium": "bf16"}[torch.get_float32_matmul_precision()]
        convolutions = "tf32" if cuda and backends.cudnn.allow_tf32 else "ieee"
        found = {"convolutions": convolutions, "matrix products": precision}
    words = [f"{kind} {what}" for what, kind in found.items() if kind not in ("ieee", "none")]
    return f" ({', '.join(words)})" if words else ""


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
