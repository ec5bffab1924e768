"""verify: a record must prove its radius from its own counts, and the line that does not is named."""

import gzip
import zlib
from dataclasses import replace

import pytest

import sigmax as sx
from sigmax.records.journal import write_all
from sigmax.records.verify import disagreements
from sigmax.rules.replay import replay
from tests.records.helpers import encoded, findings, forge, gaussian, plan, records, stages

MORE = 1e-14  # more than the last bits by which processors differ


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "run.jsonl"
    write_all(path, plan(), records())
    return path


def test_an_honest_run_holds(path):
    verdict = sx.verify(path)
    assert verdict.holds
    assert (verdict.records, verdict.planned, verdict.finished, verdict.imported) == (5, 5, True, False)
    assert sx.verify(sx.read(path)) == verdict
    with pytest.raises(sx.RequestError, match="expected a Run or the path of a run file; got list"):
        sx.verify([path])


def test_an_unfinished_run_holds_as_far_as_it_goes(path):
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]) + b'{"kind":"inp')
    verdict = sx.verify(path)
    assert verdict.holds
    assert (verdict.records, verdict.planned, verdict.finished) == (2, 5, False)


@pytest.mark.parametrize("old_new", [(b"740", b"741"), (b'"radius":0.', b'"radius":1.'), (b'"label":2', b'"label":0')])
def test_a_flipped_digit_is_found_and_its_line_named(path, old_new):
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(*old_new, 1)
    path.write_bytes(b"".join(lines))
    # The line itself, and the end line, which counts one record more than can be read.
    assert [line for line, _ in findings(path)] == [4, 7]
    assert "altered" in findings(path)[0][1]
    assert findings(path)[1][1].endswith("names 5 and the file holds 4; line 4 was not counted")
    path.write_bytes(
        b"".join([lines[0], *(line.replace(b'"label":', b'"label":1') for line in lines[1:-1]), lines[-1]])
    )
    assert findings(path)[-1][1].endswith("the file holds 0; lines 2, 3, 4, ... were not counted")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(radius=d["radius"] * 1.0001), "radius is recorded as"),
        (lambda d: d.update(radius=d["radius"] * 0.9), "radius is recorded as"),
        (lambda d: d["stages"][1].update(counts=[870, 130, 0]), "the counts give"),
        (lambda d: d["stages"][1].update(counts=[870, 140, 0]), "sum to n=1000; they sum to 1010"),
        (lambda d: d["stages"][0].update(counts=[99, 0, 0]), "they sum to 99"),
        (lambda d: d["stages"][0].update(counts=[0, 100, 0]), "predicted is recorded as 0"),
        (lambda d: d["stages"][1].update(n=2000, counts=[1720, 280, 0]), "should hold n=1000 samples"),
        (lambda d: d["stages"][1].update(sigma=1.0), "the record has n=1000 at sigma=1.0"),
        (lambda d: d["stages"][1].update(lower=0.99), "estimation lower is recorded as 0.99"),
        (lambda d: d["stages"][1].update(alpha=0.01), "estimation alpha is recorded as 0.01"),
        (lambda d: d.update(alpha=0.01), "alpha is recorded as 0.01, the counts give 0.001"),
        (lambda d: d.update(predicted=2), "predicted is recorded as 2, the counts give 0"),
        (lambda d: d.update(outcome="too_close"), "outcome is recorded as too_close"),
        (lambda d: d.update(label=7), "label 7 is not a class"),
        (lambda d: d.update(answered_by="expert-0"), "answered_by is recorded as expert-0, the counts give "),
        (lambda d: d.update(limited_by=None), "limited_by is recorded as None, the counts give estimation"),
        (lambda d: d.update(limited_by=7), "limited_by must be a part or a stage"),
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
        (lambda d: d.update(radius=d["radius"] * (1 + MORE)), "radius is recorded as"),
        (lambda d: d["stages"][1].update(lower=d["stages"][1]["lower"] * (1 + MORE)), "estimation lower is"),
        (lambda d: d["stages"][1].update(radius=d["stages"][1]["radius"] * (1 + MORE)), "estimation radius is"),
        (lambda d: d.update(radius=float("inf")), "Infinity"),
        (lambda d: d["stages"][1].update(looks=[]), "not spelled as sigmax writes it"),
        (lambda d: d["stages"][1].update(note=1), "note"),
        (lambda d: d.update(seconds=-0.0), "not spelled as sigmax writes it"),
        (lambda d: d.update(seconds=0.1234567), "not spelled as sigmax writes it"),
        (lambda d: d.update(seconds=1), "seconds must be a number"),
        (lambda d: d["stages"][0].update(alpha=-0.0), "not spelled as sigmax writes it"),
        (lambda d: d["stages"][0].update(alpha=0), "a stage's alpha must be a finite number"),
        (lambda d: d.update(label=d.pop("label")), "not spelled as sigmax writes it"),
        (lambda d: d.update(alpha="0.001"), "alpha is recorded as"),
        (lambda d: d.update(radius=None), "radius must be a finite number, got None"),
    ],
)
def test_a_forged_record_is_found_and_its_line_named(path, change, message):
    forge(path, 5, change)
    found = findings(path)
    assert found[0][0] == 5
    assert message in " ".join(text for _, text in found)


