"""A data source of another package, from its entry point through certify, verify and report."""

import sys

import pytest

import sigmax as sx
from sigmax.config.plugins import plugins
from sigmax.data import registry

READER = """
import numpy as np
from sigmax.data import DataRequest, Dataset, load

def read(request: DataRequest) -> Dataset:
    digits = load("digits", request.split)
    chosen = np.flatnonzero(digits.labels == int(request.path))
    return Dataset("one-digit", request.split, digits.pixels(chosen), digits.labels[chosen], digits.classes)
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package outside sigmax with an entry point of the group sigmax.data, on the path as pip would put it."""
    (tmp_path / "one_digit.py").write_text(READER)
    about = tmp_path / "one_digit-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: one-digit\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[sigmax.data]\none-digit = one_digit:read\nbroken = nowhere:read\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_SOURCES", dict(registry._SOURCES))
    plugins.cache_clear()
    yield
    plugins.cache_clear()
    sys.modules.pop("one_digit", None)


@pytest.mark.usefixtures("installed")
def test_from_its_entry_point_to_a_report(system, tmp_path, sigmax):
    run = tmp_path / "run.jsonl"
    for words in (
        ("certify", system, "--data", "one-digit:3", "--max", 5, "--n", 200, "--out", run),
        ("verify", run, "--data", "one-digit:3"),
        ("report", run, "--data", "one-digit:3", "--out", tmp_path / "report"),
    ):
        done = sigmax(*words)
        assert done.returncode == 0, done.stderr
    assert sx.read(run).plan.data["name"] == "one-digit"
    assert sx.read(run).frame()["label"].tolist() == [3] * 5
    assert (tmp_path / "report" / "report.html").stat().st_size > 1000


@pytest.mark.usefixtures("installed")
def test_it_is_listed_and_a_broken_one_says_so(system, tmp_path, sigmax):
    words = ("certify", system, "--out", tmp_path / "run.jsonl", "--data")
    unknown = sigmax(*words, "nothing")
    assert (unknown.returncode, "npz:PATH, one-digit" in " ".join(unknown.stderr.split())) == (2, True)
    broken = sigmax(*words, "broken:x")
    assert broken.returncode == 2
    assert "the data source 'broken' of nowhere:read cannot be imported" in broken.stderr
