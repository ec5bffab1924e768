"""sigmax: certified robustness by randomized smoothing with input-dependent noise.

Names load on first use, so that `import sigmax.bounds` needs neither torch nor pandas.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sigmax import bounds as bounds
    from sigmax import radius as radius
    from sigmax.errors import RequestError as RequestError
    from sigmax.errors import RunError as RunError

_HOMES = {
    "RequestError": "sigmax.errors",
    "RunError": "sigmax.errors",
}
_MODULES = ("bounds", "radius")

__all__ = ["RequestError", "RunError", "bounds", "radius"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in _MODULES:
        return import_module(f"sigmax.{name}")
    raise AttributeError(f"module 'sigmax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
