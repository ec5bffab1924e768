"""The whole road by its verbs, and what each of them says when asked for help or asked wrongly."""

import json

import numpy as np
import pytest
import torch
from typer.main import get_command

import sigmax as sx
from sigmax import models
from sigmax.cli.main import app

VERBS = [
    ("demo",),
    ("train", "classifier"),
    ("train", "router"),
    ("build", "smoothed"),
    ("build", "dual"),
    ("label",),
    ("choose",),
    ("finetune",),
    ("pipeline", "run"),
    ("plan",),
    ("certify",),
    ("predict",),
    ("verify",),
    ("report",),
    ("import",),
    ("export",),
]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_explains_itself_with_an_example(verb):
    command = get_command(app)
    for word in verb:
        command = command.commands[word]
    assert f"Example: `sigmax {' '.join(verb)} " in command.help
    for option in command.params:
        assert getattr(option, "help", None), f"{option.name} has no help text"


def test_help_is_printed(sigmax):
    shown = sigmax("certify", "--help")
    assert shown.returncode == 0
    assert "--skip" in shown.stdout
    assert "counted after skipping" in shown.stdout


@pytest.fixture(scope="module")
def run(trained, tmp_path_factory):
    """A short run, made in this process."""
    out = tmp_path_factory.mktemp("run") / "half.jsonl"
    data = sx.data.load("digits", "test")
    return sx.certify_run(sx.load(trained / "system"), data, out, n=500, skip=20, maximum=12).path


def test_certify_takes_the_inputs_it_was_told(system, tmp_path, sigmax):
    out = tmp_path / "new folder" / "run.jsonl"
    done = sigmax("certify", system, "--data", "digits", "--split", "test", "--start", 3, "--skip", 20, "--max", 4,
                  "--n", 500, "--out", out)  # fmt: skip
    assert done.returncode == 0, done.stderr
    frame = sx.read(out).frame()
    assert frame["index"].tolist() == [3, 23, 43, 63]
    assert frame["label"].tolist() == sx.data.load("digits", "test").labels[[3, 23, 43, 63]].tolist()
    assert "certified accuracy" in done.stdout
    assert "4/4" in done.stdout
    again = sx.certify_run(
        sx.load(system),
        sx.data.load("digits", "test"),
        tmp_path / "python.jsonl",
        n=500,
        start=3,
        skip=20,
        maximum=4,
    )
    assert [r.certificate for r in again.records] == [r.certificate for r in sx.read(out).records]


def test_verify_accepts_honest_runs_and_names_bad_lines(run, tmp_path, sigmax):
    assert sigmax("verify", run).returncode == 0
    for old, new in ((b'"counts":[', b'"counts":[1'), (b'"radius":', b'"radius":1')):
        bad = tmp_path / "bad.jsonl"
        lines = run.read_bytes().splitlines(keepends=True)
        lines[4] = lines[4].replace(old, new, 1)
        bad.write_bytes(b"".join(lines))
        refused = sigmax("verify", run, bad)
        assert refused.returncode == 1
        assert "bad.jsonl, line 5:" in refused.stderr
        assert "FAILED" in refused.stdout


def test_report_writes_table_and_curves(run, tmp_path, sigmax):
    done = sigmax("report", run, "--out", tmp_path / "report")
    assert done.returncode == 0, done.stderr
    written = {path.name: path.stat().st_size for path in (tmp_path / "report").iterdir()}
    assert {"curve.png", "curve.pdf", "table.csv", "table.md"} <= written.keys()
    assert all(written.values())


def test_export_and_import_agree(run, tmp_path, sigmax):
    tsv, parquet, back = tmp_path / "log.tsv", tmp_path / "log.parquet", tmp_path / "back.jsonl"
    assert sigmax("export", run, "--format", "tsv", "--out", tsv).returncode == 0
    assert sigmax("export", run, "--format", "parquet", "--out", parquet).returncode == 0
    done = sigmax("import", tsv, "--sigma", 0.5, "--n", 500, "--alpha", 0.001, "--out", back)
    assert done.returncode == 0, done.stderr
    original, returned = sx.read(run).frame(), sx.read(back).frame()
    assert returned["predicted"].tolist() == original["predicted"].tolist()
    assert (returned["radius"] <= original["radius"]).all()
    assert np.allclose(returned["radius"], original["radius"], atol=1e-6)


