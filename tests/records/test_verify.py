"""verify: a record must prove its radius from its own counts, and the line that does not is named."""

import gzip
import json
import zlib
from dataclasses import replace

import pytest

import sigmax as sx
from sigmax.certify.procedure import replay
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.records.certificate import Stage
from sigmax.records.journal import write_all
from sigmax.records.lines import decode, encode
from sigmax.records.verify import disagreements
from tests.records.helpers import plan, records


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "run.jsonl"
    write_all(path, plan(), records())
    return path


def forge(path, line, change):
    """Alter one line and give it a fitting checksum: only the mathematics can tell."""
    lines = path.read_bytes().splitlines()
    data = json.loads(json.dumps(decode(lines[line - 1])))
    change(data)
    lines[line - 1] = encode(data).rstrip(b"\n")
    path.write_bytes(b"\n".join(lines) + b"\n")


def findings(path):
    return [(f.line, f.message) for f in sx.verify(path).findings]


def test_an_honest_run_holds(path):
    verdict = sx.verify(path)
    assert verdict.holds
    assert (verdict.records, verdict.planned, verdict.finished, verdict.imported) == (5, 5, True, False)


def test_an_unfinished_run_holds_as_far_as_it_goes(path):
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]) + b'{"kind":"inp')
    verdict = sx.verify(path)
    assert verdict.holds
    assert (verdict.records, verdict.planned, verdict.finished) == (2, 5, False)


@pytest.mark.parametrize(
    "old_new", [(b"740", b"741"), (b'"radius":0.', b'"radius":1.'), (b'"label":2', b'"label":0')]
)
def test_a_flipped_digit_is_found_and_its_line_named(path, old_new):
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(*old_new, 1)
    path.write_bytes(b"".join(lines))
    # The line itself, and the end line, which counts one record more than can be read.
    assert [line for line, _ in findings(path)] == [4, 7]
    assert "altered" in findings(path)[0][1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(radius=d["radius"] * 1.0001), "radius is recorded as"),
        (lambda d: d.update(radius=d["radius"] * 0.9), "radius is recorded as"),
        (lambda d: d["stages"][1].update(counts=[870, 130, 0]), "the counts give"),
        (lambda d: d["stages"][1].update(counts=[870, 140, 0]), "sum to n=1000; they sum to 1010"),
        (lambda d: d["stages"][0].update(counts=[99, 0, 0]), "they sum to 99"),
        (lambda d: d["stages"][0].update(counts=[0, 100, 0]), "predicted is recorded as 0"),
        (lambda d: d["stages"][1].update(n=2000, counts=[1720, 280, 0]), "should hold n=1000 draws"),
        (lambda d: d["stages"][1].update(sigma=1.0), "the record has n=1000 at sigma=1.0"),
        (lambda d: d["stages"][1].update(lower=0.99), "estimation lower is recorded as 0.99"),
        (lambda d: d["stages"][1].update(alpha=0.01), "estimation alpha is recorded as 0.01"),
        (lambda d: d.update(alpha=0.01), "alpha is recorded as 0.01, the counts give 0.001"),
        (lambda d: d.update(predicted=2), "predicted is recorded as 2, the counts give 0"),
        (lambda d: d.update(outcome="too_close"), "outcome is recorded as too_close"),
        (lambda d: d.update(label=7), "label 7 is not a class"),
        (lambda d: d.update(index=1), "input 1 is not in the plan"),
        (lambda d: d.update(index=0), "input 0 is recorded twice"),
        (lambda d: d["stages"].pop(), "no stage 'estimation'"),
        (lambda d: d["stages"].append(d["stages"][1]), "3 stages are recorded"),
        (lambda d: d.pop("stages"), "not a whole record"),
        (lambda d: d.update(label="3"), "label must be a whole number"),
        (lambda d: d.update(index=[8]), "index must be a whole number"),
        (lambda d: d["stages"][1].update(counts="9"), "a count must be a whole number"),
        (lambda d: d["stages"][1].update(counts=[860.0, 140.0, 0.0]), "a count must be a whole number"),
        (lambda d: d["stages"][1].update(counts=[860, 140, 0, 0]), "should count 3 classes; it counts 4"),
        (lambda d: d["stages"][1].update(counts=[1000]), "should count 3 classes; it counts 1"),
        (lambda d: d.update(seconds="x"), "seconds must be a number"),
        (lambda d: d.update(seconds=-5.0), "seconds must be a number"),
        (lambda d: d.update(kind="banana"), "kind must be 'input'"),
        (lambda d: d.update(radius=d["radius"] + 1e-9), "radius is recorded as"),
        (lambda d: d.update(alpha="0.001"), "alpha is recorded as"),
        (lambda d: d.update(radius=None), "radius must be a finite number, got None"),
    ],
)
def test_a_forged_record_is_found_and_its_line_named(path, change, message):
    forge(path, 5, change)
    found = findings(path)
    assert found[0][0] == 5
    assert message in " ".join(text for _, text in found)


