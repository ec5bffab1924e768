"""An existing system with its noise on a grid: the same networks under the same rule."""

from collections.abc import Mapping
from typing import Any

from sigmax.engine.settings import Model
from sigmax.errors import RequestError
from sigmax.rules.certificate import joined
from sigmax.rules.procedure import NETWORK
from sigmax.rules.registry import entry, rebuild
from sigmax.schemes.fields import SigmaField
from sigmax.schemes.registry import build
from sigmax.schemes.scheme import Scheme


def on_grid(scheme: Scheme, grid: int) -> Scheme:
    """The scheme over the same networks, whose noise and inputs are multiples of 1 / grid: 255 for 8-bit images.

    It is another system, with a fingerprint of its own, and refuses inputs off the grid. See `sigmax.noise.Gaussian`.
    Its networks vote on the same devices in the same arithmetic; their batch size is chosen again.
    """
    if scheme.domain != "images":
        raise RequestError(f"the scheme was built with domain={scheme.domain}; give grid= where it is built")
    return build(rebuild(_with_grid(scheme.rule.describe(), grid)), _SameNetworks(scheme))


def _with_grid(plain: Any, grid: int) -> Any:
    """The description with this grid at every scheme that can have one."""
    if isinstance(plain, list):
        return [_with_grid(part, grid) for part in plain]
    if not isinstance(plain, Mapping):
        return plain
    inner = {name: _with_grid(part, grid) for name, part in plain.items()}
    return {**inner, "grid": grid} if "scheme" in plain and "grid" in entry(plain["scheme"]).optional else inner


class _SameNetworks:
    """The networks and fields of a scheme by their places; see `schemes.registry.NetworkSource`."""

    def __init__(self, scheme: Scheme, prefix: str = "") -> None:
        self.scheme, self.prefix = scheme, prefix
        voter = scheme.voters.get(joined(prefix, NETWORK))  # None where a part has parts itself
        self.how: Mapping[str, Any] = {}
        if voter is not None:
            self.how = {"device": voter.device, "dtype": voter.dtype, "batch": None, "compile": voter.compile}

    def network(self, columns: int) -> Model:
        """The part's network itself."""
        return self.scheme.voters[joined(self.prefix, NETWORK)].model

    def field(self, description: Mapping[str, Any]) -> SigmaField:
        """The part's field itself."""
        return self.scheme.fields[joined(self.prefix, "field")]

    def part(self, name: str) -> "_SameNetworks":
        """What stands under a part's name."""
        return _SameNetworks(self.scheme, joined(self.prefix, name))