def test_the_impossible_radii_of_a_published_log_are_reported(shared, tmp_path, sigmax):
    log = shared / "fixtures" / "field-logs" / "cohen-cifar10-sigma_0.25"
    words = ("import", log, "--sigma", 0.25, "--n", 100_000, "--out", tmp_path / "cohen.jsonl")
    done = sigmax(*words, "--alpha", 0.001)
    assert done.returncode == 0
    assert "impossible at sigma=0.25, n=100000, alpha=0.001 (they fit alpha=0.01)" in done.stderr
    assert sigmax("verify", tmp_path / "cohen.jsonl").returncode == 1


def test_predict_prints_and_writes(system, tmp_path, sigmax):
    done = sigmax("predict", system, "--data", "digits", "--max", 6, "--seed", 1, "--out", tmp_path / "p.csv")
    assert done.returncode == 0, done.stderr
    assert "6 inputs:" in done.stdout
    assert "done before" not in done.stdout, "a first run goes on from nothing"
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 7


def test_interrupted_predictions_say_that_they_start_over(system, sigmax, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("sigmax.certify.scheme.votes.run", interrupted)
    done = sigmax("predict", system, "--data", "digits", "--max", 6)
    assert done.returncode == 130
    assert "Interrupted. Predictions are not kept. The same command starts over." in done.stderr
    assert "to go on" not in done.stderr


def test_training_goes_on_or_is_done(trained, sigmax):
    words = ["train", "classifier", "--data", "digits", "--sigma", "0.5", "--epochs", "8"]
    out = trained / "net.safetensors"
    before = out.read_bytes()
    assert sigmax(*words, "--out", out).returncode == 0
    assert out.read_bytes() == before
    refused = sigmax("train", "classifier", "--data", "digits", "--sigma", "0.25", "--epochs", "8", "--out", out)
    assert refused.returncode == 2
    assert "another" in refused.stderr


def test_a_public_checkpoint_becomes_a_system(tmp_path, sigmax):
    torch.manual_seed(0)
    network = models.build("small-cnn", classes=10, input_shape=(1, 8, 8))
    torch.save({"state_dict": {f"module.{k}": v for k, v in network.state_dict().items()}}, tmp_path / "net.th")
    words = ["build", "smoothed", tmp_path / "net.th", "--out", tmp_path / "system", "--sigma", 0.25]
    untold = sigmax(*words)
    assert untold.returncode == 2
    assert "--architecture, --classes, --input-shape, --normalise" in untold.stderr
    told = ["--architecture", "small-cnn", "--classes", 10, "--input-shape", "1,8,8", "--normalise", "none"]
    assert sigmax(*words, *told).returncode == 0
    loaded = sx.load(tmp_path / "system").voters["base"].model
    weights = loaded.network.state_dict()
    assert all(torch.equal(weights[name], tensor) for name, tensor in network.state_dict().items())
    image = torch.rand(2, 1, 8, 8)
    # Laid out as votes are cast; another layout adds in another order.
    assert torch.equal(loaded(image), network.to(memory_format=torch.channels_last)(image))


def test_nothing_of_the_users_is_overwritten(run, tmp_path, sigmax):
    before = run.read_bytes()
    assert sigmax("export", run, "--out", run).returncode == 2
    assert run.read_bytes() == before
    copy = tmp_path / "log.jsonl"
    copy.write_bytes(before)
    (tmp_path / "log.tsv").write_text("the original")
    assert sigmax("export", copy).returncode == 2
    assert (tmp_path / "log.tsv").read_text() == "the original"


def test_names_that_look_like_markup_are_shown_as_they_are(trained, tmp_path, sigmax):
    images, classes = np.zeros((2, 1, 8, 8)), np.array([f"[/b]{i}" for i in range(10)])
    np.savez(tmp_path / "odd [red].npz", images=images, labels=np.array([0, 9]), classes=classes)
    out = tmp_path / "run [red]x.jsonl"
    source = f"npz:{tmp_path}/odd [red].npz"
    done = sigmax("certify", trained / "system", "--data", source, "--n", 100, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "run [red]x" in done.stdout
    shown = sigmax("predict", trained / "system", "--data", source, "--n", 100)
    assert "[/b]9" in shown.stdout


CERTIFY = {"--data": "digits", "--out": "run.jsonl", "--max": "2"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--n": "9"}, "n=9 draws can never certify at alpha=0.001"),
        ({"--n": "0"}, "n must be a whole number of draws"),
        ({"--n0": "0"}, "n0 must be a whole number of draws"),
        ({"--alpha": "0"}, "alpha must lie strictly between 0 and 1"),
        ({"--alpha": "1.5"}, "alpha must lie strictly between 0 and 1"),
        ({"--seed": "-1"}, "seed must be a whole number"),
        ({"--data": "nowhere"}, "nowhere"),
        ({"--data": "cifar10:absent"}, "absent"),
        ({"--data": "npz:channels.npz"}, "does not accept an input of shape (3, 8, 8)"),
        ({"--data": "npz:classes.npz"}, "the system tells 10 classes apart, but classes has 2"),
        ({"--data": "npz:classes.npz"}, "or save the data with classes=[10 names]: its largest label"),
        ({"--data": "npz:names.npz"}, "certify the data the system was trained for\n"),
        ({"--data": "npz:nan.npz"}, "image 0 holds nan"),
        ({"--data": "npz:bytes.npz"}, "255"),
        ({"--start": "360"}, "start must lie in 0..359"),
        ({"--skip": "0"}, "skip must be at least 1"),
        ({"--max": "0"}, "max must be at least 1"),
        ({"--batch": "0"}, "batch must be a whole number"),
        ({"--device": "nonsense"}, "cannot be used here"),
        ({"system": "absent"}, "expected a system folder"),
        ({"system": "zoo:anything"}, "the zoo has no system 'anything'; it has cifar10-dual, digits-dual"),
    ],
)
def test_a_bad_request_ends_with_code_2_before_any_work(system, tmp_path, sigmax, changes, message):
    rng = np.random.default_rng(0)
    labels = np.array([0, 9])
    np.savez(tmp_path / "channels.npz", images=rng.random((2, 3, 8, 8)), labels=labels)
    np.savez(tmp_path / "classes.npz", images=rng.random((2, 1, 8, 8)), labels=np.array([0, 1]))
    np.savez(tmp_path / "names.npz", images=rng.random((2, 1, 8, 8)), labels=[0, 1], classes=["cat", "dog"])
    np.savez(tmp_path / "nan.npz", images=np.full((2, 1, 8, 8), np.nan), labels=labels)
    np.savez(tmp_path / "bytes.npz", images=np.full((2, 1, 8, 8), 200.0), labels=labels)
    options = {**CERTIFY, **changes}
    where = options.pop("system", system)
    refused = sigmax("certify", where, *[word for pair in options.items() for word in pair], cwd=tmp_path)
    assert refused.returncode == 2, refused.stderr
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "run.jsonl").exists()


