"""verify with cascades, fixed and adaptive: every level must follow from its counts, its threshold and its payment."""

import json
from math import sqrt

import numpy as np
import pytest

import sigmax as sx
from sigmax.records.journal import write_all
from sigmax.records.lines import Record
from sigmax.rules.cascade import CascadeRule
from sigmax.rules.cascade import level as level_module
from sigmax.rules.sampling import FIXED, Sampling
from tests.records.helpers import feed, findings, forge, gaussian, holds, nonsense, plan, stage

N0, N, ALPHA = 50, 4_000, 1e-3
ADAPTIVE = Sampling("adaptive")
SAMPLING = {"fixed": FIXED, "adaptive": ADAPTIVE}
LEVELS = gaussian(1.0, 3, defers=True), gaussian(0.5, 3, defers=True)
RULE = CascadeRule(LEVELS, gaussian(0.25, 3), (0.5, 0.6))
# Shares of the classes 0, 1, 2 and of the votes to defer.
DEFERS = {"level-0": (0.02, 0.35, 0.03, 0.6), "level-1": (0.1, 0.2, 0.05, 0.65), "last": (0.96, 0.03, 0.01)}
ANSWERS = {**DEFERS, "level-1": (0.9, 0.05, 0.03, 0.02)}
GOLDEN = (sqrt(5) - 1) / 2


def voting(parts):
    """Samples spread evenly over the shares of each part, the same whatever the looks are."""

    def answer(ask):
        spread = (np.arange(ask.start, ask.stop) + 0.5) * GOLDEN % 1
        votes = np.searchsorted(np.cumsum(parts[ask.part])[:-1], spread)
        return tuple(map(int, np.bincount(votes, minlength=ask.classes)))

    return answer


def certificate(sampling, parts=DEFERS, rule=RULE):
    return feed(rule.certifying(n0=N0, n=N, alpha=ALPHA, sampling=sampling), voting(parts))


@pytest.fixture(params=SAMPLING)
def sampling(request):
    return SAMPLING[request.param]


@pytest.fixture
def path(tmp_path, sampling):
    """Of five inputs the third (line 4) is answered by level 1, the fourth (line 5) by the last."""
    path = tmp_path / "run.jsonl"
    found = [certificate(sampling, parts) for parts in (DEFERS, ANSWERS, ANSWERS, DEFERS, DEFERS)]
    records = [Record(2 * i, 0, c, seconds=0.25) for i, c in enumerate(found)]
    described = plan(rule=dict(RULE.describe()), n0=N0, n=N, alpha=ALPHA, sampling=sampling.describe())
    write_all(path, described, records)
    return path


def test_an_honest_run_holds(path):
    assert sx.verify(path).holds
    records = sx.read(path).records
    assert [r.certificate.answered_by for r in records] == ["last", "level-1", "level-1", "last", "last"]
    assert all(r.certificate.predicted == 0 and r.certificate.radius > 0.1 for r in records)


def swap(first, second):
    """Exchange two levels' names, and nothing else."""
    names = {first: second, second: first}

    def change(d):
        for each in d["stages"]:
            each["part"] = names.get(each["part"], each["part"])

    return change


def put(name, **values):
    return lambda d: stage(d, name).update(values)


def scaled(name, key, by):
    return lambda d: stage(d, name).update({key: stage(d, name)[key] * by})


def beyond(name):
    """The exclusion radius raised, and the radius of the whole with it."""

    def change(d):
        stage(d, name).update(radius=9.0)
        d.update(radius=d["radius"] * 1.1)

    return change


def all_votes(name, column):
    """The stage's votes, all for one outcome, at every look."""

    def change(d):
        s = stage(d, name)
        for counts in (s["counts"], *s.get("looks", ())):
            counts[:] = [sum(counts) * (i == column) for i in range(len(counts))]

    return change


