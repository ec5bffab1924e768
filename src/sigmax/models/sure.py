"""A router that needs no training: how sure a classifier is of its answer.

# p_c the classifier's softmax on a noisy image, p_1st its largest; b_0 and b_1 the biases

    logits of two routes:               b_0   and   log(p_1st / (1 - p_1st)) + b_1
    logits where it names the class:    log(p_c / (1 - p_c)) + b_1 for each class c   and   b_0

The idea: what an expert is sure of under its own noise it will certify far, and what it is unsure of is better left
to an expert of less noise. Of two routes, 0 is that expert and 1 the sure one. A router that names the class has
one outcome more than there are classes: c says that the class is c, so that the sure expert need not be asked, and
the last one passes, which leaves the image to what is below. It says c where the router of two routes is sure and
the classifier answers c.

The biases, its only own weights, say how sure is sure enough; `sigmax.train.balance` chooses them on images that
nobody was trained on.
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
_LEAST = 1e-6  # of log(1 / p): below it 32 bits cannot tell how sure a network is
_MOST = 80.0  # likewise: above it 1 / p is more than 32 bits hold; no class that leads is near


class Sureness(nn.Module):
    """Logits (n, 2) of the routes unsure and sure, from a network that tells K classes apart.

    Or, where it names the class, (n, K + 1) of each class and of passing; the second bias is then all classes'.
    """

    def __init__(self, classifier: nn.Module, *, names: bool = False) -> None:
        super().__init__()
        self.classifier = classifier
        self.names = names
        self.bias = nn.Parameter(torch.zeros(ROUTES))

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row an image."""
        logits = self.classifier(images).float()
        asked = logits if self.names else logits.amax(dim=1, keepdim=True)
        missing = (logits.logsumexp(dim=1, keepdim=True) - asked).nan_to_num(0.0)  # log(1 / p); inf is certain
        sure = -missing.clamp(_LEAST, _MOST).expm1().log()
        if self.names:  # no class is named by a network that is out of its mind; of two routes its expert says so
            sure = sure.masked_fill(logits.isnan().any(dim=1, keepdim=True), torch.nan)
        unsure = torch.zeros_like(sure[:, :1]) + self.bias[0]
        sure = sure + self.bias[1]
        return torch.cat([sure, unsure] if self.names else [unsure, sure], dim=1)


def build(
    *, classes: int, input_shape: tuple[int, int, int], architecture: str, options: dict[str, Any], known: int
) -> nn.Module:
    """The router over a registered network of `known` classes, for the registry; `classes` tell its kind."""
    if classes not in (ROUTES, known + 1):
        raise RequestError(
            f"a router that passes or names one of {known} classes has {known + 1} outcomes, and one that only "
            f"tells whether a network is sure has {ROUTES} routes; got {classes}"
        )
    within = build_network(architecture, classes=known, input_shape=input_shape, **options)
    return Sureness(within, names=classes != ROUTES)


def inside(model: object) -> nn.Module | None:
    """The network whose sureness a router tells; nothing if it is no such router."""
    within = model.network if isinstance(model, Classifier) else None
    return within.classifier if isinstance(within, Sureness) else None


def sureness(classifier: Classifier, *, sigma: float | None = None, names: bool = False) -> Classifier:
    """The router of a classifier's sureness, with weights of its own; `sigma`: the noise it is meant for.

    It has two routes, unsure and sure; with `names` an outcome for each class, and a last one that passes.
    """
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
        classes=told.classes + 1 if names else ROUTES,
        input_shape=told.input_shape,
        normalisation=told.normalisation,
        sigma=told.sigma if sigma is None else sigma,
    )
    router = Sureness(copy.deepcopy(classifier.network), names=names)
    return Classifier(router, described).eval()
