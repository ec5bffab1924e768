"""`sigmax train router` on the digits, with experts and labels made by the real parts, all very small."""

import inspect
import json
import subprocess

import numpy as np
import pytest

import sigmax as sx
from sigmax import models
from sigmax.cli.train_router import router
from sigmax.train.labels import make_labels
from sigmax.train.router_loss import Router
from sigmax.train.router_objective import Certified
from sigmax.train.router_presets import PRESETS, SMALL
from tests.cli.conftest import ENVIRONMENT, SIGMAX


@pytest.fixture(scope="module")
def labels(trained, tmp_path_factory):
    """A tenth of the digits, labelled by one network under two noises."""
    network, _ = models.load(trained / "net.safetensors")
    experts = [sx.Smoothed(network, sigma=sigma, classes=10) for sigma in (0.2, 0.4)]
    folder = tmp_path_factory.mktemp("labels") / "labels"
    make_labels(experts, sx.data.load("digits", "train"), folder, fraction=0.1)
    return folder


def words(labels, out, *more):
    return ["train", "router", "--data", "digits", "--labels", str(labels), "--out", str(out), *map(str, more)]


def test_it_trains_says_how_it_went_and_is_done_when_repeated(labels, tmp_path, sigmax):
    out = tmp_path / "router.safetensors"
    asked = words(labels, out, "--sigma", 0.4, "--epochs", 3, "--width", 8)
    ended = subprocess.run(
        [*SIGMAX, *asked], env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("Held out,")]
    assert "sent to their best expert" in line
    assert "sigma 0.2" in line
    assert f"Wrote {out}" in ended.stdout
    told = models.read(out).description
    assert (told.classes, told.sigma, told.options["width"]) == (2, 0.4, 8)
    last = json.loads((tmp_path / "router.safetensors.metrics.jsonl").read_text().splitlines()[-1])
    assert last["epoch"] == 3
    assert f"{last['validation']['matching']:.1%} sent" in line
    before = out.read_bytes()
    again = sigmax(*asked)
    assert (again.returncode, out.read_bytes()) == (0, before)
    assert line in again.stdout
    other = sigmax(*asked, "--sharpness", 3)
    assert other.returncode == 2
    assert "method.sharpness is 10.0 there and 3.0 here" in other.stderr


def test_what_is_given_overrides_the_preset(labels, tmp_path, sigmax):
    out = tmp_path / "router.safetensors"
    done = sigmax(
        *words(labels, out, "--preset", "dual-cifar10", "--model", "small-cnn", "--width", 4, "--epochs", 2),
        "--no-balance", "--strength", "weak", "--labels-kind", "hard", "--entropy", 0.25, "--seed", 3,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    plan = models.read(out).description.notes["training"]
    assert (plan["architecture"], plan["settings"]["epochs"], plan["settings"]["seed"]) == ("small-cnn", 2, 3)
    assert (plan["settings"]["batch"], plan["settings"]["lr"], plan["settings"]["step_factor"]) == (256, 0.01, 0.5)
    method = plan["method"]
    assert (method["sigma"], method["consistency"], method["entropy"]) == (1.0, 40.0, 0.25)
    assert (method["balance"], method["strength"], method["labels_kind"]) == (False, "weak", "hard")


def test_too_little_noise_is_warned_of(labels, tmp_path, sigmax):
    done = sigmax(*words(labels, tmp_path / "r.safetensors", "--sigma", 0.1, "--epochs", 1, "--width", 4))
    assert done.returncode == 0
    assert "Warning: the router's sigma 0.1 is below the largest expert's, 0.4" in done.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("", "the router's noise is not known; give --sigma"),
        ("--sigma 0", "sigma must be positive and finite"),
        ("--sigma 0.4 --held-out 1", "held_out must lie between 0 and 1"),
        ("--sigma 0.4 --preset dual-mnist", "unknown preset 'dual-mnist'"),
        ("--sigma 0.4 --preset dual-imagenet", "which is not among the architectures here"),
        ("--sigma 0.4 --epochs 0", "epochs must be a whole number"),
        ("--sigma 0.4 --sharpness -1", "sharpness must be positive"),
        ("--sigma 0.4 --model vit", "unknown architecture 'vit'"),
        ("--sigma 0.4 --optimiser lion", "optimiser must be one of sgd, adam, adamw"),
        ("--sigma 0.4 --strength medium", "medium"),
        ("--sigma 0.4 --labels nowhere", "nowhere"),
    ],
)
def test_a_bad_request_ends_with_code_2_before_any_work(labels, tmp_path, sigmax, more, message):
    refused = sigmax(*words(labels, tmp_path / "r.safetensors"), *more.split(), cwd=tmp_path)
    assert refused.returncode == 2, refused.stderr
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_labels_of_other_data_are_refused(labels, trained, tmp_path, sigmax):
    digits = sx.data.load("digits", "train")
    np.savez(tmp_path / "few.npz", images=digits.pixels(range(50)), labels=digits.labels[:50])
    out = tmp_path / "r.safetensors"
    asked = words(labels, out, "--sigma", 0.4)
    asked[asked.index("digits")] = f"npz:{tmp_path}/few.npz"
    refused = sigmax(*asked)
    assert refused.returncode == 2
    assert "the labels were made for digits train" in refused.stderr
    assert not out.exists()


