"""The trial before any vote: who is refused, in which words, and who is not."""

import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax.engine import compilation, trial
from sigmax.engine.voter import Voter

X = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
OTHERS = "changes with the other inputs of its batch.*call .eval\\(\\)"
SIZE = "changes with the size of its batch.*reads the size of the batch"
PLACE = "changes with its place in the batch, as .*the index of a row"
RANDOM = "changes when the same batch is repeated.*take randomness out"


def conv_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 3)).eval()


NET = conv_net()


def changes(rows):
    """A network that answers otherwise in the rows of a batch that `rows(batch)` names."""

    def model(batch):
        logits = NET(batch)
        logits[rows(batch)] = logits[rows(batch)].roll(1, 1)
        return logits

    return model


def every_row(more_than):
    return changes(lambda batch: torch.full((len(batch),), len(batch) > more_than))


def leaks(share):
    return lambda batch: NET(batch) + share * NET(batch).mean(0)


def leaks_pixels(share):
    return lambda batch: NET(batch + share * batch.mean(0))


def first_row_shifts(batch):
    return NET(batch) + torch.tensor([0.01, 0.0, 0.0]) * batch[:1].mean()


CHEATERS = {
    "above 8 rows": (every_row(8), SIZE),
    "above 100 rows": (every_row(100), SIZE),
    "below 8 rows": (changes(lambda batch: torch.full((len(batch),), len(batch) < 8)), SIZE),
    "between": (changes(lambda batch: torch.full((len(batch),), 8 < len(batch) < 1000)), SIZE),
    "0.4% of the mean": (leaks(0.004), OTHERS),
    "0.4% of the mean image": (leaks_pixels(0.004), OTHERS),
    "first row": (first_row_shifts, OTHERS),
    "odd rows": (changes(lambda batch: torch.arange(len(batch)) % 2 == 1), PLACE),
    "one row": (changes(lambda batch: torch.arange(len(batch)) == 77), PLACE),
    "last row": (changes(lambda batch: torch.arange(len(batch)) == len(batch) - 1), PLACE),
    "training mode": (lambda batch: conv_net().train()(batch), OTHERS),
    "dropout": (lambda batch: nn.functional.dropout(NET(batch), 0.1), RANDOM),
}


@pytest.mark.parametrize("name", CHEATERS)
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_cheaters_are_refused_by_name(name, dtype):
    model, message = CHEATERS[name]
    with pytest.raises(sx.RequestError, match=message):
        sx.Smoothed(model, sigma=0.5, classes=3, dtype=dtype).certify(X, n=100)


def test_batches_of_one_input_are_tried_where_there_are_several():
    """Most batches that vote are noisy copies of one input; this network answers otherwise in these alone."""
    alike = changes(lambda batch: torch.full((len(batch),), len(batch) > 16 and float(batch.std(0).mean()) < 0.6))
    black_and_white = torch.tensor([0.0, 1.0]).view(2, 1, 1, 1).expand(2, 1, 8, 8)
    with pytest.raises(sx.RequestError, match=OTHERS):
        sx.Smoothed(alike, sigma=0.5, classes=3).certify(black_and_white, n=100)


@pytest.mark.parametrize("name", ["above 8 rows", "odd rows", "training mode", "first row decides"])
def test_class_ids_are_tried_too(name):
    model = CHEATERS[name][0] if name in CHEATERS else lambda batch: NET(batch) + 1000 * NET(batch[:1])
    with pytest.raises(sx.RequestError, match=r"changes with .* \(to another class\)"):
        sx.Smoothed(lambda batch: model(batch).argmax(1), sigma=0.5, classes=3).certify(X, n=100)


def test_the_form_and_the_size_that_vote_are_tried(monkeypatch):
    """Small batches go through the network as it is; what it became by compilation meets full ones."""
    sizes = []

    def compiled(model, mode):
        def forward(batch):
            sizes.append(len(batch))
            return model(batch).roll(1, 1)

        return forward if mode == "default" else model

    monkeypatch.setattr(compilation, "compiled", compiled)
    with pytest.raises(sx.RequestError, match="size of its batch.*in batches of 96 .*compile=False"):
        sx.Smoothed(conv_net(), sigma=0.5, classes=3, compile=True, batch=96).certify(X, n=100)
    assert set(sizes) == {96}
    above = every_row(100)
    sx.Smoothed(above, sigma=0.5, classes=3, batch=100).certify(X, n=100)  # such batches are never cast
    with pytest.raises(sx.RequestError, match="in batches of 101 "):
        sx.Smoothed(above, sigma=0.5, classes=3, batch=101).certify(X, n=100)


