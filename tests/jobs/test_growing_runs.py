"""Runs that grow: extended by asking for more inputs, merged from disjoint parts; both as if certified in one go."""

import gzip
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import sigmax as sx
from sigmax.jobs.data_check import data_findings
from sigmax.records.inputs import are_inputs, described, in_words, indices
from sigmax.records.journal import write_all
from sigmax.records.lines import encode
from tests.jobs.backends.helpers import certificates, images
from tests.records.helpers import findings, plan, records
from tests.schemes.schemes import TABLE, linear

HOW = {"n0": 20, "n": 200, "alpha": 0.01}
DATA = images()
MOST_INPUTS = {"smoothed": 8, "dual-consensus": 6, "cascade-selective": 6, "semi-elastic": 6, "memorized": 6}


def certify(out, name="smoothed", **how):
    return sx.certify_run(TABLE[name].build(linear(), 10), DATA, out, **{**HOW, **how})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


def lines(path):
    return path.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("name", "first", "then"),
    [
        *((name, {"maximum": 3}, {"maximum": most}) for name, most in MOST_INPUTS.items()),
        ("smoothed", {"maximum": 3, "sampling": "adaptive"}, {"maximum": 8, "sampling": "adaptive"}),
        ("dual-min", {"maximum": 3, "sampling": "adaptive"}, {"maximum": 6, "sampling": "adaptive"}),
        ("smoothed", {"maximum": 3}, {"maximum": 8, "workers": 2}),
        ("smoothed", {"start": 2, "skip": 5, "maximum": 2}, {"start": 2, "skip": 5}),
        ("smoothed", {"skip": 6, "maximum": 3}, {"skip": 3, "maximum": 7}),  # new inputs between the old
        ("smoothed", {"start": 4, "maximum": 2}, {"start": 1, "maximum": 6}),  # and before them
    ],
)
def test_an_extended_run_is_that_of_all_inputs(path, name, first, then):
    before = certify(path, name, **first)
    old = path.read_bytes()
    run = certify(path, name, **then)
    assert run.finished
    assert path.read_bytes().startswith(old), "what was there stays bit for bit"
    whole = certify(path.with_name("whole.jsonl"), name, **{**then, "workers": None})
    assert certificates(run) == certificates(whole)
    assert run.planned == whole.planned == len(run.records) > len(before.records)
    verdict = sx.verify(path)
    assert (verdict.holds, verdict.finished, verdict.records) == (True, True, run.planned)
    assert not list(data_findings(run, DATA))


def test_an_unfinished_run_is_extended_too_and_an_interrupted_extension_goes_on(path):
    whole = certificates(certify(path.with_name("whole.jsonl"), maximum=8))
    certify(path, maximum=5)
    begun = lines(path)
    path.write_bytes(b"".join(begun[:3]))
    certify(path, maximum=7)
    assert b'"kind":"extended","inputs":{"start":0,"skip":1,"count":7}' in lines(path)[3]
    certify(path, maximum=8)
    extended = path.read_bytes()
    for size in range(len(begun[0]), len(extended), 301):
        path.write_bytes(extended[:size])
        run = certify(path, maximum=8)
        assert certificates(run) == whole
        assert sx.verify(path).holds


def test_fewer_inputs_are_answered_from_what_is_there(path):
    certify(path, maximum=8)
    held = path.read_bytes()
    run = certify(path, skip=2, maximum=3)
    assert run.frame()["index"].tolist() == [0, 2, 4]
    assert (run.finished, run.planned) == (True, 3)
    assert path.read_bytes() == held
    whole = certify(path.with_name("memory.jsonl"), "memorized", maximum=6)
    assert certify(whole.path, "memorized", maximum=4).records == whole.records[:4]
    path.write_bytes(b"".join(lines(path)[:6]))  # five inputs of the eight
    held = path.read_bytes()
    assert certify(path, maximum=5).frame()["index"].tolist() == list(range(5))
    refusal = "unfinished run of 8 inputs, of which 5 are done; 6 of them were asked for, and 1 of these"
    with pytest.raises(sx.RequestError, match=refusal):
        certify(path, maximum=6)
    assert path.read_bytes() == held


