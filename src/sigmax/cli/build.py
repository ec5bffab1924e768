"""`sigmax build`: make a system folder from networks."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigmax.cli import options as opt
from sigmax.cli.build_memorized import memorized
from sigmax.cli.build_multiscale import multiscale
from sigmax.cli.build_parts import Denoiser, behind
from sigmax.cli.build_semi_elastic import semi_elastic
from sigmax.cli.progress import complain, say, warn_of_noise
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from torch import nn

    from sigmax.models import Classifier, Description

TRANSFORMERS = "transformers:"

app = typer.Typer(help="Make a system: a scheme and its networks as one folder.", no_args_is_help=True)
app.command()(memorized)
app.command()(multiscale)
app.command()(semi_elastic)


@app.command()
def smoothed(
    network: Annotated[
        Path,
        typer.Argument(
            help="A checkpoint: .safetensors of sigmax, or .pt, .pth, .th; or transformers:FOLDER (or OWNER/NAME)."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder to write the system to.")],
    sigma: Annotated[float | None, typer.Option(help="Noise, pixels in [0, 1] (default: as trained).")] = None,
    bound: Annotated[
        opt.BoundName, typer.Option(help="one-sided as in the papers; runner-up also bounds the strongest rival.")
    ] = opt.BoundName.ONE_SIDED,
    architecture: Annotated[
        str | None, typer.Option(help="Only for .pt, .pth, .th: its name, as --model of train.")
    ] = None,
    classes: Annotated[int | None, typer.Option(help="Only for .pt, .pth, .th: number of classes.")] = None,
    input_shape: Annotated[
        str | None,
        typer.Option(help="Only for .pt, .pth, .th and transformers: channels,height,width, such as 3,32,32."),
    ] = None,
    normalise: Annotated[
        str | None, typer.Option(help="Only for .pt, .pth, .th: none, cifar10 or imagenet mean and std.")
    ] = None,
    denoiser: Denoiser = None,
    store: opt.Store = opt.StoreName.FP32,
) -> None:
    """Smooth one network with one noise level.

    Example: `sigmax build smoothed net.safetensors --sigma 0.5 --out systems/half`
    """
    from sigmax.certify.smoothed import Smoothed

    told = {"architecture": architecture, "classes": classes, "input-shape": input_shape, "normalise": normalise}
    model, description = _read_network(network, told)
    noise = _noise(network, description, sigma)
    base = behind(denoiser, model, description, [])
    scheme = Smoothed(base, sigma=noise, classes=description.classes, bound=bound.value)
    scheme.save(out, store=store.value)
    denoised = "" if denoiser is None else "behind a denoiser, "
    say(
        f"Wrote {out}: {description.architecture} {denoised}smoothed with sigma {noise:g}, "
        f"{description.classes} classes, bound {bound.value}. Next: sigmax certify {out} --data ... --out RUN"
    )


@app.command()
def dual(
    router: Annotated[Path, typer.Argument(help="The router's checkpoint, as `sigmax train router` writes it.")],
    experts: Annotated[
        list[str],
        typer.Argument(help="The experts' system folders, in the order of the routes.", metavar="EXPERT..."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder to write the system to.")],
    rule: Annotated[
        opt.RuleName,
        typer.Option(
            help="consensus, or min: the published rule. From the same bounds min never certifies further; it "
            "leaves each expert more of alpha, so where routing never matters it can be ahead by a hair."
        ),
    ] = opt.RuleName.CONSENSUS,
    sigma: Annotated[float | None, typer.Option(help="The router's noise (default: as trained).")] = None,
    sure: Annotated[
        opt.SureName | None,
        typer.Option(
            help="ROUTER is a classifier, and how sure it is decides. names: it names the class it is sure of, and "
            "passes the rest to one EXPERT of less noise. routes: of two EXPERTs the second gets what it knows."
        ),
    ] = None,
    lean: Annotated[float, typer.Option(help="With --sure: above 0 it is sure more readily, below 0 less.")] = 0.0,
    denoiser: Denoiser = None,
    store: opt.Store = opt.StoreName.FP32,
) -> None:
    """Route each input to one of several experts, which may be of any kind, dual systems included.

    Example: `sigmax build dual router.safetensors systems/0.25 systems/0.5 systems/1.0 --out systems/dual`

    Example: `sigmax build dual nets/half.safetensors systems/0.25 --sure names --out systems/dual`
    """
    from sigmax import models
    from sigmax import system as systems
    from sigmax.certify.dual import Dual
    from sigmax.certify.smoothed import Smoothed

    _refuse_folder(router)
    model, description = models.load(router)
    noise = _noise(router, description, sigma)
    if sure is not None:
        model = _sure(model, noise, lean, names=sure is opt.SureName.NAMES)
        description = model.description
    elif lean:
        raise RequestError("--lean says how sure is sure enough; give it with --sure names or --sure routes")
    loaded = systems.load_together(experts)
    with warnings.catch_warnings(record=True) as caught, _asking_for_a_router(router, description, len(loaded)):
        warnings.simplefilter("always")
        base = behind(denoiser, model, description, loaded)
        scheme = Dual(Smoothed(base, sigma=noise, classes=description.classes), loaded, rule=rule.value)
    for warning in caught:
        complain(f"warning: {warning.message}", style="yellow")
    _compare_experts(description, {name: systems.fingerprint(e) for name, e in zip(experts, loaded, strict=True)})
    scheme.save(out, store=store.value)
    say(f"Wrote {out}: {scheme}. Next: sigmax certify {out} --data ... --out RUN")


def _sure(classifier: "Classifier", sigma: float, by: float, *, names: bool) -> "Classifier":
    """The router of a classifier's sureness."""
    from sigmax import models
    from sigmax.train.balance import lean

    router = models.sureness(classifier, sigma=sigma, names=names)
    lean(router, by)
    return router


