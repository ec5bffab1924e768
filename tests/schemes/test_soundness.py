"""End to end: certificates against problems whose exact radius is known.

# N certifications, alpha each; a certificate is wrong if its class or its radius exceeds the truth
"""

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats

import sigmax as sx

ALPHA = 0.05
SUSPICIOUS = 1e-4  # a correct bound fails this exact test once in 10,000 runs; the seeds are fixed


def halfspace(w: torch.Tensor, b: float):
    return lambda batch: (batch @ w + b > 0).long()


def exceeding(certificates, truth_class, truth_radius) -> int:
    """How many certificates claim a wrong class or more than the true radius."""
    return sum(
        c.predicted is not None and (c.predicted != truth_class or c.radius > truth_radius) for c in certificates
    )


def assert_consistent_with_alpha(wrong: int, total: int, alpha: float) -> None:
    assert stats.binomtest(wrong, total, alpha, alternative="greater").pvalue > SUSPICIOUS, (wrong, total)


@pytest.mark.parametrize(
    ("dim", "repeats"), [(3, 2_000), *(pytest.param(dim, 8_000, marks=pytest.mark.slow) for dim in (1, 64))]
)
def test_affine_classifiers_are_not_certified_beyond_their_hyperplane(dim, repeats):
    """18,000 certifications in all; one-sided bound, which an affine classifier meets exactly."""
    rng = torch.Generator().manual_seed(dim)
    wrong = total = 0
    for margin in (0.02, 0.3, 0.7, 1.2):
        w = torch.randn(dim, generator=rng)
        x = torch.randn(dim, generator=rng)
        sigma = 0.5
        b = float(margin * w.norm() - x @ w)
        exact = float((x.double() @ w.double() + b) / w.double().norm())
        f = sx.Smoothed(halfspace(w, b), sigma=sigma, classes=2)
        found = f.certify(x.expand(repeats // 4, dim), n0=20, n=250, alpha=ALPHA, seed=dim)
        wrong += exceeding(found, 1, exact)
        total += len(found)
    assert total == repeats
    assert_consistent_with_alpha(wrong, total, ALPHA)
    # The test can fail: the claims do press against alpha, and a bound at 3 alpha would be caught.
    assert wrong > total * ALPHA / 4
    assert stats.binomtest(int(3 * ALPHA * total), total, ALPHA, alternative="greater").pvalue < SUSPICIOUS


def slab_probabilities(t: float, sigma: float, a: float, b: float) -> tuple[float, float, float]:
    """Class shares at t of the classifier 0 (t > a), 1 (t < b), 2 (between), by quadrature of the density."""

    def share(low: float, high: float) -> float:
        low, high = max(low, t - 12 * sigma), min(high, t + 12 * sigma)
        if low >= high:
            return 0.0
        return float(
            integrate.quad(
                lambda u: stats.norm.pdf(u, t, sigma),
                low,
                high,
                epsabs=1e-13,
                points=[t] if low < t < high else None,
            )[0]
        )

    return share(a, np.inf), share(-np.inf, b), share(b, a)


def slab_radius(t: float, sigma: float, a: float, b: float) -> float:
    """Distance from t to the nearest point where class 0 no longer has the largest share."""

    def lead(r: float) -> float:
        p, q, m = slab_probabilities(t - r, sigma, a, b)
        return p - max(q, m)

    assert lead(0.0) > 0
    return float(optimize.brentq(lead, 0.0, 5.0, xtol=1e-12))


@pytest.mark.parametrize(
    ("t", "a", "b"),
    [(0.45, 0.5, 0.25), (0.3, 0.2, 0.0), (0.62, 0.5, 0.25), (0.5, 0.52, -0.3)],
)
def test_three_classes_are_not_certified_beyond_the_exact_radius(t, a, b):
    """Runner-up bound: where the two outer classes meet its radius is exact, also with a top share under 1/2."""
    sigma, dim, repeats = 0.5, 2, 1_500
    exact = slab_radius(t, sigma, a, b)
    w = torch.tensor([0.6, 0.8])

    def model(batch):
        s = batch @ w
        return torch.where(s > a, 0, torch.where(s < b, 1, 2))

    f = sx.Smoothed(model, sigma=sigma, classes=3, bound="runner-up")
    found = f.certify((t * w).expand(repeats, dim), n0=50, n=400, alpha=ALPHA, seed=7)
    assert_consistent_with_alpha(exceeding(found, 0, exact), repeats, ALPHA)


def test_the_runner_up_bound_certifies_where_half_of_the_votes_are_missing():
    sigma, t, a, b = 0.5, 0.45, 0.5, 0.25
    top, *others = slab_probabilities(t, sigma, a, b)
    assert top < 0.5
    assert top > max(others)

    def model(batch):
        return torch.where(batch[:, 0] > a, 0, torch.where(batch[:, 0] < b, 1, 2))

    x = torch.tensor([[t]])
    (one_sided,) = sx.Smoothed(model, sigma=sigma, classes=3).certify(x, n=10_000)
    (runner_up,) = sx.Smoothed(model, sigma=sigma, classes=3, bound="runner-up").certify(x, n=10_000)
    assert one_sided.outcome is sx.Outcome.NO_MAJORITY
    assert runner_up.predicted == 0
    assert 0 < runner_up.radius <= slab_radius(t, sigma, a, b)


def test_predictions_are_wrong_no_more_often_than_alpha():
    """Close to the boundary: the returned class is the smoothed one, or the predictor abstains."""
    w, repeats = torch.tensor([1.0, 0.0]), 4_000
    f = sx.Smoothed(halfspace(w, 0.0), sigma=1.0, classes=2)
    x = torch.tensor([0.05, 0.3]).expand(repeats, 2)
    found = f.predict(x, n=100, alpha=ALPHA, seed=11)
    wrong = sum(p.predicted == 0 for p in found)
    assert_consistent_with_alpha(wrong, repeats, ALPHA)
    assert sum(p.predicted == 1 for p in found) > wrong
