"""Honest certificates withstand the attack; what it reports of them is what it says."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sigmax as sx
from sigmax.jobs.attack.ball import Space, distance_up, into_ball
from sigmax.jobs.attack.margins import margins
from sigmax.jobs.attack.verdict import judged
from sigmax.schemes.scheme import whole_steps
from tests.jobs.attack.problems import SIGMA, halfplane, images
from tests.schemes.schemes import DIM, TABLE, Halfspace, linear

QUICK = sx.Attack(steps=8, restarts=2, samples=8, walk=2, n=400)
CERTIFY = {"n0": 50, "n": 500, "skip": 30}


@pytest.fixture(scope="module")
def digits():
    return sx.data.load("digits", "test")


def on_digits(kind):
    """Small networks that were trained on digits, under each scheme."""
    zoo = sx.load("zoo:digits-cascade")
    if kind == "cascade":
        return zoo
    if kind == "cascade on a grid":  # digits have shades of 1/16
        return sx.systems.on_grid(zoo, 240)
    network = zoo.last.voters["base"].model
    smoothed = [sx.Smoothed(network, sigma=sigma, classes=10) for sigma in (0.1, 0.2)]
    router = sx.Smoothed(linear(classes=2), sigma=0.2, classes=2)
    return smoothed[0] if kind == "smoothed" else sx.Dual(router, smoothed, rule=kind)


@pytest.mark.parametrize("kind", ["smoothed", "min", "consensus", "cascade", "cascade on a grid"])
def test_honest_runs_have_no_violation(kind, digits, tmp_path):
    """All three searches at once, as on a GPU."""
    scheme = on_digits(kind)
    run = sx.certify_run(scheme, digits, tmp_path / "run.jsonl", maximum=3, **CERTIFY)
    found = sx.attack_run(run, scheme, digits, tmp_path / "attack", options=QUICK, together=3)
    assert found.verdict.violations == 0
    assert found.verdict.considered == 3
    assert found.verdict.certified == len(found.rows) >= 2
    assert all(row.gradients for row in found.rows)
    assert found.ratios  # a search this short need not find a point for every input
    assert min(found.ratios) >= 1
    written = json.loads((tmp_path / "attack" / "results.json").read_text())
    assert [row["ratio"] for row in written["inputs"]] == [row.ratio for row in found.rows]
    assert written["verdict"]["violations"] == 0


@pytest.mark.parametrize("name", ["lipschitz", "memorized"])
def test_every_kind_of_scheme_can_be_attacked(name, digits, tmp_path):
    """Memorized has no margin: it is attacked by its predictions, with its memory."""
    scheme = TABLE[name].build(linear(scale=30.0), 10)
    run = sx.certify_run(scheme, digits, tmp_path / "run.jsonl", maximum=3, **CERTIFY)
    found = sx.attack_run(run, scheme, digits, tmp_path / "attack", options=QUICK)
    assert found.rows
    assert found.verdict.violations == 0
    assert all(row.gradients == (name != "memorized") for row in found.rows)


def test_what_cannot_be_reached_is_not_found(tmp_path):
    """The other class lies outside the pixels' range, where no point may be: none is reported, and nothing is drawn."""
    scheme = TABLE["semi-elastic"].build(Halfspace(DIM), 2)
    data = sx.data.as_dataset((np.full((1, 1, 4, 4), 0.25, dtype=np.float32), np.ones(1, dtype=np.int64)), classes=2)
    run = sx.certify_run(scheme, data, tmp_path / "run.jsonl", n=500)
    found = sx.attack_run(run, scheme, data, tmp_path / "attack", options=QUICK)
    (row,) = found.rows
    assert row.gradients
    assert (row.nearest, row.answer, row.violation, found.ratios) == (None, None, False, [])
    with pytest.raises(sx.RequestError, match="nothing to draw"):
        sx.report.draw_attack_ratios(found.ratios)


def test_the_distance_found_is_that_of_a_known_boundary(tmp_path):
    scheme, data = halfplane(), images(1, first=0.3)
    run = sx.certify_run(scheme, data, tmp_path / "run.jsonl", n=10_000)
    (row,) = sx.attack_run(run, scheme, data, tmp_path / "attack", options=sx.Attack(n=10_000)).rows
    assert 0.9 * 0.2 < row.radius <= 0.2 <= row.nearest < 0.2 + 0.1 * SIGMA
    assert row.answer == 1


def test_a_model_without_gradients_is_attacked_by_predictions(tmp_path):
    inner = halfplane().voters["base"].model

    def ids(batch):
        return inner(batch.detach()).argmax(1)

    scheme, data = sx.Smoothed(ids, sigma=SIGMA, classes=2), images(1, first=0.3)
    run = sx.certify_run(scheme, data, tmp_path / "run.jsonl", n=2_000)
    (row,) = sx.attack_run(run, scheme, data, tmp_path / "attack").rows
    assert not row.gradients
    assert 0.2 <= row.nearest < 0.25


