"""The memory rule: the published cases, its promise under attack, the counter-example, and the fast look-up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ncx2

from sigmax.errors import RequestError
from sigmax.radius import Memory, gaussian, settle
from sigmax.radius.distances import near_distances, relative_error, square_norms, squares_about

patient = settings(deadline=None, max_examples=60)


# Identity


@pytest.mark.parametrize(
    ("label", "radius", "expected"),
    [
        (1, 0.5, (1, 0.5, "kept")),  # nothing near
        (1, 3.0, (1, 2.0, "shrunk")),  # up to the ball of class 2 that begins at 2
        (2, 3.0, (2, 3.0, "kept")),  # that one is of its own class
        (None, 0.0, (None, 0.0, "kept")),
    ],
)
def test_outside_of_all_balls(label, radius, expected):
    found = settle(label, radius, [3.0, 9.0], [2, 1], [1.0, 2.0])
    assert (found.label, found.how) == expected[::2]
    assert found.radius == pytest.approx(expected[1], abs=1e-12)
    assert found.radius <= expected[1]


@pytest.mark.parametrize(("label", "radius"), [(1, 0.5), (None, 0.0), (1, 7.0)])
def test_inside_of_another_class_it_is_taken_over(label, radius):
    found = settle(label, radius, [0.25, 0.5, 9.0], [2, 2, 1], [1.0, 1.5, 2.0])
    assert (found.label, found.how) == (2, "taken over")
    assert found.radius == pytest.approx(1.0, abs=1e-12)


def test_inside_of_its_own_class_the_larger_radius_holds():
    assert settle(2, 0.1, [0.25], [2], [1.0]) == (2, pytest.approx(0.75), "grown")
    assert settle(2, 0.9, [0.25], [2], [1.0]) == (2, 0.9, "kept")


def test_the_same_input_gets_the_same_answer():
    assert settle(1, 0.3, [0.0, 5.0], [2, 1], [0.0, 1.0]) == (2, 0.0, "taken over")
    assert settle(1, 9.0, [0.0, 5.0], [1, 2], [0.5, 1.0]) == (1, 0.5, "shrunk")


def test_an_empty_memory_changes_nothing():
    assert settle(1, 0.7, [], [], []) == (1, 0.7, "kept")


# The promise


@patient
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 5]), st.sampled_from([np.float32, np.float64]))
def test_every_input_within_a_certified_radius_gets_its_class(seed, dim, dtype):
    rng = np.random.default_rng(seed)
    memory, balls = Memory(dim, dtype=dtype), []
    for _ in range(16):
        x = rng.uniform(-1, 1, dim).astype(dtype)
        found = memory.answer(x, int(rng.integers(3)), float(rng.exponential(0.4)))
        balls.append((x, found))
        for centre, ball in balls:
            direction = rng.normal(size=dim)
            step = direction / np.linalg.norm(direction) * ball.radius * rng.choice([0.5, 0.999, 1 - 1e-7])
            neighbour = (centre + step).astype(dtype)
            if np.linalg.norm(neighbour.astype(float) - centre.astype(float)) <= ball.radius:
                assert memory.look_up(neighbour, int(rng.integers(3)), 1.0).label == ball.label
    for i, (x, one) in enumerate(balls):
        for y, other in balls[:i]:
            if one.label != other.label:
                assert np.linalg.norm(x.astype(float) - y.astype(float)) >= one.radius + other.radius


@patient
@given(st.integers(0, 10**6))
def test_boundaries_met_to_the_last_bit_stay_consistent(seed):
    # Balls that nearly touch, and inputs on their rims: whatever the rounding, one class answers for each.
    rng = np.random.default_rng(seed)
    memory = Memory(3, dtype=np.float64)
    first = memory.answer(np.zeros(3), 0, 1.0)
    second = memory.answer(np.array([2.0, 0, 0]) * (1 + rng.normal() * 1e-15), 1, 5.0)
    assert first.radius + second.radius <= 2.0 + 1e-14
    for _ in range(20):
        rim = rng.normal(size=3)
        rim *= (1 + rng.normal() * 3e-16) / np.linalg.norm(rim)
        answers = {memory.answer(rim, guess, 0.1).label for guess in (0, 1, 2)}
        assert len(answers) == 1


# The counter-example: f = 1[|x| <= 1] in the plane, at x = (50, 0)


def chance_inside(x: np.ndarray, sigma: float) -> float:
    return float(ncx2.cdf(1 / sigma**2, 2, float(x @ x) / sigma**2)) if x.any() else 1 - np.exp(-0.5 / sigma**2)


def best(x: np.ndarray) -> tuple[int, float]:
    """Class and plain radius at the sigma found by climbing from 0.25 for as long as the radius grows."""
    found = (0.0, 0)
    for sigma in np.geomspace(0.25, 100, 60).tolist():
        p = chance_inside(x, sigma)
        lower = min(max(p, 1 - p), 1 - 1e-4)  # what samples could show
        here = gaussian(sigma, lower), int(p > 0.5)
        if here[0] <= found[0]:
            break
        found = here
    return found[1], found[0]


def test_without_memory_the_plain_radius_is_wrong_and_with_memory_nothing_is_violated():
    far, centre = np.array([50.0, 0.0]), np.zeros(2)
    label, radius = best(far)
    assert label == 0
    assert radius > 50  # the plain radius covers the origin,
    assert best(centre)[0] == 1  # which is of the other class
    memory = Memory(2, dtype=np.float64)
    assert memory.answer(far, label, radius) == (0, radius, "kept")
    assert memory.answer(centre, *best(centre))[::2] == (0, "taken over")
    other = Memory(2, dtype=np.float64)  # the other way round the order decides
    inner = other.answer(centre, *best(centre))
    assert inner.label == 1
    assert other.answer(far, label, radius).radius <= 50 - inner.radius


# The look-up


def test_the_fast_look_up_agrees_with_the_plain_rule():
    rng = np.random.default_rng(3)
    points = rng.random((300, 48), dtype=np.float32)
    memory = Memory(48)
    for x in points:
        memory.answer(x, int(rng.integers(3)), float(rng.uniform(0, 2)))
    for x in rng.random((50, 48), dtype=np.float32):
        apart = np.linalg.norm(points.astype(float) - x.astype(float), axis=1)
        plain = settle(1, 1.5, apart, memory.labels, memory.radii, error=memory.error)
        assert memory.look_up(x, 1, 1.5) == (plain.label, pytest.approx(plain.radius, abs=1e-12), plain.how)


@pytest.mark.parametrize("scale", [1e-20, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize("dim", [1, 100, 3072])
def test_squares_about_are_within_their_error(dim, scale):
    rng = np.random.default_rng(dim)
    points, queries = scale * rng.random((40, dim)), scale * rng.random((5, dim))
    queries[0] = points[0]
    about, error = squares_about(points, square_norms(points), queries)
    exact = ((points[None] - queries[:, None]) ** 2).sum(axis=2)
    assert np.all(np.abs(about - exact) <= error)
    assert np.all(error <= (4 * dim + 60) * 2.0**-24 * scale**2 * dim + 1e-30)


def test_near_distances_are_within_their_error():
    rng = np.random.default_rng(0)
    points, x = rng.random((20, 3072)), rng.random(3072)
    exact = np.sqrt((((points - x).astype(np.longdouble)) ** 2).sum(axis=1))
    found = near_distances(points, np.arange(20), x)
    assert np.all(np.abs(found - exact) <= relative_error(3072) * exact)


# Requests


def test_a_wrong_request_is_refused_with_advice():
    for arguments in (
        (1, 0.5, [1.0], [2], [1.0, 2.0]),
        (1, 0.5, [1.0], [2, 3], [1.0]),
        (1, -0.5, [1.0], [2], [1.0]),
        (1, 0.5, [-1.0], [2], [1.0]),
        (1, 0.5, [1.0, 1.0], [2, 3], [1.5, 1.5]),  # stored balls of two classes that meet
    ):
        with pytest.raises(RequestError, match=r"expected.*got.*;"):
            settle(*arguments)


@pytest.mark.parametrize("x", [np.zeros(4), np.full(3, np.nan), np.full(3, 0.1), ["a", "b", "c"]])
def test_an_input_the_memory_cannot_hold_is_refused(x):
    with pytest.raises(RequestError, match=r"expected.*got.*;"):
        Memory(3).answer(x, 1, 0.5)
