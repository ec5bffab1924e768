"""`sigmax calibrate`: the confidence thresholds of a cascade, chosen on held-out images."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sigmax.cli import options as opt
from sigmax.cli.build.networks import SystemOut, conclude
from sigmax.cli.progress import complain, note_training_data, progress, resumable, say
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sigmax.schemes.cascade import Cascade
    from sigmax.train.calibrate import Calibrated, CalibrateOptions, Estimate


def calibrate(
    system: opt.System,
    data: opt.Data,
    out: SystemOut,
    split: Annotated[str, typer.Option(help="Split of the data; give images that no network was trained on.")],
    n: Annotated[int, typer.Option("--n", help="Samples that the certificates will have.")] = 10_000,
    alpha: opt.Alpha = 1e-3,
    start: opt.Start = 0,
    skip: opt.Skip = 1,
    maximum: opt.Maximum = None,
    seed: opt.Seed = 0,
    answers: Annotated[
        Path | None, typer.Option(help="Folder of the networks' answers (default: OUT.answers).")
    ] = None,
    frontier: Annotated[Path | None, typer.Option(help="Also write the frontier: .json, or .png or .pdf.")] = None,
    device: opt.Device = None,
    changes: opt.Changes = None,
    keys: Annotated[bool, opt.keys("sigmax.cli.train.keys:CalibrateKeys")] = False,
) -> None:
    """Choose the confidence below which each level of a cascade defers, on images that no network was trained on.

    The system given is left as it is; thresholds that its levels have do not matter. For another objective give another
    `--out` and the same `--answers`: the networks are not asked again. (A pipeline does all this by `[calibrate]`.)

    Example: `sigmax calibrate systems/cascade --data npz:held-out.npz --split test --out systems/tuned`
    """
    from sigmax import data as sources
    from sigmax.cli.train.keys import CalibrateKeys
    from sigmax.config import with_changes
    from sigmax.train.calibrate import chosen, estimated, with_confidence

    if frontier is not None and frontier.suffix not in (".json", ".png", ".pdf"):
        raise RequestError(f"--frontier is written as FILE.json, FILE.png or FILE.pdf; got {frontier}")
    asked = with_changes(CalibrateKeys(), changes or [])
    scheme = _cascade(system, out, device)
    dataset = sources.load(data, split, size=asked.image_size)
    held_out = dataset.take(sources.select(len(dataset), start=start, skip=skip, maximum=maximum))
    note_training_data(scheme, [dataset, held_out], "thresholds chosen on them suit no others; give held-out images")
    kept = answers or Path(f"{out}.answers")
    how: dict[str, Any] = {"samples": asked.samples, "n": n, "alpha": alpha, "seed": seed, "answers": kept}
    with resumable(f"What networks answered is kept in {kept}."), progress(f"calibrate {out.name}") as watch:
        estimate = estimated(scheme, held_out, **how, watch=watch)
        found = chosen(estimate, asked)
    _say(found, asked, estimate)
    if frontier is not None:
        _write_frontier(estimate, asked.radii, frontier)
    complain("note: the estimate is optimistic, since the thresholds were chosen on these images", style="yellow")
    conclude(with_confidence(scheme, found.confidence), out)


def _say(found: "Calibrated", asked: "CalibrateOptions", estimate: "Estimate") -> None:
    """What was chosen, and what is expected of it."""
    for j, confidence in enumerate(found.confidence):
        say(f"level-{j}: defers below confidence {confidence:.4g}")
    accuracies = ", ".join(f"{a:.1f} at {r:g}" for r, a in zip(asked.radii, found.accuracy, strict=True))
    images, n, alpha = len(estimate.labels), estimate.n, estimate.alpha
    say(f"Estimated certified accuracy in % on the {images:,} images, at n = {n:,}, alpha = {alpha:g}: {accuracies}.")
    pairs = zip(asked.radii, found.ratio, strict=True)
    ratios = ", ".join(f"{ratio:.3f} at {r:g}" for r, ratio in pairs if ratio is not None)
    if ratios:
        say(f"Ratio to the best single network at each radius: {ratios}.")


def _write_frontier(estimate: "Estimate", radii: "Sequence[float]", path: Path) -> None:
    """What other thresholds would make of the same networks, as numbers and as a picture where that is asked for."""
    from sigmax import report
    from sigmax.files import written_whole
    from sigmax.report.plots.style import picture, whole_figure
    from sigmax.train.calibrate import frontier, write_frontier

    numbers = path.with_suffix(".json")
    with progress("frontier") as watch:
        write_frontier(numbers, frontier(estimate, radii, watch=watch))
    if path != numbers:
        drawn = picture(whole_figure(report.draw_frontier(numbers)), path.suffix[1:])
        with written_whole(path) as draft:
            draft.write_bytes(drawn)
    say(f"Wrote the frontier to {path}" + ("." if path == numbers else f", its numbers to {numbers}."))


def _cascade(system: str, out: Path, device: str | None) -> "Cascade":
    """The cascade to calibrate; refused where the folder holds what no calibration of it can have written."""
    from sigmax.schemes.cascade import Cascade
    from sigmax.systems import folder as systems
    from sigmax.train.calibrate import with_confidence

    scheme = systems.load(system, device=device)
    if not isinstance(scheme, Cascade):
        raise RequestError(f"{system} is not a cascade, so it has no levels to calibrate; `sigmax build cascade`")
    if Path(system).resolve() == out.resolve():
        raise RequestError(f"{out} is the system to begin with; name another folder with --out")
    if (out / systems.HEAD).exists():
        there = systems.load(out, device=device)
        models = [level.voters["base"].model for level in getattr(there, "levels", ())]
        confidence = [model.confidence for model in models if hasattr(model, "confidence")]
        if len(confidence) != len(scheme.levels) or systems.fingerprint(
            with_confidence(scheme, confidence)
        ) != systems.fingerprint(there):
            raise RequestError(f"{out} holds another system; choose another folder")
    return scheme
