"""A cascade of noise levels (Jeong & Shin 2024): the largest noise that is sure of a class names it."""

from collections.abc import Iterable, Sequence

import torch

from sigmax.certify.multiscale_rule import MultiscaleRule, Shares
from sigmax.certify.procedure import prefixed
from sigmax.certify.scale import scale_name
from sigmax.certify.scheme import Domain, Scheme
from sigmax.errors import RequestError
from sigmax.noise.voter import Model, Voter


class Multiscale(Scheme):
    """Scales from the most noise to the least; the first that gives a class more than its threshold names it.

    model: one for all scales, as of `Smoothed` (one that takes sigma is told the scale's), or a sequence with one
    for each sigma. sigmas: strictly rising. thresholds: one share of votes for all scales or one for each sigma,
    from 0.5 on; higher ones leave more inputs to the smaller scales.
    budget: "sound", or "released" to reproduce the authors' shares of alpha, which prove nothing; see
    `MultiscaleRule`. device, dtype, batch, compile: as of `Smoothed`.
    """

    def __init__(
        self,
        model: Model | Sequence[Model],
        *,
        sigmas: Sequence[float],
        classes: int,
        thresholds: float | Sequence[float] = 0.5,
        budget: Shares = "sound",
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        batch: int | None = None,
        compile: bool | str = False,  # noqa: A002 (the name users know from torch)
        domain: Domain = "images",
    ) -> None:
        rule = MultiscaleRule(sigmas, classes, thresholds, budget)  # type: ignore[arg-type]  # it makes them tuples
        models = _models(model, len(rule.sigmas))
        how = {"device": device, "dtype": dtype, "batch": batch, "compile": compile}
        voter_of: dict[int, Voter] = {}
        for each in models:  # a network that serves several scales votes in fuller batches
            if id(each) not in voter_of:
                voter_of[id(each)] = Voter(each, classes=rule.classes, **how)  # type: ignore[arg-type]
        names = [prefixed(scale_name(s), "base") for s in range(len(models))]
        voters = {name: voter_of[id(each)] for name, each in zip(names, reversed(models), strict=True)}
        super().__init__(rule, voters, domain=domain)
        self.sigmas = rule.sigmas
        self._sigma_of = dict(zip(names, reversed(rule.sigmas), strict=True))

    def sigma_of(self, network: str) -> float:
        """The noise of the scale."""
        return self._sigma_of[network]

    def __repr__(self) -> str:
        assert isinstance(self.rule, MultiscaleRule)
        sigmas = " / ".join(f"{sigma:g}" for sigma in reversed(self.sigmas))
        budget = "" if self.rule.sound else ", released budget: not sound"
        return f"Multiscale(sigma {sigmas}, {self.classes} classes{budget})"


def _models(model: Model | Sequence[Model], scales: int) -> list[Model]:
    """One for each sigma, in the order of the sigmas."""
    if callable(model):
        return [model] * scales
    models = list(model) if isinstance(model, Iterable) else [model]
    if len(models) != scales:
        raise RequestError(
            f"give one model for all scales, or one for each of the {scales} sigmas in their order; "
            f"got {len(models)}"
        )
    return models
