"""The networks of a system: what identifies them, which files they lie in, and how they are read again.

A network is named by its place in the scheme, such as `expert-0/base`. One that denoises first is two: its
classifier has that name, its denoiser the same with `/denoiser` behind it. Each lies in a file of its own, and what
serves in several places, such as a denoiser before a router and its experts, is kept and read once. So is the
network of an expert whose sureness is the router: the router's file has the rest of it alone.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sigmax import models
from sigmax.certify.scheme import Scheme
from sigmax.errors import RequestError
from sigmax.models import Denoised
from sigmax.models.sure import PART, inside
from sigmax.models.tensors import digest
from sigmax.noise.voter import Model

DENOISER = "/denoiser"
Part = tuple[str, Path] | None  # of a network: its name in it, and the file that has it
Known = dict[str, nn.Module]  # networks already read, by fingerprint


def parts_of(scheme: Scheme) -> dict[str, Model]:
    """Every network of the scheme by its name, in parts where it has parts."""
    parts: dict[str, Model] = {}
    for name, voter in scheme.voters.items():
        if isinstance(voter.model, Denoised):
            parts |= {name: voter.model.classifier, f"{name}{DENOISER}": voter.model.denoiser}
        else:
            parts[name] = voter.model
    return parts


def fingerprint_of(name: str, model: Model) -> str:
    """32 hex digits that identify what a network computes."""
    if isinstance(model, Denoised):
        both = [fingerprint_of(f"{name}{DENOISER}", model.denoiser), fingerprint_of(name, model.classifier)]
        return hashlib.sha256(f"sigmax denoised 1 {' '.join(both)}".encode()).hexdigest()[:32]
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


def description_of(name: str, model: Model) -> models.Description:
    """What the network is; one that cannot be rebuilt from a file is refused."""
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


def entries(scheme: Scheme) -> dict[str, dict[str, Any]]:
    """What the head of a system's folder says of each network."""
    files, elsewhere = _all_files(scheme), kept_elsewhere(scheme)
    return {
        name: _entry(name, model, files[name]) | ({PART: elsewhere[name]} if name in elsewhere else {})
        for name, model in parts_of(scheme).items()
    }


def kept_elsewhere(scheme: Scheme) -> dict[str, str]:
    """For every router of sureness that is about another network of the system: the file of that network."""
    files, parts = _all_files(scheme), parts_of(scheme)
    routers = {name: network for name, model in parts.items() if (network := inside(model)) is not None}
    if not routers:
        return {}
    whole = {
        digest("", model.network.state_dict()): files[name]
        for name, model in parts.items()
        if isinstance(model, models.Classifier) and name not in routers
    }
    found = {name: whole.get(digest("", network.state_dict())) for name, network in routers.items()}
    return {name: file for name, file in found.items() if file is not None}


def _entry(name: str, model: Model, file: str) -> dict[str, Any]:
    described = description_of(name, model)
    return {
        "file": file,
        "fingerprint": fingerprint_of(name, model),
        "architecture": described.architecture,
        "input_shape": list(described.input_shape),
        "training_sigma": described.sigma,
        "normalisation": asdict(described.normalisation) if described.normalisation else None,
    }


def files_of(scheme: Scheme) -> dict[str, str]:
    """The file of each network, by the first name it has: one that serves several experts is kept once."""
    return {name: file for name, file in _all_files(scheme).items() if file == _file(name)}


def _all_files(scheme: Scheme) -> dict[str, str]:
    first: dict[int, str] = {}
    return {name: first.setdefault(id(model), _file(name)) for name, model in parts_of(scheme).items()}


def _file(name: str) -> str:
    """`expert-0/base` is kept in expert-0.safetensors, a lone `base` in base.safetensors; denoisers likewise."""
    denoises = name.endswith(DENOISER)
    path = name.removesuffix(DENOISER).removesuffix("/base").replace("/", "-")
    if denoises:
        return "denoiser.safetensors" if path == "base" else f"{path}-denoiser.safetensors"
    return f"{path}.safetensors"


class Networks:
    """The networks of a folder; one that was read before, here or in another folder, is the same network again."""

    def __init__(self, folder: Path, head: Path, entries: object, known: Known) -> None:
        self.folder, self.head = folder, head
        self.entries: Mapping[str, Any] = entries if isinstance(entries, Mapping) else {}
        self.known = known

    def get(self, name: str, classes: int) -> nn.Module:
        """The network of this name, seen to be the one the system was built with."""
        part = self._part(name)
        model = self._read(name, lambda path: models.load(path, part=part)[0], classes)
        if f"{name}{DENOISER}" not in self.entries:
            return model
        denoised = Denoised(self._read(f"{name}{DENOISER}", models.load_denoiser, 0), model)
        # Several experts over one pair are to be one network again.
        return self.known.setdefault(fingerprint_of(name, denoised), denoised)

    def _read(self, name: str, load: Callable[[Path], nn.Module], classes: int) -> nn.Module:
        file, recorded = self._entry(name)
        model = self.known.get(recorded)
        if model is None:
            model = load(self.folder / file)
        told = models.describe(model)
        if told is not None and told.classes != classes:
            raise RequestError(
                f"{self.folder}: the system tells {classes} classes apart, its network {name!r} {told.classes}"
            )
        found = models.fingerprint(model)
        if found != recorded:
            raise RequestError(
                f"{self.folder / file} is not the network the system was built with (fingerprint {found}, not "
                f"{recorded}); build the system again"
            )
        self.known[recorded] = model
        return model

    def _entry(self, name: str) -> tuple[Path, str]:
        try:
            entry = self.entries[name]
            file, recorded = Path(entry["file"]), str(entry["fingerprint"])
        except (KeyError, TypeError) as error:
            raise RequestError(f"{self.head} names no file and fingerprint for the network {name!r}") from error
        return self._within(str(file)), recorded

    def _part(self, name: str) -> Part:
        entry = self.entries.get(name)
        file = entry.get(PART) if isinstance(entry, Mapping) else None
        return None if file is None else (PART, self.folder / self._within(str(file)))

    def _within(self, file: str) -> Path:
        if Path(file).name != file or file in ("", ".."):
            raise RequestError(f"{self.head}: network files lie in the folder itself; got {file!r}")
        return Path(file)