def test_full_batches_are_tried_once_for_the_same_weights():
    sizes, model = [], conv_net()
    model.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    f = sx.Smoothed(model, sigma=0.5, classes=3)
    f.check(X)
    full = f.voters["base"].batch
    assert sizes.count(full) == sizes.count(trial.between(full)) == 2
    sizes.clear()
    f.check(X)
    assert set(sizes) == {trial.SMALL}
    model[0].weight.data.mul_(2)
    f.check(X)
    assert full in sizes


def test_kernels_that_add_in_no_fixed_order_are_allowed_for():
    """Where repetition moves an answer by the rounding of 16 bits, an exchange may move it as much, and not more."""
    generator = torch.Generator().manual_seed(0)

    def rounded(logits):
        return logits + 1e-3 * torch.rand(logits.shape, generator=generator)

    sx.Smoothed(lambda batch: rounded(NET(batch)), sigma=0.5, classes=3, dtype="bf16").certify(X, n=100)
    with pytest.raises(sx.RequestError, match=OTHERS):
        sx.Smoothed(lambda batch: rounded(leaks(0.004)(batch)), sigma=0.5, classes=3, dtype="bf16").certify(X, n=100)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_honest_networks_are_accepted(dtype):
    digits = sx.data.load("digits").pixels([0, 1])
    sx.load("zoo:digits-cascade", dtype=dtype).check(digits)
    sx.Smoothed(conv_net(), sigma=0.5, classes=3, dtype=dtype).check(X)
    rounding = conv_net().bfloat16()
    sx.Smoothed(lambda batch: rounding(batch.bfloat16()), sigma=0.5, classes=3).check(X)


@pytest.mark.slow
def test_honest_compiled_networks_are_accepted():
    for dtype in ("fp32", "bf16"):
        Voter(conv_net(), classes=3, compile=True, dtype=dtype, batch=64).check(X, 0.5)


class Sequential(nn.Module):
    """A recurrent net whose batch axis is taken for time: each answer depends on the rows before."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.RNN(4, 3)
        with torch.no_grad():
            self.cell.weight_hh_l0.mul_(8)

    def forward(self, batch):
        return self.cell(batch)[0].flatten(1)[:, :3]


def masked(batch):
    mean = batch.mean().expand(len(batch))
    return torch.stack([mean, -mean, torch.full_like(mean, -1e9)], 1)


def masked_out(batch):
    mean = batch.mean().expand(len(batch))
    return torch.stack([mean, -mean, torch.full_like(mean, -torch.inf)], 1)


def shifted(batch):
    mean = batch.mean().expand(len(batch))
    return torch.stack([mean, -mean, 0 * mean], 1) + 1000


def first_row_decides(batch):
    return (batch[:1].sum() > 0).long().expand(len(batch))


@pytest.mark.parametrize("model", [Sequential(), masked, masked_out, shifted, first_row_decides])
def test_dependence_on_other_rows_is_seen_wherever_they_stand(model):
    with pytest.raises(sx.RequestError, match="changes with the other inputs of its batch"):
        sx.Smoothed(model, sigma=0.5, classes=3, domain=None).certify(torch.full((1, 1, 4), 0.02), n=100)


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.GroupNorm(1, 1), nn.Flatten(), nn.Linear(16, 3)),
        nn.Sequential(nn.Flatten(), nn.LayerNorm(16), nn.Linear(16, 3)),
        lambda batch: torch.zeros(len(batch), 3),
        lambda batch: batch.flatten(1)[:, :3] * 1e-30,
        lambda batch: batch.flatten(1)[:, :3] * 1e30,
        lambda batch: torch.cat([batch.flatten(1)[:, :2], torch.full((len(batch), 1), -torch.inf)], 1),
    ],
)
def test_models_that_look_at_each_input_alone_are_accepted(model):
    sx.Smoothed(model, sigma=0.5, classes=3).certify(torch.rand(2, 1, 4, 4), n=100)
