"""Sigma fields: exact neighbours, the rate they promise, and what a record says of them."""

import copy
import json
import math
import pickle

import numpy as np
import pytest
import torch

from sigmax.errors import RequestError
from sigmax.schemes.fields import NearestNeighbourSigma, SigmaField, VouchedField

RNG = np.random.default_rng(0)
TRAIN = RNG.random((500, 3, 4, 4), dtype=np.float32)
INPUTS = RNG.random((30, 3, 4, 4), dtype=np.float32)


def field(**changes) -> NearestNeighbourSigma:
    return NearestNeighbourSigma(**{"train": TRAIN, "base": 0.25, "rate": 0.1, "k": 7, "offset": 1.5, **changes})


def exact_means(train: np.ndarray, inputs: np.ndarray, k: int) -> np.ndarray:
    rows, queries = train.reshape(len(train), -1).astype(float), inputs.reshape(len(inputs), -1).astype(float)
    apart = np.linalg.norm(rows[None] - queries[:, None], axis=2)
    return np.sort(apart, axis=1)[:, :k].mean(axis=1)


@pytest.mark.parametrize("k", [1, 7, 500])
def test_the_formula_with_exact_neighbours(k):
    expected = 0.25 * np.exp(0.1 * (exact_means(TRAIN, INPUTS, k) - 1.5))
    assert field(k=k).sigmas(INPUTS) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_any_precision_is_taken_as_it_is(dtype):
    train, inputs = (100 * TRAIN).astype(dtype), (100 * INPUTS).astype(dtype)
    assert field(train=train).mean_distances(inputs) == pytest.approx(exact_means(train, inputs, 7), rel=1e-12)


def test_tensors_are_taken_too():
    assert np.array_equal(field(train=torch.from_numpy(TRAIN)).sigmas(torch.from_numpy(INPUTS)), field().sigmas(INPUTS))
    assert field().sigmas(torch.from_numpy(INPUTS).bfloat16()).shape == (30,)


def test_neighbours_single_precision_cannot_tell_apart_are_still_exact():
    near = 1000 + 1e-9 * RNG.random((200, 20))  # single precision sees one point
    x = np.full((1, 20), 1000.0)
    assert field(train=near, k=5, offset=0.0).mean_distances(x) == pytest.approx(exact_means(near, x, 5), rel=1e-12)


def test_queries_and_points_in_blocks_give_the_same(monkeypatch):
    whole = field().sigmas(INPUTS)
    monkeypatch.setattr("sigmax.schemes.fields._AT_ONCE", 1100)
    monkeypatch.setattr("sigmax.radius.distances._BLOCK", 48 * 64)
    assert field().sigmas(INPUTS) == pytest.approx(whole, rel=1e-14)


@pytest.mark.parametrize("given", ["array", "tensor", "view"])
def test_points_that_change_afterwards_change_nothing(given):
    points = TRAIN.copy()
    view = points[:]
    view.setflags(write=False)
    taken = NearestNeighbourSigma(
        {"array": points, "tensor": torch.from_numpy(points), "view": view}[given], 0.5, 0.1, 3, 1.0
    )
    before = taken.sigmas(TRAIN[:5])
    points *= 3
    assert np.array_equal(taken.sigmas(TRAIN[:5]), before)
    with pytest.raises(ValueError, match="read-only"):
        taken.points[0] = 0


def test_points_that_nobody_can_change_are_not_copied():
    points = TRAIN.copy()
    points.setflags(write=False)
    assert np.shares_memory(NearestNeighbourSigma(points, 0.5, 0.1, 3, 1.0).points, points)


def test_the_rate_holds():
    made = field(rate=0.5, k=3)
    for size in (1e-6, 1e-2, 1.0, 30.0):
        steps = RNG.normal(size=INPUTS.shape)
        steps *= size / np.sqrt((steps**2).sum(axis=(1, 2, 3), keepdims=True))
        change = np.abs(np.log(made.sigmas(INPUTS + steps)) - np.log(made.sigmas(INPUTS.astype(float))))
        assert np.all(change <= made.rate * size * (1 + 1e-12) + made.jitter)
    assert made.jitter < 1e-10


