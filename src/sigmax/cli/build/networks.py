"""What the `sigmax build` verbs have in common: networks from files, their noise, and denoisers before them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sigmax.cli.progress import complain, say, warn_of_noise
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from torch import nn

    from sigmax.models import Description
    from sigmax.noise import Noise
    from sigmax.schemes.scheme import Scheme

TRANSFORMERS = "transformers:"
WEIGHTS = (".pt", ".pth", ".th", ".safetensors")
EXPECTED = (
    f"expected a checkpoint ({', '.join(WEIGHTS)}), an .onnx, .pt2 or TorchScript file, or a Hugging Face folder or id"
)

Network = Annotated[Path, typer.Argument(metavar="NETWORK", help="A checkpoint: .safetensors of sigmax.")]
SystemOut = Annotated[Path, typer.Option("--out", help="Folder to write the system to.")]
Grid = Annotated[
    int | None,
    typer.Option(
        help="For 8-bit images: 255, noise in steps of 1/255. Float rounding then cannot break the guarantee."
    ),
]
Denoiser = Annotated[
    str | None,
    typer.Option(
        "--denoiser", help="Before the network: NAME.safetensors, diffusers:FOLDER, openai-cifar10:FILE.pt ..."
    ),
]


def conclude(scheme: "Scheme", out: Path, remark: str = "", *, store: Literal["fp32", "bf16"] = "fp32") -> None:
    """Write the system, and say what it is and what to do next."""
    scheme.save(out, store=store)
    say(f"Wrote {out}: {scheme!r}.{remark} Next: sigmax certify {out} --data ... --out RUN")


def base_network(path: Path, denoiser: str | None, experts: "Sequence[Scheme]" = ()) -> "tuple[nn.Module, Description]":
    """A checkpoint's network, with the denoiser asked for before it, and its description."""
    from sigmax import models

    model, description = models.load(path)
    return denoised(denoiser, model, description, experts), description


def trained_noise(description: "Description") -> str:
    """The distribution of the noise that a network was trained with."""
    return str(description.notes.get("noise", "gaussian"))


def trained_split(path: Path) -> "Scheme | None":
    """The system of a checkpoint that was trained with splitting noise, under that noise; None of any other."""
    from sigmax import models
    from sigmax.schemes.splitting import Splitting

    if not path.is_file() or trained_noise(models.read(path).description) != "splitting":
        return None
    model, description = models.load(path)
    return Splitting(model, scale=description.sigma, classes=description.classes)


def noise_of(
    network: str | Path,
    description: "Description",
    noise: str | None,
    asked: float | None,
    *,
    grid: int | None = None,
) -> "Noise":
    """The noise asked for, or else the one the network was trained with. `noise`: its distribution, if it was named."""
    from sigmax.noise import Gaussian, Uniform

    name = Path(network).name
    trained = trained_noise(description)
    kind = noise or (trained if asked is None else "gaussian")
    level = asked if asked is not None else description.sigma if kind == trained else None
    if level is None:
        raise RequestError(f"{network} does not say which noise it was trained with; give --sigma")
    if kind not in ("gaussian", "uniform"):
        raise RequestError(f"{name} was trained with {kind} noise; certify it by `sigmax build {kind}`")
    if kind == "gaussian":
        warn_of_noise(level)
    if description.sigma is not None and (trained, description.sigma) != (kind, level):
        before, now = (f"{'sigma' if of == 'gaussian' else of} " for of in (trained, kind))
        say(f"Note: {name} was trained with {before}{description.sigma:g} and is smoothed with {now}{level:g}.")
    if kind == "uniform" and grid is not None:
        raise RequestError("--grid goes with Gaussian noise; in l1 `sigmax build splitting` certifies 8-bit images")
    return Gaussian(level, grid) if kind == "gaussian" else Uniform(level)


def denoised(
    denoiser: str | None, model: "nn.Module", description: "Description", experts: "Sequence[Scheme]" = ()
) -> "nn.Module":
    """The network with the denoiser asked for before it: the very one of an expert where they have it in common."""
    from sigmax import models
    from sigmax.models import denoisers

    # Either it was trained together with its denoiser, or on images of one that stayed as it was.
    trained_with = description.notes.get("denoiser", description.notes.get("training", {}).get("denoiser"))
    asked = None if denoiser is None else denoisers.load(denoiser)
    found = None if asked is None else models.fingerprint(asked)
    if trained_with != found and trained_with is not None:
        complain(
            "note: the network was trained on images denoised by "
            f"{'another' if found else 'a'} denoiser; give that one by --denoiser unless you know better",
            style="yellow",
        )
    if asked is None:
        return model
    held = [
        voter.model.denoiser for e in experts for voter in e.voters.values() if isinstance(voter.model, models.Denoised)
    ]
    shared = [d for d in held if isinstance(d, models.Denoiser) and models.fingerprint(d) == found]
    return models.Denoised(shared[0] if shared else asked, model)


