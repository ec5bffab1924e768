"""Data-dependent noise: the counter-example, the searches, and what a memory and its record promise."""

import json

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax.engine import rounds
from sigmax.engine.inputs import Noisy
from sigmax.jobs.data_check import data_findings
from sigmax.records.lines import decode, encode
from sigmax.report.notes import on_run
from sigmax.rules.memorized import MemorizedRule
from sigmax.rules.procedure import with_noise
from sigmax.rules.registry import rebuild
from tests.schemes.schemes import Halfspace, linear

WIDE = {"sigma0": 0.3, "least": 0.2, "most": 60.0, "classes": 2, "search": "ascent"}
WIDE |= {"steps": 400, "noises": 64, "step": 0.04}
SAMPLES = {"n0": 50, "n": 1_000, "alpha": 0.001}
FAR, CENTRE = torch.tensor([[50.0, 0.0]]), torch.zeros(1, 2)


def disc(batch):
    """f = 1[|x| <= 1] by steep scores: the counter-example in the plane."""
    inside = 40 * (1 - (batch.square().sum(1) + 1e-12).sqrt())
    return torch.stack([-inside, inside], 1)


def test_the_rule_searches_as_the_scheme_does_unless_told_otherwise():
    rule = MemorizedRule(0.5, 0.25, 1.0, 10)
    assert sx.Memorized(linear(), sigma0=0.5, classes=10).rule == rule
    assert (rule.search, rule.steps, rule.noises, rule.step) == ("ascent", 50, 8, 0.02)


# The counter-example


def test_without_memory_nothing_is_called_a_certificate():
    """At (50, 0) the best noise certifies class 0 beyond the origin, where class 1 is certified: both cannot be."""
    f = sx.Memorized(disc, **WIDE)
    x = torch.cat([FAR, CENTRE])
    noise = f.own_noise(x, [0, 1], 0)["sigma"]
    noisy = Noisy(x, [0, 1], 0)
    procedures = [with_noise(f.rule.certifying(**SAMPLES), {"sigma": sigma}) for sigma in noise]
    plain = dict(rounds.run(procedures, noisy, f.voters))
    for found in plain.values():
        assert (found.predicted, found.radius) == (None, 0.0)
        assert found.outcome is sx.Outcome.UNREMEMBERED
        assert "is no certificate" in found.outcome.advice
    proposals = [f.rule.proposed(plain[i]) for i in (0, 1)]
    assert [label for label, _ in proposals] == [0, 1]
    assert proposals[0][1] > 50, "the plain radius does claim the origin for class 0"


@pytest.mark.parametrize("order", [(0, 1), pytest.param((1, 0), marks=pytest.mark.slow)])
def test_with_memory_no_answer_contradicts_a_certificate(order):
    f = sx.Memorized(disc, **WIDE)
    points = torch.cat([FAR, CENTRE])[list(order)]
    first, second = f.certify(points, **SAMPLES)
    assert first.outcome is sx.Outcome.REMEMBERED
    assert "within this memory" in first.outcome.advice
    rng = torch.Generator().manual_seed(0)
    later = torch.cat([30 * torch.randn(20, 2, generator=rng), 2 * torch.randn(20, 2, generator=rng)])
    answered = [*zip(points, (first, second), strict=True)]
    answered += zip(later[::2], f.certify(later[::2], ids=range(10, 30), **SAMPLES), strict=True)
    predicted = [p.predicted for p in f.predict(later[1::2], seed=3, ids=range(100, 120))]
    balls = [(x.double(), c) for x, c in answered if c.predicted is not None]
    assert len(balls) > 12
    for i, (x, c) in enumerate(balls):
        for y, other in balls[i + 1 :]:
            if (x - y).norm() <= c.radius:
                assert other.predicted == c.predicted
    for y, label in zip(later[1::2].double(), predicted, strict=True):
        for x, c in balls:
            assert (x - y).norm() > c.radius or label == c.predicted


@pytest.mark.slow
def test_the_same_input_again_is_answered_the_same():
    f = sx.Memorized(disc, **WIDE)
    (first,) = f.certify(FAR, **SAMPLES)
    (again,) = f.certify(FAR, **SAMPLES, ids=[7])
    assert (again.predicted, again.radius) == (first.predicted, first.radius)
    assert f.predict(CENTRE, seed=0)[0].predicted == 0
    assert sx.Memorized(disc, **WIDE).predict(CENTRE, seed=0)[0].predicted == 1
    assert "2 remembered" in repr(f) or "3 remembered" in repr(f)


