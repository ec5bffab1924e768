"""Adaptive runs: cut anywhere they end as one left alone, in any batches; and another question does not go on."""

from dataclasses import replace

import pytest

import sigmax as sx
from sigmax.records.lines import encode
from sigmax.rules.certificate import Role
from sigmax.rules.sampling import Sampling
from tests.records.test_resume_dual import KilledError, linear, system

ARGUMENTS = {"n0": 20, "n": 200, "alpha": 0.05, "maximum": 24}
QUESTIONS = {
    "the radius": {"sampling": "adaptive"},
    "targets": {"sampling": "adaptive", "targets": (0.02, 0.05, 0.1)},
    "tolerance": {"sampling": "adaptive", "tolerance": 0.2},
}


def smoothed(batch: int = 32) -> sx.Smoothed:
    """Batches that cut looks in two; several groups."""
    return sx.Smoothed(linear(0, 10, 3.0), sigma=0.25, classes=10, batch=batch)


def cascade() -> sx.Cascade:
    """Levels over one network that defers, and what is below them."""
    levels = [
        sx.Smoothed(sx.models.selective(linear(0, 10, 6.0), confidence=c), sigma=s, classes=10, batch=32)
        for s, c in ((0.5, 0.3), (0.25, 0.3))
    ]
    return sx.Cascade(levels, smoothed())


SCHEMES = {
    "smoothed": smoothed,
    "min": lambda: system("min"),
    "consensus": lambda: system("consensus"),
    "cascade": cascade,
}


def content(path) -> list[bytes]:
    """The run's lines, byte by byte but for the seconds each took and the order they were reached in."""
    run = sx.read(path)
    lines = [encode(replace(record, seconds=0.0).to_json()) for record in run.records]
    return [encode(replace(run.plan, made_with={}).to_json()), *sorted(lines)]


@pytest.mark.parametrize(
    ("kind", "question"),
    [
        ("smoothed", "the radius"),
        ("smoothed", "targets"),
        ("smoothed", "tolerance"),
        ("min", "the radius"),
        ("min", "targets"),
        ("consensus", "the radius"),
        ("consensus", "targets"),
        ("cascade", "the radius"),
        ("cascade", "targets"),
    ],
)
def test_a_run_cut_anywhere_ends_as_one_left_alone(tmp_path, kind, question):
    data, arguments = sx.data.load("digits"), {**ARGUMENTS, **QUESTIONS[question]}
    whole = sx.certify_run(SCHEMES[kind](), data, tmp_path / "whole.jsonl", **arguments)
    looks = {len(s.looks) for r in whole.records for s in r.certificate.stages if s.role is Role.ESTIMATION}
    assert len(looks) > 1  # they end at different looks
    assert len({r.certificate.outcome for r in whole.records}) > 1
    order = [record.index for record in whole.records]
    for cut in (1, 9, 23):
        path = tmp_path / f"{cut}.jsonl"

        def kill(done, total, cut=cut):
            if done == cut:
                raise KilledError

        with pytest.raises(KilledError):
            sx.certify_run(SCHEMES[kind](), data, path, **arguments, watch=kill)
        path.write_bytes(path.read_bytes() + b'{"kind":"input","index":7,"la')  # and a line torn by the kill
        assert len(sx.read(path).records) == cut
        resumed = sx.certify_run(SCHEMES[kind](), data, path, **arguments)
        assert content(path) == content(tmp_path / "whole.jsonl")
        assert [record.index for record in resumed.records] == order
        assert resumed.finished
        assert sx.verify(path).holds


def test_records_of_any_inputs_are_enough_to_go_on_with(tmp_path):
    """Not only the first ones: whatever part of a group is known, the others get the votes they would have got."""
    data, arguments = sx.data.load("digits"), {**ARGUMENTS, **QUESTIONS["targets"]}
    whole = tmp_path / "whole.jsonl"
    sx.certify_run(system("consensus"), data, whole, **arguments)
    plan, *records, _ = whole.read_bytes().splitlines(keepends=True)
    for kept in (records[::2], records[1::3], records[:0:-1]):
        path = tmp_path / "part.jsonl"
        path.write_bytes(b"".join([plan, *kept]))
        sx.certify_run(system("consensus"), data, path, **arguments)
        assert content(path) == content(whole)


@pytest.mark.parametrize("batch", [1, 7, 33, 512])
def test_the_batch_size_changes_no_record(tmp_path, batch):
    data, arguments = sx.data.load("digits"), {**ARGUMENTS, "maximum": 6, **QUESTIONS["targets"]}
    sx.certify_run(smoothed(), data, tmp_path / "one.jsonl", **arguments)
    sx.certify_run(smoothed(batch), data, tmp_path / "other.jsonl", **arguments)
    assert content(tmp_path / "one.jsonl") == content(tmp_path / "other.jsonl")


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ({"sampling": "fixed"}, "sampling.kind is 'adaptive' there and 'fixed' here"),
        ({"sampling": "adaptive"}, r"sampling.targets is \[0.02.* there and \[\] here"),
        ({"sampling": "adaptive", "targets": (0.02, 0.05)}, "sampling.targets is "),
        ({"sampling": Sampling("adaptive", targets=(0.02, 0.05, 0.1), first=16)}, "sampling.first is 32 there and 16"),
        ({"sampling": Sampling("adaptive", targets=(0.02, 0.05, 0.1), last=0.5)}, "sampling.last is 0.9 there and 0.5"),
        ({"sampling": Sampling("adaptive", targets=(0.02, 0.05, 0.1), futility=0.1)}, "sampling.futility is 0.01"),
    ],
)
def test_another_question_is_not_continued(tmp_path, question, named):
    data, path = sx.data.load("digits"), tmp_path / "run.jsonl"
    sx.certify_run(smoothed(), data, path, **{**ARGUMENTS, "maximum": 2, **QUESTIONS["targets"]})
    before = path.read_bytes()
    with pytest.raises(sx.RequestError, match=named):
        sx.certify_run(smoothed(), data, path, **{**ARGUMENTS, "maximum": 2, **question})
    assert path.read_bytes() == before


def test_a_finished_run_is_left_as_it_is_however_the_same_is_asked(tmp_path):
    data, path = sx.data.load("digits"), tmp_path / "run.jsonl"
    arguments = {**ARGUMENTS, "maximum": 2}
    sx.certify_run(smoothed(), data, path, **arguments, sampling="adaptive", targets=[0.1, 0.05, 0.02, 0.05])
    before = path.read_bytes()
    sx.certify_run(smoothed(), data, path, **arguments, sampling=Sampling("adaptive", targets=(0.02, 0.05, 0.1)))
    assert path.read_bytes() == before
