"""A budget never grants more than it has, in exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sigmax.bounds import Budget
from sigmax.errors import RequestError

patient = settings(deadline=None)  # the machine may be busy


def granted(budget: Budget) -> Fraction:
    return sum((Fraction(entry.alpha) for entry in budget.ledger), Fraction(0))


def test_the_ledger_names_every_grant():
    budget = Budget(0.001)
    assert budget.spend(0.0005, on="router") == 0.0005
    assert budget.spend(0.00025, on="expert 1") == 0.00025
    assert budget.ledger == (("router", 0.0005), ("expert 1", 0.00025))
    assert budget.ledger[0].on == "router"
    assert budget.alpha == 0.001
    assert budget.spent == 0.00075
    assert budget.left == pytest.approx(0.00025, rel=1e-12)
    assert "0.0005 on 'router'" in repr(budget)


def test_a_new_budget_is_whole():
    budget = Budget(0.001)
    assert (budget.left, str(budget.spent), budget.ledger) == (0.001, "0.0", ())


def test_rounding_alone_does_not_overspend():
    budget = Budget(0.3)
    assert budget.spend(0.1, on="a") == 0.1
    assert budget.spend(0.2, on="b") == pytest.approx(0.2, rel=1e-15)
    assert granted(budget) <= Fraction(0.3)


def test_what_counts_as_rounding_is_a_billionth_and_no_more():
    for over, fits in ((1e-10, True), (1e-8, False)):
        budget = Budget(0.5)
        if fits:
            assert budget.spend(0.5 * (1 + over), on="a") == 0.5
        else:
            with pytest.raises(RequestError, match="at most 0.5"):
                budget.spend(0.5 * (1 + over), on="a")


def test_numbers_of_other_kinds_are_money_too():
    budget = Budget(Fraction(1, 8))
    assert budget.spend(np.float32(0.0625), on="a") == 0.0625 == budget.left == budget.share(1)


def test_a_real_overspend_names_who_spent():
    budget = Budget(0.001)
    budget.spend(0.0007, on="router")
    with pytest.raises(RequestError, match=r"expected at most 0\.000\d+ for 'expert'.*0\.0007 on 'router'"):
        budget.spend(0.0004, on="expert")
    assert budget.ledger == (("router", 0.0007),)


def test_all_of_alpha_is_spent_once_and_only_where_nothing_was():
    for before in (0.05, 0.001, 0.1):
        budget = Budget(0.1)
        budget.spend(before, on="the first bound")
        with pytest.raises(RequestError, match="'the first bound'"):
            budget.spend(0.1, on="all of it again")
        assert sum(Fraction(entry.alpha) for entry in budget.ledger) <= Fraction(0.1)


def test_nothing_is_left_after_all_was_spent():
    budget = Budget(0.001)
    budget.spend(0.001, on="router")
    assert budget.left == 0.0
    with pytest.raises(RequestError, match="at most"):
        budget.spend(1e-300, on="expert")
    with pytest.raises(RequestError, match=r"something left.*0\.001 on 'router'"):
        budget.share(2)


@pytest.mark.parametrize("amount", [0.0, -0.1, float("nan"), float("inf"), True])
def test_only_positive_amounts_can_be_spent(amount):
    with pytest.raises(RequestError, match="positive number"):
        Budget(0.1).spend(amount, on="router")


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 1.5, float("nan"), True])
def test_alpha_is_a_chance(alpha):
    with pytest.raises(RequestError, match="alpha"):
        Budget(alpha)


@pytest.mark.parametrize("parts", [0, -1, 1.5, True])
def test_shares_are_counted(parts):
    with pytest.raises(RequestError, match="whole number of parts"):
        Budget(0.1).share(parts)


levels = st.floats(min_value=0, max_value=1, exclude_min=True, exclude_max=True)


@patient
@given(levels, st.lists(st.floats(1e-6, 0.6), max_size=30))
def test_grants_never_sum_to_more_than_alpha(alpha, parts):
    budget = Budget(alpha)
    for part in parts:
        try:
            grant = budget.spend(max(alpha * part, 5e-324), on="bound")
        except RequestError:
            continue
        assert 0 < grant <= max(alpha * part, 5e-324)
    assert Fraction(budget.left) + granted(budget) <= Fraction(alpha)
    assert granted(budget) <= Fraction(budget.spent)


@patient
@given(st.floats(1e-12, 1, exclude_max=True), st.integers(1, 2000))
def test_equal_shares_always_fit(alpha, parts):
    budget = Budget(alpha)
    share = budget.share(parts)
    for _ in range(parts):
        assert budget.spend(share, on="bound") == share
    assert share * parts == pytest.approx(alpha, rel=1e-12)
    assert granted(budget) <= Fraction(alpha)


@patient
@given(st.floats(1e-12, 1, exclude_max=True), st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_shares_by_weight_all_fit_whatever_the_rounding(alpha, weights):
    budget = Budget(alpha)
    for weight in weights:
        asked = alpha * (weight / sum(weights))
        assert budget.spend(asked, on="bound") == pytest.approx(asked, rel=1e-9)
    assert granted(budget) <= Fraction(alpha)


@pytest.mark.parametrize("alpha", ["0.1", None, 1j, True, [0.1]])
def test_what_is_no_number_is_no_budget(alpha):
    with pytest.raises(RequestError, match="positive number"):
        Budget(alpha)
