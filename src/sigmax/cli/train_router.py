"""`sigmax train router`: the classifier that picks an expert for each input."""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sigmax.cli import options as opt
from sigmax.cli.progress import complain, progress, resumable, say, warn_of_noise
from sigmax.cli.train_options import (
    BehindDenoiser,
    Clip,
    Device,
    Normalise,
    Out,
    Seed,
    Width,
    begun,
    given,
    last_report,
    options,
    read_denoiser,
)
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from sigmax.train.router_presets import Preset


class LabelsKind(StrEnum):
    """How radii become what a router should answer."""

    SOFT = "soft"
    HARD = "hard"


class ObjectiveName(StrEnum):
    """What a router learns."""

    PAPER = "paper"
    CERTIFIED = "certified"
    WEIGHTED = "weighted"


class Strength(StrEnum):
    """How the consistency of a router's copies is weighed."""

    WEAK = "weak"
    STRONG = "strong"
    NONE = "none"


def router(
    data: opt.Data,
    labels: Annotated[Path, typer.Option(help="Folder of labels, as written by `sigmax label`.")],
    out: Out,
    sigma: Annotated[
        float | None, typer.Option(help="Noise of the router's votes, pixels in [0, 1] (default: the preset's).")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="dual-cifar10 or dual-imagenet: all settings of the paper, but for those given here."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Architecture, as for a classifier (default: the preset's, or small-cnn).")
    ] = None,
    width: Width = None,
    normalise: Normalise = "none",
    denoiser: BehindDenoiser = None,
    start: Annotated[
        Path | None,
        typer.Option(
            help="Begin with the weights of this classifier, such as an expert's, its last layer aside; it also "
            "decides model, width and normalisation."
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the training images (default: 120, or the preset's).")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(help="Images a step, each with two copies of noise (default: 64, or the preset's)."),
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="Learning rate at the start (default: 0.003, or the preset's).")
    ] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Pull of the weights to zero.")] = None,
    optimiser: Annotated[str | None, typer.Option(help="sgd, adam or adamw.")] = None,
    clip: Clip = None,
    augment: Annotated[str | None, typer.Option(help="none, crop, crop-flip or strong.")] = None,
    objective: Annotated[
        ObjectiveName,
        typer.Option(
            help="paper: name the best expert; certified: the radius that the consensus rule proves, made smooth; "
            "weighted: name an expert that reaches each radius, by what is at stake."
        ),
    ] = ObjectiveName.PAPER,
    radii: Annotated[
        str | None,
        typer.Option(
            help="certified, weighted: radii that count, such as 0,0.25,0.5 (default: 12 over the labels')."
        ),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="certified, weighted: what each of these radii is worth (default: the same).")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="certified: width of the smooth step, in sigmas (default: 0.5).")
    ] = None,
    hardness: Annotated[
        float | None, typer.Option(help="certified: votes are softmax(HARDNESS * logits) (default: 1).")
    ] = None,
    fit: Annotated[
        float | None, typer.Option(help="certified: weight of the weighted objective beside it (default: 0.1).")
    ] = None,
    labels_kind: Annotated[
        LabelsKind | None, typer.Option(help="soft: by how far each expert certifies; hard: the best one alone.")
    ] = None,
    sharpness: Annotated[
        float | None,
        typer.Option(
            help="Soft labels are softmax(SHARPNESS * radius) (default: 10, or the preset's; the paper: 1)."
        ),
    ] = None,
    consistency: Annotated[
        float | None,
        typer.Option(
            help="Weight of agreement between noisy copies: more certifies routes further "
            "(default: 20, or the preset's; the paper: 40 on CIFAR-10, 10 on ImageNet; other objectives: 2)."
        ),
    ] = None,
    entropy: Annotated[
        float | None,
        typer.Option(
            help="Weight of decided answers (default: 0.5, or the preset's; the paper: 0.5; other objectives: 0)."
        ),
    ] = None,
    balance: Annotated[
        bool | None,
        typer.Option(
            "--balance/--no-balance",
            help="Give every route the same weight in all (default: balance, or the preset's; the paper: balance).",
        ),
    ] = None,
    strength: Annotated[
        Strength | None,
        typer.Option(help="Weigh consistency by the radius of the route with least (weak) or most (strong) noise."),
    ] = None,
    held_out: Annotated[float, typer.Option(help="Share of the labelled inputs to check on, not train on.")] = 0.1,
    image_size: opt.ImageSize = None,
    seed: Seed = 0,
    device: Device = "cpu",
) -> None:
    """Train a router that picks an expert for each input; interrupted training goes on when repeated.

    Example: `sigmax train router --data digits --labels work/labels --sigma 0.4 --out nets/router.safetensors`
    """
    from sigmax import data as sources
    from sigmax.train.labels import read_labels
    from sigmax.train.router import train_router
    from sigmax.train.router_options import check_loss, refuse_preset

    told = {"epochs": epochs, "batch": batch, "lr": lr, "weight_decay": weight_decay, "optimiser": optimiser}
    loss: dict[str, Any] = {
        "labels_kind": labels_kind and labels_kind.value,
        "sharpness": sharpness,
        "consistency": consistency,
    }
    loss |= {"entropy": entropy, "balance": balance, "strength": strength and strength.value, "sigma": sigma}
    loss |= {"temperature": temperature, "hardness": hardness, "fit": fit}
    loss |= {"radii": _numbers("radii", radii), "weights": _numbers("weights", weights)}
    base = _base(preset, model)
    if objective is not ObjectiveName.PAPER:
        refuse_preset(preset, objective.value)
        loss["objective"] = objective.value
    settings = replace(base.settings, **given({**told, "clip": clip, "augment": augment}), seed=seed, device=device)
    fields: Any = {**base.fields, **given(loss)}
    if "sigma" not in fields:
        raise RequestError("the router's noise is not known; give --sigma, at least the experts' largest")
    check_loss(fields["sigma"], {name: value for name, value in fields.items() if name != "sigma"})
    warn_of_noise(fields["sigma"])
    found = read_labels(labels)
    dataset = sources.load(data, "train", size=image_size)
    with resumable(f"The finished epochs are kept in {out}.partial."), progress(f"train {out.name}") as watch:
        train_router(
            dataset,
            found,
            architecture=base.architecture,
            options=options(width),
            normalisation=normalise,
            denoiser=read_denoiser(denoiser),
            start=begun(start, model, width, normalise),
            settings=settings,
            out=out,
            held_out=held_out,
            on_step=watch,
            on_warning=lambda text: complain(f"Warning: {text}", style="yellow"),
            **fields,
        )
    last = last_report(out)
    if last is not None and last.validation:
        say(_held_out(last.validation, found.sigmas))
        if max(last.validation["routes"]) == 1:
            complain(f"warning: {_one_route(fields)}", style="yellow")
    before = "" if denoiser is None else f" --denoiser {denoiser}"
    say(f"Wrote {out}. Next: sigmax build dual {out} EXPERT...{before} --out SYSTEM")


