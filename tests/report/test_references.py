from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigmax.records.run import Run
from sigmax.report import acr, certified_accuracy, envelope, oracle_radii
from sigmax.report.references import envelope_of, oracle_of

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


@given(some_inputs, st.booleans())
def test_the_envelope_is_the_best_run_at_each_radius(make_run: MakeRun, inputs: list, strict: bool) -> None:
    runs = runs_of(make_run, inputs)
    best = np.max([certified_accuracy(run, GRID, strict=strict) for run in runs], axis=0)
    assert envelope(runs, GRID, strict=strict).tolist() == best.tolist()


@given(some_inputs)
def test_the_oracle_is_the_best_run_on_each_input_and_above_all_else(make_run: MakeRun, inputs: list) -> None:
    runs = runs_of(make_run, inputs)
    best = [max(r if p == label else 0.0 for p, r in answers[:3]) for label, answers in inputs]
    radii = oracle_radii(runs)
    assert radii.tolist() == best
    assert radii.index.tolist() == [2 * i for i in range(len(inputs))]
    oracle = oracle_of(radii.to_numpy())
    assert oracle.acr == pytest.approx(np.mean(best))
    assert np.all(oracle.accuracy(GRID) >= envelope_of(runs).accuracy(GRID))
    assert oracle.acr >= envelope_of(runs).acr - 1e-12
    assert envelope_of(runs).acr >= max(map(acr, runs)) - 1e-12


def test_one_run_is_its_own_envelope(make_run: MakeRun) -> None:
    run = make_run((1, 1, 0.5), (1, 1, 1.0), (2, 1, 3.0), (0, None, 0.0))
    assert envelope(run, [0.0, 0.5, 0.6, 1.0, 1.1]).tolist() == [0.5, 0.5, 0.25, 0.25, 0.0]
    radii, accuracy = envelope_of([run]).steps()
    assert radii.tolist() == [0.0, 0.5, 1.0]
    assert accuracy.tolist() == [0.5, 0.5, 0.25]
    assert envelope_of([run]).acr == acr(run)


def test_a_log_may_certify_with_a_radius_of_nothing(make_run: MakeRun) -> None:
    run = make_run((1, 1, 0.0), (1, 0, 0.5))
    assert envelope(run, 0.0).tolist() == certified_accuracy(run, 0.0).tolist() == [0.5]
