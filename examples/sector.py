"""Constant against semi-elastic noise on sector data, in 2 to 400 dimensions: when noise should follow the input.

    python examples/sector.py --out sector      # two figures and a table; 20 seconds of one core

The experiment of Sukenik et al. (2022), Appendix A: one class fills a narrow cone, densest at its tip, the other
surrounds it. Little noise is needed at the tip, where the classes meet, and much far out, where a constant sigma
certifies no more than its samples allow. sigma(x) grows with the distance to the nearest training points, at a
proved rate, and every radius is a certificate at level alpha. Dimensions, noise levels and rates are the paper's;
where the paper is silent (the scale of the data, k, the offset) the choice is ours: the offset makes the mean of
sigma(x) over the training set that of the constant noise, so neither side has more noise to spend. The base
network is trained without noise.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.patches import Circle
from numpy.typing import NDArray
from torch import nn

from sigmax.bounds import lower, upper
from sigmax.radius import gaussian, semi_elastic
from sigmax.report.plots.style import COLOURS, new_figure, plain
from sigmax.schemes.fields import NearestNeighbourSigma

Floats = NDArray[np.float64]

CONSTANT, ELASTIC = COLOURS[3], COLOURS[2]


class Setting(NamedTuple):
    """One dimension of the experiment; noise in the units of the data."""

    dim: int
    sigma: float  # constant noise
    base: float  # of the semi-elastic noise
    rate: float


SETTINGS = (  # Sukenik et al. (2022), A.5
    Setting(2, 0.5, 0.4, 0.2),
    Setting(6, 0.5, 0.4, 0.1),
    Setting(18, 1.0, 0.8, 0.05),
    Setting(60, 1.0, 0.8, 0.03),
    Setting(180, 2.0, 1.9, 0.01),
    Setting(400, 2.0, 1.95, 0.005),
)
TRAIN, TEST = 500, 150  # points a class
HALF_ANGLE = np.pi / 12  # of the cone
NEIGHBOURS, SELECT, ALPHA = 20, 100, 0.001


def sector(dim: int, count: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
    """Points of both classes: 1 in the cone about the first axis, 0 outside of it; dense at the tip."""
    reach = 2.5 * np.sqrt(dim) * np.sqrt(rng.chisquare(2, 2 * count) / 2)
    across = rng.normal(size=(2 * count, dim - 1))
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    angles = np.concatenate([_outside(dim, count, rng), HALF_ANGLE * rng.random(count)])
    points = reach[:, None] * np.column_stack([np.cos(angles), np.sin(angles)[:, None] * across])
    return points, np.repeat([0, 1], count)


def _outside(dim: int, count: int, rng: np.random.Generator) -> Floats:
    """Angles from the axis of directions that are uniform but for the cone."""
    found: list[float] = []
    while len(found) < count:
        direction = rng.normal(size=dim)
        angle = float(np.arccos(direction[0] / np.linalg.norm(direction)))
        found += [angle] if angle > HALF_ANGLE else []
    return np.array(found)


def trained(points: Floats, labels: NDArray[np.int64], seed: int) -> nn.Module:
    """A network of three layers, 20 wide, without noise in training."""
    torch.manual_seed(seed)
    dim = points.shape[1]
    model = nn.Sequential(nn.Linear(dim, 20), nn.ReLU(), nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, 2))
    x, y = torch.from_numpy(points).float(), torch.from_numpy(labels)
    steps = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3)
    for _ in range(300):
        steps.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        torch.autograd.backward(loss)
        steps.step()
    return model.eval()


class Result(NamedTuple):
    """What was certified at the test points: class (-1 for none) and radius."""

    predicted: NDArray[np.int64]
    radius: Floats


Radius = Callable[[float, float], float]


def certified(model: nn.Module, points: Floats, sigmas: Floats, radius: Radius, *, samples: int, seed: int) -> Result:
    """The two stages of Cohen et al. (2019) at each point, with its own sigma."""
    random = torch.Generator().manual_seed(seed)
    labels, radii = [], []
    for x, sigma in zip(torch.from_numpy(points).float(), sigmas.tolist(), strict=True):
        top = int(_votes(model, x, sigma, SELECT, random).argmax())
        bound = lower(int(_votes(model, x, sigma, samples, random)[top]), samples, ALPHA)
        labels.append(top if bound > 0.5 else -1)
        radii.append(radius(sigma, bound))
    return Result(np.array(labels), np.array(radii))


@torch.inference_mode()
def _votes(model: nn.Module, x: torch.Tensor, sigma: float, samples: int, random: torch.Generator) -> torch.Tensor:
    noisy = x + sigma * torch.randn(samples, len(x), generator=random)
    votes: torch.Tensor = model(noisy).argmax(dim=1)
    return votes.bincount(minlength=2)


class Experiment(NamedTuple):
    """All of one dimension."""

    setting: Setting
    model: nn.Module
    train: tuple[Floats, NDArray[np.int64]]
    test: tuple[Floats, NDArray[np.int64]]
    field: NearestNeighbourSigma
    constant: Result
    elastic: Result


def measured(setting: Setting, *, samples: int, seed: int) -> Experiment:
    """Train once, certify the same test points under both kinds of noise."""
    rng = np.random.default_rng([seed, setting.dim])
    train, test = sector(setting.dim, TRAIN, rng), sector(setting.dim, TEST, rng)
    model = trained(*train, seed)
    field = fitted(train[0], setting)
    even = np.full(len(test[0]), setting.sigma)
    constant = certified(model, test[0], even, gaussian, samples=samples, seed=seed)

    def radius(sigma: float, bound: float) -> float:
        return semi_elastic(sigma, bound, field.rate, setting.dim, jitter=field.jitter)

    elastic = certified(model, test[0], field.sigmas(test[0]), radius, samples=samples, seed=seed)
    return Experiment(setting, model, train, test, field, constant, elastic)


def fitted(points: Floats, setting: Setting) -> NearestNeighbourSigma:
    """The field whose mean over the training points is the constant noise."""
    raw = NearestNeighbourSigma(points, base=setting.base, rate=setting.rate, k=NEIGHBOURS, offset=0.0)
    offset = np.log(raw.sigmas(points).mean() / setting.sigma) / setting.rate
    return NearestNeighbourSigma(points, setting.base, setting.rate, NEIGHBOURS, float(offset))


# Figures


def draw_plane(experiment: Experiment, path: Path) -> None:
    """Data and sigma(x), both decision boundaries near the tip, certified accuracy: Figure 1 of the paper."""
    figure = new_figure(12.0)
    data, near, curves = (figure.add_subplot(1, 3, place) for place in (1, 2, 3))
    points, labels = experiment.test
    for ax in (data, near):
        for label, colour in enumerate(COLOURS[:2]):
            ax.plot(*points[labels == label].T, ".", color=colour, markersize=4, label=f"class {label}")
        ax.set_aspect("equal")
    _circles(data, points, experiment.field.sigmas(points))
    data.set_title(r"data; circles: $\sigma(x)$", fontsize="medium")
    data.legend(fontsize="small")
    _boundaries(near, experiment)
    _accuracy(curves, experiment)
    curves.legend(fontsize="small")
    figure.savefig(path, dpi=120, metadata={"Software": None})


def _circles(ax: Any, points: Floats, sigmas: Floats) -> None:
    for point, sigma in zip(points[::3], sigmas[::3], strict=True):
        ax.add_patch(Circle(tuple(point), sigma, fill=False, color="0.7", linewidth=0.5))


def _boundaries(ax: Any, experiment: Experiment) -> None:
    """Where the vote is even, under both kinds of noise, from the same standard noise everywhere."""
    xs, ys = np.linspace(-2, 6, 81), np.linspace(-3, 3, 61)
    grid = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)
    noise = np.random.default_rng(0).normal(size=(400, 2))
    for sigmas, colour in (
        (np.full(len(grid), experiment.setting.sigma), CONSTANT),
        (experiment.field.sigmas(grid), ELASTIC),
    ):
        noisy = torch.from_numpy(grid[:, None] + sigmas[:, None, None] * noise).float()
        with torch.inference_mode():
            share = experiment.model(noisy).argmax(dim=2).double().mean(dim=1).numpy()
        ax.contour(xs, ys, share.reshape(len(ys), len(xs)), levels=[0.5], colors=colour)
    ax.set(xlim=(-2, 6), ylim=(-3, 3))
    ax.set_title("where the vote is even, near the tip", fontsize="medium")


def draw_dimensions(experiments: list[Experiment], path: Path) -> None:
    """Certified accuracy in every dimension: Figure 10 of the paper."""
    figure = new_figure(11.0)
    columns = min(3, len(experiments))
    for place, experiment in enumerate(experiments, start=1):
        ax = figure.add_subplot(-(-len(experiments) // columns), columns, place)
        _accuracy(ax, experiment)
        if place == 1:
            ax.legend(fontsize="x-small")
    figure.savefig(path, dpi=120, metadata={"Software": None})


def _accuracy(ax: Any, experiment: Experiment) -> None:
    """Certified accuracy with its 95% interval over test points."""
    most = max(experiment.constant.radius.max(), experiment.elastic.radius.max())
    radii = np.linspace(0, 1.05 * most, 200)
    setting, n = experiment.setting, len(experiment.test[1])
    names = (rf"$\sigma$ = {setting.sigma:g}", rf"$\sigma(x)$, rate {setting.rate:g}")
    for name, result, colour in zip(names, (experiment.constant, experiment.elastic), (CONSTANT, ELASTIC), strict=True):
        right = result.predicted == experiment.test[1]
        k = np.array([int((right & (result.radius >= r)).sum()) for r in radii])
        ax.plot(radii, 100 * k / n, color=colour, label=name)
        ax.fill_between(
            radii, 100 * lower(k, n, 0.025), 100 * upper(k, n, 0.025), color=colour, alpha=0.15, linewidth=0
        )
    ax.set_title(f"dimension {setting.dim}", fontsize="medium")
    ax.set(ylim=(0, 100), xlim=(0, radii[-1]))
    plain(ax, "radius", "certified accuracy (%)")


def table(experiments: list[Experiment]) -> str:
    """Accuracy and mean certified radius of both, one row a dimension; the paper's Table 5 has the first."""
    lines = [
        "| dimension | rate | sigma(x) | accuracy % constant | elastic | mean radius constant | elastic |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for experiment in experiments:
        truth, sigmas = experiment.test[1], experiment.field.sigmas(experiment.test[0])
        cells = []
        for result in (experiment.constant, experiment.elastic):
            right = result.predicted == truth
            cells.append((100 * right.mean(), (right * result.radius).mean()))
        (share, mean), (elastic_share, elastic_mean) = cells
        about = f"{experiment.setting.dim} | {experiment.setting.rate:g} | {sigmas.min():.2f} to {sigmas.max():.2f}"
        lines.append(f"| {about} | {share:.1f} | {elastic_share:.1f} | {mean:.3f} | {elastic_mean:.3f} |")
    return "\n".join(lines)


def main() -> None:
    """Run it and write its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("sector"), help="folder for the figures")
    parser.add_argument("--dims", type=int, nargs="+", default=[s.dim for s in SETTINGS], help="dimensions to run")
    parser.add_argument("--samples", type=int, default=2_000, help="votes of the estimation stage")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chosen = [setting for setting in SETTINGS if setting.dim in given.dims]
    if not chosen:
        parser.error(f"expected dimensions among {[s.dim for s in SETTINGS]}, got {given.dims}")
    begun = time.perf_counter()
    experiments = [measured(setting, samples=given.samples, seed=given.seed) for setting in chosen]
    given.out.mkdir(parents=True, exist_ok=True)
    draw_dimensions(experiments, given.out / "dimensions.png")
    for experiment in experiments:
        if experiment.setting.dim == 2:
            draw_plane(experiment, given.out / "plane.png")
    print(table(experiments))
    print(f"{len(chosen)} dimensions in {time.perf_counter() - begun:.0f} s; figures in {given.out}")


if __name__ == "__main__":
    main()
