"""Confidence thresholds of a cascade: estimated by the theorem itself, chosen for what is asked."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax import bounds, radius
from sigmax.data import Dataset
from sigmax.errors import RequestError, RunError
from sigmax.rules.cascade.rule import CascadeRule
from sigmax.rules.smoothed import SmoothedRule
from sigmax.train.calibrate import (
    Answers,
    Calibrated,
    CalibrateOptions,
    Estimate,
    answers_of,
    chosen,
    estimated,
    frontier,
    read_thresholds,
    with_confidence,
    write_frontier,
    write_thresholds,
)

N, ALPHA = 10_000, 1e-3


def calibrate(cascade, held_out, options, **how):
    return chosen(estimated(cascade, held_out, samples=options.samples, **how), options)


def rule(*sigmas, classes=3, bound="one-sided"):
    """Levels of these sigmas, the last one the cascade's last."""
    *levels, last = (SmoothedRule.gaussian(sigma, classes) for sigma in sigmas)
    return CascadeRule(tuple(levels), SmoothedRule.gaussian(last.sigma, classes, bound=bound))


def answered(shares, confidence, samples=1000):
    """Answers whose classes come in these shares, each class with its own confidence."""
    edges = np.cumsum(np.asarray(shares), axis=1)[:, None, :]
    top = (np.linspace(0, 1, samples, endpoint=False)[None, :, None] >= edges).sum(2)
    return Answers(top, np.asarray(confidence, np.float32)[top])


def test_many_samples_leave_the_bounds_of_n():
    """Of many samples a share is known, so the estimate is the radius that n such votes prove."""
    shares = np.array([[0.9, 0.06, 0.04], [0.6, 0.4, 0.0], [0.2, 0.8, 0.0]])
    found = Estimate(rule(1.0, 0.5), (answered(shares, [1, 1, 1], 10**5),) * 2, np.zeros(3, int), n=N, alpha=ALPHA)
    half, quarter = ALPHA / 2, ALPHA / 4
    for i, (own, *others) in enumerate(shares.tolist()):
        rival = max(others)
        level = radius.LevelBounds(
            radius.Gaussian(1.0),
            float(bounds.lower(round(own * N), N, quarter)),
            float(bounds.upper(round(rival * N), N, quarter)),
        )
        lead = own > rival
        last = radius.smoothed(radius.Gaussian(0.5), float(bounds.lower(round(own * N), N, half))) if lead else 0.0
        assert found.radii([0.0])[i] == pytest.approx(radius.cascade([level], last), abs=0.03)
    assert found.radii([0.0])[2] == 0, "a wrong majority is certified at no level"


def test_few_samples_leave_shares_open():
    """d of d votes rarely mean n of n, and networks are lucky on different images."""
    sure = answered(np.tile([[1.0, 0, 0]], (2000, 1)), [1, 1, 1], samples=100)
    found = Estimate(rule(1.0, 1.0), (sure, sure), np.zeros(2000, int), n=N, alpha=ALPHA)
    most = radius.answer_radius(radius.Gaussian(1.0), float(bounds.lower(N, N, ALPHA / 4)))
    reached = found.radii([0.0])
    assert reached.max() <= radius.smoothed(radius.Gaussian(1.0), float(bounds.lower(N, N, ALPHA / 2)))
    assert 0.3 < np.mean(reached >= most) < 0.99
    own = [found._of_n(np.full(2000, 50), place, 0) for place in (0, 1)]
    assert abs(np.corrcoef(*own)[0, 1]) < 0.1


def test_a_level_defers_below_its_confidence():
    """The first image's answers are confident, the second's are not: it is left to the last level."""
    shares = np.array([[1.0, 0, 0], [0, 1.0, 0]])
    level, last = answered(shares, [0.9, 0.4, 0.4]), answered(np.tile([[1.0, 0, 0]], (2, 1)), [1, 1, 1])
    found = Estimate(rule(1.0, 0.25), (level, last), np.zeros(2, int), n=N, alpha=ALPHA)
    assert found.radii([0.0])[1] == 0
    assert 0.3 < found.radii([0.5])[1] < 0.9 < found.radii([0.5])[0]
    assert found.accuracy([0.5], (0.0, 0.3, 2.0, 9.0)).tolist() == [100, 100, 50, 0]


