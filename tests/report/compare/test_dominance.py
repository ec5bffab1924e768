from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sigmax import RequestError
from sigmax.records import rounding
from sigmax.records.run import Run
from sigmax.report import certified_accuracy, dominance, ecdf, vote_shares
from sigmax.report.compare.dominance import place
from sigmax.rules.smoothed import SmoothedRule
from tests.report.duals import HIGH, LOW, N0, run_of, votes

MakeRun = Callable[..., Run]
Published = Callable[[str], Run]
GRID = np.linspace(0.5, 1.0, 2001)


def run_with(name: str, *counts: int, rule=LOW, **plan) -> Run:
    return run_of(rule, [(0, votes(0, k)) for k in counts], name=name, **plan)


def test_ahead_everywhere() -> None:
    (found,) = dominance([run_with("good", 900, 800, 600), run_with("bad", 850, 800, 500)])
    assert found.better == "good"
    assert found.scale == "p_A"
    assert found.comparable
    assert str(found).startswith("good is at least as good as bad at every p_A from 0.5 on, by up to 33.3 points")


def test_curves_that_cross() -> None:
    (found,) = dominance([run_with("steady", 800, 800), run_with("uneven", 990, 550)])
    assert found.better is None
    first, second = found.stretches
    assert (first.better, first.start, first.stop, first.gap, first.gap_at) == ("steady", 0.5, 0.8, 0.5, 0.8)
    assert (second.better, second.start, second.stop, second.gap) == ("uneven", 0.8, 0.99, 0.5)
    assert "neither is better everywhere" in str(found)
    assert "steady is ahead up to p_A 0.8, then uneven up to 0.99: " in str(found)


def test_what_lies_below_one_half_does_not_count() -> None:
    (found,) = dominance([run_with("a", 900, 490), run_with("b", 900, 10)])
    assert found.stretches == ()
    assert str(found) == "a and b are equal at every p_A from 0.5 on."


counts = st.lists(st.integers(0, 1000), min_size=4, max_size=4)


@settings(deadline=None, max_examples=60)
@given(counts, counts)
@example([0, 0, 0, 501], [0, 0, 500, 500])
def test_the_verdict_is_what_looking_at_every_p_gives(one: list[int], other: list[int]) -> None:
    runs = run_with("one", *one), run_with("other", *other)
    (found,) = dominance(runs)
    gap = ecdf(runs[0], GRID)["share"].to_numpy() - ecdf(runs[1], GRID)["share"].to_numpy()
    ahead = {name for name, seen in (("one", gap > 0), ("other", gap < 0)) if seen.any()}
    assert {stretch.better for stretch in found.stretches} == ahead
    assert found.better == (ahead.pop() if len(ahead) == 1 else None)
    for place_in_order, stretch in enumerate(found.stretches):
        after = stretch.start if place_in_order else 0.0  # one half itself belongs to the first
        inside = gap[(after + 1e-9 < GRID) & (stretch.stop + 1e-9 >= GRID)]
        assert np.all(inside >= 0) if stretch.better == "one" else np.all(inside <= 0)
        assert stretch.gap == pytest.approx(np.abs(inside).max())


def test_other_noise_is_compared_by_radius() -> None:
    runs = run_with("low", 900, 900), run_with("high", 900, 600, rule=HIGH)
    (found,) = dominance(runs)
    assert found.scale == "radius"
    assert [s.better for s in found.stretches] == ["low", "high"]
    middle = found.stretches[0].stop
    at = [certified_accuracy(run, middle).iloc[0] for run in runs]
    assert at[0] > at[1]


def test_every_pair_is_told_once() -> None:
    runs = [run_with(name, k) for name, k in (("a", 900), ("b", 800), ("c", 700))]
    assert [(d.first, d.second, d.better) for d in dominance(runs)] == [
        ("a", "b", "a"),
        ("a", "c", "a"),
        ("b", "c", "b"),
    ]
    assert dominance(runs[0]) == []


def test_runs_that_cannot_be_compared_say_why(make_run: MakeRun) -> None:
    other = {"name": "mnist", "split": "test", "fingerprint": "beef"}
    (found,) = dominance([make_run((1, 1, 0.5)), make_run((1, 1, 0.5), path="mnist.jsonl", data=other)])
    assert not found.comparable
    assert found.better is None
    assert "the runs are of different data" in str(found)


