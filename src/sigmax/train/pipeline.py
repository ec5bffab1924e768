"""Experts, labels, router, fine-tuning, router again, certificates: one resumable job.

Every phase leaves files that say what they were made for. So a phase already done is skipped, one cut short goes
on, and one whose request has changed since is refused by the file itself, before anything is overwritten.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from sigmax import data, models
from sigmax.certify.dual import Dual
from sigmax.certify.dual_rule import Combination
from sigmax.certify.scheme import Scheme
from sigmax.certify.smoothed import Smoothed
from sigmax.data import Dataset
from sigmax.records.run import Run, read
from sigmax.system.folder import HEAD, load, load_together
from sigmax.system.job import certify_run
from sigmax.train.classifier import train_classifier
from sigmax.train.config_table import inside
from sigmax.train.finetune import Mixed, fine_tune
from sigmax.train.gaussian import Gaussian
from sigmax.train.labels import make_labels, read_labels
from sigmax.train.method import Method
from sigmax.train.pipeline_check import check_data, check_devices, check_networks, check_systems, warn_of_noise
from sigmax.train.pipeline_claim import claim, refuse_other
from sigmax.train.pipeline_config import PipelineConfig
from sigmax.train.pipeline_files import certified, fine_tuned, labelled, saved, training_of
from sigmax.train.router import train_router

Advance = Callable[[int, int], None]  # (done, total)
Progress = Callable[[str], AbstractContextManager[Advance]]  # a bar for each phase
OnWarning = Callable[[str], None]


@dataclass(frozen=True)
class Phase:
    """One piece of work: its name, what it leaves, how to do it or go on with it, and whether it is done."""

    name: str
    leaves: tuple[Path, ...]
    work: Callable[[Advance], object]
    finished: Callable[[], bool]

    @property
    def state(self) -> str:
        """`done`, `begun` or `to do`, from the files alone; `work` finds out whether they are what is asked for."""
        if self.finished():
            return "done"
        traces = [Path(f"{path}{end}") for path in self.leaves for end in ("", ".partial", ".training")]
        return "begun" if any(trace.exists() for trace in traces) else "to do"


@dataclass(frozen=True)
class Pipeline:
    """The phases of a configuration, in order; `run` does what is left of them."""

    config: PipelineConfig
    on_warning: OnWarning | None = None

    def check(self) -> None:
        """Raise for all that can be known to be wrong before any work. Nothing is written."""
        config = self.config
        with inside(str(config.file)) if config.file else nullcontext():
            refuse_other(config)
            check_devices(config)
            check_data(config, self.train, self.test)
            check_networks(config, self.train)
            largest = max(config.experts.sigmas, default=0.0)
            if config.experts.systems:
                given = self.experts(tuned=0)
                check_systems(config, given, self.train)
                largest = max(expert.rule.largest_noise for expert in given)
        warn_of_noise(config, largest, self.on_warning or (lambda _: None))

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
        return [*self._expert_trainings(), *self._steps(), *self._certifications()]

    @cached_property
    def train(self) -> Dataset:
        """The images to train on and to label."""
        return self._load(self.config.data.train)

    @cached_property
    def test(self) -> Dataset:
        """The images to certify."""
        return self._load(self.config.data.test)

    def _load(self, split: str) -> Dataset:
        return data.load(self.config.data.source, split, size=self.config.data.image_size)

    # The experts as they are at first: trained here, or given as systems.

    @cached_property
    def names(self) -> list[str]:
        """What the experts are called in files and tables."""
        experts = self.config.experts
        if experts.systems:
            return [f"expert-{j}" for j in range(len(experts.systems))]
        return [f"sigma-{sigma!r}" for sigma in experts.sigmas]  # every digit: no two may share a file

    def _folders(self) -> list[Path]:
        if self.config.experts.systems:
            return [Path(system) for system in self.config.experts.systems]
        return [self.config.out / "experts" / name for name in self.names]

    def _expert_trainings(self) -> Iterator[Phase]:
        experts, nets = self.config.experts, self.config.out / "nets"
        if experts.systems:
            return
        if experts.one_network:
            systems = dict(zip(self._folders(), experts.sigmas, strict=True))
            yield self._training("experts", nets / "experts.safetensors", systems)
            return
        for name, sigma, folder in zip(self.names, experts.sigmas, self._folders(), strict=True):
            yield self._training(name, nets / f"{name}.safetensors", {folder: sigma})

    def _training(self, name: str, network: Path, systems: dict[Path, float]) -> Phase:
        """One network, smoothed with each of the sigmas."""
        files = [network, *(folder / HEAD for folder in systems)]
        work = partial(self._train_expert, network, systems)
        return Phase(f"train {name}", (network, *systems), work, lambda: all(file.is_file() for file in files))

    def _train_expert(self, network: Path, systems: dict[Path, float], watch: Advance) -> None:
        experts, sigmas = self.config.experts, tuple(systems.values())
        method: Callable[[float], Method] = Gaussian if len(sigmas) == 1 else (lambda _: Mixed(sigmas))
        train_classifier(
            self.train,
            architecture=experts.model,
            options=experts.options,
            normalisation=experts.normalise,
            sigma=max(sigmas),
            settings=experts.training,
            out=network,
            method=method,
            on_step=watch,
        )
        model, description = models.load(network)
        for folder, sigma in systems.items():
            saved(Smoothed(model, sigma=sigma, classes=description.classes), folder)

    def experts(self, tuned: int) -> list[Scheme]:
        """The experts after that many fine-tunings."""
        if tuned:
            system = load(self._tuned(tuned), device=self.config.device)
            assert isinstance(system, Dual)
            return list(system.experts)
        return load_together(self._folders(), device=self.config.device)

    # Router, fine-tuning, router ...

    def _router(self, count: int) -> Path:
        return self.config.out / "nets" / f"router-{count}.safetensors"

    def _tuned(self, count: int) -> Path:
        return self.config.out / f"tuned-{count}"

    def _steps(self) -> Iterator[Phase]:
        routers = tuned = 0
        for step in self.config.steps:
            if step == "router":
                routers += 1
                labels, router = self.config.out / f"labels-{routers}", self._router(routers)
                label = partial(self._label, labels, tuned)
                yield Phase(f"make {labels.name}", (labels,), label, partial(labelled, labels))
                train = partial(self._train_router, router, labels, tuned)
                yield Phase(f"train {router.stem}", (router,), train, router.is_file)
            else:
                tuned += 1
                system = self._tuned(tuned)
                work = partial(self._fine_tune, system, routers, tuned - 1)
                yield Phase(f"fine-tune {system.name}", (system,), work, partial(fine_tuned, system))

    def _label(self, folder: Path, tuned: int, watch: Advance) -> None:
        how = self.config.labels
        make_labels(
            self.experts(tuned),
            self.train,
            folder,
            n=how.n,
            n0=how.n0,
            alpha=how.alpha,
            fraction=how.fraction,
            sample_seed=how.sample_seed,
            seed=how.seed,
            watch=watch,
        )

    def _train_router(self, out: Path, folder: Path, tuned: int, watch: Advance) -> None:
        how, labels = self.config.router, read_labels(folder)
        labels.check(self.experts(tuned))
        train_router(
            self.train,
            labels,
            architecture=how.model,
            options=how.options,
            normalisation=how.normalise,
            sigma=how.sigma,
            settings=how.training,
            held_out=how.held_out,
            out=out,
            on_step=watch,
            on_warning=self.on_warning,
            **how.loss,
        )

    def _fine_tune(self, out: Path, routers: int, tuned: int, watch: Advance) -> None:
        how = self.config.finetune
        dual = self.dual("consensus", routers=routers, tuned=tuned)
        system = fine_tune(
            dual,
            self.train,
            training_of(out),
            settings=how.training,
            n=how.votes,
            seed=how.training.seed,
            on_step=watch,
            on_warning=None if fine_tuned(out) else self.on_warning,  # said when it was done
        )
        saved(system, out)

    def dual(self, rule: Combination, *, routers: int, tuned: int) -> Dual:
        """The system of the router trained last and the experts as they are then."""
        model, description = models.load(self._router(routers))
        router = Smoothed(
            model, sigma=self.config.router.sigma, classes=description.classes, device=self.config.device
        )
        return Dual(router, self.experts(tuned), rule=rule)

    # What came of it. Names tell the rounds apart, so that steps can be added later.

    def systems(self) -> dict[Path, Combination]:
        """The folders of the dual systems that are certified in the end, with their rules."""
        routers, tuned = self.config.steps.count("router"), self.config.steps.count("finetune")
        rounds = (f"-router-{routers}" if routers > 1 else "") + (f"-tuned-{tuned}" if tuned else "")
        return {self.config.out / "systems" / f"dual-{rule}{rounds}": rule for rule in self.config.certify.rules}

    def _certifications(self) -> Iterator[Phase]:
        tuned = self.config.steps.count("finetune")
        if self.config.certify.experts:
            for j, name in enumerate(self.names):
                run = f"{name}-tuned-{tuned}" if tuned else name
                yield self._certification(run, partial(self._expert, j, tuned))
        for folder, rule in self.systems().items():
            yield self._certification(folder.name, partial(self._final, folder, rule))

    def _expert(self, j: int, tuned: int) -> Scheme:
        return self.experts(tuned)[j]

    def _final(self, folder: Path, rule: Combination) -> Scheme:
        routers, tuned = self.config.steps.count("router"), self.config.steps.count("finetune")
        return saved(self.dual(rule, routers=routers, tuned=tuned), folder)

    def _certification(self, name: str, system: Callable[[], Scheme]) -> Phase:
        how = self.config.certify
        usual = {"start": 0, "skip": 1, "max": None}
        told = "".join(f"-{key}{getattr(how, key)}" for key, value in usual.items() if getattr(how, key) != value)
        out = self.config.out / "runs" / f"{name}{told}.jsonl"

        def work(watch: Advance) -> None:
            certify_run(
                system(),
                self.test,
                out,
                n0=how.n0,
                n=how.n,
                alpha=how.alpha,
                seed=how.seed,
                start=how.start,
                skip=how.skip,
                maximum=how.max,
                watch=watch,
            )

        return Phase(f"certify {name}", (out,), work, partial(certified, out))


def _unseen(done: int, total: int) -> None:
    """An `Advance` without a bar."""
