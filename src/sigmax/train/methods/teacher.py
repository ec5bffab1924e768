"""Networks that a method learns from: fixed, on the device of the images, and refused where they are of other data."""

import copy
from pathlib import Path

from torch import Tensor, nn

from sigmax import models
from sigmax.errors import RequestError


def fixed_copy(network: nn.Module | str | Path) -> nn.Module:
    """A copy of the network, or that of a checkpoint, in eval mode and never to be trained."""
    found = copy.deepcopy(network) if isinstance(network, nn.Module) else models.load(network)[0]
    return found.eval().requires_grad_(False)


def ready_for(network: nn.Module, images: Tensor, *, what: str, method: str) -> nn.Module:
    """The network on the device of the images; refused where it takes others. `what`: as an error calls it."""
    network.to(images.device)  # where it already is, but for the first time
    expected = getattr(models.describe(network), "input_shape", None)
    if expected is not None and tuple(expected) != tuple(images.shape[1:]):
        raise RequestError(
            f"the {what} network takes images of shape {tuple(expected)}, and these are {tuple(images.shape[1:])}; "
            f"{method} needs a {what} that was trained on the same data"
        )
    return network


def check_classes(theirs: int, ours: int, *, what: str, method: str) -> None:
    """Raise unless both networks have the same number of classes."""
    if theirs != ours:
        raise RequestError(
            f"the {what} network has {theirs} classes and the network trained {ours}; {method} needs a {what} that was "
            "trained on the same data"
        )
