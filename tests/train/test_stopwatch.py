"""Steps of a recipe are timed over all calls of it, and a finished one only once."""

import json
from contextlib import contextmanager

import pytest

from sigmax.errors import RequestError
from sigmax.train import stopwatch
from sigmax.train.stopwatch import Stopwatch


class Hands:
    """A clock that is moved by hand."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def hands(monkeypatch):
    hands = Hands()
    monkeypatch.setattr(stopwatch, "time", hands)
    return hands


@contextmanager
def silent(name):
    yield lambda done, total: None


def attempt(tmp_path, hands, *, ticks, ends=True):
    """One call of the recipe: a step of so many ticks of four seconds, which makes its file or is cut short."""
    steps, made = Stopwatch(tmp_path / "seconds.json", silent), tmp_path / "made"
    with steps.step("train", made) as watch:
        for tick in range(ticks):
            hands.now += 4
            watch(tick + 1, ticks)
        if not ends:
            raise KeyboardInterrupt
        made.touch()
    return steps


def test_attempts_that_were_cut_short_count_in(tmp_path, hands):
    with pytest.raises(KeyboardInterrupt):
        attempt(tmp_path, hands, ticks=5, ends=False)
    kept = json.loads((tmp_path / "seconds.json").read_text())
    assert kept == {"train": {"seconds": 16.0, "done": False}}, "noted every five seconds, however it ends"
    assert attempt(tmp_path, hands, ticks=2).seconds == {"train": 24.0}


def test_a_finished_step_is_not_timed_again(tmp_path, hands):
    assert attempt(tmp_path, hands, ticks=3).seconds == {"train": 12.0}
    again = attempt(tmp_path, hands, ticks=3)
    assert again.seconds == {"train": 12.0}
    assert again.minutes("train") == pytest.approx(0.2)
    (tmp_path / "made").unlink()
    assert attempt(tmp_path, hands, ticks=1).seconds == {"train": 16.0}, "what was removed is made again"


def test_a_damaged_file_is_refused(tmp_path):
    for text in ("{", "[]", '{"train": 3}', '{"train": {"seconds": "long", "done": true}}'):
        (tmp_path / "seconds.json").write_text(text)
        with pytest.raises(RequestError, match="is damaged"):
            Stopwatch(tmp_path / "seconds.json", silent)
