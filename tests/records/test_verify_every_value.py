"""Every value of a run file, changed by itself to others in favour of the run: no larger claim passes."""

import copy
import math

import pytest

from sigmax.bounds import table
from sigmax.errors import RequestError
from sigmax.records.lines import decode, encode
from sigmax.records.run import read
from sigmax.records.verify import _Proof, verify
from tests.fuzz.targets import CORPUS

LINES = 3  # of each file, that are changed: the plan and two records


def places(value, path=()):
    """Where values stand, tables and lists too."""
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        yield from (place for key, inner in pairs for place in places(inner, (*path, key)))
    if path:
        yield path


def others(value):
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, max(0, value - 1), 2 * value, float(value)]
    if isinstance(value, float):
        near = [math.nextafter(value, end) for end in (-math.inf, math.inf)]
        return [*near, value * (1 + 1e-12), value * 1.01, value * 0.99, 2 * value, 0.0]
    if isinstance(value, str):
        return ["certified", "runner-up", "x"]
    return [value[:-1], value + value[-1:], value[::-1]] if isinstance(value, list) else [0, 0.5, "x"]


def changed(line, path):
    """The line with one value replaced, or left out."""
    *outer, last = path
    for new in (*others(_at(line, path)), None):
        other = copy.deepcopy(line)
        if new is None:
            del _at(other, outer)[last]
        else:
            _at(other, outer)[last] = new
        yield other


def _at(line, path):
    for key in path:
        line = line[key]
    return line


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smoothed", "cascade", "dual", "l1"])
def test_no_larger_claim_passes(name, tmp_path):
    """Of what the plan says that moves no radius, such as names and versions, nothing can be proved."""
    path, forged = CORPUS / "journal" / name / f"{name}.jsonl", tmp_path / "run.jsonl"
    lines = [decode(line) for line in path.read_bytes().splitlines()]
    run = read(path)
    honest = {record.index: record.certificate for record in run.records}
    with table.as_proved():
        proved = {record.index: _Proof(run.plan).replayed(record.certificate).radius for record in run.records}
    tried = passed = 0
    for number, line in enumerate(lines[:LINES]):
        for place in places(line):
            for other in changed(line, place):
                forged.write_bytes(b"".join(map(encode, [*lines[:number], other, *lines[number + 1 :]])))
                tried += 1
                try:
                    if not (verdict := verify(forged)).holds or not verdict.finished:
                        continue
                except RequestError:
                    continue
                passed += 1
                for record in read(forged).records:
                    claim, true = record.certificate, honest[record.index]
                    assert claim.predicted == true.predicted
                    assert claim.radius <= proved[record.index] <= true.radius * (1 + 1e-13)
                    assert claim.alpha == true.alpha
    assert tried > 500
    assert 0 < passed < tried / 2
