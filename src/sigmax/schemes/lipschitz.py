"""A network with a known Lipschitz constant: certified without noise and without chance."""

import torch

from sigmax.engine.settings import Model
from sigmax.engine.voter import Voter
from sigmax.rules.lipschitz import LipschitzRule
from sigmax.schemes.registry import NetworkSource, register
from sigmax.schemes.scheme import Domain, Scheme


class Lipschitz(Scheme):
    """A classifier whose scores move by at most `constant` times what the input moves, both in the l2 norm.

    model: any callable, batch -> scores (batch, classes); its normalisation counts for the constant. The radius is
    margin / (sqrt(2) * constant) and spends no alpha. The caller vouches for the constant: it is recorded,
    not proved.
    Scores are computed in 64 bits by a copy of a torch module, or by a function that takes and keeps to 64 bits. Other
    models are computed in 32, where the allowance for rounding is far larger, and made for affine maps.
    rounding: how far a score may be from the exact one, as a share of constant * (|x| + sqrt(dimension)) + |score|,
    where you know better than the default; `sx.radius.rounding` states what that assumes.
    """

    def __init__(
        self,
        model: Model,
        constant: float,
        *,
        classes: int,
        rounding: float | None = None,
        device: str | torch.device | None = None,
        domain: Domain = "images",
    ) -> None:
        rule = LipschitzRule(constant=constant, classes=classes, rounding=rounding)
        # At least in 32 bits, whatever else is asked for: coarser scores would not have the margin they show.
        voter = Voter(model, classes=classes, device=device, dtype=torch.float32, votes=False)
        super().__init__(rule, {"base": voter}, domain=domain)
        self.constant = rule.constant

    def sigma_of(self, network: str) -> float:
        """There is no noise."""
        return 0.0

    def __repr__(self) -> str:
        return f"Lipschitz(constant {self.constant:g}, {self.classes} classes)"


def _from_rule(rule: LipschitzRule, source: NetworkSource) -> Lipschitz:
    model = source.network(rule.classes)
    how = {"classes": rule.classes, "rounding": rule.rounding, "device": source.how["device"]}
    return Lipschitz(model, rule.constant, **how)


register("lipschitz", _from_rule)
