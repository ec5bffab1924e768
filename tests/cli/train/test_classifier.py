"""`sigmax train classifier` by any method, under a field's noise, and `sigmax diagnose gradients`."""

import json
import subprocess
import sys

import pytest

import sigmax as sx
from sigmax import models


def changes(*keys):
    return [word for key in keys for word in ("--set", key)]


SMALL = ("--data", "digits", "--sigma", "0.5", *changes("options.width=4", "training.batch=256"))
FIELD = changes("field.rate=0.05", "field.k=5", "field.offset=1.5")


def test_a_method_trains_with_its_hyper_parameters_and_is_watched(sigmax, tmp_path):
    out = tmp_path / "net.safetensors"
    keys = ("training.lr=0.02", "validation=0.1", "validate_every=1", "training.ema=0.9", "training.schedule=one-cycle")
    method = ("--method", "consistency", *changes("method.consistency=5", "method.copies=4"))
    done = sigmax("train", "classifier", *SMALL, *method, *changes(*keys), "--epochs", 2, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "images/s" in done.stdout
    plan = models.read(out).description.notes["training"]
    assert plan["method"] == {"name": "consistency", "sigma": 0.5, "consistency": 5.0, "entropy": 0.5, "copies": 4}
    assert plan["settings"]["schedule"] == "one-cycle"
    lines = [json.loads(line) for line in (tmp_path / "net.safetensors.metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert {"accuracy", "smoothed", "certified"} <= lines[-1]["validation"].keys()


def test_gradients_of_easy_and_hard_inputs_are_measured(sigmax, tmp_path):
    out, table = tmp_path / "net.safetensors", tmp_path / "gradients.csv"
    assert sigmax("train", "classifier", *SMALL, "--epochs", 3, "--out", out).returncode == 0
    method = ("--method", "macer", "--set", "method.copies=4")
    done = sigmax(
        "diagnose", "gradients", out, "--data", "digits", "--max", 20, "--samples", 20, *method, "--out", table
    )
    assert done.returncode == 0, done.stderr
    assert "easy (p_A > 1/2)" in done.stdout
    rows = table.read_text().splitlines()
    assert rows[0] == "index,label,p_a,kind,norm"
    assert len(rows) == 21
    assert sigmax("diagnose", "gradients", out, "--data", "digits", "--out", table).returncode == 2


def test_it_trains_under_the_noise_of_a_field_and_names_the_system_to_build(sigmax, tmp_path):
    out, system = tmp_path / "net.safetensors", tmp_path / "system"
    words = ("train", "classifier", *SMALL, *FIELD, "--method", "consistency", "--epochs", 2, "--out", out)
    done = sigmax(*words)
    assert done.returncode == 0, done.stderr
    training = sx.data.load("digits", "train")
    pixels = training.pixels(range(len(training)))
    field = sx.NearestNeighbourSigma(pixels, base=0.5, rate=0.05, k=5, offset=1.5)
    method = models.read(out).description.notes["training"]["method"]
    assert method["field"] == field.describe()
    assert method["inner"]["name"] == "consistency"
    _, _, command = done.stdout.partition("Next: sigmax ")
    built = sigmax(*command.split()[:-2], "--out", system)
    assert built.returncode == 0, built.stderr
    assert sx.load(system).field.describe() == field.describe(), "the field it was trained under"


def test_noise_levels_that_move_during_training(sigmax, tmp_path):
    out = tmp_path / "net.safetensors"
    done = sigmax("train", "classifier", *SMALL, *changes("data_dependent.steps=2"), "--epochs", 1, "--out", out)
    assert done.returncode == 0, done.stderr
    method = models.read(out).description.notes["training"]["method"]
    assert (method["name"], method["steps"], method["inner"]["name"]) == ("data-dependent", 2, "gaussian")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--method", "mixup"), "unknown training method 'mixup'"),
        (("--preset", "mnist"), "gaussian has no preset 'mnist'"),
        (("--method", "macer", "--preset", "cifar10", "--sigma", "0.3"), "sigma 0.25, 0.5, 1; got 0.3"),
        (("--method", "consistency", *changes("method.copies=3")), "3"),
        (("--method", "cat-rs"), "target"),
        (("--method", "distillation"), "needs a teacher, and got none; train one with little noise"),
        (changes("method.weight=3"), "gaussian has no weight"),
        (changes("data_dependent.speed=1"), "data-dependent has no speed"),
        ((*FIELD, *changes("data_dependent.steps=1")), "both decide the noise"),
        (changes("field.base=1"), "[field] has no 'base'"),
        (changes("field.k=many"), "field.k: expected a whole number"),
        (changes("field.k=100000"), "expected k from 1 to the"),
        ((*FIELD, "--method", "easy-samples"), "easy-samples"),
    ],
)
def test_wrong_requests_are_refused_before_training(sigmax, tmp_path, options, message):
    out = tmp_path / "net.safetensors"
    done = sigmax("train", "classifier", *SMALL, *options, "--epochs", 1, "--out", out)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in " ".join(done.stderr.split())
    assert not out.exists()


@pytest.mark.slow
def test_two_processes_train_as_one_and_print_once(tmp_path):
    out = tmp_path / "net.safetensors"
    command = ["-m", "sigmax", "train", "classifier", *SMALL, "--epochs", "1", "--out", str(out)]
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
