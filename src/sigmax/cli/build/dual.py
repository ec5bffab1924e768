"""`sigmax build dual`: a smoothed router that picks one of several experts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sigmax.cli import options as opt
from sigmax.cli.build.networks import Denoiser, SystemOut, conclude, denoised, noise_of
from sigmax.cli.progress import complain
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from sigmax.models import Description


def dual(
    router: Annotated[Path, typer.Argument(metavar="ROUTER", help="Checkpoint of `sigmax train router`.")],
    experts: Annotated[list[str], typer.Argument(metavar="EXPERT...", help="Systems, in the order of the routes.")],
    out: SystemOut,
    rule: Annotated[
        Literal["consensus", "min"], typer.Option(help="min: as published; consensus: further, alpha in more shares.")
    ] = "consensus",
    sigma: Annotated[str | None, typer.Option(metavar="NOISE", help=f"Default: as trained. {opt.UNIFORM}.")] = None,
    denoiser: Denoiser = None,
    store: opt.Store = "fp32",
) -> None:
    """Route each input to one of several experts, which may be systems of any kind. Their grid is the router's too.

    Example: `sigmax build dual router.safetensors systems/0.25 systems/0.5 systems/1.0 --out systems/dual`
    """
    from sigmax import models, systems
    from sigmax.schemes.composite import common_grid
    from sigmax.schemes.dual import Dual
    from sigmax.schemes.smoothed import Smoothed

    if router.is_dir():
        kind = "system folder" if (router / "system.toml").is_file() else "folder"
        raise RequestError(
            f"{router} is a {kind}; the router is a checkpoint (NAME.safetensors), as sigmax train router writes it"
        )
    model, description = models.load(router)
    loaded = systems.load_together(experts)
    grid = common_grid(dict(zip(experts, loaded, strict=True)))
    own = noise_of(router, description, *opt.level(sigma), grid=grid)
    with _asking_for_a_router(router, description, len(loaded)):
        base = denoised(denoiser, model, description, loaded)
        scheme = Dual(Smoothed(base, noise=own, classes=description.classes), loaded, rule=rule)
    _compare_experts(description, {name: systems.fingerprint(e) for name, e in zip(experts, loaded, strict=True)})
    conclude(scheme, out, store=store)


@contextmanager
def _asking_for_a_router(path: Path, described: "Description", experts: int) -> Iterator[None]:
    """Where the number of routes is wrong, the network may be none that routes."""
    try:
        yield
    except RequestError as error:
        if "router" in described.notes or described.classes == experts:
            raise
        known = "It was trained as a classifier" if "training" in described.notes else "It does not say so"
        raise RequestError(f"{error}. Is {path} a router? {known}") from error


def _compare_experts(router: "Description", experts: dict[str, str]) -> None:
    """Refuse the router's experts (fingerprints by folder) in another order; note other ones, which are sound."""
    from sigmax.request import differing
    from sigmax.rules.routed.parts import expert_name

    trained_for = router.notes.get("router", {}).get("experts")
    if trained_for is None:
        return
    given = list(experts.values())
    there, here = ({expert_name(j): found for j, found in enumerate(each)} for each in (trained_for, given))
    others = differing(there, here)
    if not others:
        return
    if sorted(trained_for) == sorted(given):
        folder_of = {found: folder for folder, found in experts.items()}
        raise RequestError(
            "the router was trained for these experts in another order; give them as "
            f"{' '.join(folder_of[expert] for expert in trained_for)}"
        )
    complain(
        f"note: the router was trained on labels of other experts ({', '.join(others)}). That is sound, "
        "and right after fine-tuning them; "
        "otherwise label with these experts and train a router on that",
        style="yellow",
    )
