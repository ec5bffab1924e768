"""`sigmax attack` as users meet it: table, files, exit codes."""

import json

import numpy as np
import pytest

import sigmax as sx
from sigmax.rules import smoothed as smoothed_rule
from tests.jobs.attack.conftest import known_seeds  # noqa: F401 (a fixture of every test here)

QUICK = ("--steps", 6, "--restarts", 1, "--samples", 4, "--walk", 0, "--n", 500)


def certified(system, out):
    return sx.certify_run(sx.load(system), sx.data.load("digits", "test"), out, n=200, skip=60, maximum=3).path


def test_an_honest_run_is_attacked_and_shown(system, tmp_path, sigmax):
    run, out = certified(system, tmp_path / "run.jsonl"), tmp_path / "attack"
    words = ("attack", run, system, "--data", "digits", "--out", out, *QUICK)
    done = sigmax(*words)
    assert done.returncode == 0, done.stderr
    assert "attack distance / radius: smallest" in done.stdout
    assert "no violation found" in done.stdout
    assert {"attack.jsonl", "results.json", "ratios.png", "ratios.pdf"} == {path.name for path in out.iterdir()}
    log = (out / "attack.jsonl").read_bytes()
    assert sigmax(*words).returncode == 0  # nothing is left to do
    assert (out / "attack.jsonl").read_bytes() == log
    assert sigmax(*words, "--max", 1).returncode == 0
    assert json.loads((out / "results.json").read_text())["verdict"]["considered"] == 1
    other = sigmax("attack", run, "zoo:digits-cascade", "--data", "digits", "--out", tmp_path / "other")
    assert other.returncode == 2
    assert "a run of another system" in other.stderr
    assert not (tmp_path / "other").exists()


def test_violations_end_the_command_with_1_and_are_saved(system, tmp_path, sigmax, monkeypatch):
    """A certifier without any bound: every class that was picked is taken for certain."""
    with monkeypatch.context() as broken:
        broken.setattr(smoothed_rule.table, "lower", lambda k, n, alpha: 1 - 1e-9)
        run = certified(system, tmp_path / "run.jsonl")
    out = tmp_path / "attack"
    done = sigmax("attack", run, system, "--data", "digits", "--out", out, *QUICK)
    assert done.returncode == 1
    assert "VIOLATION: input 0" in done.stderr
    assert "the procedure is refuted" in done.stderr
    saved = np.load(out / "violation-0.npz")
    assert saved["distance"] < saved["radius"]
    assert sx.load(system).predict(saved["point"][None], n=1_000)[0].predicted == saved["answer"] != saved["certified"]


def test_what_cannot_be_attacked_is_refused(system, tmp_path, sigmax):
    run = certified(system, tmp_path / "run.jsonl")
    words = ("attack", run, system, "--data", "digits", "--out")
    for more, message in [
        ((run,), "--out names a folder"),
        ((tmp_path / "a", "--confirmations", 0), "confirmations must be"),
        ((tmp_path / "a", "--max", 0), "max must be"),
        ((tmp_path / "a", "--n", 3), "can never predict"),
    ]:
        done = sigmax(*words, *more)
        assert done.returncode == 2
        assert message in done.stderr


def test_the_figure_shows_where_certificates_are_false():
    pytest.importorskip("matplotlib")
    ax = sx.report.draw_attack_ratios([0.9, 1.2, 1.5, 3.0], not_found=2)
    assert "4 inputs; 2 without" in ax.get_xlabel()
    counted = {round(bar.get_x(), 3): bar.get_height() for bar in ax.patches}
    assert sum(counted.values()) == 4
    assert sum(height for left, height in counted.items() if left < 1) == 1  # no bin lies across 1
