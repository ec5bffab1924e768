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
        typer.Option("--data", help=f"Also compare labels, and distances of memorized runs, with the data: {SOURCES}."),
    ] = None,
    image_size: ImageSize = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Accept runs without their end line, as far as they go.")
    ] = False,
) -> None:
    """Recompute every radius from its counts: no model, no GPU and no torch needed.

    Exits 1 if a record proves less than it claims or a run is unfinished, 2 if a file is none that can be verified.

    Example: `sigmax verify runs/cifar-0.5.jsonl`
    """
    from sigmax.records.verify import verify as check

    verdicts = [check(path) for path in runs]
    if data is not None:
        verdicts = [_with_data(verdict, data, image_size) for verdict in verdicts]
    for verdict in verdicts:
        show(verdict)
    open_runs = [verdict for verdict in verdicts if not verdict.finished and verdict.holds and not unfinished]
    for verdict in open_runs:
        complain(f"{verdict.path} is unfinished: repeat its command to finish it, or verify with --unfinished")
    if open_runs or not all(verdict.holds for verdict in verdicts):
        raise typer.Exit(1)
    if data is not None:
        labelled = any(verdict.plan is not None and verdict.plan.labelled for verdict in verdicts)
        say(f"Every label is that of {data}." if labelled else f"The data is that of {data}, which has no labels.")


def _with_data(verdict: "Verdict", source: str, image_size: int | None) -> "Verdict":
    """The verdict with what the images add to it; a run that does not hold without them is left as it is."""
    from sigmax import data
    from sigmax.jobs.data_check import data_findings
    from sigmax.records.run import read

    if not verdict.holds or verdict.plan is None:
        return verdict
    dataset = data.load(source, str(verdict.plan.data.get("split")), size=image_size)
    return replace(verdict, findings=tuple(data_findings(read(verdict.path), dataset)))


def show(verdict: "Verdict") -> None:
    """Print what was found, the bad lines by number."""
    for finding in verdict.findings[:SHOWN]:
        complain(f"{verdict.path}, line {finding.line}: {finding.message}")
    if len(verdict.findings) > SHOWN:
        complain(f"... and {len(verdict.findings) - SHOWN} more")
    if verdict.torn and verdict.plan is not None:
        complain(f"{verdict.path}: the last line is torn and was not counted; repeat the certify command to finish")
    _show_failed(verdict)
    extent = f"{verdict.records} of {verdict.planned} inputs" + ("" if verdict.finished else ", unfinished")
    say(f"{verdict.path}: {_conclusion(verdict)} ({extent}{_terms(verdict)}){_unknown(verdict)}")


def _show_failed(verdict: "Verdict") -> None:
    """Inputs that a run of several workers could not certify; they have no record, so nothing is claimed of them."""
    from sigmax.records.failed import failed_inputs, failed_path

    failed = [] if verdict.finished else failed_inputs(verdict.path)
    if failed:
        shown = ", ".join(map(str, failed[:SHOWN])) + ", ..." * (len(failed) > SHOWN)
        complain(
            f"{verdict.path}: {len(failed)} inputs failed and have no certificate: {shown}. Their errors are in "
            f"{failed_path(verdict.path)}; repeat the certify command to try them again"
        )


def _conclusion(verdict: "Verdict") -> str:
    if not verdict.holds:
        found = len(verdict.findings)
        return f"FAILED: {found} finding{'s' if found > 1 else ''}"
    if verdict.imported:
        return "possible, but not proved: an imported log holds no counts"
    if not verdict.records:
        return "nothing to verify: no input is finished yet"
    assumed = _assumed(verdict)
    return f"every radius follows from its counts{f', assuming {assumed}' if assumed else ''}"


def _assumed(verdict: "Verdict") -> str:
    """What the certificates assume beyond their samples."""
    from sigmax.rules.registry import assumptions, rebuild

    return "" if verdict.plan is None else "; ".join(assumptions(rebuild(verdict.plan.rule).describe()))


def _unknown(verdict: "Verdict") -> str:
    """What neither the counts nor the labels can show, such as how an input came by its noise."""
    from sigmax.rules.registry import schemes_in

    if verdict.plan is None or verdict.imported or not verdict.holds:
        return ""
    not_checked = "; ".join(scheme.not_checked for scheme in schemes_in(verdict.plan.rule) if scheme.not_checked)
    return f"; not checked: {not_checked}" if not_checked else ""


def _terms(verdict: "Verdict") -> str:
    """What the radii were proved at: a run is only as good as its alpha."""
    from sigmax.report.schemes import in_words

    plan = verdict.plan
    if plan is None or any(finding.line == 1 for finding in verdict.findings):  # what it says means nothing then
        return ""
    return f"; {in_words(plan.rule)}, n {plan.n}, alpha {plan.alpha}"
