"""A system is a folder: `system.toml` says what the scheme is, safetensors hold its networks.

Nothing in the folder is executed. Every network's fingerprint is written down and checked on loading, so a
file that was exchanged is noticed before it certifies anything.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sigmax import __version__, models
from sigmax.certify.dual import Dual
from sigmax.certify.dual_parts import ROUTER, expert_name
from sigmax.certify.dual_rule import DualRule
from sigmax.certify.lipschitz import Lipschitz
from sigmax.certify.lipschitz_rule import LipschitzRule
from sigmax.certify.procedure import Rule
from sigmax.certify.rebuild import rebuild
from sigmax.certify.scheme import Scheme
from sigmax.certify.smoothed import Smoothed
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.errors import RequestError, RunError
from sigmax.files import replacing
from sigmax.noise.voter import Model
from sigmax.system.toml import dumps

FORMAT = 1
HEAD = "system.toml"
Known = dict[str, tuple[nn.Module, models.Description]]  # networks already read, by fingerprint


def save(scheme: Scheme, folder: str | Path) -> Path:
    """Write the scheme and its networks to `folder`; the head comes last, so a half-written folder is no system."""
    folder = Path(folder)
    descriptions = {name: _description(name, voter.model) for name, voter in scheme.voters.items()}
    _refuse_other(folder, scheme)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, file in _files(scheme).items():
            model = scheme.voters[name].model
            assert isinstance(model, nn.Module)
            models.save(folder / file, model)
        with replacing(folder / HEAD) as draft:
            draft.write_text(dumps(_head(scheme, descriptions)))
    except OSError as error:
        raise RunError(f"cannot write the system to {folder} ({error.strerror}); choose another folder") from error
    return folder


def load(
    source: str | Path,
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    batch: int | None = None,
    compile: bool | str = False,  # noqa: A002 (the name users know from torch)
) -> Scheme:
    """Reads a folder written by `.save` or `sigmax build`; files changed since then are refused.

    device, dtype, batch, compile: as of `Smoothed`.
    """
    how = {"device": device, "dtype": dtype, "batch": batch, "compile": compile}
    return _load(source, how, {})


def load_together(sources: Sequence[str | Path], **how: Any) -> list[Scheme]:
    """Several systems, as `load` reads each; a network that more than one of them uses is one network here."""
    complete = {"device": None, "dtype": None, "batch": None, "compile": False, **how}
    known: Known = {}
    return [_load(source, complete, known) for source in sources]


def _load(source: str | Path, how: Mapping[str, Any], known: Known) -> Scheme:
    folder = _folder(source)
    head = _read_head(folder)
    scheme = _scheme(rebuild(head), "", _Networks(folder, head, known), how)
    if fingerprint(scheme) != head.get("fingerprint"):
        raise RequestError(
            f"{folder / HEAD} was changed since the system was built (fingerprint {fingerprint(scheme)}, "
            f"not {head.get('fingerprint')}); build the system again with what you want"
        )
    return scheme


def _scheme(rule: Rule, prefix: str, networks: "_Networks", how: Mapping[str, Any]) -> Scheme:
    """The scheme of a rule, with the networks that stand under `prefix` in the head."""
    if isinstance(rule, DualRule):
        router = _scheme(rule.router, f"{prefix}{ROUTER}/", networks, how)
        experts = [_scheme(e, f"{prefix}{expert_name(j)}/", networks, how) for j, e in enumerate(rule.experts)]
        assert isinstance(router, Smoothed)
        return Dual(router, experts, rule=rule.rule)
    model = networks.get(f"{prefix}base", rule.classes)
    if isinstance(rule, LipschitzRule):
        return Lipschitz(model, rule.constant, classes=rule.classes, device=how["device"])
    assert isinstance(rule, SmoothedRule)
    return Smoothed(model, sigma=rule.sigma, classes=rule.classes, bound=rule.bound, **how)


def fingerprint(scheme: Scheme) -> str:
    """32 hex digits that identify what is certified: the rule and every network's weights and architecture."""
    networks = {name: _model_fingerprint(name, voter.model) for name, voter in scheme.voters.items()}
    told = json.dumps([dict(scheme.rule.describe()), networks], sort_keys=True)
    return hashlib.sha256(f"sigmax system 1 {told}".encode()).hexdigest()[:32]


def _model_fingerprint(name: str, model: Model) -> str:
    if isinstance(model, nn.Module):
        weights = models.fingerprint(model)
        if models.describe(model):
            return weights
        return _own_module(model, weights)
    declared = getattr(model, "fingerprint", None)
    if not isinstance(declared, str):
        raise RequestError(
            f"the network {name!r} is a {type(model).__name__}, whose content cannot be identified; use a torch "
            "module, or set its attribute `fingerprint` to a text that changes whenever its votes would"
        )
    return declared


