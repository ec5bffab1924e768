from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from sigmax import RequestError
from sigmax.records.journal import write_all
from sigmax.records.run import Run
from sigmax.report import ecdf, ecdf_by_class, known_from, vote_shares
from sigmax.report.metrics.distribution import reached_shares
from tests.report.duals import LOW, MINIMUM, N0, N, routed, run_of, votes

Published = Callable[[str], Run]

# (true class, votes): right with 900 of 1000; wrong; right but close; split three ways
FOUR = [
    (0, votes(0, 900)),
    (1, votes(0, 990)),
    (2, votes(2, 510)),
    (1, {"selection": (N0, 0, 0), "estimation": (400, 350, 250)}),
]


@pytest.fixture(scope="module")
def four() -> Run:
    return run_of(LOW, FOUR, name="four")


def test_the_share_is_that_of_the_true_class(four: Run) -> None:
    frame = vote_shares(four)
    assert frame["p_A"].tolist() == [0.9, 0.01, 0.51, 0.35]
    assert frame[["low", "high"]].to_numpy().tolist() == [[p, p] for p in frame["p_A"]]
    assert frame[["index", "label"]].to_numpy().tolist() == [[0, 0], [1, 1], [2, 2], [3, 1]]


def test_the_distribution_is_a_falling_step_function(four: Run) -> None:
    frame = ecdf(four)
    assert frame["p"].tolist() == [0.0, 0.01, 0.35, 0.51, 0.9]
    assert frame["share"].tolist() == [1.0, 1.0, 0.75, 0.5, 0.25]


def test_at_points_asked_for_with_exact_intervals(four: Run) -> None:
    frame = ecdf(four, [0.5, 0.51, 0.511, 1.0], level=0.9)
    assert frame["share"].tolist() == [0.5, 0.5, 0.25, 0.0]
    for share, low, high in frame[["share", "low", "high"]].to_numpy():
        exact = binomtest(round(4 * share), 4).proportion_ci(0.9, method="exact")
        assert (low, high) == pytest.approx((exact.low, exact.high), rel=1e-9)


def test_class_by_class(four: Run) -> None:
    frame = ecdf_by_class(four, 0.5)
    assert frame[["label", "share"]].to_numpy().tolist() == [[0, 1.0], [1, 0.0], [2, 1.0]]


def test_alpha_does_not_matter(four: Run) -> None:
    other = run_of(LOW, FOUR, name="other", alpha=0.2)
    pd.testing.assert_frame_equal(ecdf(four), ecdf(other))


def test_a_path_will_do(four: Run, tmp_path: Path) -> None:
    write_all(tmp_path / "run.jsonl", four.plan, four.records)
    pd.testing.assert_frame_equal(ecdf(tmp_path / "run.jsonl"), ecdf(four))


def test_a_dual_run_has_the_votes_of_the_expert_that_answered() -> None:
    undecided = routed(0, 500, votes(0, 900), votes(0, 900))
    run = run_of(MINIMUM, [(0, routed(1, 990, votes(1, 1000), votes(0, 700))), (0, undecided)], name="dual")
    assert vote_shares(run)["p_A"].tolist() == [0.7, 0.9]


def test_votes_to_defer_count_against_every_class(cascade_run: Run) -> None:
    for record, share in zip(cascade_run.records, vote_shares(cascade_run)["p_A"], strict=True):
        (stage,) = [s for s in record.certificate.stages if s.name == f"{record.certificate.answered_by}/estimation"]
        assert share == stage.counts[record.label] / stage.n


def test_real_runs_of_every_scheme(digits_runs: dict[str, Run]) -> None:
    for name in ("low", "consensus", "min", "tree"):
        frame = ecdf(digits_runs[name])
        assert np.all(np.diff(frame["share"]) < 0)
    with pytest.raises(RequestError, match=r"exact\.jsonl is of a deterministic classifier, which samples no votes"):
        ecdf(digits_runs["exact"])


