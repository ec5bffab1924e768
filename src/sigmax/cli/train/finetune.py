"""`sigmax finetune`: the experts of a dual system, trained further under the noise its router gives each input."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigmax.cli import options as opt
from sigmax.cli.progress import progress, resumable, say, warn
from sigmax.cli.train.options import Device
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from sigmax.schemes.dual import Dual


def finetune(
    system: opt.System,
    data: opt.Data,
    out: Annotated[Path, typer.Option("--out", help="Folder to write the fine-tuned system to.")],
    split: opt.Split = "train",
    epochs: Annotated[int | None, typer.Option(help="Passes over the training images (default: 15).")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate (default: 2e-5).")] = None,
    device: Device = None,
    changes: opt.Changes = None,
    keys: Annotated[bool, opt.keys("sigmax.cli.train.keys:FinetuneKeys")] = False,
) -> None:
    """Fine-tune the experts of a dual system, each image under the noise that the router gives it.

    The defaults suit a large pretrained classifier; a small network needs a larger --lr. Work is kept in OUT.training.

    Example: `sigmax finetune systems/dual --data digits --lr 0.001 --out systems/tuned`
    """
    from sigmax import data as sources
    from sigmax.cli.train.keys import FinetuneKeys, given
    from sigmax.config import with_changes
    from sigmax.train import fine_tune

    own = given(training__epochs=epochs, training__lr=lr, training__device=device)
    asked = with_changes(FinetuneKeys(), [*own, *(changes or [])])
    scheme = _dual(system, out, asked.training.device)
    training = Path(f"{out}.training")
    dataset = sources.load(data, split, size=asked.image_size)
    with resumable(f"The finished epochs are kept in {training}."), progress(f"finetune {out.name}") as watch:
        tuned = fine_tune(
            scheme,
            dataset,
            training,
            settings=asked.training,
            n=asked.votes,
            seed=asked.training.seed,
            consistency=asked.consistency,
            on_step=watch,
            on_routes=lambda counts: say(f"Images of each route: {', '.join(f'{count:,}' for count in counts)}."),
            on_warning=warn,
        )
    tuned.save(out)
    say(f"Wrote {out}. Next: sigmax certify {out} --data ... --out RUN, or label again with its experts")


def _dual(system: str, out: Path, device: str) -> "Dual":
    """The dual system to fine-tune; refused where the result could not be written."""
    from sigmax.schemes.dual import Dual
    from sigmax.systems import folder as systems

    scheme = systems.load(system, device=device)
    if not isinstance(scheme, Dual):
        raise RequestError(
            f"{system} is not a dual system, so no router gives its inputs a noise level; `sigmax build dual` makes one"
        )
    if Path(system).resolve() == out.resolve():
        raise RequestError(f"{out} is the system to begin with; name another folder with --out")
    if (out / systems.HEAD).exists() and not Path(f"{out}.training").exists():
        raise RequestError(f"{out} holds a system that this command did not write; name another folder with --out")
    return scheme