def test_a_last_that_bounds_the_runner_up_needs_no_majority():
    answers = (answered(np.array([[0.0, 0.0, 1.0]]), [0, 0, 0]), answered(np.array([[0.45, 0.3, 0.25]]), [1, 1, 1]))
    radii = [
        Estimate(rule(1.0, 0.5, bound=bound), answers, np.zeros(1, int), n=N, alpha=ALPHA).radii([0.5])[0]
        for bound in ("one-sided", "runner-up")
    ]
    assert radii[0] == 0
    assert 0.02 < radii[1] < 0.2


def test_a_network_alone_has_all_of_alpha():
    """The envelope is the best of them at each radius: each of many samples certifies as Cohen et al.'s rule does."""
    shares = np.array([[0.97, 0.03, 0.0], [0.7, 0.2, 0.1], [0.2, 0.8, 0.0]])
    answers = (answered(shares, [1, 1, 1], 10**5), answered(shares[[1, 1, 0]], [1, 1, 1], 10**5))
    found = Estimate(rule(1.0, 0.5), answers, np.zeros(3, int), n=N, alpha=ALPHA)
    reached = [
        [radius.gaussian(sigma, float(bounds.lower(round(p * N), N, ALPHA))) for p in own]
        for sigma, own in ((1.0, (0.97, 0.7, 0.2)), (0.5, (0.7, 0.7, 0.97)))
    ]
    middles = sorted({r for row in reached for r in row if r > 0})
    radii = [0.0, *((a + b) / 2 for a, b in pairwise(middles)), 9.0]
    expected = [[100 * np.mean([r >= asked and r > 0 for r in row]) for asked in radii] for row in reached]
    assert found.alone(radii).tolist() == pytest.approx(np.array(expected))
    assert found.envelope(radii).tolist() == np.max(expected, axis=0).tolist()


def test_what_accuracies_are_worth():
    accuracy, envelope = np.array([80.0, 30.0, 0.0]), np.array([100.0, 40.0, 0.0])
    radii = (0.0, 0.5, 9.0)
    ratio = CalibrateOptions(objective="least-ratio", radii=radii)
    assert ratio.worth(accuracy, envelope) == (0.75, pytest.approx(0.775)), "a radius without an envelope is no radius"
    enough = CalibrateOptions(objective="least-ratio", radii=radii, enough=0.7)
    assert enough.worth(accuracy, envelope) == (0.7, pytest.approx(0.775))
    with pytest.raises(RunError, match="so there is no ratio; choose smaller radii"):
        ratio.worth(accuracy, 0 * envelope)
    lead = CalibrateOptions(objective="least-lead", radii=radii, published=(70.0, 25.0, 3.0))
    assert lead.worth(accuracy, envelope) == (-3.0, 4.0)
    assert CalibrateOptions(radii=radii).worth(accuracy, envelope) == (pytest.approx(110 / 3), 0.0)
    assert CalibrateOptions(radii=radii, weights=(1.0, 3.0, 0.0)).worth(accuracy, envelope) == (42.5, 0.0)


def test_answers_are_kept_and_those_of_another_request_refused(halves, tmp_path, monkeypatch):
    how = {"n": 1000, "alpha": ALPHA, "answers": tmp_path / "answers"}
    calibrate(cascade(0.6, 0.3), halves, CalibrateOptions(radii=(0.0, 0.6), samples=32), **how)
    files = {path.name: path.read_bytes() for path in (tmp_path / "answers").iterdir()}
    assert sorted(files) == ["last.npz", "level-0.npz"]
    again = CalibrateOptions(objective="least-ratio", radii=(0.0, 0.6), samples=32)
    fresh = calibrate(cascade(0.6, 0.3), halves, again, **{**how, "answers": None})
    with monkeypatch.context() as patched:
        patched.setattr(Linear, "forward", None)  # a network that is asked fails
        assert calibrate(cascade(0.6, 0.3), halves, again, **how) == fresh
    assert {path.name: path.read_bytes() for path in (tmp_path / "answers").iterdir()} == files
    for wrong, said in (
        (lambda: calibrate(cascade(0.6, 0.3), halves, CalibrateOptions(samples=16), **how), "samples is 32 there and"),
        (lambda: calibrate(cascade(0.7, 0.3), halves, CalibrateOptions(samples=32), **how), "sigma is 0.6 there and"),
        (lambda: calibrate(cascade(0.6, 0.3), halves.take([3]), CalibrateOptions(samples=32), **how), "images is"),
    ):
        with pytest.raises(RequestError, match=f"level-0.npz holds what a network answered to another request.*{said}"):
            wrong()
    (tmp_path / "answers" / "last.npz").write_bytes(b"PK")
    with pytest.raises(RequestError, match=r"last.npz is damaged .*; delete it to ask the network again"):
        calibrate(cascade(0.6, 0.3), halves, CalibrateOptions(samples=32), **how)


