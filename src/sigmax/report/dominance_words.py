"""How two models stand, in words: gaps and places rounded down, what chance can do rounded up."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sigmax.records.rounding import down, share_down, share_up, up
from sigmax.report.questions import listed

if TYPE_CHECKING:
    from sigmax.report.dominance import Dominance, Stretch

CROSSINGS_TOLD = 3  # more are noise, and told as a number
DECIMALS = 5


def in_words(told: "Dominance", level: float, limits: Mapping[str, tuple[float, ...]]) -> str:
    """The whole sentence. `limits`: the radii that runs were asked about, where they were not asked for all."""
    return " ".join([_verdict(told, level), *(_limit(name, radii) for name, radii in limits.items())])


def _verdict(told: "Dominance", level: float) -> str:
    where = "p_A" if told.scale == "p_A" else "radius"
    chance = (
        f"Gaps up to {share_up(100 * told.chance)} points can be the luck of the {told.inputs:,} inputs "
        f"({100 * level:g}% level)."
    )
    if not told.stretches:
        return f"{told.first} and {told.second} are equal {_scope(told)}."
    if told.better is not None:
        worse = told.second if told.better == told.first else told.first
        widest = max(told.stretches, key=lambda s: s.gap)
        return (
            f"{told.better} is at least as good as {worse} {_scope(told)}, by up to {_gap(widest, where)}. {chance}"
        )
    return f"{told.first} and {told.second}: neither is better everywhere. {_crossing(told, where)} {chance}"


def _scope(told: "Dominance") -> str:
    if told.scale == "p_A":
        return f"at every p_A from {place_up(told.start)} on"
    if told.only:
        return f"at {'radius' if len(told.only) == 1 else 'the radii'} {listed(told.only)}"
    return "at every radius" + ("" if math.isinf(told.end) else f" up to {place(told.end)}")


def _limit(name: str, radii: tuple[float, ...]) -> str:
    return f"{name} was asked only about {listed(radii)}; other radii that it proves were not sought."


def _crossing(told: "Dominance", where: str) -> str:
    widest = {
        name: max((s for s in told.stretches if s.better == name), key=lambda s: s.gap)
        for name in (told.first, told.second)
    }
    leads = ", ".join(f"{name} leads by up to {_gap(s, where)}" for name, s in widest.items())
    if len(told.stretches) > CROSSINGS_TOLD + 1:
        first, last = told.stretches[0], told.stretches[-1]
        return (
            f"The curves cross {len(told.stretches) - 1} times between {where} {place(first.stop)} and "
            f"{place(last.start)}: {leads}; {last.better} leads at the end."
        )
    order = ", then ".join(f"{s.better} up to {where} {place(s.stop)}" for s in told.stretches)
    return f"Ahead are {order}: {leads}."


def _gap(stretch: "Stretch", where: str) -> str:
    return f"{share_down(100 * stretch.gap)} points (at {where} {place(stretch.gap_at)})"


def place(x: float) -> str:
    """A place on the scale, never beyond it: 0.7 as it is, 0.999996 as 0.99999."""
    nearest = f"{x:.{DECIMALS}f}"
    return _short(nearest if float(nearest) == x else down(x, DECIMALS))


def place_up(x: float) -> str:
    """A place from which on something holds, never before it."""
    nearest = f"{x:.{DECIMALS}f}"
    return _short(nearest if float(nearest) == x else up(x, DECIMALS))


def _short(text: str) -> str:
    return text.rstrip("0").rstrip(".")
