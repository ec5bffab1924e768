"""The training loop: one for every method.

Randomness is addressed, not consumed: an epoch's generator is seeded by (seed, epoch). With weights and the optimiser's
memory, saved between epochs, that makes a resumed run end with the very weights of an uninterrupted one, bit for bit on
the same kind of machine. (On a GPU a network could break this with kernels other than cuDNN's.) What `validate` samples
has an address of its own: watching a run does not change it.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor, nn

from sigmax.progress import shown, silent
from sigmax.train.loop import progress
from sigmax.train.loop.augment import augment
from sigmax.train.loop.distributed import ALONE, Team
from sigmax.train.loop.divergence import Guard
from sigmax.train.loop.ema import Averaged
from sigmax.train.loop.noisy import Share, SharedGenerator
from sigmax.train.loop.partial import Partial
from sigmax.train.loop.precision import Update, computed
from sigmax.train.loop.progress import EpochReport, OnEpoch, OnResume, OnStep
from sigmax.train.loop.settings import Settings
from sigmax.train.methods.base import Batch, Examples, Method

WEIGHTS = 0  # the address of the first weights; epoch e, counted from 0, has the address e + 1
VALIDATION = 1  # with the address of its epoch: what is sampled while the run is watched

Validate = Callable[[nn.Module, int], Mapping[str, Any]]  # model in eval mode, epoch from 0 -> plain values


class Watching(TypedDict, total=False):
    """What a caller watches a run with."""

    on_epoch: OnEpoch | None
    on_step: OnStep | None  # without it a terminal or a notebook shows a bar, and `sigmax.silent` shows none


class Callbacks(Watching, total=False):
    """All that watches a run, as keywords of `fit`."""

    validate: Validate | None
    on_resume: OnResume | None


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
    team: Team = ALONE,
) -> EpochReport:
    """Train the model in place, to the end, and return the last epoch's report. The model is left in eval mode.

    Goes on from `partial` where that exists; the caller removes it once the result is safe. A run that is interrupted
    or fails keeps the last epoch that it finished. `validate` gets the model (its averaged weights, if there are any)
    after every epoch; its random numbers must come from torch's global generator, which is seeded for it, or from one
    that it seeds by the epoch. `on_resume` is called with the epochs that an earlier attempt had finished. Every
    process of a `team` calls this; callbacks and files are the first one's.
    """
    watched = on_step is None  # by a bar of this function's own, which says beside itself how well it goes
    with ExitStack() as stack:
        on_step = stack.enter_context(shown(on_step if team.leads else silent, f"train {metrics.name.split('.')[0]}"))
        file = team.at_first(lambda: stack.enter_context(progress.metrics_file(metrics)))
        stack.enter_context(_repeatable(settings.threads))
        run = _Run(model, method, examples, settings, team=team, validate=validate, kept=partial.path)
        run.restore(team.from_first(partial.load))
        if file is not None:
            progress.rewrite(file, run.reports)
            if on_resume is not None:
                on_resume(tuple(run.reports))
        if team.leads:
            stack.callback(partial.keep_held)  # however it ends: Ctrl-C and SIGTERM lose only the epoch they are in
        while len(run.reports) < settings.epochs:
            report = run.epoch(on_step)
            if watched and hasattr(on_step, "note"):
                on_step.note = report.line()
            team.at_first(lambda: partial.keep(run.state, last=len(run.reports) == settings.epochs))
            if file is not None:
                progress.append(file, report)
                if on_epoch is not None:
                    on_epoch(report)
        run.finish()
    return run.reports[-1]


@contextmanager
def seeded(seed: int, *address: int, device: torch.device) -> Iterator[SharedGenerator]:
    """A generator on the device, seeded by the address; torch's global ones are seeded too, and restored."""
    mixed = int(np.random.SeedSequence([seed, *address]).generate_state(1, np.uint64)[0])
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(mixed)
        generator = SharedGenerator(device)
        generator.manual_seed(mixed)
        yield generator


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


