"""A pipeline as one TOML file. These models are its schema, its checks, its defaults and its documentation.

A file with `[router]` builds a Dual (Sun et al. 2026), one with `[cascade]` a Cascade of its experts, one with both
builds both. A file with neither builds a Cascade whose confidence thresholds are calibrated on images held out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import model_validator

from sigmax.config.changes import changed
from sigmax.config.toml import Place, placed, read_toml
from sigmax.config.validation import Options, about, build, inside
from sigmax.errors import RequestError
from sigmax.models.checkpoints.bfloat16 import Store
from sigmax.pipeline import tables
from sigmax.rules.cascade.rule import CascadeRule
from sigmax.rules.procedure import Rule
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.smoothed import SmoothedRule
from sigmax.train.calibrate import CalibrateOptions
from sigmax.train.finetune import FINE_TUNING
from sigmax.train.loop.settings import Settings
from sigmax.train.router.options import refuse_preset
from sigmax.train.router.presets import SMALL, router_preset

Step = Literal["router", "finetune"]
HELD_OUT = 0.1  # share of the training images that a cascade is calibrated on, where the file names no system


class PipelineConfig(Options):
    """A whole pipeline. Paths begin at the folder of the file.

    A file with neither `[router]` nor `[cascade]` builds a calibrated Cascade, and `data.held_out` is 0.1 if not given.
    """

    out: Annotated[Path, Place(), about("the folder of all results")]
    data: tables.DataConfig
    experts: tables.ExpertsConfig
    router: Annotated[tables.RouterConfig | None, about("builds a Dual")] = None
    cascade: Annotated[tables.CascadeConfig | None, about("builds a Cascade")] = None
    steps: Annotated[tuple[Step, ...], about("of a Dual: trainings of routers, and fine-tunings")] = ("router",)
    device: Annotated[str, about("where networks are trained and vote")] = "cpu"
    store: Annotated[Store, about("how weights are kept; those that are kept are certified")] = "fp32"
    labels: tables.LabelsConfig = tables.LabelsConfig()
    finetune: tables.FinetuneConfig = tables.FinetuneConfig()
    calibrate: Annotated[CalibrateOptions | None, about("chooses the confidence thresholds of a Cascade")] = None
    certify: tables.CertifyConfig = tables.CertifyConfig()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.router is None and self.cascade is None:
            raise RequestError("it needs router, which builds a Dual, or cascade, or both")
        if self.steps[:1] != ("router",):
            raise RequestError(f"steps must begin with 'router'; got {list(self.steps)}")
        if not self.certify.rules and self.cascade is None:
            raise RequestError("certify.rules must name a rule of the Dual: without a [cascade] it is the system")
        if self.calibrate is not None and self.cascade is None:
            raise RequestError("[calibrate] chooses the confidence thresholds of a [cascade]; a Dual has none")
        if self.router is not None:
            self._check_dual(self.router)
        if self.cascade is not None:
            self._check_cascade(self.cascade)
        if self.experts.trained:
            self.check_samples([self.experts.rule_of(place) for place in range(self.experts.count)])
        return self

    def _check_dual(self, router: tables.RouterConfig) -> None:
        """Raise for what does not fit a Dual, though each table is right by itself."""
        if self.experts.systems and (self.labels.folds > 1 or self.labels.held_out):
            raise RequestError(
                "[labels] folds and held_out are about experts that are trained here; leave them out beside systems"
            )
        if "finetune" in self.steps and self.experts.noise != "gaussian":
            raise RequestError("steps: experts are fine-tuned under Gaussian noise alone; leave out 'finetune'")
        tuned = self.steps.index("finetune") if "finetune" in self.steps else len(self.steps)
        if self.labels.folds > 1 and "router" in self.steps[tuned:]:
            raise RequestError(
                "[labels] folds: experts of other folds are not fine-tuned, so they cannot label after a 'finetune'; "
                "end the steps with it, or use held_out"
            )
        if router.start is None:
            return
        if self.experts.systems or router.start >= self.experts.count:
            raise RequestError(
                f"router.start must be the place of an expert that is trained here, 0 to {self.experts.count - 1}; got "
                f"{router.start}"
            )
        networks = self.experts.network_of(router.start), router
        theirs, own = ((network.model, dict(network.options), network.normalise) for network in networks)
        if theirs != own:
            raise RequestError(
                "router.start: a router that begins with an expert's network has its model, options and normalise; "
                f"the expert's are {theirs}, got {own}"
            )

    def _check_cascade(self, cascade: tables.CascadeConfig) -> None:
        """Raise for what does not fit a Cascade, though each table is right by itself."""
        needless = sorted(self.model_fields_set & {"labels", "finetune", "steps"})
        if needless and self.router is None:
            raise RequestError(f"a [cascade] has no router to teach; leave out {', '.join(needless)}, or add [router]")
        if self.experts.systems:
            raise RequestError("a cascade needs experts that are trained here: give sigmas, not systems, or [router]")
        if self.experts.bound != "one-sided":
            raise RequestError("[cascade] bounds the rivals itself: leave out experts.bound")
        given = cascade.confidence
        if isinstance(given, tuple) and len(given) != self.experts.count - 1:
            raise RequestError(
                f"cascade.confidence must be one for all levels, or one for each of the {self.experts.count - 1}, "
                f"largest sigma first; got {list(given)}"
            )
        if self.calibrate is not None and not self.data.held_out:
            raise RequestError("[calibrate] needs images that nobody was trained on: set data.held_out, such as 0.05")
        if self.calibrate is not None and "confidence" in cascade.model_fields_set:
            raise RequestError("[calibrate] chooses the confidence thresholds: leave out cascade.confidence")

    def cascade_rule(self, classes: int = 2) -> CascadeRule:
        """The rule of the cascade of the experts."""
        assert self.cascade is not None
        last, *levels = (self.experts.rule_of(place, classes) for place in range(self.experts.count))
        selective = [replace(level, defers=True) for level in reversed(levels) if isinstance(level, SmoothedRule)]
        return CascadeRule(tuple(selective), last, self.cascade.thresholds)

    def check_samples(self, experts: Sequence[Rule]) -> None:
        """Raise where labels or certificates of such experts could only abstain, or the experts do not fit."""
        if self.router is not None:
            with inside("[labels]"):
                for expert in experts:
                    self.labels.check(expert)
        with inside("[certify]"):
            for expert in experts if self.certify.experts else ():
                self.certify.check(expert)
            if self.cascade is not None:
                self.certify.check(self.cascade_rule())
            if self.router is None:
                return
            router = SmoothedRule(self.router.noise, len(experts))
            for combination in self.certify.rules:
                self.certify.check(DualRule(router, tuple(experts), combination))

    @classmethod
    def read(cls, path: str | Path, changes: Sequence[str] = ()) -> Self:
        """The pipeline that a TOML file describes; `changes` such as "router.sigma=0.5" are put in its place."""
        given = read_toml(Path(path), "pipeline")
        with inside(str(path)):
            return cls.of(changed(given, changes, cls), Path(path).parent)

    @classmethod
    def of(cls, given: tables.Table, folder: Path) -> Self:
        """The same from what the file held; relative paths begin at `folder`."""
        return build(cls, _completed(_with_system(placed(cls, given, folder))))


def _with_system(given: tables.Table) -> tables.Table:
    """The file with a calibrated cascade where it names no system to build."""
    data = given.get("data")
    if "router" in given or "cascade" in given or not isinstance(data, Mapping):
        return given
    return {**given, "cascade": {}, "calibrate": given.get("calibrate", {}), "data": {"held_out": HELD_OUT, **data}}


def _completed(given: tables.Table) -> dict[str, Any]:
    """The tables with a preset's values and training settings over their usual ones, on the file's device."""
    result, device = dict(given), given.get("device", "cpu")
    for name, base in (("experts", Settings()), ("router", SMALL.settings), ("finetune", FINE_TUNING)):
        table = result.get(name, {} if name == "finetune" and "router" in given else None)
        if isinstance(table, Mapping) and "systems" not in table:
            whole, usual = _with_preset(table) if isinstance(table.get("preset"), str) else (table, base)
            settings = {key: getattr(usual, key) for key in usual.__dataclass_fields__} | {"device": device}
            result[name] = {**whole, "training": _over(settings, table.get("training", {}))}
    return result


def _with_preset(router: tables.Table) -> tuple[tables.Table, Settings]:
    """What a paper used for all that the table leaves out."""
    loss = router.get("loss", {})
    with inside("router.preset"):
        refuse_preset(router["preset"], loss.get("objective", "paper") if isinstance(loss, Mapping) else "paper")
        preset = router_preset(router["preset"], architecture=router.get("model"))
    fields: dict[str, Any] = dict(preset.fields)
    base = {"model": preset.architecture, "sigma": fields.pop("sigma")}
    if "scale" in router:
        del base["sigma"]
    return {**base, **router, "loss": _over(fields, loss)}, preset.settings


def _over(base: tables.Table, given: Any) -> Any:
    """The table over usual values; what is no table is left to be refused."""
    return {**base, **given} if isinstance(given, Mapping) else given
