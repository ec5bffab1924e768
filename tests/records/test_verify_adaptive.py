"""verify with adaptive sampling: every look at its own level, in its order, and not one more than was asked for."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sigmax as sx
from sigmax.certify.dual_rule import DualRule
from sigmax.certify.procedure import replay
from sigmax.certify.sampling import Sampling, remade
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.records.journal import write_all
from sigmax.records.lines import Record, decode, encode
from sigmax.records.verify import disagreements
from tests.certify.helpers import feed
from tests.certify.test_adaptive_dual import QUESTIONS, told, two_routes
from tests.certify.test_dual import trees
from tests.certify.test_sampling import cast
from tests.records.helpers import plan
from tests.records.test_verify_dual import NASTY, encoded, findings, forge, put_at, spots, stage

N0, N, ALPHA = 100, 10_000, 1e-3
TARGETS = Sampling("adaptive", targets=(0.25, 0.5))
SMOOTHED = SmoothedRule(sigma=0.5, classes=2)
DUAL = two_routes("consensus")


def run_of(path, rule, question, votes):
    """A run of five inputs, all the same."""
    found, _ = feed(rule.certifying(n0=N0, n=N, alpha=ALPHA, sampling=question), votes)
    records = [Record(2 * i, 0, found, seconds=0.25) for i in range(5)]
    described = plan(rule=dict(rule.describe()), n0=N0, n=N, alpha=ALPHA, sampling=question.describe())
    write_all(path, described, records)
    return found


def cast_by(base):
    """Votes of a single scheme."""
    return lambda ask: told(base=base)(replace(ask, stage=f"base/{ask.stage}"))


@pytest.fixture
def path(tmp_path):
    """Smoothed, share 0.83: 0.25 is proved early, 0.5 is given up late."""
    path = tmp_path / "run.jsonl"
    found = run_of(path, SMOOTHED, TARGETS, cast_by(0.83))
    assert 0.25 <= found.radius < 0.5
    assert 4 < len(found.stages[1].looks) < 25
    return path


@pytest.fixture
def routed(tmp_path):
    """Consensus, where the router wavers and both experts and the router stop on the way."""
    path = tmp_path / "dual.jsonl"
    found = run_of(path, DUAL, Sampling("adaptive"), told(router=0.75, expert_0=0.95, expert_1=0.99))
    assert found.radius > 0
    assert all(0 < s.n < N for s in found.stages if s.name in ("router/estimation", "expert-1/estimation"))
    return path


def test_honest_runs_hold(path, routed):
    assert sx.verify(path).holds
    assert sx.verify(routed).holds
    assert sx.read(path).records[0].certificate.stages[1].looks[0] == (27, 5)


def shorten(s, looks):
    """A stage of these looks only, with counts that fit them."""
    counts = [sum(column) for column in zip(*looks, strict=True)]
    s.update(looks=looks, counts=counts, n=sum(counts))


def merged(looks, i):
    return [*looks[:i], [a + b for a, b in zip(looks[i], looks[i + 1], strict=True)], *looks[i + 2 :]]


def moved(looks, i, by):
    """Votes for class 0 from one look to the next one: the same in the end."""
    (a, b), (c, d) = looks[i], looks[i + 1]
    return [*looks[:i], [a + by, b - by], [c - by, d + by], *looks[i + 2 :]]


FORGED = [
    (lambda s: shorten(s, s["looks"][:-1]), "the record has n=32 + 32"),
    (lambda s: shorten(s, s["looks"][1:]), "should hold n=32 draws at sigma=0.5 from draw 160 on"),
    (lambda s: shorten(s, merged(s["looks"], 0)), "should hold n=32 draws"),
    (lambda s: shorten(s, merged(s["looks"], len(s["looks"]) - 2)), "from draw"),
    (lambda s: shorten(s, [*s["looks"], [100, 28]]), "the counts give"),
    (lambda s: shorten(s, [[0, 0], *s["looks"]]), "looks is recorded as"),
    (lambda s: shorten(s, [*s["looks"], [0, 0]]), "looks is recorded as"),
    (lambda s: shorten(s, [s["looks"][1], s["looks"][0], *s["looks"][2:-1], [0, 0]]), "should hold"),
    (lambda s: s.update(looks=moved(s["looks"], len(s["looks"]) - 2, 30)), "recorded as"),
    (lambda s: s.pop("looks"), "should hold n=32 draws"),
    (lambda s: s.update(looks=[]), "should hold n=32 draws"),
    (lambda s: s.update(looks=s["looks"][:-1]), "the counts of its looks must sum to its counts"),
    (lambda s: s.update(looks=[[1, 2], [3]]), "wrong kind"),
    (lambda s: s.update(looks=[[]]), "must sum to its counts"),
    (lambda s: s.update(looks=5), "not a whole record"),
    (lambda s: s.update(looks=None), "not a whole record"),
    (lambda s: s["looks"][0].__setitem__(0, -8), "a count must be a whole number of at least 0"),
    (lambda s: s["looks"][0].__setitem__(0, 24.0), "a count must be a whole number"),
    (lambda s: s.update(alpha=ALPHA), "alpha is recorded as 0.001"),
    (lambda s: s.update(alpha=2 * s["alpha"]), "alpha is recorded as"),
    (lambda s: s.update(lower=s["lower"] * 1.001), "lower is recorded as"),
    (lambda s: s.update(radius=s["radius"] * 1.001), "radius is recorded as"),
]


@pytest.mark.parametrize(("change", "message"), FORGED)
def test_a_forged_look_is_found_and_its_line_named(path, change, message):
    forge(path, 5, lambda d: change(stage(d, "estimation")))
    found = findings(path)
    assert {line for line, _ in found} <= {5, 7}  # and the end line, where the record cannot even be read
    assert message in " ".join(text for line, text in found if line == 5)


@pytest.mark.parametrize("name", ["router/estimation", "expert-1/estimation"])
@pytest.mark.parametrize(("change", "message"), FORGED[:6])
def test_a_forged_look_of_a_part_is_found(routed, name, change, message):
    forge(routed, 5, lambda d: change(stage(d, name)))
    assert {line for line, _ in findings(routed)} == {5}


def claim(radius):
    """The radius of a look that was never taken, everywhere it stands."""

    def change(d):
        d.update(radius=radius)
        stage(d, "estimation").update(radius=radius)

    return change


def test_the_radius_of_a_look_that_does_not_exist_is_found(path):
    certificate = sx.read(path).records[0].certificate
    counts = certificate.stages[1].counts
    generous = SMOOTHED.estimate(0, counts, ALPHA).radius  # all of alpha for the look it stopped at
    fixed = SMOOTHED.estimate(0, tuple(c * N // sum(counts) for c in counts), ALPHA).radius
    for radius in (generous, fixed):
        assert radius > certificate.radius
        forge(path, 5, claim(radius))
        assert "radius is recorded as" in findings(path)[0][1]


def whole_look(d):
    """A fixed record that says it had looks."""
    s = stage(d, "estimation")
    s["looks"] = [s["counts"]]


def test_a_fixed_run_has_no_looks(tmp_path):
    path = tmp_path / "run.jsonl"
    run_of(path, SMOOTHED, Sampling(), cast_by(0.75))
    assert sx.verify(path).holds
    forge(path, 4, whole_look)
    assert "estimation looks is recorded as" in findings(path)[0][1]
    forge(path, 5, lambda d: shorten(stage(d, "selection"), [[50, 0], [25, 25]]))
    assert 5 in {line for line, _ in findings(path)}
    forge(path, 1, lambda d: d.update(sampling={"kind": "adaptive", "targets": [0.25], "stopping": "foreseen"}))
    assert {line for line, _ in findings(path)} == {2, 3, 4, 5, 6}


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "fixed"},
        {"first": 16},
        {"first": 64},
        {"first": 10_000},
        {"growth": 1.5},
        {"growth": 100.0},
        {"last": 0.5},
        {"last": 1.0},
        {"last": 0.01},
        {"targets": []},
        {"targets": [0.25]},
        {"targets": [0.1]},
        {"targets": [], "tolerance": 0.05},
        {"targets": [], "tolerance": 1.0},
        {"doubt": 0.4},
        {"doubt": 1e-6},
    ],
)
def test_a_plan_of_another_question_is_found_in_every_record(path, change):
    """Any of them is a sound way to sample, but not how these records came about.

    A change that would have stopped every input at the same look (the target 0.5 alone, here, or 0.25 and 0.4)
    cannot be seen, and does not matter: what is claimed is proved either way.
    """
    forge(path, 1, lambda d: d["sampling"].update(change))
    assert {line for line, _ in findings(path)} in ({2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6})


@pytest.mark.parametrize(
    "sampling",
    [
        5,
        None,
        [],
        {"kind": "lazy"},
        {"kind": "adaptive", "cap": 0.1},
        {"kind": "adaptive", "levels": [1, 1]},
        {"kind": "adaptive", "last": 1.5},
        {"kind": "adaptive", "last": -1.0},
        {"kind": "adaptive", "growth": 0.5},
        {"kind": "adaptive", "first": 0},
        {"kind": "adaptive", "targets": "x"},
        {"kind": "adaptive", "targets": [0.5], "tolerance": 0.5},
        {"kind": "fixed", "targets": [0.5]},
    ],
)
def test_a_plan_of_no_question_is_found(path, sampling):
    forge(path, 1, lambda d: d.update(sampling=sampling))
    assert findings(path)[0][0] == 1


def test_a_plan_that_does_not_say_is_a_fixed_one_and_its_looks_are_found(path):
    forge(path, 1, lambda d: d.pop("sampling"))
    assert {line for line, _ in findings(path)} == {2, 3, 4, 5, 6}


# Routed systems: who was asked, in which order, and up to which radius


def test_a_dual_cannot_leave_out_what_was_asked_or_ask_more(routed):
    for change in (
        lambda d: d["stages"].remove(stage(d, "expert-1/estimation")),
        lambda d: d["stages"].remove(stage(d, "router/estimation")),
        lambda d: d["stages"].append({**stage(d, "expert-1/estimation"), "name": "expert-2/estimation"}),
        lambda d: d["stages"].insert(0, d["stages"].pop()),
    ):
        before = routed.read_bytes()
        forge(routed, 5, change)
        assert {line for line, _ in findings(routed)} == {5}
        routed.write_bytes(before)


def test_a_part_asked_up_to_another_radius_is_found(routed):
    """As if nothing limited expert 1, or the router: other looks, and other levels."""
    for name, rule, shares in (
        ("expert-1/estimation", DUAL.experts[1], 0.99),
        ("router/estimation", DUAL.router, 0.75),
    ):
        question = Sampling("adaptive")
        alone, _ = feed(rule.estimating(0, n=N, alpha=2.5e-4, sampling=question), cast_by(shares))
        before = routed.read_bytes()
        forge(routed, 5, lambda d, name=name, alone=alone: stage(d, name).update(looks=alone.looks, n=alone.n,
            counts=alone.counts, alpha=alone.alpha, lower=alone.lower, radius=alone.radius))  # fmt: skip
        assert {line for line, _ in findings(routed)} == {5}
        routed.write_bytes(before)


def test_a_fixed_certificate_does_not_pass_for_an_adaptive_one(routed):
    votes = told(router=0.75, expert_0=0.95, expert_1=0.99)
    fixed, _ = feed(DUAL.certifying(n0=N0, n=N, alpha=ALPHA), votes)
    forge(routed, 5, lambda d: d.update(Record(6, 0, fixed, 0.25).to_json()))
    assert {line for line, _ in findings(routed)} == {5}
    for rule in (DualRule(DUAL.router, DUAL.experts, "min"), DUAL):
        other, _ = feed(rule.certifying(n0=N0, n=N, alpha=ALPHA, sampling=TARGETS), votes)
        forge(routed, 5, lambda d, other=other: d.update(Record(6, 0, other, 0.25).to_json()))
        assert {line for line, _ in findings(routed)} == {5}


@settings(deadline=None, max_examples=60)
@given(trees, st.integers(0, 2**32), st.sampled_from([1e-3, 0.3]), st.sampled_from(list(QUESTIONS.values())))
def test_records_of_any_tree_hold_and_survive_their_line(rule, seed, alpha, question):
    def again():
        return rule.certifying(n0=20, n=2_000, alpha=alpha, sampling=question)

    record = Record(0, 0, feed(again(), cast(seed))[0], seconds=0.5)
    read = Record.from_json(decode(encode(record.to_json())))
    assert read == record
    assert not list(disagreements(read.certificate, replay(again(), read.certificate.stages)))


def nonsense(path, line, within):
    """The honest data of a line, and with every place in turn put to nonsense; the file holds what is yielded."""
    lines = dict(zip(("plan", "record"), path.read_bytes().splitlines()[::4], strict=False))
    honest = decode(lines[line])
    for turn, spot in enumerate(spots({within: honest[within]})):
        for value in NASTY[turn % 5 :: 5]:  # all of them everywhere would take minutes
            data = json.loads(json.dumps(honest))
            put_at(data, spot, value)
            text = json.dumps(data, separators=(",", ":"))
            path.write_bytes(b"".join(each + b"\n" for each in {**lines, line: encoded(text)}.values()))
            yield honest, data, (spot, value)


def test_nonsense_in_a_record_is_found_and_breaks_nothing(routed):
    for honest, data, where in nonsense(routed, "record", "stages"):
        assert sx.verify(routed).holds == (json.dumps(data) == json.dumps(honest)), where


def test_nonsense_in_the_question_is_found_and_breaks_nothing(routed):
    for honest, data, where in nonsense(routed, "plan", "sampling"):
        if sx.verify(routed).holds:  # another way to write the same, such as 0 for 0.0
            assert remade(data["sampling"]) == remade(honest["sampling"]), where


def test_a_run_stopped_by_another_rule_is_refused_by_name(tmp_path):
    """How inputs are given up has changed before: the counts of such a run would not fit, though its radii hold."""
    path = tmp_path / "run.jsonl"
    run_of(path, SMOOTHED, Sampling("adaptive", targets=(0.25,)), cast_by(0.75))
    assert sx.verify(path).holds
    forge(path, 1, lambda d: d["sampling"].pop("stopping"))
    told = [message for _, message in findings(path)]
    assert len(told) > 1
    assert all("take the version that made the file" in message for message in told), (
        "nothing is said of its counts"
    )
    assert remade(sx.read(path).plan.sampling).targets == (0.25,), "what was asked can still be read"
    forge(path, 1, lambda d: d["sampling"].update(stopping="wilson"))
    assert "no such schedule of looks" in findings(path)[0][1]
