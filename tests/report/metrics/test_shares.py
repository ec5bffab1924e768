from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from sigmax import RequestError
from sigmax.records.run import Run
from sigmax.report import (
    answers_by_part,
    answers_by_sigma,
    certified_interval,
    class_accuracy,
    class_spread,
    outcome_shares,
    reasons,
)
from sigmax.report.notes import facts

MakeRun = Callable[..., Run]
SIX = ((0, 0, 0.5), (0, 0, 1.0), (0, 1, 3.0), (1, 1, 0.2), (1, None, 0.0), (2, 2, 0.5))


def test_every_input_is_in_one_row(make_run: MakeRun) -> None:
    frame = outcome_shares(make_run(*SIX))
    assert frame["inputs"].to_dict() == {"certified": 4, "too small": 0, "misclassified": 1, "abstained": 1}
    assert outcome_shares(make_run(*SIX), radius=0.5)["inputs"].tolist() == [3, 1, 1, 1]
    assert frame["share"].sum() == pytest.approx(1.0)
    exact = binomtest(4, 6).proportion_ci(0.95, method="exact")
    assert frame.loc["certified", ["low", "high"]].tolist() == pytest.approx([exact.low, exact.high], rel=1e-9)


def test_which_noise_answered(make_run: MakeRun) -> None:
    low, high = make_run(*SIX[:4], sigma=0.25), make_run(*SIX[4:], sigma=1.0)
    nobody = replace(high.records[0], certificate=replace(high.records[0].certificate, stages=()))
    both = replace(low, records=(*low.records, *high.records, nobody))
    frame = answers_by_sigma(both)
    assert frame.index.tolist()[:2] == [0.25, 1.0]
    assert np.isnan(frame.index[2])
    assert frame["inputs"].tolist() == [4, 2, 1]
    assert frame["right"].tolist() == [3, 1, 0]
    assert frame["misclassified"].tolist() == [1, 0, 0]
    assert frame["abstained"].tolist() == [0, 1, 1]
    assert frame["mean_radius"].tolist()[:2] == pytest.approx([1.7 / 3, 0.5])


def test_which_part_answered(cascade_run: Run, make_run: MakeRun) -> None:
    frame = answers_by_part(cascade_run)
    assert frame.index.tolist() == ["last", "level-0"]
    for part, row in frame.iterrows():
        mine = [record for record in cascade_run.records if record.certificate.answered_by == part]
        assert row["inputs"] == len(mine) > 0
        assert row["right"] == sum(record.correct for record in mine)
    counts = {part: f"{row['inputs']:.0f} inputs, {row['right']:.0f} right" for part, row in frame.iterrows()}
    text = dict(facts(cascade_run))["answered by"]
    assert text.startswith(f"last: {counts['last']}, mean radius ")
    assert f"; level 0: {counts['level-0']}" in text
    assert "answered by" not in dict(facts(make_run(*SIX)))  # one classifier


def test_why_it_abstained(make_run: MakeRun) -> None:
    assert reasons(make_run(*SIX)).to_dict() == {"certified": 5, "too_close": 1}


def test_published_shares(published: Callable[[str], Run]) -> None:
    assert outcome_shares(published("catrs-noise_1.0"))["inputs"].tolist() == [4317, 0, 4398, 1285]


def test_accuracy_with_its_interval(make_run: MakeRun) -> None:
    frame = certified_interval(make_run(*SIX), [0.0, 0.5, 5.0], level=0.9)
    assert frame["accuracy"].tolist() == [4 / 6, 3 / 6, 0.0]
    for k, (low, high) in zip((4, 3, 0), frame[["low", "high"]].to_numpy(), strict=True):
        exact = binomtest(k, 6).proportion_ci(0.9, method="exact")
        assert (low, high) == pytest.approx((exact.low, exact.high), rel=1e-9)


def test_accuracy_of_each_class(make_run: MakeRun) -> None:
    frame = class_accuracy(make_run(*SIX), [0.0, 0.5])
    columns = frame[["label", "radius", "inputs", "accuracy"]].to_numpy().tolist()
    assert columns == [
        [0, 0.0, 3, 2 / 3],
        [0, 0.5, 3, 2 / 3],
        [1, 0.0, 2, 0.5],
        [1, 0.5, 2, 0.0],
        [2, 0.0, 1, 1.0],
        [2, 0.5, 1, 1.0],
    ]


def test_spread_over_classes(make_run: MakeRun) -> None:
    frame = class_spread(make_run(*SIX), [0.5, 0.0])
    assert frame["radius"].tolist() == [0.5, 0.0]
    assert frame["worst"].tolist() == [0.0, 0.5]
    assert frame["worst_label"].tolist() == [1, 1]
    assert frame["best_label"].tolist() == [2, 2]
    assert frame["spread"].tolist() == [1.0, 0.5]
    assert frame["deviation"].tolist() == pytest.approx([np.std([2 / 3, 0, 1]), np.std([2 / 3, 0.5, 1])])


def test_a_good_average_can_hide_a_class_given_up(published: Callable[[str], Run]) -> None:
    """CAT-RS at sigma 1: 43% of all images, 74.5% of the ships, 8.2% of the deer."""
    frame = class_spread(published("catrs-noise_1.0"), 0.0)
    assert frame[["worst", "worst_label", "best", "best_label"]].iloc[0].tolist() == [0.082, 4, 0.745, 8]


def test_radii_are_checked(make_run: MakeRun) -> None:
    for call in (lambda run: outcome_shares(run, radius=-1.0), lambda run: class_spread(run, [-1.0])):
        with pytest.raises(RequestError, match="radii must be a list of numbers of at least 0"):
            call(make_run(*SIX))


def test_the_same_radius_asked_for_twice_is_answered_twice(make_run: MakeRun) -> None:
    frame = class_spread(make_run(*SIX), [0.5, 0.5])
    assert frame["radius"].tolist() == [0.5, 0.5]
    assert frame.iloc[0].tolist() == frame.iloc[1].tolist()
