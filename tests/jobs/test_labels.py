"""Labels: the radii are the experts' own, the folder survives any end, and nothing else is mistaken for it."""

import json
import shutil
import tempfile
import tomllib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax import bounds, models, radius
from sigmax.jobs.label.folder import shuffled, size_of
from sigmax.jobs.label.labels import Labels, make_labels, read_labels
from sigmax.systems import fingerprint
from sigmax.train import Settings, train_classifier


def sample(count, fraction, seed):
    """Which inputs a fraction is."""
    return np.sort(shuffled(count, seed)[: size_of(count, fraction)])


SIGMAS = (0.2, 0.5, 1.0)
SAMPLES = {"n": 60, "n0": 10, "alpha": 0.01}


@pytest.fixture(scope="module")
def network(bars, tmp_path_factory):
    """Classifies the bars after two seconds of training: right and far with little noise, often wrong with much."""
    path = tmp_path_factory.mktemp("bars") / "bars.safetensors"
    settings = Settings(epochs=15, batch=16, lr=0.05)
    train_classifier(bars, architecture="small-cnn", options={"width": 4}, sigma=0.4, settings=settings, out=path)
    return models.load(path)[0]


@pytest.fixture(scope="module")
def experts(network):
    return [sx.Smoothed(network, sigma=sigma, classes=3) for sigma in SIGMAS]


@pytest.fixture(scope="module")
def whole(experts, bars, tmp_path_factory):
    """The labels of half the bars, made in one go."""
    folder = tmp_path_factory.mktemp("whole") / "labels"
    return make_labels(experts, bars, folder, fraction=0.5, **SAMPLES), folder


def always(answer):
    """A classifier that gives every input the same class."""

    def classify(batch):
        return torch.full((len(batch),), answer)

    classify.fingerprint = f"always {answer}"
    return classify


def smoothed(model, **changes):
    return sx.Smoothed(model, **{"sigma": 2.0, "classes": 3, **changes})


def same(first, second):
    return (
        np.array_equal(first.radii, second.radii)
        and np.array_equal(first.indices, second.indices)
        and np.array_equal(first.labels, second.labels)
        and (first.sigmas, first.experts, first.data) == (second.sigmas, second.experts, second.data)
        and first.fingerprint == second.fingerprint
    )


def content(folder):
    """Every file, line by line, but for the seconds and the checksums that cover them."""
    found = {}
    for path in sorted(folder.iterdir()):
        lines = path.read_text().splitlines()
        if path.suffix == ".jsonl":
            lines = [
                {key: value for key, value in json.loads(line).items() if key not in ("seconds", "crc")}
                for line in lines
            ]
        found[path.name] = lines
    return found


def direct(expert, bars, count):
    """(60,) what a run over the first inputs in their random order certifies of the true class; else nan."""
    order = shuffled(60, 0)
    run = sx.certify_run(expert, bars.take(order), _fresh() / "run.jsonl", maximum=count, **SAMPLES)
    found = np.full(60, np.nan)
    for record in run.records:
        found[order[record.index]] = record.certificate.radius if record.correct else 0.0
    return found


def _fresh():
    return Path(tempfile.mkdtemp())


def test_radii_are_the_experts_own_where_the_class_is_right(whole, experts, bars):
    labels, _ = whole
    assert labels.radii.shape == (30, 3)
    assert all(f"expert-{i}" in labels._repr_html_() for i in range(3))
    for i, expert in enumerate(experts):
        expected = direct(expert, bars, 30)
        assert labels.radii[:, i].tolist() == expected[labels.indices].tolist()
    assert labels.sigmas == SIGMAS
    assert labels.experts == tuple(map(fingerprint, experts))
    assert labels.labels.tolist() == bars.labels[labels.indices].tolist()
    assert 0 < (labels.radii > 0).mean() < 1, "the network must be neither perfect nor useless to tell anything"


