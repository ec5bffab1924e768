import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax import data, models
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.jobs.label.labels import Labels
from sigmax.jobs.label.labels import make_labels as label
from sigmax.train import Settings
from sigmax.train.calibrate.answers import network_of
from sigmax.train.loop.held_out import split
from sigmax.train.router.check import warning_of_collapse
from sigmax.train.router.loss import Router
from sigmax.train.router.options import advice
from sigmax.train.router.train import train_router

QUICK = Settings(epochs=6, batch=16, optimiser="adamw", lr=0.01, weight_decay=0.01)
SIGMAS = (0.1, 0.2, 0.4)


def make_labels(dataset, radii, **changes):
    """Labels of all of the data, with the radii wished for."""
    given = {
        "radii": np.array(radii, dtype=np.float64),
        "indices": np.arange(len(dataset)),
        "labels": np.array(dataset.labels),
        "sigmas": SIGMAS,
        "experts": ("first", "second", "third"),
        "data": {"name": dataset.name, "split": dataset.split, "fingerprint": dataset.fingerprint},
    }
    return Labels(**{**given, **changes})


@pytest.fixture(scope="module")
def radii(bars):
    """Which row is bright decides which expert reaches furthest; four inputs are beyond all of them."""
    found = np.full((60, 3), 0.1)
    found[np.arange(60), bars.labels] = 0.5
    found[[7, 8, 9, 30]] = 0.0
    return found


@pytest.fixture
def train(bars, radii, tmp_path):
    return partial(
        train_router,
        bars,
        make_labels(bars, radii),
        architecture="small-cnn",
        options={"width": 4},
        sigma=0.4,
        settings=QUICK,
        out=tmp_path / "router.safetensors",
    )


