"""`sigmax train classifier --field ...`: training under a field's noise, and the system with the same field."""

import pytest

import sigmax as sx
from sigmax import data, models

SMALL = ("--data", "digits", "--width", "4", "--batch", "256", "--lr", "0.02")
FIELD = ("--field", "nearest-neighbour")
TOLD = ("--hyper", "field.rate=0.05", "--hyper", "field.k=5", "--hyper", "field.offset=1.5")


def test_it_trains_under_the_fields_noise_and_names_the_system_to_build(sigmax, tmp_path):
    out = tmp_path / "net.safetensors"
    words = ("train", "classifier", *SMALL, "--sigma", 0.3, *FIELD, *TOLD, "--epochs", 2, "--out", out)
    done = sigmax(*words)
    assert done.returncode == 0, done.stderr
    training = data.load("digits", "train")
    pixels = training.pixels(range(len(training)))
    field = sx.NearestNeighbourSigma(pixels, base=0.3, rate=0.05, k=5, offset=1.5)
    method = models.read(out).description.notes["training"]["method"]
    assert method["field"] == field.describe()
    assert method["inner"]["name"] == "gaussian"

    _, _, command = done.stdout.partition("Next: sigmax ")
    system = tmp_path / "system"
    built = sigmax(*command.split()[:-2], "--out", system)
    assert built.returncode == 0, built.stderr
    assert sx.load(system).field.describe() == field.describe(), "the field it was trained under"
    assert sigmax(*words).returncode == 0, "finished before"


def test_it_goes_with_other_methods(sigmax, tmp_path):
    out = tmp_path / "net.safetensors"
    done = sigmax("train", "classifier", *SMALL, "--sigma", 0.3, *FIELD, *TOLD, "--method", "consistency",
                  "--hyper", "consistency=5", "--epochs", 1, "--validation", 0.1, "--out", out)  # fmt: skip
    assert done.returncode == 0, done.stderr
    method = models.read(out).description.notes["training"]["method"]
    assert method["inner"]["consistency"] == 5.0
    assert method["field"]["points"] == len(data.load("digits", "train")), "also those held out"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--hyper", "field.k=5"), "'field.k=5' is of a field; add --field nearest-neighbour"),
        ((*FIELD, "--data-dependent"), "--field and --data-dependent both decide the noise"),
        ((*FIELD, "--hyper", "field.base=1"), "field has no base; field takes rate=0.01, k=20, offset=5.0"),
        ((*FIELD, "--hyper", "field.k=many"), "k must be a whole number; got 'many'"),
        ((*FIELD, "--hyper", "field.k=100000"), "expected k from 1 to the"),
        ((*FIELD, "--hyper", "field.rate=-1"), "expected rate to be a number above 0"),
        ((*FIELD, "--method", "easy-samples"), "'easy-samples' does not"),
        (("--field", "linear"), "nearest-neighbour"),
    ],
)
def test_wrong_requests_are_refused_before_training(sigmax, tmp_path, options, message):
    out = tmp_path / "net.safetensors"
    done = sigmax("train", "classifier", *SMALL, "--sigma", 0.3, *options, "--epochs", 1, "--out", out)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in " ".join(done.stderr.split())
    assert not out.exists()