@pytest.mark.parametrize(
    ("name", "then", "reason"),
    [
        ("smoothed", {"start": 1, "maximum": 8}, r"inputs\.start is 0 there and 1 here \(a run grows only to"),
        ("smoothed", {"skip": 2, "maximum": 8}, r"inputs\.skip is 1 there and 2 here"),
        ("smoothed", {"maximum": 8, "n": 300}, "n is 200 there and 300 here"),
        ("memorized", {"start": 0, "maximum": 8}, "answers its inputs in order, each with a memory"),
        ("memorized", {"start": 3, "skip": 2, "maximum": 2}, "inputs cannot be taken from its middle"),
    ],
)
def test_a_run_does_not_become_another(path, name, then, reason):
    first = {"start": 3} if name == "memorized" else {}
    certify(path, name, maximum=4, **first)
    held = path.read_bytes()
    with pytest.raises(sx.RequestError, match=reason):
        certify(path, name, **then)
    assert path.read_bytes() == held


def test_a_command_that_fails_leaves_a_finished_run_finished(path, monkeypatch):
    certify(path, maximum=3)
    held = path.read_bytes()
    with monkeypatch.context() as context:
        context.setattr("sigmax.schemes.scheme.rounds.run", lambda *_: 1 / 0)
        with pytest.raises(sx.RunError, match="ZeroDivisionError: division by zero"):
            certify(path, maximum=5)
    assert path.read_bytes() == held


def test_forged_extensions_are_found(path):
    certify(path, maximum=3)
    certify(path, maximum=5)
    honest = lines(path)
    for inputs, finding in (
        ({"start": 0, "skip": 1, "count": 3}, "a run of 3 from 0 cannot become one of 3 from 0"),
        ({"start": 1, "skip": 1, "count": 9}, "cannot become one of 9 from 1"),
        ({"start": 0, "skip": 1, "count": 6}, "claims to be complete with 5 inputs; the plan names 6"),
        ({"start": 0, "skip": 1, "count": 2**39}, "too many to change"),
        ({"start": 0, "skip": 1, "count": 5.0}, "the inputs that the run is extended to"),
        ([{"start": 0, "skip": 1, "count": 3}, {"start": 3, "skip": 1, "count": 2}], "is extended to"),
        (None, "is extended to"),
    ):
        path.write_bytes(b"".join([*honest[:5], encode({"kind": "extended", "inputs": inputs}), *honest[6:]]))
        assert any(finding in message for _, message in findings(path)), inputs
        with pytest.raises(sx.RequestError):
            sx.read(path)
    path.write_bytes(b"".join([*honest[:5], *honest[6:]]))
    assert findings(path)[0] == (6, "the line stands after the end line")


# Merging


def parts(folder, *selections, name="smoothed"):
    return [certify(folder / f"{k}.jsonl", name, **selection).path for k, selection in enumerate(selections)]


@pytest.mark.parametrize(
    "selections",
    [
        [{"maximum": 4}, {"start": 4, "maximum": 4}],
        [{"start": 1, "skip": 2, "maximum": 4}, {"skip": 2, "maximum": 4}],
        [{"start": 6, "maximum": 2}, {"maximum": 3}, {"start": 3, "maximum": 3}],
    ],
)
def test_merged_runs_are_the_run_of_all_inputs(tmp_path, selections):
    sources = parts(tmp_path, *selections)
    sources[0].with_suffix(".gz").write_bytes(gzip.compress(sources[0].read_bytes()))
    held = [source.read_bytes() for source in sources]
    run = sx.merge([sources[0].with_suffix(".gz"), *sources[1:]], tmp_path / "merged.jsonl")
    whole = certify(tmp_path / "whole.jsonl", maximum=8)
    assert certificates(run) == certificates(whole)
    assert run.plan == whole.plan
    assert run.finished
    assert sx.verify(run.path).holds
    assert [source.read_bytes() for source in sources] == held
    assert certify(run.path, maximum=8).finished
    assert len(certify(run.path, maximum=9).records) == 9


def test_any_disjoint_inputs_can_be_merged_and_go_on(tmp_path):
    sources = parts(tmp_path, {"maximum": 3}, {"start": 10, "skip": 4, "maximum": 2})
    run = sx.merge(sources, tmp_path / "merged.jsonl")
    assert run.frame()["index"].tolist() == list(run.plan.indices) == [0, 1, 2, 10, 14]
    assert in_words(run.plan.inputs) == "3 from 0; 2 from 10, every 4"
    assert sx.verify(run.path).holds
    assert certificates(certify(run.path)) == certificates(certify(tmp_path / "whole.jsonl"))
    assert sx.verify(run.path).holds
    assert certify(run.path, start=10, skip=4, maximum=2).frame()["index"].tolist() == [10, 14]


