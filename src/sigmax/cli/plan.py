"""`sigmax plan`: how many draws a radius takes, before any is drawn."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from sigmax.cli.options import Alpha
from sigmax.cli.progress import console, say
from sigmax.errors import RequestError
from sigmax.records.rounding import down, up

if TYPE_CHECKING:
    from rich.table import Table

    from sigmax.planning import DrawsNeeded

SHARES = (0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999)  # looked at where no share is given
DECIMALS = 4
NEAR_ONE = 0.9999  # from here on a share is told by what it lacks of 1


def plan(
    radius: Annotated[float, typer.Option(help="The l2 radius wanted, in pixels of [0, 1].")],
    sigma: Annotated[float, typer.Option(help="Standard deviation of the noise.")],
    p: Annotated[
        float | None, typer.Option("--p", help="True share of noisy copies in the class; without it, several.")
    ] = None,
    alpha: Alpha = 0.001,
    chance: Annotated[float, typer.Option(help="How likely an input with this share is to be certified.")] = 0.95,
    n: Annotated[int | None, typer.Option("--n", help="Say too what this many draws would do.")] = None,
) -> None:
    """How many draws certify a radius, and what no number of draws can. Needs no model and no data.

    An expert of a dual system gets a part of alpha: ask with that part.

    Example: `sigmax plan --radius 0.5 --sigma 0.25 --p 0.99`
    """
    from sigmax.planning import MOST_DRAWS, draws_needed

    if n is not None and not 1 <= n <= MOST_DRAWS:
        raise RequestError(f"--n must be from 1 to {MOST_DRAWS:,} draws; got {n}")
    told = {"sigma": sigma, "alpha": alpha, "chance": chance}
    if p is None:
        console.print(_table([draws_needed(radius, p=share, **told) for share in SHARES]))
    else:
        for line in _answer(draws_needed(radius, p=p, **told)):
            say(line)
    if n is not None:
        say(_with(radius, sigma, n, alpha, p))


def _answer(found: "DrawsNeeded") -> list[str]:
    wanted = f"Radius {found.radius:g} at sigma {found.sigma:g}"
    if not found.in_reach:
        end = f"its radius stays below {_limit(found)}" if found.limit else "nothing is certified"
        return [
            f"{wanted} is out of reach for a class with a share of {found.p:.15g}: however many draws, {end}.",
            f"It takes a share {_least_share(found)}{_more_noise(found)}.",
        ]
    if found.draws is None:
        too_much = (
            f"it lies too near the limit, {_limit(found)}" if found.unanimous else "even if all of them agree"
        )
        return [
            f"{wanted} takes more than a billion draws for a class with a share of {found.p:.15g}: {too_much}. "
            "Ask for a smaller radius or more noise."
        ]
    return [
        f"{wanted}, alpha {found.alpha:g}: {found.draws:,} draws certify it with a chance of "
        f"{100 * found.chance:g}% if the class has a share of {found.p:.15g}.",
        f"Fewer than {found.unanimous:,} draws never do, even if all agree. {_in_the_end(found)} this one takes a "
        f"share {_least_share(found)}.",
    ]


def _in_the_end(found: "DrawsNeeded") -> str:
    if not math.isfinite(found.limit):
        return "With a share of 1 every radius is reached by draws enough;"
    return f"However many draws, a share of {found.p:.15g} stays below the radius {_limit(found)};"


def _limit(found: "DrawsNeeded") -> str:
    """What a radius stays below: rounded up, so that it does."""
    return up(found.limit, DECIMALS) if math.isfinite(found.limit) else "no limit"


def _least_share(found: "DrawsNeeded") -> str:
    """What p must exceed, rounded down, so that none that would do is denied; near 1 by what it may lack."""
    if found.least_share < NEAR_ONE:
        return f"above {_digits(found.least_share, 6, ROUND_FLOOR)}"
    if not found.missing_share:
        return "nearer to 1 than numbers can tell"
    return f"above 1 - {_digits(found.missing_share, 3, ROUND_CEILING)}"


def _digits(value: float, digits: int, side: str) -> str:
    rounded = Context(prec=digits, rounding=side).create_decimal(Decimal(value))
    return f"{float(rounded):.{digits}g}"


def _more_noise(found: "DrawsNeeded") -> str:
    if found.least_sigma is None:
        return "; with half of the copies or less in the class no noise will do"
    return f", or a sigma above {_digits(found.least_sigma, 4, ROUND_FLOOR)} under which the share were the same"


def _table(rows: "list[DrawsNeeded]") -> "Table":
    from rich.table import Table

    first = rows[0]
    table = Table(
        title=f"draws for radius {first.radius:g} at sigma {first.sigma:g}, alpha {first.alpha:g}",
        caption=(
            f"enough with a chance of {100 * first.chance:g}%; the radius takes a share "
            f"{_least_share(first)}"
            + (f" and at least {first.unanimous:,} draws" if first.unanimous else ", and over a billion draws")
        ),
    )
    for name in ("share of the class", "draws", "radius stays below"):
        table.add_column(name, justify="right")
    for row in rows:
        draws = f"{row.draws:,}" if row.draws else "over a billion" if row.in_reach else "out of reach"
        table.add_row(f"{row.p:g}", draws, _limit(row))
    return table


def _with(radius: float, sigma: float, n: int, alpha: float, p: float | None) -> str:
    from sigmax.planning import chance_to_certify, least_votes
    from sigmax.radius import largest

    most = down(largest(sigma, n, alpha), DECIMALS)
    votes = least_votes(radius, sigma=sigma, n=n, alpha=alpha)
    if votes > n:
        return f"With {n:,} draws radius {radius:g} is out of reach: even if all agree they show {most}."
    likely = "" if p is None else _percent(chance_to_certify(radius, sigma=sigma, n=n, alpha=alpha, p=p))
    return f"With {n:,} draws {votes:,} votes for the class certify it{likely}; the largest radius is {most}."


def _percent(chance: float) -> str:
    return f", which happens with a chance of {down(100 * chance, 1)}%"
