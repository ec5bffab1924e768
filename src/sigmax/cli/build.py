"""`sigmax build`: make a system folder from networks."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigmax.cli import options as opt
from sigmax.cli.progress import complain, say
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from torch import nn

    from sigmax.models import Description

app = typer.Typer(help="Make a system: a scheme and its networks as one folder.", no_args_is_help=True)


@app.command()
def smoothed(
    network: Annotated[Path, typer.Argument(help="A checkpoint: .safetensors of sigmax, or .pt, .pth, .th.")],
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
        str | None, typer.Option(help="Only for .pt, .pth, .th: channels,height,width, such as 3,32,32.")
    ] = None,
    normalise: Annotated[
        str | None, typer.Option(help="Only for .pt, .pth, .th: none, cifar10 or imagenet mean and std.")
    ] = None,
) -> None:
    """Smooth one network with one noise level.

    Example: `sigmax build smoothed net.safetensors --sigma 0.5 --out systems/half`
    """
    from sigmax.certify.smoothed import Smoothed

    told = {"architecture": architecture, "classes": classes, "input-shape": input_shape, "normalise": normalise}
    model, description = _read_network(network, told)
    noise = _noise(network, description, sigma)
    scheme = Smoothed(model, sigma=noise, classes=description.classes, bound=bound.value)
    scheme.save(out)
    say(
        f"Wrote {out}: {description.architecture} smoothed with sigma {noise:g}, {description.classes} classes, "
        f"bound {bound.value}. Next: sigmax certify {out} --data ... --out RUN"
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
        opt.RuleName, typer.Option(help="consensus, or min: the published rule, never a larger radius.")
    ] = opt.RuleName.CONSENSUS,
    sigma: Annotated[float | None, typer.Option(help="The router's noise (default: as trained).")] = None,
) -> None:
    """Route each input to one of several experts, which may be of any kind, dual systems included.

    Example: `sigmax build dual router.safetensors systems/0.25 systems/0.5 systems/1.0 --out systems/dual`
    """
    from sigmax import models
    from sigmax import system as systems
    from sigmax.certify.dual import Dual
    from sigmax.certify.smoothed import Smoothed

    model, description = models.load(router)
    noise = _noise(router, description, sigma)
    loaded = systems.load_together(experts)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scheme = Dual(Smoothed(model, sigma=noise, classes=description.classes), loaded, rule=rule.value)
    for warning in caught:
        complain(f"warning: {warning.message}", style="yellow")
    _compare_experts(description, [systems.fingerprint(expert) for expert in loaded])
    scheme.save(out)
    say(
        f"Wrote {out}: {len(loaded)} experts behind a router with sigma {noise:g}, {scheme.classes} classes, "
        f"rule {rule.value}. Next: sigmax certify {out} --data ... --out RUN"
    )


def _noise(network: Path, description: "Description", asked: float | None) -> float:
    """The noise asked for, or else the one the network was trained with."""
    noise = description.sigma if asked is None else asked
    if noise is None:
        raise RequestError(f"{network} does not say which noise it was trained with; give --sigma")
    if description.sigma not in (None, noise):
        say(f"Note: trained with sigma {description.sigma:g}, smoothed with {noise:g}.")
    return noise


def _compare_experts(router: "Description", experts: list[str]) -> None:
    """A router may be used with experts it was not trained for, after fine-tuning above all; but not unawares."""
    trained_for = router.notes.get("router", {}).get("experts")
    if trained_for is not None and list(trained_for) != experts:
        complain(
            "note: the router was trained on labels of other experts, or of these in another order. That is sound, "
            "and right after fine-tuning them; otherwise label with these experts and train a router on that",
            style="yellow",
        )


def _read_network(path: Path, told: "dict[str, str | int | None]") -> "tuple[nn.Module, Description]":
    from sigmax import models

    given = [f"--{name}" for name, value in told.items() if value is not None]
    missing = [f"--{name}" for name, value in told.items() if value is None]
    if path.suffix == ".safetensors" and not given:
        return models.load(path)
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


def _shape(text: str) -> tuple[int, int, int]:
    try:
        channels, height, width = (int(part) for part in text.split(","))
    except ValueError as error:
        raise RequestError(f"--input-shape must be channels,height,width such as 3,32,32; got {text!r}") from error
    return channels, height, width
