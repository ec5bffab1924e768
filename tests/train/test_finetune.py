"""Fine-tuning under the routed noise: what it minimises, which inputs it sees, how it goes on, what it refuses."""

import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax import data, models
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.models import Description
from sigmax.noise.addressed import BLOCK
from sigmax.noise.gaussian import block
from sigmax.systems import fingerprint
from sigmax.train import (
    Batch,
    Mixed,
    MixedConsistency,
    Routed,
    RoutedConsistency,
    Settings,
    fine_tune,
    routes_of,
    train_classifier,
)
from sigmax.train.methods.consistency import Consistency

QUICK = Settings(epochs=4, batch=16, optimiser="adamw", lr=0.003, weight_decay=0.01, schedule="constant")
SIGMAS = (0.1, 0.4)


def network(classes, seed, sigma=None):
    torch.manual_seed(seed)
    return models.create(
        Description(architecture="small-cnn", classes=classes, input_shape=(1, 8, 8), options={"width": 4}, sigma=sigma)
    )


def by_brightness(dataset, out, sigma):
    """A router that was taught to tell the brighter half of the images from the darker."""
    mean = dataset.pixels(range(len(dataset))).mean(axis=(1, 2, 3))
    halves = Dataset(
        name="halves",
        split="train",
        images=dataset.images,
        labels=(mean > np.median(mean)).astype(int),
        classes=("dark", "bright"),
    )
    settings = Settings(epochs=20, batch=8, optimiser="adamw", lr=0.01)
    train_classifier(halves, architecture="small-cnn", options={"width": 4}, sigma=sigma, out=out, settings=settings)
    return sx.Smoothed(models.load(out)[0], sigma=sigma, classes=2)


@pytest.fixture(scope="module")
def mixed(bars):
    """Bars, every second of which is much brighter."""
    images = np.array(bars.images)
    images[1::2] = 0.5 + images[1::2] / 2
    return Dataset(name="bars", split="train", images=images, labels=bars.labels, classes=bars.classes)


@pytest.fixture(scope="module")
def router(mixed, tmp_path_factory):
    return by_brightness(mixed, tmp_path_factory.mktemp("router") / "router.safetensors", 0.4)


@pytest.fixture
def shared_dual(router):
    """Two noise levels over one network."""
    model = network(3, seed=1)
    return sx.Dual(router, [sx.Smoothed(model, sigma=sigma, classes=3) for sigma in SIGMAS], rule="min")


@pytest.fixture
def dual(router):
    """A network for each noise level."""
    experts = [sx.Smoothed(network(3, seed=j), sigma=sigma, classes=3) for j, sigma in enumerate(SIGMAS)]
    return sx.Dual(router, experts)


def weights(system):
    return [models.fingerprint(expert.voters["base"].model) for expert in system.experts]


# What is minimised


@pytest.mark.parametrize("seed", range(3))
def test_the_routed_loss_is_what_it_says(seed):
    rng, model = torch.Generator().manual_seed(seed), network(3, seed)
    pixels, classes, routes = torch.rand(7, 1, 8, 8), torch.randint(3, (7,)), torch.randint(3, (7,))
    sigmas = (0.1, 0.25, 1.0)
    batch = Batch(pixels, torch.stack([classes, routes], dim=1), torch.arange(7), 0, rng)
    found = Routed(sigmas).score(model, batch)
    noise = torch.randn(7, 1, 8, 8, generator=torch.Generator().manual_seed(seed))
    losses, right = [], 0
    for i in range(7):
        logits = model((pixels[i] + sigmas[int(routes[i])] * noise[i])[None])[0].tolist()
        largest = max(logits)
        losses.append(largest + math.log(sum(math.exp(z - largest) for z in logits)) - logits[int(classes[i])])
        right += logits.index(largest) == int(classes[i])
    assert found.loss.item() == pytest.approx(sum(losses) / 7, rel=1e-5)
    assert found.accuracy.item() == pytest.approx(right / 7)
    assert found.loss.requires_grad