def _base(preset: str | None, model: str | None) -> "Preset":
    """What is used where nothing else was asked for."""
    from sigmax.train.router_presets import SMALL, router_preset

    if preset is not None:
        return router_preset(preset, architecture=model)
    return SMALL._replace(architecture=model or SMALL.architecture)


def _numbers(name: str, listed: str | None) -> tuple[float, ...] | None:
    """Numbers from text such as 0,0.25,0.5."""
    if listed is None:
        return None
    try:
        return tuple(float(part) for part in listed.replace(",", " ").split())
    except ValueError as error:
        raise RequestError(f"--{name} must be numbers such as 0,0.25,0.5; got {listed!r}") from error


def _one_route(fields: Mapping[str, Any]) -> str:
    """What a router that tells nothing apart is good for, and what to change."""
    from sigmax.train.router_loss import Router
    from sigmax.train.router_objective import Weighted

    only = "this router takes one route only: the system will be that expert with less alpha; try "
    if fields.get("objective", "paper") != "paper":
        return (
            f"{only}less --consistency (now {fields.get('consistency', Weighted.consistency):g}), or more --epochs"
        )
    sharpness = fields.get("sharpness", Router.sharpness)
    consistency = fields.get("consistency", Router.consistency)
    return (
        f"{only}--sharpness {3 * sharpness:g} (now {sharpness:g}), less --consistency (now {consistency:g}), "
        "or more --epochs"
    )


def _held_out(found: Mapping[str, Any], sigmas: tuple[float, ...]) -> str:
    """What the last look at the held-out inputs showed, in one line."""
    from sigmax.train.router import route_names

    routes = ", ".join(
        f"{name} {taken:.0%} ({best:.0%})"
        for name, taken, best in zip(route_names(sigmas), found["routes"], found["labels"], strict=True)
    )
    return (
        f"Held out, {found['inputs']} inputs: {found['matching']:.1%} sent to their best expert, the route "
        f"certified within {found['radius']:.3f} on average and undecided for {found['abstained']:.1%}. "
        f"By consensus a radius of {found['attained']:.3f}; always the best expert: {found['possible']:.3f}. "
        f"Taken (best): {routes}."
    )
