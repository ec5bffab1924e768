"""verify with routed systems: every part of a record must follow from its counts."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings

import sigmax as sx
from sigmax.certify.dual_rule import DualRule
from sigmax.certify.lipschitz_rule import LipschitzRule
from sigmax.certify.procedure import Ask, Seen, replay
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.records.certificate import Stage
from sigmax.records.journal import Journal, write_all
from sigmax.records.lines import _MARK, Record, _checksum, decode, encode
from sigmax.records.verify import disagreements
from tests.certify.helpers import feed, random_answers
from tests.certify.test_dual import answers, levels, trees
from tests.records.helpers import plan

N0, N, ALPHA = 20, 1000, 1e-3
EXPERTS = (SmoothedRule(sigma=0.25, classes=2), SmoothedRule(sigma=0.5, classes=2), LipschitzRule(1.0, classes=2))
RULE = DualRule(SmoothedRule(sigma=0.5, classes=3), EXPERTS)
VOTES = {
    "router": ((11, 9, 0), (480, 420, 100)),
    "expert-0": ((20, 0), (990, 10)),
    "expert-1": ((19, 1), (950, 50)),
}


def told(question):
    """The router wavers between experts 0 and 1, who agree; expert 2 is farther, and agrees too."""
    part, _, stage = question.stage.partition("/")
    return VOTES[part][stage == "estimation"] if isinstance(question, Ask) else Seen(0, 0.9, 0.1)


def certificate(rule=RULE, votes=told):
    return feed(rule.certifying(n0=N0, n=N, alpha=ALPHA), votes)[0]


@pytest.fixture
def path(tmp_path):
    """A run of five inputs; the fourth (line 5) is the one whose parts are told above."""
    found = [certificate(votes=random_answers(seed, 0.1)) for seed in (1, 2, 3)] + [certificate()] * 2
    path = tmp_path / "run.jsonl"
    records = [Record(2 * i, 0, c, seconds=0.25) for i, c in enumerate(found)]
    write_all(path, plan(rule=dict(RULE.describe()), n0=N0), records)
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


def stage(data, name):
    return next(s for s in data["stages"] if s["name"] == name)


def swap(data, first, second):
    """Exchange the names of two experts, and nothing else."""
    names = {first: second, second: first}
    for entry in data["stages"]:
        part, _, rest = entry["name"].partition("/")
        entry["name"] = f"{names.get(part, part)}/{rest}"


def test_an_honest_run_holds(path):
    assert sx.verify(path).holds
    last = sx.read(path).records[-1].certificate
    assert [s.name for s in last.stages if s.name.endswith(("estimation", "measure"))] == [
        "router/estimation",
        "expert-0/estimation",
        "expert-1/estimation",
        "expert-2/measure",
    ]
    assert last.predicted == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: stage(d, "router/estimation").update(radius=0.9), "router/estimation radius is recorded as 0.9"),
        (lambda d: stage(d, "router/estimation").update(lower=0.9), "router/estimation lower is recorded as 0.9"),
        (lambda d: stage(d, "router/estimation").update(upper=0.1), "router/estimation upper is recorded as 0.1"),
        (lambda d: stage(d, "router/estimation").update(alpha=1e-3), "router/estimation alpha is recorded"),
        (lambda d: stage(d, "router/estimation").update(counts=[900, 50, 50]), "the counts give"),
        (lambda d: stage(d, "router/selection").update(counts=[0, 0, 20]), "router/estimation lower is recorded"),
        (lambda d: stage(d, "expert-1/estimation").update(counts=[999, 1]), "the counts give"),
        (lambda d: stage(d, "expert-1/estimation").update(sigma=5.0), "at sigma=5.0"),
        (lambda d: stage(d, "expert-1/estimation").update(radius=9.0), "expert-1/estimation radius is recorded"),
        (lambda d: stage(d, "expert-0/selection").update(counts=[0, 20]), "predicted is recorded as 0"),
        (lambda d: stage(d, "expert-2/measure").update(lower=9.0), "the counts give"),
        (lambda d: stage(d, "expert-2/measure").update(lower=0.05), "a rival's that is not above it"),
        (lambda d: stage(d, "expert-2/measure").update(counts=[0, 1]), "the counts give"),
        (lambda d: d["stages"].pop(0), "no stage 'router/selection'"),
        (lambda d: d["stages"].pop(), "no stage 'expert-2/measure'"),
        (lambda d: d["stages"].append(d["stages"][-1]), "8 stages are recorded, 7 are asked for"),
        (lambda d: d["stages"].append({**d["stages"][2], "name": "expert-7/selection"}), "8 stages are recorded"),
        (lambda d: d["stages"].insert(0, d["stages"].pop(2)), "name is recorded as"),
        (lambda d: swap(d, "expert-0", "expert-1"), "should hold n=20 draws at sigma"),
        (lambda d: d.update(ledger=[]), "the ledger is recorded as ()"),
        (lambda d: d["ledger"].pop(), "the ledger is recorded as"),
        (lambda d: d["ledger"].append(["free", 0.9]), "the ledger spends more than alpha=0.001"),
        (lambda d: d["ledger"][0].__setitem__(1, 1e-9), "the ledger is recorded as"),
        (lambda d: d["ledger"][0].__setitem__(0, "nothing"), "the ledger is recorded as"),
        (lambda d: d["ledger"][0].__setitem__(1, -1.0), "an alpha spent must be a positive number"),
        (lambda d: d.update(ledger=[["router"]]), "not a whole record"),
        (lambda d: d.pop("ledger"), "not a whole record"),
        (lambda d: d.update(alpha=None), "alpha is recorded as None"),
        (lambda d: d.update(radius=d["radius"] + 1e-9), "radius is recorded as"),
        (lambda d: d.update(outcome="experts_disagree", predicted=None, radius=0.0), "outcome is recorded as"),
        (lambda d: d.update(outcome="router_undecided", predicted=None, radius=0.0), "outcome is recorded as"),
    ],
)
def test_a_forged_part_is_found_and_its_line_named(path, change, message):
    forge(path, 5, change)
    found = findings(path)
    assert found[0][0] == 5
    assert message in " ".join(text for _, text in found)


@pytest.mark.parametrize(
    "rule",
    [
        DualRule(RULE.router, RULE.experts, "min"),
        DualRule(RULE.router, (*RULE.experts[:2], SmoothedRule(sigma=0.5, classes=2))),
        DualRule(RULE.router, (*RULE.experts[:2], LipschitzRule(0.1, classes=2))),
        DualRule(SmoothedRule(sigma=2.0, classes=3), RULE.experts),
    ],
)
def test_a_record_made_by_another_rule_is_found(path, rule):
    def votes(question):
        if question.stage.startswith("expert-2") and isinstance(question, Ask):
            return VOTES["expert-1"][question.stage.endswith("estimation")]
        return told(question)

    other = Record(6, 0, certificate(rule, votes), seconds=0.25).to_json()
    forge(path, 5, lambda d: d.update(other))
    assert {line for line, _ in findings(path)} == {5}


def test_calling_the_rule_otherwise_is_found_in_every_record(path):
    forge(path, 1, lambda d: d["rule"].update(rule="min"))
    assert {line for line, _ in findings(path)} == {2, 3, 4, 5, 6}


def test_a_minimums_radius_cannot_pass_for_a_consensus():
    certain = {**VOTES, "router": ((20, 0, 0), (990, 5, 5))}

    def votes(question):
        part, _, which = question.stage.partition("/")
        return certain[part][which == "estimation"]

    least = certificate(DualRule(RULE.router, RULE.experts, "min"), votes)
    proved = certificate(RULE, votes)
    assert least.predicted == proved.predicted == 0
    replayed = replay(RULE.certifying(n0=N0, n=N, alpha=ALPHA), least.stages)
    assert replayed == proved
    assert any("radius is recorded as" in text for text in disagreements(least, replayed))
    assert any("the ledger is recorded as" in text for text in disagreements(least, replayed))


def test_a_routers_large_noise_does_not_hide_what_a_small_expert_claims():
    experts = tuple(SmoothedRule(sigma=1e-15, classes=2) for _ in range(2))
    rule = DualRule(SmoothedRule(sigma=1.0, classes=2), experts)
    stages = [Stage(f"{part}/selection", s, (20, 0), 20) for part, s in (("router", 1.0), ("expert-0", 1e-15))]
    stages += [Stage(f"{part}/estimation", s, (N, 0), N) for part, s in (("router", 1.0), ("expert-0", 1e-15))]
    proved = replay(rule.certifying(n0=N0, n=N, alpha=ALPHA), stages)
    assert 0 < proved.radius < 1e-14
    expert = replace(proved.stages[-1], radius=9.9e-11)
    for inflated in (replace(proved, radius=9.9e-11), replace(proved, stages=(*proved.stages[:-1], expert))):
        assert any("radius is recorded as" in text for text in disagreements(inflated, proved))


# Whatever stands in the file, verification ends with a finding

NASTY = (None, True, -1, 0, 1.5, float("nan"), 10**400, "x", "", [], [[]], {}, {"scheme": []}, [None], -1e308)


def spots(data, prefix=()):
    """Every place in nested data."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*prefix, key)
        yield from spots(value, (*prefix, key))


