"""The whole workflow by its verbs, and what each of them answers to a wrong request."""

import json
import re

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.cli.demo import ahead
from tests.data.test_pictures import strangers
from tests.models.adapters.exports import EXPORTS, network


@pytest.fixture(scope="module")
def run(trained, tmp_path_factory):
    """A short run, made in this process."""
    out = tmp_path_factory.mktemp("run") / "half.jsonl"
    data = sx.data.load("digits", "test")
    return sx.certify_run(sx.load(trained / "system"), data, out, n=500, skip=20, maximum=12).path


def test_certify_takes_the_inputs_asked_for(system, tmp_path, sigmax):
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


def test_certify_asks_about_classes_in_another_order(system, tmp_path, sigmax):
    digits, names = sx.data.load("digits", "test"), ["zero", "one", "two", *"3456789"]
    for name, shift in (("right", 0), ("other", 1)):
        np.savez(tmp_path / name, images=digits.pixels(range(60)), labels=(digits.labels[:60] + shift) % 10,
                 classes=names)  # fmt: skip
    for name, maximum, expected in (("right", 60, False), ("other", 60, True), ("other", 19, False)):
        out = tmp_path / f"{name}{maximum}.jsonl"
        done = sigmax("certify", system, "--data", f"npz:{tmp_path / name}.npz", "--n", 200, "--max", maximum,
                      "--out", out)  # fmt: skip
        assert done.returncode == 0, done.stderr
        asked = "than their label: is the order of the classes (zero, one, two, ...) that of the model?"
        assert (asked in done.stderr) is expected
        assert (sx.read(out).frame()["predicted"] >= 0).sum() >= min(maximum - 5, 20)


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


def test_verify_tells_what_fails_from_what_it_cannot_verify(run, tmp_path, sigmax):
    foreign, bad = tmp_path / "data.npz", tmp_path / "bad.jsonl"
    np.savez(foreign, images=np.zeros((2, 8, 8)))
    lines = run.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b'"radius":', b'"radius":1', 1)
    bad.write_bytes(b"".join(lines))
    refused = sigmax("verify", foreign, tmp_path / "absent.jsonl", run)
    assert refused.returncode == 2
    assert "data.npz is no run file" in refused.stderr
    assert "cannot read the run file" in refused.stderr
    assert "every radius follows from its counts" in refused.stdout, "the others are checked"
    failed = sigmax("verify", foreign, bad)
    assert failed.returncode == 1
    assert "data.npz is no run file" in failed.stderr
    assert "bad.jsonl, line 5:" in failed.stderr


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
    words = ("import", log, "--n", 100_000, "--out", tmp_path / "cohen.jsonl")
    done = sigmax(*words, "--alpha", 0.001)
    assert done.returncode == 0
    assert "impossible at sigma=0.25, n=100000, alpha=0.001 (they fit alpha=0.01)" in done.stderr
    assert sigmax("verify", tmp_path / "cohen.jsonl").returncode == 1
    doubled = sigmax("import", log, "--sigma", 0.5, "--n", 100_000, "--alpha", 0.01, "--out", tmp_path / "two.jsonl")
    assert doubled.returncode == 2
    assert "65 rows share the largest radius, 0.978" in doubled.stderr
    assert "The radii fit sigma=0.25" in doubled.stderr
    assert not (tmp_path / "two.jsonl").exists()


def test_predict_prints_and_writes(system, tmp_path, sigmax):
    done = sigmax("predict", system, "--data", "digits", "--max", 6, "--seed", 1, "--out", tmp_path / "p.csv")
    assert done.returncode == 0, done.stderr
    assert "6 inputs:" in done.stdout
    assert "done before" not in done.stdout, "a first run goes on from nothing"
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 7


def test_predict_makes_pictures_of_any_kind_fit_the_system(tmp_path, sigmax):
    network = models.create(models.Description(architecture="small-cnn", classes=3, input_shape=(3, 16, 16)))
    sx.Smoothed(network, sigma=0.2, classes=3).save(tmp_path / "system")
    strangers(tmp_path / "photos")
    done = sigmax("predict", tmp_path / "system", "--data", f"folder:{tmp_path / 'photos'}", "--n", 50)
    assert done.returncode == 0, done.stderr
    assert "6 inputs:" in done.stdout
    assert "s an input" in done.stdout
    assert "f.webp" in done.stdout


