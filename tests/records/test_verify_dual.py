"""verify with routed systems: every part of a record must follow from its counts."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sigmax as sx
from sigmax.records.journal import Journal, write_all
from sigmax.records.lines import Record, decode, encode
from sigmax.records.verify import disagreements
from sigmax.rules.lipschitz import LipschitzRule
from sigmax.rules.procedure import Scores, VoteRequest
from sigmax.rules.replay import replay
from sigmax.rules.routed.rule import DualRule
from tests.records.helpers import (
    at_random,
    encoded,
    feed,
    findings,
    forge,
    gaussian,
    holds,
    nonsense,
    plan,
    stage,
    stages,
    trees,
)

N0, N, ALPHA = 20, 1000, 1e-3
EXPERTS = (gaussian(0.25, 2), gaussian(0.5, 2), LipschitzRule(1.0, classes=2))
RULE = DualRule(gaussian(0.5, 3), EXPERTS)
VOTES = {
    "router": ((11, 9, 0), (480, 420, 100)),
    "expert-0": ((20, 0), (990, 10)),
    "expert-1": ((19, 1), (950, 50)),
}


def given_votes(question):
    """The router wavers between experts 0 and 1, who agree; expert 2 is farther, and agrees too."""
    if isinstance(question, VoteRequest):
        return VOTES[question.part][question.role == "estimation"]
    return Scores(0, 0.9, 0.1, 10.0, 2.0**-14)


def certificate(rule=RULE, votes=given_votes):
    return feed(rule.certifying(n0=N0, n=N, alpha=ALPHA), votes)


@pytest.fixture
def path(tmp_path):
    """A run of five inputs; the fourth (line 5) is the one whose votes are given above."""
    found = [certificate(votes=at_random(seed, 0.1)) for seed in (1, 2, 3)] + [certificate()] * 2
    path = tmp_path / "run.jsonl"
    records = [Record(2 * i, 0, c, seconds=0.25) for i, c in enumerate(found)]
    write_all(path, plan(rule=dict(RULE.describe()), n0=N0), records)
    return path


def swap(data, first, second):
    """Exchange the names of two experts, and nothing else."""
    names = {first: second, second: first}
    for entry in data["stages"]:
        entry["part"] = names.get(entry["part"], entry["part"])


def test_an_honest_run_holds(path):
    assert sx.verify(path).holds
    last = sx.read(path).records[-1].certificate
    assert [s.name for s in last.stages if s.role in ("estimation", "score")] == [
        "router/estimation",
        "expert-0/estimation",
        "expert-1/estimation",
        "expert-2/score",
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
        (lambda d: stage(d, "expert-2/score").update(scores=[9.0, 0.1, 10.0, 2.0**-14]), "the counts give"),
        (lambda d: stage(d, "expert-2/score").update(scores=[0.9, 0.1, 10.0, 0.0]), "the counts give"),
        (lambda d: stage(d, "expert-2/score").update(scores=[0.9, 0.1, 10.0]), "and the share of rounding"),
        (lambda d: stage(d, "expert-2/score").update(scores=[0.05, 0.1]), "a rival's that is not above it"),
        (lambda d: stage(d, "expert-2/score").update(counts=[0, 1]), "the counts give"),
        (lambda d: d["stages"].pop(0), "no stage 'router/selection'"),
        (lambda d: d["stages"].pop(), "no stage 'expert-2/score'"),
        (lambda d: d["stages"].append(d["stages"][-1]), "8 stages are recorded, 7 are asked for"),
        (lambda d: d["stages"].append({**d["stages"][2], "part": "expert-7"}), "8 stages are recorded"),
        (lambda d: d["stages"].insert(0, d["stages"].pop(2)), "part is recorded as"),
        (lambda d: swap(d, "expert-0", "expert-1"), "should hold n=20 samples at sigma"),
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
        DualRule(RULE.router, (*RULE.experts[:2], gaussian(0.5, 2))),
        DualRule(RULE.router, (*RULE.experts[:2], LipschitzRule(0.1, classes=2))),
        DualRule(gaussian(2.0, 3), RULE.experts),
    ],
)
def test_a_record_made_by_another_rule_is_found(path, rule):
    def votes(question):
        if question.part == "expert-2" and isinstance(question, VoteRequest):
            return VOTES["expert-1"][question.role == "estimation"]
        return given_votes(question)

    other = Record(6, 0, certificate(rule, votes), seconds=0.25).to_json()
    forge(path, 5, lambda d: d.update(other))
    assert {line for line, _ in findings(path)} == {5}


def test_calling_the_rule_otherwise_is_found_in_every_record(path):
    forge(path, 1, lambda d: d["rule"].update(rule="min"))
    assert {line for line, _ in findings(path)} == {2, 3, 4, 5, 6}


def test_a_minimums_radius_cannot_pass_for_a_consensus():
    certain = {**VOTES, "router": ((20, 0, 0), (990, 5, 5))}

    def votes(question):
        return certain[question.part][question.role == "estimation"]

    least = certificate(DualRule(RULE.router, RULE.experts, "min"), votes)
    proved = certificate(RULE, votes)
    assert least.predicted == proved.predicted == 0
    replayed = replay(RULE.certifying(n0=N0, n=N, alpha=ALPHA), least.stages)
    assert replayed == proved
    assert any("radius is recorded as" in text for text in disagreements(least, replayed))
    assert any("the ledger is recorded as" in text for text in disagreements(least, replayed))


def test_a_routers_large_noise_does_not_hide_what_a_small_expert_claims():
    rule = DualRule(gaussian(1.0, 2), (gaussian(1e-15, 2),) * 2)
    votes = [*stages("router", 1.0, (20, 0), (N, 0)), *stages("expert-0", 1e-15, (20, 0), (N, 0))]
    proved = replay(rule.certifying(n0=N0, n=N, alpha=ALPHA), votes)
    assert 0 < proved.radius < 1e-14
    expert = replace(proved.stages[-1], radius=9.9e-11)
    for inflated in (replace(proved, radius=9.9e-11), replace(proved, stages=(*proved.stages[:-1], expert))):
        assert any("radius is recorded as" in text for text in disagreements(inflated, proved))


# Whatever stands in the file, verification ends with a finding


@pytest.mark.parametrize(
    ("line", "within"),
    [("plan", ("rule",)), ("record", ("predicted", "radius", "outcome", "alpha", "ledger", "stages", "limited_by"))],
)
def test_nonsense_anywhere_is_found_and_breaks_nothing(path, line, within):
    for honest, data, where in nonsense(path, line, within):
        assert holds(path, where) == (json.dumps(data) == json.dumps(honest)), where


def nested(depth: int):
    inner = dict(gaussian(0.5, 2).describe())
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


def test_a_plan_of_sixteen_routers_below_each_other_is_one(path):
    forge(path, 1, lambda d: d.update(rule=nested(16)))
    assert 1 not in {line for line, _ in findings(path)}
    forge(path, 1, lambda d: d.update(rule=nested(17)))
    assert "more than 16 schemes below each other" in findings(path)[0][1]


@settings(deadline=None, max_examples=40)
@given(trees, st.integers(0, 2**32), st.sampled_from([1e-4, 1e-3, 0.3]))
def test_records_of_any_tree_hold_and_survive_their_line(rule, seed, alpha):
    found = feed(rule.certifying(n0=N0, n=5000, alpha=alpha), at_random(seed))
    record = Record(0, 0, found, seconds=0.5)
    again = Record.from_json(decode(encode(record.to_json())))
    assert again == record
    proved = replay(rule.certifying(n0=N0, n=5000, alpha=alpha), again.certificate.stages)
    assert not list(disagreements(again.certificate, proved))


def test_the_frame_of_a_run_has_the_noise_of_the_expert_that_answered(path):
    frame = sx.read(path).frame()
    assert frame["sigma"].tolist()[-1] == 0.25
    forge(path, 5, lambda d: d.update(stages=[], ledger=[]))
    assert sx.read(path).frame()["sigma"].isna().tolist()[3]
