"""`sigmax verify`: recompute every radius of a run from its counts."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigmax.cli.options import SOURCES, ImageSize
from sigmax.cli.progress import complain, say

if TYPE_CHECKING:
    from sigmax.records.verify import Verdict

SHOWN = 20  # findings printed a run


def verify(
    runs: Annotated[list[Path], typer.Argument(help="Run files, plain or gzipped.", metavar="RUN...")],
    data: Annotated[
        str | None,
        typer.Option(
            "--data", help=f"Also hold labels, and distances of memorized runs, against the data: {SOURCES}."
        ),
    ] = None,
    image_size: ImageSize = None,
) -> None:
    """Recompute every radius from its counts: no model and no GPU needed. Exits 1 if a record proves less.

    Example: `sigmax verify runs/cifar-0.5.jsonl`
    """
    from sigmax.records.verify import verify as check

    verdicts = [check(path) for path in runs]
    if data is not None:
        verdicts = [_with_data(verdict, data, image_size) for verdict in verdicts]
    for verdict in verdicts:
        show(verdict)
    if not all(verdict.holds for verdict in verdicts):
        raise typer.Exit(1)
    if data is not None:
        say(f"Every label is that of {data}.")


def _with_data(verdict: "Verdict", source: str, image_size: int | None) -> "Verdict":
    """The verdict with what the images add to it; a run that does not hold without them is left as it is."""
    from sigmax import data
    from sigmax.records.run import read
    from sigmax.system.data_check import data_findings

    if not verdict.holds or verdict.plan is None:
        return verdict
    dataset = data.load(source, str(verdict.plan.data.get("split")), size=image_size)
    return replace(verdict, findings=tuple(data_findings(read(verdict.path), dataset)))


def show(verdict: "Verdict") -> None:
    """Say what was found, the bad lines by number."""
    for finding in verdict.findings[:SHOWN]:
        complain(f"{verdict.path}, line {finding.line}: {finding.message}")
    if len(verdict.findings) > SHOWN:
        complain(f"... and {len(verdict.findings) - SHOWN} more")
    if verdict.torn and verdict.plan is not None:
        complain(f"{verdict.path}: the last line is torn and was not counted; repeat the certify command to finish")
    extent = f"{verdict.records} of {verdict.planned} inputs" + ("" if verdict.finished else ", unfinished")
    say(f"{verdict.path}: {_conclusion(verdict)} ({extent}{_terms(verdict)})")


def _conclusion(verdict: "Verdict") -> str:
    from sigmax.report.schemes import is_sound

    if not verdict.holds:
        found = len(verdict.findings)
        return f"FAILED: {found} finding{'s' if found > 1 else ''}"
    if verdict.imported:
        return "possible, but not proved: an imported log holds no counts"
    if not verdict.records:
        return "nothing to verify: no input is finished yet"
    if verdict.plan is not None and not is_sound(verdict.plan.rule):
        return "every radius follows from its counts, but is NO CERTIFICATE: the rule spends more than alpha"
    if verdict.plan is not None and verdict.plan.method == "memorized":
        return "every radius follows from its counts and from the recorded distances to earlier balls"
    return "every radius follows from its counts"


def _terms(verdict: "Verdict") -> str:
    """What the radii were proved at: a run is only as good as its alpha."""
    from sigmax.report.schemes import in_words

    plan = verdict.plan
    if plan is None or any(finding.line == 1 for finding in verdict.findings):  # what it says means nothing then
        return ""
    return f"; {in_words(plan.rule)}, n {plan.n}, alpha {plan.alpha}"