def test_routed_runs_are_compared_by_radius(digits_runs: dict[str, Run]) -> None:
    for found in dominance([digits_runs[name] for name in ("low", "consensus", "min", "exact")]):
        assert found.scale == "radius"
        assert found.inputs == 40


def test_chance_is_the_bound_of_dvoretzky_kiefer_and_wolfowitz() -> None:
    (found,) = dominance([run_with("a", *[900] * 1000), run_with("b", *[800] * 1000)], level=0.9)
    assert found.chance == pytest.approx(2 * np.sqrt(np.log(2 / 0.05) / 2000))
    with pytest.raises(RequestError, match="level must lie strictly between"):
        dominance([run_with("a", 900)], level=1.0)


# ---- published figures -----------------------------------------------------------------------------


def test_published_logs_cross(published: Published) -> None:
    """CAT-RS at sigma 1 against Gaussian training at sigma 0.5: each wins where its noise suits."""
    (found,) = dominance([published("catrs-noise_1.0"), published("gaussian-noise_0.5")])
    assert found.scale == "radius"
    assert [s.better for s in found.stretches] == ["gaussian-noise_0.5", "catrs-noise_1.0"]
    assert found.stretches[0].stop == 0.757


def test_a_log_starts_where_it_is_known(published: Published) -> None:
    log = published("gaussian-noise_0.5")
    (found,) = dominance([log, log])
    assert (found.scale, found.start, found.stretches) == ("p_A", 0.5049, ())
    assert vote_shares(log)["p_A"].min() >= 0.5049


def test_a_log_of_impossible_radii_is_still_a_curve(published: Published) -> None:
    cohen = published("cohen")
    (found,) = dominance([cohen, published("catrs-noise_1.0")])
    assert found.scale == "radius"
    assert found.inputs == 500


# ---- bounds, places, noise -------------------------------------------------------------------------


def test_p_A_decides_only_by_the_one_sided_bound() -> None:
    """A run of larger p_A that certifies less: its rival's votes are in one hand."""
    rule = SmoothedRule.gaussian(0.5, 3, bound="runner-up")
    split = {"selection": (N0, 0, 0), "estimation": (590, 205, 205)}
    united = {"selection": (N0, 0, 0), "estimation": (600, 400, 0)}
    runs = [run_of(rule, [(0, answers)] * 3, name=name) for name, answers in (("more", united), ("far", split))]
    (found,) = dominance(runs)
    assert (found.scale, found.better) == ("radius", "far")
    (found,) = dominance([run_of(LOW, [(0, united)], name="one"), runs[0]])
    assert found.scale == "radius"


def test_one_noise_however_it_was_computed() -> None:
    rules = [SmoothedRule.gaussian(sigma, 3) for sigma in (0.3, 0.1 + 0.2, 0.3001)]
    one, same, other = (run_with(f"run{i}", 900, rule=rule) for i, rule in enumerate(rules))
    assert [found.scale for found in dominance([one, same, other])] == ["p_A", "radius", "radius"]


@pytest.mark.parametrize(
    ("x", "down", "up"),
    [
        (0.7, "0.7", "0.7"),
        (0.999996, "0.99999", "1"),
        (0.757, "0.757", "0.757"),
        (0.123456, "0.12345", "0.12346"),
        (0.0, "0", "0"),
        (1.0, "1", "1"),
    ],
)
def test_a_place_is_never_told_beyond_itself(x: float, down: str, up: str) -> None:
    assert (place(x), place(x, rounding.up)) == (down, up)


def test_what_chance_can_do_is_rounded_up() -> None:
    (found,) = dominance([run_with("a", *[900] * 360), run_with("b", *[800] * 360)])
    assert 100 * found.chance == pytest.approx(15.6027, abs=1e-4)
    assert "With 360 inputs, gaps of up to 15.7 points may be chance (95% level)." in str(found)
    (found,) = dominance([run_with("a", 900), run_with("b", 800)])
    assert "With 1 input, gaps of up to 100.0 points" in str(found)
