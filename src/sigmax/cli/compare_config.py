"""The file that `sigmax compare` reads: one base network, one selection of data, one budget, several schemes."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from sigmax.errors import RequestError
from sigmax.train.config_table import entries, inside

if TYPE_CHECKING:
    from torch import nn

    from sigmax.certify.scheme import Scheme

Table = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """What is certified; `train` is the part that a field's noise is measured from."""

    source: str
    split: str = "test"
    train: str = "train"
    image_size: int | None = None
    start: int = 0
    skip: int = 1
    max: int | None = None


@dataclass(frozen=True, kw_only=True)
class BudgetConfig:
    """The draws and the chance of error that each scheme has; as of `sigmax certify`."""

    n0: int = 100
    n: int = 10_000
    alpha: float = 1e-3
    seed: int = 0
    sampling: str = "fixed"
    targets: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CompareConfig:
    """A whole comparison."""

    out: str
    data: DataConfig
    schemes: Mapping[str, Table]
    network: str | None = None  # checkpoint of the base model, for every scheme that names none
    device: str = "cpu"
    batch: int | None = None
    radii: tuple[float, ...] = ()
    certify: BudgetConfig = field(default_factory=BudgetConfig)

    @classmethod
    def read(cls, path: Path) -> "CompareConfig":
        """The comparison in a TOML file; every key must be known."""
        try:
            told = tomllib.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise RequestError(f"{path} cannot be read as TOML: {error}") from error
        hints = {
            f.name: Mapping if f.name in ("data", "certify", "schemes") else get_type_hints(cls)[f.name]
            for f in fields(cls)
        }
        with inside(str(path)):
            read = entries(told, hints, "")
            for name in ("out", "data", "schemes"):
                if name not in read:
                    raise RequestError(f"the file must say {name}; see docs/other_schemes.md for an example")
            read["data"] = _table(DataConfig, read["data"], "data")
            read["certify"] = _table(BudgetConfig, read.get("certify", {}), "certify")
            if not read["schemes"] or not all(isinstance(table, Mapping) for table in read["schemes"].values()):
                raise RequestError("[schemes.NAME] must name at least one scheme, each with its kind")
            return cls(**read)


# What each kind of scheme may be told, besides `kind` and `network`.
KINDS: Mapping[str, Mapping[str, Any]] = {
    "smoothed": {"sigma": float, "bound": str},
    "multiscale": {"sigmas": tuple[float, ...], "thresholds": tuple[float, ...], "budget": str},
    "semi-elastic": {"base": float, "rate": float, "k": int, "offset": float, "points": int},
    "memorized": {
        **dict.fromkeys(("sigma0", "least", "most", "step"), float),
        **dict.fromkeys(("steps", "noises"), int),
        "search": str,
    },
    "system": {"folder": str},
}


def scheme_of(name: str, told: Table, config: CompareConfig) -> "Scheme":
    """The scheme that a table of the file describes."""
    with inside(f"schemes.{name}"):
        kind = str(told.get("kind"))
        if kind not in KINDS:
            raise RequestError(f"kind must be one of {', '.join(KINDS)}; got {told.get('kind')!r}")
        given = entries(told, {"kind": str, "network": str, **KINDS[kind]}, f"schemes.{name}")
        del given["kind"]
        return _made(kind, given, config)


def _made(kind: str, given: dict[str, Any], config: CompareConfig) -> "Scheme":
    from sigmax import system as systems
    from sigmax.certify.memorized import Memorized
    from sigmax.certify.multiscale import Multiscale
    from sigmax.certify.smoothed import Smoothed

    how: dict[str, Any] = {"device": config.device, "batch": config.batch}
    if kind == "system":
        _needs(given, ("folder",))
        return systems.load(given["folder"], **how)
    model, classes = _network(given.pop("network", config.network))
    if kind == "semi-elastic":
        return _elastic(model, classes, given, config, how)
    needed, made = {
        "smoothed": (("sigma",), Smoothed),
        "multiscale": (("sigmas",), Multiscale),
        "memorized": (("sigma0",), Memorized),
    }[kind]
    _needs(given, needed)
    if len(given.get("thresholds", ())) == 1:
        given["thresholds"] = given["thresholds"][0]
    made_scheme: Scheme = made(model, classes=classes, **given, **how)
    return made_scheme


def _elastic(
    model: "nn.Module", classes: int, given: dict[str, Any], config: CompareConfig, how: dict[str, Any]
) -> "Scheme":
    from sigmax import data as sources
    from sigmax.certify.fields import NearestNeighbourSigma
    from sigmax.certify.semi_elastic import SemiElastic

    _needs(given, ("base", "rate", "k", "offset"))
    training = sources.load(config.data.source, config.data.train, size=config.data.image_size)
    points = training.pixels(range(min(len(training), given.pop("points", len(training)))))
    return SemiElastic(model, field=NearestNeighbourSigma(points, **given), classes=classes, **how)


def _network(path: str | None) -> "tuple[nn.Module, int]":
    from sigmax import models

    if path is None:
        raise RequestError(
            "no network is given, neither here nor for all schemes; say network = 'NAME.safetensors'"
        )
    model, description = models.load(path)
    return model, description.classes


def _needs(given: Table, names: tuple[str, ...]) -> None:
    missing = [name for name in names if name not in given]
    if missing:
        raise RequestError(f"{', '.join(missing)} must be given")


def _table(kind: Any, told: object, where: str) -> Any:
    read = entries(told, get_type_hints(kind), where)
    try:
        return kind(**read)
    except TypeError as error:
        raise RequestError(f"[{where}]: {error}; give what is missing") from error
