"""`sigmax train denoiser`, and the verbs that put a denoiser before a network."""

import pytest
from typer.testing import CliRunner

import sigmax as sx
from sigmax import models
from sigmax.cli.main import app


def changes(*keys):
    return [word for key in keys for word in ("--set", key)]


NETWORK = changes("options.width=8", "options.multipliers=[1, 2]", "options.blocks=1", "options.attention=[]")
SMALL = [*NETWORK, "--epochs", 1, *changes("training.batch=256")]


def train(sigmax, out, *more, sigma="0.1,0.5"):
    return sigmax("train", "denoiser", "--data", "digits", "--sigma", sigma, "--out", out, *more)


@pytest.fixture(scope="module")
def denoiser(tmp_path_factory):
    """A denoiser after one epoch, trained by the verb."""
    out = tmp_path_factory.mktemp("denoiser") / "d.safetensors"
    words = ["train", "denoiser", "--data", "digits", "--sigma", "0.1,0.5", "--out", str(out), *map(str, SMALL)]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return out


def test_it_writes_the_denoiser_and_says_what_next(sigmax, tmp_path):
    done = train(sigmax, tmp_path / "d.safetensors", *SMALL, *changes("validation=0.1"))
    assert done.returncode == 0, done.stderr
    assert "of the noise removed" in done.stderr + done.stdout
    assert "dB at 0.3" in done.stderr + done.stdout
    assert "--denoiser" in done.stderr + done.stdout
    options = models.load_denoiser(tmp_path / "d.safetensors").description.options
    assert (options["width"], options["multipliers"], options["attention"]) == (8, [1, 2], [])


def test_with_a_classifier_and_from_another_denoiser(sigmax, trained, denoiser, tmp_path):
    out = tmp_path / "stable.safetensors"
    more = ["--start", denoiser, "--classifier", trained / "net.safetensors", "--epochs", 1]
    done = train(sigmax, out, *more, *changes("classifier_weight=0.05", "training.batch=256"))
    assert done.returncode == 0, done.stderr
    plan = models.read(out).description.notes["training"]
    assert plan["method"]["weight"] == 0.05
    assert plan["method"]["classifier"] == models.fingerprint(trained / "net.safetensors")
    assert plan["start"] == models.fingerprint(denoiser)


def test_from_a_denoiser_to_a_certified_dual_system(sigmax, trained, denoiser, tmp_path):
    net = trained / "net.safetensors"
    for sigma in (0.25, 0.5):
        done = sigmax(
            "build", "smoothed", net, "--denoiser", denoiser, "--sigma", sigma, "--out", tmp_path / str(sigma)
        )
        assert done.returncode == 0, done.stderr
    torch_router = models.create(models.Description(architecture="small-cnn", classes=2, input_shape=(1, 8, 8)))
    router = models.save(tmp_path / "router.safetensors", torch_router)
    experts = [tmp_path / "0.25", tmp_path / "0.5"]
    words = ["build", "dual", router, *experts, "--sigma", 0.5, "--denoiser", denoiser, "--out", tmp_path / "dual"]
    done = sigmax(*words)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "dual").glob("*denoiser*.safetensors"))) == 1
    dual = sx.load(tmp_path / "dual")
    assert len({id(voter.model.denoiser) for voter in dual.voters.values()}) == 1
    run = tmp_path / "run.jsonl"
    done = sigmax("certify", tmp_path / "dual", "--data", "digits", "--max", 2, "--n", 200, "--out", run)
    assert done.returncode == 0, done.stderr
    assert sigmax("verify", run).returncode == 0


def test_a_classifier_trained_on_denoised_images(sigmax, trained, denoiser, tmp_path):
    out = tmp_path / "net.safetensors"
    more = ["--start", trained / "net.safetensors", "--denoiser", denoiser, "--epochs", 1]
    done = sigmax("train", "classifier", "--data", "digits", "--sigma", 0.5, "--out", out, *more)
    assert done.returncode == 0, done.stderr
    plan = models.read(out).description.notes["training"]
    assert plan["denoiser"] == models.fingerprint(denoiser)
    done = sigmax("build", "smoothed", out, "--out", tmp_path / "bare")
    assert "trained on images denoised by a denoiser" in done.stderr + done.stdout


def test_a_classifier_and_its_denoiser_tuned_together(sigmax, trained, denoiser, tmp_path):
    out = tmp_path / "net.safetensors"
    words = ["train", "classifier", "--data", "digits", "--sigma", 0.5, "--start", trained / "net.safetensors"]
    tune = changes("tune_denoiser=true", "training.lr=0.001", "training.batch=256")
    more = ["--epochs", 1, "--out", out]
    done = sigmax(*words, "--denoiser", denoiser, *tune, *more)
    assert done.returncode == 0, done.stderr
    tuned = tmp_path / "net.denoiser.safetensors"
    assert f"sigmax build smoothed {out} --denoiser {tuned} --out SYSTEM" in done.stdout
    for before, complaint in ((tuned, False), (denoiser, True)):
        done = sigmax("build", "smoothed", out, "--denoiser", before, "--out", tmp_path / before.stem)
        assert done.returncode == 0, done.stderr
        assert ("by another denoiser" in done.stderr) is complaint
    run = tmp_path / "run.jsonl"
    done = sigmax("certify", tmp_path / tuned.stem, "--data", "digits", "--max", 2, "--n", 100, "--out", run)
    assert done.returncode == 0, done.stderr
    assert sigmax("verify", run).returncode == 0
    done = sigmax(*words, *tune, *more[:-1], tmp_path / "other.safetensors")
    assert (done.returncode, "none was given" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--set", "options.width=7"], "even number of channels"),
        (["--set", "options.height=7"], "height"),
        (["--set", "classifier_weight=0.1"], "name the classifier by --classifier"),
        (["--start", "nowhere.safetensors"], "there is no checkpoint nowhere.safetensors"),
        (["--start", "zip:nowhere"], "a denoiser is one of NAME.safetensors, diffusers:FOLDER"),
    ],
)
def test_wrong_requests(sigmax, tmp_path, more, message):
    done = train(sigmax, tmp_path / "d.safetensors", *more)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


def test_wrong_ranges_and_wrong_parts(sigmax, trained, denoiser, tmp_path):
    done = train(sigmax, tmp_path / "d.safetensors", sigma="much")
    assert (done.returncode, "such as 0.25,1.0" in done.stderr) == (2, True)
    done = train(sigmax, tmp_path / "d.safetensors", "--start", denoiser, *changes("options.width=8"))
    assert (done.returncode, "leave out options.width" in done.stderr) == (2, True)
    done = train(sigmax, tmp_path / "d.safetensors", "--classifier", denoiser)
    assert (done.returncode, "holds a denoiser" in done.stderr) == (2, True)
    done = sigmax("build", "smoothed", trained / "net.safetensors", "--denoiser", trained / "net.safetensors",
                  "--out", tmp_path / "system")  # fmt: skip
    assert (done.returncode, "no denoiser" in done.stderr) == (2, True)
    more = ["--start", trained / "net.safetensors", "--model", "resnet20"]
    done = sigmax("train", "classifier", "--data", "digits", "--sigma", 0.5, "--out", tmp_path / "n.safetensors", *more)
    assert (done.returncode, "leave out --model" in done.stderr) == (2, True)
