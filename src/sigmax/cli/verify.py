"""`sigmax verify`: recompute every radius of a run from its counts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sigmax.cli.progress import complain, say

if TYPE_CHECKING:
    from sigmax.records.verify import Verdict

SHOWN = 20  # findings printed a run


def verify(
    runs: Annotated[list[Path], typer.Argument(help="Run files, plain or gzipped.", metavar="RUN...")],
) -> None:
    """Recompute every radius from its counts: no model and no GPU needed. Exits 1 if a record proves less.

    Example: `sigmax verify runs/cifar-0.5.jsonl`
    """
    from sigmax.records.verify import verify as check

    verdicts = [check(path) for path in runs]
    for verdict in verdicts:
        show(verdict)
    if not all(verdict.holds for verdict in verdicts):
        raise typer.Exit(1)


def show(verdict: "Verdict") -> None:
    """Say what was found, the bad lines by number."""
    for finding in verdict.findings[:SHOWN]:
        complain(f"{verdict.path}, line {finding.line}: {finding.message}")
    if len(verdict.findings) > SHOWN:
        complain(f"... and {len(verdict.findings) - SHOWN} more")
    if verdict.torn:
        complain(f"{verdict.path}: the last line is torn and was not counted; repeat the certify command to finish")
    extent = f"{verdict.records} of {verdict.planned} inputs" + ("" if verdict.finished else ", unfinished")
    say(f"{verdict.path}: {_conclusion(verdict)} ({extent}{_terms(verdict)})")


def _conclusion(verdict: "Verdict") -> str:
    if not verdict.holds:
        found = len(verdict.findings)
        return f"FAILED: {found} finding{'s' if found > 1 else ''}"
    if verdict.imported:
        return "possible, but not proved: an imported log holds no counts"
    if not verdict.records:
        return "nothing to verify: no input is finished yet"
    return "every radius follows from its counts"


def _terms(verdict: "Verdict") -> str:
    """What the radii were proved at: a run is only as good as its alpha."""
    from sigmax.report.schemes import in_words

    plan = verdict.plan
    if plan is None or any(finding.line == 1 for finding in verdict.findings):  # what it says means nothing then
        return ""
    return f"; {in_words(plan.rule)}, n {plan.n}, alpha {plan.alpha}"
