"""`sigmax calibrate`: a cascade with thresholds chosen on held-out images."""

import json

from PIL import Image

import sigmax as sx
from sigmax import models
from sigmax.cli.progress import note_training_data


def test_it_writes_the_cascade_with_the_thresholds_that_were_chosen(trained, system, tmp_path, sigmax):
    net, cascade, out = trained / "net.safetensors", tmp_path / "cascade", tmp_path / "tuned"
    words = ("--sigma", "1.0", "--confidence", "0.9", "--out", cascade)
    assert sigmax("build", "cascade", net, system, *words).returncode == 0
    how = (
        "--data",
        "digits",
        "--split",
        "train",
        "--start",
        1300,
        "--n",
        1000,
        "--set",
        "samples=50",
        "--set",
        "radii=0,0.25,0.5",
    )
    done = sigmax("calibrate", cascade, *how, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "level-0: defers below confidence" in done.stdout
    assert "on the 137 images, at n = 1,000, alpha = 0.001: " in done.stdout
    assert "at 0.25" in done.stdout
    assert "note: these are images the system was trained on; thresholds chosen on them" in done.stderr
    before, after = sx.load(cascade), sx.load(out)
    assert before.levels[0].voters["base"].model.confidence == 0.9
    chosen = after.levels[0].voters["base"].model.confidence
    assert 0 < chosen < 1
    assert f"{chosen:.4g}" in done.stdout
    assert after.last.sigma == before.last.sigma
    written = {path.name: path.read_bytes() for path in out.iterdir()}
    assert sigmax("calibrate", cascade, *how, "--out", out).returncode == 0  # as after a kill at the very end
    assert {path.name: path.read_bytes() for path in out.iterdir()} == written
    assert sorted(path.name for path in (tmp_path / "tuned.answers").iterdir()) == ["last.npz", "level-0.npz"]
    other = ("--set", "objective=least-ratio", "--answers", tmp_path / "tuned.answers", "--out", tmp_path / "other")
    other += ("--frontier", tmp_path / "frontier.png")
    again = sigmax("calibrate", cascade, *how, *other)
    assert again.returncode == 0, again.stderr
    assert "Ratio to the best single network at each radius: 0." in again.stdout
    assert (tmp_path / "frontier.png").read_bytes()[1:4] == b"PNG"
    assert "points" in json.loads((tmp_path / "frontier.json").read_text())
    refused = sigmax("calibrate", cascade, *how, "--set", "samples=40", "--out", out)
    assert refused.returncode == 2
    assert "tuned.answers/level-0.npz holds what a network answered to another request: samples is 50" in refused.stderr
    for place, message in ((cascade, "is the system to begin with"), (system, "holds another system")):
        refused = sigmax("calibrate", cascade, *how, "--out", place)
        assert refused.returncode == 2
        assert message in refused.stderr
    assert sigmax("certify", out, "--data", "digits", "--max", 3, "--n", 200, "--out", tmp_path / "r").returncode == 0


def test_only_images_that_a_network_was_trained_on_are_noted(trained, capsys):
    network, digits = models.load(trained / "net.safetensors")[0], sx.data.load("digits", "train")
    level = sx.Smoothed(models.selective(network, confidence=0.9), sigma=1.0, classes=10)
    other = sx.Smoothed(lambda x: x.flatten(1)[:, :10], sigma=0.5, classes=10)
    for scheme, dataset, noted in (
        (sx.Cascade([level], last=other), digits, True),
        (sx.Cascade([level], last=other), digits.take(range(1300, 1400)), False),
        (other, digits, False),
    ):
        note_training_data(scheme, [dataset], "what follows")
        assert ("trained on; what follows" in capsys.readouterr().err) is noted


def test_pictures_of_odd_sizes_are_resized_by_a_key(trained, system, tmp_path, sigmax):
    digits, cascade, photos = sx.data.load("digits", "train"), tmp_path / "cascade", tmp_path / "photos"
    for i in range(60):
        file = photos / "train" / str(digits.labels[i]) / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((255 * digits.pixels([i])[0, 0]).astype("uint8")).resize((16, 16 + i % 2)).save(file)
    words = ("--sigma", "1.0", "--out", cascade)
    assert sigmax("build", "cascade", trained / "net.safetensors", system, *words).returncode == 0
    how = ("calibrate", cascade, "--data", f"folder:{photos}", "--split", "train", "--set", "samples=50")
    refused = sigmax(*how, "--out", tmp_path / "tuned")
    assert refused.returncode == 2
    assert "--set image_size=N where a verb has no such option" in " ".join(refused.stderr.split())
    done = sigmax(*how, "--set", "image_size=8", "--out", tmp_path / "tuned")
    assert done.returncode == 0, done.stderr


def test_what_cannot_be_calibrated(system, tmp_path, sigmax):
    for words, message in (
        (("--data", "digits"), "is not a cascade"),
        (("--data", "digits", "--set", "samples=0"), "samples: expected a number of at least 1, got 0"),
        (("--data", "digits", "--set", "objective=least-lead"), "published"),
        (("--data", "digits", "--frontier", "f.svg"), "written as FILE.json, FILE.png or FILE.pdf; got f.svg"),
    ):
        refused = sigmax("calibrate", system, *words, "--split", "train", "--out", tmp_path / "out")
        assert refused.returncode == 2
        assert message in " ".join(refused.stderr.split())
