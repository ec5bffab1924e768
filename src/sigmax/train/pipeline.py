"""Experts, labels, router, fine-tuning, router again, certificates: one resumable job.

Every phase leaves files that say what they were made for. So a phase already done is skipped, one cut short goes
on, and one whose request has changed since is refused by the file itself, before anything is overwritten.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from sigmax.certify.dual import Dual
from sigmax.certify.dual_rule import Combination
from sigmax.certify.scheme import Scheme
from sigmax.data import Dataset
from sigmax.records.run import Run, read
from sigmax.system.folder import load
from sigmax.system.job import certify_run
from sigmax.train.config_table import inside
from sigmax.train.finetune import fine_tune
from sigmax.train.pipeline_check import (
    check_data,
    check_devices,
    check_networks,
    check_systems,
    warn_of_choice,
    warn_of_noise,
)
from sigmax.train.pipeline_claim import claim, refuse_other
from sigmax.train.pipeline_config import PipelineConfig
from sigmax.train.pipeline_data import PipelineData
from sigmax.train.pipeline_experts import Experts
from sigmax.train.pipeline_files import certified, fine_tuned, saved, training_of
from sigmax.train.pipeline_phase import Advance, OnWarning, Phase, Progress
from sigmax.train.pipeline_routers import Routers
from sigmax.train.pipeline_tree import Node

__all__ = ["Phase", "Pipeline"]


@dataclass(frozen=True)
class Pipeline:
    """The phases of a configuration, in order; `run` does what is left of them."""

    config: PipelineConfig
    on_warning: OnWarning | None = None

    def check(self, *, devices: bool = True) -> None:
        """Raise for all that can be known to be wrong before any work. Nothing is written.

        `devices=False`: devices that are not on this machine are warned of, not refused.
        """
        config, warn = self.config, self.on_warning or (lambda _: None)
        with inside(str(config.file)) if config.file else nullcontext():
            refuse_other(config)
            check_devices(config, None if devices else warn)
            data = self._data
            check_data(config, data)
            check_networks(config, data.train)
            noises = list(config.experts.sigmas)
            if config.experts.systems:
                given = self._experts.load({"device": "cpu"})
                check_systems(config, given, data.train)
                noises = [expert.rule.largest_noise for expert in given]
        warn_of_noise(config, noises, warn)
        warn_of_choice(config, warn)

    def run(self, progress: Progress) -> list[Run]:
        """Do what is left, and return the runs: those of the experts, then those of the dual systems.

        What is wrong is said first. Phases with something to do ask `progress` for a bar; the others are only seen
        to be what is asked for.
        """
        self.check()
        claim(self.config)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="the router's sigma")  # every Dual would say it again
            for phase in self.phases():
                with nullcontext(_unseen) if phase.state == "done" else progress(phase.name) as watch:
                    phase.work(watch)
        return [read(path) for phase in self._certifications() for path in phase.leaves]

    def phases(self) -> list[Phase]:
        """All phases, done or not."""
        return [*self._experts.phases(), *self._steps(), *self._certifications()]

    @property
    def train(self) -> Dataset:
        """The images to train on and to label."""
        return self._data.train

    @property
    def test(self) -> Dataset:
        """The images to certify."""
        return self._data.test

    @cached_property
    def _data(self) -> PipelineData:
        return PipelineData(self.config)

    @cached_property
    def _experts(self) -> Experts:
        return Experts(self.config, self._data)

    @cached_property
    def _routers(self) -> Routers:
        return Routers(self.config, self._data, self._load_experts, self._experts.network, self.on_warning)

    @property
    def names(self) -> list[str]:
        """What the experts are called in files and tables."""
        return self._experts.names

    def experts(self, tuned: int) -> list[Scheme]:
        """The experts after that many fine-tunings, to be certified."""
        return self._load_experts(tuned, self.config.certify.how(self.config.device))

    def _load_experts(self, tuned: int, how: Mapping[str, Any], fold: int = -1) -> list[Scheme]:
        if not tuned:
            return self._experts.load(how, fold)
        system = load(self._tuned(tuned), **how)
        assert isinstance(system, Dual)
        return list(system.experts)

    # Router, fine-tuning, router ...

    def _tuned(self, count: int) -> Path:
        return self.config.out / f"tuned-{count}"

    def _steps(self) -> Iterator[Phase]:
        routers = tuned = 0
        for step in self.config.steps:
            if step == "router":
                routers += 1
                yield from self._routers.phases(routers, tuned)
            else:
                tuned += 1
                system = self._tuned(tuned)
                work = partial(self._fine_tune, system, routers, tuned - 1)
                yield Phase(f"fine-tune {system.name}", (system,), work, partial(fine_tuned, system))

    def _fine_tune(self, out: Path, routers: int, tuned: int, watch: Advance) -> None:
        how = self.config.finetune
        with_labels = self.config.labels.how(self.config.device)
        dual = self._dual(self.config.tree, "consensus", routers=routers, tuned=tuned, how=with_labels)
        assert isinstance(dual, Dual)
        system = fine_tune(
            dual,
            self._data.taught,
            training_of(out),
            settings=how.training,
            n=how.votes,
            seed=how.training.seed,
            consistency=how.consistency,
            on_step=watch,
            on_warning=None if fine_tuned(out) else self.on_warning,  # said when it was done
        )
        saved(system, out, self.config.store)

    def _dual(self, node: Node, rule: Combination, *, routers: int, tuned: int, how: Mapping[str, Any]) -> Scheme:
        """The router trained last, or one below it, and the experts as they are then."""
        experts, leans = self._load_experts(tuned, how), self._routers.balance(routers).leans()
        return self._routers.system(node, rule, count=routers, experts=experts, how=how, leans=leans)

    # What came of it. Names tell the rounds apart, so that steps can be added later.

    def systems(self) -> dict[Path, Combination]:
        """The folders of the dual systems that are certified in the end, with their rules."""
        return {self._folder(self.config.tree, rule): rule for rule in self.config.certify.rules}

    def _folder(self, node: Node, rule: Combination) -> Path:
        routers, tuned = self.config.steps.count("router"), self.config.steps.count("finetune")
        rounds = (f"-router-{routers}" if routers > 1 else "") + (f"-tuned-{tuned}" if tuned else "")
        kind = "dual" if node.inner is None else f"inner-{node.inner}"
        return self.config.out / "systems" / f"{kind}-{rule}{rounds}"

    def _certifications(self) -> Iterator[Phase]:
        tuned = self.config.steps.count("finetune")
        if self.config.certify.experts:
            for j, name in enumerate(self.names):
                run = f"{name}-tuned-{tuned}" if tuned else name
                yield self._certification(run, partial(self._expert, j, tuned))
        for node in self.config.tree.routers():
            if node.inner is not None and not self.config.certify.experts:
                continue
            for rule in self.config.certify.rules:
                folder = self._folder(node, rule)
                yield self._certification(folder.name, partial(self._final, node, folder, rule))

    def _expert(self, j: int, tuned: int) -> Scheme:
        return self.experts(tuned)[j]

    def _final(self, node: Node, folder: Path, rule: Combination) -> Scheme:
        routers, tuned = self.config.steps.count("router"), self.config.steps.count("finetune")
        how = self.config.certify.how(self.config.device)
        system = self._dual(node, rule, routers=routers, tuned=tuned, how=how)
        saved(system, folder, self.config.store)
        return system

    def _certification(self, name: str, system: Callable[[], Scheme]) -> Phase:
        how, on = self.config.certify, self.config.data.test
        usual = {"start": 0, "skip": 1, "max": None}
        told = "".join(f"-{key}{getattr(how, key)}" for key, value in usual.items() if getattr(how, key) != value)
        where = "" if on == "test" else f"-on-{on}"
        out = self.config.out / "runs" / f"{name}{where}{told}.jsonl"

        def work(watch: Advance) -> None:
            certify_run(system(), self.test, out, **how.request, watch=watch)

        return Phase(f"certify {name}", (out,), work, partial(certified, out))


def _unseen(done: int, total: int) -> None:
    """An `Advance` without a bar."""
