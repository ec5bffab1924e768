import pytest
import torch
from torch import nn

from sigmax.train import Examples, GaussianTraining, Partial, Settings, fit
from sigmax.train.loop.ema import Averaged


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def literal(history, decay):
    """The mean as its formula says, in double precision; `history` holds the weights after every step."""
    mean = history[0].double()
    for t, weights in enumerate(history[1:], start=2):
        kept = min(decay, t / (t + 9))
        mean = kept * mean + (1 - kept) * weights.double()
    return mean


def floats(model):
    return {name: t.clone() for name, t in model.state_dict().items() if t.is_floating_point()}


@pytest.mark.parametrize("decay", [0.3, 0.9, 0.999])
def test_the_mean_is_that_of_the_formula(decay):
    model = network()
    averaged = Averaged(model, decay)
    history = []
    for _ in range(30):
        with torch.no_grad():
            for tensor in (*model.parameters(), model[2].running_mean, model[2].running_var):
                tensor.add_(torch.randn_like(tensor))
        model[2].num_batches_tracked += 1
        averaged.update_parameters(model)
        history.append(floats(model))
    found = averaged.module.state_dict()
    for name in history[0]:
        expected = literal([one[name] for one in history], decay)
        assert torch.allclose(found[name].double(), expected, rtol=0, atol=1e-5)
    assert found["2.num_batches_tracked"] == 30
    assert not averaged.module.training
    assert not any(weight.requires_grad for weight in averaged.module.parameters())


def test_what_is_remembered_is_taken_up():
    model = network()
    first, second = Averaged(model, 0.9), Averaged(model, 0.9)
    with torch.no_grad():
        model[1].weight += 1
    first.update_parameters(model)
    second.load_state_dict(first.state_dict())
    with torch.no_grad():
        model[1].weight += 1
    for averaged in (first, second):
        averaged.update_parameters(model)
    assert torch.equal(first.module[1].weight, second.module[1].weight)
    assert not torch.equal(first.module[1].weight, model[1].weight)


def test_the_averaged_network_is_validated_and_kept(bars, tmp_path):
    """Against the mean of what a plain run's weights were after every step."""
    examples = Examples(torch.from_numpy(bars.pixels(range(60))), torch.tensor(bars.labels))

    def train(model, ema, **hooks):
        settings = Settings(epochs=3, batch=16, lr=0.05, ema=ema)
        partial = Partial(tmp_path / f"{ema}.partial", settings.plan())
        fit(model, GaussianTraining(0.3), examples, settings, partial=partial, metrics=tmp_path / f"{ema}", **hooks)

    plain, kept, seen = network(), network(), []
    history = []
    train(plain, 0.0, on_step=lambda done, total: history.append(floats(plain)))
    train(kept, 0.8, validate=lambda model, epoch: seen.append(floats(model)) or {})
    assert len(history) == 12
    for name in history[0]:
        for epoch, found in enumerate(seen):
            expected = literal([one[name] for one in history[: 4 * epoch + 4]], 0.8)
            assert torch.allclose(found[name].double(), expected, rtol=0, atol=1e-5)
        assert torch.equal(kept.state_dict()[name], seen[-1][name])
        assert not torch.equal(kept.state_dict()[name], history[-1][name])
