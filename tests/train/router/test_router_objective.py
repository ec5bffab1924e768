"""The router's objectives for what is certified, against the consensus rule itself and against plain loops."""

import math

import numpy as np
import pytest
import torch
from scipy.special import ndtri

from sigmax import radius
from sigmax.errors import RequestError
from sigmax.train import Settings
from sigmax.train.router.objective import Certified, Weighted, margins, misses
from sigmax.train.router.options import advice, check_loss, make_loss
from sigmax.train.router.train import train_router
from tests.train.router.test_router import make_labels, metrics

SIGMA = 0.5
GRID = (0.0, 0.2, 0.4, 0.6)


def random_inputs(count=300, routes=3, seed=0):
    """Vote shares and radii, a third of which are 0 and some of which are equal."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(routes, 0.7), count).clip(1e-3, 1 - 1e-3)
    shares /= shares.sum(axis=1, keepdims=True)
    radii = rng.integers(0, 8, (count, routes)) / 10 * (rng.random((count, routes)) < 0.7)
    return shares, radii


def consensus(shares, radii, true=7):
    """What the theorem proves for the true class from exact shares."""
    z = ndtri(shares)
    reach = SIGMA / 2 * (z.max() - z)
    labels = [true if r > 0 else None for r in radii]
    found = radius.routed(reach.tolist(), radii.tolist(), labels)
    return found if labels[int(shares.argmax())] == true else 0.0


@pytest.mark.parametrize("routes", [2, 3, 5])
def test_the_margins_say_which_radii_the_consensus_rule_certifies(routes):
    """Radius by radius: exactly where something is at stake the margin decides, and elsewhere the routes alone."""
    shares, radii = random_inputs(routes=routes)
    asked = (0.05, 0.15, 0.25, 0.35, 0.55)
    stakes = Weighted(SIGMA, asked).stakes(torch.from_numpy(radii))
    found = margins(torch.from_numpy(shares), stakes.good, SIGMA).numpy()
    at_stake = stakes.worth.numpy() > 0
    decided = 0
    for i, j in np.ndindex(found.shape):
        exact = consensus(shares[i], radii[i])
        if abs(exact - asked[j]) < 1e-9:
            continue
        if at_stake[i, j]:
            assert (found[i, j] >= asked[j]) == (exact >= asked[j])
            decided += 1
        else:
            assert (radii[i].min() >= asked[j]) == (exact >= asked[j])
    assert decided > 300


def test_two_routes_are_the_closed_form():
    """If R_1 > R_0 it is min(R_1, max(s, R_0)) with s = sigma * Phi^-1(q_1), and the mirror image otherwise."""
    for share, radii in (((0.2, 0.8), (0.1, 0.4)), ((0.7, 0.3), (0.3, 0.0)), ((0.7, 0.3), (0.0, 0.3))):
        s = SIGMA * ndtri(share[1])
        low, high = min(radii), max(radii)
        expected = min(high, max(s if radii[1] > radii[0] else -s, low))
        assert consensus(np.array(share), np.array(radii)) == pytest.approx(max(0.0, expected))
        stakes = Weighted(SIGMA, (0.2,)).stakes(torch.tensor([radii], dtype=torch.float64))
        margin = margins(torch.tensor([share], dtype=torch.float64), stakes.good, SIGMA)
        assert margin.item() == pytest.approx(s if radii[1] > radii[0] else -s)


def literal(method, logits, radii):
    """The formulas of the module for one input, term by term: logits[m][k], radii[k]."""
    routes, copies = range(len(radii)), len(logits)
    weights = method.weights or (1.0,) * len(method.radii)

    def softmax(row, times=1.0):
        total = sum(math.exp(times * z) for z in row)
        return [math.exp(times * z) / total for z in row]

    f = [softmax(row) for row in logits]
    mean = [sum(one[k] for one in f) / copies for k in routes]
    kl = sum(sum(mean[k] * math.log(mean[k] / one[k]) for k in routes) for one in f) / copies
    unsteady = method.consistency * kl - method.entropy * sum(p * math.log(p) for p in mean)
    loss = 0.0
    for r, w in zip(method.radii, weights, strict=True):
        good = [k for k in routes if radii[k] >= r and radii[k] > 0]
        bad = [k for k in routes if k not in good]
        if not good or not bad:
            continue
        term = -sum(math.log(sum(one[k] for k in good)) for one in f) / copies
        if isinstance(method, Certified):
            hard = [softmax(row, method.hardness) for row in logits]
            z = [float(ndtri(min(max(sum(one[k] for one in hard) / copies, 1e-4), 1 - 1e-4))) for k in routes]
            margin = SIGMA / 2 * (max(z[k] for k in good) - max(z[k] for k in bad))
            term = 1 / (1 + math.exp((margin - r) / (method.temperature * SIGMA))) + method.fit * term
        loss += w / sum(weights) * (term + unsteady)
    return loss


@pytest.mark.parametrize("weights", [(), (3.0, 1.0, 0.0, 2.0)])
@pytest.mark.parametrize("kind", [Weighted, Certified])
def test_the_losses_are_the_formulas(kind, weights):
    rng, (_, radii) = np.random.default_rng(1), random_inputs(60)
    for copies in (1, 2, 4):
        more = {"temperature": 0.3, "hardness": 1.7, "fit": 0.4} if kind is Certified else {}
        method = kind(SIGMA, GRID, weights, copies, consistency=1.5, entropy=0.25, **more)
        logits = rng.normal(0, 1.5, (copies, len(radii), 3))
        found = method.losses(torch.from_numpy(logits), torch.from_numpy(radii))
        expected = [literal(method, logits[:, i].tolist(), radii[i].tolist()) for i in range(len(radii))]
        assert found.tolist() == pytest.approx(expected, abs=1e-9)


def test_weighted_between_two_routes_is_cross_entropy_times_what_is_at_stake():
    method = Weighted(SIGMA, (0.0, 0.1, 0.2, 0.3), consistency=0.0)
    log_f = torch.randn(2, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).log_softmax(2)
    radii = torch.tensor([[0.15, 0.35], [0.1, 0.0], [0.2, 0.2]], dtype=torch.float64)
    better, stake = [1, 0, 0], [2 / 4, 2 / 4, 0.0]
    expected = [-stake[i] * log_f[:, i, better[i]].mean().item() for i in range(3)]
    assert method.losses(log_f, radii).tolist() == pytest.approx(expected)
    assert misses(log_f, torch.zeros(3, 1, 2, dtype=torch.bool)).tolist() == [[0.0]] * 3


@pytest.mark.parametrize("kind", [Weighted, Certified])
def test_gradients_are_the_losses_and_stay_finite(kind):
    method = kind(SIGMA, GRID, consistency=3.0, entropy=0.5)
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 6, 3, dtype=torch.float64, generator=generator, requires_grad=True)
    radii = torch.rand(6, 3, dtype=torch.float64, generator=generator)
    assert torch.autograd.gradcheck(lambda z: method.losses(z, radii), (logits,))
    sure = torch.tensor([[[1e4, 0.0, -1e4]], [[-1e4, 0.0, 1e4]]], requires_grad=True)
    loss = method.losses(sure, torch.tensor([[0.1, 0.2, 0.7]])).sum()
    loss.backward()
    assert loss.isfinite()
    assert sure.grad.isfinite().all()


def test_where_nothing_is_at_stake_nothing_is_learned():
    radii = torch.tensor([[0.3, 0.3, 0.3], [0.0, 0.0, 0.0], [0.3, 0.35, 0.39]])
    logits = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    losses = Certified(SIGMA, GRID, consistency=3.0).losses(logits, radii)
    losses.sum().backward()
    assert losses.tolist() == [0.0, 0.0, 0.0]
    assert not logits.grad.any()


# Which loss is asked for


def test_options_make_the_loss_and_the_radii_follow_from_the_labels():
    radii = np.array([[0.1, 0.6], [0.3, 0.0]])
    made = make_loss(0.4, radii, {"objective": "certified", "fit": 0.5})
    assert made == Certified(0.4, tuple(0.6 * i / 12 for i in range(12)), fit=0.5)
    assert made.plan()["name"] == "router-certified"
    given = {"objective": "weighted", "radii": [0, 0.5], "weights": [2, 1]}
    assert make_loss(0.4, radii, given) == Weighted(0.4, (0.0, 0.5), (2.0, 1.0))
    assert make_loss(0.4, radii, {}).shares == (0.5, 0.5)
    assert "more fit (now 0.5)" in advice(made)
    assert "less consistency (now 2)" in advice(made)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"objective": "best"}, "objective: expected one of paper, certified, weighted, got 'best'"),
        ({"objective": "certified", "sharpness": 3.0}, "the objective 'certified' has no sharpness; it takes"),
        ({"objective": "weighted", "fit": 3.0}, "the objective 'weighted' has no fit"),
        ({"radii": (0.1,)}, "the objective 'paper' has no radii"),
        ({"objective": "certified", "radii": (0.5, 0.1)}, "radii: expected one or more rising radii of at least 0"),
        ({"objective": "certified", "radii": (0.1, 0.1)}, "radii: expected one or more rising radii of at least 0"),
        ({"objective": "certified", "radii": (-0.1,)}, "radii: expected one or more rising radii of at least 0"),
        ({"objective": "certified", "radii": "far"}, "radii: expected a list, got 'far'"),
        ({"objective": "certified", "radii": (0.1, 0.2), "weights": (1,)}, "for each of the 2 radii"),
        ({"objective": "certified", "radii": (0.1,), "weights": (0,)}, "and one above 0"),
        ({"objective": "certified", "temperature": 0.0}, "temperature: expected a number above 0, got 0.0"),
        ({"objective": "certified", "hardness": -1.0}, "hardness: expected a number above 0, got -1.0"),
        ({"objective": "certified", "fit": math.nan}, "fit: expected a finite number, got nan"),
        ({"objective": "weighted", "copies": 0}, "copies: expected a number of at least 1, got 0"),
        ({"objective": "weighted", "consistency": -1.0}, "consistency: expected a number of at least 0, got -1.0"),
    ],
)
def test_wrong_options_say_what_was_expected(given, message):
    with pytest.raises(RequestError, match=message):
        check_loss(0.5, given)
    with pytest.raises(RequestError, match="sigma: expected a number above 0"):
        check_loss(0.0, {"objective": "certified"})


# Trained


@pytest.mark.parametrize("objective", ["certified", "weighted"])
def test_a_router_learns_what_the_radii_reward(bars, tmp_path, objective):
    """The bright row decides which expert reaches far. Held out, nearly all of the best experts' radius is kept."""
    radii = np.full((60, 3), 0.1)
    radii[np.arange(60), bars.labels] = 0.5
    settings = Settings(epochs=25, batch=16, optimiser="adamw", lr=0.01)
    train_router(
        bars,
        make_labels(bars, radii),
        architecture="small-cnn",
        options={"width": 4},
        sigma=0.4,
        settings=settings,
        held_out=0.3,
        out=tmp_path / "router.safetensors",
        objective=objective,
    )
    last = metrics(tmp_path / "router.safetensors")[-1]["validation"]
    assert last["matching"] > 0.9
    assert last["possible"] == pytest.approx(0.5)
    assert last["attained"] > 0.3


def test_weights_decide_which_expert_an_input_gets(bars, tmp_path):
    """Nothing in the images tells the experts apart: one reaches 0.2 always, the other 0.6 half of the time."""
    radii = np.tile([0.2, 0.0], (60, 1))
    radii[np.random.default_rng(0).permutation(60)[:30], 1] = 0.6
    labels = make_labels(bars, radii, sigmas=(0.1, 0.4), experts=("near", "far"))
    taken = {}
    for name, weights in (("near", (5.0, 1.0)), ("far", (1.0, 5.0))):
        out = tmp_path / f"{name}.safetensors"
        train_router(
            bars,
            labels,
            architecture="small-cnn",
            options={"width": 4},
            sigma=0.4,
            settings=Settings(epochs=12, batch=16, optimiser="adamw", lr=0.01),
            held_out=0.3,
            out=out,
            objective="weighted",
            radii=(0.1, 0.4),
            weights=weights,
        )
        taken[name] = metrics(out)[-1]["validation"]["routes"]
    assert taken["near"][0] > 0.8
    assert taken["far"][1] > 0.8
