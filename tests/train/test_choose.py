"""Choosing noise levels: known answers, the greedy guarantee against all sets, and one real grid on the digits."""

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import sigmax as sx
from sigmax import models
from sigmax.jobs.label.labels import Labels, make_labels
from sigmax.train import Settings, train_classifier
from sigmax.train.choose import MOST_SUBSETS, choose_sigmas

RADII = pd.DataFrame(
    {0.25: [0.4, 0.4, 0.4, 0.0], 0.5: [0.5, 0.3, 0.0, 0.0], 1.0: [1.0, 0.0, 0.0, 0.2]},
)


def test_known_numbers():
    """By hand: 0.25 and 1.0 have means of 0.3; the first is taken; then 1.0 adds 0.6 and 0.2 over 4 inputs."""
    choice = choose_sigmas(RADII, 2, exact=True)
    assert choice.order == (0.25, 1.0)
    assert choice.sigmas == (0.25, 1.0)
    assert choice.attained == pytest.approx((0.3, 0.5))
    assert choice.whole == pytest.approx(0.5)
    assert choice.objective == "acr"
    assert [best.sigmas for best in choice.optima] == [(0.25,), (0.25, 1.0)]


def test_the_frame_has_a_row_a_size():
    frame = choose_sigmas(RADII, 3).frame()
    assert list(frame.columns) == ["size", "added", "attained", "gain", "share"]
    assert frame["size"].tolist() == [1, 2, 3]
    assert frame["added"].tolist() == [0.25, 1.0, 0.5]
    assert frame["gain"].tolist() == pytest.approx([0.3, 0.2, 0.0])
    assert frame["share"].tolist() == pytest.approx([0.6, 1.0, 1.0])
    exact = choose_sigmas(RADII, 3, exact=True).frame()
    assert exact["optimum"].tolist() == pytest.approx([0.3, 0.5, 0.5])
    assert exact["optimal"].tolist() == [(0.25,), (0.25, 1.0), (0.25, 0.5, 1.0)]


def test_nothing_certified_has_no_share():
    choice = choose_sigmas(RADII * 0, 2)
    assert choice.attained == (0.0, 0.0)
    assert choice.frame()["share"].isna().all()


def test_certified_accuracy_counts_as_the_report_does():
    """Radii of exactly r count, inputs without a certificate do not, not even at r = 0."""
    choice = choose_sigmas(RADII, 1, [0.0])
    assert choice.attained == (0.75,)
    assert choice.objective == "certified accuracy at 0"
    assert choose_sigmas(RADII, 1, [0.4]).attained == (0.75,)
    assert choose_sigmas(RADII, 1, [np.nextafter(0.4, 1)]).attained == (0.25,)
    both = choose_sigmas(RADII, 2, (0.1, 0.45))
    assert both.sigmas == (0.25, 1.0)
    assert both.attained == pytest.approx((0.375, (1.0 + 0.25) / 2))
    assert choose_sigmas(RADII, 2, np.array([0.1, 0.45])) == both


def test_an_objective_of_ones_own():
    def least(best):
        return best.min()

    choice = choose_sigmas(RADII, 2, least)
    assert choice.objective == "least"
    assert choice.sigmas == (0.25, 1.0)
    assert choice.attained == (0.0, 0.2)


def test_greedy_can_miss_the_best_set_and_exact_shows_it():
    """The middle column is best alone and of no use beside the other two, which cover everything together."""
    table = pd.DataFrame({0.25: [1, 1, 0, 0], 0.5: [0, 0.7, 0.7, 0.8], 1.0: [0, 0, 1, 1]})
    choice = choose_sigmas(table, 2, exact=True)
    assert choice.order[0] == 0.5
    assert choice.optima[1] == ((0.25, 1.0), 1.0)
    assert choice.attained[1] == pytest.approx((1 + 1 + 0.7 + 0.8) / 4)
    assert choice.attained[1] >= (1 - 1 / math.e) * choice.optima[1].attained