def test_a_certified_wrong_class_is_worth_nothing(bars, tmp_path):
    """Two experts that always say 0 and 2: all radii are known, and inputs of class 1 are dropped."""
    constant = [sx.Smoothed(always(0), sigma=0.25, classes=3), sx.Smoothed(always(2), sigma=0.5, classes=3)]
    labels = make_labels(constant, bars, tmp_path / "labels", n=100, n0=5, alpha=0.001)
    full = [radius.gaussian(sigma, bounds.lower(100, 100, 0.001)) for sigma in (0.25, 0.5)]
    expected = np.where(bars.labels[:, None] == [0, 2], full, 0.0)
    assert np.array_equal(labels.radii, expected)
    assert labels.indices.tolist() == list(range(60))
    assert labels.dropped == pytest.approx(1 / 3)
    assert labels.shares.tolist() == [0.5, 0.5]
    assert np.array_equal(labels.kept, bars.labels != 1)
    assert np.array_equal(labels.best[labels.kept], bars.labels[labels.kept] // 2)
    chosen = labels.select(bars)
    assert np.array_equal(chosen.labels, bars.labels[bars.labels != 1])
    assert np.array_equal(chosen.pixels(range(40)), bars.pixels(np.flatnonzero(labels.kept)))


def test_experts_of_any_kind(network, experts, bars, tmp_path):
    """One with noise, one without, and a routed one; those without a sigma of their own have nan for it."""
    torch.manual_seed(0)
    linear = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    constant = float(torch.linalg.matrix_norm(linear[1].weight.detach().double(), 2)) * (1 + 1e-6)
    router = sx.Smoothed(nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), sigma=1.0, classes=2)
    mixed = [experts[0], sx.Lipschitz(linear, constant, classes=3), sx.Dual(router, experts[1:])]
    labels = make_labels(mixed, bars, tmp_path / "labels", fraction=0.4, **SAMPLES)
    for i, expert in enumerate(mixed):
        assert labels.radii[:, i].tolist() == direct(expert, bars, 24)[labels.indices].tolist()
        assert sx.verify(tmp_path / "labels" / f"expert-{i}.jsonl").holds
    assert (labels.radii > 0).any(axis=0).all()
    assert np.array_equal(labels.sigmas, [0.2, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(read_labels(tmp_path / "labels").radii, labels.radii)
    labels.check(mixed)


def test_labels_of_a_duals_experts_are_those_of_the_experts_alone(experts, bars, whole):
    labels, _ = whole
    router = sx.Smoothed(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), sigma=1.0, classes=3)
    labels.check(sx.Dual(router, experts).experts)


def test_what_was_written_is_read_back_and_asked_again_returned_at_once(whole, experts, bars):
    labels, folder = whole
    assert same(read_labels(folder), labels)
    assert read_labels(str(folder)).radii.flags.writeable is False
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    seen = []
    again = make_labels(experts, bars, folder, fraction=0.5, watch=lambda *progress: seen.append(progress), **SAMPLES)
    assert same(again, labels)
    assert not seen
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()} == before


def test_the_head_says_what_was_asked_for(whole, experts, bars):
    _, folder = whole
    head = tomllib.loads((folder / "labels.toml").read_text())
    assert sorted(path.name for path in folder.iterdir()) == [
        "expert-0.jsonl",
        "expert-1.jsonl",
        "expert-2.jsonl",
        "labels.toml",
    ]
    assert head["data"] == {
        "name": "bars",
        "split": "train",
        "fingerprint": bars.fingerprint,
        "inputs": 60,
        "shuffled": bars.take(shuffled(60, 0)).fingerprint,
        "labelled": 30,
    }
    assert [expert["fingerprint"] for expert in head["experts"].values()] == [fingerprint(e) for e in experts]
    assert (head["fraction"], head["sample_seed"], head["seed"]) == (0.5, 0, 0)
    assert {key: head[key] for key in SAMPLES} == SAMPLES


def test_every_run_proves_its_radii(whole):
    _, folder = whole
    for i in range(3):
        verdict = sx.verify(folder / f"expert-{i}.jsonl")
        assert verdict.holds
        assert verdict.finished
        assert verdict.records == 30


class Killed(BaseException):
    pass


