from collections.abc import Callable

import numpy as np
import pytest

import sigmax as sx
from sigmax import RequestError
from sigmax.records.run import Run
from sigmax.report import accuracy_gain, certified_accuracy

MakeRun = Callable[..., Run]


def test_won_and_lost_inputs_are_counted_at_each_radius(make_run: MakeRun) -> None:
    first = make_run((1, 1, 0.5), (1, 1, 1.0), (2, 1, 3.0), (0, None, 0.0))
    second = make_run((1, 1, 0.7), (1, 1, 0.2), (2, 2, 0.6), (0, 3, 5.0))
    frame = accuracy_gain(first, second, [0, 0.6, 1, 2])
    assert frame["won"].tolist() == [1, 2, 0, 0]
    assert frame["lost"].tolist() == [0, 1, 1, 0]
    assert frame["gain"].tolist() == [0.25, 0.25, -0.25, 0.0]
    each = np.array([[0, 0, 1, 0], [1, -1, 1, 0], [0, -1, 0, 0], [0, 0, 0, 0]])
    assert frame["error"].tolist() == pytest.approx((each.std(axis=1) / 2).tolist())
    assert frame["chance"].tolist() == [1.0, 1.0, 1.0, 1.0]
    assert frame["inputs"].tolist() == [4] * 4


def test_the_gain_is_the_difference_of_the_accuracies(make_run: MakeRun) -> None:
    rng = np.random.default_rng(0)
    runs = [make_run(*((1, int(rng.integers(2)), float(r)) for r in rng.uniform(0, 2, 60))) for _ in range(2)]
    radii = [0, 0.3, 1, 1.7]
    frame = accuracy_gain(*runs, radii)
    before, after = (certified_accuracy(run, radii).to_numpy() for run in runs)
    assert frame["gain"].to_numpy() == pytest.approx(after - before)


def test_the_chance_is_that_of_a_fair_coin(make_run: MakeRun) -> None:
    first = make_run(*([(1, 1, 0.1)] * 4), *([(1, 1, 2.0)] * 6))
    second = make_run(*([(1, 1, 2.0)] * 10))
    (row,) = accuracy_gain(first, second, 1).itertuples()
    assert (row.won, row.lost) == (4, 0)
    assert row.gain / row.error > 2, "two standard errors, and yet:"
    assert row.chance == pytest.approx(2 / 2**4)


def test_nothing_is_said_of_radii_that_were_not_asked_about(tmp_path) -> None:
    def bright(batch):
        return (batch.mean(dim=(1, 2, 3)) > 0.3).long()

    bright.fingerprint = "by the mean of the pixels"  # type: ignore[attr-defined]
    scheme = sx.Smoothed(bright, sigma=0.5, classes=10)
    few = {"n0": 10, "n": 200, "alpha": 0.01, "maximum": 20}
    digits = sx.data.load("digits")
    whole = sx.certify_run(scheme, digits, tmp_path / "whole.jsonl", **few)
    asked = sx.certify_run(scheme, digits, tmp_path / "asked.jsonl", **few, sampling="adaptive", targets=[0.1, 0.3])
    for pair in ((whole, asked), (asked, whole)):
        frame = accuracy_gain(*pair, [0, 0.1, 0.2, 0.3, 0.4])
        assert frame["gain"].isna().tolist() == [True, False, True, False, True]
        assert frame["chance"].isna().tolist() == [True, False, True, False, True]
    assert not accuracy_gain(whole, whole, [0, 0.2])["gain"].isna().any()


def test_radii_that_are_hit_count(make_run: MakeRun) -> None:
    first, second = make_run((1, 1, 0.5)), make_run((1, 1, 1.0))
    assert accuracy_gain(first, second, 1)["won"].tolist() == [1]


def test_runs_of_other_inputs_are_refused(make_run: MakeRun) -> None:
    first, second = make_run((1, 1, 0.5)), make_run((2, 1, 0.5))
    with pytest.raises(RequestError, match="label"):
        accuracy_gain(first, second, 1)
    with pytest.raises(RequestError, match="radii must be"):
        accuracy_gain(first, first, -1)
