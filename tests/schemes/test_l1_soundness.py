"""End to end in the l1 norm: certificates under uniform noise against exact radii.

# Slabs along an axis: class c where x_i lies between two edges. Under noise uniform on [-s, s] its share at t is the
# part of [t - s, t + s] in the slab. Systems made of such slabs along x and y have rectangles as regions, and the l1
# distance of a rectangle is the sum of its distances along the axes.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import sigmax as sx
from sigmax.noise import Uniform
from sigmax.rules.cascade.level import Payment
from tests.schemes.helpers import slabs

ALPHA, N0, N, REPEATS = 0.05, 20, 190, 250
SUSPICIOUS = 1e-4
FAR = 6.0  # where the line ends
X, Y = 0, 1
Piece = tuple[float, float, int | None]

pytestmark = pytest.mark.filterwarnings("ignore:sigma rises")


def suspicion(wrong: int, total: int, alpha: float = ALPHA) -> float:
    return float(stats.binomtest(wrong, total, alpha, alternative="greater").pvalue)


def shares(t: float, scale: float, edges) -> np.ndarray:
    """Of the slabs at t, by quadrature of the density: it is 1 / 2s on [t - s, t + s]."""
    ends = np.clip([-np.inf, *edges, np.inf], t - scale, t + scale)
    return np.diff(ends) / (2 * scale)


@dataclass(frozen=True)
class Slabs:
    """A classifier by slabs along an axis; `outcomes`: the class of each in order, or None: it votes to defer."""

    axis: int
    edges: tuple[float, ...]
    scale: float
    outcomes: tuple[int | None, ...] | None = None
    threshold: float | None = None  # of a level, which answers only above it
    classes: int = 2

    def answer(self, t: float) -> int | None:
        """The class that is answered at t; None: it defers."""
        found = np.zeros(self.classes)
        for share, c in zip(shares(t, self.scale, self.edges), self.outcomes or range(self.classes), strict=True):
            if c is not None:
                found[c] += share
        if self.threshold is not None and found.max() <= self.threshold:
            return None
        return int(found.argmax())

    def scheme(self, **options) -> sx.Smoothed:
        direction = torch.eye(2)[self.axis]
        by_slab, outcomes = slabs(direction, self.edges), self.outcomes or tuple(range(self.classes))
        order = torch.tensor([self.classes if c is None else c for c in outcomes])

        def network(batch):
            return order[by_slab(batch)]

        network.defers = None in outcomes
        return sx.Smoothed(network, noise=Uniform(self.scale), classes=self.classes, **options)

    def pieces(self) -> list[Piece]:
        """Where along its axis it answers what, by looking closely and halving."""
        places = np.linspace(-FAR, FAR, 1201)
        answers = [self.answer(t) for t in places]
        found, begun = [], -np.inf
        for places_here, (here, there) in zip(pairwise(places), pairwise(answers), strict=True):
            if here != there:
                edge = self._edge(*places_here, here)
                found.append((begun, edge, here))
                begun = edge
        return [*found, (begun, np.inf, answers[-1])]

    def _edge(self, low: float, high: float, here: int | None) -> float:
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if self.answer(middle) == here else (low, middle)
        return high


@dataclass(frozen=True)
class Known:
    """A scheme with its class at the origin, and the exact l1 distance to the nearest point of another."""

    scheme: sx.schemes.scheme.Scheme
    here: int
    radius: float


def known(scheme, regions) -> Known:
    """regions: ((low, high) along x, (low, high) along y, class)."""

    def gap(side):
        return max(side[0], -side[1], 0.0)

    at_origin = [c for x, y, c in regions if x[0] <= 0 < x[1] and y[0] <= 0 < y[1]]
    assert len(at_origin) == 1
    distance = min(gap(x) + gap(y) for x, y, c in regions if c != at_origin[0])
    return Known(scheme, at_origin[0], distance)


def regions_of(part: Slabs):
    line = (-np.inf, np.inf)
    for low, high, c in part.pieces():
        yield ((low, high), line, c) if part.axis == X else (line, (low, high), c)


def both(one, other):
    return max(one[0], other[0]), min(one[1], other[1])


def routed(router: Slabs, experts: list[Slabs], rule: str) -> Known:
    regions = [
        (both(x, ex), both(y, ey), c)
        for x, y, route in regions_of(router)
        for ex, ey, c in regions_of(experts[route])
        if both(x, ex)[0] < both(x, ex)[1] and both(y, ey)[0] < both(y, ey)[1]
    ]
    return known(sx.Dual(router.scheme(), [expert.scheme() for expert in experts], rule=rule), regions)


def cascaded(level: Slabs, last: Slabs) -> Known:
    regions = []
    for x, y, c in regions_of(level):
        below = regions_of(last) if c is None else [((-np.inf, np.inf), (-np.inf, np.inf), c)]
        parts = [(both(x, bx), both(y, by), bc) for bx, by, bc in below]
        regions += [(px, py, pc) for px, py, pc in parts if px[0] < px[1] and py[0] < py[1]]
    scheme = sx.Cascade([level.scheme()], last.scheme(), thresholds=level.threshold)
    return known(scheme, regions)


FAR_EXPERT, OPPOSED = Slabs(Y, (-4.0,), 1.0), Slabs(Y, (4.0,), 1.0)
SELECTIVE = (0, None, 1)
SYSTEMS = {
    "smoothed": lambda: known((one := Slabs(X, (-0.4,), 1.0)).scheme(), list(regions_of(one))),
    "runner-up": lambda: known(
        (one := Slabs(X, (-0.2, 0.5), 1.0, classes=3)).scheme(bound="runner-up"), list(regions_of(one))
    ),
    "min, router": lambda: routed(Slabs(X, (-0.4,), 1.0), [OPPOSED, FAR_EXPERT], "min"),
    "min, expert": lambda: routed(Slabs(X, (-4.0,), 1.0), [OPPOSED, Slabs(Y, (-0.3,), 0.5)], "min"),
    "consensus, router": lambda: routed(Slabs(X, (-0.4,), 1.0), [OPPOSED, FAR_EXPERT], "consensus"),
    "consensus, experts agree": lambda: routed(
        Slabs(X, (-0.05,), 1.0), [Slabs(X, (-0.5,), 1.0), Slabs(Y, (-0.4,), 1.0)], "consensus"
    ),
    "consensus, a rival ends it": lambda: routed(
        Slabs(X, (-0.5, -0.2), 1.0, classes=3), [OPPOSED, Slabs(Y, (-0.9,), 1.0), FAR_EXPERT], "consensus"
    ),
    "cascade answers": lambda: cascaded(Slabs(X, (-0.4, -0.4), 1.0, SELECTIVE, 0.5), OPPOSED),
    "cascade answers above 0.7": lambda: cascaded(Slabs(X, (-0.8, -0.8), 1.0, SELECTIVE, 0.7), OPPOSED),
    "cascade defers": lambda: cascaded(Slabs(X, (-0.4, 3.0), 1.0, SELECTIVE, 0.5), FAR_EXPERT),
    "cascade defers, the last limits": lambda: cascaded(
        Slabs(X, (-4.0, 4.0), 1.0, SELECTIVE, 0.5), Slabs(Y, (-0.3,), 0.5)
    ),
}


def errors(system: Known, repeats: int = REPEATS, **asked) -> tuple[int, int]:
    """How many certificates are wrong, and how many claim anything."""
    found = system.scheme.certify(torch.zeros(repeats, 2), n0=N0, n=N, alpha=ALPHA, seed=1, **asked)
    claims = [c for c in found if c.predicted is not None]
    return sum(c.predicted != system.here or c.radius > system.radius for c in claims), len(claims)


@pytest.mark.parametrize("name", SYSTEMS)
def test_no_system_is_certified_beyond_its_exact_radius_more_often_than_alpha(name):
    system = SYSTEMS[name]()
    assert 0 < system.radius < 2
    for asked in ({}, {"sampling": "adaptive"}):
        repeats = REPEATS if not asked else 60
        wrong, claims = errors(system, repeats, **asked)
        assert suspicion(wrong, repeats) > SUSPICIOUS
        assert claims > 0


def test_the_claims_press_against_alpha():
    """So the tests above can fail: half-spaces along an axis are where the theorem is tight."""
    wrong, _ = errors(SYSTEMS["smoothed"](), 2_000)
    assert wrong > 2_000 * ALPHA / 4
    assert suspicion(wrong, 2_000) > SUSPICIOUS


@pytest.mark.parametrize(("name", "fault"), [("smoothed", 1.25), ("consensus, router", 1.5), ("cascade defers", 1.5)])
def test_scores_that_move_too_slowly_are_caught(name, fault, monkeypatch):
    """A mutant of the theorem: the noise claims to be wider than it is."""
    lead, margin = Uniform.lead, Uniform.margin
    monkeypatch.setattr(Uniform, "lead", lambda self, *p: lead(replace(self, scale=fault * self.scale), *p))
    monkeypatch.setattr(Uniform, "margin", lambda self, *p: margin(replace(self, scale=fault * self.scale), *p))
    wrong, _ = errors(SYSTEMS[name]())
    assert suspicion(wrong, REPEATS) < SUSPICIOUS


def test_a_cascade_that_overspends_is_caught(monkeypatch):
    system, right = SYSTEMS["cascade answers"](), Payment.of
    monkeypatch.setattr(Payment, "of", lambda alpha, *, picked: right(16 * alpha, picked=picked))
    assert suspicion(errors(system)[0], REPEATS) < SUSPICIOUS


def test_noise_that_is_less_wide_than_it_claims_is_caught(monkeypatch):
    """A mutant of the sampler, by a tenth of its range: votes are then surer than the theorem allows."""
    from sigmax.noise import uniform

    right = uniform.UniformSampler.fill

    def narrow(self, generator, out):
        right(self, generator, out)
        out *= 0.8

    monkeypatch.setattr(uniform.UniformSampler, "fill", narrow)
    assert suspicion(errors(SYSTEMS["smoothed"]())[0], REPEATS) < SUSPICIOUS


@pytest.mark.parametrize("dim", [1, 3, 64])
def test_affine_classifiers_are_not_certified_beyond_their_hyperplane(dim):
    """Symmetric noise leaves an affine classifier as it is; its edge is margin / max |w_i| away in l1."""
    rng = torch.Generator().manual_seed(dim)
    wrong = total = 0
    for margin in (0.05, 0.4, 0.8):
        w = torch.randn(dim, generator=rng)
        x = torch.randn(dim, generator=rng)
        b = float(margin * w.abs().max() - x @ w)
        exact = float((x.double() @ w.double() + b) / w.double().abs().max())
        f = sx.Smoothed(lambda batch, w=w, b=b: (batch @ w + b > 0).long(), noise=Uniform(1.0), classes=2)
        found = f.certify(x.expand(200, dim), n0=20, n=150, alpha=ALPHA, seed=dim)
        wrong += sum(c.predicted is not None and (c.predicted != 1 or c.radius > exact) for c in found)
        total += len(found)
    assert suspicion(wrong, total) > SUSPICIOUS


def test_multiscale_takes_a_noise():
    scheme = sx.Multiscale(lambda batch: batch, sigmas=(0.5, 1.0), noise=Uniform, classes=2)
    assert [level.noise for level in (*scheme.levels, scheme.last)] == [Uniform(1.0), Uniform(0.5)]
    assert repr(scheme) == "Cascade(uniform 1, last 0.5, 2 classes)"


def test_schemes_of_gaussian_theorems_refuse_by_name():
    field = sx.VouchedField(lambda x: np.ones(len(x)), 0.05)
    with pytest.raises(sx.RequestError, match="SemiElastic has a theorem for Gaussian noise alone.*scale=1.0"):
        sx.SemiElastic(lambda b: b, field=field, classes=2, dim=2, noise=Uniform(1.0))
    with pytest.raises(sx.RequestError, match="Memorized has a theorem for Gaussian noise alone"):
        sx.Memorized(lambda b: b, sigma0=0.5, classes=2, noise=Uniform(1.0))


def test_the_truth_is_the_truth():
    """Shares by quadrature, and regions against answers at random points."""
    for t in (-0.3, 0.1, 0.9):
        by_density = [
            integrate.quad(lambda u: 0.5 * (abs(u - t) < 1.0), low, high, points=[t - 1, t + 1], limit=200)[0]  # noqa: B023
            for low, high in ((-3, -0.2), (-0.2, 0.5), (0.5, 3))
        ]
        assert shares(t, 1.0, (-0.2, 0.5)) == pytest.approx(by_density, abs=1e-8)
    part = Slabs(X, (-0.4, 0.6), 1.0, SELECTIVE, 0.55)
    for low, high, c in part.pieces():
        inside = np.linspace(max(low, -3) + 1e-6, min(high, 3) - 1e-6, 50)
        assert {part.answer(t) for t in inside} == {c}
