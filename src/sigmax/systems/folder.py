"""A system is a folder: `system.toml` says what the scheme is, safetensors and files of other tools hold its networks.

Nothing in the folder is executed; code that it names is imported only if the caller names it too. Every network's
fingerprint and its outputs on probe inputs are checked on loading, so that no other network certifies anything.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
import torch
from torch import nn

from sigmax import request
from sigmax.engine.settings import check_device
from sigmax.errors import RequestError
from sigmax.files import replacing
from sigmax.models.checkpoints.bfloat16 import Store
from sigmax.models.optional import fetched
from sigmax.rules.certificate import joined
from sigmax.rules.procedure import NETWORK
from sigmax.rules.registry import rebuild
from sigmax.schemes.fields import SigmaField
from sigmax.schemes.registry import build
from sigmax.schemes.scheme import Scheme, expect_scheme
from sigmax.systems import zoo
from sigmax.systems.behaviour import HINT, behaviour, input_shape
from sigmax.systems.fields import check_fields, field_file, load_field, save_fields
from sigmax.systems.networks import (
    Known,
    Networks,
    entries,
    files_of,
    fingerprint_of,
    is_kept,
    parts_of,
    save_network,
)
from sigmax.systems.rebuilt import as_stored
from sigmax.version import __version__

FORMAT = 2
HEAD = "system.toml"
README = "README.md"  # the hub's card
FILES = ("*.safetensors", "*.onnx", "*.data", "*.pt2", "*.torchscript.pt")  # that a folder may hold


def save(scheme: Scheme, folder: str | Path, *, store: Store = "fp32") -> Path:
    """Write the scheme and its networks to `folder`; the head comes last, so a half-written folder is no system.

    `store="bf16"`: half the room; what is written, and its fingerprint, is the system with its weights so rounded.
    """
    folder, scheme = Path(folder), as_stored(expect_scheme(scheme), store)
    networks = entries(scheme)
    check_fields(scheme)
    _refuse_other(folder, scheme)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        parts = parts_of(scheme)
        for name, file in files_of(scheme).items():
            save_network(parts[name], folder / file, store=store)
        save_fields(scheme, folder)
        with replacing(folder / HEAD) as draft:
            draft.write_text(tomli_w.dumps(_head(scheme, networks)))
    except OSError as error:
        raise RequestError(f"cannot write the system to {folder} ({error.strerror}); choose another folder") from error
    return folder


def load(
    source: str | Path,
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype | str | None = None,
    batch: int | None = None,
    compile: bool | str = False,  # noqa: A002 (the name users know from torch)
    code: str | Sequence[str] = (),
) -> Scheme:
    """Reads a folder that `.save` or `sigmax build` wrote, "zoo:name" or "hub:owner/name"; refuses changed files.

    device, dtype, batch, compile: as of `Smoothed`.
    code: references `package.module:function` that may be imported and called, for systems whose networks are made
    by them. Without it nothing is executed, whatever the folder names.
    """
    how = {"device": device, "dtype": dtype, "batch": batch, "compile": compile}
    return _load(source, how, {}, code)


def load_together(sources: Sequence[str | Path], *, code: str | Sequence[str] = (), **how: Any) -> list[Scheme]:
    """Several systems, as `load` reads each; a network that more than one of them uses is one network here."""
    complete = {"device": None, "dtype": None, "batch": None, "compile": False, **how}
    known: Known = {}
    return [_load(source, complete, known, code) for source in sources]


def _load(source: str | Path, how: Mapping[str, Any], known: Known, code: str | Sequence[str]) -> Scheme:
    folder = _folder(source)
    head = _read_head(folder)
    allowed = (code,) if isinstance(code, str) else tuple(code)
    networks = Networks(folder, folder / HEAD, head.get("networks"), known, allowed)
    scheme = build(rebuild(head["scheme"]), FolderSource(networks, how))
    if fingerprint(scheme) != head.get("fingerprint"):
        raise RequestError(
            f"{folder / HEAD} was changed since the system was built (fingerprint {fingerprint(scheme)}, "
            f"not {head.get('fingerprint')}); build the system again with what you want"
        )
    _refuse_other_behaviour(folder, head, scheme)
    return scheme


def _refuse_other_behaviour(folder: Path, head: Mapping[str, Any], scheme: Scheme) -> None:
    """The weights are those that were saved; whether this code makes the same networks of them, their outputs say."""
    there, here = ({"behaviour": one} for one in (head.get("behaviour"), behaviour(scheme, input_shape(scheme))))
    what = f"{folder} does not compute here what it did when it was built"
    advice = "Load it with the code that built it, or build it again"
    request.refuse_other(there, here, what, advice, hints={"behaviour": HINT})


class FolderSource:
    """The networks and fields that stand under `prefix` in a folder; see `schemes.registry.NetworkSource`."""

    def __init__(self, networks: Networks, how: Mapping[str, Any], prefix: str = "") -> None:
        self.networks, self.how, self.prefix = networks, how, prefix

    def network(self, columns: int) -> nn.Module:
        """The network of this place, where it is to vote: it is nobody else's, so no copy has to be made of it."""
        model = self.networks.get(joined(self.prefix, NETWORK), columns)
        device = self.how["device"]
        return model if device is None else model.to(check_device(device))

    def field(self, description: Mapping[str, Any]) -> SigmaField:
        """The field of this place, from its file."""
        return load_field(self.networks.folder, joined(self.prefix, "field"), description)

    def part(self, name: str) -> "FolderSource":
        """What stands under a part's name."""
        return FolderSource(self.networks, self.how, joined(self.prefix, name))