def test_a_missing_record_is_found(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    ((line, message),) = findings(path)
    assert line == 6
    assert "the plan names 5 and the file holds 4" in message


def test_lines_after_the_end_are_found(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[2]]))
    assert "after the end line" in findings(path)[0][1]


def test_a_plan_that_could_never_certify_is_found(path):
    forge(path, 1, lambda d: d.update(n=5))
    assert "can never certify" in findings(path)[0][1]


@pytest.mark.parametrize("rule", [5, {}, {"scheme": "smoothed"}, {"scheme": "smoothed", "sigma": "a"}])
def test_a_plan_that_is_no_plan_is_found(path, rule):
    forge(path, 1, lambda d: d.update(rule=rule))
    assert findings(path)[0][0] == 1


def test_every_bad_line_is_named_not_only_the_first(path):
    forge(path, 3, lambda d: d.update(radius=9.0))
    forge(path, 5, lambda d: d.update(radius=9.0))
    assert [line for line, _ in findings(path)] == [3, 5]


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": {"start": 0, "skip": 0, "count": 5}},
        {"inputs": {"start": 0, "skip": 2, "count": 10**30}},
        {"inputs": 5},
        {"alpha": 10**400},
        {"alpha": 7.0},
        {"n": -5},
        {"seed": "x"},
        {"data": 5},
        {"made_with": 5},
        {"rule": {"scheme": "smoothed", "sigma": 10**400, "classes": 3, "bound": "one-sided"}},
    ],
)
def test_a_plan_that_could_not_have_been_run_is_found(path, change):
    forge(path, 1, lambda d: d.update(change))
    assert findings(path)[0][0] == 1


def test_a_line_nested_too_deep_is_found(path):
    lines = path.read_bytes().splitlines(keepends=True)
    body = '{"kind":' + "[" * 100_000 + "}"
    lines[2] = f'{body[:-1]},"crc":"{zlib.crc32(body.encode()):08x}"}}\n'.encode()
    path.write_bytes(b"".join(lines))
    assert "not JSON" in findings(path)[0][1]


def test_a_damaged_gzip_file_is_refused(path):
    content = bytearray(gzip.compress(path.read_bytes()))
    content[40:60] = bytes(20)
    path.write_bytes(content)
    with pytest.raises(sx.RequestError, match="cannot read the run file"):
        sx.verify(path)


CLAIM = {"outcome": "claimed", "radius": 0.1, "predicted": 0, "stages": []}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({**CLAIM, "radius": 99.0}, "radius 99.0 is impossible"),
        ({**CLAIM, "radius": -5.0}, "must not be negative"),
        ({**CLAIM, "label": -7}, "must not be negative"),
        ({**CLAIM, "alpha": 0.5}, "alpha is recorded as 0.5, the plan says 0.001"),
        ({**CLAIM, "outcome": "certified"}, "an imported log cannot be certified"),
        ({**CLAIM, "outcome": "abstained_elsewhere"}, "it abstains, but claims class 0 and radius 0.1"),
        ({**CLAIM, "predicted": None}, "it abstains, but claims class None and radius 0.1"),
    ],
)
def test_calling_a_run_imported_does_not_make_it_pass(path, change, message):
    forge(path, 1, lambda d: d.update(rule={"scheme": "imported", "sigma": 0.5}))
    forge(path, 5, lambda d: d.update(change))
    assert message in " ".join(text for line, text in findings(path) if line == 5)


@pytest.mark.parametrize("name", [["x"], {}, None, 7, True])
def test_a_stage_without_a_proper_name_is_found(path, name):
    forge(path, 5, lambda d: d["stages"][0].update(name=name))
    assert "a stage's name must be text" in findings(path)[0][1]


def test_a_tiny_sigma_does_not_hide_a_large_claim(path):
    tiny = SmoothedRule(sigma=1e-15, classes=3)
    stages = (Stage("selection", 1e-15, (100, 0, 0), 100), Stage("estimation", 1e-15, (1000, 0, 0), 1000))
    proved = replay(tiny.certifying(n0=100, n=1000, alpha=1e-3), stages)
    inflated = replace(proved, radius=9.9e-11, stages=(proved.stages[0], replace(proved.stages[1], radius=9.9e-11)))
    assert not list(disagreements(proved, proved))
    assert any("radius is recorded as" in text for text in disagreements(inflated, proved))


def test_a_torn_line_is_mentioned_and_a_foreign_file_is_one_finding(path):
    path.write_bytes(path.read_bytes()[:-20])
    assert sx.verify(path).torn
    path.write_text("idx\tlabel\n" * 50)
    assert len(sx.verify(path).findings) == 1
