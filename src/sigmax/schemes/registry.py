"""Schemes by the names of their rules: how a rule and stored networks become a scheme again."""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from sigmax.engine.settings import Model
from sigmax.errors import RequestError
from sigmax.rules import registry as rules
from sigmax.rules.procedure import Rule
from sigmax.schemes.fields import SigmaField
from sigmax.schemes.scheme import Scheme

_BUILT_IN = ("smoothed", "dual", "cascade", "semi_elastic", "memorized", "lipschitz", "splitting")


class NetworkSource(Protocol):
    """Where the networks of one part of a scheme come from; `how`: device, dtype, batch and compile."""

    how: Mapping[str, Any]

    def network(self, columns: int) -> Model:
        """The part's network, which has this many outputs."""

    def field(self, description: Mapping[str, Any]) -> SigmaField:
        """The part's sigma(x) field."""

    def part(self, name: str) -> "NetworkSource":
        """Where a part of this part comes from."""


Build = Callable[[Any, NetworkSource], Scheme]
_builders: dict[str, Build] = {}


def register(name: str, build: Build) -> None:
    """Make known how the scheme of a registered rule is built from the rule and its networks."""
    _builders[name] = build


def build(rule: Rule, source: NetworkSource) -> Scheme:
    """The scheme of a rule."""
    _load()
    name = rule.describe()["scheme"]
    rules.entry(name)  # unknown ones are refused in its words
    if name not in _builders:
        raise RequestError(
            f"no class is registered for the scheme {name!r}; its package must call sigmax.schemes.registry.register"
        )
    return _builders[name](rule, source)


@cache
def _load() -> None:
    for module in _BUILT_IN:
        import_module(f"sigmax.schemes.{module}")
