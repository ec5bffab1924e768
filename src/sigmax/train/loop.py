"""The training loop: one for every method.

Randomness is addressed, not consumed: an epoch's generator is seeded by (seed, epoch), so an epoch does not
depend on how the run got to it. Together with the weights and the optimiser's memory, saved after each epoch,
that makes a resumed run end with the very weights of an uninterrupted one, bit for bit on the same kind of
machine. (On a GPU a network could break this with kernels other than cuDNN's; the registered ones do not.) What
`validate` draws has an address of its own: watching a run does not change it.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from sigmax.errors import RunError
from sigmax.train import progress
from sigmax.train.augment import augment
from sigmax.train.method import Batch, Examples, Method, Score
from sigmax.train.partial import Partial
from sigmax.train.progress import EpochReport, OnEpoch, OnResume, OnStep
from sigmax.train.settings import Settings

WEIGHTS = 0  # the address of the first weights; epoch e, counted from 0, has the address e + 1
VALIDATION = 1  # with the address of its epoch: what is drawn while the run is watched

Validate = Callable[[nn.Module, int], Mapping[str, Any]]  # model in eval mode, epoch from 0 -> plain values


def fit(
    model: nn.Module,
    method: Method,
    examples: Examples,
    settings: Settings,
    *,
    partial: Partial,
    metrics: Path,
    validate: Validate | None = None,
    on_epoch: OnEpoch | None = None,
    on_step: OnStep | None = None,
    on_resume: OnResume | None = None,
) -> EpochReport:
    """Train the model in place, to the end, and return the last epoch's report. The model is left in eval mode.

    Goes on from `partial` where that exists; the caller removes it once the result is safe. torch's global
    generator is used, for layers that draw from it, and put back afterwards.

    `validate` looks at the model after every epoch; what it finds becomes the report's `validation`. Its random
    numbers must come from torch's global generator, which is seeded for it, or from one it seeds by the epoch.
    `on_resume` is told, before anything is trained, which epochs an earlier attempt had finished.
    """
    run = _Run(model, method, examples, settings, settings.make_optimiser(model.parameters()), validate)
    with progress.metrics_file(metrics) as file, _repeatable(settings.threads):
        run.restore(partial.load())
        progress.rewrite(file, run.reports)
        if on_resume is not None:
            on_resume(tuple(run.reports))
        while len(run.reports) < settings.epochs:
            report = run.epoch(on_step)
            partial.save(run.state())
            progress.append(file, report)
            if on_epoch is not None:
                on_epoch(report)
    model.eval()
    return run.reports[-1]


@contextmanager
def seeded(seed: int, *address: int, device: torch.device) -> Iterator[torch.Generator]:
    """A generator on the device, seeded by the address; torch's global ones are seeded too, and restored."""
    mixed = int(np.random.SeedSequence([seed, *address]).generate_state(1, np.uint64)[0])
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(mixed)
        yield torch.Generator(device).manual_seed(mixed)


@contextmanager
def _repeatable(threads: int) -> Iterator[None]:
    """Fix what the last bit of a sum depends on: the number of CPU threads, and the choice of GPU kernels."""
    before, cudnn = torch.get_num_threads(), torch.backends.cudnn
    kernels = cudnn.benchmark, cudnn.deterministic
    torch.set_num_threads(threads)
    cudnn.benchmark, cudnn.deterministic = False, True
    try:
        yield
    finally:
        torch.set_num_threads(before)
        cudnn.benchmark, cudnn.deterministic = kernels


@dataclass
class _Run:
    """A run between two epochs."""

    model: nn.Module
    method: Method
    examples: Examples
    settings: Settings
    optimiser: Optimizer
    validate: Validate | None = None
    reports: list[EpochReport] = field(default_factory=list)

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "method": self.method.state_dict(),
            "reports": [asdict(report) for report in self.reports],
        }

    def restore(self, state: dict[str, Any] | None) -> None:
        if state is not None:
            self.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.method.load_state_dict(state["method"])
            self.reports = [EpochReport(**report) for report in state["reports"]]

    def epoch(self, on_step: OnStep | None) -> EpochReport:
        """Train through all examples once, in an order of the epoch's own, and look at what came of it."""
        began, epoch = perf_counter(), len(self.reports)
        steps = math.ceil(len(self.examples) / self.settings.batch)
        # Sums stay on the device: asking for a number at each step would make it wait.
        totals = torch.zeros(2, device=self.examples.pixels.device)
        with seeded(self.settings.seed, epoch + 1, device=self.examples.pixels.device) as generator:
            self.model.eval()  # whatever the epoch before, or an earlier attempt, left it in
            self.method.begin_epoch(self.model, self.examples, epoch)
            self.model.train()
            for step, batch in enumerate(self._batches(epoch, steps, generator)):
                score = self._step(batch, epoch + step / steps)
                totals += torch.stack([score.loss.detach(), score.accuracy]) * len(batch.indices)
                if on_step is not None:
                    on_step(epoch * steps + step + 1, self.settings.epochs * steps)
        loss, accuracy = (totals / len(self.examples)).tolist()
        self._refuse_divergence(loss, epoch)
        lr = self.settings.learning_rate(epoch + (steps - 1) / steps)
        found = self._validated(epoch)
        report = EpochReport(epoch + 1, self.settings.epochs, loss, accuracy, lr, perf_counter() - began, found)
        self.reports.append(report)
        return report

    def _validated(self, epoch: int) -> dict[str, Any]:
        if self.validate is None:
            return {}
        self.model.eval()
        device = self.examples.pixels.device
        with seeded(self.settings.seed, epoch + 1, VALIDATION, device=device), torch.no_grad():
            found = dict(self.validate(self.model, epoch))
        plain: dict[str, Any] = json.loads(json.dumps(found))  # as a resumed run will read it back
        return plain

    def _batches(self, epoch: int, steps: int, generator: torch.Generator) -> Iterator[Batch]:
        device = self.examples.pixels.device
        order = torch.randperm(len(self.examples), device=device, generator=generator)
        for indices in order.tensor_split(steps):
            pixels = augment(self.settings.augment, self.examples.pixels[indices], generator)
            yield Batch(pixels, self.examples.targets[indices], indices, epoch, generator)

    def _step(self, batch: Batch, time: float) -> Score:
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.learning_rate(time)
        score = self.method.score(self.model, batch)
        self.optimiser.zero_grad(set_to_none=True)
        score.loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        return score

    def _refuse_divergence(self, loss: float, epoch: int) -> None:
        if not math.isfinite(loss):
            raise RunError(
                f"the loss became {loss} in epoch {epoch + 1}: training diverged; start a new run with a smaller "
                f"lr than {self.settings.lr}"
            )
