"""Labels and the choice of noise levels, by their verbs."""

import signal
import subprocess
import time

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.jobs.label.labels import make_labels, read_labels
from sigmax.models import Description
from tests.cli.conftest import ENVIRONMENT, SIGMAX

SIGMAS = (0.25, 0.5, 1.0)


@pytest.fixture(scope="module")
def systems(trained, tmp_path_factory):
    """One network smoothed with three noise levels."""
    folder = tmp_path_factory.mktemp("systems")
    model = sx.load(trained / "system").voters["base"].model
    return [sx.Smoothed(model, sigma=s, classes=10).save(folder / f"sigma-{s}") for s in SIGMAS]


@pytest.fixture(scope="module")
def labelled(systems, tmp_path_factory):
    """Labels of a tenth of the digits, made in this process."""
    folder = tmp_path_factory.mktemp("labelled") / "labels"
    make_labels([sx.load(s) for s in systems], sx.data.load("digits", "train"), folder, fraction=0.1)
    return folder


def words(systems, out, *more):
    return ["label", *map(str, systems), "--data", "digits", "--set", "fraction=0.1", "--out", str(out), *more]


def certificates(folder):
    """All that the labels' runs say, but for the seconds they took."""
    runs = [sx.read(path) for path in sorted(folder.glob("expert-*.jsonl"))]
    return [(run.plan, [(r.index, r.label, r.certificate) for r in run.records], run.finished) for run in runs]


def test_labels_as_a_user_makes_them(systems, labelled, tmp_path, sigmax):
    """The labels are those of Python, their runs verify, and the table says what is in them."""
    out = tmp_path / "labels"
    done = sigmax(*words(systems, out))
    assert done.returncode == 0, done.stderr
    assert certificates(out) == certificates(labelled)
    assert (out / "labels.toml").read_text() == (labelled / "labels.toml").read_text()
    labels = read_labels(out)
    assert (labels.sigmas, len(labels)) == (SIGMAS, 144)
    assert "432/432" in done.stdout
    assert "144 labelled inputs" in done.stdout
    row = next(line for line in done.stdout.splitlines() if "expert-1 sigma-0.5" in line)
    shown = [float(cell) for cell in row.split("│")[2:-1]]
    exact = [0.5, 100 * labels.shares[1], labels.radii[:, 1].mean(), 100 * (labels.radii[:, 1] > 0).mean()]
    assert np.allclose(shown, exact, atol=0.1)
    assert f"no expert certifies them: {100 * labels.dropped:.1f}%" in done.stdout
    assert f"Next: sigmax train router --labels {out} --data digits --sigma 1.0 --out" in done.stdout
    verified = sigmax("verify", *sorted(out.glob("expert-*.jsonl")))
    assert verified.returncode == 0
    assert verified.stdout.count("every radius follows from its counts (144 of 144 inputs") == 3


def test_a_dual_system_stands_for_its_experts(systems, labelled, tmp_path, sigmax):
    """Its labels are those of the experts named one by one, to the byte, but for the seconds."""
    torch.manual_seed(0)
    router = models.create(
        Description(architecture="small-cnn", classes=3, input_shape=(1, 8, 8), options={"width": 4}, sigma=1.0)
    )
    dual = sx.Dual(sx.Smoothed(router, sigma=1.0, classes=3), [sx.load(system) for system in systems])
    dual.save(tmp_path / "dual")
    done = sigmax(*words([tmp_path / "dual"], tmp_path / "labels"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "labels" / "labels.toml").read_text() == (labelled / "labels.toml").read_text()
    assert certificates(tmp_path / "labels") == certificates(labelled)


LONG = ("--n", "600")  # two seconds, so that the signal meets the work


@pytest.fixture(scope="module")
def uninterrupted(systems, tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted")
    make_labels([sx.load(s) for s in systems], sx.data.load("digits", "train"), folder, fraction=0.1, n=600)
    return certificates(folder)


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_or_killed_it_goes_on_and_ends_the_same(systems, uninterrupted, tmp_path, sigmax, sent):
    out = tmp_path / "labels"
    process = subprocess.Popen(
        [*SIGMAX, *words(systems, out, *LONG)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    second, deadline = out / "expert-1.jsonl", time.monotonic() + 120
    while not (second.exists() and second.read_bytes().count(b"\n") > 5):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.send_signal(sent)
    _, said = process.communicate(timeout=60)
    assert process.returncode == (130 if sent == signal.SIGINT else -sent)
    assert "Traceback" not in said
    if sent == signal.SIGINT:
        assert f"Every input finished so far is kept in {out}. Run the same command again to go on" in said
    unfinished = sigmax("choose", out)
    assert unfinished.returncode == 2
    assert "are unfinished: expert-1 is at input" in unfinished.stderr
    again = sigmax(*words(systems, out, *LONG))
    assert again.returncode == 0, again.stderr
    assert "going on, " in again.stdout
    assert certificates(out) == uninterrupted


def test_finished_labels_are_left_as_they_are(systems, labelled, sigmax):
    before = {path.name: path.read_bytes() for path in labelled.iterdir()}
    done = sigmax(*words(systems, labelled))
    assert done.returncode == 0, done.stderr
    assert "144 labelled inputs" in done.stdout
    assert {path.name: path.read_bytes() for path in labelled.iterdir()} == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--n", "50"), "n is 100 there and 50 here"),
        (("--set", "sample_seed=4"), "sample_seed is 0 there and 4 here"),
        (("--dtype", "bf16"), "arithmetic is 'cpu float32' there and 'cpu bfloat16' here"),
    ],
)
def test_another_request_is_refused_and_the_difference_named(systems, labelled, sigmax, change, message):
    before = {path.name: path.read_bytes() for path in labelled.iterdir()}
    refused = sigmax(*words(systems, labelled, *change))
    assert refused.returncode == 2
    assert "holds the labels of another request" in refused.stderr
    assert message in refused.stderr
    assert {path.name: path.read_bytes() for path in labelled.iterdir()} == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("--n", "9"), "n=9 samples can never certify at alpha=0.001"),
        (("--set", "fraction=2"), "fraction: expected a number of at most 1, got 2"),
        (("--set", "seed=-1"), "seed: expected a number of at least 0, got -1"),
        (("--data", "npz:classes.npz"), "the experts have 10 classes, but classes has 2"),
        (("--data", "npz:channels.npz"), "takes images of shape (1, 8, 8); got (3, 8, 8)"),
        (("absent",), "expected a system folder"),
    ],
)
def test_a_bad_request_ends_with_code_2_before_any_work(systems, tmp_path, sigmax, changes, message):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "classes.npz", images=rng.random((2, 1, 8, 8)), labels=np.array([0, 1]))
    np.savez(tmp_path / "channels.npz", images=rng.random((2, 3, 8, 8)), labels=np.array([0, 9]))
    refused = sigmax(*words(systems, "labels", *changes), cwd=tmp_path)
    assert refused.returncode == 2, refused.stderr
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "labels").exists()


