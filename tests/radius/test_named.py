"""The radius of a router that names or passes: its formula, a solvable router searched for violations, requests."""

from math import inf

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from sigmax.errors import RequestError
from sigmax.radius import cascade, gaussian, kept_out, named

patient = settings(deadline=None)
shares = st.floats(0.001, 0.999)


def test_the_formula():
    assert named(0.5, 0.9) == pytest.approx(0.5 * ndtri(0.9), rel=1e-13)
    assert named(0.5, 0.9, 0.001, 2.0) == pytest.approx(-0.5 * ndtri(0.001), rel=1e-13)
    assert named(0.5, 0.9, 0.001, 1.0) == 1.0
    assert named(0.5, 0.2, 0.1, 2.0) == pytest.approx(-0.5 * ndtri(0.1), rel=1e-13)
    assert named(0.5, 0.9) == pytest.approx(gaussian(0.5, 0.9), rel=1e-14)
    assert kept_out(1.0, 0.2) == pytest.approx(cascade([1.0, 0.5], 1.0, [0.2]), rel=1e-14)


@pytest.mark.parametrize(
    ("lower", "upper", "below", "radius"),
    [(0.5, 1.0, 5.0, 0.0), (0.3, 0.5, 5.0, 0.0), (0.3, 0.0, 5.0, 5.0), (1.0, 0.5, 0.0, inf), (0.0, 0.0, inf, inf)],
)
def test_the_corners(lower, upper, below, radius):
    assert named(1.0, lower, upper, below) == radius


@patient
@given(st.floats(0.05, 2), shares, shares, st.floats(0, 3))
def test_never_above_the_exact_value_and_next_to_it(sigma, lower, upper, below):
    radius = named(sigma, lower, upper, below)
    with ctx.workprec(256):

        def quantile(p: float) -> arb:
            z = arb(float(ndtri(p)))
            for _ in range(3):
                density = (-z * z / 2).exp() / (2 * arb.pi()).sqrt()
                z = (z - ((1 + (z / arb(2).sqrt()).erf()) / 2 - arb(p)) / density).mid()
            return z

        terms = arb(sigma) * quantile(lower), -arb(sigma) * quantile(upper)
        exact = max(terms[0], min(terms[1], arb(below), key=lambda a: float(a)), key=lambda a: float(a))
        assert not (arb(radius) > exact) or radius == 0
    assert radius == pytest.approx(max(0.0, float(exact)), rel=1e-12, abs=1e-12)


@patient
@given(st.floats(0.1, 1), st.floats(-2, 2), st.floats(0.01, 3), st.floats(-1, 3), st.integers(0, 2**32 - 1))
def test_no_answer_changes_within_it(sigma, low, gap, edge, seed):
    """Along a line: class 0 is named below `low`, class 1 above `low + gap`; the expert says 1 above `edge`."""

    def answer(t):
        q0, q1 = ndtr((low - t) / sigma), 1 - ndtr((low + gap - t) / sigma)
        return np.where(q0 > 0.5, 0, np.where(q1 > 0.5, 1, (t > edge).astype(int)))

    rng = np.random.default_rng(seed)
    x = rng.normal(scale=2)
    q0, q1 = ndtr((low - x) / sigma), min(ndtr((x - low - gap) / sigma), 1 - 1e-12)  # never rounded up to 1
    own = max(0.0, x - edge)  # how far the expert says 1
    radius = named(sigma, q1, q0, own)
    if radius:
        nearby = x + np.linspace(-radius, radius, 201)[1:-1] * (1 - 1e-9)
        assert (answer(nearby) == 1).all()


def test_requests():
    with pytest.raises(RequestError, match="upper to be a share of votes from 0 to 1"):
        named(0.5, 0.9, 1.2, 1.0)
    with pytest.raises(RequestError, match="below to be distances of at least 0"):
        named(0.5, 0.9, 0.1, -1.0)
    with pytest.raises(RequestError, match="lower"):
        named(0.5, 1.9)
