"""How a router in training does on inputs held out: a diagnostic, not a certificate, with an early warning."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from sigmax import bounds, radius
from sigmax.radius import Noise
from sigmax.train.loop.fit import VALIDATION, seeded
from sigmax.train.loop.noisy import NoiseName, distribution
from sigmax.train.loop.progress import EpochReport, last_report
from sigmax.train.loop.quick_check import vote

SAMPLES, ALPHA = 100, 1e-3  # votes an input, and the chance that its radius is wrong
INPUTS = 128  # inputs checked, at most
NOTICED = 0.02  # a route that is best for fewer of the inputs than this is not missed
NEARLY_ALL = 0.95  # of the held-out inputs: a route that takes so many has collapsed the router
BEST_FOR = 0.9  # of the inputs: a route that is best for so many may take nearly all
STARVED = 0.1  # of its label share: a route taken for less is dying

OnWarning = Callable[[str], None]


@dataclass
class Watcher:
    """Called after each epoch: what the smoothed router does on the inputs held out.

    The mapping it returns: `matching`, the share of inputs sent to their best expert; `radius`, the mean radius of the
    route, and `abstained`, the share without one; `routes` and `labels`, the shares sent to each expert and best for
    it; `lost`, how much further on average the best expert certifies than the one taken; `attained` and `possible`, the
    mean radius of the consensus rule and of the best expert; and `warnings`, for every route that was just seen to die.
    """

    pixels: Tensor  # (n, C, H, W), on the device of the model
    radii: NDArray[np.float64]  # (n, K), how far each expert certifies them
    shares: Sequence[float]  # which share of all labelled inputs each expert is best for
    sigma: float
    seed: int
    epochs: int  # how many there will be
    routes: Sequence[str]  # their names
    advice: str  # what to change when a route dies
    on_warning: OnWarning | None = None
    noise: NoiseName = "gaussian"
    history: list[list[float]] = field(default_factory=list)  # `routes` of each epoch

    def remember(self, reports: Sequence[EpochReport]) -> None:
        """Take up what an earlier attempt at the same run saw."""
        self.history = [report.validation["routes"] for report in reports]

    def __call__(self, model: nn.Module, epoch: int) -> dict[str, Any]:
        """The epoch's mapping; a route that dies is warned of once."""
        with seeded(self.seed, epoch + 1, VALIDATION, device=self.pixels.device) as generator:
            how: dict[str, Any] = {"classes": len(self.routes), "samples": SAMPLES, "generator": generator}
            counts = vote(model, self.pixels, self.sigma, **how, noise=self.noise)
        taken, best = counts.argmax(axis=1), self.radii.argmax(axis=1)
        lower = bounds.lower(counts.max(axis=1), SAMPLES, ALPHA)
        certified = np.array([radius.smoothed(self._noise, p) for p in lower.tolist()])
        rows = np.arange(len(taken))
        labels = _shares(best, len(self.routes))
        self.history.append(_shares(taken, len(self.routes)))
        # Few inputs are checked: a route that is rare, here or in all, may stay out by chance.
        expected = np.minimum(labels, self.shares).tolist()
        warnings = [self._warning(i, labels) for i in newly_dying(self.history, expected, self.epochs)]
        if self.on_warning is not None:
            for warning in warnings:
                self.on_warning(warning)
        return {
            "inputs": len(taken),
            "matching": float((taken == best).mean()),
            "radius": float(certified.mean()),
            "abstained": float((certified == 0).mean()),
            "routes": self.history[-1],
            "labels": labels,
            "lost": float((self.radii[rows, best] - self.radii[rows, taken]).mean()),
            "attained": float(self._consensus(counts).mean()),
            "possible": float(self.radii.max(axis=1).mean()),
            "warnings": warnings,
        }

    @property
    def _noise(self) -> Noise:
        return distribution(self.noise, self.sigma)

    def _consensus(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """The radius of each input by `radius.routed`, where an expert with R_j = 0 never agrees."""
        rows, top = np.arange(len(counts)), counts.argmax(axis=1)
        lower = bounds.lower(counts[rows, top], SAMPLES, ALPHA)
        upper = bounds.upper(counts, SAMPLES, ALPHA)
        pairs = zip(lower.tolist(), upper.tolist(), strict=True)
        reach = np.array([[radius.smoothed(self._noise, p, q) for q in others] for p, others in pairs])
        reach[rows, top] = 0.0
        labels = [[0 if certified > 0 else None for certified in row] for row in self.radii]
        return np.array([radius.routed(*row) for row in zip(reach, self.radii, labels, strict=True)])

    def _warning(self, route: int, labels: Sequence[float]) -> str:
        return (
            f"epoch {len(self.history)} of {self.epochs}: the route to {self.routes[route]} is dying. It is best "
            f"for {labels[route]:.1%} of the held-out inputs and was taken for {self.history[-1][route]:.1%}. "
            f"{self.advice}"
        )


def newly_dying(history: Sequence[Sequence[float]], labels: Sequence[float], epochs: int) -> list[int]:
    """The routes that the last epoch is the first to show as dying: taken for less than a tenth of their inputs, twice.

    The first third of the epochs does not count: early on a router tries one route after another.
    """
    watched = [i for i, share in enumerate(labels) if share >= NOTICED]
    begin = -(-epochs // 3)

    def dying_at(epoch: int, route: int) -> bool:
        return epoch - 1 >= begin and all(history[e][route] < STARVED * labels[route] for e in (epoch - 1, epoch))

    last = len(history) - 1
    return [i for i in watched if dying_at(last, i) and not any(dying_at(e, i) for e in range(last))]


def _shares(which: NDArray[np.int64], classes: int) -> list[float]:
    shares: list[float] = (np.bincount(which, minlength=classes) / len(which)).tolist()
    return shares


def said_of_router(out: Path, sigmas: Sequence[float], advice: str) -> tuple[str, str | None] | None:
    """What the last check (`Watcher`) of the router in the file `out` showed, and a warning where it has collapsed."""
    last = last_report(out)
    if last is None or not last.validation:
        return None
    routes = route_names(sigmas)
    return said_of_routes(last.validation, routes), warning_of_collapse(last.validation, routes, advice)


def route_names(sigmas: Sequence[float]) -> list[str]:
    """What to call the routes: by the experts' noise, or by their place where one has none."""
    return [f"expert {i}" if math.isnan(sigma) else f"sigma {sigma:g}" for i, sigma in enumerate(sigmas)]


def said_of_routes(found: Mapping[str, Any], routes: Sequence[str]) -> str:
    """A sentence on accuracy, one on radii, one on the shares of the routes."""
    shares = ", ".join(
        f"{name} {taken:.1%} ({best:.1%})"
        for name, taken, best in zip(routes, found["routes"], found["labels"], strict=True)
    )
    return (
        f"Held out, {found['inputs']} inputs: {found['matching']:.1%} sent to their best expert, the route "
        f"certified within {found['radius']:.3f} on average and undecided for {found['abstained']:.1%}. "
        f"By consensus a radius of {found['attained']:.3f}; always the best expert: {found['possible']:.3f}. "
        f"Taken (best): {shares}."
    )


def warning_of_collapse(found: Mapping[str, Any], routes: Sequence[str], advice: str) -> str | None:
    """What is wrong, where one route takes nearly every input though the labels send many elsewhere."""
    taken = max(range(len(routes)), key=lambda route: found["routes"][route])
    share, best = found["routes"][taken], found["labels"][taken]
    if share < NEARLY_ALL or best >= BEST_FOR:
        return None
    return (
        f"the router sends {share:.1%} of the held-out inputs to {routes[taken]}, which is best for {best:.1%} of "
        f"them: the system will be little more than that expert, with less alpha. {advice}"
    )
