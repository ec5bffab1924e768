"""Places, shapes and words that will not do are refused before any work."""

import shutil

import numpy as np
import pytest
from PIL import Image

import sigmax as sx


@pytest.fixture
def nowhere(tmp_path):
    """A path below a file, where nobody can write."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "out.safetensors"


@pytest.mark.parametrize("words", ["train classifier --data digits --sigma 0.5 --epochs 1", "bench --set inputs=1"])
def test_a_place_that_cannot_be_written_to(words, nowhere, sigmax):
    done = sigmax(*words.split(), "--out", nowhere)
    assert done.returncode == 2
    assert f"cannot write {nowhere}" in " ".join(done.stderr.split())
    assert "epoch" not in done.stdout


def test_nor_does_a_system_go_there(system, trained, nowhere, sigmax):
    done = sigmax("build", "smoothed", trained / "net.safetensors", "--out", nowhere.with_suffix(""))
    assert done.returncode == 2
    assert "cannot write the system to" in done.stderr


def test_nor_do_predictions_go_there(system, nowhere, sigmax):
    done = sigmax("predict", system, "--data", "digits", "--max", 2, "--n", 100, "--out", nowhere)
    assert done.returncode == 2
    assert "right" not in done.stdout


def test_training_without_noise_says_what_to_give_next(tmp_path, sigmax):
    done = sigmax(*"train classifier --data digits --sigma 0 --epochs 1 --out".split(), tmp_path / "n.safetensors")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "of the training images classified right" in said
    assert "--sigma SIGMA --out SYSTEM" in said


def test_a_checkpoint_that_describes_itself_needs_no_options(trained, tmp_path, sigmax):
    done = sigmax("build", "smoothed", trained / "net.safetensors", "--classes", 5, "--out", tmp_path / "s")
    assert done.returncode == 2
    assert "describes its network; leave out --classes" in done.stderr


def test_a_folder_is_no_checkpoint(system, sigmax):
    done = sigmax("diagnose", "gradients", system, "--data", "digits", "--sigma", 0.5)
    assert done.returncode == 2
    assert "is a folder" in done.stderr


def test_too_many_samples_are_named_by_their_option(sigmax):
    done = sigmax("plan", "--radius", 0.5, "--sigma", 0.25, "--n", 10**10)
    assert done.returncode == 2
    assert "--n must be from 1 to 1,000,000,000 samples" in done.stderr


def test_a_file_that_is_no_run_is_not_to_be_finished(trained, sigmax):
    done = sigmax("verify", trained / "net.safetensors")
    assert done.returncode == 2
    assert "repeat the certify command" not in done.stderr


def test_what_no_router_can_build_on_is_not_labelled(trained, system, tmp_path, sigmax):
    assert (
        sigmax(
            "build", "memorized", trained / "net.safetensors", "--sigma0", 0.5, "--out", tmp_path / "memory"
        ).returncode
        == 0
    )
    done = sigmax("label", system, tmp_path / "memory", "--data", "digits", "--out", tmp_path / "labels")
    assert done.returncode == 2
    assert "another scheme cannot build on them" in " ".join(done.stderr.split())
    assert not (tmp_path / "labels").exists()


@pytest.fixture
def pictures(tmp_path):
    """A folder of pictures, larger than the network's digits."""
    shades = np.random.default_rng(0).integers(0, 256, size=(10, 12, 16), dtype=np.uint8)
    for split in ("train", "test"):
        for c in range(10):
            (tmp_path / "pictures" / split / f"class-{c}").mkdir(parents=True)
            Image.fromarray(shades[c]).save(tmp_path / "pictures" / split / f"class-{c}" / "a.png")
    return f"folder:{tmp_path / 'pictures'}"


def test_a_bad_picture_ends_the_request_before_any_vote(system, pictures, tmp_path, sigmax):
    """All bad files are named at once: removing one of a run that has begun would make it a run of other images."""
    small, n = ("--image-size", 8), ("--n", 200)
    table = tmp_path / "p.csv"
    done = sigmax("predict", system, "--data", pictures, *small, *n, "--max", 50, "--out", table)
    assert done.returncode == 0, done.stderr
    assert "class-3/a.png" in done.stdout
    assert "--max is 50" in done.stderr
    assert "has 10 such inputs" in done.stderr
    assert table.read_text().splitlines()[4].startswith("3,class-3/a.png,3,")
    for c in (7, 9):
        (tmp_path / f"pictures/test/class-{c}/a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    for verb, out in (("certify", tmp_path / "run.jsonl"), ("predict", tmp_path / "q.csv")):
        refused = sigmax(verb, system, "--data", pictures, *small, *n, "--out", out)
        assert refused.returncode == 2
        assert "2 of 10 images cannot be used" in refused.stderr
        assert "class-7/a.png cannot be read" in refused.stderr
        assert "class-9/a.png cannot be read" in refused.stderr
        assert not out.exists()


def test_pictures_are_fitted_wherever_they_are_read(trained, system, pictures, tmp_path, sigmax):
    run, small = tmp_path / "run.jsonl", ("--image-size", 8)
    asked = ("--n", 200, "--n0", 20, "--max", 3)
    certified = sigmax("certify", system, "--data", pictures, *small, *asked, "--out", run, "--verbose")
    assert certified.returncode == 0
    assert "  class-2/a.png\n" in certified.stdout
    done = sigmax("verify", run, "--data", pictures, *small)
    assert done.returncode == 0, done.stderr
    assert "Every label is that of" in done.stdout
    words = ("build", "semi-elastic", trained / "net.safetensors", "--data", pictures, "--k", 2)
    refused = sigmax(*words, "--out", tmp_path / "wrong")
    assert refused.returncode == 2
    assert not (tmp_path / "wrong").exists()
    done = sigmax(*words, *small, "--offset", 1, "--out", tmp_path / "elastic")
    assert done.returncode == 0, done.stderr
    assert sx.load(tmp_path / "elastic").rule.dim == 64
    shutil.rmtree(tmp_path / "elastic")
    few = ("--set", "image_size=8", "--set", "inputs=1", "--set", "reference_inputs=1", "--set", "seconds=0.1")
    bench = ("bench", system, "--data", pictures, *few, "--n", 200)
    assert sigmax(*bench).returncode == 0