@pytest.mark.parametrize("moment", [0, 1, 17, 30, 31, 60, 89, 90])
def test_labels_cut_anywhere_end_as_those_left_alone(whole, experts, bars, tmp_path, moment):
    labels, folder = whole
    cut = tmp_path / "labels"

    def stop(done, total):
        assert total == 90
        if done >= moment:
            raise Killed

    with pytest.raises(Killed):
        make_labels(experts, bars, cut, fraction=0.5, watch=stop, **SAMPLES)
    expert, at = divmod(min(moment, 89), 30)
    if moment % 30 == 0 and moment:  # the last record is written, the run's end is not
        expert, at = moment // 30 - 1, 30
    with pytest.raises(sx.RequestError, match=rf"unfinished: expert-{expert} is at input {at} of 30 \(3 experts"):
        read_labels(cut)
    seen = []
    resumed = make_labels(experts, bars, cut, fraction=0.5, watch=lambda *progress: seen.append(progress), **SAMPLES)
    assert same(resumed, labels)
    assert content(cut) == content(folder)
    assert seen[0] == (moment, 90)
    assert seen[-1] == (90, 90)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


@pytest.mark.parametrize("cut", [None, 0, 25, 45, 70])
def test_a_larger_fraction_continues_the_labels(whole, experts, bars, tmp_path, cut):
    """What is there is kept, the rest is added, and it ends as if all had been asked at once; cut or not."""
    before, folder = whole
    grown = tmp_path / "labels"
    shutil.copytree(folder, grown)

    def stop(done, total):
        assert total == 3 * 48
        if cut is not None and done - 30 >= cut:
            raise Killed

    if cut is not None:
        with pytest.raises(Killed):
            make_labels(experts, bars, grown, fraction=0.8, watch=stop, **SAMPLES)
        with pytest.raises(sx.RequestError, match="unfinished"):
            read_labels(grown)
    labels = make_labels(experts, bars, grown, fraction=0.8, **SAMPLES)
    alone = make_labels(experts, bars, tmp_path / "alone", fraction=0.8, **SAMPLES)
    assert same(labels, alone)
    assert same(read_labels(grown), alone)
    assert len(labels) == 48
    kept = np.isin(labels.indices, before.indices)
    assert np.array_equal(labels.radii[kept], before.radii)
    assert all(sx.verify(path).holds for path in grown.glob("*.jsonl"))


@pytest.mark.parametrize("begun", [b"", b'{"kind":"plan","form'])
def test_an_expert_killed_at_birth_is_begun_again(whole, experts, bars, tmp_path, begun):
    labels, folder = whole
    cut = tmp_path / "labels"
    cut.mkdir()
    for name in ("labels.toml", "expert-0.jsonl"):
        (cut / name).write_bytes((folder / name).read_bytes())
    (cut / "expert-1.jsonl").write_bytes(begun)
    with pytest.raises(sx.RequestError, match="expert-1 is at input 0 of 30"):
        read_labels(cut)
    assert same(make_labels(experts, bars, cut, fraction=0.5, **SAMPLES), labels)
    assert content(cut) == content(folder)


def test_a_torn_line_is_made_whole(whole, experts, bars, tmp_path):
    labels, folder = whole
    cut = tmp_path / "labels"
    cut.mkdir()
    for path in folder.iterdir():
        (cut / path.name).write_bytes(path.read_bytes())
    lines = (cut / "expert-1.jsonl").read_bytes().splitlines(keepends=True)
    (cut / "expert-1.jsonl").write_bytes(b"".join(lines[:9]) + lines[9][:40])
    assert same(make_labels(experts, bars, cut, fraction=0.5, **SAMPLES), labels)
    assert content(cut) == content(folder)


@pytest.mark.parametrize(
    ("count", "fraction", "seed", "expected"),
    [
        (10, 0.3, 0, [1, 3, 9]),
        (10, 0.5, 0, [1, 2, 3, 8, 9]),
        (10, 0.3, 1, [1, 7, 8]),
        (3, 0.01, 0, [1]),
        (4, 1.0, 9, [0, 1, 2, 3]),
    ],
)
def test_the_sample_is_the_same_on_every_machine(count, fraction, seed, expected):
    """Pinned: folders made long ago must be read with the inputs they were made of."""
    assert sample(count, fraction, seed).tolist() == expected


