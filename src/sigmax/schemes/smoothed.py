"""Constant-noise smoothing (Cohen et al. 2019)."""

import torch

from sigmax.engine.settings import Model
from sigmax.engine.voter import Voter
from sigmax.errors import RequestError
from sigmax.radius.noise import Gaussian, Noise, grid_of, level_word
from sigmax.rules.smoothed import Bound, SmoothedRule
from sigmax.schemes.registry import NetworkSource, register
from sigmax.schemes.scheme import Domain, Scheme


class Smoothed(Scheme):
    """A classifier smoothed with one noise distribution.

    model: any callable, batch -> logits (batch, classes) or class ids (batch,), on any device; normalisation
    belongs inside it. One that declares `defers = True` (`models.selective`) has a last column for votes to defer.
    sigma: the standard deviation of Gaussian noise, short for noise=sx.noise.Gaussian(sigma).
    noise: the distribution, which decides the norm of the radii: Gaussian (l2) or Uniform (l1).
    grid: 255 for 8-bit images, whose noise is then added in whole steps of 1/255: no rounding tells the base
    classifier anything of the image (see `Gaussian`), and other inputs are refused. Short for Gaussian(sigma, grid).
    bound: "one-sided" as in the papers, or "runner-up" (see `SmoothedRule`).
    device, dtype, batch, compile: how the votes are computed; of these only the kind of device,
    CPU or GPU, decides which noise an input gets.
    """

    def __init__(
        self,
        model: Model,
        *,
        sigma: float | None = None,
        noise: Noise | None = None,
        grid: int | None = None,
        classes: int,
        bound: Bound = "one-sided",
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        batch: int | None = None,
        compile: bool | str = False,  # noqa: A002 (the name users know from torch)
        domain: Domain = "images",
    ) -> None:
        if (sigma is None) == (noise is None):
            raise RequestError("give either sigma= (Gaussian noise) or noise=, not both and not neither")
        if noise is not None and grid is not None:
            raise RequestError("grid= goes with sigma=; beside noise= it belongs to the noise: Gaussian(sigma, grid)")
        distribution = noise if noise is not None else Gaussian(sigma, grid)  # type: ignore[arg-type]  # one is given
        defers = bool(getattr(model, "defers", False))
        rule = SmoothedRule(distribution, classes, bound, defers)
        voter = Voter(model, classes=rule.columns, device=device, dtype=dtype, batch=batch, compile=compile)
        super().__init__(rule, {"base": voter}, domain=domain, grid=grid_of(distribution))
        self.noise = distribution
        self.sigma = rule.sigma

    def sigma_of(self, network: str) -> float:
        """There is one network and one noise."""
        return self.sigma

    def __repr__(self) -> str:
        assert isinstance(self.rule, SmoothedRule)
        bound = "" if self.rule.bound == "one-sided" else f", bound {self.rule.bound}"
        defers = ", selective" if self.rule.defers else ""
        grid = "" if self.grid is None else f", grid {self.grid}"
        return f"Smoothed({level_word(self.noise)} {self.sigma:g}, {self.classes} classes{bound}{defers}{grid})"


def _from_rule(rule: SmoothedRule, source: NetworkSource) -> Smoothed:
    model = source.network(rule.columns)
    return Smoothed(model, noise=rule.noise, classes=rule.classes, bound=rule.bound, **source.how)


register("smoothed", _from_rule)
