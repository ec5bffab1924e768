"""What thresholds are chosen for."""

# A accuracies at the radii in %; P published ones; E the envelope: the best network alone at each radius; w weights

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from sigmax.config.validation import Count, Options, Positive, Weight, about
from sigmax.errors import RequestError, RunError

Floats = NDArray[np.float64]


class CalibrateOptions(Options):
    """What the confidence thresholds of a cascade are chosen for."""

    objective: Annotated[
        Literal["least-lead", "least-ratio", "mean"],
        about("least lead over `published`, least ratio to the best network at each radius, or mean accuracy"),
    ] = "mean"
    published: Annotated[tuple[float, ...], about("least-lead: accuracy in % to be above, at each radius")] = ()
    weights: Annotated[tuple[Weight, ...], about("mean: what each of the radii counts; none: all alike")] = ()
    enough: Annotated[Positive | None, about("least-ratio: a least ratio beyond which the mean ratio decides")] = None
    radii: Annotated[tuple[Weight, ...], about("radii that count")] = tuple(0.25 * i for i in range(11))
    samples: Annotated[Count, about("noisy copies of each held-out image, for every network")] = 512

    @model_validator(mode="after")
    def _fits(self) -> "CalibrateOptions":
        if not self.radii:
            raise RequestError("radii must name at least one radius")
        for name, objective in (("published", "least-lead"), ("weights", "mean"), ("enough", "least-ratio")):
            if getattr(self, name) and self.objective != objective:
                raise RequestError(f"{name}: only for objective = '{objective}'; leave it out, or set that")
        if self.objective == "least-lead" and len(self.published) != len(self.radii):
            raise RequestError(
                f"published must hold one accuracy for each of the {len(self.radii)} radii; got {len(self.published)}"
            )
        if self.weights and len(self.weights) != len(self.radii):
            raise RequestError(
                f"weights must hold one number for each of the {len(self.radii)} radii; got {len(self.weights)}"
            )
        if self.weights and not any(self.weights):
            raise RequestError("weights must not all be 0: no radius would count")
        return self

    def worth(self, accuracy: Floats, envelope: Floats) -> tuple[float, float]:
        """How good accuracies are; what comes second decides between equals.

        least-lead:   min_r A - P, then the mean
        least-ratio:  min_r A / E over the radii where E > 0, or `enough` where that is less, then the mean
        mean:         sum_r w A / sum_r w, then the least A
        """
        if self.objective == "mean":
            return float(np.average(accuracy, weights=self.weights or None)), float(accuracy.min())
        if self.objective == "least-lead":
            leads = accuracy - np.asarray(self.published)
            return float(leads.min()), float(leads.mean())
        ratio = ratios(accuracy, envelope)
        least = float(np.nanmin(ratio))
        return least if self.enough is None else min(least, self.enough), float(np.nanmean(ratio))


def ratios(accuracy: Floats, envelope: Floats) -> Floats:
    """A / E at each radius, NaN where no network alone certifies anything."""
    if not envelope.any():
        raise RunError("the networks certify nothing at these radii, so there is no ratio; choose smaller radii")
    found: Floats = np.divide(accuracy, envelope, out=np.full_like(accuracy, np.nan), where=envelope > 0)
    return found
