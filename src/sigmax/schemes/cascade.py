"""A cascade: levels tried in order, each answers a class or defers to the next (Jeong & Shin 2024, generalised)."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from sigmax.engine.settings import Model
from sigmax.errors import RequestError
from sigmax.numbers import is_number
from sigmax.radius.noise import Noise, level_word
from sigmax.rules.cascade.parts import LAST, level_name
from sigmax.rules.cascade.rule import CascadeRule
from sigmax.rules.smoothed import SmoothedRule
from sigmax.schemes.composite import Composite, check_scheme
from sigmax.schemes.registry import NetworkSource, build, register
from sigmax.schemes.scheme import Scheme
from sigmax.schemes.smoothed import Smoothed


class Cascade(Composite):
    """The first level at which some class has more than the threshold's share of votes answers; else the last one.

    levels: `Smoothed` classifiers, by custom from the most noise to the least. A level over a selective model
    (`models.selective(network, confidence=0.6)`) defers where it is not confident.
    last: any scheme with the same classes; what no level answers is left to it.
    thresholds: the share of votes that an answer needs, one for all levels or one for each, from 0.5 on.
    """

    def __init__(self, levels: Sequence[Smoothed], last: Scheme, *, thresholds: float | Sequence[float] = 0.5) -> None:
        if isinstance(levels, Scheme) or not isinstance(levels, Iterable):
            raise RequestError(f"levels must be a list of Smoothed classifiers; got {type(levels).__name__}")
        self.levels, self.last = tuple(levels), check_scheme(last, "last")
        for j, level in enumerate(self.levels):
            if not isinstance(level, Smoothed):
                raise RequestError(
                    f"{level_name(j)} must be a Smoothed classifier, which can defer; got {type(level).__name__}. "
                    "Any other scheme can be the last"
                )
        rules = tuple(level.rule for level in self.levels if isinstance(level.rule, SmoothedRule))
        rule = CascadeRule(rules, self.last.rule, thresholds)  # type: ignore[arg-type]  # it makes them a tuple
        parts: dict[str, Scheme] = {level_name(j): level for j, level in enumerate(self.levels)}
        super().__init__(rule, {**parts, LAST: self.last})
        _warn_of_rising_noise(rule)

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The share of votes that an answer of each level needs."""
        assert isinstance(self.rule, CascadeRule)
        assert isinstance(self.rule.thresholds, tuple)
        return self.rule.thresholds

    def __repr__(self) -> str:
        levels = " / ".join(f"{level.sigma:g}" for level in self.levels)
        noise = level_word(self.levels[0].noise)
        last = f"{self.last.sigma:g}" if isinstance(self.last, Smoothed) else repr(self.last)
        return f"Cascade({noise} {levels}, last {last}, {self.classes} classes)"


def _warn_of_rising_noise(rule: CascadeRule) -> None:
    names = [*(level_name(j) for j in range(len(rule.levels))), LAST]
    sigmas = [*(level.sigma for level in rule.levels), rule.last.largest_noise]
    for (upper, noise), (lower, more) in pairwise(zip(names, sigmas, strict=True)):
        if more > noise:
            warnings.warn(
                f"sigma rises from {noise:g} at {upper} to {more:g} at {lower}: a level limits the radii of all below "
                "it by its own sigma, so large radii are lost; put the level with more noise first",
                stacklevel=3,
            )


def multiscale(
    model: Model | Sequence[Model],
    *,
    sigmas: Sequence[float],
    noise: Callable[[float], Noise] | None = None,
    classes: int,
    thresholds: float | Sequence[float] = 0.5,
    **how: Any,
) -> Cascade:
    """Multiscale smoothing (Jeong & Shin 2024): the cascade of falling noise levels whose models never defer.

    model: one for all sigmas, as of `Smoothed` (one that takes sigma is given the level's), or one for each sigma.
    sigmas: strictly rising; the largest is tried first, the smallest is the last. noise: what makes a distribution of
    each, such as sx.noise.Uniform, of which they are the scales; without it they are Gaussian. thresholds: one for
    all levels, or one for each but the smallest sigma. grid, device, dtype, batch, compile, domain: as of `Smoothed`.
    """
    listed = tuple(sigmas) if isinstance(sigmas, Iterable) else ()
    if len(listed) < 2 or not all(map(is_number, listed)) or any(a >= b for a, b in pairwise(listed)):
        raise RequestError(
            f"sigmas must be at least two noise levels, strictly rising, such as (0.25, 0.5, 1.0); got {sigmas!r}. "
            "For one level use Smoothed"
        )
    models = [model] * len(listed) if callable(model) or not isinstance(model, Iterable) else list(model)
    if len(models) != len(listed):
        raise RequestError(
            f"give one model for all sigmas, or one for each of the {len(listed)} in their order; got {len(models)}"
        )
    last, *levels = [
        Smoothed(m, **({"sigma": s} if noise is None else {"noise": noise(s)}), classes=classes, **how)
        for m, s in zip(models, listed, strict=True)
    ]
    marks = list(reversed(thresholds)) if isinstance(thresholds, Sequence) else thresholds
    return Cascade(levels[::-1], last, thresholds=marks)


Multiscale = multiscale  # named like the classes it stands beside


def _from_rule(rule: CascadeRule, source: NetworkSource) -> Cascade:
    levels = [build(level, source.part(level_name(j))) for j, level in enumerate(rule.levels)]
    last = build(rule.last, source.part(LAST))
    return Cascade(levels, last, thresholds=rule.thresholds)  # type: ignore[arg-type]  # it checks the levels


register("cascade", _from_rule)
