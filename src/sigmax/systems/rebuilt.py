"""An existing system built again over its own networks: with its noise on a grid, or with its weights rounded."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from sigmax.engine.settings import Model
from sigmax.errors import RequestError
from sigmax.models import Program
from sigmax.models.checkpoints.bfloat16 import Store, check_store, round_weights
from sigmax.rules.certificate import joined
from sigmax.rules.procedure import NETWORK
from sigmax.rules.registry import entry, rebuild
from sigmax.schemes.fields import SigmaField
from sigmax.schemes.registry import build
from sigmax.schemes.scheme import Scheme
from sigmax.systems.networks import description_of

ON_CPU: Mapping[str, Any] = {"device": "cpu", "dtype": None, "batch": None, "compile": False}


def on_grid(scheme: Scheme, grid: int) -> Scheme:
    """The scheme over the same networks, whose noise and inputs are multiples of 1 / grid: 255 for 8-bit images.

    It is another system, with a fingerprint of its own, and refuses inputs off the grid. See `sigmax.noise.Gaussian`.
    Its networks vote on the same devices in the same arithmetic; their batch size is chosen again.
    """
    if scheme.domain != "images":
        raise RequestError(f"the scheme was built with domain={scheme.domain}; give grid= where it is built")
    return build(rebuild(_with_grid(scheme.rule.describe(), grid)), _Networks(scheme))


def as_stored(scheme: Scheme, store: Store) -> Scheme:
    """What a system is once it is kept like this: itself, or a copy on the CPU with its weights rounded."""
    check_store(store)
    return scheme if store == "fp32" else build(scheme.rule, _Networks(scheme, _rounding(scheme), ON_CPU))


def _with_grid(plain: Any, grid: int) -> Any:
    """The description with this grid at every scheme that can have one."""
    if isinstance(plain, list):
        return [_with_grid(part, grid) for part in plain]
    if not isinstance(plain, Mapping):
        return plain
    inner = {name: _with_grid(part, grid) for name, part in plain.items()}
    return {**inner, "grid": grid} if "scheme" in plain and "grid" in entry(plain["scheme"]).optional else inner


Change = Callable[[str, Model], Model]


def _rounding(scheme: Scheme) -> Change:
    """What makes rounded copies of the scheme's networks; what several places share is shared again."""
    for name, voter in scheme.voters.items():
        if not voter.votes:
            raise RequestError(
                f"the network {name!r} is certified by its Lipschitz constant, and rounded weights may exceed "
                "it; keep this system with store='fp32'"
            )
    copies: dict[int, Any] = {}

    def rounded(name: str, model: Model) -> nn.Module:
        for part in model.modules() if isinstance(model, nn.Module) else ():
            if isinstance(part, Program):
                raise RequestError(
                    f"the network {name!r} is kept in the file it came in ({part.kind}), whose weights cannot be "
                    "rounded; leave out store='bf16'"
                )
        found = copy.deepcopy(model, copies)
        if not isinstance(found, nn.Module):
            description_of(name, found)  # says that it cannot be saved, and what to do
            raise AssertionError(name)
        round_weights(found)
        return found.cpu()

    return rounded


class _Networks:
    """The networks and fields of a scheme by their places; see `schemes.registry.NetworkSource`.

    change: what is made of each network; given: how they are to vote, without it as they did.
    """

    def __init__(
        self, scheme: Scheme, change: Change | None = None, given: Mapping[str, Any] | None = None, prefix: str = ""
    ) -> None:
        self.scheme, self.change, self.given, self.prefix = scheme, change, given, prefix
        voter = scheme.voters.get(joined(prefix, NETWORK))  # None where a part has parts itself
        self.how: Mapping[str, Any] = given or {}
        if given is None and voter is not None:
            self.how = {"device": voter.device, "dtype": voter.dtype, "batch": None, "compile": voter.compile}

    def network(self, columns: int) -> Model:
        """The part's network."""
        name = joined(self.prefix, NETWORK)
        model = self.scheme.voters[name].model
        return model if self.change is None else self.change(name, model)

    def field(self, description: Mapping[str, Any]) -> SigmaField:
        """The part's field itself, which holds no weights."""
        return self.scheme.fields[joined(self.prefix, "field")]

    def part(self, name: str) -> "_Networks":
        """What stands under a part's name."""
        return _Networks(self.scheme, self.change, self.given, joined(self.prefix, name))
