"""The file that `sigmax compare` reads: one selection of data, one budget, several schemes.

out = "compared"                 # where all of it is kept; paths begin at the file's own folder
network = "net.safetensors"      # for every scheme that names none of its own
device = "cpu"                   # where networks vote
radii = [0.0, 0.25]              # the table's columns

[networks]                       # names for checkpoints, NAME = PATH, that schemes may be told instead of paths
[data]                           # source, split, train (what a field is measured from), start, skip, max
[certify]                        # n0, n, alpha, seed, sampling, targets, tolerance, dtype, compile, batch
[schemes.NAME]                   # kind, and what that kind takes; sampling in place of [certify]'s
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self, get_type_hints

from sigmax.certify.sampling import Sampling, asked
from sigmax.errors import RequestError
from sigmax.train.config_table import Table, entries, inside
from sigmax.train.pipeline_read import place, place_of_data, place_of_system, read_file
from sigmax.train.pipeline_tables import VotingConfig

TABLES = ("networks", "data", "certify", "schemes")

# What each kind of scheme must be told, and what it may be told besides, `COMMON` apart.
NEEDED: Mapping[str, Mapping[str, Any]] = {
    "smoothed": {"sigma": float},
    "multiscale": {"sigmas": tuple[float, ...]},
    "semi-elastic": {"base": float, "rate": float, "k": int, "offset": float},
    "memorized": {"sigma0": float},
    "system": {"folder": str},
}
ALLOWED: Mapping[str, Mapping[str, Any]] = {
    "smoothed": {"bound": str},
    "multiscale": {"networks": tuple[str, ...], "thresholds": tuple[float, ...], "budget": str},
    "semi-elastic": {"points": int},
    "memorized": {
        **dict.fromkeys(("least", "most", "step"), float),
        **dict.fromkeys(("steps", "noises"), int),
        "search": str,
    },
    "system": {},
}
COMMON: Mapping[str, Any] = {"kind": str, "network": str, "sampling": Literal["fixed", "adaptive"]}


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
class BudgetConfig(VotingConfig):
    """The draws and the chance of error that each scheme has, and how its networks vote."""

    n0: int = 100
    n: int = 10_000


@dataclass(frozen=True, kw_only=True)
class SchemeConfig:
    """One scheme: its kind, and what it is told. The networks are checkpoints, or the folder a system's."""

    kind: str
    told: Mapping[str, Any]
    networks: tuple[str, ...] = ()
    sampling: Literal["fixed", "adaptive"] | None = None  # None: the file's


@dataclass(frozen=True, kw_only=True)
class CompareConfig:
    """A whole comparison."""

    out: Path
    data: DataConfig
    schemes: Mapping[str, SchemeConfig]
    device: str = "cpu"
    radii: tuple[float, ...] = ()
    certify: BudgetConfig = field(default_factory=BudgetConfig)

    @property
    def how(self) -> dict[str, Any]:
        """How networks vote, as keywords of any scheme."""
        return self.certify.how(self.device)

    def question(self, name: str) -> Sampling:
        """What is asked of a scheme: the same of all, unless its table names another way of sampling."""
        own = self.schemes[name].sampling
        return self.certify.question if own is None or own == self.certify.sampling else asked(own)

    def request(self, name: str) -> dict[str, Any]:
        """What `certify_run` is asked of a scheme, as its keywords."""
        return {
            **{key: getattr(self.certify, key) for key in ("n0", "n", "alpha", "seed")},
            "start": self.data.start,
            "skip": self.data.skip,
            "maximum": self.data.max,
            "sampling": self.question(name),
        }

    @classmethod
    def read(cls, path: Path, changes: Sequence[str] = ()) -> Self:
        """The comparison in a TOML file; every key must be known.

        `changes`: such as "certify.n=1000", each in place of what the file says.
        """
        told = read_file(path, changes, "comparison")
        with inside(str(path)):
            return cls.from_table(told, path.parent)

    @classmethod
    def from_table(cls, told: Table, folder: Path) -> Self:
        """The same from what the file held; relative paths begin at `folder`."""
        hints = {f.name: get_type_hints(cls)[f.name] for f in fields(cls)}
        hints |= {"out": str, "network": str, **dict.fromkeys(TABLES, Mapping)}
        given = entries(told, hints, "")
        for name in ("out", "data", "schemes"):
            if name not in given:
                raise RequestError(f"the file must say {name}; see docs/other_schemes.md for an example")
        if not given["schemes"]:
            raise RequestError("[schemes.NAME] must name at least one scheme, each with its kind")
        known = given.pop("networks", {})
        known = entries(known, dict.fromkeys(known, str), "networks")
        usual = given.pop("network", None)
        given["out"] = place(given["out"], folder)
        given["data"] = _data(given["data"], folder)
        given["certify"] = _table(BudgetConfig, given.get("certify", {}), "certify")
        given["schemes"] = {
            name: _scheme(name, table, _Checkpoints(folder, known, usual))
            for name, table in given["schemes"].items()
        }
        return cls(**given)


def _data(told: object, folder: Path) -> DataConfig:
    given = entries(told, get_type_hints(DataConfig), "data")
    if "source" not in given:
        raise RequestError("data.source is missing: digits, cifar10:PATH ...")
    return DataConfig(**{**given, "source": place_of_data(given["source"], folder)})


@dataclass(frozen=True)
class _Checkpoints:
    """Which files the schemes' networks are: by a path from the folder, or by a name that the file gives one."""

    folder: Path
    known: Mapping[str, str]
    usual: str | None

    def of(self, given: Mapping[str, Any]) -> tuple[str, ...]:
        """Those of a scheme's table: one, or one for each of its sigmas."""
        if "network" in given and "networks" in given:
            raise RequestError("give network, for all sigmas, or networks, one for each; not both")
        told = given.get("networks", (given.get("network", self.usual),))
        if not told or None in told:
            raise RequestError(
                "no network is given, neither here nor for all schemes; say network = 'NAME.safetensors'"
            )
        return tuple(str(place(self.known.get(name, name), self.folder)) for name in told)


def _scheme(name: str, told: object, checkpoints: _Checkpoints) -> SchemeConfig:
    where = f"schemes.{name}"
    if Path(name).name != name:
        raise RequestError(f"[{where}]: the name becomes that of a file; use one without slashes")
    if not isinstance(told, Mapping):
        raise RequestError(f"[{where}] must be a table with a kind; got {told!r}")
    kind = str(told.get("kind"))
    if kind not in NEEDED:
        raise RequestError(f"{where}: kind must be one of {', '.join(NEEDED)}; got {told.get('kind')!r}")
    given = entries(told, {**COMMON, **NEEDED[kind], **ALLOWED[kind]}, where)
    with inside(where):
        missing = [key for key in NEEDED[kind] if key not in given]
        if missing:
            raise RequestError(f"{', '.join(missing)} must be given")
        if given.get("points", 1) < 1:
            raise RequestError(f"points must be at least 1, or left out for all; got {given['points']}")
        networks = () if kind == "system" else checkpoints.of(given)
    own = {key: value for key, value in given.items() if key not in COMMON and key != "networks"}
    if kind == "system":
        own["folder"] = place_of_system(own["folder"], checkpoints.folder)
    return SchemeConfig(kind=kind, told=own, networks=networks, sampling=given.get("sampling"))


def _table(kind: Any, told: object, where: str) -> Any:
    read = entries(told, get_type_hints(kind), where)
    with inside(f"[{where}]"):
        return kind(**read)
