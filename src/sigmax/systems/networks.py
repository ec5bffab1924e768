"""The networks of a system: what identifies them, which files they lie in, and how they are read again.

A network is named by its place in the scheme, such as `expert-0/base`. One that denoises first is two: its
classifier has that name, its denoiser the same with `/denoiser` behind it. Of a selective model the network inside is
kept, and its confidence in the head of the folder. What serves in several places is kept and read once. An ONNX, .pt2
or TorchScript file is kept as it came; of a network that code makes the head holds the reference, and no file.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sigmax import models
from sigmax.engine.settings import Model
from sigmax.errors import RequestError
from sigmax.models import Denoised, Program
from sigmax.models.adapters import programs
from sigmax.models.adapters.callables import digest
from sigmax.models.adapters.programs import CODE, KINDS, SUFFIXES
from sigmax.models.checkpoints.bfloat16 import Store
from sigmax.models.selective import Selective, check_confidence
from sigmax.schemes.scheme import Scheme

DENOISER = "/denoiser"
CONFIDENCE = "confidence"
Known = dict[str, nn.Module]  # networks already read, by fingerprint


def parts_of(scheme: Scheme) -> dict[str, Model]:
    """Every network of the scheme by its name, in parts where it has parts."""
    parts: dict[str, Model] = {}
    for name, voter in scheme.voters.items():
        model = voter.model.model if isinstance(voter.model, Selective) else voter.model
        if isinstance(model, Denoised):
            parts |= {name: model.classifier, f"{name}{DENOISER}": model.denoiser}
        else:
            parts[name] = model
    return parts


def fingerprint_of(name: str, model: Model) -> str:
    """32 hex digits that identify what a network computes."""
    if isinstance(model, Selective):
        inside = f"{model.confidence!r} {fingerprint_of(name, model.model)}"
        return hashlib.sha256(f"sigmax selective 2 {inside}".encode()).hexdigest()[:32]
    if isinstance(model, Denoised):
        both = [fingerprint_of(f"{name}{DENOISER}", model.denoiser), fingerprint_of(name, model.classifier)]
        return hashlib.sha256(f"sigmax denoised 1 {' '.join(both)}".encode()).hexdigest()[:32]
    if isinstance(model, Program) and model.kind == CODE:
        return programs.fingerprint(model, fingerprint_of(name, model.network))
    if isinstance(model, nn.Module):
        weights = models.fingerprint(model)
        if models.describe(model):
            return weights
        return _own_module(model, weights)
    declared = getattr(model, "fingerprint", None)
    return declared if isinstance(declared, str) else _function(model)


def _function(model: Model) -> str:
    """A function has no content that could be hashed: its name stands for it, and `behaviour` tells it from others."""
    named = model if hasattr(model, "__qualname__") else type(model)
    name = f"{getattr(named, '__module__', '')}.{getattr(named, '__qualname__', '')}"
    return hashlib.sha256(f"sigmax function 1 {name}".encode()).hexdigest()[:32]


def _own_module(model: nn.Module, weights: str) -> str:
    """A module of the user's own class is known by its class, its printed structure and all its tensors."""
    digest = hashlib.sha256(f"{type(model).__module__}.{type(model).__qualname__} {model!r} {weights}".encode())
    for name, buffer in sorted(model.named_buffers()):  # also those a state dict leaves out
        digest.update(f"{name} {buffer.dtype} {tuple(buffer.shape)}".encode())
        digest.update(buffer.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:32]


def description_of(name: str, model: Model) -> models.Description:
    """What the network is; one that cannot be rebuilt from a file is refused."""
    described = models.describe(model)
    if described is None:
        raise RequestError(
            f"the network {name!r} ({type(model).__name__}) cannot be saved: a folder holds registered architectures, "
            "and files of ONNX, torch.export and TorchScript. Export it and open the file with "
            "sigmax.models.open_program, name the function that makes it with sigmax.models.from_code, or register "
            "its builder with sigmax.models.register. sx.certify_run takes any model as it is"
        )
    return described


def entries(scheme: Scheme) -> dict[str, dict[str, Any]]:
    """What the head of a system's folder says of each network."""
    files = _all_files(scheme)
    found = {name: _entry(name, model, files[name]) for name, model in parts_of(scheme).items()}
    for name, voter in scheme.voters.items():
        if isinstance(voter.model, Selective):
            found[name][CONFIDENCE] = voter.model.confidence
    return found


def _entry(name: str, model: Model, file: str) -> dict[str, Any]:
    described = description_of(name, model)
    coded = isinstance(model, Program) and model.kind == CODE
    return {
        "file": None if coded else file,
        "code": described.options["code"] if coded else None,
        "fingerprint": fingerprint_of(name, model),
        "architecture": described.architecture,
        "input_shape": list(described.input_shape),
        "training_sigma": described.sigma,
        "normalisation": asdict(described.normalisation) if described.normalisation else None,
    }


