from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigmax import RequestError
from sigmax.records.rounding import Precision, down, share_down, share_up, two_digits_up, up

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite, st.integers(0, 20))
def test_down_never_exceeds_the_value_and_stays_within_one_unit(value: float, decimals: int) -> None:
    short = Fraction(value) - Fraction(down(value, decimals))
    assert 0 <= short < Fraction(1, 10**decimals)


@given(finite, st.integers(0, 20))
def test_down_prints_as_many_decimals_as_asked_and_no_exponent(value: float, decimals: int) -> None:
    whole, _, fraction = down(value, decimals).partition(".")
    assert len(fraction) == decimals
    assert whole.lstrip("-").isdigit()


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (0.9999999, 3, "0.999"),
        (0.25, 6, "0.250000"),
        (3.8114565633899145, 4, "3.8114"),
        (0.978, 3, "0.977"),  # the float lies below 0.978
        (0.3, 1, "0.2"),  # the float lies below 0.3
        (1e-9, 6, "0.000000"),
        (-0.0, 2, "0.00"),
        (-0.001, 2, "-0.01"),
        (7.9, 0, "7"),
    ],
)
def test_down_of_known_values(value: float, decimals: int, text: str) -> None:
    assert down(value, decimals) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_down_refuses_what_is_no_number(value: float) -> None:
    with pytest.raises(RequestError, match="finite"):
        down(value, 3)


@given(st.lists(st.floats(1e-4, 100), min_size=1))
def test_the_number_behind_three_significant_digits_lies_within_the_slack(values: list[float]) -> None:
    printed = [f"{value:.3}" for value in values]
    precision = Precision.of([*printed, "0.123", "1.23"])
    for value, text in zip(values, printed, strict=True):
        assert abs(float(text) - value) <= precision.slack(float(text)) * (1 + 1e-9)


@given(st.lists(st.floats(1e-4, 100), min_size=1), st.integers(1, 6))
def test_the_number_behind_fixed_decimals_lies_within_the_slack(values: list[float], decimals: int) -> None:
    printed = [f"{value:.{decimals}f}" for value in values]
    precision = Precision.of(printed)
    for value, text in zip(values, printed, strict=True):
        if float(text) > 0:
            assert abs(float(text) - value) <= precision.slack(float(text)) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("texts", "value", "slack"),
    [
        (["0.978", "0.0449", "1.0"], 1.0, 0.005),  # 1.0 is 1.00 with its zero dropped
        (["0.978", "0.0449"], 0.0449, 0.00005),
        (["0.978", "0.045"], 0.045, 0.0005),  # the same decimals everywhere
        (["0.120000", "1.500000", "0.000000"], 1.5, 5e-7),
        (["0.0", "0.0"], 1.23, 0.005),  # nothing but zeros, as published logs have them
        (["5.01e-05", "0.123"], 5.01e-05, 5e-8),
        (["nan", "0.12", "1.234"], 1.234, 0.0005),
        (["0.5", "0.25"], 0.0, 0.0),
    ],
)
def test_slack_is_half_a_unit_in_the_last_digit_kept(texts: list[str], value: float, slack: float) -> None:
    assert Precision.of(texts).slack(value) == pytest.approx(slack, rel=1e-12)


def test_precision_says_what_it_is() -> None:
    assert str(Precision.of(["0.978", "0.0449"])) == "3 significant digits"
    assert str(Precision.of(["0.978000", "0.044900"])) == "6 decimals"


@pytest.mark.parametrize(
    ("k", "n", "shown"), [(748, 1000, "74.8"), (3, 1000, "0.3"), (2499, 2500, "99.9"), (1, 3, "33.3")]
)
def test_a_share_is_rounded_down_but_not_below_itself(k: int, n: int, shown: str) -> None:
    assert share_down(100 * k / n) == shown


def test_every_share_is_the_floor_of_its_tenths() -> None:
    for n in (7, 360, 1000, 9999):
        for k in range(n + 1):
            assert share_down(100 * k / n) == f"{1000 * k // n / 10:.1f}"


@given(finite, st.integers(0, 20))
def test_up_is_never_below_the_value_and_mirrors_down(value: float, decimals: int) -> None:
    over = Fraction(up(value, decimals)) - Fraction(value)
    assert 0 <= over < Fraction(1, 10**decimals)
    assert Fraction(up(value, decimals)) == -Fraction(down(-value, decimals))
    assert not up(value, decimals).startswith("-") or Fraction(up(value, decimals)) < 0


@pytest.mark.parametrize(("k", "n", "shown"), [(0, 7, "0.0"), (1, 3, "33.4"), (3, 8, "37.5"), (7, 7, "100.0")])
def test_a_loss_is_rounded_up_but_not_above_itself(k: int, n: int, shown: str) -> None:
    assert share_up(100 * k / n) == shown


@given(st.floats(1e-300, 1.0))
def test_a_p_value_is_never_shown_smaller_than_it_is(value):
    shown = two_digits_up(value)
    assert value <= float(shown) <= value * 1.1 * (1 + 1e-12)
    assert Decimal(value) <= Decimal(shown)


@pytest.mark.parametrize(("value", "shown"), [(0.00104, "1.1e-3"), (0.5, "5.0e-1"), (1.0, "1.0e+0"), (0.999, "1.0e+0")])
def test_a_p_value_has_two_digits(value, shown):
    assert two_digits_up(value) == shown
