"""`sigmax pipeline run` as users meet it: what it says, its exit codes, and that killing it costs nothing."""

import json
import shutil
import signal
import subprocess
import time
from contextlib import nullcontext

import pytest

import sigmax as sx
from sigmax import models
from sigmax.pipeline import Pipeline
from sigmax.records.lines import decode, encode
from tests.cli.conftest import ENVIRONMENT, SIGMAX

CONFIG = """
out = "work"
steps = ["router", "finetune"]
[data]
source = "digits"
[experts]
sigmas = [0.1, 0.4]
options.width = 4
training = {epochs = 10, batch = 32}
[labels]
n = 100
fraction = 0.3
[router]
sigma = 0.4
options.width = 4
training.epochs = 10
loss.consistency = 2.0
[finetune]
votes = 100
training = {epochs = 10, batch = 64, lr = 0.002}
[certify]
n0 = 20
n = 1000
skip = 10
"""
QUICK = (
    CONFIG.replace("epochs = 10", "epochs = 3")
    .replace("n = 100\nfraction = 0.3", "n = 50\nfraction = 0.1")
    .replace("n = 1000", "n = 100")
    .replace("skip = 10", "skip = 60")
)
RUNS = [f"{name}-tuned-1-skip10.jsonl" for name in ("sigma-0.1", "sigma-0.4", "dual-min", "dual-consensus")]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A pipeline that was run, and what was said; one process of its own."""
    folder = tmp_path_factory.mktemp("quick")
    (folder / "pipe.toml").write_text(QUICK)
    return folder, start(folder).communicate(timeout=300)


def start(folder):
    return subprocess.Popen(
        [*SIGMAX, "pipeline", "run", "pipe.toml"],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_it_does_the_whole_workflow_and_says_where_to_look(quick, sigmax):
    folder, (said, complained) = quick
    assert said.count("every radius follows from its counts (6 of 6 inputs") == 4, complained
    for phase in ("train sigma-0.1: 135/135", "make labels-1: 288/288", "certify dual-min-tuned-1: 6/6"):
        assert phase in said
    assert "router-1. Held out, " in said
    assert "Taken (best): sigma 0.1 " in said
    assert "Where to look" in said
    system = "work/systems/dual-consensus-tuned-1"
    assert f"use one: sigmax predict {system} --data" in said
    assert (folder / "work" / "report" / "report.md").stat().st_size > 500
    assert sigmax("predict", system, "--data", "digits", "--max", 2, cwd=folder).returncode == 0
    again = sigmax("pipeline", "run", folder / "pipe.toml")
    assert again.returncode == 0, again.stderr
    assert "train" not in again.stdout, "nothing was left to do"
    assert again.stdout.count("every radius follows from its counts") == 4


def files(folder):
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def test_a_dry_run_says_what_would_be_done_and_does_nothing(quick, tmp_path, sigmax):
    (tmp_path / "pipe.toml").write_text(QUICK)
    before = files(tmp_path)
    asked = sigmax("pipeline", "run", tmp_path / "pipe.toml", "--dry-run")
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.count("to do") == 11
    assert "0 of 11 phases are done" in asked.stdout
    assert files(tmp_path) == before
    folder = quick[0]
    before = files(folder)
    done = sigmax("pipeline", "run", folder / "pipe.toml", "--dry-run")
    assert done.stdout.count("│ done") == 11
    assert "11 of 11 phases are done" in done.stdout
    assert files(folder) == before
    run = folder / "work" / "runs" / "dual-min-tuned-1-skip60.jsonl"
    content = run.read_bytes()
    try:
        run.write_bytes(content[:-100])
        middle = sigmax("pipeline", "run", folder / "pipe.toml", "--dry-run")
    finally:
        run.write_bytes(content)
    assert middle.stdout.count("begun") == 1
    assert "10 of 11 phases are done" in middle.stdout


@pytest.mark.parametrize("dry", [False, True])
def test_bad_requests_end_with_code_2(quick, tmp_path, sigmax, dry):
    words = ("pipeline", "run", "pipe.toml", *(["--dry-run"] if dry else []))
    missing = sigmax(*words, cwd=tmp_path)
    assert missing.returncode == 2
    assert "the pipeline file pipe.toml cannot be read" in missing.stderr
    for old, new, named in (
        ("sigmas = [0.1, 0.4]", "sigmas = [0.4, 0.1]", "experts: sigmas must be strictly rising"),
        ("votes = 100", 'votes = "many"', "finetune.votes: expected a whole number, got 'many'"),
        ('"digits"', '"npz:absent.npz"', "absent.npz does not exist"),
    ):
        (tmp_path / "pipe.toml").write_text(QUICK.replace(old, new))
        refused = sigmax(*words, cwd=tmp_path)
        assert refused.returncode == 2
        assert f"error: pipe.toml: {named}" in refused.stderr or named in refused.stderr
        assert "Traceback" not in refused.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["pipe.toml"]
    other = quick[0] / "other.toml"
    other.write_text(QUICK.replace("n = 50", "n = 60"))
    before = files(quick[0])
    refused = sigmax("pipeline", "run", "other.toml", *words[3:], cwd=quick[0])
    assert refused.returncode == 2
    assert "error: other.toml: work holds another pipeline: labels.n is 50 there and 60 here" in refused.stderr
    assert "so give --redo to do them again" in refused.stderr
    assert ("│ redo" in refused.stdout) == dry
    assert files(quick[0]) == before


def test_a_late_key_is_redone_in_place_and_said(quick, tmp_path, sigmax):
    shutil.copytree(quick[0], tmp_path / "copy")
    folder = tmp_path / "copy"
    words = ("pipeline", "run", "pipe.toml", "--set", "certify.alpha=0.01", "--set", "certify.experts=false")
    before = files(folder)
    shown = sigmax(*words, "--dry-run", cwd=folder)
    assert files(folder) == before
    for said in (shown, sigmax(*words, cwd=folder)):
        assert said.returncode == 0, said.stderr
        assert "Changed: certify.alpha is 0.001 there and 0.01 here. What was made for that goes to" in said.stdout
        assert "Redone: certify dual-min-tuned-1, certify dual-consensus-tuned-1." in said.stdout
        assert "Reused: train sigma-0.1, train sigma-0.4, make labels-1, train router-1" in said.stdout
    assert shown.stdout.count("│ redo") == 2
    runs = sorted((folder / "work" / "previous" / "1" / "runs").iterdir())
    assert [sx.read(run).plan.alpha for run in runs] == [0.001, 0.001]
    assert sx.read(folder / "work" / "runs" / runs[0].name).plan.alpha == 0.01


def test_a_failed_proof_ends_with_code_1(quick, tmp_path, sigmax):
    """One radius of a finished run is made larger than its counts prove, with a fitting checksum."""
    shutil.copytree(quick[0], tmp_path / "copy")
    run = tmp_path / "copy" / "work" / "runs" / "sigma-0.1-tuned-1-skip60.jsonl"
    plan, first, *rest = run.read_bytes().splitlines(keepends=True)
    record = decode(first)
    run.write_bytes(b"".join([plan, encode({**record, "radius": record["radius"] + 0.1}), *rest]))
    failed = sigmax("pipeline", "run", tmp_path / "copy" / "pipe.toml")
    assert failed.returncode == 1
    assert "sigma-0.1-tuned-1-skip60.jsonl, line 2:" in failed.stderr
    assert "FAILED" in failed.stdout


def test_the_report_can_wait(quick, tmp_path, sigmax):
    shutil.copytree(quick[0], tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "work" / "report")
    done = sigmax("pipeline", "run", tmp_path / "copy" / "pipe.toml", "--no-report")
    assert done.returncode == 0, done.stderr
    assert "every radius follows" not in done.stdout
    assert not (tmp_path / "copy" / "work" / "report").exists()
    words = done.stdout.partition("Nothing was verified yet: sigmax ")[2].split()
    assert len(words) == 5
    assert sigmax(*words).stdout.count("every radius follows from its counts") == 4


def test_what_the_file_says_can_be_changed_for_once(quick, tmp_path, sigmax):
    folder = quick[0]
    words = ("pipeline", "run", folder / "pipe.toml", "--dry-run")
    other = sigmax(
        *words, "--set", f"out={tmp_path}", "--set", 'steps=["router"]', "--set", "experts.sigmas=[0.1,0.2,0.4]"
    )
    assert "0 of 12 phases are done" in other.stdout
    same = sigmax(*words, "--set", "certify.max=1", "--set", "device=cpu")
    assert "11 of 11 phases are done" in same.stdout, "one of the inputs that are certified"
    changed = sigmax(*words, "--set", "router.sigma=0.5")
    assert "Changed: router.sigma is 0.4 there and 0.5 here." in changed.stdout
    assert sigmax(*words, "--set", "router").returncode == 2


def test_the_schema_of_the_file_is_printed(sigmax):
    schema = json.loads(sigmax("pipeline", "schema").stdout)
    assert schema["required"] == ["out", "data", "experts"]
    for name in ("sigma", "scale"):  # one of the two
        assert schema["$defs"]["RouterConfig"]["properties"][name]["anyOf"][0]["exclusiveMinimum"] == 0


def test_too_little_noise_is_warned_of(tmp_path, sigmax):
    (tmp_path / "pipe.toml").write_text(QUICK.replace("sigma = 0.4", "sigma = 0.3"))
    asked = sigmax("pipeline", "run", tmp_path / "pipe.toml", "--dry-run")
    assert asked.returncode == 0
    assert "warning: router.sigma 0.3 is below the largest noise of the experts, 0.4" in asked.stderr


def test_the_demo_writes_nothing_before_it_is_sure_and_overwrites_nothing(tmp_path, sigmax):
    refused = sigmax("demo", "--out", tmp_path / "new", "--max", 0)
    assert refused.returncode == 2
    assert "max must be at least 1, got 0" in refused.stderr
    assert not (tmp_path / "new").exists()
    (tmp_path / "demo.toml").write_text(QUICK)
    kept = sigmax("demo", "--out", tmp_path)
    assert kept.returncode == 2
    assert f"sigmax pipeline run {tmp_path / 'demo.toml'}" in kept.stderr
    assert (tmp_path / "demo.toml").read_text() == QUICK
    assert [path.name for path in tmp_path.iterdir()] == ["demo.toml"]


# Killed


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """What it comes to, in this process."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    (folder / "pipe.toml").write_text(CONFIG)
    Pipeline.read(folder / "pipe.toml").run(lambda name: nullcontext(lambda done, total: None))
    return results(folder)


