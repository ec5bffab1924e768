"""`sigmax train classifier --method ...` and `sigmax diagnose gradients`, as a user types them."""

import json
import subprocess
import sys

import pytest

from sigmax import models

SMALL = ("--data", "digits", "--sigma", "0.5", "--width", "4", "--batch", "256")


def test_a_method_trains_with_its_hyper_parameters_and_is_watched(sigmax, tmp_path):
    out = tmp_path / "net.safetensors"
    done = sigmax("train", "classifier", *SMALL, "--method", "consistency", "--hyper", "consistency=5", "--hyper",
                  "copies=4", "--epochs", 2, "--lr", 0.02, "--validation", 0.1, "--validate-every", 1, "--ema", 0.9,
                  "--schedule", "one-cycle", "--out", out)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "images/s" in done.stdout
    plan = models.read(out).description.notes["training"]
    assert plan["method"] == {"name": "consistency", "sigma": 0.5, "consistency": 5.0, "entropy": 0.5, "copies": 4}
    assert plan["settings"]["schedule"] == "one-cycle"
    lines = [json.loads(line) for line in (tmp_path / "net.safetensors.metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert {"accuracy", "smoothed", "certified"} <= lines[-1]["validation"].keys()


def test_gradients_of_easy_and_hard_inputs_are_told(sigmax, tmp_path):
    out, table = tmp_path / "net.safetensors", tmp_path / "gradients.csv"
    assert sigmax("train", "classifier", *SMALL, "--epochs", 3, "--out", out).returncode == 0
    done = sigmax("diagnose", "gradients", out, "--data", "digits", "--max", 20, "--draws", 20, "--method", "macer",
                  "--hyper", "copies=4", "--out", table)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "easy (p_A > 1/2)" in done.stdout
    rows = table.read_text().splitlines()
    assert rows[0] == "index,label,p_a,kind,norm"
    assert len(rows) == 21
    assert sigmax("diagnose", "gradients", out, "--data", "digits", "--out", table).returncode == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--method", "mixup"), "unknown training method 'mixup'"),
        (("--preset", "mnist"), "unknown preset 'mnist'"),
        (("--method", "macer", "--preset", "cifar10", "--sigma", "0.3"), "sigma 0.25, 0.5, 1; got 0.3"),
        (("--method", "consistency", "--hyper", "copies=3"), "3"),
        (("--method", "cat-rs"), "target"),
        (("--method", "gaussian", "--hyper", "weight=3"), "gaussian has no weight"),
        (("--hyper", "data-dependent.step=1"), "--data-dependent"),
    ],
)
def test_wrong_requests_are_refused_before_training(sigmax, tmp_path, options, message):
    out = tmp_path / "net.safetensors"
    done = sigmax("train", "classifier", *SMALL, *options, "--epochs", 1, "--out", out)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in " ".join(done.stderr.split())
    assert not out.exists()


def test_two_processes_train_as_one_and_speak_once(tmp_path):
    out = tmp_path / "net.safetensors"
    command = ["-m", "sigmax", "train", "classifier", *SMALL, "--epochs", "1", "--lr", "0.01", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *command],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Wrote") == 1
    assert models.load(out)[1].sigma == 0.5
