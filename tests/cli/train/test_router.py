"""`sigmax train router` on the digits, with experts and labels made by the real parts, all very small."""

import json

import numpy as np
import pytest

import sigmax as sx
from sigmax import models
from sigmax.jobs.label.labels import make_labels


def changes(*keys):
    return [word for key in keys for word in ("--set", key)]


SMALL = changes("options.width=4")


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
    asked = words(labels, out, "--sigma", 0.4, "--epochs", 3, *changes("options.width=8"))
    ended = sigmax(*asked)
    assert ended.returncode == 0, ended.stderr
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith("Held out,")]
    assert "sent to their best expert" in line
    assert "sigma 0.2" in line
    assert f"Wrote {out}" in ended.stdout
    described = models.read(out).description
    assert (described.classes, described.sigma, described.options["width"]) == (2, 0.4, 8)
    last = json.loads((tmp_path / "router.safetensors.metrics.jsonl").read_text().splitlines()[-1])
    assert last["epoch"] == 3
    assert f"{last['validation']['matching']:.1%} sent" in line
    before = out.read_bytes()
    again = sigmax(*asked)
    assert (again.returncode, out.read_bytes()) == (0, before)
    assert line in again.stdout
    other = sigmax(*asked, *changes("loss.sharpness=3"))
    assert other.returncode == 2
    assert "method.sharpness is 10.0 there and 3.0 here" in other.stderr


def test_what_is_given_overrides_the_preset(labels, tmp_path, sigmax):
    out = tmp_path / "router.safetensors"
    done = sigmax(
        *words(labels, out, "--preset", "dual-cifar10", "--model", "small-cnn", "--epochs", 2, *SMALL),
        *changes("loss.balance=false", "loss.strength=weak", "loss.labels_kind=hard", "loss.entropy=0.25"),
        *changes("training.seed=3"),
    )
    assert done.returncode == 0, done.stderr
    plan = models.read(out).description.notes["training"]
    assert (plan["architecture"], plan["settings"]["epochs"], plan["settings"]["seed"]) == ("small-cnn", 2, 3)
    assert (plan["settings"]["batch"], plan["settings"]["lr"], plan["settings"]["step_factor"]) == (256, 0.01, 0.5)
    method = plan["method"]
    assert (method["sigma"], method["consistency"], method["entropy"]) == (1.0, 40.0, 0.25)
    assert (method["balance"], method["strength"], method["labels_kind"]) == (False, "weak", "hard")


def test_the_preset_for_imagenet_runs_as_it_is(labels, tmp_path, sigmax):
    out = tmp_path / "router.safetensors"
    done = sigmax(*words(labels, out, "--preset", "dual-imagenet", "--epochs", 1))
    assert done.returncode == 0, done.stderr
    plan = models.read(out).description.notes["training"]
    assert (plan["architecture"], plan["settings"]["batch"], plan["method"]["consistency"]) == ("resnet50", 200, 10.0)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("", "the router's noise is not known; give --sigma"),
        ("--sigma 0.4 --set held_out=1", "held_out: expected a number below 1"),
        ("--sigma 0.4 --preset dual-mnist", "unknown preset 'dual-mnist'"),
        ("--sigma 0.4 --preset dual-imagenet --model resnet51", "is not among the architectures here"),
        ("--sigma 0.4 --model vit", "unknown architecture 'vit'"),
        ("--sigma 0.4 --set training.optimiser=lion", "training.optimiser: expected 'sgd', 'adam' or 'adamw'"),
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
    idle = changes("training.lr=1e-9", "loss.sharpness=2", "training.seed=1")
    done = sigmax(*words(labels, tmp_path / "r.safetensors", "--sigma", 0.4, "--epochs", 1, *SMALL, *idle))
    assert done.returncode == 0
    last = json.loads((tmp_path / "r.safetensors.metrics.jsonl").read_text().splitlines()[-1])
    assert max(last["validation"]["routes"]) == 1, "an untrained router takes one route"
    assert "warning: the router sends 100.0% of the held-out inputs to sigma 0." in done.stderr
    for remedy in ("sharper labels (sharpness 6 to 12, now 2)", "no balancing (balance=false)", "less consistency"):
        assert remedy in done.stderr


@pytest.mark.parametrize("kind", ["router --labels nowhere", "classifier --model nonsense"])
def test_noise_beyond_the_pixels_is_warned_of_before_any_work(tmp_path, sigmax, kind):
    done = sigmax("train", *kind.split(), "--data", "digits", "--sigma", 25, "--out", tmp_path / "r.safetensors")
    assert done.returncode == 2
    assert "warning: sigma 25 is 25 times the pixel range [0, 1]; did you mean 0.25?" in done.stderr


def test_another_objective_and_its_options(labels, tmp_path, sigmax):
    out = tmp_path / "router.safetensors"
    more = ("--sigma", 0.4, "--epochs", 2, *SMALL, *changes("loss.objective=certified", "loss.fit=0.3"))
    keys = ("loss.radii=[0.0, 0.1, 0.2]", "loss.weights=[2.0, 1.0, 1.0]", "loss.temperature=0.25")
    done = sigmax(*words(labels, out, *more, *changes(*keys)))
    assert done.returncode == 0, done.stderr
    method = models.read(out).description.notes["training"]["method"]
    assert (method["name"], method["radii"], method["weights"]) == ("router-certified", [0, 0.1, 0.2], [2, 1, 1])
    assert (method["fit"], method["temperature"], method["hardness"]) == (0.3, 0.25, 1.0)
    last = json.loads((tmp_path / "router.safetensors.metrics.jsonl").read_text().splitlines()[-1])["validation"]
    assert (
        f"By consensus a radius of {last['attained']:.3f}; always the best expert: {last['possible']:.3f}"
        in done.stdout
    )


def test_options_of_another_objective_are_refused(labels, tmp_path, sigmax):
    for more, message in (
        (("--sigma", 0.4, *changes("loss.objective=certified", "loss.sharpness=3")), "'certified' has no sharpness"),
        (("--preset", "dual-cifar10", *changes("loss.objective=certified")), "'dual-cifar10' sets the paper's loss"),
    ):
        refused = sigmax(*words(labels, tmp_path / "r.safetensors", *more))
        assert refused.returncode == 2, refused.stderr
        assert message in refused.stderr
    assert list(tmp_path.iterdir()) == []