def test_what_the_runs_were_made_with_is_kept_of_all(tmp_path):
    for name, start, made, found in (("a", 0, "2.8", records()[:3]), ("b", 6, "2.9", records()[3:])):
        inputs = {"start": start, "skip": 2, "count": len(found)}
        write_all(tmp_path / name, plan(inputs=inputs, made_with={"sigmax": "0.1.0", "torch": made}), found)
    run = sx.merge([tmp_path / "b", tmp_path / "a"], tmp_path / "both")
    assert run.plan.made_with == {"sigmax": "0.1.0", "torch": ["2.9", "2.8"]}
    assert list(run.records) == records()


def test_an_unfinished_part_makes_an_unfinished_run_if_that_is_allowed(tmp_path):
    sources = parts(tmp_path, {"maximum": 4}, {"start": 4, "maximum": 4})
    sources[1].write_bytes(b"".join(lines(sources[1])[:3]))
    out = tmp_path / "merged.jsonl"
    with pytest.raises(sx.RequestError, match=r"1\.jsonl is unfinished \(2 of 4 inputs\)"):
        sx.merge(sources, out)
    run = sx.merge(sources, out, unfinished=True)
    assert (run.finished, len(run.records), run.planned) == (False, 6, 8)
    assert certificates(certify(out, maximum=8)) == certificates(certify(tmp_path / "whole.jsonl", maximum=8))


def test_what_is_not_one_run_is_not_merged(tmp_path):
    first, second, overlap, other = parts(
        tmp_path, {"maximum": 4}, {"start": 4, "maximum": 4}, {"start": 2, "maximum": 4}, {"start": 8, "n": 300}
    )
    remembered = parts(tmp_path / "memory", {"maximum": 3}, {"start": 3, "maximum": 3}, name="memorized")
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(second.read_bytes().replace(b'"counts":[', b'"counts":[1', 1))
    out = tmp_path / "merged.jsonl"
    for sources, reason in (
        ([first], "at least two"),
        ([first, overlap], r"0\.jsonl and .*2\.jsonl share 2 inputs \(2, 3\)"),
        ([first, first], r"share 4 inputs"),
        ([first, other], r"3\.jsonl has another plan .* n is 200 there and 300 here"),
        ([first, damaged], r"damaged\.jsonl, line 2: the line was altered"),
        (remembered, r"'memorized': each answer agrees with a memory"),
        ([first, tmp_path / "absent.jsonl"], r"cannot read the run file .*absent\.jsonl"),
    ):
        with pytest.raises(sx.RequestError, match=reason):
            sx.merge(sources, out)
        assert not out.exists()
    with pytest.raises(sx.RequestError, match="exists already"):
        sx.merge([first, second], other)
    with pytest.raises(sx.RequestError, match="written plain"):
        sx.merge([first, second], tmp_path / "merged.jsonl.gz")
    assert not [path for path in tmp_path.iterdir() if "draft" in path.name]


def test_a_killed_merge_loses_nothing_and_leaves_no_half_run(tmp_path):
    sources = parts(tmp_path, {"maximum": 2}, {"start": 2, "maximum": 2})
    held = [source.read_bytes() for source in sources]
    script = (
        "import os, signal; from pathlib import Path; import sigmax as sx\n"
        "Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"sx.merge({[str(source) for source in sources]!r}, {str(tmp_path / 'merged.jsonl')!r})"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, env=dict(os.environ))
    assert done.returncode == -signal.SIGKILL
    assert [source.read_bytes() for source in sources] == held
    assert not (tmp_path / "merged.jsonl").exists()
    assert sx.merge(sources, tmp_path / "merged.jsonl").finished


def test_any_inputs_are_described_in_one_way():
    rng = np.random.default_rng(0)
    for size in range(1, 40):
        chosen = sorted(map(int, rng.choice(60, size, replace=False)))
        plain = described(chosen)
        assert list(indices(plain)) == chosen
        assert are_inputs(plain)
    assert described(range(3, 20, 4)) == {"start": 3, "skip": 4, "count": 5}
    for wrong in ([], [plain], {}, {"start": 0}, "all", [{"start": 1, "skip": 1, "count": 2}] * 2):
        assert not are_inputs(wrong), wrong
