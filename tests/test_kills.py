"""Every long verb, killed at random moments and repeated, ends as if nobody had disturbed it; few kills each.

`python -m benchmarks.kills` is the same code with more of them.
"""

import subprocess
import sys

import pytest

from tests.cli.conftest import ENVIRONMENT


@pytest.mark.slow
def test_verbs_killed_at_random_moments_end_the_same():
    """In a process of its own: it forks, which one that has used torch must not."""
    words = [sys.executable, "-m", "benchmarks.kills", "--kills", "2", "--seed", "1"]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "14 kills, seed 1: 0 wrong" in done.stdout
