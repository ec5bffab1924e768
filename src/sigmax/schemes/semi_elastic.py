"""Noise from a field over the inputs (Sukenik et al. 2022): it may change with the input, at a known rate."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from sigmax.engine.settings import Model
from sigmax.engine.voter import Voter
from sigmax.errors import RequestError
from sigmax.rules.elastic import SIGMA, SemiElasticRule
from sigmax.schemes.fields import SigmaField
from sigmax.schemes.registry import NetworkSource, register
from sigmax.schemes.scheme import Domain, Scheme, check_resolution, refuse_noise


class SemiElastic(Scheme):
    """A classifier smoothed at each input with the noise that a field gives it.

    field: `NearestNeighbourSigma(...)`, whose rate is proved, or `VouchedField(function, rate)` (see `fields`).
    dim: how many numbers an input has, where the field does not know it. grid, device, dtype, batch, compile: as of
    `Smoothed`. noise: none but Gaussian has a theorem here, and its sigma is the field's. The radius shrinks fast with
    rate and dimension; `radius.ratio_limits` says how far one can go.
    """

    def __init__(
        self,
        model: Model,
        *,
        field: SigmaField,
        classes: int,
        dim: int | None = None,
        noise: None = None,
        grid: int | None = None,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        batch: int | None = None,
        compile: bool | str = False,  # noqa: A002 (the name users know from torch)
        domain: Domain = "images",
    ) -> None:
        refuse_noise(noise, "SemiElastic")
        if not isinstance(field, SigmaField):
            raise RequestError(
                "field must be a NearestNeighbourSigma or a VouchedField(function, rate); got "
                f"{type(field).__name__}. A plain function has no rate, and without one nothing is certified"
            )
        rule = SemiElasticRule(field.describe(), _dim(field, dim), classes, grid)
        voter = Voter(model, classes=rule.classes, device=device, dtype=dtype, batch=batch, compile=compile)
        super().__init__(rule, {"base": voter}, domain=domain, grid=rule.grid)
        self.field, self.dim = field, rule.dim

    @property
    def fields(self) -> Mapping[str, SigmaField]:
        """Its one field."""
        return {"field": self.field}

    def own_noise(self, x: Tensor, ids: Sequence[int], seed: int) -> Mapping[str, Sequence[float]]:
        """The field's noise at each input, as 32 bits hold it."""
        if x[0].numel() != self.dim:
            raise RequestError(
                f"expected inputs of dim={self.dim} numbers, got {x[0].numel()}; the radius depends on that"
            )
        found = self.field.sigmas(x).astype(np.float32)
        check_resolution(x, float(found.min()))
        return {SIGMA.stage: [float(sigma) for sigma in found]}

    def sigma_of(self, network: str) -> float:
        """What the network is tried with: the field's base, if it has one."""
        assert isinstance(self.rule, SemiElasticRule)
        return self.rule.largest_noise or 1.0

    def __repr__(self) -> str:
        assert isinstance(self.rule, SemiElasticRule)
        basis = "proved" if self.rule.proved else "vouched for"
        return f"SemiElastic(rate {self.field.rate:g} {basis}, dim {self.dim}, {self.classes} classes)"


def _dim(field: SigmaField, asked: int | None) -> int:
    known = getattr(field, "dim", None)
    if known is None and asked is None:
        raise RequestError("this field does not know how many numbers an input has; give dim=, such as 3 * 32 * 32")
    if known is not None and asked not in (None, known):
        raise RequestError(f"the field is over inputs of {known} numbers, not dim={asked}; leave dim out")
    return int(known if known is not None else asked or 0)


def _from_rule(rule: SemiElasticRule, source: NetworkSource) -> SemiElastic:
    model, field = source.network(rule.classes), source.field(rule.field)
    return SemiElastic(model, field=field, classes=rule.classes, grid=rule.grid, **source.how)


register("semi-elastic", _from_rule)
