"""Weights saved by other people's code, brought in under a registered architecture and normalisation."""

from collections import Counter
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sigmax.errors import RequestError
from sigmax.models import normalise
from sigmax.models.architectures.registry import build, names
from sigmax.models.checkpoints.description import Description
from sigmax.models.checkpoints.state_dicts import state_dict
from sigmax.models.checkpoints.tensors import Tensors, differences, fill
from sigmax.models.classifier import Classifier, create
from sigmax.models.normalise import Normalisation

_COUNTER = ".num_batches_tracked"  # batch norms of old files lack it, and our networks never read it
_CARRIED = {"mean": "mean", "means": "mean", "std": "std", "stds": "std", "sd": "std", "sds": "std"}


def import_weights(
    path: str | Path,
    *,
    architecture: str,
    classes: int,
    input_shape: tuple[int, int, int],
    normalisation: str | Normalisation | None,
    options: Mapping[str, Any] | None = None,
    sigma: float | None = None,
    notes: Mapping[str, Any] | None = None,
) -> tuple[Classifier, Description]:
    """The named architecture with the file's weights, under a wrapper's prefix or not, and its description.

    `normalisation` has no default because a wrong one fails silently; if the file carries its own, the two must agree.
    """
    description = Description(
        architecture=architecture,
        classes=classes,
        input_shape=input_shape,
        options=options or {},
        normalisation=normalise.normalisation(normalisation),
        sigma=sigma,
        notes={"source": Path(path).name, **(notes or {})},
    )
    stored = state_dict(Path(path))
    with torch.random.fork_rng(devices=[]):
        model = create(description)
        expected = model.network.state_dict()
        tensors, carried = _unwrap(stored, expected)
        fits = "" if not differences(expected, tensors) else _other_fit(stored, description)
    _check_carried(carried, description.normalisation, path)
    fill(model.network, tensors, classes=classes, source=f"{path}, read as {architecture!r}{fits}")
    return model, model.description


def _unwrap(stored: Tensors, expected: Tensors) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The network's tensors in float32 under their own names, and the means and stds of a layer before it."""
    prefix = _prefix(stored.keys(), expected.keys())
    tensors = {name: tensor for name, tensor in expected.items() if name.endswith(_COUNTER)}
    carried = {}
    for name, tensor in stored.items():
        kind = name.rpartition(".")[2]
        if kind in _CARRIED and not name.startswith(prefix):
            carried[_CARRIED[kind]] = tensor
        else:
            tensors[name.removeprefix(prefix)] = tensor.float() if tensor.is_floating_point() else tensor
    return tensors, carried


def _prefix(stored: Set[str], expected: Set[str]) -> str:
    """What stands before the network's own names: the prefix under which most of them are found."""
    found = Counter(
        name.removesuffix(own) for own in expected for name in stored if name == own or name.endswith(f".{own}")
    )
    return max(found, key=lambda prefix: (found[prefix], -len(prefix)), default="")


def _check_carried(carried: Tensors, given: Normalisation | None, path: str | Path) -> None:
    """Refuse a file that carries another normalisation than the one given."""
    for kind, tensor in carried.items():
        values = tuple(round(value, 4) for value in tensor.flatten().tolist())
        asked = None if given is None else tuple(round(value, 4) for value in getattr(given, kind))
        if values != asked:
            raise RequestError(
                f"{path} carries a normalisation with {kind} {values}, and the one asked for has {asked}; "
                "ask for the file's own"
            )


def _other_fit(stored: Tensors, description: Description) -> str:
    """Name another registered architecture, with its default options, that the tensors do fit."""
    for name in names():
        try:
            network = build(name, classes=description.classes, input_shape=description.input_shape)
        except RequestError:  # it needs options, or does not take such inputs
            continue
        expected = network.state_dict()
        if not differences(expected, _unwrap(stored, expected)[0]):
            return f" (its tensors fit {name!r})"
    return ""
