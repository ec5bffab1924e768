"""What the `sigmax build` verbs have in common: networks, and denoisers before them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigmax.cli.progress import complain

if TYPE_CHECKING:
    from torch import nn

    from sigmax.certify.scheme import Scheme
    from sigmax.models import Description

Denoiser = Annotated[
    str | None,
    typer.Option(
        "--denoiser",
        help="To put before the network: NAME.safetensors of `train denoiser`, diffusers:FOLDER (or the hub's "
        "OWNER/NAME), openai-cifar10:FILE.pt or openai-imagenet256:FILE.pt.",
    ),
]


def base_network(path: Path, denoiser: str | None) -> "tuple[nn.Module, int]":
    """A checkpoint's network, behind the denoiser asked for, and how many classes it tells apart."""
    from sigmax import models

    model, description = models.load(path)
    return behind(denoiser, model, description, []), description.classes


def one_or_each(models: "Sequence[nn.Module]") -> "nn.Module | list[nn.Module]":
    """One network for all, or the list of them."""
    return models[0] if len(models) == 1 else list(models)


def behind(
    denoiser: str | None, model: "nn.Module", description: "Description", experts: "Sequence[Scheme]"
) -> "nn.Module":
    """The network behind the denoiser asked for: the very one of an expert where they have it in common."""
    from sigmax import models
    from sigmax.models import denoisers

    # Tuned together with it, or as it was.
    trained_behind = description.notes.get("denoiser", description.notes.get("training", {}).get("denoiser"))
    asked = None if denoiser is None else denoisers.load(denoiser)
    found = None if asked is None else models.fingerprint(asked)
    if trained_behind != found and trained_behind is not None:
        complain(
            "note: the network was trained on images denoised by "
            f"{'another' if found else 'a'} denoiser; give that one by --denoiser unless you know better",
            style="yellow",
        )
    if asked is None:
        return model
    held = [
        voter.model.denoiser
        for e in experts
        for voter in e.voters.values()
        if isinstance(voter.model, models.Denoised)
    ]
    shared = [d for d in held if isinstance(d, models.Denoiser) and models.fingerprint(d) == found]
    return models.Denoised(shared[0] if shared else asked, model)
