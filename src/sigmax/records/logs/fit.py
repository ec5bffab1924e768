"""Do sigma, n and alpha belong to the radii of a log? A sigma that cannot is refused; an alpha is reported.

# R(sigma, n, alpha) = sigma * Phi^-1(alpha^(1/n)), the radius of unanimous votes and the largest there is

Inputs whose votes all agree share R, so radii pile up there. The next lower radius is that of n - 1 votes, and nothing
lies between the two: by this gap a pile differs from radii that are equal by chance. Another alpha moves R by a few
percent, another sigma by as much as sigma itself. So a radius above R is the fault of alpha where a usual alpha allows
it, and of sigma where none does; a pile far below R is that of another sigma.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path

from sigmax import bounds, radius
from sigmax.errors import RequestError
from sigmax.records.logs.limits import Limits
from sigmax.records.logs.table import LogRow

PILE = 5  # rows that share the largest radius before it counts as that of unanimous votes
PILE_GAP = 0.1  # how far below R, as a share of it, a pile speaks against sigma
DAMAGED = 0.01  # share of rows that may claim anything: such rows are damaged, and sigma may still be right
USUAL_ALPHAS = (0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
USUAL_SIGMAS = (0.05, 0.06, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 1.0, 1.25, 1.5, 2.0)
USUAL_NS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)


def fitting_alpha(rows: Iterable[LogRow], limits: Limits, alpha: float) -> float | None:
    """The smallest usual alpha at which every one of `rows` is possible; None where there is none, or no need."""
    rows = list(rows)
    larger = (usual for usual in USUAL_ALPHAS if usual > alpha)
    return next((a for a in larger if rows and all(map(partial(limits.allow, alpha=a), rows))), None)


def refuse_wrong_sigma(path: Path, claims: Sequence[LogRow], limits: Limits, alpha: float, *, staged: bool) -> None:
    """Raise where the one sigma of a log cannot be right, with what fits its radii.

    staged: whether the log is of a cascade, in which the largest sigma may answer nothing and so have no pile.
    """
    claims = [row for row in claims if limits.is_radius(row)]
    if limits.by_row or any(row.samples is not None for row in claims):
        return
    problem = _beyond_any_alpha(claims, limits, alpha) or ("" if staged else _pile_of_another(claims, limits, alpha))
    if problem:
        stated = f"sigma={limits.sigmas[0]:g} cannot be right with n={limits.n} and alpha={alpha:g}"
        raise RequestError(f"{path}: {stated}: {problem}. {_advice(claims, limits, alpha)}")


def suggestion(claims: Sequence[LogRow], limits: Limits, alpha: float) -> str:
    """What a reader who does not know sigma may give: the one that fits the radii."""
    return _advice([row for row in claims if limits.is_radius(row)], limits, alpha, is_given=False)


def _beyond_any_alpha(claims: Sequence[LogRow], limits: Limits, alpha: float) -> str:
    loosest = max(alpha, *USUAL_ALPHAS)
    beyond = [row for row in claims if not limits.allow(row, loosest)]
    if len(beyond) <= DAMAGED * len(claims):
        return ""
    largest, limit = max(beyond, key=lambda row: row.radius), limits.limit(beyond[0], loosest)
    rows = "1 row has a radius" if len(beyond) == 1 else f"{len(beyond):,} rows have radii"
    return f"{rows} above {limit:.3g}, the largest at any usual alpha (up to {largest.printed} in line {largest.line})"


def _pile_of_another(claims: Sequence[LogRow], limits: Limits, alpha: float) -> str:
    pile = _pile(claims, limits, limits.n)
    limit = limits.limit(pile[0], alpha) if pile else 0.0
    if not pile or pile[0].radius > (1 - PILE_GAP) * limit:
        return ""
    return (
        f"{len(pile):,} rows share the largest radius, {pile[0].printed}, as inputs do whose votes all agree; "
        f"but those have {limit:.3g}"
    )


def _pile(claims: Sequence[LogRow], limits: Limits, n: int) -> list[LogRow]:
    """The rows that share the largest radius, where it is that of n unanimous votes or fewer; else none."""
    top = max((row.radius for row in claims), default=0.0)
    pile = [row for row in claims if row.radius == top]
    below = max((row.radius for row in claims if row.radius < top), default=0.0)
    apart = below - limits.radii.slack(below) <= _next_below(n) * (top + limits.radii.slack(top))
    return pile if top > 0 and len(pile) >= PILE and apart else []


@cache
def _next_below(n: int) -> float:
    """The radius of n - 1 votes of n as a share of R, at the alpha that makes it largest."""
    alpha = min(USUAL_ALPHAS)
    unanimous = radius.largest(1.0, n, alpha)
    return radius.gaussian(1.0, bounds.lower(n - 1, n, alpha)) / unanimous if unanimous else 1.0


def _advice(claims: Sequence[LogRow], limits: Limits, alpha: float, *, is_given: bool = True) -> str:
    pile = _pile(claims, limits, max(limits.n, *USUAL_NS))  # n may be what is wrong
    if not pile:
        top = max((row.radius for row in claims), default=0.0)
        return f"The largest radius needs a sigma of at least {top / radius.largest(1.0, limits.n, alpha):.3g}"
    sigma, of_alpha = next(_sigmas(pile[0], limits, alpha))
    found = f"The radii fit sigma={sigma:.3g}" + (f" with alpha={of_alpha:g}" if of_alpha != alpha else "")
    usual = ((n, a) for a in (alpha, *USUAL_ALPHAS) for n in USUAL_NS)
    samples = (of for of in usual if is_given and _matches(pile[0], limits, limits.sigmas[0], *of))
    for n, of_alpha in islice(samples, 1):
        found += f", or the sigma given with n={n}" + (f" and alpha={of_alpha:g}" if of_alpha != alpha else "")
    return found


def _sigmas(row: LogRow, limits: Limits, alpha: float) -> Iterator[tuple[float, float]]:
    """Sigma and alpha at which unanimous votes have this radius: usual ones first, with the alpha given if possible."""
    for of_alpha in (alpha, *USUAL_ALPHAS):
        yield from ((s, of_alpha) for s in USUAL_SIGMAS if _matches(row, limits, s, limits.n, of_alpha))
    yield row.radius / radius.largest(1.0, limits.n, alpha), alpha


def _matches(row: LogRow, limits: Limits, sigma: float, n: int, alpha: float) -> bool:
    return abs(radius.largest(sigma, n, alpha) - row.radius) <= limits.radii.slack(row.radius)
