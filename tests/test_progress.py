"""A bar where a person watches, nothing elsewhere, and standard output is left alone."""

import os
import subprocess
import sys

import pytest

from sigmax.progress import counting_on, eta, shown, silent, spoken

WORK = """
from sigmax.progress import shown
with shown(None, "certify run.jsonl") as watch:
    for done in range(4):
        watch(done, 3)
        print("input", done)
"""
pty = pytest.importorskip("pty", reason="needs pseudo-terminals")


def standard_error(environment, *, terminal):
    """What the work prints there; it must print its inputs to a pipe in any case."""
    usual = {name: value for name, value in os.environ.items() if name not in {"CI", "RANK"}}
    ours, theirs = pty.openpty() if terminal else os.pipe()
    done = subprocess.run(
        [sys.executable, "-c", WORK],
        env={**usual, "TERM": "xterm", "COLUMNS": "100", **environment},
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        check=True,
    )
    os.set_blocking(ours, False)
    os.close(theirs)
    assert done.stdout.splitlines() == [f"input {i}" for i in range(4)]
    try:
        return os.read(ours, 100_000).decode()
    except OSError:  # the end of a terminal that nothing was written to
        return ""
    finally:
        os.close(ours)


def test_a_terminal_shows_a_bar():
    text = standard_error({}, terminal=True)
    assert "certify run.jsonl" in text
    assert "3/3" in text


@pytest.mark.parametrize(
    ("environment", "terminal"),
    [({}, False), ({"CI": "true"}, True), ({"RANK": "1"}, True), ({"FORCE_COLOR": "1"}, False)],
)
def test_nothing_is_shown_where_nobody_watches(environment, terminal):
    assert standard_error(environment, terminal=terminal) == ""


def test_a_given_watch_is_used_as_it_is():
    seen = []

    def watch(done, total):
        seen.append((done, total))

    with shown(watch, "work") as advance:
        counting_on(advance, 10, 30)(5, 20)
    assert seen == [(15, 30)]
    with shown(silent, "work") as advance:
        assert advance is silent


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.004, "0.004 s"),
        (0.37, "0.4 s"),
        (0.97, "1 s"),
        (1.2, "1 s"),
        (299, "299 s"),
        (300, "5 min"),
        (7199, "120 min"),
        (12_240, "3.4 h"),
    ],
)
def test_long_durations_are_said_in_minutes_and_hours(seconds, text):
    assert spoken(seconds) == text


@pytest.mark.parametrize(
    ("done", "before", "note", "text"),
    [
        (0, 0, "", "0/60"),
        (30, 20, "", "30/60, about 12 s left"),
        (30, 20, "2 workers", "30/60, about 12 s left; 2 workers"),
        (60, 20, "", "60/60 in 4.0 s"),
    ],
)
def test_how_far_it_is(done, before, note, text):
    assert eta(done, 60, before, 4.0, note) == text
