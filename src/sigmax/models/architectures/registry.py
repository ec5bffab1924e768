"""Architectures by name, so that a file can say which network it holds without bringing code."""

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, NamedTuple

import torch
from torch import nn

from sigmax.errors import RequestError
from sigmax.models.architectures.efficientnet import EfficientNetLite0
from sigmax.models.architectures.resnet import CappedResNet18, ResNet18, ResNet50, thin_resnet
from sigmax.models.architectures.small_cnn import SmallCNN
from sigmax.models.architectures.unet import UNet

Builder = Callable[..., nn.Module]


class Architecture(NamedTuple):
    """How a network is built, and whether it is a denoiser."""

    builder: Builder | str  # text: the module whose `build` it is
    denoises: bool = False


_architectures = {
    "small-cnn": Architecture(SmallCNN),
    "resnet18": Architecture(ResNet18),
    "resnet18-capped": Architecture(CappedResNet18),
    "resnet20": Architecture(thin_resnet(20)),
    "resnet56": Architecture(thin_resnet(56)),
    "resnet110": Architecture(thin_resnet(110)),  # the usual base model of publications on CIFAR-10
    "resnet50": Architecture(ResNet50),
    "efficientnet-lite0": Architecture(EfficientNetLite0),
    "unet": Architecture(UNet, denoises=True),
    # Networks of other libraries, which are needed only where one is used. Their options hold a whole config, so they
    # are built by functions of their own, not by name.
    "transformers": Architecture("sigmax.models.adapters.transformers"),
    "diffusers": Architecture("sigmax.models.denoisers.diffusion", denoises=True),
}


def names(*, denoisers: bool = False) -> tuple[str, ...]:
    """Every architecture of a classifier (or denoiser), the user's own included, in the order they were registered."""
    return tuple(n for n, a in _architectures.items() if a.denoises == denoisers and not isinstance(a.builder, str))


def register(name: str, *, denoiser: bool = False) -> Callable[[Builder], Builder]:
    """Add a builder under `name`, as a decorator or as `register(name)(builder)`; files refer to the name for good.

    Called as `builder(classes=10, input_shape=(3, 32, 32), **options)`, with keyword-only options, it returns a network
    that maps (n, *input_shape) to logits (n, classes); that of a denoiser (without classes) maps (images, sigma) to
    images.
    """

    def add(builder: Builder) -> Builder:
        if _architectures.setdefault(name, Architecture(builder, denoiser)).builder is not builder:
            raise RequestError(
                f"the architecture {name!r} is registered already, and files refer to it; choose another name"
            )
        return builder

    return add


def build(name: str, *, classes: int, input_shape: tuple[int, int, int], **options: Any) -> nn.Module:
    """A fresh network in eval mode that was seen to map (n, *input_shape) to (n, classes); with `classes=0` a denoiser.

    Its weights are sampled from torch's global generator: call `torch.manual_seed` first to fix them.
    """
    request = f"architecture {name!r} with {classes} classes, inputs {input_shape} and options {options}"
    builder, complete = _builder(name), all_options(name, options)
    if _architectures[name].denoises and classes:
        raise RequestError(f"{name!r} is a denoiser, which tells no classes apart; classifiers: {_listed(names())}")
    if not _architectures[name].denoises and not classes:
        known = _listed(names(denoisers=True))
        raise RequestError(f"{name!r} is a classifier, no denoiser; denoisers are: {known}")
    try:
        if not classes:
            return _module(builder(input_shape=input_shape, **complete), name).eval()
        network = _module(builder(classes=classes, input_shape=input_shape, **complete), name).eval()
        with torch.no_grad():
            logits = network(torch.zeros(2, *input_shape))
    except RequestError:
        raise
    except (ArithmeticError, IndexError, RuntimeError, TypeError, ValueError) as error:
        raise RequestError(f"{request} cannot be built: {error}") from error
    if logits.shape != (2, classes):
        raise RequestError(
            f"{request}: two images should give logits of shape {(2, classes)}, they gave "
            f"{tuple(logits.shape)}; correct the builder, or ask for the classes it has"
        )
    return network


def all_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options asked for and the defaults of the others, so that what is written down is complete."""
    accepted = {
        parameter.name: parameter.default
        for parameter in signature(_builder(name)).parameters.values()
        if parameter.name not in ("classes", "input_shape") and parameter.kind is Parameter.KEYWORD_ONLY
    }
    unknown = sorted(set(options) - set(accepted))
    if unknown:
        raise RequestError(
            f"architecture {name!r} has no option {', '.join(unknown)}; its options are: {_listed(accepted)}"
        )
    complete = {**accepted, **options}
    missing = [option for option, value in complete.items() if value is Parameter.empty]
    if missing:
        raise RequestError(f"architecture {name!r} needs a value for {', '.join(missing)}")
    return complete


def _builder(name: str) -> Builder:
    if name not in _architectures:
        raise RequestError(
            f"unknown architecture {name!r}; known are: {_listed((*names(), *names(denoisers=True)))}. "
            "Add your own with sigmax.models.register(name)(builder)"
        )
    found = _architectures[name].builder
    builder: Builder = import_module(found).build if isinstance(found, str) else found
    return builder


def _module(built: object, name: str) -> nn.Module:
    if isinstance(built, nn.Module):
        return built
    got = f"the class {built.__name__}" if isinstance(built, type) else type(built).__name__
    raise RequestError(f"the builder registered as {name!r} must return a torch.nn.Module; got {got}")


def _listed(items: Any) -> str:
    return ", ".join(items) or "none"
