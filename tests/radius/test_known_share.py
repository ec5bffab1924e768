"""Radii where p_A is known: inverses of each other, and never below what is certified."""

import numpy as np
import pytest
from scipy.stats import norm

from sigmax import radius
from sigmax.errors import RequestError
from sigmax.radius.known_share import least_share, limit, most_missing, slope

SHARES = np.array([0.5, 0.6, 0.9, 0.999, 1 - 1e-9])


def test_radius_and_share_are_inverses():
    assert limit(0.5, SHARES) == pytest.approx(0.5 * norm.ppf(SHARES))
    assert least_share(0.5, limit(0.5, SHARES)) == pytest.approx(SHARES)
    assert most_missing(0.5, limit(0.5, SHARES)) == pytest.approx(1 - SHARES, rel=1e-6)
    assert most_missing(0.25, 3.0) == pytest.approx(norm.sf(12.0))


def test_no_certificate_exceeds_the_limit():
    assert np.all(radius.gaussian(0.5, SHARES) <= limit(0.5, SHARES))


def test_below_one_half_there_is_none():
    assert limit(1.0, [0.0, 0.2, 0.5]).tolist() == [0.0, 0.0, 0.0]
    assert slope(1.0, [0.2, 0.5]).tolist() == [0.0, 0.0]
    assert isinstance(limit(1.0, 0.7), float)


@pytest.mark.parametrize(("sigma", "p"), [(0.0, 0.5), (1.0, 1.5), (1.0, "0.5")])
def test_what_is_no_share_is_refused(sigma, p):
    with pytest.raises(RequestError):
        limit(sigma, p)