class _Run:
    """A run between two epochs."""

    def __init__(
        self,
        model: nn.Module,
        method: Method,
        examples: Examples,
        settings: Settings,
        *,
        team: Team,
        validate: Validate | None,
        kept: Path,
    ) -> None:
        self.model, self.method, self.examples, self.settings = model, method, examples, settings
        self.team, self.validate = team, validate
        self.device = examples.device
        # The same weights three times: plain, as they are computed, and as the processes share the work.
        self.forward = computed(model, settings, self.device)
        self.network = team.wrapped(self.forward, self.device)
        self.update = Update(settings.make_optimiser(model.parameters()), settings, self.device)
        self.averaged = Averaged(model, settings.ema) if settings.ema > 0 else None
        self.guard = Guard(settings, method.plan(), team, self.device, kept)
        self.reports: list[EpochReport] = []

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            **self.update.state_dict(),
            "averaged": None if self.averaged is None else self.averaged.state_dict(),
            "method": self.method.state_dict(),
            "reports": [asdict(report) for report in self.reports],
        }

    def restore(self, state: dict[str, Any] | None) -> None:
        if state is not None:
            self.model.load_state_dict(state["model"])
            self.update.load_state_dict(state)
            if self.averaged is not None:
                self.averaged.load_state_dict(state["averaged"])
            self.method.load_state_dict(state["method"])
            self.reports = [EpochReport(**report) for report in state["reports"]]

    def finish(self) -> None:
        """Leave in the model what the run was for, in the usual layout."""
        if self.averaged is not None:
            self.model.load_state_dict(self.averaged.module.state_dict())
        self.model.eval().to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]

    def epoch(self, on_step: OnStep) -> EpochReport:
        """Train through the epoch's examples once, in an order of its own, and look at what came of it."""
        began, epoch = perf_counter(), len(self.reports)
        with seeded(self.settings.seed, epoch + 1, device=self.device) as generator:
            self.network.eval()  # whatever the epoch before, or an earlier attempt, left it in
            self.method.begin_epoch(self.forward, self.examples, epoch)
            order = self.team.same(self.method.order(len(self.examples), epoch, generator))
            self.team.part_ways()
            self.network.train()
            loss, accuracy, lr = self._train(epoch, order, generator, on_step)
        found = self.team.from_first(lambda: self._validated(epoch))
        seconds = perf_counter() - began
        report = EpochReport(epoch + 1, self.settings.epochs, loss, accuracy, lr, seconds, found, len(order))
        self.reports.append(report)
        return report

    def _train(
        self, epoch: int, order: Tensor, generator: SharedGenerator, on_step: OnStep
    ) -> tuple[float, float, float]:
        """The epoch's steps: the mean loss and accuracy over its images, and the last learning rate."""
        steps = self._steps(len(order))
        usual = self._steps(len(self.examples))  # progress counts these; an epoch may have more or fewer
        # Sums stay on the device: asking for a number at each step would make it wait.
        totals, lr, seen = torch.zeros(2, device=self.device), self.settings.lr, []
        for step, (batch, share) in enumerate(self._batches(epoch, order, steps, generator)):
            lr = self.settings.learning_rate(epoch + step / steps)
            score = self.method.score(self.network, batch)
            loss = self.team.weighed(score.loss, share)
            self.update(loss, lr)
            if self.averaged is not None:
                self.averaged.update_parameters(self.model)
            totals += torch.stack([score.loss.detach(), score.accuracy]) * len(batch.indices)
            seen.append(batch.indices)
            self.guard.see(loss.detach(), epoch, step, steps)
            on_step(epoch * usual + (step + 1) * usual // steps, self.settings.epochs * usual)
        self.team.merge(self.method.per_example(), torch.cat(seen))
        self.guard.check_weights(self.model, epoch, steps)
        mean_loss, accuracy = (self.team.sum(totals) / len(order)).tolist()
        return mean_loss, accuracy, lr

    def _steps(self, images: int) -> int:
        return math.ceil(images / self.method.images(self.settings.batch))

    def _batches(
        self, epoch: int, order: Tensor, steps: int, generator: SharedGenerator
    ) -> Iterator[tuple[Batch, Share]]:
        """This process's part of every batch, and which part it is."""
        parts = order.tensor_split(steps)
        for indices, images in zip(parts, self.examples.batches(parts), strict=True):
            pixels = augment(self.settings.augment, images, generator)
            share = generator.share = self.team.share(len(indices))
            mine = slice(share.first, share.last)
            targets = self.examples.targets[indices[mine]]
            yield Batch(pixels[mine], targets, indices[mine], epoch, generator), share

    def _validated(self, epoch: int) -> dict[str, Any]:
        if self.validate is None:
            return {}
        model = self.model if self.averaged is None else self.averaged.module
        model.eval()
        with seeded(self.settings.seed, epoch + 1, VALIDATION, device=self.device), torch.no_grad():
            found = dict(self.validate(model, epoch))
        plain: dict[str, Any] = json.loads(json.dumps(found))  # as a resumed run will read it back
        return plain