# The searches


@pytest.mark.parametrize("search", ["ascent", "signs", "grid"])
def test_every_search_finds_larger_noise_for_surer_inputs(search):
    """Of a half-space the soft radius grows with sigma as long as p_A is at its cap: far inputs bear more noise."""

    class Sharp(torch.nn.Module):
        def forward(self, batch):
            score = 40 * batch[:, 0]
            return torch.stack([-score, score], 1)

    steps = {"ascent": 60, "signs": 12, "grid": 24}[search]
    f = sx.Memorized(Sharp(), sigma0=0.5, least=0.1, most=4.0, classes=2, search=search, steps=steps, noises=128)
    x = torch.tensor([[0.25, 0.0], [1.0, 0.0], [4.0, 0.0]])
    found = np.array(f.own_noise(x, [0, 1, 2], 0)["sigma"])
    assert np.all((found >= 0.1) & (found <= 4.0))
    assert found[0] < found[1] < found[2]
    assert found == pytest.approx(f.own_noise(x, [0, 1, 2], 0)["sigma"])
    alone = [f.own_noise(x[[i]], [i], 0)["sigma"][0] for i in range(3)]
    assert found == pytest.approx(alone, rel=1e-4), "an input's noise does not depend on its neighbours"


def test_a_model_without_derivative_cannot_be_climbed():
    f = sx.Memorized(lambda batch: disc(batch).argmax(1), **WIDE)
    with pytest.raises(sx.RequestError, match="use search='signs' or 'grid'"):
        f.certify(FAR, **SAMPLES)


def test_a_model_that_is_told_sigma_is_told_each_inputs_own():
    seen = []

    class Telling(Halfspace):
        takes_sigma = True

        def forward(self, batch, sigma):
            seen.append(sigma)
            return super().forward(batch)

    f = sx.Memorized(Telling(4), sigma0=0.5, classes=2, search="grid", steps=3, noises=4)
    assert f.certify(torch.rand(3, 4), n0=10, n=100, alpha=0.05)
    assert {round(s, 4) for s in seen} >= {0.25, 0.5, 1.0}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sigma0": 0.0}, "sigma must be a positive number"),
        ({"sigma0": "much"}, "sigma must be a positive number"),
        ({"least": 2.0}, "expected least <= sigma0 <= most"),
        ({"most": 0.25}, "expected least <= sigma0 <= most"),
        ({"search": "magic"}, "search must be one of ascent, signs, grid"),
        ({"steps": 0}, "steps must be a whole number"),
        ({"noises": 1_000}, "noises must be a whole number from 1 to 128"),
        ({"step": -1.0}, "step must be a positive number"),
        ({"classes": 1}, "at least 2"),
    ],
)
def test_wrong_settings_are_refused(changes, named):
    with pytest.raises(sx.RequestError, match=named):
        sx.Memorized(disc, **{**WIDE, **changes})
    with pytest.raises(sx.RequestError, match=named):
        rebuild({"scheme": "memorized", **WIDE, **changes})


def test_inputs_of_another_size_need_another_memory():
    f = sx.Memorized(disc, **WIDE)
    f.certify(FAR, **SAMPLES)
    with pytest.raises(sx.RequestError, match="the memory holds inputs of 2 numbers, got 3"):
        f.certify(torch.zeros(1, 3), **SAMPLES)


# Runs


def crowded(path, **options):
    """A run of digits whose balls meet: a few images, each with small changes of it."""
    data = sx.data.load("digits")
    images = data.pixels(range(6)).repeat(4, axis=0)
    images = np.clip(images + 0.01 * np.random.default_rng(0).standard_normal(images.shape), 0, 1).astype(np.float32)
    near = sx.data.Dataset("near", "test", images, np.repeat(data.labels[:6], 4), data.classes)
    f = sx.Memorized(linear(), sigma0=0.2, most=0.4, classes=10, search="grid", steps=4, batch=64)
    asked = {"n0": 20, "n": 400, "alpha": 0.01, "seed": 3, **options}  # under this seed balls do meet
    return f, near, sx.certify_run(f, near, path, **asked)