class Linear(torch.nn.Module):
    """Confident far from the border between two halves of the image."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, images):
        difference = self.scale * (images[..., :2].mean((1, 2, 3)) - images[..., 2:].mean((1, 2, 3)))
        return torch.stack([difference, -difference], dim=1)


@pytest.fixture(scope="module")
def halves():
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    images = np.full((200, 1, 4, 4), 0.5, np.float32)
    strength = rng.uniform(0.02, 0.4, 200).astype(np.float32) * np.where(labels == 0, 1, -1)
    images[..., :2] += strength[:, None, None, None]
    return Dataset("halves", "train", images.clip(0, 1), labels, ("left", "right"))


def test_what_is_counted_is_what_a_selective_model_votes(halves):
    network = Linear(3.0)
    found = answers_of(sx.Smoothed(network, sigma=0.3, classes=2), halves, samples=50, seed=3)
    pixels = torch.from_numpy(halves.pixels(range(200)))
    noise = torch.randn(200 * 50, 1, 4, 4, generator=torch.Generator().manual_seed(3)) * 0.3
    noisy = pixels.repeat_interleave(50, dim=0) + noise
    votes = sx.models.selective(network, confidence=0.7)(noisy).argmax(dim=1).view(200, 50)
    expected = np.stack([(votes == c).sum(dim=1).numpy() for c in (0, 1)], axis=1)
    assert np.array_equal(found.counts(2, 0.7), expected)
    assert 0 < (votes == 2).float().mean() < 1


def cascade(*sigmas):
    *levels, last = (sx.Smoothed(Linear(6.0), sigma=sigma, classes=2) for sigma in sigmas)
    return sx.Cascade(levels, last)


def test_the_best_thresholds_are_found(halves):
    """They are as good as any on a grid, or almost; and another objective has others."""
    options = CalibrateOptions(objective="least-lead", published=(80.0, 20.0, 5.0), radii=(0.0, 0.3, 0.6), samples=64)
    seen, how = [], {"n": 1000, "alpha": ALPHA}
    found = calibrate(cascade(0.6, 0.3), halves, options, **how, watch=lambda *counted: seen.append(counted))
    assert seen == [(0, 2), (1, 2), (2, 2)]
    answers = tuple(answers_of(part, halves, samples=64, seed=0) for part in (*cascade(0.6, 0.3).parts.values(),))
    estimate = Estimate(cascade(0.6, 0.3).rule, answers, halves.labels, **how)
    assert estimate.accuracy(found.confidence, options.radii).tolist() == list(found.accuracy)
    assert estimate.envelope(options.radii).tolist() == list(found.envelope)
    for asked in (options, CalibrateOptions(objective="least-ratio", radii=options.radii, samples=64)):
        found, envelope = chosen(estimate, asked), estimate.envelope(options.radii)
        grid = [asked.worth(estimate.accuracy([c], options.radii), envelope)[0] for c in np.linspace(0.05, 0.95, 10)]
        assert asked.worth(np.array(found.accuracy), envelope)[0] >= max(grid) - 1
    mean = calibrate(cascade(0.6, 0.3), halves, CalibrateOptions(radii=(0.6,), samples=64), **how)
    assert mean.accuracy[-1] >= found.accuracy[-1]
    calibrated = with_confidence(cascade(0.6, 0.3), found.confidence)
    assert [level.voters["base"].model.confidence for level in calibrated.levels] == list(found.confidence)
    assert with_confidence(calibrated, (0.9,)).levels[0].voters["base"].model.confidence == 0.9


def test_what_cannot_be_calibrated_is_refused(halves):
    odd = sx.Cascade([sx.Smoothed(Linear(1.0), sigma=1.0, classes=2)], cascade(0.5, 0.2))
    with pytest.raises(RequestError, match="a cascade whose last is Smoothed or deterministic; got Cascade"):
        calibrate(odd, halves, CalibrateOptions(), n=N, alpha=ALPHA)
    for wrong, said in [
        ({"published": (1.0,)}, "published: only for objective"),
        ({"objective": "least-lead", "published": (1.0,)}, "one accuracy for each of the 11 radii; got 1"),
        ({"radii": ()}, "at least one radius"),
        ({"objective": "least-ratio", "published": (1.0,)}, "published: only for objective = 'least-lead'"),
        ({"objective": "least-ratio", "weights": (1.0,) * 11}, "weights: only for objective = 'mean'; leave it out"),
        ({"enough": 0.98}, "enough: only for objective = 'least-ratio'"),
        ({"weights": (1.0,)}, "one number for each of the 11 radii; got 1"),
        ({"weights": (0.0,) * 11}, "weights must not all be 0"),
        ({"weights": (-1.0,) * 11}, "expected a number of at least 0, got -1.0"),
        ({"samples": 0}, "samples: expected a number of at least 1"),
    ]:
        with pytest.raises(RequestError, match=said):
            CalibrateOptions(**wrong)


def test_thresholds_are_kept_with_their_request(tmp_path):
    file, found = tmp_path / "thresholds.json", Calibrated((0.7, 0.5), (90.0, 40.0), (100.0, 0.0))
    write_thresholds(file, found, {"samples": 20, "networks": ["a", "b"]})
    assert read_thresholds(file) == read_thresholds(file, {"samples": 20, "networks": ("a", "b")}) == found
    with pytest.raises(RequestError, match=r"samples is 20 there and 30 here. Delete it to calibrate again"):
        read_thresholds(file, {"samples": 30, "networks": ["a", "b"]})
    assert json.loads(file.read_text())["ratio"] == [0.9, None]
    file.write_text('{"confidence": 3}')
    with pytest.raises(RequestError, match="is damaged"):
        read_thresholds(file)


def test_the_frontier_is_of_calibrations_that_none_beats(halves, tmp_path):
    """The ends are those of the weights 0 and 1; every point is what its thresholds are estimated to do."""
    from sigmax import report

    estimate = estimated(cascade(0.6, 0.2), halves, samples=64, n=1000, alpha=ALPHA)
    radii, seen = (0.0, 0.2, 0.7, 99.0), []
    found = frontier(estimate, radii, points=5, watch=lambda *done: seen.append(done))
    assert seen == [(i, 5) for i in range(6)]
    assert found.between == (0.0, 0.7)
    ends = [(point.accuracy[0], point.accuracy[2]) for point in found.points]
    assert ends == sorted(ends, reverse=True)
    assert [y for _, y in ends] == sorted(y for _, y in ends)
    assert max(x for x, _ in found.others) <= ends[0][0]
    assert max(y for _, y in found.others) <= ends[-1][1]
    assert [list(point.accuracy) for point in found.points] == [
        estimate.accuracy(point.confidence, radii).tolist() for point in found.points
    ]
    assert list(found.alone) == ["0.6", "0.2"]
    write_frontier(tmp_path / "f.json", found)
    ax = report.draw_frontier(tmp_path / "f.json")
    (line,) = (line for line in ax.get_lines() if line.get_label() == "frontier of the cascade")
    assert list(zip(*line.get_data(), strict=True)) == ends
    with pytest.raises(RunError, match="at fewer than two of the radii"):
        frontier(estimate, (0.0, 99.0))
    (tmp_path / "f.json").write_text("{}")
    with pytest.raises(RequestError, match="is no frontier; write one with"):
        report.draw_frontier(tmp_path / "f.json")