DEFERRED, ANSWERED = 5, 4
FORGED = {
    "L raised": (ANSWERED, scaled("level-1/estimation", "lower", 1.001), "level-1/estimation lower is recorded"),
    "L of a level that defers": (DEFERRED, put("level-0/estimation", lower=0.9), "level-0/estimation lower"),
    "U lowered": (DEFERRED, scaled("level-0/estimation", "upper", 0.99), "level-0/estimation upper is recorded"),
    "U left out": (DEFERRED, put("level-1/estimation", upper=None), "level-1/estimation upper is recorded as None"),
    "L of the last": (DEFERRED, scaled("last/estimation", "lower", 1.001), "last/estimation lower is recorded"),
    "answer radius": (ANSWERED, scaled("level-1/estimation", "radius", 1.001), "level-1/estimation radius"),
    "exclusion radius": (DEFERRED, beyond("level-0/estimation"), "level-0/estimation radius is recorded as 9.0"),
    "radius": (DEFERRED, lambda d: d.update(radius=d["radius"] + 1e-9), "radius is recorded as"),
    "class": (DEFERRED, lambda d: d.update(predicted=1), "predicted is recorded as 1"),
    "class below": (DEFERRED, all_votes("last/selection", 1), "predicted is recorded as 0"),
    "class of a level": (ANSWERED, all_votes("level-1/selection", 1), "the counts give"),
    "a level that deferred answers": (DEFERRED, all_votes("level-0/selection", 0), ""),
    "a level that answered defers": (ANSWERED, all_votes("level-1/selection", 3), ""),
    "paid with all of alpha": (DEFERRED, put("level-0/estimation", alpha=ALPHA), "level-0/estimation alpha"),
    "paid with nothing": (DEFERRED, put("level-1/estimation", alpha=0.0), "level-1/estimation alpha"),
    "a level not in the ledger": (DEFERRED, lambda d: d["ledger"].pop(0), "the ledger is recorded as"),
    "the last not in the ledger": (DEFERRED, lambda d: d["ledger"].pop(), "the ledger is recorded as"),
    "a smaller payment": (DEFERRED, lambda d: d["ledger"][0].__setitem__(1, 1e-9), "the ledger is recorded as"),
    "a larger payment": (DEFERRED, lambda d: d["ledger"][1].__setitem__(1, 0.5), "spends more than alpha=0.001"),
    "another threshold's sigma": (DEFERRED, put("level-1/estimation", sigma=5.0), "at sigma=5.0"),
    "levels swapped": (DEFERRED, swap("level-0", "level-1"), "should hold"),
    "a level for the last": (DEFERRED, swap("level-1", "last"), "should"),
    "a level left out": (DEFERRED, lambda d: d["stages"].remove(stage(d, "level-0/estimation")), "no stage 'level-0/e"),
    "the last left out": (DEFERRED, lambda d: d["stages"].remove(stage(d, "last/estimation")), "no stage 'last/est"),
    "one level more": (
        DEFERRED,
        lambda d: d["stages"].append({**stage(d, "level-1/estimation"), "part": "level-2"}),
        "stages are recorded",
    ),
    "another order": (DEFERRED, lambda d: d["stages"].insert(0, d["stages"].pop()), "part is recorded as"),
    "answered by another": (DEFERRED, lambda d: d.update(answered_by="level-0"), "answered_by is recorded as level-0"),
    "limited by another": (
        DEFERRED,
        lambda d: d.update(limited_by="level-1/selection"),
        "limited_by is recorded as level-1/selection",
    ),
    "undecided": (
        DEFERRED,
        lambda d: d.update(outcome="level_undecided", predicted=None, radius=0.0),
        "outcome is recorded as",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_level_is_found_and_its_line_named(path, name):
    line, change, message = FORGED[name]
    forge(path, line, change)
    found = findings(path)
    assert {at for at, _ in found} == {line}
    assert message in " ".join(text for _, text in found)


def given_to_the_class(name):
    """The votes of class 1 become votes for class 0."""

    def change(d):
        s = stage(d, name)
        if "looks" in s:
            looks(s, [[a + b, 0, *rest] for a, b, *rest in s["looks"]])
        else:
            a, b, *rest = s["counts"]
            s.update(counts=[a + b, 0, *rest])

    return change


@pytest.mark.parametrize(("line", "name"), [(ANSWERED, "level-1/estimation"), (DEFERRED, "last/estimation")])
def test_votes_of_a_rival_given_to_the_class_are_found(path, line, name):
    forge(path, line, given_to_the_class(name))
    assert {at for at, _ in findings(path)} == {line}


@pytest.mark.parametrize(
    "change",
    [
        {"thresholds": [0.6, 0.6]},
        {"thresholds": [0.5, 0.5]},
        {"thresholds": [0.6, 0.5]},
        {"thresholds": [0.9, 0.9]},
        {"levels": [dict(level.describe()) for level in LEVELS[::-1]]},
        {"levels": [dict(gaussian(2.0, 3, defers=True).describe()), dict(LEVELS[1].describe())]},
        {"last": dict(gaussian(0.5, 3).describe())},
    ],
)
def test_a_plan_of_another_cascade_is_found_in_every_record_it_moves(path, change):
    forge(path, 1, lambda d: d["rule"].update(change))
    assert {line for line, _ in findings(path)} >= {DEFERRED, 6}


@pytest.mark.parametrize(
    "change",
    [
        {"thresholds": 0.5},
        {"thresholds": [0.5]},
        {"thresholds": [0.5, 1.0]},
        {"thresholds": [0.5, 0.4]},
        {"levels": []},
        {"levels": [dict(LEVELS[0].describe())]},
        {"last": None},
        {"classes": 4},
    ],
)
def test_a_plan_of_no_such_cascade_is_found(path, change):
    forge(path, 1, lambda d: d["rule"].update(change))
    assert findings(path)[0][0] == 1


# Records that are whole and consistent, made by a rule that pays too little


def unpaid(monkeypatch, kind):
    if kind == "both bounds have all of alpha":
        monkeypatch.setattr(level_module.Payment, "of", classmethod(lambda cls, a, picked: cls(a * picked, a)))
    if kind == "every level has all of alpha":
        monkeypatch.setattr(CascadeRule, "alpha_split", lambda self, alpha: (alpha,) * (len(self.levels) + 1))
    if kind == "every look has all of alpha":
        honest = Sampling.schedule
        monkeypatch.setattr(
            Sampling, "schedule", lambda self, n, alpha: tuple(s._replace(level=alpha) for s in honest(self, n, alpha))
        )
    if kind == "exclusion without end":
        monkeypatch.setattr(level_module.Level, "excludes", lambda self, upper: 9.0)


@pytest.mark.parametrize("parts", [DEFERS, ANSWERS])
@pytest.mark.parametrize(
    "kind",
    [
        "both bounds have all of alpha",
        "every level has all of alpha",
        "exclusion without end",
    ],
)
def test_a_record_of_a_rule_that_pays_too_little_is_found(path, sampling, kind, parts):
    check_unpaid(path, sampling, kind, parts)


@pytest.mark.parametrize("sampling", [ADAPTIVE])
@pytest.mark.parametrize("parts", [DEFERS, ANSWERS])
def test_a_record_of_looks_without_their_payment_is_found(path, sampling, parts):
    check_unpaid(path, sampling, "every look has all of alpha", parts)


def check_unpaid(path, sampling, kind, parts):
    with pytest.MonkeyPatch.context() as patched:
        unpaid(patched, kind)
        forged = certificate(sampling, parts)
    assert forged.predicted == 0
    forge(path, DEFERRED, lambda d: d.update(Record(6, 0, forged, 0.25).to_json()))
    assert {line for line, _ in findings(path)} == {DEFERRED}


# Looks


def looks(s, of):
    """A stage of these looks, with counts that fit them."""
    counts = [sum(column) for column in zip(*of, strict=True)]
    s.update(looks=of, counts=counts, n=sum(counts))


LOOKS = {
    "the last look left out": lambda of: of[:-1],
    "the first look left out": lambda of: of[1:],
    "two looks as one": lambda of: [[a + b for a, b in zip(*of[:2], strict=True)], *of[2:]],
    "one look more": lambda of: [*of, [0, 0, 0, 500]],
    "an empty look": lambda of: [*of, [0, 0, 0, 0]],
    "looks in another order": lambda of: of[::-1],
    "no looks": lambda of: [[sum(column) for column in zip(*of, strict=True)]],
}


@pytest.mark.parametrize("sampling", [ADAPTIVE])
@pytest.mark.parametrize("name", ["level-0/estimation", "level-1/estimation"])
@pytest.mark.parametrize("change", LOOKS)
def test_a_forged_look_of_a_level_is_found(path, name, change):
    forge(path, DEFERRED, lambda d: looks(stage(d, name), LOOKS[change](stage(d, name)["looks"])))
    assert {line for line, _ in findings(path)} == {DEFERRED}


@pytest.mark.parametrize("sampling", [ADAPTIVE])
def test_what_is_forged_is_there(path):
    """Levels of several looks; one ends on the way, one needs all samples."""
    stages = sx.read(path).records[3].certificate.stages
    looked = {s.part: s for s in stages if s.looks}
    assert all(len(s.looks) > 2 for s in looked.values())
    assert looked["level-0"].n == N > looked["level-1"].n


@pytest.mark.parametrize("sampling", [FIXED])
@pytest.mark.parametrize(("line", "within"), [("plan", ("rule",)), ("record", ("stages", "ledger"))])
def test_nonsense_anywhere_is_found_and_breaks_nothing(path, line, within):
    for honest, data, where in nonsense(path, line, within):
        assert holds(path, where) == (json.dumps(data) == json.dumps(honest)), where
