"""The limits of noise ratios: the published table, the published theorem, and what xi says at distance 0."""

import math

import pytest

from sigmax.errors import RequestError
from sigmax.radius import ratio_limits, sharp_ratio_limits

BOUNDS = (0.9, 0.99, 0.999, 0.99993)


@pytest.mark.parametrize(
    ("dim", "published"),
    [
        (784, (0.946, 0.924, 0.908, 0.892)),
        (3072, (0.973, 0.962, 0.953, 0.945)),
        (3 * 256 * 256, (0.997, 0.995, 0.994, 0.993)),
    ],
)
def test_the_published_table(dim, published):
    # Sukenik et al. (2022), Table 1. There CIFAR-10 at 0.99 is cut off to 0.961; the theorem gives 0.9615.
    assert [ratio_limits(p, dim).least for p in BOUNDS] == pytest.approx(published, abs=5e-4)


@pytest.mark.parametrize("dim", [2, 784, 196_608])
@pytest.mark.parametrize("bound", BOUNDS)
def test_the_theorem_holds_with_equality_at_the_limits(dim, bound):
    least, greatest = ratio_limits(bound, dim)
    depth = 2 * math.log(1 - bound) / dim
    for square in (least**2, greatest**2 * (dim - 1) / dim):
        assert math.log(square) + 1 - square == pytest.approx(depth, rel=1e-6)


@pytest.mark.parametrize("dim", [1, 2, 3, 784, 196_608])
@pytest.mark.parametrize("bound", BOUNDS)
def test_the_sharp_limits_lie_inside(dim, bound):
    wide, sharp = ratio_limits(bound, dim), sharp_ratio_limits(bound, dim)
    assert wide.least < sharp.least < 1 < sharp.greatest < wide.greatest


@pytest.mark.parametrize("arguments", [(0.5, 10), (1.0, 10), (0.3, 10), (1.2, 10), (0.9, 0), (0.9, 2.5)])
def test_a_wrong_request_is_refused_with_advice(arguments):
    for function in (ratio_limits, sharp_ratio_limits):
        with pytest.raises(RequestError, match=r"expected.*got.*;"):
            function(*arguments)