@pytest.mark.parametrize("p", [[], [-0.1], [1.1], [float("nan")], [[0.5]]])
def test_shares_that_cannot_be_asked_for(four: Run, p: list[float]) -> None:
    with pytest.raises(RequestError, match="p must be a list of shares from 0 to 1"):
        ecdf(four, p)


def test_a_damaged_label_is_named(four: Run) -> None:
    run = run_of(LOW, [(7, votes(0, 900))], name="odd")
    with pytest.raises(RequestError, match="input 0 is of class 7, but the votes are on 3 classes"):
        ecdf(run)


# ---- published figures -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def points(shared: Path) -> pd.DataFrame:
    """The authors' own points of the distribution of p_A of the same log."""
    return pd.read_csv(shared / "fixtures" / "field-logs" / "acr-weakness-ecdf-catrs_1.0.csv", sep="\t")


def test_the_published_distribution_within_the_rounding_of_the_log(published: Published, points: pd.DataFrame) -> None:
    """All 500 points below 1 lie in the range that three printed digits leave open, which is narrow."""
    shares, p = vote_shares(published("catrs-noise_1.0")).dropna(), points["x"].to_numpy()
    low, high = (reached_shares(np.sort(shares[side]), p) for side in ("low", "high"))
    read_off = (10_000 * points["y"]).round().astype(int).to_numpy()
    assert np.all((low <= read_off) & (read_off <= high), where=p < 1)
    assert np.max(high - low) <= 22, "at most 0.22% of the inputs are undecided at any p"
    assert np.abs(10_000 * ecdf(published("catrs-noise_1.0"), p)["share"] - read_off)[p < 1].max() <= 15
    # Their last point, p = 1, counts inputs that lost one of 100,000 votes; the log tells those from the unanimous.
    assert read_off[-1] == 341
    assert 10_000 * ecdf(published("catrs-noise_1.0"), [0.99999, 1.0])["share"].to_numpy() == pytest.approx([341, 266])


def test_a_log_tells_nothing_below_one_half(published: Published) -> None:
    run = published("catrs-noise_1.0")
    with pytest.raises(RequestError, match=r"says nothing about p_A below 0.5; got p=0.4"):
        ecdf(run, [0.4, 0.6])
    assert known_from(run) == 0.5049
    assert ecdf(run)["p"].iloc[0] == 0.5
    assert ecdf(run, 0.5)["share"].iloc[0] == 0.4317


def test_the_counts_behind_a_log_give_its_radii_back(published: Published) -> None:
    from sigmax.planning import radius_of
    from sigmax.report.metrics.distribution import true_class_votes

    run = published("gaussian-noise_0.5")
    found = true_class_votes(run)
    right = found.k >= 0
    assert right.tolist() == [record.correct for record in run.records]
    printed = np.array([record.certificate.radius for record in run.records])[right]
    again = radius_of(found.k[right], sigma=0.5, n=100_000, alpha=1e-3)
    rounded = np.array([float(f"{r:.3g}") for r in again])
    assert np.mean(rounded == printed) == 1.0


def test_a_log_of_impossible_radii_is_refused(published: Published) -> None:
    with pytest.raises(
        RequestError, match="77 radii of cohen.jsonl are impossible with n=100000 samples at alpha=0.001"
    ):
        ecdf(published("cohen"))


def test_counts_survive_being_published(four: Run, tmp_path: Path) -> None:
    """A run of ours, exported as a log and imported again, tells the same shares where it certifies."""
    from sigmax.records.export import export_tsv
    from sigmax.records.logs.read import read_log

    run = run_of(LOW, [(0, votes(0, k)) for k in range(560, 1001, 20)], name="many")
    export_tsv(run, tmp_path / "log.tsv")
    plan, records, _ = read_log(tmp_path / "log.tsv", sigma=0.5, n=N, alpha=1e-3)
    back = vote_shares(Run(tmp_path / "log.tsv", plan, tuple(records), finished=True))
    assert back["p_A"].tolist() == vote_shares(run)["p_A"].tolist()
