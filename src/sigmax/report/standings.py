"""Which run is better: every run against every other in one table, and the sentences behind it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sigmax.records.rounding import share_down
from sigmax.report.compare.dominance import Dominance, dominance
from sigmax.report.runs import Source
from sigmax.report.tables import NOTHING, Table

MEANING = (
    "Each cell compares the run of its row with that of its column. Better: at least as good at every radius, or at "
    "every p_A where both runs have one sigma; worse is the reverse. Crosses: ahead in some places, behind in others. "
    "The numbers are the largest lead (+) and the largest deficit (-) in percentage points of inputs, rounded down. "
    "May be chance: no larger than the choice of the inputs explains, at the 95% level."
)


class Standings(NamedTuple):
    """Every pair as a sentence, and all of them as a matrix where there are more than two runs."""

    sentences: list[str]
    matrix: Table | None


def standings(runs: Iterable[Source]) -> Standings:
    """The pairs of all runs."""
    pairs = dominance(runs)
    sentences = [str(pair) for pair in pairs]
    return Standings(sentences, _matrix(pairs) if len(pairs) > 1 else None)


def _matrix(pairs: list[Dominance]) -> Table:
    names = list(dict.fromkeys(name for pair in pairs for name in (pair.first, pair.second)))
    by_runs: Mapping[tuple[str, str], Dominance] = {
        runs: pair for pair in pairs for runs in ((pair.first, pair.second), (pair.second, pair.first))
    }
    rows = [[one, *(NOTHING if one == other else _cell(by_runs[one, other], one) for other in names)] for one in names]
    return Table(["run", *names], rows)


def _cell(pair: Dominance, one: str) -> str:
    """How one run of the pair stands against the other."""
    if not pair.comparable:
        return "not comparable"
    if not pair.stretches:
        return "equal"
    leads = [stretch.gap for stretch in pair.stretches if stretch.better == one]
    deficits = [stretch.gap for stretch in pair.stretches if stretch.better != one]
    verdict = "crosses" if leads and deficits else "better" if leads else "worse"
    gaps = [f"{sign}{share_down(100 * max(of))}" for sign, of in (("+", leads), ("-", deficits)) if of]
    chance = " (may be chance)" if max(leads + deficits) <= pair.chance else ""
    return f"{verdict} {' '.join(gaps)}{chance}"