def test_a_rate_is_reached_far_away():
    # Straight away from all points the mean distance grows as fast as the input moves: the rate is not too large.
    made = field(rate=0.01, k=3)
    far = np.full((1, 48), 50.0)
    step = 10 / math.sqrt(48)
    change = np.log(made.sigmas(far + step) / made.sigmas(far))
    assert change == pytest.approx(0.01 * 10, rel=1e-3)


def test_what_a_record_is_told():
    described = field().describe()
    assert json.loads(json.dumps(described)) == described
    assert described["proved"] is True
    assert (described["points"], described["k"], described["rate"]) == (500, 7, 0.1)
    assert described["train"] != field(train=TRAIN[::-1]).describe()["train"]


def test_a_vouched_field_says_that_it_is_not_proved():
    def by_brightness(x):
        return 0.2 + 0.1 * x.mean(axis=(1, 2, 3))

    made = VouchedField(by_brightness, 0.07, jitter=1e-6)
    assert made.sigmas(INPUTS) == pytest.approx(by_brightness(INPUTS))
    assert made.sigmas(INPUTS).dtype == np.float64
    described = made.describe()
    assert (described["proved"], described["rate"], described["jitter"]) == (False, 0.07, 1e-6)
    assert "by_brightness" in described["function"]
    assert isinstance(made, SigmaField)
    assert isinstance(field(), SigmaField)


@pytest.mark.parametrize(
    "changes",
    [
        {"k": 0},
        {"k": 501},
        {"k": 2.5},
        {"rate": 0.0},
        {"rate": -1.0},
        {"base": 0.0},
        {"base": float("nan")},
        {"offset": "5"},
        {"train": np.zeros((0, 4))},
        {"train": np.zeros(4)},
        {"train": np.full((4, 4), np.nan)},
        {"train": [["a"]]},
    ],
)
def test_a_wrong_request_is_refused_with_advice(changes):
    with pytest.raises(RequestError, match=r"expected.*got.*;"):
        field(**changes)


@pytest.mark.parametrize("x", [np.zeros((2, 5)), np.zeros(48), np.full((2, 48), np.inf), np.full((2, 48), 1e6)])
def test_wrong_inputs_are_refused_with_advice(x):
    with pytest.raises(RequestError, match=r"expected.*got.*;"):
        field().sigmas(x)


def test_noise_beyond_all_floats_is_refused():
    with pytest.raises(RequestError, match=r"expected noise.*got exponents.*;"):
        field(rate=1e4).sigmas(INPUTS)


@pytest.mark.parametrize("wrong", [lambda x: np.ones(3), lambda x: -np.ones(len(x)), lambda x: "much"])
def test_a_vouched_function_that_gives_no_noise_is_refused(wrong):
    with pytest.raises(RequestError, match=r"expected.*got.*;"):
        VouchedField(wrong, 0.1).sigmas(INPUTS)


def test_a_vouched_field_needs_a_function_and_a_rate():
    for arguments in ((3, 0.1), (len, -0.1), (len, "0.1")):
        with pytest.raises(RequestError, match=r"expected.*got.*;"):
            VouchedField(*arguments)


def test_a_field_keeps_what_it_was_made_with():
    for made, names in (
        (field(), ("rate", "base", "k", "offset", "jitter", "_points")),
        (VouchedField(lambda x: np.ones(len(x)), rate=0.1), ("rate", "jitter", "_function")),
    ):
        before = made.describe()
        for name in names:
            with pytest.raises(AttributeError, match=f"make another to change {name}"):
                setattr(made, name, 5.0)
            with pytest.raises(AttributeError, match=f"make another to change {name}"):
                delattr(made, name)
        with pytest.raises(AttributeError):
            del made._kept
        assert made.describe() == before


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_so_does_its_copy(copied):
    made = field()
    twin = copied(made)
    assert np.array_equal(twin.sigmas(INPUTS), made.sigmas(INPUTS))
    assert twin.describe() == made.describe()
    for array in (twin.points, twin._norms, made._norms):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        twin.rate = 5.0


def test_a_field_of_ones_own_may_keep_more():
    class Counting(NearestNeighbourSigma):
        def __init__(self, *given):
            super().__init__(*given)
            self.calls = 0

        def sigmas(self, x):
            self.calls += 1
            return super().sigmas(x)

    made = Counting(TRAIN, 0.5, 0.1, 3, 1.0)
    made.sigmas(INPUTS)
    assert made.calls == 1