@pytest.mark.parametrize(
    ("line", "change"),
    [
        (7, lambda d: d.update(note=1)),
        (7, lambda d: d.update(seconds=-0.0)),
        (7, lambda d: d.update(seconds=1)),
        (7, lambda d: d.pop("seconds")),
        (7, lambda d: d.update(inputs=5.0)),
        (1, lambda d: d["inputs"].update(note=1)),
        (1, lambda d: d["inputs"].update(skip=2.0)),
        (1, lambda d: d["rule"].update(note=1)),
        (1, lambda d: d["rule"].update(sigma=1)),
        (1, lambda d: d["rule"].update(defers=0)),
        (1, lambda d: d["sampling"].update(note=1)),
        (1, lambda d: d["made_with"].update(spare=-0.0)),
        (1, lambda d: d["made_with"].update(spare=float("nan"))),
    ],
)
def test_a_forged_plan_or_end_line_is_found(path, line, change):
    forge(path, line, change)
    assert {found for found, _ in findings(path)} >= {line}


def test_a_record_may_claim_less_by_rounding_alone(path):
    def lower(d, by):
        d["radius"] = d["stages"][1]["radius"] = d["radius"] * (1 - by)

    forge(path, 5, lambda d: lower(d, 1e-12))  # as another version of scipy may have computed it
    assert sx.verify(path).holds
    forge(path, 5, lambda d: lower(d, 1e-9))
    assert not sx.verify(path).holds


def test_a_missing_record_is_found(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    ((line, message),) = findings(path)
    assert line == 6
    assert message.endswith("the plan names 5 and the file holds 4"), "no line is to blame"


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
        *({name: None} for name in ("n0", "seed", "generator", "arithmetic", "system")),  # only a log may not say
        {"data": 5},
        {"made_with": 5},
        {"norm": "linf"},
        {"rule": {**plan().rule, "sigma": 10**400}},
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
    with pytest.raises(sx.RequestError, match="cannot be unzipped"):
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


@pytest.mark.parametrize("value", [["x"], {}, None, 7, True, "nothing"])
def test_a_stage_without_a_proper_part_or_role_is_found(path, value):
    if value != "nothing":
        forge(path, 5, lambda d: d["stages"][0].update(part=value))
        assert "a stage's part must be text" in findings(path)[0][1]
    forge(path, 4, lambda d: d["stages"][0].update(role=value))
    assert "a stage's role must be one of selection" in findings(path)[0][1]


def test_a_surplus_or_repeated_key_is_found(path):
    forge(path, 5, lambda d: d.update(note="read me"))
    assert "it has note as well" in findings(path)[0][1]
    forge(path, 1, lambda d: d.update(note="read me"))
    assert "the plan has note" in findings(path)[0][1]


def test_a_key_that_stands_twice_is_found(path):
    lines = path.read_bytes().splitlines()
    body = lines[4].rpartition(b',"crc"')[0].decode() + "}"
    lines[4] = encoded(body.replace('"radius":', '"radius":9.0,"radius":', 1))
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert "a name stands twice" in findings(path)[0][1]


def test_a_tiny_sigma_does_not_hide_a_large_claim(path):
    tiny = gaussian(1e-15, 3)
    votes = stages("", 1e-15, (100, 0, 0), (1000, 0, 0))
    proved = replay(tiny.certifying(n0=100, n=1000, alpha=1e-3), votes)
    inflated = replace(proved, radius=9.9e-11, stages=(proved.stages[0], replace(proved.stages[1], radius=9.9e-11)))
    assert not list(disagreements(proved, proved))
    assert any("radius is recorded as" in text for text in disagreements(inflated, proved))


def test_a_torn_line_is_mentioned(path):
    path.write_bytes(path.read_bytes()[:-20])
    assert sx.verify(path).torn


def test_what_is_no_run_is_refused_and_a_damaged_plan_found(path):
    first, rest = path.read_bytes().split(b"\n", 1)
    for plan_line in (first[:-1], first.replace(b"0.001", b"0.002"), rest.split(b"\n")[0]):
        path.write_bytes(plan_line + b"\n" + rest)
        assert [line for line, _ in findings(path)] == [1]
    for foreign in (b"idx\tlabel\n" * 50, b"PK\x03\x04\xff\n\xfe\n", b"\n" + first + b"\n" + rest, b"{}\n"):
        path.write_bytes(foreign)
        with pytest.raises(sx.RequestError, match="is no run file as `sigmax certify` writes it"):
            sx.verify(path)


def test_a_run_of_a_scheme_that_is_not_installed_is_refused(path):
    forge(path, 1, lambda d: d["rule"].update(scheme="rings"))
    with pytest.raises(sx.RequestError, match=r"run\.jsonl: unknown scheme 'rings'; this installation"):
        sx.verify(path)
