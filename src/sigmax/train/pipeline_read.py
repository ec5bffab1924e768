"""From a pipeline's TOML to its tables: strict reading, defaults, and changes told beside the file."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from sigmax.errors import RequestError
from sigmax.train.config_table import Table, entries, inside
from sigmax.train.finetune import FINE_TUNING
from sigmax.train.pipeline_tables import (
    BalanceConfig,
    CertifyConfig,
    DataConfig,
    ExpertsConfig,
    FinetuneConfig,
    InnerConfig,
    LabelsConfig,
    RouterConfig,
)
from sigmax.train.router_options import LossOptions, refuse_preset
from sigmax.train.router_presets import SMALL, router_preset
from sigmax.train.settings import Settings

C = TypeVar("C", LabelsConfig, CertifyConfig)
TABLES = ("data", "experts", "labels", "router", "balance", "finetune", "certify")


def read_file(path: Path, changes: Sequence[str] = (), what: str = "pipeline") -> Table:
    """What a TOML file holds, with the changes made; `what`: how an error calls the file."""
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(f"the {what} file {path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{path} is not TOML: {error}") from error
    for change in changes:
        _change(told, change)
    return told


def tables(told: Table, folder: Path, hints: Mapping[str, Any]) -> dict[str, Any]:
    """All entries of a pipeline's file as keywords of `PipelineConfig`; `hints`: kinds of those without a table."""
    kinds = {"out": str, "device": str, "inner": tuple[Table, ...], **hints, **dict.fromkeys(TABLES, Table)}
    given = entries(told, kinds, "")
    for name in ("out", "data", "experts", "router"):
        if name not in given:
            raise RequestError(f"[{name}] is missing" if name != "out" else "out is missing: name a folder")
    device = given.get("device", "cpu")
    found = {
        "out": place(given["out"], folder),
        "data": _data(given["data"], folder),
        "experts": _experts(given["experts"], folder, device),
        "labels": _voting(LabelsConfig, given.get("labels", {}), "labels"),
        "router": RouterConfig(**_router(RouterConfig, given["router"], "router", device)),
        "inner": tuple(_inner(part, number, device) for number, part in enumerate(given.get("inner", ()))),
        "balance": BalanceConfig(**_balance(given["balance"])) if "balance" in given else None,
        "finetune": _finetune(given.get("finetune", {}), device),
        "certify": _voting(CertifyConfig, given.get("certify", {}), "certify"),
    }
    return {**given, **found}


def _change(told: dict[str, Any], change: str) -> None:
    """Put a value in its place; what is no TOML is text, and nothing at all takes the key out."""
    key, equals, text = change.partition("=")
    *path, last = key.strip().split(".")
    if not equals or not all([*path, last]):
        raise RequestError(f"a change is given as KEY=VALUE, such as router.sigma=0.5; got {change!r}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    table: Any = told
    for part in path:
        table = _below(table, part, change)
    if isinstance(table, list):
        raise RequestError(f"{change!r}: {'.'.join(path)} is a list of tables; name a key of one, as inner.0.sigma")
    if text.strip():
        table[last] = value
    else:
        table.pop(last, None)


def _below(table: Any, part: str, change: str) -> Any:
    if isinstance(table, list):
        if not part.isdigit() or int(part) >= len(table):
            raise RequestError(f"{change!r}: expected a number below {len(table)} in place of {part!r}")
        return table[int(part)]
    below = table.setdefault(part, {})
    if not isinstance(below, dict | list):
        raise RequestError(f"{change!r}: {part} is {below!r}, no table")
    return below


def place(path: str, folder: Path) -> Path:
    """A path of the file, which begins at the file's own folder."""
    try:
        return folder / Path(path).expanduser()
    except RuntimeError as error:
        raise RequestError(f"{path} cannot be found: {error}") from error


def _data(told: Table, folder: Path) -> DataConfig:
    given = _entries(DataConfig, told, "data")
    if "source" not in given:
        raise RequestError("data.source is missing: digits, cifar10:PATH ...")
    return DataConfig(**{**given, "source": place_of_data(given["source"], folder)})


def place_of_data(source: str, folder: Path) -> str:
    """A source of data whose path, if it has one, begins at the file's own folder."""
    kind, _, path = source.partition(":")
    return f"{kind}:{place(path, folder)}" if path else source


def _experts(told: Table, folder: Path, device: str) -> ExpertsConfig:
    one_each = {
        key: [told[key]] for key, kind in (("method", str), ("hyper", dict)) if isinstance(told.get(key), kind)
    }
    given = _entries(ExpertsConfig, {**told, **one_each}, "experts")
    beside = sorted(set(given) - {"systems"})
    if "systems" in given and beside:
        raise RequestError(
            "[experts] takes either systems, which exist, or what to train; beside systems it got "
            f"{', '.join(beside)}: leave one of them out"
        )
    given["systems"] = tuple(place_of_system(system, folder) for system in given.get("systems", ()))
    given["training"] = _settings(given, "experts", Settings(), device)
    return ExpertsConfig(**given)


def place_of_system(source: str, folder: Path) -> str:
    """A system's folder from the file's own, or what lies elsewhere as it is."""
    return source if source.startswith(("zoo:", "hub:")) else str(place(source, folder))


def _router(cls: type[RouterConfig], told: Table, where: str, device: str) -> dict[str, Any]:
    """The loss's options stand in the same table; a preset fills what the table leaves out."""
    options = get_type_hints(LossOptions)
    given = _entries(cls, told, where, preset=str, **options)
    needless = sorted(set(given) - {"sigma", "sure_of", "names", "experts"}) if "sure_of" in given else []
    if needless:
        raise RequestError(
            f"{where}.sure_of makes an expert's network the router and trains nothing; leave out "
            f"{', '.join(needless)}"
        )
    preset = SMALL
    if "preset" in given:
        with inside(f"{where}.preset"):
            refuse_preset(given["preset"], given.get("objective", "paper"))
            preset = router_preset(given.pop("preset"), architecture=given.get("model"))
    given = {"model": preset.architecture, **preset.fields, **given}
    if "sigma" not in given:
        raise RequestError(f"{where}.sigma is missing: the router's own noise, at least the experts' largest")
    given["loss"] = {name: given.pop(name) for name in options if name in given}
    given["training"] = _settings(given, where, preset.settings, device)
    return given


def _inner(told: Table, number: int, device: str) -> InnerConfig:
    given = _router(InnerConfig, told, f"inner {number}", device)
    if "experts" not in given:
        raise RequestError(f"inner {number}.experts is missing: the places of its experts, such as [0, 1]")
    return InnerConfig(**given)


def _balance(told: Table) -> dict[str, Any]:
    given = _entries(BalanceConfig, told, "balance")
    if "goal" not in given:
        raise RequestError("balance.goal is missing: certified accuracy in % to be above, at each of the radii")
    return given


def _finetune(told: Table, device: str) -> FinetuneConfig:
    given = _entries(FinetuneConfig, told, "finetune")
    given["training"] = _settings(given, "finetune", FINE_TUNING, device)
    with inside("[finetune]"):
        return FinetuneConfig(**given)


def _voting(cls: type[C], told: Table, where: str) -> C:
    given = _entries(cls, told, where)
    with inside(f"[{where}]"):
        return cls(**given)


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