def _noise(network: Path, description: "Description", asked: float | None) -> float:
    """The noise asked for, or else the one the network was trained with."""
    noise = description.sigma if asked is None else asked
    if noise is None:
        raise RequestError(f"{network} does not say which noise it was trained with; give --sigma")
    warn_of_noise(noise)
    if description.sigma not in (None, noise):
        say(f"Note: trained with sigma {description.sigma:g}, smoothed with {noise:g}.")
    return noise


def _refuse_folder(router: Path) -> None:
    if router.is_dir():
        kind = "system folder" if (router / "system.toml").is_file() else "folder"
        raise RequestError(
            f"{router} is a {kind}; the router is a checkpoint (NAME.safetensors), as sigmax train router writes it"
        )


@contextmanager
def _asking_for_a_router(path: Path, told: "Description", experts: int) -> Iterator[None]:
    """Where the number of routes is wrong, the network may be none that routes."""
    try:
        yield
    except RequestError as error:
        if "router" in told.notes or told.classes == experts:
            raise
        known = "It was trained as a classifier" if "training" in told.notes else "It does not say so"
        raise RequestError(f"{error}. Is {path} a router? {known}") from error


def _compare_experts(router: "Description", experts: dict[str, str]) -> None:
    """A router may be used with experts it was not trained for, after fine-tuning above all; but not unawares.

    experts: fingerprints by folder. The same experts in another order are a mistake: routes would lead elsewhere.
    """
    trained_for = router.notes.get("router", {}).get("experts")
    given = list(experts.values())
    if trained_for is None or list(trained_for) == given:
        return
    if sorted(trained_for) == sorted(given):
        folder_of = {found: folder for folder, found in experts.items()}
        raise RequestError(
            "the router was trained for these experts in another order; give them as "
            f"{' '.join(folder_of[expert] for expert in trained_for)}"
        )
    complain(
        "note: the router was trained on labels of other experts. That is sound, and right after fine-tuning them; "
        "otherwise label with these experts and train a router on that",
        style="yellow",
    )


def _read_network(path: Path, told: "dict[str, str | int | None]") -> "tuple[nn.Module, Description]":
    from sigmax import models

    given = [f"--{name}" for name, value in told.items() if value is not None]
    missing = [f"--{name}" for name, value in told.items() if value is None]
    if path.suffix == ".safetensors" and not given:
        return models.load(path)
    if str(path).startswith(TRANSFORMERS):
        if set(given) - {"--input-shape"}:
            raise RequestError("a transformers classifier says what it is; give --input-shape alone, of the images")
        shape = None if told["input-shape"] is None else _shape(str(told["input-shape"]))
        model = models.from_transformers(str(path).removeprefix(TRANSFORMERS), input_shape=shape)
        return model, model.description
    if missing and path.suffix == ".safetensors" and _tells(path):
        raise RequestError(f"{path.name} says itself what it is; leave out {', '.join(given)}")
    if missing:
        raise RequestError(
            f"{path.name} holds weights only, so what they are must be told; also give {', '.join(missing)}"
        )
    return models.import_weights(
        path,
        architecture=str(told["architecture"]),
        classes=int(told["classes"] or 0),
        input_shape=_shape(str(told["input-shape"])),
        normalisation=str(told["normalise"]),
    )


def _tells(path: Path) -> bool:
    """Whether the checkpoint describes the network it is of."""
    from sigmax import models

    try:
        models.read(path)
    except RequestError:
        return False
    return True


def _shape(text: str) -> tuple[int, int, int]:
    try:
        channels, height, width = (int(part) for part in text.split(","))
    except ValueError as error:
        raise RequestError(f"--input-shape must be channels,height,width such as 3,32,32; got {text!r}") from error
    return channels, height, width
