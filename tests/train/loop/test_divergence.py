import json
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import nn

from sigmax.errors import RunError
from sigmax.train import Examples, GaussianTraining, Partial, Score, Settings, fit
from sigmax.train.loop.distributed import ALONE
from sigmax.train.loop.divergence import WINDOW, Guard

SETTINGS = Settings(epochs=4, batch=16, lr=0.05)  # sixty images: four steps an epoch


@dataclass(frozen=True)
class Breaking(GaussianTraining):
    """GaussianTraining, but from one step of one epoch on the loss or the gradient is no number."""

    name: ClassVar[str] = "breaking"
    epoch: int = 2
    step: int = 1
    factor: float = float("nan")
    done: ClassVar[list] = []

    def score(self, model, batch):
        self.done.append(batch.epoch)
        loss, accuracy = super().score(model, batch)
        if batch.epoch == self.epoch and self.done.count(batch.epoch) > self.step:
            loss = loss * self.factor
        return Score(loss, accuracy)


@pytest.fixture
def train(bars, tmp_path):
    examples = Examples(torch.from_numpy(bars.pixels(range(60))), torch.tensor(bars.labels))

    def run(method, settings=SETTINGS, **hooks):
        Breaking.done.clear()
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
        partial = Partial(tmp_path / "x.partial", settings.plan())
        fit(model, method, examples, settings, partial=partial, metrics=tmp_path / "x.jsonl", **hooks)
        return model

    return run


@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_stops_the_run_at_once(train, tmp_path, factor):
    steps = []
    with pytest.raises(RunError) as caught:
        train(Breaking(0.25, factor=factor), on_step=lambda done, total: steps.append(done))
    assert Breaking.done == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]  # the step that broke was the last
    assert steps == list(range(1, 10))
    message = str(caught.value)
    for part in (
        f"the loss became {factor} in epoch 3: training diverged at step 2 of the epoch's 4",
        "method breaking (sigma=0.25, copies=1, epoch=2, step=1",
        f"sgd at learning rate {SETTINGS.learning_rate(2.25):.3g}, batch 16 and precision fp32",
        f"{tmp_path / 'x.partial'} holds the state after an earlier epoch",
        "a smaller lr than 0.05 or clip=1 to limit gradients",
    ):
        assert part in message
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 2


def test_the_state_kept_is_that_of_the_epoch_before(train, tmp_path):
    with pytest.raises(RunError):
        train(Breaking(0.25))
    kept = Partial(tmp_path / "x.partial", SETTINGS.plan()).load()
    assert [report["epoch"] for report in kept["reports"]] == [1, 2]
    assert all(tensor.isfinite().all() for tensor in kept["model"].values())
    # It is good: where the method does not break it, the run goes on and ends as if nothing had been.
    resumed = train(GaussianTraining(0.25))
    (tmp_path / "x.partial").unlink()
    whole = train(GaussianTraining(0.25))
    assert torch.equal(resumed[1].weight, whole[1].weight)


def test_weights_broken_by_the_last_step_are_not_kept(train, tmp_path):
    """A loss that is finite with a gradient that is not: nothing but the weights shows it."""

    @dataclass(frozen=True)
    class Steep(Breaking):
        def score(self, model, batch):
            self.done.append(batch.epoch)
            loss, accuracy = GaussianTraining.score(self, model, batch)
            if self.done.count(self.epoch) == 4:
                loss = loss + (loss - loss.detach()).clamp(min=0).sqrt()  # slope infinite at zero
            return Score(loss, accuracy)

    with pytest.raises(RunError, match=r"weights became infinite in epoch 3: .* step 4 of the epoch's 4"):
        train(Steep(0.25))
    kept = Partial(tmp_path / "x.partial", SETTINGS.plan()).load()
    assert [json.loads(line)["epoch"] for line in (tmp_path / "x.jsonl").read_text().splitlines()] == [1, 2]
    assert all(tensor.isfinite().all() for tensor in kept["model"].values())


def test_the_first_epoch_has_nothing_to_keep(train, tmp_path):
    with pytest.raises(RunError, match=r"in epoch 1: .* step 1 of .* no epoch was finished"):
        train(Breaking(0.25, epoch=0, step=0))
    assert not (tmp_path / "x.partial").exists()


def test_a_gpu_is_asked_now_and_then_and_the_step_is_still_told(tmp_path):
    """Only the kind of device is looked at, so this runs without one."""
    guard = Guard(SETTINGS, GaussianTraining(0.5).plan(), ALONE, torch.device("cuda"), tmp_path / "x.partial")
    steps, broken = 3 * WINDOW, WINDOW + 3
    for step in range(2 * WINDOW - 1):
        guard.see(torch.tensor(float("nan") if step >= broken else 1.0), 0, step, steps)
    with pytest.raises(RunError, match=f"step {broken + 1} of the epoch's {steps}"):
        guard.see(torch.tensor(1.0), 0, 2 * WINDOW - 1, steps)


def test_the_last_steps_of_an_epoch_are_always_looked_at(tmp_path):
    guard = Guard(SETTINGS, GaussianTraining(0.5).plan(), ALONE, torch.device("cuda"), tmp_path / "x.partial")
    guard.see(torch.tensor(float("inf")), 0, 0, 2)
    with pytest.raises(RunError, match="the loss became inf in epoch 1: training diverged at step 1 of"):
        guard.see(torch.tensor(1.0), 0, 1, 2)


def test_advice_for_half_precision(tmp_path):
    settings = Settings(precision="fp16", clip=1.0)
    guard = Guard(settings, GaussianTraining(0.5).plan(), ALONE, torch.device("cpu"), tmp_path / "x.partial")
    with pytest.raises(RunError, match='smaller lr than 0.1 or precision="bf16", which has the range of fp32'):
        guard.see(torch.tensor(float("nan")), 0, 0, 2)
