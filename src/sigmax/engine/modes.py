"""Networks in eval mode for as long as anybody votes with them.

In training mode a vote depends on the batch it stands in, and batches change the network. A scheme may answer in
several threads, and networks may share layers, so each layer goes back to its mode when the last vote on it is over.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from torch import nn

_lock = threading.Lock()
_held: dict[int, tuple[int, bool]] = {}  # by the layer's identity: votings under way, and its mode before them


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Within it the network is in eval mode; afterwards each of its layers is in the mode it was in."""
    with _lock:
        parts = list(model.modules())
        needed = any(part.training or id(part) in _held for part in parts)
        if needed:
            _hold(model, parts)
    try:
        yield
    finally:
        if needed:
            with _lock:
                _let_go(model, parts)


def _hold(model: nn.Module, parts: Sequence[nn.Module]) -> None:
    found = {id(part): _held.get(id(part), (0, part.training)) for part in parts}
    with suppress(NotImplementedError):  # an exported program has its mode built in
        model.eval()
    _held.update({part: (votings + 1, before) for part, (votings, before) in found.items()})


def _let_go(model: nn.Module, parts: Sequence[nn.Module]) -> None:
    ended = [(part, before) for part in parts for votings, before in [_held[id(part)]] if votings == 1]
    for part in parts:
        votings, before = _held.pop(id(part))
        if votings > 1:
            _held[id(part)] = votings - 1, before
    if len(ended) == len(parts) and ended[0][1]:
        with suppress(NotImplementedError):
            model.train()
    for part, training in ended:
        part.training = training
