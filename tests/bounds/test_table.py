"""Looked-up bounds are the computed ones, to the last bit: a record made with one is verified with the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sigmax.bounds import fixed, table

PIECE = table._TOGETHER


@pytest.mark.parametrize("n", [1, 2, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE - 1, 300])
@pytest.mark.parametrize("alpha", [0.05, 1e-3, 1e-9])
def test_every_count_is_bounded_as_by_itself(n, alpha):
    for k in range(n + 1):
        assert table.lower(k, n, alpha) == fixed.lower(k, n, alpha), k
        assert table.upper(k, n, alpha) == fixed.upper(k, n, alpha), k


@settings(deadline=None, max_examples=300)
@given(st.integers(1, 10**6), st.data(), st.floats(1e-12, 0.4))
def test_a_bound_does_not_depend_on_the_neighbours_it_was_computed_with(n, data, alpha):
    k = data.draw(st.integers(0, n) | st.sampled_from([0, n, max(0, n - 1), min(n, PIECE), n - n % PIECE]))
    assert table.lower(k, n, alpha) == fixed.lower(k, n, alpha)
    assert table.upper(k, n, alpha) == fixed.upper(k, n, alpha)


def test_what_was_looked_up_is_a_plain_number():
    assert type(table.lower(3, 10, 0.05)) is type(table.upper(np.int64(3), 10, 0.05)) is float


def test_a_full_table_forgets_and_computes_the_same_again():
    first = table.lower(77, 200, 0.01)
    table.lower.cache_clear()
    table._piece.cache_clear()
    assert table.lower(77, 200, 0.01) == first
    assert table._piece.cache_info().currsize == 1


def test_what_is_proved_is_some_last_bits_nearer_and_only_within():
    low, high = table.lower(77, 200, 0.01), table.upper(77, 200, 0.01)
    with table.as_proved():
        assert low < table.lower(77, 200, 0.01) < low * (1 + 2e-15)
        assert high > table.upper(77, 200, 0.01) > high * (1 - 2e-15)
        assert (table.lower(0, 200, 0.01), table.upper(200, 200, 0.01)) == (0, 1)
    assert (table.lower(77, 200, 0.01), table.upper(77, 200, 0.01)) == (low, high)
