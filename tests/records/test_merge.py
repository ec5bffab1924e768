"""Runs that differ in anything but their inputs are no parts of one run."""

import pytest

import sigmax as sx
from sigmax.records.journal import write_all
from sigmax.records.lines import Record
from tests.records.helpers import certificate, plan

OUTPUTS = {"base": {"outputs": [1.0, -2.0], "within": 1e-3}}
DATA = {"name": "digits", "split": "test", "fingerprint": "d" * 32, "classes": ["a", "b", "c"]}


def part(path, start: int, **changes):
    """A run of two inputs from `start` on, whose records prove their radii."""
    whole = plan(**{"data": DATA, "behaviour": OUTPUTS, **changes, "inputs": {"start": start, "skip": 1, "count": 2}})
    labelled = whole.labelled
    write_all(path, whole, [Record(start + i, 0 if labelled else None, certificate(900 + i), 0.25) for i in range(2)])
    assert sx.verify(path).holds
    return path


def test_parts_of_one_run_are_merged(tmp_path):
    parts = [part(tmp_path / f"{start}.jsonl", start) for start in (0, 2)]
    assert [record.index for record in sx.merge(parts, tmp_path / "merged.jsonl").records] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("seed", {"seed": 1}),
        ("system", {"system": "t" * 32}),
        ("generator", {"generator": "another"}),
        ("arithmetic", {"arithmetic": "cpu bfloat16"}),
        ("behaviour.base", {"behaviour": {"base": {"outputs": [1.0, -1.9], "within": 1e-3}}}),
        ("behaviour.base", {"behaviour": None}),
        ("data.fingerprint", {"data": {**DATA, "fingerprint": "e" * 32}}),
        ("data.split", {"data": {**DATA, "split": "train"}}),
        ("data.labelled", {"data": {**DATA, "labelled": False}}),
    ],
)
def test_another_seed_system_or_data_is_another_run(tmp_path, name, change):
    parts = [part(tmp_path / "one.jsonl", 0), part(tmp_path / "other.jsonl", 2, **change)]
    for sources in (parts, parts[::-1]):
        with pytest.raises(sx.RequestError, match=f"has another plan than .*: {name}"):
            sx.merge(sources, tmp_path / "merged.jsonl")
    assert not (tmp_path / "merged.jsonl").exists()
