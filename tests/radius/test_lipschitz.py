"""The Lipschitz radius: rounded down from the exact one, and exact for a network whose radius is known."""

from math import inf, nan

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from sigmax.errors import RequestError
from sigmax.radius import lipschitz

patient = settings(deadline=None)


@patient
@given(st.floats(1e-30, 1e30), st.floats(1e-30, 1e30))
def test_it_is_the_exact_radius_rounded_down(margin, constant):
    with ctx.workprec(256):
        exact = arb(margin) / (arb(2).sqrt() * arb(constant))
        assert exact * (1 - arb("1e-14")) < lipschitz(margin, constant) <= exact


@pytest.mark.parametrize("scale", [0.25, 1.0, 7.0])
def test_an_orthogonal_network_reaches_it(scale):
    # f(x) = scale * Qx has constant `scale`; its scores i and j meet on a plane that is known.
    rng = np.random.default_rng(0)
    rows, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    for x in rng.normal(size=(50, 6)):
        scores = scale * rows @ x
        first, second = np.argsort(scores)[::-1][:2]
        step = rows[first] - rows[second]
        distance = step @ x / np.linalg.norm(step)
        assert lipschitz(float(scores[first] - scores[second]), scale) == pytest.approx(distance, rel=1e-12)
        others = [(rows[first] - rows[j]) @ x / 2**0.5 for j in range(6) if j != first]
        assert distance == pytest.approx(min(others), rel=1e-12)


def test_the_corners():
    assert lipschitz(0.0, 1.0) == 0.0
    assert type(lipschitz(1, 2)) is float
    assert lipschitz(inf, 1.0) == inf


@patient
@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(1e-6, 1e6))
def test_it_rises_with_the_margin_and_falls_with_the_constant(margin, more, constant):
    assert lipschitz(margin + more, constant) >= lipschitz(margin, constant) >= lipschitz(margin, 2 * constant)


@pytest.mark.parametrize(
    ("margin", "constant", "complaint"),
    [
        (-0.1, 1.0, "margin"),
        (nan, 1.0, "margin"),
        ("1", 1.0, "margin"),
        (1.0, 0.0, "a Lipschitz constant"),
        (1.0, -1.0, "a Lipschitz constant"),
        (1.0, nan, "a Lipschitz constant"),
        (1.0, inf, "a Lipschitz constant"),
        (1.0, 1e-320, "a Lipschitz constant"),
        (1.0, "1", "a Lipschitz constant"),
        (1.0, True, "a Lipschitz constant"),
    ],
)
def test_a_wrong_request_is_refused_with_advice(margin, constant, complaint):
    with pytest.raises(RequestError, match=f"expected {complaint}.*got"):
        lipschitz(margin, constant)
