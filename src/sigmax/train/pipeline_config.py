"""A pipeline as one TOML file: every number of it, checked before anything is trained.

out = "work"                     # where all of it is kept; paths begin at the file's own folder
steps = ["router", "finetune", "router"]
device = "cpu"                   # where networks are trained and vote

[data]                           # source, image_size, train, test
[experts]                        # sigmas and a model to train, or systems: folders that exist
[experts.training]               # any of `Settings`
[labels]                         # n, n0, alpha, fraction, sample_seed, seed
[router]                         # sigma, model, held_out, preset, and the options of the loss
[router.training]
[finetune]                       # votes; used where `steps` says so
[finetune.training]
[certify]                        # rules, experts, n0, n, alpha, seed, start, skip, max
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Self, get_args, get_type_hints

from sigmax import models
from sigmax.certify.dual_rule import Combination, DualRule
from sigmax.certify.procedure import Rule
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.errors import RequestError
from sigmax.noise.draws import check_word
from sigmax.train.config_table import Table, entries, inside
from sigmax.train.finetune import FINE_TUNING, check_votes
from sigmax.train.label_folder import sample
from sigmax.train.router_loss import Router, RouterOptions
from sigmax.train.router_presets import SMALL, router_preset
from sigmax.train.settings import Settings

Step = Literal["router", "finetune"]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the images are; `train` is trained and labelled on, `test` certified."""

    source: str
    image_size: int | None = None
    train: str = "train"
    test: str = "test"


@dataclass(frozen=True, kw_only=True)
class ExpertsConfig:
    """Experts to train, one a sigma, or systems that exist already."""

    sigmas: tuple[float, ...] = ()
    one_network: bool = False  # one network under all sigmas, rather than one each
    model: str = "small-cnn"
    options: Table = field(default_factory=dict)  # of the architecture
    normalise: str = "none"
    systems: tuple[str, ...] = ()  # folders, from least noise to most; instead of all the others
    training: Settings = field(default_factory=Settings)


@dataclass(frozen=True, kw_only=True)
class LabelsConfig:
    """How the training inputs are labelled; see `make_labels`."""

    n: int = 100
    n0: int = 20
    alpha: float = 1e-3
    fraction: float = 1.0
    sample_seed: int = 0
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class RouterConfig:
    """How a router is trained; see `train_router`."""

    sigma: float
    model: str = SMALL.architecture
    options: Table = field(default_factory=dict)  # of the architecture
    normalise: str = "none"
    held_out: float = 0.1
    loss: RouterOptions = field(default_factory=RouterOptions)
    training: Settings = SMALL.settings


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig:
    """How experts are fine-tuned; see `fine_tune`."""

    votes: int = 100
    training: Settings = FINE_TUNING


@dataclass(frozen=True, kw_only=True)
class CertifyConfig:
    """What is certified in the end."""

    rules: tuple[Combination, ...] = ("min", "consensus")
    experts: bool = True  # also each expert by itself: what oracle and envelope are made of
    n0: int = 100
    n: int = 10_000
    alpha: float = 1e-3
    seed: int = 0
    start: int = 0
    skip: int = 1
    max: int | None = None