def test_a_larger_sample_holds_the_smaller_and_is_of_the_size_asked():
    parts = [set(sample(1437, fraction, 5).tolist()) for fraction in (0.05, 0.2, 0.6, 1.0)]
    assert [len(part) for part in parts] == [72, 287, 862, 1437]
    assert all(small < large for small, large in pairwise(parts))


def test_every_input_is_as_likely_as_any_other():
    """Over 2000 seeds each of 50 inputs is taken 400 times, with a standard deviation of 18."""
    taken = np.bincount(np.concatenate([sample(50, 0.2, seed) for seed in range(2000)]), minlength=50)
    assert taken.sum() == 20_000
    assert abs(taken - 400).max() < 5 * 18


def test_the_same_fraction_is_the_same_inputs_whatever_else_is_asked(whole, experts, bars, tmp_path):
    labels, _ = whole
    other = make_labels(experts[:1], bars, tmp_path / "one", fraction=0.5, n=20, seed=3)
    assert np.array_equal(other.indices, labels.indices)
    moved = make_labels(experts[:1], bars, tmp_path / "two", fraction=0.5, n=20, seed=3, sample_seed=1)
    assert not np.array_equal(moved.indices, labels.indices)


def other_classes(bars):
    return sx.data.Dataset("two", "train", bars.images, np.zeros(60, int), ("a", "b"))


REFUSED = [  # only the last expert is ever wrong: all are checked before the first starts
    (lambda e, _: {"experts": []}, "at least one expert"),
    (lambda e, _: {"experts": e[0]}, "expected a list of experts, got one scheme"),
    (lambda *_: {"experts": nn.Linear(9, 3)}, "expected a list of experts, got Linear; each is a scheme"),
    (lambda e, _: {"experts": [*e, always(0)]}, "an expert must be a scheme such as sx.Smoothed"),
    (lambda e, _: {"experts": [*e, smoothed(always(0), classes=4)]}, "they have 3, 3, 3, 4 classes"),
    (lambda _, bars: {"dataset": other_classes(bars)}, "the experts have 3 classes, but two has 2"),
    (lambda _, bars: {"dataset": bars.images}, "labels are made of a data set, got ndarray"),
    (lambda *_: {"n": 4}, "n=4 samples can never certify at alpha=0.01"),
    (
        lambda e, _: {"experts": [*e, smoothed(always(0), bound="runner-up")], "n": 10, "alpha": 0.001},
        "n=10 samples can never certify at alpha=0.001 with the runner-up bound",
    ),
    (
        lambda e, _: {"experts": [*e, smoothed(nn.Linear(9, 3))]},
        "(raised by the model when given a trial batch of shape",
    ),
    (lambda *_: {"fraction": 0}, "fraction must lie above 0 and at most at 1"),
    (lambda *_: {"fraction": 1.1}, "fraction must lie above 0"),
    (lambda *_: {"fraction": float("nan")}, "fraction must lie above 0"),
    (lambda *_: {"sample_seed": -1}, "sample_seed must be a whole number"),
    (lambda *_: {"seed": -1}, "seed must be a whole number"),
    (lambda *_: {"alpha": 0}, "alpha must lie strictly between 0 and 1"),
    (lambda *_: {"n0": 0}, "n0 must be a whole number of samples"),
]


@pytest.mark.parametrize(("wrong", "message"), REFUSED)
def test_a_bad_request_is_refused_before_any_work(experts, bars, tmp_path, wrong, message):
    changes = wrong(experts, bars)
    request = {"experts": experts, "dataset": bars, **SAMPLES, **changes}
    asked, dataset = request.pop("experts"), request.pop("dataset")

    def never(done, total):
        raise AssertionError("work was begun")

    with pytest.raises(sx.RequestError) as caught:
        make_labels(asked, dataset, tmp_path / "labels", watch=never, **request)
    assert message in str(caught.value)
    assert not (tmp_path / "labels").exists()