def test_other_systems_data_and_runs_are_refused_before_any_work(tmp_path):
    scheme, data, out = halfplane(), images(3, first=0.3), tmp_path / "attack"
    run = sx.certify_run(scheme, data, tmp_path / "run.jsonl", n=200)
    for other, theirs, words in [
        (halfplane(edge=0.6), data, "system is"),
        (scheme, images(3, first=0.35), "data is"),
        (sx.Smoothed(scheme.voters["base"].model, sigma=SIGMA, classes=2, dtype=torch.bfloat16), data, "arithmetic"),
    ]:
        with pytest.raises(sx.RequestError, match=words):
            sx.attack_run(run, other, theirs, out)
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(run.path.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(sx.RequestError, match="unfinished"):
        sx.attack_run(cut, scheme, data, out)
    with pytest.raises(sx.RequestError, match="restarts must be"):
        sx.attack_run(run, scheme, data, out, options=sx.Attack(restarts=0))
    assert not out.exists()


def test_an_interrupted_attack_goes_on(tmp_path):
    scheme, data, out = halfplane(), images(3, first=0.3), tmp_path / "attack"
    run = sx.certify_run(scheme, data, tmp_path / "run.jsonl", n=200)
    seen = []

    def once(row):
        seen.append(row)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sx.attack_run(run, scheme, data, out, options=QUICK, seen=once)
    with (out / "attack.jsonl").open("ab") as file:
        file.write(b'{"torn')
    found = sx.attack_run(run, scheme, data, out, options=QUICK, seen=seen.append)
    assert [row.index for row in seen] == [0, 1, 2]
    assert found.rows == tuple(seen)
    with pytest.raises(sx.RequestError, match="options.n is 400 there and 500 here"):
        sx.attack_run(run, scheme, data, out, options=sx.Attack(steps=8, restarts=2, samples=8, walk=2, n=500))


pixels = st.lists(st.floats(0, 1, width=32), min_size=2, max_size=2)


@given(pixels, pixels, st.floats(2**-20, 2.0), st.sampled_from([None, 255, 7]))
def test_points_are_inside_in_exact_arithmetic(x, other, radius, grid):
    """By fractions, which round nothing."""
    if grid:
        x = (torch.tensor(x) * grid).round().div(grid).tolist()
    image, points = torch.tensor(x).view(1, 1, 2), torch.tensor(other).view(1, 1, 1, 2)
    inside = into_ball(image, points, radius, Space("images", grid))[0]
    squares = sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(x, inside.flatten().tolist(), strict=True))
    assert squares < Fraction(radius) ** 2
    assert squares <= Fraction(distance_up(image, inside)) ** 2
    assert distance_up(image, inside) <= math.sqrt(squares) * (1 + 1e-12) + 1e-150
    assert 0 <= float(inside.min()) <= float(inside.max()) <= 1
    if grid:
        assert torch.equal(whole_steps(inside[None], grid)[0], inside)


def test_margins_have_the_sign_of_the_answer(digits):
    """Where predictions are sure the soft margin of the class answered is the one that is positive, mostly."""
    x = torch.from_numpy(digits.pixels(range(0, 300, 15)))
    for kind in ("smoothed", "min", "cascade"):
        scheme = on_digits(kind)
        soft = margins(scheme, 64, torch.Generator().manual_seed(0))(x.requires_grad_()).argmax(1).tolist()
        answers = [p.predicted for p in scheme.predict(x.detach(), n=1_000, seed=0)]
        assert np.mean([s == a for s, a in zip(soft, answers, strict=True) if a is not None]) >= 0.9


def test_the_verdict_is_the_exact_binomial_tail():
    """By enumeration; inputs that abstained count, and a single violation may be what alpha allows."""
    for considered, violations, alpha in [(100, 1, 1e-3), (400, 40, 0.05), (20, 3, 0.2)]:
        tail = sum(
            math.comb(considered, k) * alpha**k * (1 - alpha) ** (considered - k)
            for k in range(violations, considered + 1)
        )
        found = judged(
            considered=considered, certified=5, violations=violations, alpha=alpha, inside_tests=4, each=1e-9
        )
        assert found.p_value == pytest.approx(tail, rel=1e-9)
        assert found.refuted == (tail <= 1e-3)
        assert found.false_alarm == pytest.approx(4e-9)
    assert judged(considered=9, certified=5, violations=0, alpha=0.1, inside_tests=0, each=1e-9).p_value == 1


def test_rounding_does_not_move_a_point_of_a_tiny_ball_back_to_the_input():
    x, radius = torch.tensor([[[0.5, 0.5]]]), 0.00621392539418991
    for aim in (0.0, 1.0):
        (point,) = into_ball(x, torch.tensor([[[[aim, 0.5]]]]), radius, Space("images", None))
        assert 0.999 * radius < distance_up(x, point) < radius
