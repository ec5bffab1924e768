from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from sigmax import RequestError
from sigmax.records.journal import write_all
from sigmax.records.run import Run
from sigmax.report import acr, certified_accuracy, certified_curve
from sigmax.report.metrics.accuracy import grid

MakeRun = Callable[..., Run]
GRID = np.arange(11) * 0.25

# Right at 0.5 and 1.0, wrong, abstaining on a class, right with a radius of nothing.
FIVE = ((1, 1, 0.5), (1, 1, 1.0), (2, 1, 3.0), (0, None, 0.0), (1, 1, 0.0))


def test_a_radius_is_reached_or_exceeded(make_run: MakeRun) -> None:
    run = make_run(*FIVE)
    radii = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]
    assert certified_accuracy(run, radii).tolist() == [0.6, 0.4, 0.4, 0.2, 0.2, 0.0]
    assert certified_accuracy(run, radii, strict=True).tolist() == [0.4, 0.4, 0.2, 0.2, 0.0, 0.0]
    assert certified_accuracy(run, radii).index.tolist() == radii


def test_an_abstention_never_counts(make_run: MakeRun) -> None:
    assert certified_accuracy(make_run((0, None, 0.0), (1, None, 0.0)), 0.0).tolist() == [0.0]


def test_the_average_counts_the_true_class_alone(make_run: MakeRun) -> None:
    assert acr(make_run(*FIVE)) == pytest.approx(1.5 / 5)


def test_an_unfinished_run_speaks_of_what_it_has(make_run: MakeRun) -> None:
    run = make_run(*FIVE, planned=50)
    assert certified_accuracy(run, 0.0).tolist() == [0.6]
    assert acr(run) == pytest.approx(0.3)


triples = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([None, 0, 1, 2]), st.sampled_from([0.0, 0.25, 0.3, 0.5, 1.7])),
    min_size=1,
)


@given(triples, st.booleans())
def test_accuracy_falls_with_the_radius_and_is_what_counting_gives(
    make_run: MakeRun, inputs: list[tuple[int, int | None, float]], strict: bool
) -> None:
    run = make_run(*inputs)
    accuracy = certified_accuracy(run, GRID, strict=strict).to_numpy()
    assert np.all(np.diff(accuracy) <= 0)
    for r, share in zip(GRID, accuracy, strict=True):
        counted = sum(p is not None and p == y and (radius > r if strict else radius >= r) for y, p, radius in inputs)
        assert share == counted / len(inputs)


@given(triples)
def test_the_area_under_the_curve_is_the_average_radius(
    make_run: MakeRun, inputs: list[tuple[int, int | None, float]]
) -> None:
    run = make_run(*inputs)
    curve = certified_curve(run)
    widths = np.diff(curve["radius"], prepend=0.0)
    assert float(np.sum(widths * curve["accuracy"])) == pytest.approx(acr(run), abs=1e-12)


def test_the_curve_holds_up_to_each_radius(make_run: MakeRun) -> None:
    curve = certified_curve(make_run(*FIVE))
    assert curve["radius"].tolist() == [0.0, 0.5, 1.0]
    assert curve["accuracy"].tolist() == [0.6, 0.4, 0.2]


def test_the_band_is_the_exact_interval(make_run: MakeRun) -> None:
    curve = certified_curve(make_run(*FIVE), level=0.9)
    for k, (low, high) in zip((3, 2, 1), zip(curve["low"], curve["high"], strict=True), strict=True):
        exact = binomtest(k, 5).proportion_ci(0.9, method="exact")
        assert (low, high) == pytest.approx((exact.low, exact.high), rel=1e-9)


def test_the_curve_of_a_run_that_certifies_nothing(make_run: MakeRun) -> None:
    curve = certified_curve(make_run((0, 1, 0.5), (0, None, 0.0)))
    assert curve[["radius", "accuracy", "low"]].to_numpy().tolist() == [[0.0, 0.0, 0.0]]


@pytest.mark.parametrize("radii", [[], [-0.1], [float("nan")], [[0.0, 1.0]]])
def test_radii_that_cannot_be_asked_for(make_run: MakeRun, radii: list[float]) -> None:
    with pytest.raises(RequestError, match="radii must be a list of numbers of at least 0"):
        certified_accuracy(make_run(*FIVE), radii)


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_levels_that_cannot_be_asked_for(make_run: MakeRun, level: float) -> None:
    with pytest.raises(RequestError, match="level must lie strictly between 0 and 1"):
        certified_curve(make_run(*FIVE), level=level)


def test_a_run_without_records(make_run: MakeRun) -> None:
    for report in (acr, certified_curve, lambda run: certified_accuracy(run, 0.0)):
        with pytest.raises(RequestError, match=r"run\.jsonl holds no certified input yet"):
            report(make_run(planned=10))


def test_several_runs_are_refused_with_what_takes_them(make_run: MakeRun) -> None:
    with pytest.raises(RequestError, match=r"expected one run.*got list.*sigmax\.report\.compare\(\[a, b\]\)"):
        certified_accuracy([make_run(*FIVE)], 0.0)  # type: ignore[arg-type]


def test_paths_are_read(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(*FIVE)
    write_all(tmp_path / "run.jsonl", run.plan, run.records)
    for path in (tmp_path / "run.jsonl", str(tmp_path / "run.jsonl")):
        assert acr(path) == acr(run)
        assert certified_accuracy(path, 0.5).tolist() == [0.4]


@pytest.mark.parametrize(
    ("furthest", "expected"),
    [
        (0.0, [0.0]),
        (0.2, [0.0, 0.05, 0.1, 0.15, 0.2]),
        (0.45, [0.0, 0.125, 0.25, 0.375]),
        (0.978, [0.0, 0.25, 0.5, 0.75]),
        (2.4, [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.25]),
        (3.81, [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]),
        (4.0, [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]),
        (11.4, [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0]),
    ],
)
def test_the_usual_radii_reach_as_far_as_the_runs(make_run: MakeRun, furthest: float, expected: list[float]) -> None:
    runs = [make_run((1, 1, furthest), (1, 0, 50.0)), make_run((1, 1, furthest / 3))]
    assert grid(runs, None).tolist() == expected


# ---- published figures -----------------------------------------------------------------------------


def test_catrs_as_published(published: Callable[[str], Run]) -> None:
    """Only radius >= r gives the published row; radius > r loses 0.1 at most radii from 1.0 on."""
    run = published("catrs-noise_1.0")
    row = [43.2, 40.2, 37.2, 34.3, 31.0, 28.1, 24.9, 22.0, 19.3, 16.8, 14.2]
    counted = 10_000 * certified_accuracy(run, GRID)
    assert [float(f"{k / 100:.1f}") for k in counted.round()] == row
    assert [float(f"{100 * a:.1f}") for a in certified_accuracy(run, GRID, strict=True)] != row
    assert acr(run) == pytest.approx(0.815, abs=5e-4)


def test_gaussian_as_published(published: Callable[[str], Run]) -> None:
    run = published("gaussian-noise_0.5")
    assert certified_accuracy(run, 0.0).iloc[0] == 0.6875
    assert acr(run) == pytest.approx(0.571, abs=5e-4)


def test_cohen_as_published(published: Callable[[str], Run]) -> None:
    run = published("cohen")
    assert certified_accuracy(run, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist() == [0.748, 0.6, 0.428, 0.266, 0.0]