def read_network(source: str, given: "Mapping[str, str | int | None]") -> "tuple[nn.Module, Description]":
    """The network of a file of any kind; `given` describes one that does not describe itself, by the options' names."""
    from sigmax import models
    from sigmax.models.adapters.programs import kind_of

    path = Path(source)
    present = {f"--{name}": value for name, value in given.items() if value is not None}
    missing = [f"--{name}" for name, value in given.items() if value is None]
    if source.startswith(TRANSFORMERS) or path.is_dir() or (not path.suffix and not path.exists()):
        return _from_transformers(source, given)
    if kind_of(path) is not None:
        if given["architecture"] is not None:
            raise RequestError(f"{path.name} holds its network, weights and all; leave out --architecture")
        program = models.open_program(path, **_description(given))
        say(_of_pixels(path.name, given))
        return program, program.description
    if path.suffix == ".safetensors" and not present:
        return models.load(path)
    if missing:
        raise RequestError(_incomplete(path, present, missing))
    return models.import_weights(
        path,
        architecture=str(given["architecture"]),
        classes=int(given["classes"] or 0),
        input_shape=_shape(str(given["input-shape"])),
        normalisation=str(given["normalise"]),
    )


def coded_network(reference: str, given: "Mapping[str, str | int | None]") -> "tuple[nn.Module, Description]":
    """The network that the user's own code makes; this runs the code."""
    from sigmax import models

    if given["architecture"] is not None:
        raise RequestError("--code makes its own network; leave out --architecture")
    program = models.from_code(reference, **_description(given))
    say(_of_pixels(reference, given))
    return program, program.description


def _description(given: "Mapping[str, str | int | None]") -> dict[str, Any]:
    """What the options say of a network that is whole already."""
    from sigmax.models import normalisation

    return {
        "classes": given["classes"],
        "input_shape": None if given["input-shape"] is None else _shape(str(given["input-shape"])),
        "normalisation": None if given["normalise"] is None else normalisation(str(given["normalise"])),
    }


def _of_pixels(name: str, given: "Mapping[str, str | int | None]") -> str:
    if given["normalise"] is None:
        return f"Note: {name} gets pixels in [0, 1] as they are; --normalise puts a mean and a std before it."
    return f"{name} gets pixels in [0, 1] after the normalisation {given['normalise']}."


def _from_transformers(source: str, given: "Mapping[str, str | int | None]") -> "tuple[nn.Module, Description]":
    """A Hugging Face folder, or the id of one on the hub."""
    from sigmax import models

    name = source.removeprefix(TRANSFORMERS)
    if (Path(name) / "system.toml").is_file():
        raise RequestError(f"{name} is a system already; certify it, or give the network that it was built from")
    if Path(name).is_dir() and not (Path(name) / "config.json").is_file():
        raise RequestError(f"{name} is a folder without a config.json, so no model of transformers; {EXPECTED}")
    if not Path(name).is_dir() and len(name.split("/")) != 2:
        raise RequestError(f"there is no file or folder {name}; {EXPECTED}")
    if any(value is not None for option, value in given.items() if option != "input-shape"):
        raise RequestError(
            "a transformers classifier describes itself; give at most --input-shape, the shape of the images"
        )
    shape = None if given["input-shape"] is None else _shape(str(given["input-shape"]))
    model = models.from_transformers(name, input_shape=shape)
    return model, model.description


def _incomplete(path: Path, present: Mapping[str, object], missing: Sequence[str]) -> str:
    """Why the file and the options given do not make a network; a file that cannot be used at all says so itself."""
    from sigmax import models
    from sigmax.models.checkpoints.state_dicts import state_dict

    if not path.exists():
        return f"there is no file {path}; {EXPECTED}"
    if path.suffix not in WEIGHTS:
        return f"{path.name} is of no kind that is known here; {EXPECTED}"
    if path.suffix == ".safetensors":
        with suppress(RequestError):
            models.read(path)
            return f"{path.name} describes its network; leave out {', '.join(present)}"
    state_dict(path)  # refuses a pickled module and the like, and says what to do about it
    return (
        f"{path.name} holds weights without their architecture; also give {', '.join(missing)}. Of an architecture of "
        "your own give the exported network (.onnx, .pt2, TorchScript), or --code"
    )


def _shape(text: str) -> tuple[int, int, int]:
    try:
        channels, height, width = (int(part) for part in text.split(","))
    except ValueError as error:
        raise RequestError(f"--input-shape must be channels,height,width such as 3,32,32; got {text!r}") from error
    return channels, height, width