@dataclass(frozen=True, kw_only=True)
class PipelineConfig:
    """A whole pipeline."""

    out: Path
    data: DataConfig
    experts: ExpertsConfig
    router: RouterConfig
    steps: tuple[Step, ...] = ("router",)
    device: str = "cpu"
    labels: LabelsConfig = LabelsConfig()
    finetune: FinetuneConfig = FinetuneConfig()
    certify: CertifyConfig = CertifyConfig()
    file: Path | None = field(default=None, compare=False)  # where all this was read, for errors to name

    def __post_init__(self) -> None:
        if self.steps[:1] != ("router",) or not set(self.steps) <= set(get_args(Step)):
            raise RequestError(
                "steps must begin with 'router' and hold nothing but 'router' and 'finetune'; "
                f"got {list(self.steps)}"
            )
        _check_experts(self.experts)
        _check_router(self.router)
        with inside("[labels]"):
            sample(1, self.labels.fraction, self.labels.sample_seed)
            check_word("seed", self.labels.seed)
        with inside("[finetune]"):
            check_votes(self.finetune.votes, "votes")
        with inside("[certify]"):
            check_word("seed", self.certify.seed)
            _check_rules(self.certify.rules)
        if self.experts.sigmas:
            self.check_draws([SmoothedRule(sigma, 2) for sigma in self.experts.sigmas])

    def check_draws(self, experts: Sequence[Rule]) -> None:
        """Raise where labels or certificates of such experts could only abstain, or the experts do not fit."""
        labels, certify = self.labels, self.certify
        with inside("[labels]"):
            for expert in experts:
                expert.check_certify(n0=labels.n0, n=labels.n, alpha=labels.alpha)
        with inside("[certify]"):
            router = SmoothedRule(self.router.sigma, len(experts))
            for rule in certify.rules:
                dual = DualRule(router, tuple(experts), rule)
                dual.check_certify(n0=certify.n0, n=certify.n, alpha=certify.alpha)

    @property
    def count(self) -> int:
        """How many experts there are."""
        return len(self.experts.sigmas or self.experts.systems)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The pipeline that a TOML file describes; what it does not understand is an error."""
        path = Path(path)
        try:
            told = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise RequestError(f"the pipeline file {path} cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise RequestError(f"{path} is not TOML: {error}") from error
        with inside(str(path)):
            return replace(cls.from_table(told, path.parent), file=path)

    @classmethod
    def from_table(cls, told: Table, folder: Path) -> Self:
        """The same from what the file held; relative paths begin at `folder`."""
        hints = get_type_hints(cls)
        tables = ("data", "experts", "labels", "router", "finetune", "certify")
        kinds = {"out": str, "steps": hints["steps"], "device": str, **dict.fromkeys(tables, Table)}
        given = entries(told, kinds, "")
        for name in ("out", "data", "experts", "router"):
            if name not in given:
                raise RequestError(f"[{name}] is missing" if name != "out" else "out is missing: name a folder")
        device = given.get("device", "cpu")
        return cls(
            out=_place(given.pop("out"), folder),
            data=_data(given.pop("data"), folder),
            experts=_experts(given.pop("experts"), folder, device),
            labels=LabelsConfig(**_entries(LabelsConfig, given.pop("labels", {}), "labels")),
            router=_router(given.pop("router"), device),
            finetune=_finetune(given.pop("finetune", {}), device),
            certify=CertifyConfig(**_entries(CertifyConfig, given.pop("certify", {}), "certify")),
            **given,
        )


def _place(path: str, folder: Path) -> Path:
    try:
        return folder / Path(path).expanduser()
    except RuntimeError as error:
        raise RequestError(f"{path} cannot be found: {error}") from error


def _data(told: Table, folder: Path) -> DataConfig:
    given = _entries(DataConfig, told, "data")
    if "source" not in given:
        raise RequestError("data.source is missing: digits, cifar10:PATH ...")
    kind, _, path = given["source"].partition(":")
    return DataConfig(**{**given, "source": f"{kind}:{_place(path, folder)}" if path else given["source"]})


def _experts(told: Table, folder: Path, device: str) -> ExpertsConfig:
    given = _entries(ExpertsConfig, told, "experts")
    beside = sorted(set(given) - {"systems"})
    if "systems" in given and beside:
        raise RequestError(
            "[experts] takes either systems, which exist, or what to train; beside systems it got "
            f"{', '.join(beside)}: leave one of them out"
        )
    given["systems"] = tuple(str(_place(system, folder)) for system in given.get("systems", ()))
    given["training"] = _settings(given, "experts", Settings(), device)
    return ExpertsConfig(**given)


def _router(told: Table, device: str) -> RouterConfig:
    """The loss's options stand in the same table; a preset fills what the table leaves out."""
    options = get_type_hints(RouterOptions)
    given = _entries(RouterConfig, told, "router", preset=str, **options)
    preset = SMALL
    if "preset" in given:
        with inside("router.preset"):
            preset = router_preset(given.pop("preset"), architecture=given.get("model"))
    given = {"model": preset.architecture, **preset.fields, **given}
    if "sigma" not in given:
        raise RequestError("router.sigma is missing: the router's own noise, at least the experts' largest")
    loss: Any = {name: given.pop(name) for name in options if name in given}
    given["training"] = _settings(given, "router", preset.settings, device)
    return RouterConfig(**given, loss=loss)


def _finetune(told: Table, device: str) -> FinetuneConfig:
    given = _entries(FinetuneConfig, told, "finetune")
    return FinetuneConfig(**{**given, "training": _settings(given, "finetune", FINE_TUNING, device)})


def _entries(cls: type, told: Table, where: str, **more: Any) -> dict[str, Any]:
    """What the table says, as keywords of `cls`; `training` is still a table, and `more` are keys of other use."""
    hints = {name: Table if hint is Settings else hint for name, hint in get_type_hints(cls).items()}
    known = {name: hint for name, hint in hints.items() if name != "loss"} | more
    return entries(told, known, where, {"training": get_type_hints(Settings)} if "training" in hints else None)


def _settings(given: Table, where: str, base: Settings, device: str) -> Settings:
    """The table's `training` on top of `base`."""
    own = entries(given.get("training", {}), get_type_hints(Settings), f"{where}.training")
    with inside(f"[{where}.training]"):
        return replace(base, **{"device": device, **own})


def _check_experts(experts: ExpertsConfig) -> None:
    if bool(experts.sigmas) == bool(experts.systems):
        raise RequestError("[experts] needs either sigmas, to train one expert each, or systems that exist")
    if max(len(experts.systems), len(experts.sigmas)) < 2:
        raise RequestError("[experts] must be two or more: a router has to have a choice")
    if experts.systems:
        return
    with inside("experts.sigmas"):
        rules = [SmoothedRule(sigma, 2) for sigma in experts.sigmas]
    if any(one.sigma >= next_.sigma for one, next_ in pairwise(rules)):
        raise RequestError(f"experts.sigmas must be strictly rising; got {list(experts.sigmas)}")
    _check_network("experts", experts.model, experts.normalise)


def _check_router(router: RouterConfig) -> None:
    with inside("[router]"):
        SmoothedRule(router.sigma, 2)
        Router(sigma=router.sigma, shares=(0.5, 0.5), scale=1.0, **router.loss)
        if not 0 < router.held_out < 1:
            raise RequestError(f"held_out must lie between 0 and 1; got {router.held_out!r}")
    _check_network("router", router.model, router.normalise)


def _check_network(where: str, model: str, normalise: str) -> None:
    for name, value, known in (("model", model, models.names()), ("normalise", normalise, tuple(models.PRESETS))):
        if value not in known:
            raise RequestError(f"{where}.{name} must be one of {', '.join(known)}; got {value!r}")


def _check_rules(rules: Sequence[str]) -> None:
    if not rules or not set(rules) <= set(get_args(Combination)) or len(set(rules)) < len(rules):
        raise RequestError(f"rules must be some of {', '.join(get_args(Combination))}, once; got {list(rules)}")
