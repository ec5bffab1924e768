"""The data in parts: who is where, and labels put together again."""

import numpy as np
import pytest

from sigmax.errors import RequestError
from sigmax.jobs.label.parts import folds_of, joined, rest_of, set_aside
from tests.train.router.test_router import make_labels


def test_folds_hold_every_input_once_and_differ_by_one_at_most():
    folds = folds_of(103, 4, 0)
    assert sorted(np.concatenate(folds)) == list(range(103))
    assert {len(fold) for fold in folds} == {25, 26}
    assert all((np.diff(fold) > 0).all() for fold in folds)
    assert all(np.array_equal(one, other) for one, other in zip(folds, folds_of(103, 4, 0), strict=True))
    assert not np.array_equal(folds[0], folds_of(103, 4, 1)[0])
    assert np.array_equal(rest_of(103, folds[0]), np.sort(np.concatenate(folds[1:])))
    assert [len(fold) for fold in folds_of(3, 3, 0)] == [1, 1, 1]


def test_a_share_set_aside_and_the_rest():
    aside, rest = set_aside(1000, 0.05, 3)
    assert len(aside) == 50
    assert sorted([*aside, *rest]) == list(range(1000))
    more, _ = set_aside(1000, 0.1, 3)
    assert set(aside) < set(more)


@pytest.mark.parametrize(("folds", "count"), [(1, 10), (11, 10), (0, 10)])
def test_impossible_folds_are_refused(folds, count):
    with pytest.raises(RequestError, match=f"{count} inputs can be divided into 2 to {count} folds; got {folds}"):
        folds_of(count, folds, 0)


@pytest.mark.parametrize("share", [0.0, 1.0, 0.001])
def test_an_impossible_share_is_refused(share):
    with pytest.raises(RequestError, match="both need some; choose another share"):
        set_aside(60, share, 0)


@pytest.fixture
def radii():
    return np.random.default_rng(0).random((60, 3))


def part_of(bars, radii, indices, taken):
    """Labels of some inputs of a part of the data."""
    part = bars.take(indices)
    given = {"indices": taken, "labels": part.labels[taken], "experts": ("a", "b", "c")}
    return make_labels(part, radii[indices][taken], **given)


def test_labels_of_parts_are_those_of_the_whole(bars, radii):
    folds = folds_of(60, 3, 0)
    taken = [np.arange(20), np.arange(0, 20, 2), np.array([3])]
    parts = [(fold, part_of(bars, radii, fold, some)) for fold, some in zip(folds, taken, strict=True)]
    whole = joined(bars, parts, ["x", "y", "z"])
    assert len(whole) == 31
    assert (np.diff(whole.indices) > 0).all()
    assert np.array_equal(whole.radii, radii[whole.indices])
    assert np.array_equal(whole.labels, bars.labels[whole.indices])
    assert whole.experts == ("x", "y", "z")
    assert whole.select(bars).fingerprint == bars.take(whole.indices).fingerprint
    assert whole.fingerprint == joined(bars, parts[::-1], ["x", "y", "z"]).fingerprint


def test_labels_of_another_part_are_refused(bars, radii):
    one, other = folds_of(60, 2, 0)
    labels = part_of(bars, radii, one, np.arange(30))
    with pytest.raises(RequestError, match="these labels are of bars train .* label that part"):
        joined(bars, [(other, labels)], ["x", "y", "z"])
    with pytest.raises(RequestError, match="and 3 experts, not of the part .* and 2 experts"):
        joined(bars, [(one, labels)], ["x", "y"])
