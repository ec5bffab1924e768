"""`sigmax import` keeps what the reader says of a log: how long it should be, and what was certified."""

from pathlib import Path

import pytest

import sigmax as sx

LOG = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t0:00:01\n1\t0\t1\t0.25\t0\t0:00:01\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.tsv"
    path.write_text(LOG)
    return path


def test_data_and_split_are_kept(log: Path, tmp_path: Path, sigmax) -> None:
    words = ("import", log, "--sigma", 0.5, "--n", 1000, "--alpha", 0.001, "--out")
    assert sigmax(*words, tmp_path / "named.jsonl", "--data", "digits", "--split", "test").returncode == 0
    data = sx.read(tmp_path / "named.jsonl").plan.data
    assert (data["name"], data["split"]) == ("digits", "test")
    assert sigmax(*words, tmp_path / "plain.jsonl").returncode == 0
    data = sx.read(tmp_path / "plain.jsonl").plan.data
    assert (data["name"], data["split"]) == ("not stated", "not stated")