@pytest.mark.parametrize("seed", range(3))
def test_the_routed_loss_with_consistency_is_what_it_says(seed):
    rng, model = torch.Generator().manual_seed(seed), network(3, seed)
    pixels, classes, routes = torch.rand(7, 1, 8, 8), torch.randint(3, (7,)), torch.randint(3, (7,))
    sigmas, weight, entropy = (0.1, 0.25, 1.0), 3.0, 0.7
    batch = Batch(pixels, torch.stack([classes, routes], dim=1), torch.arange(7), 0, rng)
    found = RoutedConsistency(sigmas, consistency=weight, entropy=entropy).score(model, batch)
    noise = torch.randn(2, 7, 1, 8, 8, generator=torch.Generator().manual_seed(seed))
    losses, right = [], 0
    for i, y in enumerate(classes.tolist()):
        noisy = pixels[i] + sigmas[int(routes[i])] * noise[:, i]
        shares = model(noisy).softmax(dim=1).tolist()
        mean = [(a + b) / 2 for a, b in zip(*shares, strict=True)]
        apart = sum(m * math.log(m / p) for f in shares for m, p in zip(mean, f, strict=True)) / 2
        unsure = -sum(m * math.log(m) for m in mean)
        losses.append(-sum(math.log(f[y]) for f in shares) / 2 + weight * apart + entropy * unsure)
        right += sum(f.index(max(f)) == y for f in shares)
    assert found.loss.item() == pytest.approx(sum(losses) / 7, rel=1e-4)
    assert found.accuracy.item() == pytest.approx(right / 14)


def test_consistency_takes_two_copies_and_is_part_of_the_plan(dual, mixed, tmp_path):
    """Two copies of eight inputs a step, so twice the steps; a folder refuses another weight."""
    steps, asked = [], {"settings": QUICK, "consistency": 20.0}
    steady = fine_tune(dual, mixed, tmp_path / "steady", **asked, on_step=lambda *given: steps.append(given))
    counts = np.bincount(routes_of(dual.router, mixed), minlength=2)
    total = sum(QUICK.epochs * math.ceil(count / 8) for count in counts)
    assert steps == [(done + 1, total) for done in range(total)]
    assert weights(fine_tune(dual, mixed, tmp_path / "steady", **asked)) == weights(steady)
    with pytest.raises(RequestError, match="consistency is 20.0 there and 10.0 here"):
        fine_tune(dual, mixed, tmp_path / "steady", settings=QUICK, consistency=10)
    with pytest.raises(RequestError, match="consistency is 20.0 there and not given here"):
        fine_tune(dual, mixed, tmp_path / "steady", settings=QUICK)
    with pytest.raises(RequestError, match="copies=2 does not divide it"):
        fine_tune(dual, mixed, tmp_path / "odd", settings=replace(QUICK, batch=15), consistency=10)


def test_mixed_consistency_is_the_consistency_of_each_sigma():
    """With one sigma, it is the method for that sigma; the copies of an image have one noise."""
    torch.manual_seed(0)
    model, images = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3)), torch.rand(6, 1, 8, 8)

    def batch():
        generator = torch.Generator().manual_seed(1)
        return Batch(images, torch.arange(6) % 3, torch.arange(6), 0, generator)

    alone, seen = batch(), []
    alone.generator.manual_seed(1)
    torch.rand(6, generator=alone.generator)  # which sigma each image takes
    expected = Consistency(0.5, consistency=3.0, entropy=0.1).score(model, alone)
    found = MixedConsistency((0.5,), consistency=3.0, entropy=0.1).score(model, batch())
    assert torch.equal(found.loss, expected.loss)

    def watched(noisy):
        seen.append((noisy.view(2, 6, -1) - images.flatten(1)).std(dim=2))
        return model(noisy)

    MixedConsistency((0.1, 10.0)).score(watched, batch())
    assert torch.equal(seen[0][0] > 1, seen[0][1] > 1)


def test_mixed_noise_takes_each_sigma_about_as_often():
    """Seen through a network that returns how far the pixels were moved."""
    sigmas, count = (0.1, 1.0, 10.0), 3000
    seen = []

    def model(noisy):
        seen.append(noisy.flatten(1).std(dim=1))
        return noisy.flatten(1)[:, :3].requires_grad_()

    batch = Batch(torch.zeros(count, 1, 8, 8), torch.zeros(count).long(), torch.arange(count), 0, torch.Generator())
    Mixed(sigmas).score(model, batch)
    nearest = (seen[0].log()[:, None] - torch.tensor(sigmas).log()).abs().argmin(dim=1)
    shares = torch.bincount(nearest, minlength=3) / count
    assert torch.allclose(shares, torch.full((3,), 1 / 3), atol=0.04)
    spread = torch.stack([seen[0][nearest == j].pow(2).mean().sqrt() for j in range(3)])
    assert torch.allclose(spread, torch.tensor(sigmas), rtol=0.05)