tables = arrays.arrays(
    float,
    st.tuples(st.integers(1, 8), st.integers(1, 6)),
    elements=st.one_of(st.just(0.0), st.floats(0, 4, allow_subnormal=False), st.sampled_from([0.25, 0.5, 1.0])),
)
objectives = st.one_of(st.just("acr"), st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]), min_size=1, max_size=3))


@given(tables, objectives, st.data())
@settings(max_examples=300, deadline=None)
def test_greedy_is_within_its_guarantee_of_the_best_set(radii, objective, data):
    grid = radii.shape[1]
    k = data.draw(st.integers(1, grid))
    choice = choose_sigmas(frame(radii), k, objective, exact=True)
    for size, (attained, best) in enumerate(zip(choice.attained, choice.optima, strict=True), start=1):
        assert attained <= best.attained + 1e-12
        # After size steps of greedy: 1 - (1 - 1/size)**size, which falls to 1 - 1/e.
        assert attained >= (1 - (1 - 1 / size) ** size) * best.attained - 1e-12
        assert best.attained <= choice.whole + 1e-12
    assert choice.attained[0] == choice.optima[0].attained
    if k == grid:
        assert choice.attained[-1] == pytest.approx(choice.whole, abs=1e-12)


@given(tables, objectives)
@settings(max_examples=200, deadline=None)
def test_more_noise_levels_never_harm_and_gain_less_and_less(radii, objective):
    choice = choose_sigmas(frame(radii), radii.shape[1], objective)
    gains = choice.frame()["gain"].tolist()
    assert all(gain >= -1e-12 for gain in gains)
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(gains))
    assert choice.sigmas == tuple(sorted(choice.order))


@given(tables, objectives, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_rows_and_columns_does_not_matter(radii, objective, chance):
    rows, columns = list(range(radii.shape[0])), list(range(radii.shape[1]))
    chance.shuffle(columns)
    table = frame(radii)
    one = choose_sigmas(table, len(columns), objective)
    assert choose_sigmas(table.iloc[:, columns], len(columns), objective) == one
    chance.shuffle(rows)
    other = choose_sigmas(table.iloc[rows], len(columns), objective)  # sums in another order may break ties again
    assert other.attained == pytest.approx(one.attained, rel=1e-9, abs=1e-9)


def frame(radii):
    return pd.DataFrame(radii, columns=0.25 * np.arange(1, radii.shape[1] + 1))


NAN, NEGATIVE = RADII.copy(), RADII.copy()
NAN.iloc[2, 1], NEGATIVE.iloc[3, 0] = np.nan, -1.0


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (RADII, {"k": 0}, "k must be a whole number from 1 to 3"),
        (RADII, {"k": 4}, "k must be a whole number from 1 to 3, the noise levels of the table; got 4"),
        (RADII, {"k": 1.5}, "k must be a whole number"),
        (RADII, {"k": True}, "k must be a whole number"),
        (NAN, {}, "row 2 holds nan at sigma 0.5"),
        (NEGATIVE, {}, "row 3 holds -1.0 at sigma 0.25"),
        (RADII.replace(1.0, np.inf), {}, "row 0 holds inf at sigma 1"),
        (RADII.set_axis([0.25, 0.5, 0.25], axis=1), {}, "may stand in the table once; got 0.25, 0.25, 0.5"),
        (RADII.set_axis(["0.25", "0.5", "1"], axis=1), {}, "positive number; got '0.25', '0.5', '1'. Texts become"),
        (RADII.set_axis([0.0, 0.5, 1.0], axis=1), {}, "positive number; got 0, 0.5, 1"),
        (RADII.astype(object).replace(0.5, "far"), {}, "must hold radii, which are numbers"),
        (RADII.iloc[:0], {}, "at least one input and one sigma; its shape is (0, 3)"),
        (RADII.iloc[:, :0], {}, "at least one input and one sigma; its shape is (4, 0)"),
        (RADII.to_numpy(), {}, "expected a DataFrame (a column a sigma, a row an input) or Labels, got ndarray"),
        (RADII, {"objective": "best"}, "objective must be 'acr', a list of radii or a function; got 'best'"),
        (RADII, {"objective": []}, "objective must be 'acr', a list of radii or a function"),
        (RADII, {"objective": [-1.0]}, "objective must be 'acr', a list of radii or a function"),
        (RADII, {"objective": None}, "objective must be 'acr', a list of radii or a function"),
        (RADII, {"objective": ["far"]}, "objective must be 'acr', a list of radii or a function"),
        (RADII, {"objective": lambda best: best}, "must return one finite number"),
        (RADII, {"objective": lambda best: math.nan}, "must return one finite number"),
    ],
)
def test_what_cannot_be_chosen_from_is_refused(table, options, message):
    with pytest.raises(sx.RequestError) as caught:
        choose_sigmas(table, **{"k": 1, **options})
    assert message in str(caught.value)