def test_a_classifier_says_how_well_it_learned(trained, sigmax):
    asked = ["train", "classifier", "--data", "digits", "--sigma", "0.5", "--epochs", "8"]
    done = sigmax(*asked, "--out", trained / "net.safetensors")
    assert done.returncode == 0, done.stderr
    last = json.loads((trained / "net.safetensors.metrics.jsonl").read_text().splitlines()[-1])
    assert f"Last epoch: {last['accuracy']:.1%} of the noisy training images classified right" in done.stdout


def test_a_router_that_takes_one_route_only_is_warned_of(labels, tmp_path, sigmax):
    asked = words(labels, tmp_path / "r.safetensors", "--sigma", 0.4, "--epochs", 1, "--width", 4, "--lr", 1e-9)
    done = sigmax(*asked, "--sharpness", 2, "--seed", 1)
    assert done.returncode == 0
    last = json.loads((tmp_path / "r.safetensors.metrics.jsonl").read_text().splitlines()[-1])
    assert max(last["validation"]["routes"]) == 1, "an untrained router takes one route"
    assert (
        "warning: this router takes one route only: the system will be that expert with less alpha" in done.stderr
    )
    assert "try --sharpness 6 (now 2), less --consistency (now 20), or more --epochs" in done.stderr


def test_the_help_names_the_defaults_that_hold():
    told = {name: p.annotation.__metadata__[0].help for name, p in inspect.signature(router).parameters.items()}
    settings = SMALL.settings
    for name in ("epochs", "batch", "lr"):
        assert f"(default: {getattr(settings, name):g}, or the preset's)" in told[name]
    paper = PRESETS["dual-cifar10"].fields
    for name in ("sharpness", "consistency", "entropy"):
        default = f"(default: {getattr(Router, name):g}, or the preset's; the paper: {paper[name]:g}"
        assert default in told[name]
    assert Router.balance
    assert "(default: balance" in told["balance"]


@pytest.mark.parametrize("kind", ["router --labels nowhere", "classifier --model nonsense"])
def test_noise_beyond_the_pixels_is_warned_of_before_any_work(tmp_path, sigmax, kind):
    done = sigmax("train", *kind.split(), "--data", "digits", "--sigma", 25, "--out", tmp_path / "r.safetensors")
    assert done.returncode == 2
    assert "warning: sigma 25 is 25 times the pixel range [0, 1]; did you mean 0.25?" in done.stderr


def test_another_objective_and_its_options(labels, tmp_path, sigmax):
    out = tmp_path / "router.safetensors"
    more = ("--sigma", 0.4, "--epochs", 2, "--width", 4, "--objective", "certified", "--fit", 0.3)
    done = sigmax(*words(labels, out, *more, "--radii", "0,0.1,0.2", "--weights", "2 1 1", "--temperature", 0.25))
    assert done.returncode == 0, done.stderr
    method = models.read(out).description.notes["training"]["method"]
    assert (method["name"], method["radii"], method["weights"]) == ("router-certified", [0, 0.1, 0.2], [2, 1, 1])
    assert (method["fit"], method["temperature"], method["hardness"]) == (0.3, 0.25, 1.0)
    last = json.loads((tmp_path / "router.safetensors.metrics.jsonl").read_text().splitlines()[-1])["validation"]
    assert (
        f"By consensus a radius of {last['attained']:.3f}; always the best expert: {last['possible']:.3f}"
        in done.stdout
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--objective certified --sharpness 3", "the objective 'certified' has no sharpness; it takes consistency"),
        ("--objective weighted --fit 3", "the objective 'weighted' has no fit"),
        ("--fit 3", "the objective 'paper' has no fit"),
        ("--objective certified --radii far", "--radii must be numbers such as 0,0.25,0.5; got 'far'"),
        ("--objective certified --radii 0.5,0.1", "radii must be one or more rising radii"),
        ("--objective certified --preset dual-cifar10", "the preset 'dual-cifar10' sets the paper's loss"),
    ],
)
def test_options_of_another_objective_are_refused(labels, tmp_path, sigmax, more, message):
    refused = sigmax(*words(labels, tmp_path / "r.safetensors", "--sigma", 0.4), *more.split(), cwd=tmp_path)
    assert refused.returncode == 2, refused.stderr
    assert message in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_help_names_the_defaults_of_the_other_objectives():
    told = {name: p.annotation.__metadata__[0].help for name, p in inspect.signature(router).parameters.items()}
    for name in ("temperature", "hardness", "fit"):
        assert f"(default: {getattr(Certified, name):g})" in told[name]
    assert f"other objectives: {Certified.consistency:g})" in told["consistency"]
    assert f"other objectives: {Certified.entropy:g})" in told["entropy"]
