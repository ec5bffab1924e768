"""verify with adaptive sampling: every look at its own level, in its order, and not one more than was asked for."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sigmax as sx
from sigmax.records.journal import write_all
from sigmax.records.lines import Record, decode, encode
from sigmax.records.verify import disagreements
from sigmax.rules.replay import replay
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.sampling import Sampling, asked, remade
from tests.records.helpers import at_random, feed, findings, forge, gaussian, nonsense, plan, shares, stage, trees

N0, N, ALPHA = 100, 10_000, 1e-3
TARGETS = Sampling("adaptive", targets=(0.25, 0.5))
SMOOTHED = gaussian(0.5, 2)
DUAL = DualRule(gaussian(1.0, 2), (gaussian(0.5, 2), gaussian(1.0, 2)))
QUESTIONS = (
    Sampling("adaptive"),
    Sampling("adaptive", targets=(0.0,)),
    Sampling("adaptive", targets=(0.1, 0.3, 0.6)),
    Sampling("adaptive", tolerance=0.2),
)


def run_of(path, rule, question, votes):
    """A run of five inputs, all the same."""
    found = feed(rule.certifying(n0=N0, n=N, alpha=ALPHA, sampling=question), votes)
    records = [Record(2 * i, 0, found, seconds=0.25) for i in range(5)]
    described = plan(rule=dict(rule.describe()), n0=N0, n=N, alpha=ALPHA, sampling=question.describe())
    write_all(path, described, records)
    return found


@pytest.fixture
def path(tmp_path):
    """Smoothed, share 0.83: 0.25 is proved early, the sampling for 0.5 ends late."""
    path = tmp_path / "run.jsonl"
    found = run_of(path, SMOOTHED, TARGETS, shares(base=0.83))
    assert 0.25 <= found.radius < 0.5
    assert 4 < len(found.stages[1].looks) < 25
    return path


@pytest.fixture
def routed(tmp_path):
    """Consensus, where the router wavers and both experts and the router stop on the way."""
    path = tmp_path / "dual.jsonl"
    found = run_of(path, DUAL, Sampling("adaptive"), shares(router=0.75, expert_0=0.95, expert_1=0.99))
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
    (lambda s: shorten(s, s["looks"][1:]), "should hold n=32 samples at sigma=0.5 from sample 160 on"),
    (lambda s: shorten(s, merged(s["looks"], 0)), "should hold n=32 samples"),
    (lambda s: shorten(s, merged(s["looks"], len(s["looks"]) - 2)), "from sample"),
    (lambda s: shorten(s, [*s["looks"], [100, 28]]), "the counts give"),
    (lambda s: shorten(s, [[0, 0], *s["looks"]]), "looks is recorded as"),
    (lambda s: shorten(s, [*s["looks"], [0, 0]]), "looks is recorded as"),
    (lambda s: shorten(s, [s["looks"][1], s["looks"][0], *s["looks"][2:-1], [0, 0]]), "should hold"),
    (lambda s: s.update(looks=moved(s["looks"], len(s["looks"]) - 2, 30)), "recorded as"),
    (lambda s: s.pop("looks"), "should hold n=32 samples"),
    (lambda s: s.update(looks=[]), "should hold n=32 samples"),
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


@pytest.fixture
def wavering(tmp_path):
    """The selection samples make the pick clear at their third look."""
    path = tmp_path / "wavering.jsonl"
    found = run_of(path, SMOOTHED, TARGETS, shares(base=0.7))
    assert list(map(sum, found.stages[0].looks)) == [16, 16, 32]
    return path


FORGED_PICKS = [
    (lambda s: shorten(s, s["looks"][:-1]), "should hold n=32 samples at sigma=0.5 from sample 32 on"),
    (lambda s: shorten(s, s["looks"][:1]), "should hold n=16 samples at sigma=0.5 from sample 16 on"),
    (lambda s: shorten(s, s["looks"][1:]), "should hold n=16 samples at sigma=0.5 from sample 16 on"),
    (lambda s: shorten(s, s["looks"][::-1]), "should hold n=16 samples"),
    (lambda s: shorten(s, merged(s["looks"], 0)), "should hold n=16 samples"),
    (lambda s: shorten(s, merged(s["looks"], 1)), "should hold n=16 samples at sigma=0.5 from sample 16 on"),
    (lambda s: shorten(s, [*s["looks"], [25, 11]]), "looks is recorded as"),  # all n0: more than were asked for
    (lambda s: shorten(s, [*s["looks"], [0, 0]]), "looks is recorded as"),
    (lambda s: shorten(s, [[0, 0], *s["looks"]]), "looks is recorded as"),
    (lambda s: shorten(s, [*s["looks"][:-1], [24, 9]]), "should hold n=32 samples"),
    (lambda s: shorten(s, [*s["looks"][:-1], [23, 8]]), "should hold n=32 samples"),
    (lambda s: s.update(looks=moved(s["looks"], 0, 4)), "recorded as"),  # clear at the first look
    (lambda s: s.pop("looks"), "should hold n=16 samples"),
    (lambda s: s.update(counts=[72, 28], n=100, looks=[]), "should hold n=16 samples"),
    (lambda s: shorten(s, [[b, a] for a, b in s["looks"]]), "the counts give"),  # the other class
    (lambda s: s.update(alpha=1e-4), "selection alpha is recorded as"),
]


@pytest.mark.parametrize(("change", "message"), FORGED_PICKS)
def test_a_forged_look_of_the_selection_is_found(wavering, change, message):
    assert sx.verify(wavering).holds
    forge(wavering, 5, lambda d: change(stage(d, "selection")))
    found = findings(wavering)
    assert {line for line, _ in found} == {5}
    assert message in " ".join(text for _, text in found)


@pytest.mark.parametrize("first0", [0, 1, 8, 15, 17, 32, 100, 10**9])
def test_a_plan_of_other_looks_at_the_selection_is_found_in_every_record(wavering, first0):
    forge(wavering, 1, lambda d: d["sampling"].update(first0=first0))
    assert {line for line, _ in findings(wavering)} == {2, 3, 4, 5, 6}


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
    run_of(path, SMOOTHED, Sampling(), shares(base=0.75))
    assert sx.verify(path).holds
    forge(path, 4, whole_look)
    assert "estimation looks is recorded as" in findings(path)[0][1]
    forge(path, 5, lambda d: shorten(stage(d, "selection"), [[50, 0], [25, 25]]))
    assert 5 in {line for line, _ in findings(path)}
    forge(path, 1, lambda d: d.update(sampling=asked("adaptive", [0.25], None).describe()))
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
        {"futility": 0.4},
        {"futility": 1e-6},
    ],
)
def test_a_plan_of_another_question_is_found_in_every_record(path, change):
    """Any of them is a sound way to sample, but not how these records came about.

    A change that would have stopped every input at the same look (the target 0.5 alone, here, or 0.25 and 0.4)
    cannot be seen, and does not matter: what is claimed is proved either way.
    """
    forge(path, 1, lambda d: d["sampling"].update(change))
    assert {line for line, _ in findings(path)} in ({2, 3, 4, 5, 6}, {1})


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
        {"kind": "adaptive", "first0": -1},
        {"kind": "adaptive", "first0": 16.0},
        {"kind": "adaptive", "first0": True},
        {"kind": "fixed", "first0": 16},
        {"kind": "adaptive", "targets": "x"},
        {"kind": "adaptive", "targets": [0.5], "tolerance": 0.5},
        {"kind": "fixed", "targets": [0.5]},
    ],
)
def test_a_plan_of_no_question_is_found(path, sampling):
    forge(path, 1, lambda d: d.update(sampling=sampling))
    assert findings(path)[0][0] == 1


# Routed systems: who was asked, in which order, and up to which radius


def test_a_dual_cannot_leave_out_what_was_asked_or_ask_more(routed):
    for change in (
        lambda d: d["stages"].remove(stage(d, "expert-1/estimation")),
        lambda d: d["stages"].remove(stage(d, "router/estimation")),
        lambda d: d["stages"].append({**stage(d, "expert-1/estimation"), "part": "expert-2"}),
        lambda d: d["stages"].insert(0, d["stages"].pop()),
    ):
        before = routed.read_bytes()
        forge(routed, 5, change)
        assert {line for line, _ in findings(routed)} == {5}
        routed.write_bytes(before)


def test_a_part_asked_up_to_another_radius_is_found(routed):
    """As if nothing limited expert 1, or the router: other looks, and other levels."""
    for name, rule, share in (
        ("expert-1/estimation", DUAL.experts[1], 0.99),
        ("router/estimation", DUAL.router, 0.75),
    ):
        question = Sampling("adaptive")
        alone = feed(rule.estimating(0, n=N, alpha=2.5e-4, sampling=question), shares(base=share))
        before = routed.read_bytes()
        forge(routed, 5, lambda d, name=name, alone=alone: stage(d, name).update(looks=alone.looks, n=alone.n,
            counts=alone.counts, alpha=alone.alpha, lower=alone.lower, radius=alone.radius))  # fmt: skip
        assert {line for line, _ in findings(routed)} == {5}
        routed.write_bytes(before)


def test_a_fixed_certificate_does_not_pass_for_an_adaptive_one(routed):
    votes = shares(router=0.75, expert_0=0.95, expert_1=0.99)
    fixed = feed(DUAL.certifying(n0=N0, n=N, alpha=ALPHA), votes)
    forge(routed, 5, lambda d: d.update(Record(6, 0, fixed, 0.25).to_json()))
    assert {line for line, _ in findings(routed)} == {5}
    for rule in (DualRule(DUAL.router, DUAL.experts, "min"), DUAL):
        other = feed(rule.certifying(n0=N0, n=N, alpha=ALPHA, sampling=TARGETS), votes)
        forge(routed, 5, lambda d, other=other: d.update(Record(6, 0, other, 0.25).to_json()))
        assert {line for line, _ in findings(routed)} == {5}


@settings(deadline=None, max_examples=60)
@given(trees, st.integers(0, 2**32), st.sampled_from([1e-3, 0.3]), st.sampled_from(QUESTIONS))
def test_records_of_any_tree_hold_and_survive_their_line(rule, seed, alpha, question):
    def again():
        return rule.certifying(n0=N0, n=2_000, alpha=alpha, sampling=question)

    record = Record(0, 0, feed(again(), at_random(seed)), seconds=0.5)
    read = Record.from_json(decode(encode(record.to_json())))
    assert read == record
    assert not list(disagreements(read.certificate, replay(again(), read.certificate.stages)))


def test_nonsense_in_a_record_is_found_and_breaks_nothing(routed):
    for honest, data, where in nonsense(routed, "record", ("stages",)):
        assert sx.verify(routed).holds == (json.dumps(data) == json.dumps(honest)), where


def test_nonsense_in_the_question_is_found_and_breaks_nothing(routed):
    for honest, data, where in nonsense(routed, "plan", ("sampling",)):
        if sx.verify(routed).holds:  # another way to write the same, such as 0 for 0.0
            assert remade(data["sampling"]) == remade(honest["sampling"]), where