def test_too_many_sets_are_refused_before_any_is_tried():
    table = frame(np.ones((2, 40)))
    assert math.comb(40, 6) > MOST_SUBSETS
    with pytest.raises(
        sx.RequestError, match=r"would try 4,598,478 sets .* at most 1,000,000 .* smaller k or a coarser"
    ):
        choose_sigmas(table, 6, exact=True)
    assert len(choose_sigmas(table, 6).order) == 6


def test_labels_of_experts_without_noise_are_no_grid():
    labels = Labels(
        radii=np.ones((2, 2)),
        indices=np.arange(2),
        labels=np.zeros(2, np.int64),
        sigmas=(0.5, math.nan),
        experts=("a", "b"),
        data={"fingerprint": "f"},
    )
    with pytest.raises(sx.RequestError, match="every column must be a noise level, a positive number; got 0.5, nan"):
        choose_sigmas(labels, 1)


@pytest.fixture(scope="module")
def digits_grid(tmp_path_factory):
    """One network, trained with noise of 0.4, labels a tenth of the training digits at five noise levels."""
    folder = tmp_path_factory.mktemp("grid")
    digits = sx.data.load("digits", "train")
    quick = Settings(epochs=10, lr=0.1)
    net = train_classifier(digits, architecture="small-cnn", sigma=0.4, settings=quick, out=folder / "n.safetensors")
    model, _ = models.load(net)
    grid = [sx.Smoothed(model, sigma=sigma, classes=10) for sigma in (0.1, 0.2, 0.4, 0.6, 0.8)]
    return make_labels(grid, digits, folder / "labels", fraction=0.1)


@pytest.mark.slow
def test_two_of_five_noise_levels_for_the_digits(digits_grid):
    """Measured: 0.4 alone attains 0.86 of the grid's mean radius, 0.2 and 0.4 together 0.99, and no pair more."""
    choice = choose_sigmas(digits_grid, 2, exact=True)
    assert choice.order == (0.4, 0.2)
    assert choice.sigmas == choice.optima[1].sigmas == (0.2, 0.4)
    assert choice.attained[0] == pytest.approx(digits_grid.radii.mean(0).max())
    assert choice.attained[1] == pytest.approx(digits_grid.radii[:, [1, 2]].max(1).mean())
    assert choice.attained[0] < 0.95 * choice.whole
    assert 0.95 * choice.whole < choice.attained[1] <= choice.whole
    assert choose_sigmas(table_of(digits_grid), 2, exact=True) == choice


@pytest.mark.slow
def test_what_is_chosen_follows_the_radii_asked_about(digits_grid):
    """Small radii want little noise, which keeps accuracy; large ones want more, which reaches further."""
    near, far = (choose_sigmas(digits_grid, 1, [r]) for r in (0.1, 0.5))
    assert near.sigmas < far.sigmas
    assert 0 < far.attained[0] < near.attained[0]


def table_of(labels):
    return pd.DataFrame(labels.radii, columns=list(labels.sigmas))
