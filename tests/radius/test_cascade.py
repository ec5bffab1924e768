"""The cascade's radius: its formula, cascades on a line searched for violations, its invariants, bad requests."""

from math import inf, nan

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from sigmax.errors import RequestError
from sigmax.radius import (
    Gaussian,
    LevelBounds,
    answer_radius,
    cascade,
    cascade_of_radii,
    exclusion_radius,
    gaussian,
    smoothed,
)

patient = settings(deadline=None)
shares = st.floats(0.001, 0.999)
thresholds = st.floats(0.5, 0.95)
sigmas = st.sampled_from([0.0625, 0.25, 0.5, 1.0, 2.0])
levels = st.builds(
    lambda s, lower, upper, t: LevelBounds(Gaussian(s), lower, upper, t), sigmas, shares, shares, thresholds
)


def level(sigma: float, lower: float = 0.0, upper: float = 1.0, threshold: float = 0.5) -> LevelBounds:
    return LevelBounds(Gaussian(sigma), lower, upper, threshold)


# Identity


@patient
@given(sigmas | st.floats(0.01, 5), shares, st.none() | shares)
def test_one_noise_is_the_gaussian_theorem_to_the_last_bit(sigma, lower, upper):
    """Noise is scaled by sigma in 32 bits, which may be less."""
    usable = min(sigma, float(np.float32(sigma)))
    assert smoothed(Gaussian(sigma), lower, upper) == gaussian(usable, lower, upper)


@patient
@given(sigmas, shares)
def test_a_level_alone_with_half_of_the_votes_is_one_noise(sigma, lower):
    assert cascade([level(sigma, lower)]) == answer_radius(Gaussian(sigma), lower)
    assert cascade([level(sigma, lower)]) == pytest.approx(gaussian(sigma, lower), rel=1e-14)


def test_the_published_formula():
    """Jeong & Shin: two levels that defer, and a last one that answers."""
    found = cascade([level(1.0, upper=0.2), level(0.5, upper=0.1)], gaussian(0.25, 0.9))
    assert found == pytest.approx(min(0.25 * ndtri(0.9), -0.5 * ndtri(0.1), -ndtri(0.2)), rel=1e-13)


def test_a_level_that_answers_may_be_outreached_by_what_is_below_it():
    assert cascade([level(0.5, 0.9, 0.001)], 2.0) == pytest.approx(-0.5 * ndtri(0.001), rel=1e-13)
    assert cascade([level(0.5, 0.9, 0.001)], 1.0) == 1.0
    assert cascade([level(0.5, 0.9, 0.001)], 0.1) == pytest.approx(0.5 * ndtri(0.9), rel=1e-13)


def test_thresholds():
    assert answer_radius(Gaussian(0.5), 0.9, 0.6) == pytest.approx(0.5 * (ndtri(0.9) - ndtri(0.6)), rel=1e-13)
    assert exclusion_radius(Gaussian(0.5), 0.2, 0.7) == pytest.approx(0.5 * (ndtri(0.7) - ndtri(0.2)), rel=1e-13)
    assert answer_radius(Gaussian(0.5), 0.7, 0.7) == exclusion_radius(Gaussian(0.5), 0.7, 0.7) == 0.0


@pytest.mark.parametrize(
    ("lower", "upper", "last", "radius"),
    [
        (0.5, 1.0, 5.0, 0.0),
        (0.3, 0.5, 5.0, 0.0),
        (0.3, 0.0, 5.0, 5.0),
        (1.0, 0.5, 0.0, inf),
        (0.0, 0.0, inf, inf),
        (0.0, 0.0, 0.0, 0.0),
    ],
)
def test_the_corners(lower, upper, last, radius):
    assert cascade([level(1.0, lower, upper)], last) == radius
    assert cascade([], last) == last


# Reference


