"""Routers brought into balance: how much each leans to more noise, chosen on images nobody was trained on.

# K routes, from least noise to most; b the lean; f_j logits of the router
# A(r) certified accuracy at radius r in %, G(r) the goal there

What a router trades for what is decided by the weights of its loss, and seen only when it is trained. A lean moves
the trade afterwards, and trains nothing:

    f_j(x) + b * (j - (K - 1) / 2)

A router that names classes (`models.sure`) has two things to trade, passing and naming, however many its classes:
outcome 0 gets -b / 2 and all others b / 2.

The leans of all routers of a tree are chosen together, for the largest min_r (A(r) - G(r)) on the images held out.
A(r) is estimated from d draws, far fewer than the n of a certificate. k of d votes tell little of a share near 1,
where far radii are decided: d of d would be n of n if the share itself were taken. So each image gets a share from
what k of d leaves possible, Beta(k + 1/10, d - k + 1/10), at a random place of its own, and that share is put to
the bounds of n draws. It is a choice and no claim: any router is certified by its own votes.
"""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri
from torch import Tensor, nn

from sigmax import bounds
from sigmax.certify.smoothed_rule import Bound
from sigmax.errors import RequestError
from sigmax.files import written_whole
from sigmax.models import Classifier
from sigmax.models.sure import Sureness
from sigmax.train.pipeline_tree import Node
from sigmax.train.quick_check import noisy_answers

PRIOR = 0.1  # votes for and against that every share begins with: most shares are near 0 or 1
STEPS = (1.0, 0.5, 0.25, 0.125)  # by which leans are moved, from coarse to fine
ROUTERS = 1000  # and up: routers among networks; experts are below
RIVALS = 1000  # further up: the votes that a router which names classes gives to wrong ones
FIRST = "router"  # what the first router is called beside the numbers of the inner ones
ONLY = "use an architecture whose last layer is linear, or leave [balance] out"
FURTHEST = 6.0  # a lean: no router of any use is beyond

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Proof:
    """What a certificate of n draws could show of votes of which few are known."""

    n: int
    alpha: float
    network: int = 0  # whose votes: networks are lucky on different images

    def z(self, counts: Ints, draws: int) -> Floats:
        """Phi^-1 of the lower bound that n draws may prove, where `counts` of `draws` are known; a row an image."""
        place = np.random.SFC64(self.network).random_raw(len(counts)).astype(np.float64) / 2**64
        place = np.clip(place, 1e-3, 1 - 1e-3).reshape(-1, *[1] * (counts.ndim - 1))
        share = betaincinv(counts + PRIOR, draws - counts + PRIOR, place)
        lower = bounds.lower(np.round(share * self.n).astype(np.int64), self.n, self.alpha)
        found: Floats = ndtri(np.maximum(lower, 1e-300))
        return found


def logits_of(
    model: nn.Module, pixels: Tensor, sigma: float, *, draws: int, generator: torch.Generator
) -> NDArray[np.float32]:
    """What the network answers to noisy copies of each image, (images, draws, classes)."""
    batches = noisy_answers(model, pixels, sigma, draws=draws, generator=generator)
    found = [logits.float().cpu() for _, logits in batches]
    table: NDArray[np.float32] = torch.cat(found).view(len(pixels), draws, -1).numpy()
    return table


def expert_radii(
    logits: NDArray[np.float32], labels: Ints, sigma: float, proof: Proof, bound: Bound = "one-sided"
) -> Floats:
    """How far an expert would certify the true class of each image; 0 where it would not."""
    counts, draws, every = counted(logits), logits.shape[1], np.arange(len(labels))
    own = counts[every, labels]
    if bound == "one-sided":
        reached = sigma * proof.z(own, draws)
    else:  # both shares at the same place: of two classes they are one
        half, rivals = replace(proof, alpha=proof.alpha / 2), counts.copy()
        rivals[every, labels] = 0
        reached = sigma / 2 * (half.z(own, draws) + half.z(draws - rivals.max(axis=1), draws))
    found: Floats = np.where(counts.argmax(axis=1) == labels, np.maximum(reached, 0.0), 0.0)
    return found