def files_of(scheme: Scheme) -> dict[str, str]:
    """The file of each network, by the first name it has: one that serves several experts is kept once."""
    parts = parts_of(scheme)
    kept = {name: file for name, file in _all_files(scheme).items() if file == _file(name, parts[name])}
    return {name: file for name, file in kept.items() if getattr(parts[name], "kind", None) != CODE}


def _all_files(scheme: Scheme) -> dict[str, str]:
    first: dict[int, str] = {}
    return {name: first.setdefault(id(model), _file(name, model)) for name, model in parts_of(scheme).items()}


def _file(name: str, model: Model) -> str:
    """`expert-0/base` is kept in expert-0.safetensors, a lone `base` in base.safetensors; denoisers likewise."""
    suffix = SUFFIXES.get(model.kind, "") if isinstance(model, Program) else ".safetensors"
    denoises = name.endswith(DENOISER)
    path = name.removesuffix(DENOISER).removesuffix("/base").replace("/", "-")
    if denoises:
        return f"denoiser{suffix}" if path == "base" else f"{path}-denoiser{suffix}"
    return f"{path}{suffix}"


def save_network(model: Model, path: Path, *, store: Store) -> None:
    """Write a network to its file: a checkpoint of ours, or the file that it came in."""
    if isinstance(model, Program):
        programs.save(model, path)
    else:
        assert isinstance(model, nn.Module)
        models.save(path, model, store=store)


def is_kept(model: Model, name: str, path: Path) -> bool:
    """Whether the file is what saving the network would write there."""
    if isinstance(model, Program):
        return digest(path) == model.content
    return models.fingerprint(path) == fingerprint_of(name, model)


class Networks:
    """The networks of a folder; one that was read before, here or in another folder, is the same network again."""

    def __init__(self, folder: Path, head: Path, entries: object, known: Known, code: Collection[str] = ()) -> None:
        self.folder, self.head, self.code = folder, head, code  # code: what may be imported
        self.entries: Mapping[str, Any] = entries if isinstance(entries, Mapping) else {}
        self.known = known

    def get(self, name: str, columns: int) -> nn.Module:
        """The network of this name, checked to be the one the system was built with."""
        entry = self.entries.get(name)
        if not isinstance(entry, Mapping) or CONFIDENCE not in entry:
            return self._whole(name, columns)
        model = Selective(self._whole(name, columns - 1), check_confidence(entry[CONFIDENCE]))
        return self.known.setdefault(fingerprint_of(name, model), model)

    def _whole(self, name: str, classes: int) -> nn.Module:
        entry = self.entries.get(name)
        if isinstance(entry, Mapping) and entry.get("architecture") in KINDS:
            model: nn.Module = self._read(name, lambda path: self._program(path, entry, classes), classes)
        else:
            model = self._read(name, lambda path: models.load(path)[0], classes)
        if f"{name}{DENOISER}" not in self.entries:
            return model
        denoised = Denoised(self._read(f"{name}{DENOISER}", models.load_denoiser, 0), model)
        # Several experts over one pair are to be one network again.
        return self.known.setdefault(fingerprint_of(name, denoised), denoised)

    def _program(self, path: Path, entry: Mapping[str, Any], classes: int) -> Program:
        """The network of a file of another tool, or of code, as the head describes it."""
        try:
            given = entry.get("normalisation")
            description = models.Description(
                architecture=entry["architecture"],
                classes=classes,
                input_shape=tuple(entry["input_shape"]),
                options={"code": entry["code"]} if "code" in entry else {},
                normalisation=None if given is None else models.Normalisation(**given),
                sigma=entry.get("training_sigma"),
            )
        except (KeyError, TypeError) as error:
            raise RequestError(f"{self.head} does not describe {path.name}: {error}; build the system again") from error
        if description.architecture == CODE:
            return programs.coded(description, self.code)
        if not path.is_file():
            raise RequestError(f"there is no file {path}; build the system again")
        return programs.reopened(path, description, digest(path))

    def _read(self, name: str, load: Callable[[Path], nn.Module], classes: int) -> nn.Module:
        file, recorded = self._entry(name)
        model = self.known.get(recorded)
        if model is None:
            model = load(self.folder / file)
        described = models.describe(model)
        if described is not None and described.classes != classes:
            raise RequestError(
                f"{self.folder}: the system has {classes} classes, the network {name!r} has {described.classes}"
            )
        found = fingerprint_of(name, model)
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
            file, recorded = Path(entry.get("file") or entry["code"]), str(entry["fingerprint"])
        except (KeyError, TypeError) as error:
            raise RequestError(f"{self.head} names no file and fingerprint for the network {name!r}") from error
        return self._within(str(file)), recorded

    def _within(self, file: str) -> Path:
        if Path(file).name != file or file in ("", ".."):
            raise RequestError(f"{self.head}: network files lie in the folder itself; got {file!r}")
        return Path(file)
