"""Constant-noise smoothing (Cohen et al. 2019)."""

import torch

from sigmax.certify.scheme import Domain, Scheme
from sigmax.certify.smoothed_rule import Bound, SmoothedRule
from sigmax.noise.voter import Model, Voter


class Smoothed(Scheme):
    """A classifier smoothed with Gaussian noise of one `sigma`.

    model: any callable, batch -> logits (batch, classes) or class ids (batch,), on any device; normalisation
    belongs inside it. bound: "one-sided" as in the papers, or "runner-up" (see `SmoothedRule`).
    device, dtype, batch, compile: how the votes are computed; of these only the kind of device,
    CPU or GPU, decides which noise an input gets.
    """

    def __init__(
        self,
        model: Model,
        *,
        sigma: float,
        classes: int,
        bound: Bound = "one-sided",
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        batch: int | None = None,
        compile: bool | str = False,  # noqa: A002 (the name users know from torch)
        domain: Domain = "images",
    ) -> None:
        rule = SmoothedRule(sigma=sigma, classes=classes, bound=bound)
        voter = Voter(model, classes=classes, device=device, dtype=dtype, batch=batch, compile=compile)
        super().__init__(rule, {"base": voter}, domain=domain)
        self.sigma = rule.sigma

    def sigma_of(self, network: str) -> float:
        """There is one network and one noise."""
        return self.sigma

    def __repr__(self) -> str:
        assert isinstance(self.rule, SmoothedRule)
        bound = "" if self.rule.bound == "one-sided" else f", bound {self.rule.bound}"
        return f"Smoothed(sigma {self.sigma:g}, {self.classes} classes{bound})"
