"""A run that is killed, cut, starved of disk or interrupted goes on, and ends as if nothing had happened."""

import os
import random
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch

import sigmax as sx
from sigmax import models
from tests.cli.conftest import ENVIRONMENT, SIGMAX

INPUTS, N = 50, 2_000
KILLS = 20


def certify_words(system, out, *more):
    return [
        "certify", str(system), "--data", "digits", "--max", str(INPUTS), "--n", str(N), "--out", str(out), *more
    ]  # fmt: skip


def start(words, **options):
    return subprocess.Popen(
        [*SIGMAX, *words], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def certificates(path):
    """Everything a run says, but for the seconds it took."""
    run = sx.read(path)
    return run.plan, [(r.index, r.label, r.certificate) for r in run.records], run.finished


def lines(path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.fixture(scope="module")
def uninterrupted(trained, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "run.jsonl"
    process = start(certify_words(trained / "system", out))
    assert process.wait(timeout=300) == 0
    return certificates(out)


@pytest.mark.slow
@pytest.mark.parametrize("chain", range(4))
def test_killed_at_twenty_moments_and_repeated_it_ends_the_same(system, tmp_path, uninterrupted, chain):
    """Four runs, each killed five times: at start-up, or when a random number of new records is written."""
    out, chance = tmp_path / "run.jsonl", random.Random(chain)
    killed_with = []
    for attempt in range(KILLS // 4):
        process = start(certify_words(system, out))
        wait_for(
            process,
            out,
            lines(out) + chance.randint(0, 8),
            patience=chance.uniform(0.5, 3.0) if attempt == 0 else 60,
        )
        time.sleep(chance.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed_with.append(lines(out))
    assert killed_with[-1] < INPUTS + 2, "every kill must hit an unfinished run"
    last = start(certify_words(system, out))
    assert last.wait(timeout=300) == 0
    assert certificates(out) == uninterrupted
    assert sx.verify(out).holds


def wait_for(process, out, count, patience) -> None:
    """Until the run file has `count` lines, or patience ends."""
    deadline = time.monotonic() + patience
    while lines(out) < count and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.002)


def test_a_finished_run_is_left_as_it_is(system, tmp_path, sigmax):
    out = tmp_path / "run.jsonl"
    words = ["certify", system, "--data", "digits", "--max", 3, "--n", 200, "--out", out]
    assert sigmax(*words).returncode == 0
    before = out.read_bytes()
    assert sigmax(*words).returncode == 0
    assert out.read_bytes() == before


@pytest.mark.slow
def test_a_torn_last_line_is_made_whole(system, tmp_path, uninterrupted, sigmax):
    out = tmp_path / "run.jsonl"
    assert sigmax(*certify_words(system, out)).returncode == 0
    content = out.read_bytes().splitlines(keepends=True)
    out.write_bytes(b"".join(content[:20]) + content[20][:50])
    assert sigmax(*certify_words(system, out)).returncode == 0
    assert certificates(out) == uninterrupted


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_a_scheduler_end_it_cleanly_and_it_says_how_to_go_on(system, tmp_path, uninterrupted, sigmax, how):
    out = tmp_path / "run.jsonl"
    process = start(certify_words(system, out))
    wait_for(process, out, 5, patience=60)
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted" in said
    assert "Run the same command again to go on" in said
    assert "Traceback" not in said
    assert sigmax(*certify_words(system, out)).returncode == 0
    assert certificates(out) == uninterrupted


@pytest.mark.slow
def test_training_that_a_scheduler_ends_goes_on_from_the_epoch_before(tmp_path, sigmax):
    """As `timeout -s TERM` does on a machine that is only lent: the state is a file, which may be split and joined."""
    words = ("train", "classifier", "--data", "digits", "--sigma", "0.3", "--epochs", "12")
    whole, cut = tmp_path / "whole.safetensors", tmp_path / "cut" / "net.safetensors"
    assert sigmax(*words, "--out", whole).returncode == 0
    process = start((*words, "--out", cut))
    wait_for(process, tmp_path / "cut" / "net.safetensors.metrics.jsonl", 4, patience=60)
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"The finished epochs are kept in {cut}.partial. Run the same command again to go on." in said
    state = Path(f"{cut}.partial")
    pieces = [state.read_bytes()[i : i + 2**16] for i in range(0, state.stat().st_size, 2**16)]
    elsewhere = tmp_path / "elsewhere" / "net.safetensors"
    elsewhere.parent.mkdir()
    Path(f"{elsewhere}.partial").write_bytes(b"".join(pieces))
    done = sigmax(*words, "--out", elsewhere)
    assert done.returncode == 0
    assert "done before" in done.stdout
    assert models.fingerprint(elsewhere) == models.fingerprint(whole)


@pytest.mark.slow
def test_a_file_that_may_not_grow_loses_nothing(system, tmp_path, uninterrupted, sigmax):
    """The system refuses a write half-way through a line, as a disk quota does."""
    out, limit = tmp_path / "run.jsonl", 20_000
    process = start(
        certify_words(system, out), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    )
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "cannot write to" in said
    assert "already recorded are safe" in said
    assert "Traceback" not in said
    assert out.read_bytes().endswith(b"\n")
    assert 10 < lines(out) < INPUTS
    assert sx.verify(out).holds
    assert sigmax(*certify_words(system, out)).returncode == 0
    assert certificates(out) == uninterrupted


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 16 kB."""
    mount = tmp_path / "disk"
    mount.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", mount], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    yield mount
    subprocess.run(["umount", mount], check=True)


@pytest.mark.slow
def test_a_full_disk_loses_nothing(system, small_disk, uninterrupted, sigmax):
    out = small_disk / "run.jsonl"
    full = sigmax(*certify_words(system, out))
    assert full.returncode == 1
    assert "No space left on device" in full.stderr
    assert "make room and run the same command again" in full.stderr
    assert sx.verify(out).holds
    subprocess.run(["mount", "-o", "remount,size=1m", small_disk], check=True)
    assert sigmax(*certify_words(system, out)).returncode == 0
    assert certificates(out) == uninterrupted


def test_an_unwritable_place_is_refused_before_any_work(system, tmp_path, sigmax):
    if os.geteuid() == 0:
        folder = "/proc/sigmax"  # where not even root may write
    else:
        folder = tmp_path / "locked"
        folder.mkdir(mode=0o555)
    refused = sigmax(*certify_words(system, f"{folder}/run.jsonl"))
    assert refused.returncode == 2
    assert "choose a folder you may write to" in refused.stderr


@pytest.mark.slow
def test_a_second_writer_is_refused(system, tmp_path, sigmax):
    out = tmp_path / "run.jsonl"
    first = start(certify_words(system, out))
    wait_for(first, out, 2, patience=60)
    second = sigmax(*certify_words(system, out))
    assert second.returncode == 2
    assert "another process is writing" in second.stderr
    first.kill()
    first.wait()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (("--n0", "50"), "n0 is 100 there and 50 here"),
        (("--split", "train"), "data.split is 'test' there and 'train' here"),
    ],
)
def test_a_different_plan_is_refused_and_the_difference_named(system, tmp_path, sigmax, change, named):
    out = tmp_path / "run.jsonl"
    words = ["certify", system, "--data", "digits", "--max", 2, "--n", 100, "--out", out]
    assert sigmax(*words).returncode == 0
    before = out.read_bytes()
    refused = sigmax(*words, *change)
    assert refused.returncode == 2
    assert named in refused.stderr
    assert out.read_bytes() == before


@pytest.mark.parametrize("kind", [MemoryError, torch.OutOfMemoryError])
def test_where_memory_ends_it_says_so_and_how_to_go_on(kind, system, tmp_path, sigmax, monkeypatch):
    def full(*given, **named):
        raise kind("tried to allocate 2 GiB")

    monkeypatch.setattr(sx.systems, "load", full)
    done = sigmax("certify", system, "--data", "digits", "--out", tmp_path / "run.jsonl")
    assert done.returncode == 1
    assert "out of memory (tried to allocate 2 GiB). Finished files are kept. Use a smaller --batch" in done.stderr
    assert "same command" in done.stderr
