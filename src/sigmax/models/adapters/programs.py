"""Networks in files of other tools: ONNX, torch.export (.pt2) and TorchScript; and networks that code makes.

The file itself is kept, unchanged; nothing in it runs as Python. Of code only the reference is kept, and it is imported
when the caller names it again.
"""

import hashlib
import re
import shutil
import sys
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor, nn

from sigmax.errors import RequestError
from sigmax.models.adapters.callables import Onnx, data_files, digest
from sigmax.models.adapters.exported import as_callable, exported_module
from sigmax.models.adapters.torchscript import scripted_module
from sigmax.models.answers import as_tensor
from sigmax.models.checkpoints.description import Description, check_input_shape
from sigmax.models.classifier import check_shape
from sigmax.models.normalise import Normalisation, Normalise

ONNX, EXPORTED, SCRIPTED, CODE = "onnx", "torch.export", "torchscript", "code"
SUFFIXES = {ONNX: ".onnx", EXPORTED: ".pt2", SCRIPTED: ".torchscript.pt"}
KINDS = (*SUFFIXES, CODE)
DYNAMIC = {  # how a file is made that takes any number of images
    ONNX: 'dynamic_axes={"images": {0: "n"}} of torch.onnx.export',
    EXPORTED: 'dynamic_shapes=({0: torch.export.Dim("n")},) of torch.export.export',
    SCRIPTED: "torch.jit.script, or a trace without fixed sizes",
}


class Program(nn.Module):
    """A network of a file or of code (`description.architecture` says which), after its normalisation."""

    def __init__(self, network: Callable[..., Any], description: Description, content: str, path: Path | None) -> None:
        super().__init__()
        given = description.normalisation
        self.normalise = None if given is None else Normalise(given.mean, given.std)
        self.network, self.description, self.content, self.path = network, description, content, path
        self.takes_sigma = bool(getattr(network, "takes_sigma", False))

    @property
    def kind(self) -> str:
        """One of KINDS."""
        return self.description.architecture

    def forward(self, images: Tensor, *sigma: float | Tensor) -> Any:
        """What the network answers; refused for images of another shape."""
        code = self.description.options.get("code")  # the function that made it
        check_shape(images, self.description, code if self.path is None else self.path.name)
        return self.network(images if self.normalise is None else self.normalise(images), *sigma)

    def __reduce__(self) -> Any:
        """A worker opens the file again: torch cannot send such a network as it is."""
        if self.path is None:
            return super().__reduce__()
        return reopened, (self.path, self.description, self.content)


def fingerprint(program: Program, inside: str = "") -> str:
    """32 hex digits over the description and the file's bytes; of code `inside` says what it made."""
    whole = f"sigmax program 1 {program.description.identity()} {program.content} {inside}"
    return hashlib.sha256(whole.encode()).hexdigest()[:32]


def kind_of(path: Path) -> str | None:
    """Which of the kinds a file is of, by its content where the name does not say it; None: of none of them."""
    if path.suffix == ".onnx":
        return ONNX
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.partition("/")[2] for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile):
        return EXPORTED if path.suffix == ".pt2" and path.exists() else None
    if "archive_format" in names or path.suffix == ".pt2":
        return EXPORTED
    return SCRIPTED if "constants.pkl" in names and any(name.startswith("code/") for name in names) else None


class Given(TypedDict, total=False):
    """What a caller says of a network."""

    classes: int | None  # else counted in the logits
    input_shape: tuple[int, int, int] | None  # of one image; else read from the file where that says it
    normalisation: Normalisation | None  # of pixels in [0, 1], before the network; else it takes them as they are
    sigma: float | None


def open_program(path: str | Path, **given: Unpack[Given]) -> Program:
    """The network of an ONNX, .pt2 or TorchScript file, seen to answer; see `sigmax build smoothed`."""
    path = Path(path)
    if not path.is_file():
        raise RequestError(f"there is no file {path}")
    kind = kind_of(path)
    if kind is None:
        raise RequestError(f"{path} is no ONNX file, no .pt2 of torch.export.save and no TorchScript file")
    network = _opened(kind, path)
    return Program(network, _described(network, kind, str(path), given), digest(path), path)


def reopened(path: Path, description: Description, content: str) -> Program:
    """The program of a file that was described before; refused if the file was exchanged."""
    found = digest(path)
    if found != content:
        raise RequestError(f"{path} is not the network it was ({found}, not {content}); build the system again")
    return Program(_opened(description.architecture, path), description, content, path)


def from_code(reference: str, **given: Unpack[Given]) -> Program:
    """Import `package.module` and call its `function`, which returns the model. This runs the code."""
    network = _called(reference)
    description = _described(network, CODE, reference, given, {"code": reference})
    return Program(network, description, reference, None)


