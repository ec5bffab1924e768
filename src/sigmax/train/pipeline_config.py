"""A pipeline as one TOML file: every number of it, checked before anything is trained.

out = "work"                     # where all of it is kept; relative to the file
steps = ["router", "finetune", "router"]

[data]                           # source, image_size
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
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self, get_args

from sigmax import models
from sigmax.certify.checks import is_number, is_whole
from sigmax.certify.dual_rule import Combination, DualRule
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.errors import RequestError
from sigmax.train.finetune import FINE_TUNING
from sigmax.train.router_loss import RouterOptions
from sigmax.train.router_presets import SMALL, router_preset
from sigmax.train.settings import Settings

STEPS = ("router", "finetune")
Table = Mapping[str, Any]


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
    systems: tuple[str, ...] = ()  # folders, from least noise to most; instead of all the above
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
    steps: tuple[str, ...] = ("router",)
    device: str = "cpu"
    labels: LabelsConfig = LabelsConfig()
    finetune: FinetuneConfig = FinetuneConfig()
    certify: CertifyConfig = CertifyConfig()

    def __post_init__(self) -> None:
        wrong = [step for step in self.steps if step not in STEPS]
        if wrong or self.steps[:1] != ("router",):
            raise RequestError(
                "steps must begin with 'router' and hold nothing but 'router' and 'finetune'; "
                f"got {list(self.steps)}"
            )
        _check_experts(self.experts)
        _check_rules(self)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The pipeline that a TOML file describes; what it does not understand is an error."""
        path = Path(path)
        try:
            told = tomllib.loads(path.read_text())
        except OSError as error:
            raise RequestError(f"the pipeline file {path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise RequestError(f"{path} is not TOML: {error}") from error
        try:
            return cls.from_table(told, path.parent)
        except RequestError as error:
            raise RequestError(f"{path}: {error}") from error

    @classmethod
    def from_table(cls, told: Table, folder: Path) -> Self:
        """The same from what the file held; relative paths begin at `folder`."""
        told = dict(told)
        device = told.get("device", "cpu")
        for name in ("data", "experts", "router", "out"):
            if name not in told:
                raise RequestError(f"[{name}] is missing" if name != "out" else "out is missing: name a folder")
        tables = {
            "data": DataConfig(**_known(DataConfig, told.pop("data"), "data")),
            "experts": _experts(told.pop("experts"), folder, device),
            "labels": LabelsConfig(**_known(LabelsConfig, told.pop("labels", {}), "labels")),
            "router": _router(told.pop("router"), device),
            "finetune": _with_training(FinetuneConfig, told.pop("finetune", {}), "finetune", FINE_TUNING, device),
            "certify": CertifyConfig(**_known(CertifyConfig, told.pop("certify", {}), "certify")),
        }
        rest = _known(cls, told, "")
        return cls(**{**rest, **tables, "out": folder / _text(rest["out"], "out")})


def _experts(told: Table, folder: Path, device: str) -> ExpertsConfig:
    built: ExpertsConfig = _with_training(ExpertsConfig, told, "experts", Settings(), device)
    return replace(built, systems=tuple(str(folder / _text(s, "experts.systems")) for s in built.systems))


def _router(told: Table, device: str) -> RouterConfig:
    """The loss's options stand in the same table; a preset fills what the table leaves out."""
    told = dict(told)
    preset = SMALL
    if "preset" in told:
        preset = router_preset(_text(told.pop("preset"), "router.preset"), architecture=told.get("model"))
    names = RouterOptions.__annotations__
    given = {name: told.pop(name) for name in list(told) if name in names}
    fields_ = dict(preset.fields)
    sigma = fields_.pop("sigma", None)
    told = {"model": preset.architecture, **({} if sigma is None else {"sigma": sigma}), **told}
    if "sigma" not in told:
        raise RequestError("router.sigma is missing: the router's own noise, at least the experts' largest")
    built: RouterConfig = _with_training(RouterConfig, told, "router", preset.settings, device)
    return replace(built, loss={**fields_, **given})  # type: ignore[typeddict-item]


def _with_training(cls: type, told: Table, where: str, settings: Settings, device: str) -> Any:
    """A table of `cls` with the table `training` in it, whose missing entries are those of `settings`."""
    told = dict(told)
    training = _known(Settings, told.pop("training", {}), f"{where}.training")
    return cls(**_known(cls, told, where), training=Settings(**{**asdict(settings), "device": device, **training}))


def _known(cls: type, told: object, where: str) -> dict[str, Any]:
    """The table's entries, each of which must be a field of `cls`; lists become tuples."""
    name = f"[{where}]" if where else "the file"
    if not isinstance(told, Mapping):
        raise RequestError(f"{name} must be a table; got {told!r}")
    known = {f.name for f in fields(cls)} - {"training", "loss"}
    unknown = sorted(set(told) - known)
    if unknown:
        raise RequestError(f"{name} has no {', '.join(unknown)}; it takes {', '.join(sorted(known))}")
    required = {f.name for f in fields(cls) if f.name in known} & ({"source"} if cls is DataConfig else set())
    missing = sorted(required - set(told))
    if missing:
        raise RequestError(f"{name} lacks {', '.join(missing)}")
    return {key: tuple(value) if isinstance(value, list) else value for key, value in told.items()}


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise RequestError(f"{where} must be text; got {value!r}")
    return value


def _check_experts(experts: ExpertsConfig) -> None:
    if bool(experts.sigmas) == bool(experts.systems):
        raise RequestError("[experts] needs either sigmas, to train one expert each, or systems that exist")
    if experts.systems:
        return
    if not all(is_number(sigma) and sigma > 0 for sigma in experts.sigmas):
        raise RequestError(f"experts.sigmas must be positive numbers; got {list(experts.sigmas)}")
    if len(experts.sigmas) < 2 or list(experts.sigmas) != sorted(set(experts.sigmas)):
        raise RequestError(f"experts.sigmas must be two or more, strictly rising; got {list(experts.sigmas)}")
    if experts.model not in models.names():
        raise RequestError(f"experts.model must be one of {', '.join(models.names())}; got {experts.model!r}")


def _check_rules(config: PipelineConfig) -> None:
    """Raise where certification could only abstain, now rather than after the training."""
    c = config.certify
    wrong = [rule for rule in c.rules if rule not in get_args(Combination)]
    if wrong or not c.rules:
        raise RequestError(f"certify.rules must be some of {', '.join(get_args(Combination))}; got {list(c.rules)}")
    if not is_whole(config.finetune.votes) or config.finetune.votes < 1:
        raise RequestError(f"finetune.votes must be at least 1; got {config.finetune.votes!r}")
    if config.router.model not in models.names():
        raise RequestError(f"router.model must be one of {', '.join(models.names())}; got {config.router.model!r}")
    sigmas = config.experts.sigmas or (config.router.sigma,) * len(config.experts.systems)
    experts = tuple(SmoothedRule(sigma, 2) for sigma in sigmas)
    router = SmoothedRule(config.router.sigma, len(experts))
    for expert in experts:
        expert.check_certify(n0=config.labels.n0, n=config.labels.n, alpha=config.labels.alpha)
    for rule in c.rules:
        DualRule(router, experts, rule).check_certify(n0=c.n0, n=c.n, alpha=c.alpha)
