"""Noise chosen for each input by itself (Alfarra et al. 2022), and a memory that makes the answers sound."""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace

import torch
from torch import Tensor

from sigmax.engine.settings import Model
from sigmax.engine.voter import Voter
from sigmax.errors import RequestError
from sigmax.radius import Memory
from sigmax.rules.certificate import Certificate, Outcome, Prediction
from sigmax.rules.memorized import SIGMA, MemorizedRule, Search
from sigmax.rules.procedure import Result
from sigmax.rules.smoothed import SmoothedRule
from sigmax.schemes.registry import NetworkSource, register
from sigmax.schemes.scheme import Domain, Scheme, refuse_noise
from sigmax.schemes.sigma_search import best_sigmas


class Memorized(Scheme):
    """Each input is certified at the noise that suits it best; what was certified is remembered and holds.

    A certificate holds within this memory: for inputs that this object answers later (`memory` holds the balls, in
    their order; an object recomputed, or another order, may answer otherwise). A run of `certify_run` begins with an
    empty memory and is itself the record of it: `recall_run` takes it up again.
    sigma0: where the search for the noise begins; least, most: its range (default: half and twice sigma0).
    search: "ascent" (needs a differentiable model), "signs" or "grid"; steps, noises, step: see `sigma_search`.
    grid, device, dtype, batch, compile: as of `Smoothed`. noise: it is Gaussian, and its sigma what the search finds.
    """

    def __init__(
        self,
        model: Model,
        *,
        sigma0: float,
        classes: int,
        least: float | None = None,
        most: float | None = None,
        search: Search = "ascent",
        steps: int = 50,
        noises: int = 8,
        step: float = 0.02,
        noise: None = None,
        grid: int | None = None,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        batch: int | None = None,
        compile: bool | str = False,  # noqa: A002 (the name users know from torch)
        domain: Domain = "images",
    ) -> None:
        refuse_noise(noise, "Memorized")
        middle = SmoothedRule.gaussian(sigma0, classes).sigma
        ends = middle / 2 if least is None else least, middle * 2 if most is None else most
        rule = MemorizedRule(middle, *ends, classes, search, steps, noises, step, grid)
        voter = Voter(model, classes=rule.classes, device=device, dtype=dtype, batch=batch, compile=compile)
        super().__init__(rule, {"base": voter}, domain=domain, grid=rule.grid)
        self.memory: Memory | None = None  # made for the first input's dimension
        self._rule = rule

    def own_noise(self, x: Tensor, ids: Sequence[int], seed: int) -> Mapping[str, Sequence[float]]:
        """What the search finds for each input."""
        return {SIGMA.stage: best_sigmas(self._rule, self.voters["base"], x, ids, seed)}

    def sigma_of(self, network: str) -> float:
        """The least of the range: what is fine enough for it is so for all."""
        return self._rule.least

    def concluded(self, x: Tensor, results: Iterator[tuple[int, Result]]) -> Iterator[tuple[int, Result]]:
        """The results in the order of the inputs, each settled in the memory before the next."""
        waiting: dict[int, Result] = {}
        due = 0
        for position, result in results:
            waiting[position] = result
            while due in waiting:
                yield due, self._settled(x[due], waiting.pop(due))
                due += 1

    def fresh(self) -> "Memorized":
        """The same scheme with an empty memory."""
        other = copy(self)
        other.memory = None
        return other

    def recall(self, x: Tensor, certificate: Certificate) -> None:
        """Store a ball that was settled in this memory before, as when a run is taken up again."""
        if certificate.predicted is not None:
            self._memory(x).add(x.flatten().numpy(), certificate.predicted, certificate.radius)

    def _settled(self, x: Tensor, result: Result) -> Result:
        memory, point = self._memory(x), x.flatten().numpy()
        if isinstance(result, Prediction):
            answer = memory.answer(point, result.predicted, 0.0)
            if answer.label == result.predicted:
                return result
            return replace(result, predicted=answer.label, outcome=Outcome.REMEMBERED)
        label, radius = self._rule.proposed(result)
        found, balls = memory.explain(point, label, radius)
        certificate = self._rule.settled(result, found, balls, memory.error)
        self.recall(x, certificate)
        return certificate

    def _memory(self, x: Tensor) -> Memory:
        if self.memory is None:
            self.memory = Memory(x.numel())
        if self.memory.dim != x.numel():
            raise RequestError(
                f"the memory holds inputs of {self.memory.dim} numbers, got {x.numel()}; use another object"
            )
        return self.memory

    def __repr__(self) -> str:
        stored = len(self.memory) if self.memory is not None else 0
        return (
            f"Memorized(sigma {self._rule.least:g} to {self._rule.most:g} by {self._rule.search}, "
            f"{stored} remembered, {self.classes} classes)"
        )


def _from_rule(rule: MemorizedRule, source: NetworkSource) -> Memorized:
    options = {name: value for name, value in rule.describe().items() if name != "scheme"}
    return Memorized(source.network(rule.classes), **options, **source.how)


register("memorized", _from_rule)
