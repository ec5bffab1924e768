"""The routed radius: against its definition, its invariants, and requests that make no sense."""

from fractions import Fraction
from itertools import pairwise
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sigmax.errors import RequestError
from sigmax.radius import routed

patient = settings(deadline=None, max_examples=300)


def by_definition(reach, radii, labels) -> float:
    """sup {r : all experts in S(r) certify one class, each with R_j >= r}, tried at every r that could matter.

    Between two neighbouring numbers of the lists the condition does not change, so one r inside stands for all; as
    fractions, since floats may have none between them.
    """
    marks = sorted({Fraction(0), *map(Fraction, reach), *map(Fraction, radii)})
    between = [(low + high) / 2 for low, high in pairwise(marks)]

    def holds(r: Fraction) -> bool:
        inside = [j for j, distance in enumerate(reach) if distance <= r]
        one_class = len({labels[j] for j in inside}) == 1 and labels[inside[0]] is not None
        return one_class and all(radii[j] >= r for j in inside)

    proved = [mark for mark in marks if holds(mark)]
    proved += [high for middle, high in zip(between, marks[1:], strict=True) if holds(middle)]
    return float(max(proved, default=0))


numbers = st.integers(0, 12).map(lambda eighths: eighths / 8) | st.floats(0, 3)
route = st.tuples(numbers, numbers, st.sampled_from([0, 0, 0, 1, None]))


@st.composite
def systems(draw):
    """Reach, radii and labels of up to five routes; the first may win at once."""
    routes = draw(st.lists(route, min_size=1, max_size=5))
    routes[0] = (0.0, *routes[0][1:])
    reach, radii, labels = zip(*draw(st.permutations(routes)), strict=True)
    return list(reach), list(radii), list(labels)


# Identity


@pytest.mark.parametrize(
    ("reach", "radii", "labels", "expected"),
    [
        ([0, 0.5], [2.0, 0.0], [3, None], 0.5),  # one route in reach: min(R_sigma, R_c)
        ([0, 0.5], [0.25, 0.0], [3, None], 0.25),
        ([0, 0.5], [2.0, 1.5], [3, 3], 1.5),  # the rival agrees: it no longer ends at the router's radius
        ([0, 0.5], [2.0, 1.5], [3, 4], 0.5),  # it does not
        ([0, 0.5], [2.0, 0.25], [3, 3], 0.5),  # it agrees, but only where it is not in charge
        ([0, 0.0], [2.0, 1.5], [3, 3], 1.5),  # undecided, and it does not matter
        ([0, 0.0], [2.0, 1.5], [3, 4], 0.0),
        ([0, 0.0], [2.0, 0.0], [3, None], 0.0),
        ([0.5, 0.0, 1.0], [9.0, 2.0, 9.0], [3, 3, 4], 1.0),
        ([0, inf], [2.0, 0.0], [3, None], 2.0),  # a rival that never wins
        ([0, inf], [inf, 0.0], [3, None], inf),
        ([0], [0.75], [3], 0.75),
        ([0, 0.5], [0.0, 2.0], [None, 3], 0.0),  # the expert in charge certifies nothing
    ],
)
def test_known_radii(reach, radii, labels, expected):
    assert routed(reach, radii, labels) == expected
    assert type(routed(reach, radii, labels)) is float


# Reference


@patient
@given(systems())
def test_it_is_the_largest_radius_of_the_definition(system):
    assert routed(*system) == by_definition(*system)


# Invariant


@patient
@given(systems(), st.data())
def test_more_reach_or_more_radius_never_shrinks_it(system, data):
    reach, radii, labels = system
    top = reach.index(0)
    gains = data.draw(st.lists(numbers, min_size=len(reach), max_size=len(reach)))
    before = routed(reach, radii, labels)
    assert routed(reach, [r + g for r, g in zip(radii, gains, strict=True)], labels) >= before
    farther = [d + g if j != top else d for j, (d, g) in enumerate(zip(reach, gains, strict=True))]
    assert routed(farther, radii, labels) >= before


@patient
@given(systems(), st.data())
def test_asking_another_expert_never_shrinks_it(system, data):
    reach, radii, labels = system
    missed = data.draw(st.sets(st.sampled_from(range(len(reach)))))
    asked = [None if j in missed else label for j, label in enumerate(labels)]
    assert routed(reach, [0.0 if j in missed else r for j, r in enumerate(radii)], asked) <= routed(*system)


@patient
@given(systems(), st.randoms(use_true_random=False))
def test_the_order_of_the_routes_does_not_matter(system, random):
    order = list(range(len(system[0])))
    random.shuffle(order)
    assert routed(*([part[j] for j in order] for part in system)) == routed(*system)


@patient
@given(systems())
def test_it_is_never_below_the_minimum_and_equal_where_no_rival_is_in_reach(system):
    reach, radii, labels = system
    top = reach.index(0)
    certified = radii[top] if labels[top] is not None else 0.0
    nearest = min((d for j, d in enumerate(reach) if j != top), default=inf)
    assert routed(*system) >= min(nearest, certified)
    if nearest >= certified:
        assert routed(*system) == certified
    assert routed(*system) <= certified  # the expert in charge has the last word


# Requests


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (([0.0, 0.5], [1.0], [3, 3]), "one reach, radius and label for each route, got 2, 1 and 2"),
        (([0.0], [1.0, 2.0], [3]), "got 1, 2 and 1"),
        (([0.0, 0.5], [1.0, 1.0], [3]), "got 2, 2 and 1"),
        (([], [], []), "got 0, 0 and 0"),
        (([0.1, 0.5], [1.0, 1.0], [3, 3]), "a route of reach 0"),
        (([0.0, -0.5], [1.0, 1.0], [3, 3]), "reach to be distances of at least 0"),
        (([0.0, nan], [1.0, 1.0], [3, 3]), "reach to be distances of at least 0"),
        (([0.0, 0.5], [1.0, -1.0], [3, 3]), "radii to be distances of at least 0"),
        (([0.0, 0.5], [nan, 1.0], [3, 3]), "radii to be distances of at least 0"),
        (([[0.0], [0.5]], [1.0, 1.0], [3, 3]), "reach to be distances"),
        ((0.0, [1.0], [3]), "reach to be distances"),
        ((["0", "1"], [1.0, 1.0], [3, 3]), "reach to be a number or an array of numbers"),
        (([True, False], [1.0, 1.0], [3, 3]), "reach to be a number or an array of numbers"),
    ],
)
def test_a_wrong_request_is_refused_with_advice(arguments, complaint):
    with pytest.raises(RequestError, match=f"expected.*{complaint}"):
        routed(*arguments)


def test_numpys_numbers_are_taken():
    assert routed(np.array([0.0, 0.5]), np.array([2.0, 1.5]), np.array([3, 3])) == 1.5
