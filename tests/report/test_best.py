from collections.abc import Callable

import numpy as np
import pytest

from sigmax import RequestError
from sigmax.records.run import Run
from sigmax.report import best_over_sigma, best_sigma, envelope, oracle_radii, radii_by_sigma

MakeRun = Callable[..., Run]


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
    assert frame["accuracy"].tolist() == envelope(three, frame["radius"].to_numpy()).tolist()
    assert np.all((frame["low"] <= frame["accuracy"]) & (frame["accuracy"] <= frame["high"]))
    assert best_over_sigma(three, 0.3, strict=True)["accuracy"].tolist() == [0.25]
    assert best_over_sigma(three)["radius"].tolist() == [0.0, 0.25, 0.5, 0.75]


def test_radii_by_sigma_and_the_best_of_them(three: list[Run]) -> None:
    frame = radii_by_sigma(three)
    assert frame.columns.tolist() == [0.25, 0.5, 1.0]
    assert frame.to_numpy().tolist() == [[0.3, 0.5, 0.9], [0.3, 0.1, 0.0], [0.2, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert frame.max(axis=1).tolist() == oracle_radii(three).tolist()
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