def routed_radii(counts: Ints, sigma: float, below: Floats, proof: Proof) -> Floats:
    """The radius of the consensus rule for the true class: min_j max(D_j, R_j), as `router_objective` says."""
    draws = int(counts[0].sum())
    apart = sigma / 2 * (proof.z(counts.max(axis=1, keepdims=True), draws) + proof.z(draws - counts, draws))
    apart[np.arange(len(counts)), counts.argmax(axis=1)] = 0.0  # from itself
    found: Floats = np.maximum(np.maximum(apart, 0.0), below).min(axis=1)
    return found


def named_radii(counts: Ints, labels: Ints, sigma: float, below: Floats, proof: Proof) -> Floats:
    """The radius of the consensus rule for the true class where majorities name classes: max(R, min(W, below)).

    As far as R the true class keeps its majority; as far as W no wrong one has any, and then what is below may
    answer. Half of alpha is for R and half for W, as in `sigmax.certify.naming`.
    """
    draws, every = int(counts[0].sum()), np.arange(len(counts))
    wrong = counts.copy()
    wrong[every, labels] = wrong[:, -1] = 0  # neither the true class nor passing is a wrong class
    right = replace(proof, alpha=proof.alpha / 2)
    against = replace(right, network=RIVALS + proof.network)
    keeps = sigma * right.z(counts[every, labels], draws)
    apart = sigma * against.z(draws - wrong.max(axis=1), draws)
    found: Floats = np.maximum(np.maximum(keeps, np.minimum(apart, below)), 0.0)
    return found


def accuracy(radii: Floats, at: Sequence[float]) -> Floats:
    """Shares in % of images that are certified as far as each of the radii."""
    found: Floats = 100 * ((radii[:, None] >= np.asarray(at)) & (radii[:, None] > 0)).mean(axis=0)
    return found


@dataclass(frozen=True)
class Votes:
    """What all networks of a tree answered to the images held out."""

    experts: Sequence[Floats]  # radii, one array an expert
    routers: Mapping[int | None, tuple[NDArray[np.float32], float]]  # by `Node.inner`: logits and sigma
    proof: Proof
    labels: Ints | None = None  # of the images; needed where a router names classes
    names: frozenset[int | None] = frozenset()  # the routers that do, by `Node.inner`
    _counts: dict[tuple[int | None, float], Ints] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.names and self.labels is None:
            raise RequestError("routers that name classes can only be judged by labels; give labels=, one an image")

    def radii(self, node: Node, leans: Mapping[int | None, float]) -> Floats:
        """How far a part of the tree would certify each image if its routers leaned like this."""
        if node.is_expert:
            return self.experts[node.experts[0]]
        sigma, counts = self.routers[node.inner][1], self.counts(node, leans[node.inner])
        proof = replace(self.proof, network=ROUTERS + (0 if node.inner is None else 1 + node.inner))
        if node.inner in self.names:  # the expert whose sureness it is has spoken: only what is below is asked
            assert self.labels is not None
            return named_radii(counts, self.labels, sigma, self.radii(node.routes[0], leans), proof)
        below = np.stack([self.radii(route, leans) for route in node.routes], axis=1)
        return routed_radii(counts, sigma, below, proof)

    def counts(self, node: Node, by: float) -> Ints:
        """How often a router has each outcome if it leans so; kept, since the search asks again and again."""
        asked = node.inner, by
        if asked not in self._counts:
            self._counts[asked] = counted(self.routers[node.inner][0], by, names=node.inner in self.names)
        return self._counts[asked]


def best_leans(
    tree: Node, votes: Votes, at: Sequence[float], goal: Sequence[float]
) -> tuple[dict[int | None, float], Floats]:
    """The leans of the largest least lead over the goal, and the accuracies that they promise."""
    names = [node.inner for node in tree.routers()]

    def judged(leans: tuple[float, ...]) -> Floats:
        return accuracy(votes.radii(tree, dict(zip(names, leans, strict=True))), at)

    best = _climb(lambda leans: _lead(judged(leans), goal), len(names))
    return dict(zip(names, best, strict=True)), judged(best)


def _lead(found: Floats, goal: Sequence[float]) -> tuple[float, float]:
    """The least lead, then the mean one: of two that are as good where they are worst, the better elsewhere."""
    leads = found - np.asarray(goal)
    return float(leads.min()), float(leads.mean())