def test_choose_says_which_and_why(labelled, sigmax):
    done = sigmax("choose", labelled, "--k", 2, "--exact")
    assert done.returncode == 0, done.stderr
    radii = read_labels(labelled).radii
    assert f"Attained: acr if the router never erred; the whole grid attains {radii.max(1).mean():.4f}" in done.stdout
    assert "Chosen: sigma 0.25, 0.5" in done.stdout
    assert f"{radii[:, :2].max(1).mean():.4f}" in done.stdout


def test_choose_goes_by_the_radii_it_is_told(labelled, sigmax):
    done = sigmax("choose", labelled, "--k", 1, "--radii", "0.1,0.2")
    assert done.returncode == 0, done.stderr
    assert "Attained: certified accuracy at 0.1, 0.2 if the router never erred" in done.stdout
    assert "Chosen: sigma 0.25" in done.stdout


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--k", "4"), "k must be a whole number from 1 to 3"),
        (("--radii", "near"), "--radii must be radii such as 0.25,0.5,1; got 'near'"),
        (("--radii", "-1"), "objective must be 'acr', a list of radii"),
    ],
)
def test_choose_refuses_what_it_cannot_do(labelled, sigmax, change, message):
    refused = sigmax("choose", labelled, *change)
    assert refused.returncode == 2
    assert message in refused.stderr


def test_choose_needs_labels(tmp_path, sigmax):
    refused = sigmax("choose", tmp_path)
    assert refused.returncode == 2
    assert "`sigmax label` writes them" in refused.stderr


@pytest.mark.slow
def test_labels_may_ask_only_which_radii_hold(systems, labelled, tmp_path, sigmax):
    """Fewer samples, and labels that answer for each radius as full ones would, but for those on the border."""
    targets = (0.1, 0.2, 0.4)
    out = tmp_path / "labels"
    more = ("--set", "sampling=adaptive", "--set", "targets=0.1,0.2,0.4", "--n", "400")
    done = sigmax(*words(systems, out, *more))
    assert done.returncode == 0, done.stderr
    found = read_labels(out)
    full = make_labels(
        [sx.load(s) for s in systems], sx.data.load("digits", "train"), tmp_path / "full", n=400, fraction=0.1
    )
    for target in targets:
        assert ((found.radii >= target) == (full.radii >= target)).mean() > 0.9
    sampled = [sum(stage.n for stage in r.certificate.stages) for r in sx.read(out / "expert-0.jsonl").records]
    assert np.mean(sampled) < 0.8 * 420
    assert sigmax("verify", out / "expert-0.jsonl").returncode == 0
    other = sigmax(*words(systems, out, *more[:2], "--set", "targets=0.1", "--n", "400"))
    assert other.returncode == 2
    assert "holds the labels of another request: sampling.targets is" in other.stderr
    assert found.fingerprint == read_labels(out).fingerprint
