"""The worst-case classifier by rigorous integration (Arb), written as the geometry has it, not as sigmax does.

The ball is |X - c| <= rho; its chance is the integral over V ~ chi2_n of the normal chance of an interval.
Cancellation is met with digits, not with algebra.
"""

from collections.abc import Callable

from flint import acb, arb, ctx

DIGITS = 220  # bits
SPREAD = 13  # standard deviations of chi2 that are integrated; the rest is added as an uncertainty


def inside(dim: int, centre: arb, rho2: arb) -> arb:
    """P[|X - centre|^2 <= rho2], enclosed."""
    if dim == 1:
        return _interval(centre, rho2.sqrt()) if rho2 > 0 else arb(0)
    n = dim - 1
    low, high = _range(n, rho2)
    if not low < high:
        return arb(0).union(_tail())
    half = arb(n) / 2
    norm = half.lgamma() + half * arb(2).log()

    def slices(x: acb, analytic: bool) -> acb:  # V = x^2: without it chi2_1 would begin at infinity
        v = x * x
        density = 2 * ((n - 1) * x.log(analytic=analytic) - v / 2 - norm).exp()
        reach = (acb(rho2) - v).sqrt(analytic=analytic)
        upper, lower = (acb(centre) - reach) / acb(2).sqrt(), (acb(centre) + reach) / acb(2).sqrt()
        return density * (upper.erfc() - lower.erfc()) / 2

    found = acb.integral(slices, acb(low.sqrt()), acb(high.sqrt()), abs_tol=arb(2) ** -100, rel_tol=arb(2) ** -100)
    return found.real + _tail() * arb("0.5 +/- 0.5")


def _interval(centre: arb, reach: arb) -> arb:
    root = arb(2).sqrt()
    return (((centre - reach) / root).erfc() - ((centre + reach) / root).erfc()) / 2


def _tail() -> arb:
    return arb("1e-30")


def _range(n: int, rho2: arb) -> tuple[arb, arb]:
    """Where chi2_n has all but 1e-30 of its mass, cut a little short of where the ball ends."""
    spread = (2 * arb(n)).sqrt()
    low = (n - SPREAD * spread).max(arb("1e-64") if n == 1 else arb("1e-40"))
    high = n + SPREAD * spread + 160
    return low.mid(), high.min(rho2).mid() * (1 - arb(2) ** -140)


def greatest_chance(distance: float, sigma0: float, sigma1: float | arb, lower: float, dim: int) -> arb:
    """xi by the non-central chi-square form of Sukenik et al. (2022), Theorem 2.3, with the quantile by secants."""
    with ctx.workprec(DIGITS):
        s = arb(sigma1) / arb(sigma0)
        a = arb(distance) / arb(sigma0)
        rest = 1 - arb(lower)
        centre = a / abs(1 - s * s)
        wanted = rest if s < 1 else arb(lower)
        rho2 = _quantile(lambda r: inside(dim, centre, r), wanted, dim, centre)
        there = inside(dim, centre * s, rho2 / (s * s))
        return there if s < 1 else 1 - there


def _quantile(chance: Callable[[arb], arb], wanted: arb, dim: int, centre: arb) -> arb:
    """The square radius of a wanted chance, to 1e-18 of a standard deviation; secants in the normal score."""

    def score(p: arb) -> arb:
        return arb(2).sqrt() * (2 * p.mid() - 1).erfinv()

    aim = score(wanted)
    mean = dim + centre**2
    spread = 2 * (1 + centre**2 / mean) / (9 * mean)
    roots = [1 - spread + spread.sqrt() * (aim - shift) for shift in (0, arb("1e-3"))]  # Abdel-Aty's approximation
    x = [(mean * root.max(arb("0.05") - arb(k) / 100) ** 3).mid() for k, root in enumerate(roots)]
    y = [score(chance(each)) - aim for each in x]
    for _ in range(40):
        if abs(y[-1]).mid() < arb("1e-18"):
            break
        step = (y[-1] * (x[-1] - x[-2]) / (y[-1] - y[-2])).mid()
        new = (x[-1] - step).mid()
        if not new > 0:
            new = (x[-1] / 4).mid()
        x.append(new)
        y.append(score(chance(new)) - aim)
    return x[-1]
