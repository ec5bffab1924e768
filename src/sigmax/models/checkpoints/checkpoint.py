"""Checkpoints: a network's tensors and its description (metadata) as safetensors. Nothing in it is executed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from sigmax.errors import RequestError, RunError
from sigmax.files import replacing
from sigmax.models.adapters import programs
from sigmax.models.adapters.programs import Program
from sigmax.models.checkpoints.bfloat16 import Store, as_bfloat16, check_store, restored
from sigmax.models.checkpoints.description import Description
from sigmax.models.checkpoints.tensors import digest, fill
from sigmax.models.classifier import Classifier, Denoiser, create, create_denoiser, describe

_KEYS: Mapping[Store, str] = {"fp32": "sigmax", "bf16": "sigmax-bf16"}  # one a file: several come in any order
SLACK, SLACK_RATIO = 1 << 22, 4  # parameters may be registered more than once, and the network is built twice
_LONGEST = 300  # characters of a message on where a model comes from: another library's config is a page


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint file, read but not yet built."""

    description: Description
    tensors: Mapping[str, Tensor]

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the model that these contents make."""
        return digest(self.description.identity(), self.tensors)


def save(path: str | Path, model: nn.Module, *, store: Store = "fp32") -> Path:
    """Write a model that describes itself to `path`, whole or not at all; for "bf16" rounded before."""
    path = Path(path)
    check_store(store)
    description = describe(model)
    if not isinstance(model, Classifier | Denoiser) or description is None:
        raise RequestError(
            f"a {type(model).__name__} has no description to save; register its builder with "
            "sigmax.models.register and make it with sigmax.models.create"
        )
    # Copies in the usual layout: safetensors refuses tensors that share memory, as tied weights do, and those that
    # lie otherwise, as channels_last.
    tensors = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in model.network.state_dict().items()
    }
    if store != "fp32":
        tensors = as_bfloat16(tensors)
    try:
        with replacing(path) as draft:
            save_file(tensors, draft, metadata={_KEYS[store]: description.to_json()})
    except (OSError, SafetensorError) as error:
        raise RunError(f"{path} could not be written: {error}; what was there before is untouched") from error
    return path


def load(path: str | Path, *, device: str | torch.device = "cpu") -> tuple[Classifier, Description]:
    """The saved model, in eval mode, and its description; torch's global generator is left as it was."""
    model = _loaded(path, device)
    if not isinstance(model, Classifier):
        raise RequestError(
            f"{path} holds a denoiser, which classifies nothing by itself; load it with "
            "sigmax.models.load_denoiser and join it to a classifier: sigmax.Denoised(denoiser, classifier)"
        )
    return model, model.description


def load_denoiser(path: str | Path, *, device: str | torch.device = "cpu") -> Denoiser:
    """The saved denoiser, in eval mode; checked as `load` does."""
    model = _loaded(path, device)
    if not isinstance(model, Denoiser):
        raise RequestError(
            f"{path} holds a classifier of {model.description.classes} classes, no denoiser; "
            "`sigmax train denoiser` trains one"
        )
    return model


def _loaded(path: str | Path, device: str | torch.device) -> Classifier | Denoiser:
    checkpoint = read(path)
    description = checkpoint.description
    source = f"{path}, which says it is {description.architecture!r} with options {dict(description.options)}"
    model = _created(checkpoint, path)
    fill(model.network, checkpoint.tensors, classes=description.classes, source=source[:_LONGEST])
    # One dtype for all: a model that was saved in half precision needs its normalisation in half precision too.
    dtype = next(model.parameters(), torch.empty(0)).dtype
    return model.to(device, dtype)


def _created(checkpoint: Checkpoint, path: str | Path) -> Classifier | Denoiser:
    """The network that the file describes, built without memory first: it may be of any size."""
    description = checkpoint.description
    make = create_denoiser if description.denoises else create
    try:
        with torch.random.fork_rng(devices=[]), _no_larger_than(checkpoint.tensors):
            try:
                with torch.device("meta"):
                    make(description)
            except RequestError as error:
                if error.__cause__ is None:  # too large; with a cause, its code may not run without values
                    raise
            return make(description)
    except RequestError as error:
        raise RequestError(f"{path}: {error}") from error


@contextmanager
def _no_larger_than(tensors: Mapping[str, Tensor]) -> Iterator[None]:
    """Within it a network with many more parameters than the tensors have numbers is refused as it is built."""
    room = SLACK + SLACK_RATIO * sum(tensor.numel() for tensor in tensors.values())

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal room
        room -= 0 if parameter is None else max(parameter.numel(), 1)
        if room < 0:
            raise RequestError("it describes a far larger network than it holds the tensors of; the file is damaged")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def read(path: str | Path) -> Checkpoint:
    """The description and tensors of a checkpoint; those kept as bfloat16 come in the network's own precision."""
    try:
        if Path(path).is_dir():
            raise RequestError(f"{path} is a folder; a checkpoint is a file, such as NAME.safetensors")
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # Copies, so that the model does not depend on what later happens to the mapped file.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError as error:
        raise RequestError(f"there is no checkpoint {path}") from error
    except OSError as error:
        raise RequestError(f"{path} cannot be read: {error}") from error
    except SafetensorError as error:
        raise RequestError(
            f"{path} is not a safetensors file, or it is cut short ({error}); "
            "weights saved by torch come in through sigmax.models.import_weights"
        ) from error
    text = metadata.get(_KEYS["fp32"])
    if _KEYS["bf16"] in metadata:
        text, tensors = metadata[_KEYS["bf16"]], restored(tensors)
    if text is None:
        raise RequestError(
            f"{path} holds tensors but not what they are (no {_KEYS['fp32']!r} in its metadata); "
            "name their architecture with sigmax.models.import_weights"
        )
    try:
        return Checkpoint(Description.from_json(text), tensors)
    except RequestError as error:
        raise RequestError(f"{path}: {error}") from error


def fingerprint(model: nn.Module | str | Path) -> str:
    """32 hex digits of what a model computes: every tensor, and the description but for training sigma and notes."""
    if isinstance(model, str | Path):
        return read(model).fingerprint
    if isinstance(model, Classifier | Denoiser):
        return digest(model.description.identity(), model.network.state_dict())
    if isinstance(model, Program):
        return programs.fingerprint(model)
    return digest("", model.state_dict())