def _own_module(model: nn.Module, weights: str) -> str:
    """A module of the user's own class is known by its class, its printed structure and all its tensors."""
    told = hashlib.sha256(f"{type(model).__module__}.{type(model).__qualname__} {model!r} {weights}".encode())
    for name, buffer in sorted(model.named_buffers()):  # also those a state dict leaves out
        told.update(f"{name} {buffer.dtype} {tuple(buffer.shape)}".encode())
        told.update(buffer.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return told.hexdigest()[:32]


def _description(name: str, model: Model) -> models.Description:
    described = models.describe(model)
    if described is None:
        raise RequestError(
            f"the network {name!r} ({type(model).__name__}) cannot be saved: only registered architectures can be "
            "rebuilt from a file. Register its builder with sigmax.models.register, make the network with "
            'sigmax.models.create(sigmax.models.Description(architecture="name", classes=..., input_shape=...)) '
            "and load your weights into its `network`. The command line knows the built-in architectures only; "
            "from Python, sx.certify_run takes any network as it is"
        )
    return described


def _head(scheme: Scheme, descriptions: Mapping[str, models.Description]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        **scheme.rule.describe(),
        "fingerprint": fingerprint(scheme),
        "networks": {
            name: {
                "file": _file_of(scheme, name),
                "fingerprint": _model_fingerprint(name, scheme.voters[name].model),
                "architecture": described.architecture,
                "input_shape": list(described.input_shape),
                "training_sigma": described.sigma,
                "normalisation": asdict(described.normalisation) if described.normalisation else None,
            }
            for name, described in descriptions.items()
        },
        "origin": {"made_by": f"sigmax {__version__}"},
    }


def _files(scheme: Scheme) -> dict[str, str]:
    """The file of each network, by the first name it has: one that serves several experts is kept once."""
    return {name: file for name, file in _all_files(scheme).items() if file == _file(name)}


def _file_of(scheme: Scheme, name: str) -> str:
    return _all_files(scheme)[name]


def _all_files(scheme: Scheme) -> dict[str, str]:
    first: dict[int, str] = {}
    return {name: first.setdefault(id(voter.model), _file(name)) for name, voter in scheme.voters.items()}


def _file(name: str) -> str:
    """`expert-0/base` is kept in expert-0.safetensors, and a lone `base` in base.safetensors."""
    path = name.removesuffix("/base").replace("/", "-")
    return f"{path}.safetensors"


def _refuse_other(folder: Path, scheme: Scheme) -> None:
    """Nothing that is not this very system is overwritten; one that was cut short while saving is completed."""
    if not (folder / HEAD).exists():
        for name, kept in _files(scheme).items():
            file = folder / kept
            if file.exists() and models.fingerprint(file) != _model_fingerprint(name, scheme.voters[name].model):
                raise RequestError(f"{file} exists and is another network; choose a folder of its own")
        return
    now, there = fingerprint(scheme), _read_head(folder).get("fingerprint")
    if there != now:
        raise RequestError(
            f"{folder} holds another system (fingerprint {there}, not {now}); choose another folder, or remove it"
        )


def _folder(source: str | Path) -> Path:
    for scheme in ("zoo:", "hub:"):
        if str(source).startswith(scheme):
            raise RequestError(f"this version cannot load {source!r}; give a folder written by sigmax build")
    try:
        folder = Path(source).expanduser()
        found = (folder / HEAD).is_file()
    except (OSError, RuntimeError) as error:  # no such user's home, or a name too long
        raise RequestError(f"{source} cannot be a system folder: {error}") from error
    if folder.suffix in (".safetensors", ".pt", ".pth", ".th"):
        raise RequestError(
            f"{folder} is a checkpoint; make a system of it: sigmax build smoothed {folder} --out SYSTEM"
        )
    if not found:
        raise RequestError(f"expected a system folder with a {HEAD} at {folder}; `sigmax build` writes one")
    return folder


def _read_head(folder: Path) -> dict[str, Any]:
    try:
        head = tomllib.loads((folder / HEAD).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise RequestError(f"{folder / HEAD} cannot be read: {error}") from error
    if head.get("format") != FORMAT:
        raise RequestError(f"{folder / HEAD} has format {head.get('format')!r}; this version reads {FORMAT}")
    return head


class _Networks:
    """The networks of a folder; one that was read before, here or in another folder, is the same network again."""

    def __init__(self, folder: Path, head: Mapping[str, Any], known: Known) -> None:
        self.folder = folder
        self.head = head
        self.known = known

    def get(self, name: str, classes: int) -> nn.Module:
        """The network of this name, seen to be the one the system was built with."""
        file, recorded = self._entry(name)
        model, description = self.known.get(recorded) or models.load(self.folder / file)
        if description.classes != classes:
            raise RequestError(
                f"{self.folder}: the system tells {classes} classes apart, "
                f"its network {name!r} {description.classes}"
            )
        found = models.fingerprint(model)
        if found != recorded:
            raise RequestError(
                f"{self.folder / file} is not the network the system was built with (fingerprint {found}, not "
                f"{recorded}); build the system again"
            )
        self.known[recorded] = model, description
        return model

    def _entry(self, name: str) -> tuple[Path, str]:
        try:
            entry = self.head["networks"][name]
            file, recorded = Path(entry["file"]), str(entry["fingerprint"])
        except (KeyError, TypeError) as error:
            raise RequestError(
                f"{self.folder / HEAD} names no file and fingerprint for the network {name!r}"
            ) from error
        if file.name != str(file):
            raise RequestError(
                f"{self.folder / HEAD}: network files lie in the folder itself; got {entry['file']!r}"
            )
        return file, recorded