def test_a_place_that_cannot_be_written_is_refused(experts, bars, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(sx.RequestError, match="choose a place you may write to"):
        make_labels(experts, bars, tmp_path / "file", **SAMPLES)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"n": 61}, "n is 60 there and 61 here"),
        ({"n0": 11}, "n0 is 10 there and 11 here"),
        ({"alpha": 0.02}, "alpha is 0.01 there and 0.02 here"),
        ({"seed": 1}, "seed is 0 there and 1 here"),
        ({"fraction": 0.4}, "fraction is 0.5 there and 0.4 here (a larger fraction continues the labels"),
        ({"sample_seed": 1}, "sample_seed is 0 there and 1 here"),
    ],
)
def test_a_folder_of_another_request_is_refused_and_the_difference_named(whole, experts, bars, changes, difference):
    _, folder = whole
    before = content(folder)
    with pytest.raises(sx.RequestError, match="holds the labels of another request") as caught:
        make_labels(experts, bars, folder, **{"fraction": 0.5, **SAMPLES, **changes})
    assert difference in str(caught.value)
    assert content(folder) == before


def test_a_folder_of_other_experts_or_data_is_refused(whole, experts, bars, network):
    _, folder = whole
    before = content(folder)
    other = sx.Smoothed(network, sigma=0.6, classes=3)
    doubled = sx.Smoothed(network, sigma=1.0, classes=3, dtype=torch.bfloat16)
    shifted = bars.take(np.roll(np.arange(60), 1))
    named = sx.data.Dataset("bars2", "train", bars.images, bars.labels, bars.classes)
    for asked, data, difference in (
        ([experts[0], other, experts[2]], bars, f"experts.expert-1.fingerprint is '{fingerprint(experts[1])}'"),
        (
            [*experts, sx.Smoothed(network, sigma=2.0, classes=3)],
            bars,
            "experts.expert-3.fingerprint is not given there",
        ),
        (experts[:2], bars, "experts.expert-2.fingerprint is '"),
        ([*experts[:2], doubled], bars, "experts.expert-2.arithmetic is 'cpu float32' there and 'cpu bfloat16'"),
        (experts, shifted, f"data.fingerprint is '{bars.fingerprint}' there and '{shifted.fingerprint}' here"),
        (experts, named, "data.name is 'bars' there and 'bars2' here"),
    ):
        with pytest.raises(sx.RequestError, match="holds the labels of another request") as caught:
            make_labels(asked, data, folder, fraction=0.5, **SAMPLES)
        assert difference in str(caught.value)
    assert content(folder) == before


def test_runs_in_each_others_place_are_noticed(whole, experts, bars, tmp_path):
    _, folder = whole
    mixed = tmp_path / "labels"
    mixed.mkdir()
    for path in folder.iterdir():
        (mixed / path.name).write_bytes(path.read_bytes())
    (mixed / "expert-0.jsonl").write_bytes((folder / "expert-1.jsonl").read_bytes())
    for act in (
        lambda: read_labels(mixed),
        lambda: make_labels(experts, bars, mixed, fraction=0.5, **SAMPLES),
    ):
        with pytest.raises(sx.RequestError, match=r"expert-0\.jsonl is not the run that labels\.toml .* system is"):
            act()


def test_a_shorter_run_is_not_taken_for_the_whole(whole, experts, bars, tmp_path):
    """A finished run of the first inputs alone would leave the others with a radius of 0."""
    _, folder = whole
    short = tmp_path / "labels"
    short.mkdir()
    for path in folder.iterdir():
        (short / path.name).write_bytes(path.read_bytes())
    (short / "expert-2.jsonl").unlink()
    sx.certify_run(experts[2], bars.take(shuffled(60, 0)), short / "expert-2.jsonl", maximum=5, **SAMPLES)
    with pytest.raises(sx.RequestError, match="unfinished: expert-2 is at input 5 of 30"):
        read_labels(short)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (None, "expected labels with a labels.toml"),
        ("format = ", "cannot be read"),
        ("format = 1", "has format 1; this version reads 4"),
        ("format = 4", "is damaged"),
        (
            "format = 4\nfraction = 1.0\nsample_seed = 0\nexperts = 3\n[data]\ninputs = 4\nlabelled = 4",
            "is damaged",
        ),
        (
            "format = 4\nfraction = 0.5\nsample_seed = 0\n[experts]\n[data]\ninputs = 4\nlabelled = 4",
            "its numbers contradict",
        ),
    ],
)
def test_what_is_no_folder_of_labels_is_refused(tmp_path, head, message):
    if head is not None:
        (tmp_path / "labels.toml").write_text(head)
    with pytest.raises(sx.RequestError, match=message):
        read_labels(tmp_path)


