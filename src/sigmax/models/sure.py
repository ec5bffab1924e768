"""A router that needs no training: how sure a classifier is of its answer.

# p_1 the largest of the classifier's softmax, on a noisy image; b the biases of the two routes

    logits of the routes:   b_0   and   log(p_1 / (1 - p_1)) + b_1

The idea: what an expert is sure of under its own noise it will certify far, and what it is unsure of is better left
to an expert of less noise: route 0 is that expert, route 1 the sure one. The biases, its only own weights, say how
sure is sure enough; `sigmax.train.balance` chooses them on images that nobody was trained on.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from sigmax.errors import RequestError
from sigmax.models.classifier import Classifier
from sigmax.models.description import Description
from sigmax.models.registry import all_options
from sigmax.models.registry import build as build_network

NAME = "sureness"
PART = "classifier"  # the network inside
ROUTES = 2
_LEAST = 1e-6  # of log(1 / p_1): below it 32 bits cannot tell how sure a network is


class Sureness(nn.Module):
    """Logits (n, 2) of the routes unsure and sure, from a network that tells classes apart."""

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier
        self.bias = nn.Parameter(torch.zeros(ROUTES))

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row an image."""
        logits = self.classifier(images).float()
        missing = (logits.logsumexp(dim=1) - logits.amax(dim=1)).nan_to_num(0.0)  # log(1 / p_1); inf is certain
        sure = -missing.clamp(min=_LEAST).expm1().log()
        routes: Tensor = torch.stack([torch.zeros_like(sure), sure], dim=1) + self.bias
        return routes


def build(
    *, classes: int, input_shape: tuple[int, int, int], architecture: str, options: dict[str, Any], known: int
) -> nn.Module:
    """The router over a registered network of `known` classes, for the registry."""
    if classes != ROUTES:
        raise RequestError(f"a network is sure or it is not: {ROUTES} routes; got {classes}")
    return Sureness(build_network(architecture, classes=known, input_shape=input_shape, **options))


def inside(model: object) -> nn.Module | None:
    """The network whose sureness a router tells; nothing if it is no such router."""
    within = model.network if isinstance(model, Classifier) else None
    return within.classifier if isinstance(within, Sureness) else None


def sureness(classifier: Classifier, *, sigma: float | None = None) -> Classifier:
    """The router of a classifier's sureness, with weights of its own; `sigma`: the noise it is meant for."""
    if not isinstance(classifier, Classifier):
        raise RequestError(
            f"sureness needs a classifier of sigmax.models (create, load, import_weights); got {type(classifier)}"
        )
    told = classifier.description
    if told.architecture == NAME:
        raise RequestError("this is a router of sureness already; give the classifier that it is about")
    described = Description(
        architecture=NAME,
        options={
            "architecture": told.architecture,
            "options": all_options(told.architecture, told.options),
            "known": told.classes,
        },
        classes=ROUTES,
        input_shape=told.input_shape,
        normalisation=told.normalisation,
        sigma=told.sigma if sigma is None else sigma,
    )
    router = Sureness(copy.deepcopy(classifier.network))
    return Classifier(router, described).eval()