def _climb(worth: Callable[[tuple[float, ...]], tuple[float, float]], count: int) -> tuple[float, ...]:
    """From no lean at all to the best of its neighbours, and on, by smaller and smaller steps."""
    here = (0.0,) * count
    best = worth(here)
    for step in STEPS:
        while True:
            moves = itertools.product((-step, 0.0, step), repeat=count)
            around = {tuple(map(sum, zip(here, move, strict=True))) for move in moves} - {here}
            inside = sorted(leans for leans in around if max(map(abs, leans)) <= FURTHEST)
            found, then = max((worth(leans), leans) for leans in inside)
            if found <= best:
                break
            best, here = found, then
    return here


def lean(model: Classifier, by: float) -> None:
    """Make a router lean by moving, in place, the biases of its last layer; refused where they do not do that."""
    if not abs(by) <= FURTHEST:
        raise RequestError(f"a lean must be a number from {-FURTHEST:g} to {FURTHEST:g}; got {by!r}")
    images = torch.zeros(2, *model.description.input_shape, device=next(model.parameters()).device)
    with torch.no_grad():
        before = model.eval()(images)
        bias, names = _last_bias(model, before.shape[1])
        leant = torch.from_numpy(towards(by, before.shape[1], names=names))
        # Where it names, the last outcome passes, which is the first bias; the second is that of all classes.
        bias.add_((leant.flip(0) if names else leant)[: len(bias)].to(before))
        moved = (model(images) - before).cpu()
    if not torch.allclose(moved, leant.expand_as(moved), atol=1e-4 * (1 + abs(by))):
        raise RequestError(f"a router can only lean where the last layer's biases are added to its logits: {ONLY}")


def towards(by: float, routes: int, *, names: bool = False) -> NDArray[np.float32]:
    """What is added to the logits of a router that leans so; `names`: the last passes, the others name classes."""
    place = 0.5 - (np.arange(routes) == routes - 1) if names else np.arange(routes) - (routes - 1) / 2
    found: NDArray[np.float32] = np.float32(by) * place.astype(np.float32)
    return found


def _last_bias(model: nn.Module, routes: int) -> tuple[Tensor, bool]:
    """The bias by which a router leans, and whether it names classes."""
    lasts = [layer for layer in model.modules() if isinstance(layer, nn.Linear | Sureness)]
    own = [layer for layer in lasts if isinstance(layer, Sureness)] or lasts[-1:]
    names = bool(own) and isinstance(own[0], Sureness) and own[0].names
    if not own or own[0].bias is None or len(own[0].bias) != (2 if names else routes):
        raise RequestError(f"a router can only lean where the last layer has a bias for each route: {ONLY}")
    return own[0].bias, names


def write_leans(path: Path, leans: Mapping[int | None, float], told: Mapping[str, Any]) -> None:
    """Keep the leans, beside what they were chosen for and what they promise."""
    named = {FIRST if inner is None else str(inner): by for inner, by in leans.items()}
    with written_whole(path) as draft:
        draft.write_text(json.dumps({"leans": named, **told}, indent=1) + "\n")


def read_leans(path: Path, plan: Mapping[str, Any]) -> dict[int | None, float] | None:
    """The leans that were kept for this plan; None where there are none yet."""
    if not path.is_file():
        return None
    try:
        told = json.loads(path.read_text())
        leans = {None if name == FIRST else int(name): float(by) for name, by in told["leans"].items()}
        made_for = told["plan"]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise RequestError(f"{path} is damaged; delete it to choose anew") from error
    if made_for != json.loads(json.dumps(plan)):
        raise RequestError(
            f"{path} was chosen for other networks, images, votes or another goal; delete it to choose anew"
        )
    return leans


def counted(logits: NDArray[np.float32], by: float = 0.0, *, names: bool = False) -> Ints:
    """How often each class leads, (images, classes), in a network that leans so (see `towards`)."""
    classes = logits.shape[2]
    first = (logits + towards(by, classes, names=names)).argmax(axis=2)
    found: Ints = (first[:, :, None] == np.arange(classes)).sum(axis=1)
    return found
