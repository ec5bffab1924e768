from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from sigmax.records.run import Run
from sigmax.report import acr, average_radius, sensitivity
from sigmax.report.metrics.accuracy import easiest_share

MakeRun = Callable[..., Run]


def test_it_never_stands_alone(make_run: MakeRun) -> None:
    run = make_run(*[(1, 1, 3.0)], *[(1, 1, 1.0)] * 7, (1, 1, 0.0), (1, 0, 9.0))
    found = average_radius(run)
    assert found.value == acr(run) == 1.0
    assert found.easiest_tenth == 0.3
    assert str(found).startswith("ACR 1.0000, 30.0% of it from the easiest tenth of 10 inputs. ACR is a poor metric:")


radii = st.lists(st.floats(0.0, 4.0), min_size=1, max_size=50)


@given(radii, st.integers(0, 20))
def test_the_easiest_tenth_makes_at_least_its_part(certified: list[float], without: int) -> None:
    inputs = len(certified) + without
    share = easiest_share(np.sort(certified), inputs)
    if sum(certified):
        assert 0.1 - 1e-12 <= share <= 1 + 1e-12
    else:
        assert share == 0


def test_a_tenth_of_a_few_inputs_is_a_part_of_one() -> None:
    assert easiest_share(np.array([1.0, 3.0]), 2) == pytest.approx(0.2 * 3 / 4)
    assert easiest_share(np.array([1.0, 1.0, 2.0]), 15) == pytest.approx((2 + 0.5) / 4)


def test_sensitivity_is_the_slope_of_the_radius() -> None:
    """Sun et al. (2025), Sec. 4.2: above 1,000 sigma near p_A = 1, nothing below one half."""
    p, h = np.array([0.6, 0.9, 0.99, 0.9999]), 1e-7
    slope = (norm.ppf(p + h) - norm.ppf(p - h)) / (2 * h)
    assert sensitivity(p, sigma=0.5) == pytest.approx(0.5 * slope, rel=1e-5)
    assert sensitivity([0.2, 0.5]).tolist() == [0.0, 0.0]
    assert sensitivity(0.9999) > 1000


def test_published_logs_owe_much_to_few_inputs(published: Callable[[str], Run]) -> None:
    """The method with the larger ACR gets more of it from its easiest tenth."""
    catrs, gaussian = (average_radius(published(log)) for log in ("catrs-noise_1.0", "gaussian-noise_0.5"))
    assert catrs.value == pytest.approx(0.815, abs=5e-4)
    assert gaussian.value == pytest.approx(0.571, abs=5e-4)
    assert catrs.easiest_tenth > 0.42
    assert gaussian.easiest_tenth < 0.31
