"""Derandomised splitting noise (Levine & Feizi 2021): exact certificates in l1 for quantised images."""

import torch

from sigmax.engine.settings import Model
from sigmax.engine.voter import Voter
from sigmax.errors import RequestError
from sigmax.radius.splitting import Split
from sigmax.rules.splitting import SplittingRule
from sigmax.schemes.registry import NetworkSource, register
from sigmax.schemes.scheme import Domain, Scheme


class Splitting(Scheme):
    """A classifier that sees of each number only the middle of an interval of length 2 * scale, at every offset.

    model: any callable, batch -> logits or class ids, best trained with splitting noise of this scale and seed.
    Radii are in l1, exact, and spend no alpha: all `offsets` = 2 * scale * grid splits of an image are voted on, and
    the class with the most votes is the answer. They hold among images that are multiples of 1 / grid, and other
    inputs are refused.
    scale: about how far radii can reach; it is rounded to a multiple of 1 / (2 * grid). grid: 255 (default) for 8-bit
    images. seed (default 0): of how offsets differ from number to number; it belongs to the system, and never depends
    on an image. noise: all three in one.
    device, dtype, batch, compile: as of `Smoothed`.
    """

    def __init__(
        self,
        model: Model,
        *,
        scale: float | None = None,
        noise: Split | None = None,
        grid: int | None = None,
        seed: int | None = None,
        classes: int,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        batch: int | None = None,
        compile: bool | str = False,  # noqa: A002 (the name users know from torch)
        domain: Domain = "images",
    ) -> None:
        if (scale is None) == (noise is None):
            raise RequestError("give either scale= or noise=, not both and not neither")
        given = {name: value for name, value in {"grid": grid, "seed": seed}.items() if value is not None}
        if noise is not None and given:
            raise RequestError(
                "grid= and seed= go with scale=; beside noise= they belong to it: Split(offsets, grid, seed)"
            )
        split = noise if noise is not None else Split.of_scale(scale, **given)  # type: ignore[arg-type]  # one is given
        rule = SplittingRule(split, classes)
        if getattr(model, "defers", False):
            raise RequestError("a Splitting answers every image; a selective model belongs in a level of a Cascade")
        voter = Voter(model, classes=rule.classes, device=device, dtype=dtype, batch=batch, compile=compile)
        super().__init__(rule, {"base": voter}, domain=domain, grid=split.grid)
        self.noise, self.scale = split, split.scale

    def sigma_of(self, network: str) -> float:
        """There is one network and one scale."""
        return self.scale

    def __repr__(self) -> str:
        return f"Splitting(scale {self.scale:g}, {self.noise.offsets} offsets, {self.classes} classes)"


def _from_rule(rule: SplittingRule, source: NetworkSource) -> Splitting:
    return Splitting(source.network(rule.classes), noise=rule.noise, classes=rule.classes, **source.how)


register("splitting", _from_rule)
