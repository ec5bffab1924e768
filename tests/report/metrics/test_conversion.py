from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sigmax import RequestError
from sigmax.planning import radius_of
from sigmax.records.run import Run
from sigmax.report import (
    certified_accuracy,
    curve_to_ecdf,
    ecdf,
    ecdf_to_curve,
    plug_in,
    share_of_radius,
)
from tests.report.duals import LOW, run_of, votes

PAPER = {"sigma": 1.0, "n": 100_000, "alpha": 1e-3}
GRID = np.arange(11) * 0.25
OURS = {"sigma": 0.5, "n": 1000, "alpha": 1e-3}


def test_the_papers_example() -> None:
    assert share_of_radius(0.5, sigma=1.0, n=100, alpha=0.01).tolist() == [0.81]


def test_radius_and_share_are_each_others_inverse() -> None:
    k = np.array([560, 600, 777, 999, 1000])
    assert share_of_radius(radius_of(k, **OURS), **OURS).tolist() == (k / 1000).tolist()
    assert np.isnan(share_of_radius(10.0, **OURS)).all()


@pytest.fixture(scope="module")
def run() -> Run:
    counts = (300, 540, 560, 600, 700, 777, 800, 900, 990, 1000)
    return run_of(LOW, [(0, votes(0, k)) for k in counts], name="some")


def test_a_curve_becomes_the_distribution_it_came_from(run: Run) -> None:
    radii = np.unique([record.certificate.radius for record in run.records if record.correct])
    points = curve_to_ecdf(radii, certified_accuracy(run, radii).to_numpy(), **OURS)
    assert points["share"].tolist() == ecdf(run, points["p"].to_numpy())["share"].tolist()
    assert points["p"].tolist() == [0.56, 0.6, 0.7, 0.777, 0.8, 0.9, 0.99, 1.0]


def test_and_back(run: Run) -> None:
    points = ecdf(run)
    radii = [0.0, 0.1, 0.25, 0.3, 0.5, 1.0, 5.0]
    again = ecdf_to_curve(points["p"], points["share"], radii, **OURS)
    exact = certified_accuracy(run, radii).to_numpy()
    assert np.all((again["low"] <= exact) & (exact <= again["high"]))
    # The distribution falls right after each of its points, so between two of them its lower limit is exact.
    assert again["low"].tolist() == exact.tolist()


def test_at_other_samples_it_is_the_plug_in(run: Run) -> None:
    points, radii = ecdf(run), [0.0, 0.2, 0.4, 0.6]
    again = ecdf_to_curve(points["p"], points["share"], radii, sigma=0.5, n=100, alpha=0.01)
    assert again["low"].tolist() == plug_in(run, n=100, alpha=0.01).accuracy(radii).tolist()


def test_a_published_table_and_its_distribution(shared: Path, published: Callable[[str], Run]) -> None:
    """Both directions between the paper's table (one decimal) and its 501 points: they agree to the last digit."""
    table = np.array([43.2, 40.2, 37.2, 34.3, 31.0, 28.1, 24.9, 22.0, 19.3, 16.8, 14.2]) / 100
    points = pd.read_csv(shared / "fixtures" / "field-logs" / "acr-weakness-ecdf-catrs_1.0.csv", sep="\t")
    curve = ecdf_to_curve(points["x"], points["y"], GRID, **PAPER)
    rounding = 5e-4
    assert np.all((curve["low"] - rounding <= table) & (table <= curve["high"] + rounding))
    converted = curve_to_ecdf(GRID, table, **PAPER)
    log = ecdf(published("catrs-noise_1.0"), converted["p"].to_numpy())
    assert np.abs(converted["share"] - log["share"]).max() < 2.5e-3  # radii printed as 1.0 may be a little less


def test_points_between_and_beyond() -> None:
    found = ecdf_to_curve([0.6, 0.8], [0.5, 0.3], [0.0, 0.2, 0.5, 5.0], **OURS)
    assert np.isnan(found["high"][0]), "F is not known before its first point"
    assert found["low"][0] == 0.5
    assert found["low"][1] == 0.3 < found["accuracy"][1] < found["high"][1] == 0.5
    assert (found["low"][2], found["high"][2]) == (0.0, 0.3)
    assert found.iloc[3, 1:].tolist() == [0.0, 0.0, 0.0], "out of reach"


@pytest.mark.parametrize(
    ("radii", "accuracy", "message"),
    [
        ([0.0, 0.5], [43.2, 40.2], "divide percents by 100"),
        ([0.0, 0.5], [0.4], "expected one accuracy from 0 to 1 for each of the 2 radii"),
        ([0.0, 0.5], [0.3, 0.4], "never rises"),
        ([0.5, 0.5], [0.4, 0.3], "expected different radii"),
        ([-0.5, 0.5], [0.4, 0.3], "radii must be"),
    ],
)
def test_curves_that_cannot_be(radii: list[float], accuracy: list[float], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        curve_to_ecdf(radii, accuracy, **OURS)
