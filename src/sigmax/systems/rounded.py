"""The networks of a scheme, rounded to what a smaller file can hold."""

import copy
from typing import Any

from torch import nn

from sigmax.errors import RequestError
from sigmax.models import Program
from sigmax.models.checkpoints.bfloat16 import round_weights
from sigmax.schemes.scheme import Scheme
from sigmax.systems.networks import description_of


class Rounded:
    """Copies of a scheme's networks by their names, each rounded; what several places share is shared again."""

    def __init__(self, scheme: Scheme) -> None:
        self._models = {name: voter.model for name, voter in scheme.voters.items()}
        for name, voter in scheme.voters.items():
            if not voter.votes:
                raise RequestError(
                    f"the network {name!r} is certified by its Lipschitz constant, and rounded weights may exceed "
                    "it; keep this system with store='fp32'"
                )
        modules = {name: model for name, model in self._models.items() if isinstance(model, nn.Module)}
        self._parts = {name: list(module.modules()) for name, module in modules.items()}
        self._copies: dict[int, Any] = {}
        self.fields = dict(scheme.fields)  # which hold no weights, and stay as they are

    def get(self, name: str, classes: int) -> nn.Module:
        """The rounded copy of the network of this name."""
        for part in self._parts.get(name, ()):
            if isinstance(part, Program):
                raise RequestError(
                    f"the network {name!r} is kept in the file it came in ({part.kind}), whose weights cannot be "
                    "rounded; leave out store='bf16'"
                )
        rounded = copy.deepcopy(self._models[name], self._copies)
        if not isinstance(rounded, nn.Module):
            description_of(name, rounded)  # says that it cannot be saved, and what to do
            raise AssertionError(name)
        round_weights(rounded)
        return rounded