# Routes


def test_routes_are_what_most_votes_say(router, mixed):
    """Counted by hand from the addressed noise."""
    n, seed = 150, 3
    found = routes_of(router, mixed, n=n, seed=seed)
    model = router.voters["base"].model
    for i in range(0, 60, 7):
        pixels = torch.from_numpy(mixed.pixels([i]))[0]
        noise = torch.cat(
            [block(seed=seed, input_id=i, stage="prediction", index=b, shape=(1, 8, 8)) for b in range(-(-n // BLOCK))]
        )
        with torch.no_grad():
            votes = Counter(model(pixels + 0.4 * noise[:n]).argmax(dim=1).tolist())
        assert found[i] == max((0, 1), key=lambda route: (votes[route], -route))
    assert found.dtype == np.int64
    assert np.array_equal(found, np.arange(60) % 2)


def test_routes_do_not_depend_on_how_inputs_are_grouped(router, mixed, monkeypatch):
    whole = routes_of(router, mixed, n=20)
    monkeypatch.setattr("sigmax.train.loop.quick_check.VOTED_TOGETHER", 7)
    assert np.array_equal(routes_of(router, mixed, n=20), whole)


# One network for all, or one each


def test_one_network_for_all_stays_one(shared_dual, mixed, tmp_path):
    before = weights(shared_dual)
    tuned = fine_tune(shared_dual, mixed, tmp_path / "work", settings=QUICK, n=20)
    assert weights(shared_dual) == before, "the system given is left as it is"
    assert weights(tuned)[0] == weights(tuned)[1] != before[0]
    assert tuned.voters["expert-0/base"] is tuned.voters["expert-1/base"]
    assert tuned.router is shared_dual.router
    assert (tuned.combination, [expert.sigma for expert in tuned.experts]) == ("min", list(SIGMAS))
    assert names(tmp_path / "work") == ["expert-0.safetensors", "expert-0.safetensors.metrics.jsonl", "routes.json"]
    given = models.read(tmp_path / "work" / "expert-0.safetensors").description
    assert given.sigma is None, "no one noise is that of the network"
    assert given.notes["training"]["of_routes"] == [0, 1]
    assert given.notes["training"]["method"] == {"name": "routed", "sigmas": list(SIGMAS)}
    tuned.save(tmp_path / "system")
    assert fingerprint(sx.load(tmp_path / "system")) == fingerprint(tuned)
    assert names(tmp_path / "system") == ["expert-0.safetensors", "router.safetensors", "system.toml"]


def test_a_network_each_sees_the_inputs_of_its_route_alone(dual, mixed, tmp_path):
    """Other pixels in the inputs of the other route leave its weights the same to the last bit."""
    routes = routes_of(dual.router, mixed, n=20)
    images = np.array(mixed.images)
    images[routes == 1] = images[routes == 1][::-1]
    changed = Dataset(name="bars", split="train", images=images, labels=mixed.labels, classes=mixed.classes)
    moved = routes_of(dual.router, changed, n=20)
    assert np.array_equal(moved, routes), "or the two do not compare"
    one = fine_tune(dual, mixed, tmp_path / "one", settings=QUICK, n=20)
    other = fine_tune(dual, changed, tmp_path / "other", settings=QUICK, n=20)
    assert weights(one)[0] == weights(other)[0]
    assert weights(one)[1] != weights(other)[1]
    assert all(new != old for new, old in zip(weights(one), weights(dual), strict=True))
    given = [models.read(tmp_path / "one" / f"expert-{j}.safetensors").description for j in range(2)]
    assert [t.sigma for t in given] == list(SIGMAS)


# Going on


class Killed(BaseException):
    pass


def killed_at(step):
    def on_step(done, total):
        if done == step:
            raise Killed

    return on_step


@pytest.mark.parametrize("step", [5, 9])
def test_a_run_cut_anywhere_ends_with_the_same_weights(dual, mixed, tmp_path, step):
    """Two steps an epoch, eight a network: cut in the first network, and in the second."""
    whole = fine_tune(dual, mixed, tmp_path / "whole", settings=QUICK, n=20)
    with pytest.raises(Killed):
        fine_tune(dual, mixed, tmp_path / "cut", settings=QUICK, n=20, on_step=killed_at(step))
    resumed = fine_tune(dual, mixed, tmp_path / "cut", settings=QUICK, n=20)
    assert weights(resumed) == weights(whole)
    assert names(tmp_path / "cut") == names(tmp_path / "whole")


def test_what_is_finished_is_neither_routed_nor_trained_again(dual, mixed, tmp_path, monkeypatch):
    whole = fine_tune(dual, mixed, tmp_path, settings=QUICK, n=20)
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
    monkeypatch.setattr("sigmax.train.finetune.routes_of", None)
    seen = []
    again = fine_tune(dual, mixed, tmp_path, settings=QUICK, n=20, on_step=lambda *now: seen.append(now))
    assert fingerprint(again) == fingerprint(whole)
    assert not seen
    assert before == {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}


def test_another_request_is_refused_before_any_work(dual, shared_dual, mixed, bars, tmp_path):
    fine_tune(dual, mixed, tmp_path, settings=QUICK, n=20)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    other = sx.Dual(sx.Smoothed(network(2, seed=9), sigma=0.4, classes=2), dual.experts)
    for arguments, named in (
        ((dual, mixed, tmp_path, 21, QUICK), "router.votes is 20 there and 21 here"),
        ((dual, bars, tmp_path, 20, QUICK), "data.fingerprint"),
        ((other, mixed, tmp_path, 20, QUICK), "router.system"),
        ((shared_dual, mixed, tmp_path, 20, QUICK), "start"),
        ((dual, mixed, tmp_path, 20, Settings(epochs=5)), "settings.epochs is 4 there and 5 here"),
    ):
        system, dataset, folder, n, settings = arguments
        with pytest.raises(RequestError, match=named):
            fine_tune(system, dataset, folder, settings=settings, n=n)
    assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}


def test_a_damaged_file_of_routes_is_refused(dual, mixed, tmp_path):
    fine_tune(dual, mixed, tmp_path, settings=replace(QUICK, epochs=1), n=20)
    kept = json.loads((tmp_path / "routes.json").read_text())
    others = ([*kept["routes"][:-1], 2], kept["routes"][:-1], [*kept["routes"][:-1], -1])
    damaged = [json.dumps({**kept, "routes": routes}) for routes in others]
    for content in ("", "[1]", '{"routes": [0]}', '{"data": 1}', "{", *damaged):
        (tmp_path / "routes.json").write_text(content)
        with pytest.raises(RequestError, match="routes.json (is damaged|holds the routes of another)"):
            fine_tune(dual, mixed, tmp_path, settings=replace(QUICK, epochs=1), n=20)


# What is refused


def test_experts_that_cannot_be_tuned_are_refused(router, mixed, tmp_path):
    smoothed = sx.Smoothed(network(3, 0), sigma=0.1, classes=3)
    own = sx.Smoothed(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3)), sigma=0.4, classes=3)
    inner = sx.Dual(router, [smoothed, smoothed])
    for expert, named in (
        (sx.Lipschitz(network(3, 0), 1.0, classes=3), "expert 1 is a Lipschitz"),
        (inner, "expert 1 is a Dual"),
        (own, "expert 1 is over a Sequential"),
    ):
        with pytest.raises(RequestError, match=named):
            fine_tune(sx.Dual(router, [smoothed, expert]), mixed, tmp_path / "work")
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"n": 1}, "n: expected a whole number of at least 2 votes, got 1"),
        ({"n": 20.5}, "n: expected a whole number of at least 2 votes"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"consistency": -1.0}, "consistency: expected a number of at least 0, got -1.0"),
        ({"consistency": math.nan}, "consistency: expected a finite number, got nan"),
        ({"settings": Settings(device="nonsense")}, "device 'nonsense' cannot be used"),
    ],
)
def test_bad_numbers_are_refused_before_the_router_is_asked(dual, mixed, tmp_path, monkeypatch, changes, named):
    monkeypatch.setattr("sigmax.train.finetune.routes_of", None)
    with pytest.raises(RequestError, match=named):
        fine_tune(dual, mixed, tmp_path / "work", **changes)