def coded(description: Description, allowed: Collection[str]) -> Program:
    """The program of a reference that a folder names; imported only where the caller names it too."""
    reference = str(description.options.get("code"))
    if reference not in allowed:
        raise RequestError(
            f"the system's network is made by the code {reference}, and a folder runs no code by itself. If you trust "
            f"that code, name it: --code {reference} of sigmax certify and predict, or sx.load(..., code={reference!r})"
        )
    return Program(_called(reference), description, reference, None)


def save(program: Program, path: Path) -> None:
    """Copy the program's file to `path`, and the files of data that an ONNX file names beside it."""
    assert program.path is not None
    beside = data_files(program.path) if program.kind == ONNX else ()
    sources = {path: program.path, **{path.parent / one.name: one for one in beside}}
    for target, source in sources.items():
        if target.exists() and target.read_bytes() != source.read_bytes():
            raise RequestError(
                f"{target} exists and is another file; choose a folder of its own, or keep the network in one file: "
                "onnx.save(onnx.load(OLD), NEW)"
            )
        if not target.exists():
            shutil.copyfile(source, target)
    if digest(path) != program.content:
        raise RequestError(f"{program.path} was changed since it was opened; build the system again")


def _opened(kind: str, path: Path) -> Callable[..., Any]:
    if kind == ONNX:
        return Onnx(path)
    read: Mapping[str, Callable[[bytes, str], nn.Module]] = {EXPORTED: exported_module, SCRIPTED: scripted_module}
    return _evaluating(read[kind](path.read_bytes(), str(path)))


def _called(reference: str) -> Callable[..., Any]:
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", reference):
        raise RequestError(f"--code must be package.module:function, such as my_models:load; got {reference!r}")
    module, _, name = reference.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        model = as_callable(getattr(import_module(module), name)())
    except Exception as error:  # the caller's own code: its own words say best what is wrong
        raise RequestError(
            f"{type(error).__name__}: {error} (raised by {reference}, which is imported and called without arguments "
            "and must return the model)"
        ) from error
    if not callable(model):
        raise RequestError(
            f"{reference} returned a {type(model).__name__}; it must return the model: a callable, batch -> logits"
        )
    return _evaluating(model)


def _evaluating(model: Callable[..., Any]) -> Callable[..., Any]:
    """The model in eval mode: one that was saved while training would change its statistics when it is tried."""
    if isinstance(model, nn.Module):
        with suppress(NotImplementedError):  # an exported program has its mode built in
            model.eval()
    return model


def _described(
    network: Callable[..., Any], kind: str, named: str, given: Given, options: Mapping[str, Any] | None = None
) -> Description:
    """What was given, completed by what the network shows."""
    shape = given.get("input_shape") or _shape_of(network)
    if shape is None:
        raise RequestError(f"{named} does not say which images it takes; give --input-shape, such as 3,32,32")
    check_input_shape(shape)
    return Description(
        architecture=kind,
        classes=_classes(network, kind, named, shape, given.get("classes")),
        input_shape=shape,
        options=options or {},
        normalisation=given.get("normalisation"),
        sigma=given.get("sigma"),
        notes={"source": Path(named).name},
    )


def _classes(network: Callable[..., Any], kind: str, named: str, shape: Sequence[int], given: int | None) -> int:
    """How many classes the network has: its logits for batches of two sizes, or as given where it returns class ids."""
    sizes = []
    for count in (2, 3):
        try:
            with torch.inference_mode():
                output = as_tensor(network(torch.rand(count, *shape)), torch.device("cpu"))
        except Exception as error:  # whatever a network raises, its own words say it best
            any_number = f". It must take any number of images: {DYNAMIC[kind]}" if kind in DYNAMIC else ""
            raised = f"raised by {named} when given {count} images of shape {shape}"
            raise RequestError(f"{type(error).__name__}: {error} ({raised}){any_number}") from error
        sizes.append(tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__)
    if sizes == [(2,), (3,)] and given is not None:
        return given
    if not all(isinstance(size, tuple) and len(size) == 2 for size in sizes):
        raise RequestError(f"{named} returned {sizes[0]} for 2 images; if these are class ids, give --classes")
    found = int(sizes[0][1])
    if given not in (None, found):
        raise RequestError(f"{named} has {found} logits, and {given} classes were asked for; leave out --classes")
    return found


def _shape_of(network: Callable[..., Any]) -> tuple[int, int, int] | None:
    """What the file says of one image; None where it does not."""
    shape = getattr(network, "input_shape", None)
    if isinstance(network, torch.fx.GraphModule):
        inputs = [node.meta.get("val") for node in network.graph.nodes if node.op == "placeholder"]
        shape = tuple(inputs[0].shape[1:]) if len(inputs) == 1 and isinstance(inputs[0], Tensor) else None
    known = shape is not None and len(shape) == 3 and all(isinstance(size, int) for size in shape)
    return shape if known else None