def put_at(data, spot, value):
    for key in spot[:-1]:
        data = data[key]
    data[spot[-1]] = value


@pytest.mark.parametrize("line", ["plan", "record"])
def test_nonsense_anywhere_is_found_and_breaks_nothing(path, line):
    lines = dict(zip(("plan", "record"), path.read_bytes().splitlines()[::4], strict=False))
    honest = decode(lines[line])
    within = {"rule": honest["rule"]} if line == "plan" else honest
    for turn, spot in enumerate(spots(within)):
        if spot[0] in ("index", "seconds", "label"):  # what the counts cannot tell
            continue
        for value in NASTY[turn % 5 :: 5]:  # all of them everywhere would take minutes
            data = json.loads(json.dumps(honest))
            put_at(data, spot, value)
            text = json.dumps(data, separators=(",", ":"))
            path.write_bytes(b"".join(each + b"\n" for each in {**lines, line: encoded(text)}.values()))
            untouched = text == json.dumps(honest, separators=(",", ":"))
            assert sx.verify(path).holds == untouched, (spot, value)


def encoded(text: str) -> bytes:
    """A line with its checksum, also of numbers that JSON does not know."""
    return f'{text[:-1]}{_MARK}{_checksum(text)}"}}'.encode()


def nested(depth: int):
    inner = {"scheme": "smoothed", "sigma": 0.5, "classes": 2, "bound": "one-sided"}
    rule = inner
    for _ in range(depth):
        rule = {"scheme": "dual", "rule": "min", "classes": 2, "router": inner, "experts": [rule, inner]}
    return rule