def results(folder):
    nets = [models.fingerprint(path) for path in sorted((folder / "work").rglob("*.safetensors"))]
    runs = [sx.read(folder / "work" / "runs" / name) for name in RUNS]
    return nets, [(run.plan, [(r.index, r.label, r.certificate) for r in run.records], run.finished) for run in runs]


# While such a file is there, and holds so many lines, the phase is at work.
INTERRUPTED = ("nets/sigma-0.4.safetensors.partial", 0)
KILLED = [("tuned-1.training/*.partial", 0), ("runs/dual-consensus-tuned-1-skip10.jsonl", 5)]


@pytest.mark.slow
def test_interrupted_and_killed_it_ends_the_same(uninterrupted, tmp_path, sigmax):
    (tmp_path / "pipe.toml").write_text(CONFIG)
    complained = stopped(tmp_path, signal.SIGINT, *INTERRUPTED, code=130)
    assert "Interrupted. What is finished is kept in work. Run the same command again to go on." in complained
    assert "Traceback" not in complained
    for pattern, lines in KILLED:
        stopped(tmp_path, signal.SIGKILL, pattern, lines, code=-signal.SIGKILL)
        assert list((tmp_path / "work").glob(pattern)), "it was hit at work"
    done = sigmax("pipeline", "run", tmp_path / "pipe.toml")
    assert done.returncode == 0, done.stderr
    assert results(tmp_path) == uninterrupted


def stopped(folder, how, pattern, lines, *, code):
    """Begin, or go on, until the phase is at work; what was complained of when the signal came."""
    process = start(folder)
    wait_for(process, folder / "work", pattern, lines)
    process.send_signal(how)
    _, complained = process.communicate(timeout=60)
    assert process.returncode == code, complained
    return complained


def wait_for(process, folder, pattern, lines):
    """Until such a file has more than so many lines."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        found = list(folder.glob(pattern))
        if found and (not lines or found[0].read_bytes().count(b"\n") > lines):
            return
        time.sleep(0.01)