def test_data_of_other_classes_or_shape_are_refused(dual, tmp_path):
    with pytest.raises(RequestError, match="the system has 3 classes, and digits has 10"):
        fine_tune(dual, data.load("digits", "train"), tmp_path / "work")
    wide = Dataset(
        name="wide",
        split="train",
        images=np.zeros((3, 1, 8, 16), np.float32),
        labels=np.arange(3),
        classes=tuple("abc"),
    )
    with pytest.raises(RequestError, match=r"images of shape \(1, 8, 8\)"):
        fine_tune(dual, wide, tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_a_place_that_will_not_do_is_refused_first(dual, mixed, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match="cannot be made"):
        fine_tune(dual, mixed, tmp_path / "file" / "work")


# On real images


def test_fine_tuning_lowers_the_routed_loss_of_digits_it_never_saw(tmp_path):
    """One network, trained at a noise between the two that it is then used with."""
    digits = data.load("digits", "train").take(np.arange(0, 1437, 2))
    out = tmp_path / "net.safetensors"
    train_classifier(
        digits, architecture="small-cnn", options={"width": 8}, sigma=0.2, out=out, settings=Settings(epochs=12)
    )
    model, router = models.load(out)[0], sx.Smoothed(Brightness(digits), sigma=0.6, classes=2)
    dual = sx.Dual(router, [sx.Smoothed(model, sigma=sigma, classes=10) for sigma in (0.1, 0.6)])
    settings = Settings(epochs=8, batch=64, optimiser="adamw", lr=0.002, schedule="constant")
    tuned = fine_tune(dual, digits, tmp_path / "work", settings=settings, n=20)
    test = data.load("digits", "test")
    routes = routes_of(router, test, n=20)
    assert min(np.bincount(routes, minlength=2)) > 20, "both routes are taken, or this tests less than it says"
    before, after = (routed_loss(system, test, routes) for system in (dual, tuned))
    assert after < 0.9 * before


class Brightness(torch.nn.Module):
    """The images above the median go to the second route."""

    def __init__(self, dataset):
        super().__init__()
        pixels = torch.from_numpy(dataset.pixels(range(len(dataset))))
        self.register_buffer("median", pixels.mean(dim=(1, 2, 3)).median())

    def forward(self, images):
        above = images.mean(dim=(1, 2, 3)) - self.median
        return torch.stack([-above, above], dim=1)


def routed_loss(system, dataset, routes):
    """The mean over ten noisy copies of every input."""
    targets = torch.from_numpy(np.stack([dataset.labels, routes], axis=1))
    pixels = torch.from_numpy(dataset.pixels(range(len(dataset))))
    method = Routed(tuple(expert.sigma for expert in system.experts))
    model, rng = system.experts[0].voters["base"].model, torch.Generator().manual_seed(7)
    batch = Batch(pixels, targets, torch.arange(len(dataset)), 0, rng)
    with torch.no_grad():
        return float(np.mean([method.score(model, batch).loss.item() for _ in range(10)]))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("shared", [True, False])
def test_a_route_without_images_is_warned_of(router, mixed, tmp_path, shared):
    routes = routes_of(router, mixed, n=20)
    bright = mixed.take(np.flatnonzero(routes == 1))
    one = network(3, seed=1)
    experts = [sx.Smoothed(one if shared else network(3, seed=j), sigma=s, classes=3) for j, s in enumerate(SIGMAS)]
    # Every input has the noise of its place: the routes are those the fine-tuning will find.
    expected = np.bincount(routes_of(router, bright, n=20), minlength=2).tolist()
    given, said = [], []
    tuned = fine_tune(
        sx.Dual(router, experts),
        bright,
        tmp_path,
        settings=Settings(epochs=1, batch=16),
        n=20,
        on_routes=given.append,
        on_warning=said.append,
    )
    assert given == [expected]
    assert expected[0] == 0
    assert (tuned.experts[0] is experts[0]) is not shared, "an expert that no image takes stays as it is"
    (warning,) = said
    assert "no image took the route to expert 0 (sigma 0.1)" in warning
    means = "the shared network was not trained at that noise, and may get worse there"
    assert warning.endswith(means if shared else "that expert was not fine-tuned")