def fingerprint(scheme: Scheme) -> str:
    """32 hex digits that identify what is certified: the rule and every network's weights and architecture.

    An exact hash, the same on every machine. What the networks' code computes is compared beside it: see `behaviour`.
    """
    networks = {name: fingerprint_of(name, voter.model) for name, voter in scheme.voters.items()}
    content = json.dumps([dict(scheme.rule.describe()), networks], sort_keys=True)
    return hashlib.sha256(f"sigmax system 2 {content}".encode()).hexdigest()[:32]


def _head(scheme: Scheme, networks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "fingerprint": fingerprint(scheme),
        "behaviour": behaviour(scheme, input_shape(scheme)),
        "scheme": dict(scheme.rule.describe()),
        "networks": {name: {k: v for k, v in entry.items() if v is not None} for name, entry in networks.items()},
        "origin": {"made_by": f"sigmax {__version__}"},
    }


def _refuse_other(folder: Path, scheme: Scheme) -> None:
    """Nothing that is not this very system is overwritten; one that was cut short while saving is completed."""
    if not (folder / HEAD).exists():
        _refuse_strangers(folder, scheme)
        for name, kept in files_of(scheme).items():
            if (folder / kept).exists() and not is_kept(parts_of(scheme)[name], name, folder / kept):
                raise RequestError(f"{folder / kept} exists and is another network; choose a folder of its own")
        return
    now, there = fingerprint(scheme), _read_head(folder).get("fingerprint")
    if there != now:
        raise RequestError(
            f"{folder} holds another system (fingerprint {there}, not {now}); choose another folder, or remove it"
        )
    _refuse_other_behaviour(folder, _read_head(folder), scheme)


def _refuse_strangers(folder: Path, scheme: Scheme) -> None:
    """A folder of other things, such as photographs, is refused; what a save that was cut short left is expected."""
    own = {*files_of(scheme).values(), *map(field_file, scheme.fields), README}
    try:
        found = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise RequestError(f"cannot read the folder {folder} ({error.strerror}); choose another folder") from error
    others = [name for name in found if name not in own and not name.startswith(".") and not name.endswith(".data")]
    if others:
        shown = ", ".join(others[:3]) + ", ..." * (len(others) > 3)
        raise RequestError(f"{folder} holds other files ({shown}); choose a new or an empty folder for the system")


def _folder(source: str | Path) -> Path:
    if str(source).startswith(zoo.PREFIX):
        return zoo.folder_of(str(source).removeprefix(zoo.PREFIX))
    if str(source).startswith("hub:"):
        name = str(source).removeprefix("hub:")
        return _folder(fetched(name, (HEAD, *FILES), expected="a system folder"))
    try:
        folder = Path(source).expanduser()
        found = (folder / HEAD).is_file()
    except (OSError, RuntimeError) as error:  # no such user's home, or a name too long
        raise RequestError(f"{source} cannot be a system folder: {error}") from error
    if folder.suffix in (".safetensors", ".pt", ".pth", ".th", ".onnx", ".pt2"):
        raise RequestError(
            f"{folder} is the file of a network; make a system of it: sigmax build smoothed {folder} --out SYSTEM"
        )
    if not found:
        raise RequestError(
            f"expected a system folder with a {HEAD} at {folder}; `sigmax build` or `sigmax pipeline run` makes one"
        )
    return folder


def _read_head(folder: Path) -> dict[str, Any]:
    try:
        head = tomllib.loads((folder / HEAD).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise RequestError(f"{folder / HEAD} cannot be read: {error}") from error
    if head.get("format") != FORMAT:
        raise RequestError(
            f"{folder / HEAD} has format {head.get('format')!r:.80}; this version reads format {FORMAT}, so build the "
            "system again"
        )
    if not isinstance(head.get("scheme"), dict):
        raise RequestError(f"{folder / HEAD} describes no scheme; the file is damaged")
    return head
