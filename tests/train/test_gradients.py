import math

import numpy as np
import pytest
import torch
from torch import nn

from sigmax.data import Dataset
from sigmax.errors import RequestError, RunError
from sigmax.schemes.smoothed import Smoothed
from sigmax.train.gradients import GRADIENT, LAST_EPOCH, GradientShares, gradient_shares
from sigmax.train.loop.fit import seeded
from sigmax.train.methods.base import Batch
from sigmax.train.methods.cat_rs import CatRS
from sigmax.train.methods.easy_samples import EasySamples
from sigmax.train.methods.gaussian import GaussianTraining
from sigmax.train.methods.smoothadv import SmoothAdv

METHODS = {
    "gaussian": lambda: GaussianTraining(0.5),
    "smoothadv": lambda: SmoothAdv(0.5, copies=2, steps=2),
    "cat-rs": lambda: CatRS(0.5, Linear(seed=5), copies=2, steps=2),
    "easy-samples": lambda: EasySamples(0.5, copies=2, steps=2),
}


class Linear(nn.Module):
    """Logits W x + b."""

    def __init__(self, seed=0, classes=3):
        super().__init__()
        torch.manual_seed(seed)
        self.linear = nn.Linear(16, classes)

    def forward(self, images):
        return self.linear(images.flatten(1))


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(0)
    images, labels = rng.random((40, 1, 4, 4)).astype(np.float32), rng.integers(0, 3, 40)
    return Dataset(name="noise", split="train", images=images, labels=labels, classes=("a", "b", "c"))


def literal_norm(weight, bias, noisy, label):
    """|g| of -log softmax_y(W z + b): the gradient is (softmax_k - [k = y]) z_j in W_kj, and without z_j in b_k."""
    logits = [sum(w * z for w, z in zip(row, noisy, strict=True)) + b for row, b in zip(weight, bias, strict=True)]
    shares = [math.exp(z) / sum(math.exp(other) for other in logits) for z in logits]
    total = 0.0
    for k, share in enumerate(shares):
        off = share - (k == label)
        total += off**2 + sum((off * z) ** 2 for z in noisy)
    return math.sqrt(total)


@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_norms_of_a_linear_model_are_those_by_hand(inputs, sigma):
    model = Linear()
    found = gradient_shares(model, GaussianTraining(sigma), inputs, sigma=0.5, samples=10, seed=4)
    weight, bias = model.linear.weight.tolist(), model.linear.bias.tolist()
    for index in range(40):
        x = torch.from_numpy(inputs.pixels([index])).flatten()
        with seeded(4, index, GRADIENT, device=torch.device("cpu")) as generator:
            noisy = (x + sigma * torch.randn(16, generator=generator)).tolist()
        expected = literal_norm(weight, bias, noisy, inputs.labels[index])
        assert found.norms[index] == pytest.approx(expected, rel=1e-5)


def test_p_a_is_the_share_of_votes_for_the_true_class(inputs):
    """Of certification's own votes; and for two classes as the formula says, up to five standard errors."""
    model = Linear(classes=2)
    two = Dataset(name="two", split="train", images=inputs.images, labels=inputs.labels % 2, classes=("a", "b"))
    found = gradient_shares(model, GaussianTraining(0.5), two, sigma=0.5, samples=1000, seed=7)
    pixels = two.pixels(range(40))
    votes = Smoothed(model, sigma=0.5, classes=2).predict(pixels, n=1000, alpha=0.5, seed=7)
    counts = [vote.stages[0].counts[label] for vote, label in zip(votes, two.labels, strict=True)]
    assert found.p_a.tolist() == [count / 1000 for count in counts]
    with torch.no_grad():
        margin = model(torch.from_numpy(pixels)) @ torch.tensor([1.0, -1.0])
        between = (model.linear.weight[0] - model.linear.weight[1]).norm()
    p = torch.special.ndtr(margin * torch.tensor(1 - 2 * two.labels) / (0.5 * between)).numpy()
    assert (np.abs(found.p_a - p) <= 5 * np.sqrt(p * (1 - p) / 1000) + 1e-3).all()


def shares():
    """Three easy inputs, two hard ones and one between."""
    return GradientShares(
        indices=np.array([4, 1, 7, 0, 2, 9]),
        labels=np.array([0, 1, 1, 0, 2, 2]),
        p_a=np.array([0.9, 0.4, 0.51, 0.5, 1.0, 0.0]),
        norms=np.array([1.0, 6.0, 2.0, 4.0, 3.0, 8.0]),
        sigma=0.5,
        samples=100,
        method={"name": "gaussian", "sigma": 0.5},
    )