@patient
@given(st.lists(levels, min_size=1, max_size=4), st.floats(0, 3))
def test_never_above_the_exact_value_and_next_to_it(parts, last):
    radius = cascade(parts, last)
    with ctx.workprec(256):

        def quantile(p: float) -> arb:
            return arb(2).sqrt() * (2 * arb(p) - 1).erfinv()

        exact = arb(last)
        for noise, lower, upper, threshold in reversed(parts):
            z = quantile(threshold)
            excluded = min(noise.sigma * (z - quantile(upper)), exact, key=float)
            exact = max(noise.sigma * (quantile(lower) - z), excluded, key=float)
        assert radius == 0 or radius <= exact
        assert radius >= exact - arb("1e-12")


@patient
@given(
    st.lists(st.lists(levels, min_size=3, max_size=3), min_size=1, max_size=4), st.lists(st.floats(0, 3), min_size=3)
)
def test_many_inputs_at_once_are_each_by_itself(parts, last):
    """To the last bit: it is one recursion."""
    answers = [[answer_radius(p.noise, p.lower, p.threshold) for p in level_of_all] for level_of_all in parts]
    excluded = [[exclusion_radius(p.noise, p.upper, p.threshold) for p in level_of_all] for level_of_all in parts]
    found = cascade_of_radii(list(zip(answers, excluded, strict=True)), last[:3])
    assert found.tolist() == [cascade([level_of_all[i] for level_of_all in parts], last[i]) for i in range(3)]


# Soundness: a cascade on a line whose every answer is known by quadrature of its noise


class Line:
    """Levels on a line. Level j votes 0 below its first cut, 1 above its second, and between them 2 or to defer."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.count = int(rng.integers(1, 4))
        self.sigmas = sorted(rng.uniform(0.1, 1, self.count), reverse=True)
        self.cuts = [np.sort(rng.normal(size=2)) for _ in self.sigmas]
        self.defers = rng.random(self.count) < 0.5
        self.thresholds = np.where(rng.random(self.count) < 0.3, 0.5, rng.uniform(0.5, 0.8, self.count))
        self.edge = float(rng.normal())  # the last certifier says 1 above it, 0 below

    def votes(self, j: int, x: np.ndarray) -> np.ndarray:
        """The shares of the three classes at level j; a vote to defer is for none."""
        low, high = (ndtr((cut - x) / self.sigmas[j]) for cut in self.cuts[j])
        return np.stack([low, 1 - high, (high - low) * (not self.defers[j])])

    def answers(self, x: np.ndarray) -> np.ndarray:
        """What the cascade answers at the points x."""
        found = (x > self.edge).astype(int)
        for j in reversed(range(self.count)):
            votes = self.votes(j, x)
            found = np.where(votes.max(0) > self.thresholds[j], votes.argmax(0), found)
        return found

    def bounds(self, j: int, x: float, label: int) -> LevelBounds:
        """What a level's own shares at x prove, but for the rounding of the shares."""
        votes = self.votes(j, np.array([x]))[:, 0]
        lower, upper = max(0.0, votes[label] - 1e-12), min(1.0, np.delete(votes, label).max() + 1e-12)
        return LevelBounds(Gaussian(self.sigmas[j]), float(lower), float(upper), float(self.thresholds[j]))


def violations(radius_of) -> tuple[int, int]:
    """How many radii of 300 cascades hold another answer, and how many are of any size."""
    rng, wrong, certified = np.random.default_rng(0), 0, 0
    for _ in range(300):
        line, x = Line(rng), float(rng.normal())
        (label,) = line.answers(np.array([x]))
        own = abs(x - line.edge) if int(x > line.edge) == label else 0.0
        radius = radius_of([line.bounds(j, x, label) for j in range(line.count)], own)
        certified += radius > 0.05
        around = x + np.linspace(-1, 1, 401) * min(radius, 20.0) * (1 - 1e-6)
        wrong += bool((line.answers(around) != label).any())
    return wrong, certified


def test_no_answer_changes_within_the_radius():
    wrong, certified = violations(cascade)
    assert wrong == 0
    assert certified > 150


def test_the_shares_of_the_line_are_those_of_its_noise():
    line = Line(np.random.default_rng(4))
    for j in range(line.count):
        low = quad(lambda u, j=j: norm.pdf(u, 0.3, line.sigmas[j]), -12, line.cuts[j][0], epsabs=1e-12, limit=200)[0]
        assert line.votes(j, np.array([0.3]))[0, 0] == pytest.approx(low, abs=1e-9)


