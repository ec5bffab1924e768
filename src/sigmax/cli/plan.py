"""`sigmax plan`: how many samples a radius takes, before any is sampled."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sigmax.cli.options import UNIFORM, Alpha, level
from sigmax.cli.progress import console, say
from sigmax.errors import RequestError
from sigmax.records.rounding import down, up

if TYPE_CHECKING:
    from rich.table import Table

    from sigmax.planning import SamplesNeeded

SHOWN = (0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999)  # p_A, where none is given
DECIMALS = 4
NEAR_ONE = 0.9999  # from here on p_A is printed as 1 - ...
BEYOND = "under uniform noise every radius stays below its scale"


def plan(
    radius: Annotated[float, typer.Option(help="The radius wanted, in pixels of [0, 1]: l2, or l1 of uniform noise.")],
    sigma: Annotated[str, typer.Option(metavar="NOISE", help=f"Standard deviation of the noise; {UNIFORM}.")],
    p: Annotated[float | None, typer.Option("--p", help="p_A of the class; without it, several.")] = None,
    alpha: Alpha = 0.001,
    chance: Annotated[float, typer.Option(help="How likely an input with this p_A is to be certified.")] = 0.95,
    n: Annotated[int | None, typer.Option("--n", help="Also print what this many samples would do.")] = None,
) -> None:
    """How many samples certify a radius, and what no number of samples can. Needs no model and no data.

    A part of a dual system or cascade gets a share of alpha: ask with that share.

    Example: `sigmax plan --radius 0.5 --sigma 0.25 --p 0.99`
    """
    from sigmax.planning import samples_needed
    from sigmax.rules.checks import MOST_SAMPLES

    if n is not None and not 1 <= n <= MOST_SAMPLES:
        raise RequestError(f"--n must be from 1 to {MOST_SAMPLES:,} samples; got {n}")
    noise, at = level(sigma)
    asked: dict[str, Any] = {"sigma": at, "alpha": alpha, "chance": chance, "noise": noise}
    if p is None:
        console.print(_table([samples_needed(radius, p=share, **asked) for share in SHOWN]))
    else:
        for line in _answer(samples_needed(radius, p=p, **asked)):
            say(line)
    if n is not None:
        say(_with(radius, float(at or 0), n, alpha, p, str(noise)))


def _answer(found: "SamplesNeeded") -> list[str]:
    wanted = f"Radius {found.radius:g} at {_noise(found)}"
    if not found.in_reach:
        end = f"its radius stays below {_limit(found)}" if found.limit else "nothing is certified"
        if _beyond(found):
            return [f"{wanted} is out of reach: {BEYOND}."]
        return [
            f"{wanted} is out of reach where p_A is {found.p:.15g}: however many samples, {end}.",
            f"It takes p_A {_least_p(found)}{_more_noise(found)}.",
        ]
    if found.samples is None:
        too_much = f"it is too close to the limit, {_limit(found)}" if found.unanimous else "even if all of them agree"
        return [
            f"{wanted} takes more than a billion samples where p_A is {found.p:.15g}: {too_much}. "
            "Ask for a smaller radius or more noise."
        ]
    in_the_end = "With p_A 1 enough samples reach every radius;"
    if math.isfinite(found.limit):
        in_the_end = f"However many samples, p_A {found.p:.15g} stays below the radius {_limit(found)};"
    return [
        f"{wanted}, alpha {found.alpha:g}: {found.samples:,} samples certify it with a chance of "
        f"{100 * found.chance:g}% where p_A is {found.p:.15g}.",
        f"Fewer than {found.unanimous:,} samples never do, even if all agree. {in_the_end} this one takes p_A "
        f"{_least_p(found)}.",
    ]


def _noise(found: "SamplesNeeded") -> str:
    return f"{'sigma' if found.noise == 'gaussian' else found.noise} {found.sigma:g}"


def _limit(found: "SamplesNeeded") -> str:
    """What a radius stays below, rounded up so that it does."""
    return up(found.limit, DECIMALS) if math.isfinite(found.limit) else "no limit"


def _least_p(found: "SamplesNeeded") -> str:
    """What p_A must exceed, rounded down so that no sufficient one is excluded; near 1 as 1 - ...."""
    if found.least_p < NEAR_ONE:
        return f"above {_digits(found.least_p, 6, ROUND_FLOOR)}"
    if not found.missing_p:
        return "closer to 1 than a float can represent"
    return f"above 1 - {_digits(found.missing_p, 3, ROUND_CEILING)}"


def _digits(value: float, digits: int, side: str) -> str:
    rounded = Context(prec=digits, rounding=side).create_decimal(Decimal(value))
    return f"{float(rounded):.{digits}g}"


def _more_noise(found: "SamplesNeeded") -> str:
    if found.least_sigma is None:
        return "; with p_A of one half or less no noise level is enough"
    what = "scale" if found.noise == "uniform" else "sigma"
    return f", or a {what} above {_digits(found.least_sigma, 4, ROUND_FLOOR)} at which p_A were the same"


def _table(rows: "list[SamplesNeeded]") -> "Table":
    from rich.table import Table

    first = rows[0]
    table = Table(
        title=f"samples for radius {first.radius:g} at {_noise(first)}, alpha {first.alpha:g}",
        caption=BEYOND if _beyond(first) else f"enough with a chance of {100 * first.chance:g}%; {_takes(first)}",
    )
    for name in ("p_A", "samples", "radius stays below"):
        table.add_column(name, justify="right")
    for row in rows:
        samples = f"{row.samples:,}" if row.samples else "over a billion" if row.in_reach else "out of reach"
        table.add_row(f"{row.p:g}", samples, _limit(row))
    return table


def _beyond(found: "SamplesNeeded") -> bool:
    """Whether no p_A is enough."""
    return found.noise == "uniform" and found.radius >= found.sigma


def _takes(found: "SamplesNeeded") -> str:
    least = f" and at least {found.unanimous:,} samples" if found.unanimous else ", and over a billion samples"
    return f"the radius takes p_A {_least_p(found)}{least}"


def _with(radius: float, sigma: float, n: int, alpha: float, p: float | None, noise: str) -> str:
    from sigmax.planning import chance_to_certify, least_votes
    from sigmax.radius import largest, largest_uniform

    most = down((largest_uniform if noise == "uniform" else largest)(sigma, n, alpha), DECIMALS)
    votes = least_votes(radius, sigma=sigma, n=n, alpha=alpha, noise=noise)
    if votes > n:
        return f"With {n:,} samples radius {radius:g} is out of reach: even if all agree they show {most}."
    likely = ""
    if p is not None:
        chance = 100 * chance_to_certify(radius, sigma=sigma, n=n, alpha=alpha, p=p, noise=noise)
        likely = f", which happens with a chance of {down(chance, 1)}%"
    return f"With {n:,} samples {votes:,} votes for the class certify it{likely}; the largest radius is {most}."