def metrics(out):
    """What the metrics file says, but for the seconds."""
    lines = [json.loads(line) for line in Path(f"{out}.metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def test_the_checkpoint_says_how_it_was_made(train, bars, radii):
    path = train(sharpness=5.0)
    _, described = models.load(path)
    labels = make_labels(bars, radii)
    assert (described.architecture, described.options, described.classes) == ("small-cnn", {"width": 4}, 3)
    assert (described.input_shape, described.sigma) == ((1, 8, 8), 0.4)
    router, training = described.notes["router"], described.notes["training"]
    assert router["experts"] == ["first", "second", "third"]
    assert router["sigmas"] == [0.1, 0.2, 0.4]
    assert router["shares"] == labels.shares.tolist()
    assert router["dropped"] == pytest.approx(4 / 60)
    assert training["labels"]["fingerprint"] == labels.fingerprint
    assert training["data"]["fingerprint"] == bars.fingerprint
    assert (training["method"]["name"], training["method"]["sharpness"]) == ("router", 5.0)
    assert training["method"]["scale"] == pytest.approx(0.5)
    assert training["held_out"] == 0.1


def test_an_expert_without_noise_of_its_own_is_written_down_as_none(train, bars, radii):
    path = train_router(
        bars, make_labels(bars, radii, sigmas=(0.1, float("nan"), 0.4)), **{**train.keywords, "settings": QUICK}
    )
    assert models.read(path).description.notes["router"]["sigmas"] == [0.1, None, 0.4]


def test_it_learns_to_route_inputs_it_never_saw(train, tmp_path):
    train(settings=Settings(epochs=25, batch=16, optimiser="adamw", lr=0.01), held_out=0.3, consistency=5.0)
    last = metrics(tmp_path / "router.safetensors")[-1]["validation"]
    assert last["inputs"] == round(0.3 * 56)
    assert last["matching"] > 0.9
    assert last["radius"] > 0.3
    assert last["routes"] == pytest.approx(last["labels"], abs=0.1)


def test_what_is_held_out_is_not_trained_on(train, bars, radii, tmp_path):
    """With other pixels and other radii in the held-out inputs the weights are the same to the last bit."""
    kept = np.flatnonzero((radii > 0).any(axis=1))
    held, taught = split(len(kept), 0.25, QUICK.seed)
    assert sorted([*held, *taught]) == list(range(56))
    images, others = np.array(bars.images), np.array(radii)
    images[kept[held]] = 0.5
    others[kept[held]] = [0.3, 0.2, 0.1]
    changed = Dataset(name="bars", split="train", images=images, labels=bars.labels, classes=bars.classes)
    first = train(held_out=0.25)
    asked = {**train.keywords, "out": tmp_path / "changed.safetensors", "held_out": 0.25}
    second = train_router(changed, make_labels(changed, others), **asked)
    assert models.fingerprint(first) == models.fingerprint(second)
    looks = [[line.pop("validation") for line in metrics(path)] for path in (first, second)]
    assert looks[0] != looks[1]


class Killed(BaseException):
    pass


def test_it_begins_with_the_weights_of_a_classifier_its_last_layer_aside(train, bars, tmp_path):
    described = models.Description(
        architecture="small-cnn",
        classes=len(bars.classes) + 4,
        input_shape=bars.shape,
        options={"width": 6},
        normalisation=models.normalisation("none"),
    )
    torch.manual_seed(1)
    expert = models.create(described)
    still = replace(QUICK, epochs=1, lr=1e-12, weight_decay=0.0)
    begun, fresh = (
        models.load(train(start=start, settings=still, out=tmp_path / f"{name}.safetensors"))[0]
        for name, start in (("begun", expert), ("fresh", None))
    )
    assert begun.description.options["width"] == 6  # the expert's, whatever was asked for
    assert fresh.description.options["width"] == 4
    own, theirs = begun.state_dict(), expert.state_dict()
    moved = [name for name, tensor in own.items() if tensor.shape != theirs[name].shape]
    assert {own[name].shape[0] for name in moved} == {3}
    for name, parameter in begun.named_parameters():
        if name not in moved:
            torch.testing.assert_close(parameter, theirs[name], rtol=0, atol=1e-6)
    plan = begun.description.notes["training"]
    assert plan["start"] == models.fingerprint(expert)
    assert "start" not in fresh.description.notes["training"]
    with pytest.raises(RequestError, match="made by another run"):
        train(settings=still, out=tmp_path / "begun.safetensors", options={"width": 6})


def test_a_classifier_of_other_images_is_no_beginning(train):
    described = models.Description(architecture="small-cnn", classes=10, input_shape=(1, 12, 12))
    with pytest.raises(RequestError, match=r"is for images \(1, 12, 12\) of .* begin with another"):
        train(start=models.create(described))


def test_other_labels_are_another_run(train, bars, radii):
    train()
    for labels in (make_labels(bars, radii * 0.9), make_labels(bars, radii, experts=("first", "second", "fourth"))):
        with pytest.raises(RequestError, match=r"labels\.fingerprint is"):
            train_router(bars, labels, **train.keywords)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sigma": 0.0}, "sigma: expected a number above 0, got 0.0"),
        ({"held_out": 0.0}, "held_out: expected a share between 0 and 1"),
        ({"held_out": float("nan")}, "held_out: expected a share between 0 and 1"),
        ({"held_out": 0.001}, "held_out=0.001 of 56 images leaves 0 to check on and 56 to train on"),
        ({"held_out": 0.999}, "held_out=0.999 of 56 images leaves 56 to check on and 0 to train on"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_written(train, tmp_path, monkeypatch, wrong, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match=message):
        train(**wrong)
    assert list(tmp_path.iterdir()) == []


def test_labels_that_do_not_fit_are_refused(train, bars, radii):
    asked = train.keywords
    with pytest.raises(RequestError, match="the labels were made for bars train"):
        train_router(bars.take(np.arange(30)), make_labels(bars, radii), **asked)
    with pytest.raises(RequestError, match="nothing is left to train on"):
        train_router(bars, make_labels(bars, np.zeros((60, 3))), **asked)
    alone = make_labels(bars, radii[:, :1], sigmas=(0.1,), experts=("first",))
    with pytest.raises(RequestError, match="a router chooses among experts, and these are the labels of one"):
        train_router(bars, alone, **asked)


def test_too_little_noise_is_warned_of(train):
    heard = []
    train(sigma=0.3, on_warning=heard.append)
    assert "the router's sigma 0.3 is below the largest expert's, 0.4" in heard[0]
    assert "use sigma 0.4 or more" in heard[0]


def test_a_dying_route_is_warned_of_once_and_in_the_metrics(bars, tmp_path):
    """A third of the inputs have the first expert as their best by a hair, and nothing in them shows which."""
    radii = np.tile([0.0, 0.3, 0.5], (60, 1))
    radii[np.random.default_rng(0).permutation(60)[:20], 0] = 0.501
    asked = {"architecture": "small-cnn", "sigma": 0.4, "settings": QUICK, "balance": False, "held_out": 0.3}
    heard, cut = [], []
    train = partial(train_router, bars, make_labels(bars, radii), **asked)
    train(out=tmp_path / "router.safetensors", on_warning=heard.append)
    assert len(heard) == 1
    assert "the route to sigma 0.1 is dying" in heard[0]
    assert "Try sharper labels (sharpness 30 to 60, now 10), or balance on, or less consistency (now 20)." in heard[0]
    looks = [line["validation"]["warnings"] for line in metrics(tmp_path / "router.safetensors")]
    assert looks == [[], [], [], heard, [], []]

    def stop(report):
        if report.epoch == 4:
            raise Killed

    with pytest.raises(Killed):
        train(out=tmp_path / "cut.safetensors", on_warning=cut.append, on_epoch=stop)
    train(out=tmp_path / "cut.safetensors", on_warning=cut.append)
    assert cut == heard
    assert metrics(tmp_path / "cut.safetensors") == metrics(tmp_path / "router.safetensors")


def test_advice_names_only_what_can_be_changed():
    given = {"sigma": 0.4, "shares": (0.5, 0.5), "scale": 1.0}
    assert advice(Router(**given, labels_kind="hard", balance=False)) == (
        "Try balance on, or less consistency (now 20)."
    )
    assert advice(Router(**given, labels_kind="hard", consistency=0.0)).startswith("Label more inputs")
    assert advice(Router(**given, labels_kind="hard", consistency=0.0), collapsed=True) == (
        "Try no balancing (balance=false)."
    )


@pytest.mark.parametrize(
    ("taken", "best", "warned"),
    [
        ((1.0, 0.0, 0.0), (0.6, 0.3, 0.1), True),
        ((0.02, 0.96, 0.02), (0.1, 0.8, 0.1), True),
        ((0.06, 0.94, 0.0), (0.1, 0.8, 0.1), False),
        ((0.0, 0.375, 0.625), (0.0, 0.266, 0.734), False),
        ((0.0, 1.0), (0.08, 0.92), False),  # it is best for nearly all
    ],
)
def test_one_route_for_nearly_all_is_warned_of_unless_the_labels_say_so(taken, best, warned):
    found = {"routes": taken, "labels": best}
    warning = warning_of_collapse(found, [f"sigma {j}" for j in range(len(taken))], "Try this.")
    assert (warning is not None) == warned
    if warning is not None:
        share, at = max(zip(taken, range(3), strict=False))
        assert f"sends {share:.1%} of the held-out inputs to sigma {at}, which is best for {best[at]:.1%}" in warning
        assert warning.endswith("Try this.")


@pytest.mark.slow
def test_a_router_with_the_defaults_keeps_the_routes_that_matter_on_digits(tmp_path):
    """The experts are the networks of the zoo's cascade. The least noise is best for nearly nobody."""
    cascade, digits = sx.load("zoo:digits-cascade"), data.load("digits", "train")
    networks = [network_of(part) for part in (cascade.last, *reversed(cascade.levels))]
    experts = [sx.Smoothed(net, sigma=sigma, classes=10) for net, sigma in zip(networks, SIGMAS, strict=True)]
    labels = label(experts, digits, tmp_path / "labels", fraction=0.6)
    out = train_router(digits, labels, architecture="small-cnn", sigma=0.4, out=tmp_path / "router.safetensors")
    found = metrics(out)[-1]["validation"]
    assert warning_of_collapse(found, SIGMAS, "") is None, found["routes"]
    for taken, best in zip(found["routes"], found["labels"], strict=True):
        assert taken > best / 3 or best < 0.05, found


def test_held_out_inputs_are_a_random_share_that_the_seed_fixes():
    held, taught = split(1000, 0.1, 0)
    assert len(held) == 100
    assert sorted([*held, *taught]) == list(range(1000))
    assert (np.diff(taught) > 0).all()
    assert not (np.diff(held[:20]) > 0).all()  # the first of them are a random sample too
    assert np.array_equal(held, split(1000, 0.1, 0)[0])
    assert not np.array_equal(held, split(1000, 0.1, 1)[0])


@pytest.mark.slow
def test_a_data_set_of_eight_bit_pixels_and_a_sample_of_it(tmp_path):
    """Labels of some inputs only, as `make_labels` gives them for a fraction: the right images are taken."""
    digits = data.load("digits", "train")
    indices = np.arange(0, len(digits), 10)
    radii = np.where(digits.labels[indices, None] < 5, [[0.4, 0.1]], [[0.1, 0.4]])
    labels = make_labels(
        digits,
        radii,
        indices=indices,
        labels=np.array(digits.labels[indices]),
        sigmas=(0.1, 0.2),
        experts=("low", "high"),
    )
    out = train_router(
        digits, labels, architecture="small-cnn", sigma=0.2, out=tmp_path / "r.safetensors", consistency=1.0,
        settings=Settings(epochs=30, batch=32, optimiser="adamw", lr=0.003),
    )  # fmt: skip
    model, _ = models.load(out)
    rest = np.setdiff1d(np.arange(len(digits)), indices)
    taken = model(torch.from_numpy(digits.pixels(rest))).argmax(1).numpy()
    assert (taken == (digits.labels[rest] >= 5)).mean() > 0.75