def wrong_radius(combine):
    """The theorem with its recursion exchanged for another."""

    def radius(levels, last):
        proved = last
        for noise, lower, upper, threshold in reversed(levels):
            proved = combine(answer_radius(noise, lower, threshold), exclusion_radius(noise, upper, threshold), proved)
        return proved

    return radius


@pytest.mark.parametrize(
    "combine",
    [
        lambda answer, excluded, below: max(answer, excluded, below),  # a maximum where the minimum belongs
        lambda answer, excluded, below: max(answer, below),  # a level that may answer another class is ignored
        lambda answer, excluded, below: max(answer, excluded),  # what is below is taken to agree everywhere
        lambda answer, excluded, below: max(answer, min(excluded, below) * 1.5),
    ],
)
def test_wrong_recursions_are_caught(combine):
    assert violations(wrong_radius(lambda a, w, r: max(a, min(w, r)))) == violations(cascade)
    assert violations(wrong_radius(combine))[0] > 5


# Invariants


@patient
@given(st.lists(levels, min_size=1, max_size=4), st.floats(0, 3), st.data())
def test_better_bounds_never_shrink_it(parts, last, data):
    j = data.draw(st.integers(0, len(parts) - 1))
    share = data.draw(st.floats(0, 1))
    lower = parts[j].lower + share * (1 - parts[j].lower)
    better = [
        parts[j]._replace(lower=min(lower, 1.0)),
        parts[j]._replace(upper=parts[j].upper * (1 - share)),
    ]
    before = cascade(parts, last)
    for changed in better:
        assert cascade([*parts[:j], changed, *parts[j + 1 :]], last) >= before
    assert cascade(parts, last + share) >= before
    assert cascade(parts, last) <= max(last, *(answer_radius(p.noise, p.lower, p.threshold) for p in parts))


@patient
@given(
    st.lists(st.tuples(sigmas, shares, shares, thresholds), min_size=1, max_size=3), st.floats(0, 2), st.floats(0, 1)
)
def test_it_falls_no_faster_than_the_input_moves(parts, last, moved):
    """Where every score moves by r at worst and the last radius shrinks by r, the radius shrinks by r at most."""

    def shifted(sigma: float, p: float, by: float) -> float:
        return float(ndtr(ndtri(p) + by / sigma))

    def at(r: float) -> float:
        worst = [level(s, shifted(s, low, -r), shifted(s, up, r), t) for s, low, up, t in parts]
        return cascade(worst, max(0.0, last - r))

    assert at(moved) >= at(0.0) - moved - 1e-9
    if at(0.0) > moved + 1e-9:
        assert at(moved) == pytest.approx(at(0.0) - moved, abs=1e-6)


# Requests


@pytest.mark.parametrize(
    ("parts", "last", "said"),
    [
        ([level(1.0, threshold=0.4)], 0.0, "below 1/2 two classes"),
        ([level(1.0, threshold=1.0)], 0.0, "from 1/2 to below 1, got 1.0"),
        ([level(1.0, threshold=True)], 0.0, "got True"),
        ([level(1.0, lower=1.9)], 0.0, "expected a probability from 0 to 1, got 1.9"),
        ([level(1.0, upper=nan)], 0.0, "got nan"),
        ([level(1.0)], -1.0, "last to be a distance of at least 0"),
        ([level(1.0)], nan, "last to be a distance of at least 0"),
    ],
)
def test_a_wrong_request_is_refused_with_advice(parts, last, said):
    with pytest.raises(RequestError, match=said):
        cascade(parts, last)


def test_among_many_a_wrong_distance_is_refused():
    with pytest.raises(RequestError, match="last to be a distance of at least 0"):
        cascade_of_radii([([0.0, 0.0], [1.0, 1.0])], [0.0, nan])


@pytest.mark.parametrize("sigma", [0.0, -1.0, nan, inf, 1e-31, True, "0.5", None])
def test_noise_without_a_level_is_refused(sigma):
    with pytest.raises(RequestError, match="sigma must be a positive number"):
        Gaussian(sigma)
