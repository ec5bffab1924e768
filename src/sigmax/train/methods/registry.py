"""The training methods by name: each method's file registers it, and other packages add theirs.

A package's method is registered likewise, and found by an entry point of the group `sigmax.methods`, whose name is the
method's and whose object is the class. A preset is what a method's paper used; "cifar10" as collected for ResNet-110 in
the tables of CAT-RS (Jeong et al. 2023) and of the easy-sample recipe (Sun et al. 2025).
"""

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any, NamedTuple, TypeVar

from sigmax.config.plugins import imported, plugins
from sigmax.errors import RequestError
from sigmax.train.loop.settings import Settings
from sigmax.train.methods.base import Method

GROUP = "sigmax.methods"
M = TypeVar("M", bound=type[Method])

# One schedule for all of them: 150 epochs, the rate divided by ten every 50.
CIFAR10 = Settings(
    epochs=150, batch=256, lr=0.1, weight_decay=1e-4, schedule="step", step_epochs=50, augment="crop-flip"
)


class Preset(NamedTuple):
    """One way to train: architecture, settings of the loop, and the hyper-parameters of a method or of a router."""

    architecture: str
    settings: Settings
    fields: Mapping[str, Any]


Presets = Mapping[str, Mapping[float, Preset]]  # by name and sigma


@dataclass(frozen=True)
class Registered:
    """A method with what it declares."""

    kind: type[Method]
    summary: str  # one line
    presets: Presets


_METHODS: dict[str, Registered] = {}


def register(*, summary: str, presets: Presets | None = None) -> Callable[[M], M]:
    """Let the method that this decorates be asked for by its `name`; two methods cannot have one name."""

    def add(kind: M) -> M:
        there = _METHODS.get(kind.name)
        if there is not None and _place(there.kind) != _place(kind):
            raise RequestError(f"there is a training method {kind.name!r} already ({_place(there.kind)}); rename one")
        _METHODS[kind.name] = Registered(kind, summary, presets or {})
        return kind

    return add


def on_cifar10(**hyper: Any) -> Presets:
    """The preset "cifar10": hyper-parameters at sigma 0.25, 0.5 and 1.0, a tuple of three or one value for all."""

    def at(place: int) -> dict[str, Any]:
        return {name: value[place] if isinstance(value, tuple) else value for name, value in hyper.items()}

    return {"cifar10": {s: Preset("resnet110", CIFAR10, at(i)) for i, s in enumerate((0.25, 0.5, 1.0))}}


def known() -> Mapping[str, Registered]:
    """All methods by name: those here, those registered in this program, and those of installed packages."""
    _load_own()
    for name, plugin in plugins(GROUP).items():
        if name not in _METHODS:
            _load(plugin)
    return dict(sorted(_METHODS.items()))


def find(name: str) -> Registered:
    """The method of that name."""
    methods = known()
    if name not in methods:
        raise RequestError(f"unknown training method {name!r}; known are: {', '.join(methods)}")
    return methods[name]


def method_preset(preset: str, method: str, sigma: float) -> Preset:
    """What the method's paper used at that noise: preset "cifar10" has sigma 0.25, 0.5 and 1.0."""
    presets = find(method).presets
    if preset not in presets:
        raise RequestError(f"{method} has no preset {preset!r}; it has: {', '.join(presets) or 'none'}")
    by_sigma = presets[preset]
    if sigma not in by_sigma:
        raise RequestError(
            f"the preset {preset!r} of {method} is for sigma {', '.join(f'{s:g}' for s in by_sigma)}; got {sigma:g}. "
            "Use one of these, or leave the preset out and give the hyper-parameters"
        )
    return by_sigma[sigma]


def make_method(name: str, sigma: float, hyper: Mapping[str, Any] | None = None, *, noise: str = "gaussian") -> Method:
    """The method of that name for noise of level `sigma`, in pixels; `hyper` holds its hyper-parameters by name."""
    kind, given = find(name).kind, dict(hyper or {})
    refuse_unknown(kind, given)
    if noise != "gaussian":
        if not takes_any_noise(kind):
            fit = ", ".join(name for name, method in known().items() if takes_any_noise(method.kind))
            raise RequestError(
                f"{name} training is made for Gaussian noise, in its losses or in its gradients, and does not learn "
                f"under {noise} noise; choose one of {fit}"
            )
        given["noise"] = noise
    return kind(sigma=sigma, **given)  # type: ignore[call-arg]  # every registered method has a sigma


def settable(kind: type[Method]) -> dict[str, Field[Any]]:
    """The hyper-parameters of a method that a request may name: all but its noise."""
    return {f.name: f for f in fields(kind) if f.init and f.name not in ("sigma", "inner", "noise")}  # type: ignore[arg-type]


def takes_any_noise(kind: type[Method]) -> bool:
    """Whether the method learns under noise of other distributions than the Gaussian."""
    return "noise" in {f.name for f in fields(kind)}  # type: ignore[arg-type]  # every method is a dataclass


def refuse_unknown(kind: type[Method], given: Mapping[str, Any]) -> None:
    """Raise where a hyper-parameter is not one of the method's."""
    unknown = sorted(set(given) - set(settable(kind)))
    if unknown:
        known = settable(kind).values()
        defaults = ", ".join(f.name if f.default is MISSING else f"{f.name}={f.default}" for f in known)
        raise RequestError(f"{kind.name} has no {', '.join(unknown)}; {kind.name} takes {defaults or 'none'}")


@cache
def _load_own() -> None:
    """Import every file of this folder; those of methods register them."""
    for module in pkgutil.iter_modules(import_module("sigmax.train.methods").__path__, "sigmax.train.methods."):
        import_module(module.name)


def _load(plugin: EntryPoint) -> None:
    """Import a package's method; one that did not register itself is registered by its docstring."""
    kind = imported(plugin, "training method")
    if plugin.name not in _METHODS:
        if not (isinstance(kind, type) and issubclass(kind, Method)) or kind.name != plugin.name:
            raise RequestError(
                f"the entry point {plugin.name!r} ({plugin.value}) must be a sigmax.train.Method of that name; repair "
                "or remove that package"
            )
        register(summary=(kind.__doc__ or "").partition("\n")[0])(kind)


def _place(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
