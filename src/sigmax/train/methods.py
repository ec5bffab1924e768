"""The training methods by name, and how their papers set them on CIFAR-10.

Source of the settings: the papers named in each method's file, as collected for ResNet-110 in the tables of CAT-RS
(Jeong et al. 2023) and of the easy-sample recipe (Sun et al. 2025).
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from sigmax.errors import RequestError
from sigmax.train.cat_rs import CatRS
from sigmax.train.consistency import Consistency
from sigmax.train.data_dependent import DataDependent
from sigmax.train.easy_samples import EasySamples
from sigmax.train.gaussian import Gaussian
from sigmax.train.macer import Macer
from sigmax.train.method import Method
from sigmax.train.settings import Settings
from sigmax.train.smoothadv import SmoothAdv
from sigmax.train.smoothmix import SmoothMix
from sigmax.train.stability import Stability

METHODS: Mapping[str, type[Method]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (Gaussian, Stability, SmoothAdv, Macer, Consistency, SmoothMix, CatRS, EasySamples)
    }
)
DATA_DEPENDENT = "data-dependent"

# One schedule for all of them: 150 epochs, the rate divided by ten every 50.
CIFAR10 = Settings(
    epochs=150, batch=256, lr=0.1, weight_decay=1e-4, schedule="step", step_epochs=50, augment="crop-flip"
)
_CIFAR10_FIELDS: Mapping[str, Mapping[float, Mapping[str, Any]]] = {
    "gaussian": {0.25: {}, 0.5: {}, 1.0: {}},
    "stability": {0.25: {"weight": 2.0}, 0.5: {"weight": 2.0}, 1.0: {"weight": 1.0}},
    "smoothadv": {
        0.25: {"epsilon": 1.0, "copies": 4, "steps": 10, "warm_up": 10},
        0.5: {"epsilon": 1.0, "copies": 8, "steps": 10, "warm_up": 10},
        1.0: {"epsilon": 2.0, "copies": 2, "steps": 10, "warm_up": 10},
    },
    "macer": {
        0.25: {"weight": 12.0, "copies": 16, "beta": 16.0, "gamma": 8.0},
        0.5: {"weight": 6.0, "copies": 16, "beta": 16.0, "gamma": 8.0},
        1.0: {"weight": 12.0, "copies": 16, "beta": 16.0, "gamma": 8.0, "plain_epochs": 50},
    },
    "consistency": {
        0.25: {"consistency": 20.0, "entropy": 0.5, "copies": 2},
        0.5: {"consistency": 10.0, "entropy": 0.5, "copies": 2},
        1.0: {"consistency": 10.0, "entropy": 0.5, "copies": 2},
    },
    "smoothmix": {
        0.25: {"step": 0.5, "mix_step": 0, "steps": 4, "weight": 5.0, "copies": 2},
        0.5: {"step": 1.0, "mix_step": 1, "steps": 4, "weight": 5.0, "copies": 2},
        1.0: {"step": 2.0, "mix_step": 1, "steps": 4, "weight": 5.0, "copies": 2},
    },
    "cat-rs": {
        0.25: {"weight": 0.5, "copies": 4, "epsilon": 1.0, "steps": 4},
        0.5: {"weight": 1.0, "copies": 4, "epsilon": 1.0, "steps": 4},
        1.0: {"weight": 2.0, "copies": 4, "epsilon": 1.0, "steps": 4},
    },
    "easy-samples": {
        0.25: {"discard_epoch": 60, "threshold": 0.5, "steps": 3, "step": 0.25, "copies": 4},
        0.5: {"discard_epoch": 70, "threshold": 0.4, "steps": 6, "step": 0.25, "copies": 4},
        1.0: {"discard_epoch": 60, "threshold": 0.4, "steps": 4, "step": 0.5, "copies": 4},
    },
}


class MethodPreset(NamedTuple):
    """One way to train: architecture, settings of the loop, and the method's hyper-parameters."""

    architecture: str
    settings: Settings
    fields: Mapping[str, Any]


def method_preset(preset: str, method: str, sigma: float) -> MethodPreset:
    """What the method's paper used at that noise: preset "cifar10" has sigma 0.25, 0.5 and 1.0."""
    if preset != "cifar10":
        raise RequestError(f"unknown preset {preset!r}; known is: cifar10")
    by_sigma = _CIFAR10_FIELDS[_known(method)]
    if sigma not in by_sigma:
        raise RequestError(
            f"the papers set {method} for sigma {', '.join(f'{s:g}' for s in by_sigma)}; got {sigma:g}. Take one "
            "of these, or leave the preset out and give the hyper-parameters"
        )
    return MethodPreset("resnet110", CIFAR10, by_sigma[sigma])


def make_method(name: str, sigma: float, hyper: Mapping[str, Any] | None = None) -> Method:
    """The method of that name for noise `sigma`, in pixels; `hyper` holds its hyper-parameters by name."""
    kind, given = METHODS[_known(name)], dict(hyper or {})
    _refuse_unknown(name, given, settable(kind))
    return kind(sigma=sigma, **given)  # type: ignore[call-arg]  # every method in the table has a sigma


def with_moving_noise(inner: Method, hyper: Mapping[str, Any] | None = None) -> DataDependent:
    """The method with a noise of its own for each input, which moves as training goes on."""
    given = dict(hyper or {})
    _refuse_unknown(DATA_DEPENDENT, given, settable(DataDependent))
    return DataDependent(inner, **given)


def settable(kind: type[Method]) -> dict[str, Field[Any]]:
    """The hyper-parameters of a method that a request may name: all but its noise."""
    return {f.name: f for f in fields(kind) if f.init and f.name not in ("sigma", "inner")}  # type: ignore[arg-type]


def parsed(kind: type[Method], texts: Sequence[str]) -> dict[str, Any]:
    """Hyper-parameters from texts such as "copies=4", each read as its field's kind."""
    known, hints, found = settable(kind), get_type_hints(kind), {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise RequestError(
                f"a hyper-parameter is given as NAME=VALUE, got {text!r}; {_choice(kind.name, known)}"
            )
        _refuse_unknown(kind.name, {name: value}, known)
        found[name] = _value(name, value.strip(), hints[name])
    return found


def _value(name: str, text: str, hint: Any) -> Any:
    if get_origin(hint) is Literal:
        if text not in get_args(hint):
            raise RequestError(f"{name} must be one of {', '.join(map(str, get_args(hint)))}; got {text!r}")
        return text
    if hint is bool:
        if text.lower() not in ("true", "false"):
            raise RequestError(f"{name} must be true or false; got {text!r}")
        return text.lower() == "true"
    if hint not in (int, float):
        return text  # a path
    try:
        return hint(text)
    except ValueError as error:
        kind = "a whole number" if hint is int else "a number"
        raise RequestError(f"{name} must be {kind}; got {text!r}") from error


def _known(name: str) -> str:
    if name not in METHODS:
        raise RequestError(f"unknown training method {name!r}; known are: {', '.join(METHODS)}")
    return name


def _refuse_unknown(name: str, given: Mapping[str, Any], known: Mapping[str, Field[Any]]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise RequestError(f"{name} has no {', '.join(unknown)}; {_choice(name, known)}")


def _choice(name: str, known: Mapping[str, Field[Any]]) -> str:
    """What could have been said, with what holds where nothing is."""
    defaults = ", ".join(f.name if f.default is MISSING else f"{f.name}={f.default}" for f in known.values())
    return f"{name} takes {defaults or 'none'}"
