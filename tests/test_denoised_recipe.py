"""The recipe for denoised smoothing runs to its end, made very small; repeated, it does nothing twice."""

import json

import numpy as np
import pytest

import sigmax as sx
from recipes import cifar10_denoised as recipe
from sigmax.errors import RequestError
from tests.data.table import write_cifar10_binary
from tests.models.checkpoints.test_imported import cifar10_test

TINY = """
images=80
aside=0.5
unet.width=8
denoising.epochs=1
routing.epochs=1
labels.n=12
labels.n0=4
labels.alpha=0.2
n=40
n0=8
alpha=0.05
skip=40
maximum=2
""".split()


def run(out, *words, changes=TINY):
    given = [word for change in changes for word in ("--set", change)]
    recipe.main(["--small", "--out", str(out), *words, *given])
    return json.loads((out / "table.json").read_text())


def state(out):
    """When each file was written last; the folder of the system is written again, with the same in it."""
    files = [file for file in out.rglob("*") if file.is_file() and "table" not in file.name]
    return {file: file.stat().st_mtime_ns for file in files if file.parent.name != "dual"}


@pytest.mark.slow
def test_all_of_it_on_digits_and_once_more(tmp_path, capsys):
    out = tmp_path / "out"
    given = run(out)
    names = [row["system"] for row in given["rows"]]
    sigmas = ("0.25", "0.5", "1")
    assert names == [
        *(f"{kind}, sigma {s}" for kind in ("off the shelf", "fine-tuned") for s in sigmas),
        "dual, fine-tuned",
    ]
    assert given["published"] == [], "those are of CIFAR-10"
    assert all(row["inputs"] == 2 and row["training_minutes"] > 0 for row in given["rows"])
    dual = sx.load(out / "dual")
    assert len({id(voter.model.denoiser) for voter in dual.voters.values()}) == 1
    runs = {path.stem: sx.read(path) for path in (out / "runs").iterdir()}
    assert runs["dual-fine-tuned"].plan.system == sx.systems.fingerprint(dual), "what was certified is what is kept"
    assert {run.plan.sampling["kind"] for run in runs.values()} == {"adaptive"}
    found = sx.report.certified_accuracy(runs["fine-tuned-sigma-0.25"], recipe.RADII)
    assert given["rows"][3]["certified"] == (100 * found).tolist()
    assert "| dual, fine-tuned |" in capsys.readouterr().out

    before = state(out)
    again = run(out)
    assert state(out) == before
    assert again["seconds"] == given["seconds"]
    run(out, "--held-out", "--sampling", "fixed")
    fixed = sx.read(out / "runs" / "dual-fine-tuned-held-out-fixed.jsonl")
    assert (fixed.plan.sampling["kind"], fixed.plan.data["split"], len(fixed.records)) == ("fixed", "train", 2)
    assert (out / "table-held-out-fixed.md").exists()
    with pytest.raises(SystemExit):  # another denoiser would have to take the place of this one
        run(out, "--set", "noise=(0.1,0.5)")


def test_what_is_trained_on_what(tmp_path):
    job = recipe.read(["--small", "--out", str(tmp_path)], recipe.argparse.ArgumentParser())
    held, taught, labelled, tuned_on = job.divided
    assert [len(part) for part in job.divided] == [25, 475, 48, 427]

    def rows(dataset):
        return {pixels.tobytes() for pixels in dataset.images}

    assert not rows(held) & rows(taught), "what is chosen on is never trained on"
    assert not rows(labelled) & rows(tuned_on), "labels are of images new to who labels"
    assert rows(labelled) | rows(tuned_on) == rows(taught)


@pytest.mark.slow
def test_the_public_network_behind_it(shared, tmp_path):
    """Files as CIFAR-10's are, with a few of its test images, and the public weights."""
    pixels, labels = cifar10_test(shared, 100)
    (tmp_path / "cifar10").mkdir()
    as_stored = np.round(255 * pixels).astype(np.uint8)
    write_cifar10_binary(tmp_path / "cifar10", "train", as_stored[:80], labels[:80])
    write_cifar10_binary(tmp_path / "cifar10", "test", as_stored[80:96], labels[80:96])
    weights = shared / "weights" / "cifar10-resnet56"
    changes = [*TINY, "skip=8", "sigmas=[0.05,1.0]"]
    given = run(
        tmp_path / "out", "--data", f"cifar10:{tmp_path / 'cifar10'}", "--weights", str(weights), changes=changes
    )
    assert len(given["rows"]) == 5
    assert len(given["published"]) == 4
    public = recipe.public_resnet56(weights)
    off_the_shelf = sx.read(tmp_path / "out" / "runs" / "off-the-shelf-sigma-0.05.jsonl")
    denoiser = sx.models.load_denoiser(tmp_path / "out" / "dual" / "router-denoiser.safetensors")
    untouched = sx.Smoothed(sx.Denoised(denoiser, public), sigma=0.05, classes=10)
    assert off_the_shelf.plan.system == sx.systems.fingerprint(untouched)


def test_the_published_rows_are_those_collected(shared):
    """What the recipe prints of published results is what was collected beside the checkout."""
    lines = [line.strip("| ").split("|") for line in (shared / "FACTS.md").read_text().splitlines()]
    kept = {cells[0].strip(" *"): cells[1:] for cells in lines if len(cells) == 12}
    names = ["denoised smoothing (Carlini), sigma 0.25, off the shelf, N=1e4", "same, 0.5", "same, 1.0"]
    for row, name in zip(recipe.PUBLISHED, [*names, "Dual RS fine-tuned"], strict=True):
        assert list(row[1]) == [float(cell) for cell in kept[name]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected --data cifar10:PATH and --weights FILE"),
        (["--small", "--set", "epochs"], "a change is KEY=VALUE"),
        (["--small", "--set", "tuning.lrate=1"], "has no 'lrate'"),
        (["--small", "--set", "denoising.epochs=0"], "denoising.epochs: expected a number of at least 1, got 0"),
        (["--small", "--weights", "nowhere"], "a file or a folder with one .th file, at nowhere"),
    ],
)
def test_wrong_requests_are_refused_before_any_work(words, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        recipe.main([*words, "--out", str(tmp_path / "out")])
    assert end.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()


def test_a_folder_of_weights_holds_one_file(tmp_path):
    for name in ("a.th", "b.th"):
        (tmp_path / name).touch()
    with pytest.raises(RequestError, match="a folder with one .th file"):
        recipe.public_resnet56(tmp_path)


def test_attempts_that_were_cut_short_count_in_and_a_finished_step_is_not_timed_again(tmp_path, monkeypatch):
    clock = iter(range(0, 1000, 10))  # every look at it is ten seconds later
    monkeypatch.setattr(recipe, "perf_counter", lambda: next(clock))
    made = tmp_path / "made"

    def attempt(make):
        steps = recipe.Stopwatch(tmp_path / "seconds.json")
        with steps.step("train", made):
            make()
        return steps

    def cut_short():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(cut_short)
    assert attempt(made.touch).seconds == {"train": 20.0}
    again = attempt(made.touch)
    assert (again.seconds, again.minutes("train")) == ({"train": 20.0}, pytest.approx(1 / 3))
    made.unlink()
    assert attempt(made.touch).seconds == {"train": 30.0}, "what was removed is made again"
