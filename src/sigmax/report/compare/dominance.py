"""Is one model better than another? Only if it is so everywhere; else the curves cross, and where is what matters.

# F(p) share of inputs with p_A >= p; A(r) share certified with R >= r; N inputs

Models of one sigma are compared by F at every p >= 1/2, which no choice of n and alpha can turn
around; others by A at every radius, at the n and alpha they were certified with. F decides what is certified only
by the one-sided bound, and is known only where every input had all its samples; else radii are compared.
In words, gaps and places are rounded down, what chance can do is rounded up.
Source: Sun et al. (2025), Sec. 7 and App. B.3.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from sigmax.errors import RequestError
from sigmax.records.rounding import down, share_down, share_up, up
from sigmax.records.run import Run
from sigmax.report.metrics.accuracy import Floats, certified_radii, reached
from sigmax.report.metrics.adaptive import furthest_asked, is_adaptive, listed, shared_targets, targets, up_to
from sigmax.report.metrics.distribution import known_from, reached_shares, vote_shares
from sigmax.report.runs import SAME_SIGMA, Source, named, on_shared_inputs, why_not
from sigmax.report.schemes import one_sided
from sigmax.rules.notebook import paragraph

MOST_CROSSINGS = 3  # more are noise, and only counted
DECIMALS = 5


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

    A gap larger than `chance` is more than chance in the choice of inputs explains, all places taken together, at the
    level asked for; it takes no account of the two having had the same inputs, and so errs on the careful side.
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
        """Whether the two could be compared at all."""
        return self.scale != "none"

    def __str__(self) -> str:
        return self.sentence

    def _repr_html_(self) -> str:
        return paragraph(self.sentence)


def dominance(runs: Source | Iterable[Source], *, level: float = 0.95) -> list[Dominance]:
    """Every pair of runs compared, on the inputs both hold; empty for a single run.

    Runs of constant noise with the same sigma and the one-sided bound, all samples cast, are compared by their
    distributions of p_A; others by certified accuracy at every radius that both were asked about. Runs that cannot be
    compared give a sentence that says why.
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
    pair = Dominance(first, second, scale, start, end, only, stretches, min(1.0, chance), len(run.records), "")
    limits = {name: targets(of) for name, of in ((first, run), (second, against)) if targets(of)}
    return replace(pair, sentence=sentence(pair, level, limits))


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
    """Whether p_A alone decides what n samples at alpha certify; a log is read as if by the one-sided bound."""
    if run.plan.imported:
        return True
    return run.plan.method == "smoothed" and one_sided(run.plan.rule) and not is_adaptive(run)


def _stretches(x: Floats, difference: Floats, names: tuple[str, str], start: float) -> Iterable[Stretch]:
    """The places cut where the lead changes hands; where both are equal the lead continues."""
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


def sentence(pair: "Dominance", level: float, limits: Mapping[str, tuple[float, ...]]) -> str:
    """The whole sentence. `limits`: the radii that runs were asked about, where they were not asked for all."""
    return " ".join([_verdict(pair, level), *(_limit(name, radii) for name, radii in limits.items())])


def _verdict(pair: "Dominance", level: float) -> str:
    where = "p_A" if pair.scale == "p_A" else "radius"
    inputs = "1 input" if pair.inputs == 1 else f"{pair.inputs:,} inputs"
    chance = (
        f"With {inputs}, gaps of up to {share_up(100 * pair.chance)} points may be chance ({100 * level:g}% level)."
    )
    if not pair.stretches:
        return f"{pair.first} and {pair.second} are equal {_scope(pair)}."
    if pair.better is not None:
        worse = pair.second if pair.better == pair.first else pair.first
        widest = max(pair.stretches, key=lambda s: s.gap)
        return f"{pair.better} is at least as good as {worse} {_scope(pair)}, by up to {_gap(widest, where)}. {chance}"
    return f"{pair.first} and {pair.second}: neither is better everywhere. {_crossing(pair, where)} {chance}"


def _scope(pair: "Dominance") -> str:
    if pair.scale == "p_A":
        return f"at every p_A from {place(pair.start, up)} on"
    if pair.only:
        return f"at {'radius' if len(pair.only) == 1 else 'the radii'} {listed(pair.only)}"
    return "at every radius" + ("" if math.isinf(pair.end) else f" up to {place(pair.end)}")


def _limit(name: str, radii: tuple[float, ...]) -> str:
    return f"{name} was asked only about {listed(radii)}; between them it may prove less than it could."


def _crossing(pair: "Dominance", where: str) -> str:
    widest = {
        name: max((s for s in pair.stretches if s.better == name), key=lambda s: s.gap)
        for name in (pair.first, pair.second)
    }
    leads = ", ".join(f"{name} leads by up to {_gap(s, where)}" for name, s in widest.items())
    if len(pair.stretches) > MOST_CROSSINGS + 1:
        first, last = pair.stretches[0], pair.stretches[-1]
        return (
            f"The curves cross {len(pair.stretches) - 1} times between {where} {place(first.stop)} and "
            f"{place(last.start)}: {leads}; {last.better} leads at the end."
        )
    first, *others = pair.stretches
    order = "".join(f", then {s.better} up to {place(s.stop)}" for s in others)
    return f"{first.better} is ahead up to {where} {place(first.stop)}{order}: {leads}."


def _gap(stretch: "Stretch", where: str) -> str:
    return f"{share_down(100 * stretch.gap)} points (at {where} {place(stretch.gap_at)})"


def place(x: float, rounded: Callable[[float, int], str] = down) -> str:
    """A place on the scale, never beyond it: 0.7 as it is, 0.999996 as 0.99999; rounded up, never before it."""
    nearest = f"{x:.{DECIMALS}f}"
    return (nearest if float(nearest) == x else rounded(x, DECIMALS)).rstrip("0").rstrip(".")