@pytest.mark.parametrize("depth", [17, 60, 200, 5000])
def test_a_plan_of_routers_below_routers_without_end_is_found(path, depth):
    text = json.dumps({**decode(path.read_bytes().splitlines()[0]), "rule": 0}, separators=(",", ":"))
    deep = '{"scheme":"dual","rule":"min","classes":2,"router":0,"experts":[' * depth + "0" + "]}" * depth
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([encoded(text.replace('"rule":0', f'"rule":{deep}')), *lines[1:]]) + b"\n")
    assert findings(path)[0][0] == 1
    before = path.read_bytes()
    with pytest.raises(sx.RequestError):
        Journal(path, plan(rule=dict(RULE.describe()), n0=N0))
    assert path.read_bytes() == before


def test_a_plan_of_few_routers_below_each_other_is_one(path):
    forge(path, 1, lambda d: d.update(rule=nested(5)))
    assert 1 not in {line for line, _ in findings(path)}
    forge(path, 1, lambda d: d.update(rule=nested(20)))
    assert "more than 16 routers below each other" in findings(path)[0][1]


@settings(deadline=None, max_examples=40)
@given(trees, answers, levels)
def test_records_of_any_tree_hold_and_survive_their_line(rule, votes, alpha):
    found, _ = feed(rule.certifying(n0=N0, n=5000, alpha=alpha), votes)
    record = Record(0, 0, found, seconds=0.5)
    again = Record.from_json(decode(encode(record.to_json())))
    assert again == record
    proved = replay(rule.certifying(n0=N0, n=5000, alpha=alpha), again.certificate.stages)
    assert not list(disagreements(again.certificate, proved))


def test_the_frame_of_a_run_has_the_noise_of_the_expert_in_charge(path):
    frame = sx.read(path).frame()
    assert frame["sigma"].tolist()[-1] == 0.25
    forge(path, 5, lambda d: d.update(stages=[], ledger=[]))
    assert sx.read(path).frame()["sigma"].isna().tolist()[3]
