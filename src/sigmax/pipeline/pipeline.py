"""Experts, a calibrated cascade of them, labels, router, fine-tuning; then certificates: one resumable job.

Every phase leaves files that say what they were made for. So a phase already done is skipped, one cut short goes
on, and one whose request has changed since is redone: its files are first moved to `previous/`.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

from sigmax.config.validation import inside
from sigmax.data import Dataset, select
from sigmax.jobs.certify import certify_run
from sigmax.pipeline import check as checks
from sigmax.pipeline.cascades import Cascades
from sigmax.pipeline.config import PipelineConfig
from sigmax.pipeline.data import PipelineData
from sigmax.pipeline.experts import Experts
from sigmax.pipeline.manifest import Manifest, Request, alone_in, whole_request
from sigmax.pipeline.phase import OnWarning, Phase, Progress, certified, fine_tuned, saved, training_of
from sigmax.pipeline.redo import Redo, redone
from sigmax.pipeline.routers import Routers
from sigmax.progress import Watch, silent
from sigmax.records.inputs import same
from sigmax.records.run import Run, read
from sigmax.rules.routed.rule import Combination
from sigmax.schemes.dual import Dual
from sigmax.schemes.scheme import Scheme
from sigmax.systems.folder import HEAD, load
from sigmax.train.finetune import fine_tune

__all__ = ["Phase", "Pipeline"]


@dataclass(frozen=True)
class Pipeline:
    """The phases of a configuration, in order; `run` does what is left of them."""

    config: PipelineConfig
    on_warning: OnWarning | None = None
    file: Path | None = None  # where the configuration was read, for errors to name
    on_note: OnWarning | None = None  # what is redone, and how a router turned out

    @classmethod
    def read(
        cls,
        file: str | Path,
        changes: Sequence[str] = (),
        on_warning: OnWarning | None = None,
        on_note: OnWarning | None = None,
    ) -> Self:
        """The pipeline of a TOML file; see `PipelineConfig.read`."""
        return cls(PipelineConfig.read(file, changes), on_warning, Path(file), on_note)

    def check(self, *, devices: bool = True, redo: bool = False) -> None:
        """Raise for all that can be known to be wrong before any work. Nothing is written.

        `devices=False`: devices that are not on this machine are warned of. `redo`: experts and labels may be redone.
        """
        config, warn = self.config, self.on_warning or (lambda _: None)
        with self._naming_file():
            checks.check_devices(config, None if devices else warn)
            data = self._data
            checks.check_data(config, data)
            checks.check_networks(config, data.train)
            noises = [level for _, level in config.experts.trained]
            if config.experts.systems:
                given = self._experts.load({"device": "cpu"})
                checks.check_systems(config, given, data.train)
                noises = [expert.rule.largest_noise for expert in given]
        self.check_redone(redo=redo)
        checks.warn_of_noise(config, noises, warn)
        checks.warn_of_choice(config, warn)

    def redone(self) -> Redo:
        """What becomes of files of another request than this one: what is redone, taken back and reused, and why."""
        return redone(Manifest.read(self.config.out), self.phases(), self._whole)

    def check_redone(self, *, redo: bool) -> None:
        """Raise where experts or labels would be redone, unless `redo` says that they may be."""
        with self._naming_file():
            self.redone().check(redo=redo)

    def _naming_file(self) -> AbstractContextManager[None]:
        return inside(str(self.file)) if self.file else nullcontext()

    def run(self, progress: Progress, *, redo: bool = False) -> list[Run]:
        """Do what is left, and return the runs: those of the experts, then those of the systems.

        Files of another request are moved to `previous/`; those of experts and labels only if `redo` says so.
        """
        self.check(redo=redo)
        with alone_in(self.config.out), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="the router's sigma")  # every Dual would say it again
            return self._run(progress)

    def _run(self, progress: Progress) -> list[Run]:
        changes = self.redone()
        if changes:
            for line in changes.lines():
                self._note(line)
            changes.move()
        manifest = changes.manifest
        for phase in self.phases():
            request = phase.request(self._whole)
            if phase.state == "done":
                phase.work(silent)
                manifest.remember(phase, request)
                continue
            with manifest.begun(phase, request), progress(phase.name) as watch:
                phase.work(watch)
        manifest.write()
        return [self._read(path) for phase in self._certifications() for path in phase.leaves]

    def _read(self, path: Path) -> Run:
        """The run in a file, which may be of more inputs than are asked for here."""
        run = read(path)
        return run if same(run.plan.inputs, self._inputs) else run.only(self._inputs)

    @cached_property
    def _inputs(self) -> dict[str, int]:
        how = self.config.certify
        indices = select(len(self.test), **how.inputs)
        return {"start": int(indices[0]), "skip": how.skip, "count": len(indices)}

    def _note(self, text: str) -> None:
        if self.on_note is not None:
            self.on_note(text)

    def phases(self) -> list[Phase]:
        """All phases, done or not."""
        cascade = self._cascades.phases(self._experts.depends, self._experts.depends_of)
        return [*self._experts.phases(), *cascade, *self._steps(), *self._builds(), *self._certifications()]

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
    def _whole(self) -> Request:
        images = {"train_images": self.train.fingerprint, "test_images": self.test.fingerprint}
        return whole_request(self.config, images, self._experts.given)

    @cached_property
    def _experts(self) -> Experts:
        return Experts(self.config, self._data)

    @cached_property
    def _routers(self) -> Routers:
        return Routers(self.config, self._data, self._load_experts, self._experts.network, self.on_warning, self._note)

    @cached_property
    def _cascades(self) -> Cascades:
        return Cascades(self.config, self._data, self._experts.load, self._experts.network, self._experts.names)

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
        if self.config.router is None:
            return
        depends, routers, tuned = self._experts.depends, 0, 0
        for number, step in enumerate(self.config.steps, 1):
            depends = (*depends, f"steps.{number}")
            if step == "router":
                routers += 1
                yield from self._routers.phases(routers, tuned, depends)
                depends = (*depends, "labels", "router")
            else:
                tuned += 1
                depends = (*depends, "finetune")
                system = self._tuned(tuned)
                work = partial(self._fine_tune, system, routers, tuned - 1)
                yield Phase(f"fine-tune {system.name}", (system,), work, partial(fine_tuned, system), depends)

    def _fine_tune(self, out: Path, routers: int, tuned: int, watch: Watch) -> None:
        how, votes = self.config.finetune, self.config.labels.how(self.config.device)
        system = fine_tune(
            self._routers.system("consensus", routers, self._load_experts(tuned, votes), votes),
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

    # The final systems. Their names number the rounds, so that steps can be added later.

    def systems(self) -> dict[Path, Combination | None]:
        """The folders of the systems that are certified in the end, with the rules of a Dual."""
        folder, config = self.config.out / "systems", self.config
        rounds = (f"-router-{self._rounds}" if self._rounds > 1 else "") + self._after_tuning
        rules = config.certify.rules if config.router is not None else ()
        duals: dict[Path, Combination | None] = {folder / f"dual-{rule}{rounds}": rule for rule in rules}
        return {**duals, **({folder / "cascade": None} if config.cascade is not None else {})}

    @property
    def _rounds(self) -> int:
        return self.config.steps.count("router") if self.config.router is not None else 0

    @property
    def _tunings(self) -> int:
        return self.config.steps.count("finetune") if self.config.router is not None else 0

    @property
    def _after_tuning(self) -> str:
        return f"-tuned-{self._tunings}" if self._tunings else ""

    def _builds(self) -> Iterator[Phase]:
        for folder, rule in self.systems().items():
            work, finished = partial(self._save, folder, rule), (folder / HEAD).is_file
            yield Phase(f"build {folder.name}", (folder,), work, finished, self._decided_by(rule))

    def _decided_by(self, rule: Combination | None) -> tuple[str, ...]:
        """The keys that decide a system."""
        if rule is None:
            return (*self._experts.depends, *self._cascades.depends)
        steps = tuple(f"steps.{number}" for number in range(1, len(self.config.steps) + 1))
        return (*self._experts.depends, *steps, "labels", "router", *(["finetune"] if self._tunings else []))

    def _certifications(self) -> Iterator[Phase]:
        if self.config.certify.experts:
            for j, name in enumerate(self.names):
                depends = self._decided_by("consensus") if self._tunings else self._experts.depends_of(name)
                yield self._certification(f"{name}{self._after_tuning}", partial(self._expert, j), depends)
        for folder, rule in self.systems().items():
            yield self._certification(folder.name, partial(self._system, rule), self._decided_by(rule))

    def _expert(self, j: int) -> Scheme:
        return self.experts(self._tunings)[j]

    def _system(self, rule: Combination | None) -> Scheme:
        """A Dual of the experts as they are in the end, or the cascade of the experts as they were trained."""
        how = self.config.certify.how(self.config.device)
        if rule is None:
            return self._cascades.system(self.experts(0), how)
        return self._routers.system(rule, self._rounds, self.experts(self._tunings), how)

    def _save(self, folder: Path, rule: Combination | None, watch: Watch) -> None:
        watch(0, 1)
        saved(self._system(rule), folder, self.config.store)
        watch(1, 1)

    def _certification(self, name: str, system: Callable[[], Scheme], depends: tuple[str, ...]) -> Phase:
        how, on = self.config.certify, self.config.data.test
        usual = {"start": 0, "skip": 1}  # with another `max` the run in the file is extended
        said = "".join(f"-{key}{getattr(how, key)}" for key, value in usual.items() if getattr(how, key) != value)
        where = "" if on == "test" else f"-on-{on}"
        out = self.config.out / "runs" / f"{name}{where}{said}.jsonl"

        def work(watch: Watch) -> None:
            certify_run(system(), self.test, out, **how.request, watch=watch)

        depends = (*depends, "data.test_images", "certify")
        return Phase(f"certify {name}", (out,), work, lambda: certified(out, self._inputs), depends)
