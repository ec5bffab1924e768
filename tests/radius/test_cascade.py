"""The cascade's radius: the published formula, a solvable cascade searched for violations, bad requests."""

from math import inf

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from sigmax.errors import RequestError
from sigmax.radius import cascade, gaussian

patient = settings(deadline=None)
shares = st.floats(0.001, 0.999)
marks = st.floats(0.5, 0.95)


# Identity


def test_the_published_formula():
    assert cascade([1.0, 0.5, 0.25], 0.9, [0.2, 0.1]) == pytest.approx(
        min(0.25 * ndtri(0.9), -0.5 * ndtri(0.1), -1.0 * ndtri(0.2)), rel=1e-13
    )
    assert cascade([0.5], 0.9) == pytest.approx(gaussian(0.5, 0.9), rel=1e-14)


def test_thresholds():
    assert cascade([1.0, 0.5], 0.9, [0.2], thresholds=0.6) == pytest.approx(0.5 * (ndtri(0.9) - ndtri(0.6)))
    assert cascade([1.0, 0.5], 0.9, [0.2], thresholds=[0.51, 0.5]) == pytest.approx(0.5 * ndtri(0.9))
    assert cascade([0.1, 0.5], 0.9, [0.2], thresholds=[0.7, 0.5]) == pytest.approx(0.1 * (ndtri(0.7) - ndtri(0.2)))


@pytest.mark.parametrize(
    ("sigmas", "lower", "uppers", "radius"),
    [
        ([1.0], 0.5, [], 0.0),
        ([1.0], 0.2, [], 0.0),
        ([1.0, 0.5], 0.9, [0.5], 0.0),
        ([1.0, 0.5], 0.9, [0.7], 0.0),
        ([1.0], 1.0, [], inf),
        ([1.0, 0.5], 1.0, [0.0], inf),
    ],
)
def test_the_corners(sigmas, lower, uppers, radius):
    assert cascade(sigmas, lower, uppers) == radius


# Reference


@patient
@given(st.lists(st.tuples(st.floats(0.05, 2), shares, marks), min_size=1, max_size=4), shares)
def test_never_above_the_exact_minimum_and_next_to_it(stages, lower):
    sigmas, uppers, thresholds = map(list, zip(*stages, strict=True))
    radius = cascade(sigmas, lower, uppers[:-1], thresholds=thresholds)
    with ctx.workprec(256):

        def quantile(p: float) -> arb:
            return arb(2).sqrt() * (2 * arb(p) - 1).erfinv()

        gaps = [s * (quantile(t) - quantile(u)) for s, u, t in zip(sigmas[:-1], uppers, thresholds, strict=False)]
        gaps.append(sigmas[-1] * (quantile(lower) - quantile(thresholds[-1])))
        exact = min((gap for gap in gaps), key=float)
        assert radius == 0 or radius <= exact
        assert radius >= exact - arb("1e-12")


# Soundness on an exactly solvable cascade


def named(x: float, sigmas: list[float], cuts: list[tuple[float, float]], marks: list[float]) -> int | None:
    """What a cascade on a line names at x: classifier j says 0 below its first cut, 1 above its second, else 2."""
    for sigma, (low, high), mark in zip(sigmas, cuts, marks, strict=True):
        chances = ndtr((low - x) / sigma), 1 - ndtr((high - x) / sigma)
        for label, chance in enumerate((*chances, 1 - sum(chances))):
            if chance > mark:
                return label
    return None


def test_no_point_within_the_radius_is_named_otherwise():
    rng = np.random.default_rng(0)
    certified = 0
    for _ in range(400):
        sigmas = sorted(rng.uniform(0.1, 1, 3), reverse=True)
        cuts = [(low, low + gap) for low, gap in zip(rng.normal(size=3), rng.uniform(0, 2, 3), strict=True)]
        marks, x = rng.uniform(0.5, 0.8, 3).tolist(), float(rng.normal())
        for stage in range(3):
            low, high = cuts[stage]
            chances = np.array([ndtr((low - x) / sigmas[stage]), ndtr((x - high) / sigmas[stage]), 0.0])
            chances[2] = 1 - chances.sum()
            if chances.max() > marks[stage]:
                break
        else:
            continue
        label = int(chances.argmax())
        uppers = []
        for j in range(stage):
            low, high = cuts[j]
            others = np.array([ndtr((low - x) / sigmas[j]), ndtr((x - high) / sigmas[j]), 0.0])
            others[2] = 1 - others.sum()
            uppers.append(float(np.delete(others, label).max()) + 1e-12)  # beyond the rounding of `others`
        lower = float(chances.max()) - 1e-12
        radius = cascade(sigmas[: stage + 1], lower, uppers, thresholds=marks[: stage + 1])
        certified += radius > 0.05
        reach = radius * 0.999999
        for y in np.linspace(x - reach, x + reach, 41):
            assert named(float(y), sigmas, cuts, marks) == label
    assert certified > 100


# Requests


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (([1.0, 0.5], 0.9, []), {}),
        (([1.0], 0.9, [0.1]), {}),
        (([], 0.9, []), {}),
        ((1.0, 0.9, []), {}),
        (([0.0], 0.9, []), {}),
        (([1.0], 1.9, []), {}),
        (([1.0], [0.9], []), {}),
        (([1.0, 0.5], 0.9, [1.2]), {}),
        (([1.0], 0.9, []), {"thresholds": 0.4}),
        (([1.0], 0.9, []), {"thresholds": 1.0}),
        (([1.0], 0.9, []), {"thresholds": [0.5, 0.5]}),
    ],
)
def test_a_wrong_request_is_refused_with_advice(arguments, options):
    with pytest.raises(RequestError, match=r"expected.*got.*;"):
        cascade(*arguments, **options)
