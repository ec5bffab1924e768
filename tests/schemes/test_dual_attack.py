"""Attacks from inside: every point of certified balls in the plane is looked at, and the worst are voted on."""

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from torch import nn

import sigmax as sx

pytestmark = pytest.mark.slow
STEP, EDGE, CALM = 0.02, 4.0, 2.0  # grid of [-4, 4]^2; within [-2, 2]^2 its end is 4 sigma away and more
SIGMAS, ROUTER = (0.12, 0.25, 0.5), 0.5
MARKS = np.arange(-EDGE, EDGE + STEP / 2, STEP)
GRID = np.stack(np.meshgrid(MARKS, MARKS, indexing="ij"), axis=-1)


def wiggly(seed: int, classes: int, shared: nn.Module | None = None) -> nn.Module:
    """A random network whose boundaries turn within a few sigmas; or one that is nearly `shared`."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, classes))
    with torch.no_grad():
        for layer in net[::2]:
            layer.weight.mul_(2.5)
        if shared is not None:
            for ours, theirs in zip(net.parameters(), shared.parameters(), strict=True):
                ours.mul_(0.3).add_(theirs)
    return net


class Plane:
    """A routed system in the plane, with the exact shares of its smoothed networks at every grid point."""

    def __init__(self, seed: int) -> None:
        common = wiggly(seed, 3)
        self.networks = [wiggly(100 + seed, 3), *(wiggly(200 + 10 * seed + j, 3, common) for j in range(3))]
        router, *experts = (
            sx.Smoothed(net, sigma=sigma, classes=3)
            for net, sigma in zip(self.networks, (ROUTER, *SIGMAS), strict=True)
        )
        self.rules = {rule: sx.Dual(router, experts, rule=rule) for rule in ("min", "consensus")}
        self.shares = [smoothed_field(net, s) for net, s in zip(self.networks, (ROUTER, *SIGMAS), strict=True)]
        self.routes = self.shares[0].argmax(0)
        self.classes = np.choose(self.routes, [share.argmax(0) for share in self.shares[1:]])

    def inside(self, x, radius: float) -> np.ndarray:
        """Which grid points lie in the open ball."""
        return np.hypot(*(GRID - x).transpose(2, 0, 1)) < radius

    def weakest(self, x, radius: float) -> list[np.ndarray]:
        """Points of the ball nearest to another route, and to another class of each expert that is in charge."""
        ball = self.inside(x, radius)
        found = []
        for share, where in [
            (self.shares[0], ball),
            *((self.shares[1 + j], ball & (self.routes == j)) for j in range(3)),
        ]:
            if where.any():
                least = np.sort(share, axis=0)
                gap = np.where(where, least[-1] - least[-2], np.inf)
                found.append(GRID[np.unravel_index(gap.argmin(), gap.shape)])
        return found


def smoothed_field(net: nn.Module, sigma: float) -> np.ndarray:
    """Shares (class, x, y) of the noisy votes at every grid point: the class picture, blurred."""
    with torch.no_grad():
        ids = net(torch.from_numpy(GRID).float()).argmax(-1).numpy()
    return np.stack([gaussian_filter((ids == c).astype(float), sigma / STEP, truncate=7.0) for c in range(3)])


def voted(plane: Plane, points) -> list[int]:
    """The routed class by many fresh votes: the route first, then its expert's class."""
    system, x = plane.rules["min"], torch.from_numpy(np.array(points)).float()
    route = [int(np.argmax(p.stages[0].counts)) for p in system.router.predict(x, n=20_000, seed=99)]
    by_expert = [e.predict(x, n=20_000, seed=98) for e in system.experts]
    return [int(np.argmax(by_expert[j][i].stages[0].counts)) for i, j in enumerate(route)]


@pytest.fixture(scope="module")
def planes():
    return [Plane(seed) for seed in range(2)]


@pytest.fixture(scope="module")
def points():
    return np.random.default_rng(5).uniform(-CALM, CALM, size=(60, 2))


def certified(plane: Plane, points, rule: str):
    found = plane.rules[rule].certify(torch.from_numpy(points).float(), n=3_000, alpha=1e-3)
    return [(x, c) for x, c in zip(points.astype(np.float32), found, strict=True) if c.predicted is not None]


@pytest.mark.parametrize("rule", ["min", "consensus"])
def test_no_point_within_a_certified_radius_has_another_class(planes, points, rule):
    looked_at = 0
    for plane in planes:
        found = certified(plane, points, rule)
        for x, c in found:
            ball = plane.inside(x, c.radius)
            assert set(plane.classes[ball]) <= {c.predicted}, (x, c)
            looked_at += int(ball.sum())
        worst = [(p, c.predicted) for x, c in found[:12] for p in plane.weakest(x, c.radius)]
        assert voted(plane, [p for p, _ in worst]) == [c for _, c in worst]
    assert looked_at > 10_000


def test_the_attack_finds_what_is_there_to_be_found(planes, points):
    """A radius that forgets the rival routes is refuted, and so is one half as large again as the certificate."""
    forgetful, greedy, beyond_routes = 0, 0, 0
    for plane in planes:
        for x, c in certified(plane, points, "consensus"):
            alone = next(s for s in c.stages if s.name.startswith("expert") and s.name.endswith("estimation"))
            forgetful += len(set(plane.classes[plane.inside(x, alone.radius)]) - {c.predicted}) > 0
            greedy += len(set(plane.classes[plane.inside(x, 1.5 * c.radius)]) - {c.predicted}) > 0
            beyond_routes += len(set(plane.routes[plane.inside(x, c.radius)])) > 1
    assert forgetful > 10
    assert greedy > 10
    # Among the balls that held are some in which the route changes and the class does not.
    assert beyond_routes > 10