def test_interrupted_predictions_say_that_they_start_over(system, sigmax, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("sigmax.schemes.scheme.rounds.run", interrupted)
    done = sigmax("predict", system, "--data", "digits", "--max", 6)
    assert done.returncode == 130
    assert "Interrupted. Predictions are not kept. The same command starts over." in done.stderr
    assert "to go on" not in done.stderr


@pytest.mark.parametrize("closing", [False, True])
def test_a_verb_without_words_of_its_own_says_how_to_go_on(tmp_path, sigmax, monkeypatch, closing):
    """Also where closing a half-written file raises, which hides the interrupt."""

    def interrupted(*_, **__):
        try:
            raise KeyboardInterrupt
        finally:
            if closing:
                raise ValueError("inconsistent stream state")

    monkeypatch.setattr("sigmax.records.merge.merge", interrupted)
    done = sigmax("merge", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--out", tmp_path / "c.jsonl")
    assert done.returncode == 130
    assert "Interrupted. Finished files are kept. Run the same command again to go on." in done.stderr
    assert "Traceback" not in done.stderr


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
    lacking = sigmax(*words)
    assert lacking.returncode == 2
    assert "also give --architecture, --classes, --input-shape, --normalise" in lacking.stderr
    given = ["--architecture", "small-cnn", "--classes", 10, "--input-shape", "1,8,8", "--normalize", "none"]
    assert sigmax(*words, *given).returncode == 0
    loaded = sx.load(tmp_path / "system").voters["base"].model
    weights = loaded.network.state_dict()
    assert all(torch.equal(weights[name], tensor) for name, tensor in network.state_dict().items())
    image = torch.rand(2, 1, 8, 8)
    assert torch.equal(loaded(image), network(image))


@pytest.mark.parametrize("name", EXPORTS)
def test_a_file_of_another_tool_becomes_a_system_and_is_certified(name, tmp_path, sigmax):
    EXPORTS[name](tmp_path / name, network())
    words = ["build", "smoothed", tmp_path / name, "--sigma", 0.25, "--out", tmp_path / "system"]
    if name == "net.pt":
        refused = sigmax(*words)
        assert refused.returncode == 2
        assert "give --input-shape" in refused.stderr
        words += ["--input-shape", "1,8,8"]
    done = sigmax(*words)
    assert done.returncode == 0, done.stderr
    assert "gets pixels in [0, 1] as they are; --normalise puts" in " ".join(done.stdout.split())
    run = tmp_path / "run.jsonl"
    done = sigmax("certify", tmp_path / "system", "--data", "digits", "--max", 2, "--n", 200, "--out", run)
    assert done.returncode == 0, done.stderr
    assert sx.verify(run).holds
    assert sigmax("show", tmp_path / "system").returncode == 0


def test_code_is_run_where_it_is_named_and_nowhere_else(tmp_path, sigmax, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sigmax_cli_code.py").write_text(
        "import torch\ndef load():\n    torch.manual_seed(0)\n"
        "    linear = torch.nn.Linear(64, 10)\n    return lambda images: linear(images.flatten(1))\n"
    )
    named = ["--code", "sigmax_cli_code:load"]
    built = sigmax("build", "smoothed", *named, "--sigma", 0.25, "--input-shape", "1,8,8", "--out", "system")
    assert built.returncode == 0, built.stderr
    certify = ["certify", "system", "--data", "digits", "--max", 2, "--n", 200, "--out", "run.jsonl"]
    refused = sigmax(*certify)
    assert refused.returncode == 2
    assert "a folder runs no code by itself" in " ".join(refused.stderr.split())
    assert sigmax(*certify, *named).returncode == 0
    assert sx.read("run.jsonl").plan.made_with["known_by_behaviour_alone"] == ["base"]
    both = sigmax("build", "smoothed", "net.onnx", *named, "--out", "other")
    assert both.returncode == 2
    assert "give either NETWORK or --code" in both.stderr


def test_models_that_no_system_can_hold_are_refused_by_what_they_are(tmp_path, sigmax):
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pt")
    (tmp_path / "net.onnx").write_bytes(b"onnx")
    (tmp_path / "net.h5").write_bytes(b"keras")
    (tmp_path / "empty").mkdir()
    for file, message in (
        ("module.pt", "is a pickle that asks for torch.nn.modules.linear.Linear, not for weights alone"),
        ("net.onnx", "is no ONNX model that onnxruntime can run"),
        ("net.h5", "is of no kind that is known here; expected a checkpoint (.pt, .pth, .th, .safetensors), an .onnx"),
        ("absent.pt", "there is no file"),
        ("empty", "is a folder without a config.json, so no model of transformers"),
        ("absent", "there is no file or folder"),
    ):
        refused = sigmax("build", "smoothed", tmp_path / file, "--sigma", 0.5, "--out", tmp_path / "system")
        assert refused.returncode == 2
        assert message in " ".join(refused.stderr.split())


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
        ({"--n": "9"}, "n=9 samples can never certify at alpha=0.001"),
        ({"--n0": "0"}, "n0 must be a whole number of samples"),
        ({"--alpha": "0"}, "alpha must lie strictly between 0 and 1"),
        ({"--seed": "-1"}, "seed must be a whole number"),
        ({"--data": "nowhere"}, "nowhere"),
        ({"--data": "cifar10:absent"}, "absent"),
        ({"--data": "npz:channels.npz"}, "takes images of shape (1, 8, 8); got (3, 8, 8)"),
        ({"--data": "npz:size.npz"}, "got (1, 9, 9). Use one for these images, or resize pictures: --image-size 8"),
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
        ({"system": "net.onnx"}, "make a system of it: sigmax build smoothed net.onnx"),
        ({"--out": "."}, "--out names the run file, and . is a folder; name a file in it: run.jsonl"),
        ({"system": "zoo:anything"}, "the zoo has no system 'anything'; it has cifar10-"),
    ],
)
def test_a_bad_request_ends_with_code_2_before_any_work(system, tmp_path, sigmax, changes, message):
    rng = np.random.default_rng(0)
    labels = np.array([0, 9])
    np.savez(tmp_path / "channels.npz", images=rng.random((2, 3, 8, 8)), labels=labels)
    np.savez(tmp_path / "size.npz", images=rng.random((2, 1, 9, 9)), labels=labels)
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
        (f"{TRAIN} --sigma 1 --epochs 0", "training.epochs: expected a number of at least 1, got 0"),
        ("predict {system} --data digits --n 10", "n=10 samples can never predict"),
        ("verify absent.jsonl", "cannot read the run file absent.jsonl"),
        ("report absent.jsonl --out r", "cannot read the run file absent.jsonl"),
        ("import absent.tsv --sigma 1 --n 100 --alpha 0.1 --out r.jsonl", "absent.tsv"),
        ("export absent.jsonl", "cannot read the run file absent.jsonl"),
        ("show absent.jsonl", "there is no run file absent.jsonl"),
        ("certify", "Missing argument"),
        ("certify {system} --sigma 0.5 --data digits --out r.jsonl", "The noise belongs to the system"),
    ],
)
def test_other_verbs_refuse_bad_requests_too(trained, tmp_path, sigmax, words, message):
    places = {"net": trained / "net.safetensors", "system": trained / "system"}
    refused = sigmax(*words.format(**places).split(), cwd=tmp_path)
    assert refused.returncode == 2, refused.stderr
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.slow
def test_the_demo_runs_the_whole_workflow(tmp_path, sigmax):
    done = sigmax("demo", "--out", tmp_path / "demo", "--max", 4)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("every radius follows from its counts (4 of 4 inputs; ") == 6
    assert "router-1. Held out, 128 inputs" in done.stdout
    assert (tmp_path / "demo" / "report" / "curve.pdf").stat().st_size > 1000
    head, *rows = done.stdout.partition("certified accuracy in % at l2 radius")[2].splitlines()[1:10]
    assert head.split() == ["name", "0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "mean"]
    names = ["constant 0.1", "constant 0.2", "constant 0.4", "Dual, rule min", "Dual, consensus", "Cascade", "oracle"]
    assert [row.partition("  ")[0] for row in rows[1:]] == names
    assert all(len(line.rstrip()) <= 80 for line in (head, *rows))
    assert "The cascade is " in done.stdout
    for command in re.findall(r"^  (sigmax (?:show|pipeline) .*)", done.stdout, re.MULTILINE):
        assert sigmax(*command.split()[1:]).returncode == 0, command
    first = json.loads((tmp_path / "demo" / "runs" / "sigma-0.2.jsonl").read_text().splitlines()[0])
    assert (first["n0"], first["n"], first["alpha"]) == (100, 5_000, 0.001)


def test_the_demo_says_where_the_cascade_is_ahead_and_where_not():
    single = {"constant 0.1": [9, 8, 0, 0, 0, 0, 0, 0], "constant 0.4": [7, 7, 6, 5, 4, 3, 2, 1]}
    counts = {**single, "Cascade": [9, 9, 6, 4, 4, 3, 2, 1], "oracle": [10] * 8}
    assert ahead(counts) == (
        "The cascade is ahead of every single sigma at radius 0.1; level with the best of them at radius 0, 0.2, 0.4, "
        "0.5, 0.6, 0.7; behind the best of them at radius 0.3. Its mean is above every single sigma."
    )
    assert ahead({**counts, "Cascade": [0] * 8}).endswith("Its mean is above 0 of the 2 sigmas.")
