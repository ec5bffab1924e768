"""select: the indices a run takes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigmax.data import select
from sigmax.errors import RequestError


def test_maximum_counts_what_is_taken_after_skipping():
    assert select(10_000, skip=20, maximum=500).tolist() == list(range(0, 10_000, 20))
    assert select(10, start=1, skip=3, maximum=2).tolist() == [1, 4]
    assert select(4).tolist() == [0, 1, 2, 3]


@given(st.integers(1, 400), st.data())
def test_is_every_skipth_from_start(count, draw):
    start = draw.draw(st.integers(0, count - 1))
    skip = draw.draw(st.integers(1, 2 * count))
    maximum = draw.draw(st.none() | st.integers(1, 2 * count))
    chosen = select(count, start=start, skip=skip, maximum=maximum)
    wanted = [i for i in range(count) if i >= start and (i - start) % skip == 0]
    assert chosen.dtype == np.int64
    assert chosen.tolist() == (wanted if maximum is None else wanted[:maximum])
    assert len(chosen) >= 1


@pytest.mark.parametrize(
    ("count", "options", "word"),
    [
        (0, {}, "at least 1 input"),
        (10, {"start": 10}, r"0\.\.9, got 10; nothing would be selected"),
        (10, {"start": -1}, "got -1"),
        (10, {"skip": 0}, "skip must be at least 1"),
        (10, {"maximum": 0}, "max must be at least 1"),
    ],
)
def test_refuses_what_selects_nothing(count, options, word):
    with pytest.raises(RequestError, match=word):
        select(count, **options)