BUILD = "build smoothed {net} --sigma 1 --out s --normalise none"
TRAIN = "train classifier --data digits --out n.safetensors"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("build smoothed absent.safetensors --out s", "no checkpoint absent.safetensors"),
        ("build smoothed {net} --sigma 0 --out s", "sigma must be a positive number"),
        ("build smoothed {net} --sigma -1 --out s", "sigma must be a positive number"),
        (
            f"{BUILD} --architecture resnet20 --classes 10 --input-shape 3,32,32",
            "another architecture",
        ),
        (f"{BUILD} --architecture small-cnn --classes 7 --input-shape 1,8,8", "10 classes and 7 were asked for"),
        (f"{BUILD} --architecture small-cnn --classes 10 --input-shape 8", "--input-shape must be"),
        (f"{TRAIN} --sigma -1", "sigma"),
        (f"{TRAIN} --sigma 1 --model vit", "unknown architecture 'vit'"),
        (f"{TRAIN} --sigma 1 --epochs 0", "epochs must be a whole number"),
        ("predict {system} --data digits --n 10", "n=10 draws can never predict"),
        ("verify absent.jsonl", "cannot read the run file absent.jsonl"),
        ("report absent.jsonl --out r", "cannot read the run file absent.jsonl"),
        ("import absent.tsv --sigma 1 --n 100 --alpha 0.1 --out r.jsonl", "absent.tsv"),
        ("export absent.jsonl", "cannot read the run file absent.jsonl"),
        ("certify", "Missing argument"),
    ],
)
def test_other_verbs_refuse_bad_requests_too(trained, tmp_path, sigmax, words, message):
    places = {"net": trained / "net.safetensors", "system": trained / "system"}
    refused = sigmax(*words.format(**places).split(), cwd=tmp_path)
    assert refused.returncode == 2, refused.stderr
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_demo_walks_the_whole_road(tmp_path, sigmax):
    done = sigmax("demo", "--out", tmp_path / "demo", "--max", 4)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("every radius follows from its counts (4 of 4 inputs; smoothed, sigma ") == 3
    assert (tmp_path / "demo" / "report" / "curve.pdf").stat().st_size > 1000
    assert "Where to look" in done.stdout
    first = json.loads((tmp_path / "demo" / "runs" / "sigma-0.2-max4.jsonl").read_text().splitlines()[0])
    assert (first["n0"], first["n"], first["alpha"]) == (100, 10_000, 0.001)
