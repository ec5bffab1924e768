"""Is one model better than another? Only if it is so everywhere; else the curves cross, and where is what matters.

# F(p) share of inputs with p_A >= p; A(r) share certified with R >= r; N inputs

Models of one sigma are held against each other by F at every p >= 1/2, which no choice of n and alpha can turn
around; others by A at every radius, at the n and alpha they were certified with. F decides what is certified only
by the one-sided bound, and is known only where every input had all its draws; else radii are compared.
Source: Sun et al. (2025), Sec. 7 and App. B.3.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from sigmax.errors import RequestError
from sigmax.records.run import Run
from sigmax.report.accuracy import Floats, certified_radii, reached
from sigmax.report.distribution import known_from, reached_shares, vote_shares
from sigmax.report.dominance_words import in_words
from sigmax.report.questions import furthest_asked, is_adaptive, shared_targets, targets, up_to
from sigmax.report.runs import SAME_SIGMA, Source, named
from sigmax.report.schemes import one_sided
from sigmax.report.shared import on_shared_inputs, why_not


@dataclass(frozen=True)
class Stretch:
    """A stretch of the scale, from above `start` (the first: from it) up to `stop`, on which one model is ahead."""

    better: str
    start: float
    stop: float
    gap: float  # the largest, as a share of inputs
    gap_at: float


@dataclass(frozen=True)
class Dominance:
    """How two models stand. `better` is None where neither is ahead everywhere; `str()` says it in words.

    A gap larger than `chance` is more than the luck of which inputs were drawn, all places taken together, at the
    level asked for; it takes no account of the two having had the same inputs, and so errs on the side of doubt.
    """

    first: str
    second: str
    scale: str  # "p_A" or "radius"; "none" where they cannot be compared
    start: float  # of the scale, from where on both are known
    end: float  # up to where both were asked: the largest target of a run that had targets, else infinite
    only: tuple[float, ...]  # the radii compared, where runs were asked about these alone; empty: all of the scale
    stretches: tuple[Stretch, ...]
    chance: float
    inputs: int
    sentence: str

    @property
    def better(self) -> str | None:
        """The one that is ahead somewhere and behind nowhere."""
        ahead = {stretch.better for stretch in self.stretches}
        return ahead.pop() if len(ahead) == 1 else None

    @property
    def comparable(self) -> bool:
        """Whether the two could be held against each other at all."""
        return self.scale != "none"

    def __str__(self) -> str:
        return self.sentence


def dominance(runs: Source | Iterable[Source], *, level: float = 0.95) -> list[Dominance]:
    """Every pair of runs held against each other, on the inputs both hold; empty for a single run.

    Runs of constant noise with the same sigma and the one-sided bound, all draws cast, are compared by their
    distributions of p_A from one half on (from where a log without counts begins to tell); others by certified
    accuracy (R >= r) at every radius. A run that was asked about some radii only is compared at those; between them
    its radii are proved but were not sought. Runs that cannot be compared give a sentence that says why.
    """
    if not 0 < level < 1:
        raise RequestError(f"level must lie strictly between 0 and 1 (0.95 is usual); got {level!r}")
    return [_pair(one, other, level) for one, other in combinations(named(runs).items(), 2)]


def _pair(one: tuple[str, Run], other: tuple[str, Run], level: float) -> Dominance:
    (first, run), (second, against) = one, other
    reason = why_not([run, against])
    if reason is not None:
        return Dominance(first, second, "none", 0.0, math.inf, (), (), 0.0, 0, f"{first} and {second}: {reason}.")
    run, against = on_shared_inputs([run, against])
    only, end = shared_targets(run, against), furthest_asked(run, against)
    scale, start, x, difference = _difference(run, against, only, end)
    stretches = tuple(_stretches(x, difference / len(run.records), (first, second), start))
    # Dvoretzky, Kiefer & Wolfowitz with Massart's constant, for each of the two curves at half of what may go wrong
    chance = 2 * float(np.sqrt(np.log(2 / ((1 - level) / 2)) / (2 * len(run.records))))
    told = Dominance(first, second, scale, start, end, only, stretches, min(1.0, chance), len(run.records), "")
    limits = {name: targets(of) for name, of in ((first, run), (second, against)) if targets(of)}
    return replace(told, sentence=in_words(told, level, limits))


def _difference(run: Run, against: Run, only: tuple[float, ...], end: float) -> tuple[str, float, Floats, Floats]:
    """The scale, where it starts, its places, and by how many inputs the first is ahead up to each of them."""
    shares = _shares(run, against)
    if shares is None:
        radii = certified_radii(run), certified_radii(against)
        x = np.array(only) if only else up_to(np.unique(np.concatenate([[0.0], *radii])), end)
        return "radius", 0.0, x, (reached(radii[0], x) - reached(radii[1], x)).astype(np.float64)
    start = max(0.5, known_from(run), known_from(against))
    x = np.unique(np.concatenate([[start], *(s[s > start] for s in shares)]))
    difference = reached_shares(shares[0], x) - reached_shares(shares[1], x)
    return "p_A", start, x, difference.astype(np.float64)


def _shares(run: Run, against: Run) -> list[Floats] | None:
    """Both runs' p_A, rising, where they can be compared by it; None where only radii will do."""
    sigmas = [float(s) for of in (run, against) for s in of.frame()["sigma"].unique()]
    alike = np.allclose(sigmas, sigmas[0], rtol=SAME_SIGMA, atol=0.0)
    if not alike or not (_decided_by_share(run) and _decided_by_share(against)):
        return None
    try:
        return [np.sort(vote_shares(of)["p_A"].dropna().to_numpy()) for of in (run, against)]
    except RequestError:  # a log whose radii no votes can stand behind is still a curve
        return None


def _decided_by_share(run: Run) -> bool:
    """Whether p_A alone decides what n draws at alpha certify; a log is read as if by the one-sided bound."""
    if run.plan.method == "imported":
        return True
    return run.plan.method == "smoothed" and one_sided(run.plan.rule) and not is_adaptive(run)


def _stretches(x: Floats, difference: Floats, names: tuple[str, str], start: float) -> Iterable[Stretch]:
    """The places cut where the lead changes hands; where both are equal nobody's lead is broken."""
    ahead = np.flatnonzero(difference)
    if not len(ahead):
        return
    changes = np.flatnonzero(np.diff(np.sign(difference[ahead]))) + 1
    begin = start
    for part in np.split(ahead, changes):
        widest = part[np.argmax(np.abs(difference[part]))]
        name = names[0] if difference[widest] > 0 else names[1]
        yield Stretch(name, begin, float(x[part[-1]]), float(abs(difference[widest])), float(x[widest]))
        begin = float(x[part[-1]])