def test_a_run_keeps_its_memory_and_verify_replays_it(tmp_path):
    f, data, run = crowded(tmp_path / "run.jsonl")
    memories = [next(s for s in r.certificate.stages if s.name == "memory") for r in run.records]
    assert any(m.balls for m in memories), "some answers depend on earlier ones"
    assert [r.index for r in run.records] == list(range(len(data)))
    assert sx.verify(run.path).holds
    assert "the same memory" in on_run(run)[0]
    assert f.memory is None, "a run has a memory of its own"
    sx.recall_run(f, run, data)
    with pytest.raises(sx.RequestError, match=r"remembers \d+ answers already.*recall one run, before anything"):
        sx.recall_run(f, run, data)  # a second memory might contradict the first
    answered = [r for r in run.records if r.certificate.predicted is not None]
    assert f.memory is not None
    assert len(f.memory) == len(answered)
    for record in answered:
        (found,) = f.predict(torch.from_numpy(data.pixels([record.index])), n=100, seed=5)
        assert found.predicted == record.certificate.predicted
    other = sx.Memorized(linear(), sigma0=0.25, classes=10)
    with pytest.raises(sx.RequestError, match="another system or of other data"):
        sx.recall_run(other, run, data)


def test_a_record_that_forgets_or_moves_a_ball_is_found(tmp_path):
    _, _, run = crowded(tmp_path / "run.jsonl")
    lines = run.path.read_bytes().splitlines(keepends=True)
    number, line = next(
        (i, d) for i, d in enumerate(map(decode, lines)) if d.get("stages") and d["stages"][-1].get("balls")
    )

    def findings(change):
        stages = json.loads(json.dumps(line["stages"]))
        change(stages[-1])
        lines[number] = encode({**line, "stages": stages})
        run.path.write_bytes(b"".join(lines))
        return [finding.message for finding in sx.verify(run.path).findings]

    assert not findings(lambda memory: None)
    assert findings(lambda memory: memory.pop("balls"))
    assert findings(lambda memory: memory["balls"][0].__setitem__(1, memory["balls"][0][1] * 1.5))
    assert "had not been stored" in findings(lambda memory: memory["balls"][0].__setitem__(0, 99))[0]
    assert "relative error" in findings(lambda memory: memory.update(error=0.1))[0]
    assert findings(lambda memory: memory["balls"][0].__setitem__(0, -1))


def test_with_the_data_a_wrong_distance_or_a_ball_left_out_is_found(tmp_path):
    _, data, run = crowded(tmp_path / "run.jsonl")
    assert not list(data_findings(run, data))
    lines = run.path.read_bytes().splitlines(keepends=True)
    number, line = next(
        (i, d) for i, d in enumerate(map(decode, lines)) if d.get("stages") and d["stages"][-1].get("balls")
    )
    # A forger who leaves the balls out and claims the radius that the votes alone would give.
    own = next(stage for stage in line["stages"] if stage["role"] == "estimation")["radius"]
    top = int(np.argmax(next(stage for stage in line["stages"] if stage["role"] == "selection")["counts"]))
    memory = {**line["stages"][-1], "radius": own}
    del memory["balls"]
    forged = {
        **line,
        "predicted": top,
        "radius": own,
        "limited_by": "estimation",
        "stages": [*line["stages"][:-1], memory],
    }
    lines[number] = encode(forged)
    run.path.write_bytes(b"".join(lines))
    assert not [f for f in sx.verify(run.path).findings if f.line == number + 1], "the records alone cannot tell"
    found = list(data_findings(sx.read(run.path), data))
    assert found[0].line == number + 1
    assert "the memory of the inputs before gives" in found[0].message
    with pytest.raises(sx.RequestError, match="is a run of other data"):
        list(data_findings(run, sx.data.load("digits")))


def test_a_memory_cannot_be_worked_out_for_other_samples(tmp_path):
    _, _, run = crowded(tmp_path / "run.jsonl")
    with pytest.raises(sx.RequestError, match="has a memory, in which every answer depends on those before"):
        sx.report.resample(run, n=100)


def test_the_rule_is_made_again_from_its_description():
    rule = MemorizedRule(0.25, 0.1, 1.0, 10, "signs", 7, 3, 0.5)
    assert rebuild(json.loads(json.dumps(rule.describe()))) == rule


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("search", ["ascent", "signs", "grid"])
def test_torchs_default_dtype_changes_no_noise_that_is_found(search, dtype):
    network, x = linear(), torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))

    def certified():
        return sx.Memorized(network, sigma0=0.3, classes=10, search=search, steps=3).certify(x, n=200, alpha=0.01)

    before = certified()
    try:
        torch.set_default_dtype(dtype)
        assert certified() == before
    finally:
        torch.set_default_dtype(torch.float32)
