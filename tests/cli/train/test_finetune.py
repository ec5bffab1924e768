"""`sigmax finetune`: the experts of a dual system, trained further under the routed noise."""

import json
import signal
import subprocess
import time

import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.models import Description
from sigmax.systems import fingerprint
from sigmax.train import Settings, fine_tune
from tests.cli.conftest import ENVIRONMENT, SIGMAX


@pytest.fixture(scope="module")
def dual(trained, tmp_path_factory):
    torch.manual_seed(0)
    router = models.create(
        Description(architecture="small-cnn", classes=2, input_shape=(1, 8, 8), options={"width": 4}, sigma=0.5)
    )
    model = sx.load(trained / "system").voters["base"].model
    experts = [sx.Smoothed(model, sigma=sigma, classes=10) for sigma in (0.25, 0.5)]
    return sx.Dual(sx.Smoothed(router, sigma=0.5, classes=2), experts).save(tmp_path_factory.mktemp("dual") / "dual")


def words(dual, out, *more, epochs=2):
    asked = ("--data", "digits", "--epochs", epochs, "--lr", 0.001, "--set", "votes=20", "--set", "consistency=5")
    return ["finetune", dual, *asked, "--out", out, *more]


SETTINGS = {"batch": 128, "lr": 0.001, "weight_decay": 0.01, "optimiser": "adamw", "schedule": "constant"}


def test_it_writes_the_fine_tuned_system(dual, tmp_path, sigmax):
    out, before = tmp_path / "tuned", fingerprint(sx.load(dual))
    done = sigmax(*words(dual, out))
    assert done.returncode == 0, done.stderr
    assert f"Wrote {out}" in done.stdout
    routes = json.loads((tmp_path / "tuned.training" / "routes.json").read_text())["routes"]
    counts = [routes.count(0), routes.count(1)]
    assert f"Images of each route: {counts[0]:,}, {counts[1]:,}." in done.stdout
    assert ("no image took the route" in done.stderr) == (0 in counts)
    python = fine_tune(
        sx.load(dual),
        sx.data.load("digits", "train"),
        tmp_path / "python",
        settings=Settings(epochs=2, **SETTINGS),
        n=20,
        consistency=5.0,
    )
    assert fingerprint(sx.load(out)) == fingerprint(python) != before
    assert fingerprint(sx.load(dual)) == before
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert sigmax(*words(dual, out)).returncode == 0
    assert files == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    other = sigmax(*words(dual, out, epochs=3))
    assert other.returncode == 2
    assert "settings.epochs is 2 there and 3 here" in other.stderr


def test_bad_requests_end_with_code_2_before_any_work(dual, trained, tmp_path, sigmax):
    taken = sx.load(trained / "system").save(tmp_path / "taken")
    for request, named in (
        (words(trained / "system", tmp_path / "new"), "is not a dual system"),
        (words(tmp_path / "absent", tmp_path / "new"), "expected a system folder"),
        (words(dual, dual), "is the system to begin with"),
        (words(dual, taken), "holds a system that this command did not write"),
        (words(dual, tmp_path / "new", "--set", "votes=1"), "votes: expected a number of at least 2, got 1"),
        (words(dual, tmp_path / "new", epochs=0), "training.epochs: expected a number of at least 1, got 0"),
        (
            words(dual, tmp_path / "new", "--set", "consistency=-1"),
            "consistency: expected a number of at least 0, got -1",
        ),
    ):
        refused = sigmax(*request)
        assert refused.returncode == 2, request
        assert named in refused.stderr
        assert "Traceback" not in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.slow
def test_interrupted_it_ends_cleanly_and_goes_on(dual, tmp_path, sigmax):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    process = subprocess.Popen(
        [*SIGMAX, *map(str, words(dual, cut, epochs=6))], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("cut.training/*.partial")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, complained = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"The finished epochs are kept in {cut}.training. Run the same command again to go on." in complained
    assert "Traceback" not in complained
    assert not cut.exists()
    assert sigmax(*words(dual, cut, epochs=6)).returncode == 0
    assert sigmax(*words(dual, whole, epochs=6)).returncode == 0
    assert fingerprint(sx.load(cut)) == fingerprint(sx.load(whole))