def test_labels_are_for_the_experts_they_were_made_with(whole, experts, network):
    labels, _ = whole
    labels.check(experts)
    with pytest.raises(sx.RequestError, match="made for other experts: expert-2 is .* there and not given here"):
        labels.check(experts[:2])
    other = sx.Smoothed(network, sigma=0.3, classes=3)
    with pytest.raises(sx.RequestError) as caught:
        labels.check([experts[0], other, experts[2]])
    assert f"expert-1 is {fingerprint(experts[1])!r} there and {fingerprint(other)!r} here" in str(caught.value)
    assert "expert-0" not in str(caught.value)
    with pytest.raises(sx.RequestError, match="in their order"):
        labels.check([experts[1], experts[0], experts[2]])


def test_only_the_data_that_was_labelled_can_be_selected_from(whole, bars):
    labels, _ = whole
    chosen = labels.select(bars)
    assert chosen.fingerprint == bars.take(labels.indices[labels.kept]).fingerprint
    assert len(chosen) == len(labels.radii[labels.kept])
    for other in (bars.take(labels.indices), bars.take(np.arange(59))):
        with pytest.raises(sx.RequestError, match="labels were made for bars train .* give the whole data set"):
            labels.select(other)


def given(radii, **changes):
    n, k = np.shape(radii)
    facts = {"name": "x", "split": "train", "fingerprint": "f", "inputs": n, "sample": "f", "labelled": n}
    parts = {
        "radii": np.array(radii, float),
        "indices": np.arange(n),
        "labels": np.zeros(n, np.int64),
        "sigmas": tuple(np.arange(1.0, k + 1)),
        "experts": tuple(f"e{i}" for i in range(k)),
        "data": facts,
    }
    return Labels(**{**parts, **changes})


def test_shares_are_of_the_kept_and_ties_go_to_the_first():
    labels = given([[0.1, 0.3, 0.2], [0, 0, 0], [0.4, 0.4, 0.4], [0, 0, 0.5], [0, 0.1, 0]])
    assert labels.kept.tolist() == [True, False, True, True, True]
    assert labels.best[labels.kept].tolist() == [1, 0, 2, 1]
    assert labels.shares.tolist() == [0.25, 0.5, 0.25]
    assert labels.dropped == pytest.approx(0.2)
    assert len(labels) == 5


def test_nothing_left_is_an_error_with_advice(bars):
    labels = given(np.zeros((60, 2)), data={"name": "bars", "split": "train", "fingerprint": bars.fingerprint})
    assert (labels.shares.tolist(), labels.dropped) == ([0.0, 0.0], 1.0)
    with pytest.raises(sx.RequestError, match="no expert certifies any of the 60 labelled inputs"):
        labels.select(bars)


def test_labels_check_their_own_shape():
    with pytest.raises(sx.RequestError, match=r"each of 3 inputs and 2 experts; got radii of shape \(3, 2\), 2 true"):
        given(np.zeros((3, 2)), labels=np.zeros(2, np.int64))
    with pytest.raises(sx.RequestError, match="1 sigmas"):
        given(np.zeros((3, 2)), sigmas=(0.5,))


def test_the_fingerprint_tells_labels_apart():
    labels = [given([[0.1, 0.2]]), given([[0.2, 0.1]]), given([[0.1, 0.2]], experts=("e1", "e0"))]
    labels.append(given([[0.1, 0.2]], indices=np.array([7])))
    assert len({each.fingerprint for each in labels}) == 4
    assert given([[0.1, 0.2]]).fingerprint == labels[0].fingerprint