def test_the_table_is_the_papers():
    found = shares()
    assert (found.easy.inputs, found.easy.mean_norm, found.easy.share) == (3, 2.0, 0.25)
    assert (found.hard.inputs, found.hard.mean_norm, found.hard.share) == (2, 7.0, pytest.approx(14 / 24))
    assert found.ratio == pytest.approx(2 / 7)


def test_the_frame_has_a_row_an_input():
    frame = shares().frame()
    assert list(frame) == ["index", "label", "p_a", "kind", "norm"]
    assert frame["index"].tolist() == [4, 1, 7, 0, 2, 9]
    assert frame["kind"].tolist() == ["easy", "hard", "easy", "even", "easy", "hard"]
    means = frame.groupby("kind")["norm"].mean()
    assert (means["easy"], means["hard"]) == (2.0, 7.0)


def test_a_group_without_inputs_has_no_mean():
    only = GradientShares(np.array([0]), np.array([0]), np.array([0.9]), np.array([2.0]), 0.5, 100)
    assert only.easy.share == 1.0
    assert only.hard.inputs == 0
    assert math.isnan(only.hard.mean_norm)
    assert math.isnan(only.ratio)
    still = GradientShares(np.array([0, 1]), np.array([0, 0]), np.array([0.9, 0.1]), np.zeros(2), 0.5, 100)
    assert (still.easy.share, math.isnan(still.ratio)) == (0.0, True)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_measured_and_leaves_the_model_alone(inputs, name):
    method, model = METHODS[name](), Linear().train()
    state = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    seen = []
    found = gradient_shares(model, method, inputs, sigma=0.5, samples=20, on_input=lambda *done: seen.append(done))
    assert seen == [(i, 40) for i in range(1, 41)]
    assert (found.norms > 0).all()
    assert found.method["name"] == name
    assert all(torch.equal(tensor, state[key]) for key, tensor in model.state_dict().items())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    # The gradient of an input is that of its own step, whatever else is asked for.
    some = gradient_shares(model, method, inputs, sigma=0.5, samples=20, indices=[31, 5])
    assert some.norms.tolist() == found.norms[[31, 5]].tolist()
    assert some.p_a.tolist() == found.p_a[[31, 5]].tolist()
    with seeded(0, 5, GRADIENT, device=torch.device("cpu")) as generator:
        pixels, labels = torch.from_numpy(inputs.pixels([5])), torch.tensor(inputs.labels[[5]])
        method.score(model, Batch(pixels, labels, torch.tensor([5]), LAST_EPOCH, generator)).loss.backward()
    assert some.norms[1] == pytest.approx(math.hypot(*(p.grad.norm() for p in model.parameters())), rel=1e-5)


def test_the_epoch_decides_what_the_method_does(inputs):
    """Before its discard epoch easy-samples does not attack: then its gradients are those of Gaussian training."""
    given = {"sigma": 0.5, "samples": 10, "indices": range(10)}
    method = EasySamples(0.5, copies=1, steps=3)
    early = gradient_shares(Linear(), method, inputs, epoch=0, **given)
    late = gradient_shares(Linear(), method, inputs, **given)
    plain = gradient_shares(Linear(), GaussianTraining(0.5), inputs, **given)
    assert early.norms.tolist() == pytest.approx(plain.norms.tolist())
    assert late.norms.mean() > 1.01 * plain.norms.mean()


def test_fixed_parameters_do_not_count(inputs):
    model = Linear()
    model.linear.bias.requires_grad_(False)
    found = gradient_shares(model, GaussianTraining(0.0), inputs, sigma=0.5, samples=10, indices=[3])
    x = torch.from_numpy(inputs.pixels([3]))
    off = model(x).softmax(dim=1)[0] - torch.eye(3)[inputs.labels[3]]
    assert found.norms[0] == pytest.approx((off.norm() * x.norm()).item(), rel=1e-5)
    model.requires_grad_(False)
    with pytest.raises(RequestError, match="no parameter of the model is trained"):
        gradient_shares(model, GaussianTraining(0.0), inputs, sigma=0.5)


def test_what_cannot_be_measured_is_refused(inputs):
    with pytest.raises(RequestError, match="at least one input"):
        gradient_shares(Linear(), GaussianTraining(0.5), inputs, sigma=0.5, indices=[])
    model = Linear()
    with torch.no_grad():
        model.linear.weight[0] = 1e38  # whether all logits overflow depends on how a processor sums
    with pytest.raises(RunError, match=r"the gradient of (39|40) inputs, first of number 0, is not finite"):
        gradient_shares(model, GaussianTraining(0.5), inputs, sigma=0.5, samples=10)
