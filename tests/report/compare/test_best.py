from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigmax import RequestError
from sigmax.records.run import Run
from sigmax.report import acr, best_over_sigma, best_sigma, certified_accuracy, radii_by_sigma
from sigmax.report.compare.best import envelope_of, oracle_of
from sigmax.report.metrics.radii import true_radii

MakeRun = Callable[..., Run]
GRID = np.array([0.0, 0.1, 0.25, 0.3, 0.5, 0.7, 1.7, 2.0])

# What two or three experts do on the same inputs: their classes and radii, beside the true class.
some_input = st.tuples(
    st.integers(0, 2),
    st.lists(st.tuples(st.sampled_from([None, 0, 1, 2]), st.sampled_from([0.1, 0.25, 0.3, 0.5, 1.7])), min_size=3),
)
some_inputs = st.lists(some_input, min_size=1, max_size=12)


def runs_of(make_run: MakeRun, inputs: list[tuple[int, list[tuple[int | None, float]]]]) -> list[Run]:
    """One run an expert; abstaining is a radius of nothing, as in every run of ours."""
    return [
        make_run(*((label, p, r if p is not None else 0.0) for label, answers in inputs for p, r in [answers[j]]))
        for j in range(3)
    ]


@pytest.fixture
def three(make_run: MakeRun) -> list[Run]:
    little = make_run((0, 0, 0.3), (0, 0, 0.3), (1, 1, 0.2), (1, 0, 0.4), path="little.jsonl", sigma=0.25)
    middle = make_run((0, 0, 0.5), (0, 0, 0.1), (1, None, 0.0), (1, 0, 0.4), path="middle.jsonl", sigma=0.5)
    much = make_run((0, 0, 0.9), (0, 1, 0.2), (1, None, 0.0), (1, None, 0.0), path="much.jsonl", sigma=1.0)
    return [much, little, middle]


def test_the_best_run_at_each_radius_is_named(three: list[Run]) -> None:
    frame = best_over_sigma(three, [0.0, 0.3, 0.4, 0.6, 1.0])
    assert frame["run"].tolist() == ["little", "little", "much", "much", ""]
    assert frame["accuracy"].tolist() == [0.75, 0.5, 0.25, 0.25, 0.0]
    assert np.all((frame["low"] <= frame["accuracy"]) & (frame["accuracy"] <= frame["high"]))
    assert best_over_sigma(three, 0.3, strict=True)["accuracy"].tolist() == [0.25]
    assert best_over_sigma(three)["radius"].tolist() == [0.0, 0.25, 0.5, 0.75]


def test_radii_by_sigma_and_the_best_of_them(three: list[Run]) -> None:
    frame = radii_by_sigma(three)
    assert frame.columns.tolist() == [0.25, 0.5, 1.0]
    assert frame.to_numpy().tolist() == [[0.3, 0.5, 0.9], [0.3, 0.1, 0.0], [0.2, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert best_sigma(three).tolist() == pytest.approx([1.0, 0.25, 0.25, np.nan], nan_ok=True)


def test_published_logs(published: Callable[[str], Run]) -> None:
    runs = [published("catrs-noise_1.0"), published("gaussian-noise_0.5")]
    frame = best_over_sigma(runs, [0.0, 0.75, 1.0])
    assert frame["run"].tolist() == ["gaussian-noise_0.5", "gaussian-noise_0.5", "catrs-noise_1.0"]


def test_one_noise_level_a_run(three: list[Run], digits_runs: dict[str, Run], make_run: MakeRun) -> None:
    with pytest.raises(RequestError, match="expected runs of different sigma; 2 runs have"):
        radii_by_sigma([three[0], three[0]])
    with pytest.raises(RequestError, match="expected a run of one noise level, got consensus with"):
        radii_by_sigma([digits_runs["low"], digits_runs["consensus"]])
    with pytest.raises(RequestError, match="expected a run of one noise level, got exact with"):
        radii_by_sigma([digits_runs["exact"]])


def test_one_noise_computed_twice_is_one_noise(make_run: Callable[..., Run]) -> None:
    runs = [make_run((1, 1, 0.5), sigma=sigma, path=f"{i}.jsonl") for i, sigma in enumerate((0.3, 0.1 + 0.2))]
    with pytest.raises(RequestError, match="expected runs of different sigma"):
        radii_by_sigma(runs)


@given(some_inputs, st.booleans())
def test_the_envelope_is_the_best_run_at_each_radius(make_run: MakeRun, inputs: list, strict: bool) -> None:
    runs = runs_of(make_run, inputs)
    best = np.max([certified_accuracy(run, GRID, strict=strict) for run in runs], axis=0)
    assert best_over_sigma(runs, GRID, strict=strict)["accuracy"].tolist() == best.tolist()


@given(some_inputs)
def test_the_oracle_is_the_best_run_on_each_input_and_above_all_else(make_run: MakeRun, inputs: list) -> None:
    runs = runs_of(make_run, inputs)
    best = [max(r if p == label else 0.0 for p, r in answers[:3]) for label, answers in inputs]
    oracle = oracle_of(np.max([true_radii(run) for run in runs], axis=0))
    assert oracle.acr == pytest.approx(np.mean(best))
    assert np.all(oracle.accuracy(GRID) >= envelope_of(runs).accuracy(GRID))
    assert oracle.acr >= envelope_of(runs).acr - 1e-12
    assert envelope_of(runs).acr >= max(map(acr, runs)) - 1e-12


def test_one_run_is_its_own_envelope(make_run: MakeRun) -> None:
    run = make_run((1, 1, 0.5), (1, 1, 1.0), (2, 1, 3.0), (0, None, 0.0))
    assert best_over_sigma([run], [0.0, 0.5, 0.6, 1.0, 1.1])["accuracy"].tolist() == [0.5, 0.5, 0.25, 0.25, 0.0]
    radii, accuracy = envelope_of([run]).steps()
    assert radii.tolist() == [0.0, 0.5, 1.0]
    assert accuracy.tolist() == [0.5, 0.5, 0.25]
    assert envelope_of([run]).acr == acr(run)


def test_a_log_may_certify_with_a_radius_of_nothing(make_run: MakeRun) -> None:
    run = make_run((1, 1, 0.0), (1, 0, 0.5))
    assert best_over_sigma([run], 0.0)["accuracy"].tolist() == certified_accuracy(run, 0.0).tolist() == [0.5]
