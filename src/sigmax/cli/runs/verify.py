"""`sigmax verify`: recompute every radius of a run from its counts."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from sigmax.cli.options import SOURCES, ImageSize
from sigmax.cli.progress import complain, say
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from sigmax.data import Dataset
    from sigmax.records.plan import Plan
    from sigmax.records.verify import Verdict
    from sigmax.schemes.scheme import Scheme

SHOWN = 20  # findings printed a run


def verify(
    runs: Annotated[list[Path], typer.Argument(help="Run files, plain or gzipped.", metavar="RUN...")],
    data: Annotated[str | None, typer.Option("--data", help=f"Also compare with the data: {SOURCES}.")] = None,
    train: Annotated[str | None, typer.Option(help="Images of a sigma(x) field (default: the split train).")] = None,
    system: Annotated[str | None, typer.Option(help="The run's system, to recompute sigmas; needs torch.")] = None,
    image_size: ImageSize = None,
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Accept runs without their end line.")] = False,
) -> None:
    """Recompute every radius from its counts: no model, no GPU and no torch needed.

    Exits 1 if a record proves less than it claims or a run is unfinished, else 2 if a file cannot be verified.

    Example: `sigmax verify runs/cifar-0.5.jsonl`
    """
    from sigmax.records.verify import verify as check

    if data is None and (train is not None or system is not None):
        raise RequestError("--train and --system tell what an input's sigma is; give the inputs too (--data)")
    verdicts, refused, unknown = list["Verdict"](), list[str](), dict[Path, list[str]]()
    for path in runs:  # one that cannot be verified leaves the others to be
        try:
            verdicts.append(check(path))
        except RequestError as error:
            refused.append(str(error))
    if data is not None:
        reference = Given(data, image_size, train, system)
        verdicts = [_with_data(verdict, reference, unknown) for verdict in verdicts]
    for verdict in verdicts:
        show(verdict, unknown.get(verdict.path))
    open_runs = [verdict for verdict in verdicts if not verdict.finished and verdict.holds and not unfinished]
    for verdict in open_runs:
        complain(f"{verdict.path} is unfinished: repeat its command to finish it, or verify with --unfinished")
    for reason in refused:
        complain(f"error: {reason}", style="red")
    if open_runs or not all(verdict.holds for verdict in verdicts):
        raise typer.Exit(1)
    if refused:
        raise typer.Exit(2)
    if data is not None:
        labelled = any(verdict.plan is not None and verdict.plan.labelled for verdict in verdicts)
        say(f"Every label is that of {data}." if labelled else f"The data is that of {data}, which has no labels.")
    if not all(verdict.imported for verdict in verdicts):
        labels = "" if data is not None else ", nor whether labels and inputs are the data's (--data shows it)"
        say(f"A run file cannot show that its votes are the networks' (certifying again does){labels}.")


class Given(NamedTuple):
    """What runs are compared with: data, and what their sigmas can be recomputed from."""

    source: str
    image_size: int | None
    train: str | None
    system: str | None


def _with_data(verdict: "Verdict", given: Given, unknown: dict[Path, list[str]]) -> "Verdict":
    """The verdict with what the images add to it; a run that does not hold without them is left as it is."""
    from sigmax import data
    from sigmax.jobs.data_check import data_findings
    from sigmax.records.run import read

    if not verdict.holds or verdict.plan is None:
        return verdict
    dataset = data.load(given.source, str(verdict.plan.data.get("split")), size=given.image_size)
    left: list[str] = []
    train = None if verdict.imported else _training_images(verdict.plan, given)
    scheme = None if given.system is None else _loaded(verdict.plan, given.system)
    found = tuple(data_findings(read(verdict.path), dataset, train=train, scheme=scheme, unknown=left))
    unknown[verdict.path] = left
    return replace(verdict, findings=found)


def _training_images(plan: "Plan", given: Given) -> "Dataset | None":
    """The images that a field may stand on: those named, or the split "train" of the data if it has one."""
    from sigmax import data
    from sigmax.rules.registry import schemes_in

    if given.system is not None or all(scheme.name != "semi-elastic" for scheme in schemes_in(plan.rule)):
        return None
    try:
        return data.load(given.train or given.source, "train", size=given.image_size)
    except RequestError:
        if given.train is not None:
            raise
        return None


def _loaded(plan: "Plan", system: str) -> "Scheme":
    """The system, with the device and precision of the run."""
    from sigmax.engine.settings import DTYPES
    from sigmax.systems import load

    device, precision = [*(plan.arithmetic or "").split(), "", ""][:2]
    dtype = {str(dtype).removeprefix("torch."): dtype for dtype in DTYPES.values()}.get(precision)
    return load(system, device=device, dtype=dtype) if device in ("cpu", "cuda") and dtype else load(system)


def show(verdict: "Verdict", unknown: Sequence[str] | None = None) -> None:
    """Print what was found, the bad lines by number; unknown: what the data could not show, where it was given."""
    for finding in verdict.findings[:SHOWN]:
        complain(f"{verdict.path}, line {finding.line}: {finding.message}")
    if len(verdict.findings) > SHOWN:
        complain(f"... and {len(verdict.findings) - SHOWN} more")
    if verdict.torn and verdict.plan is not None:
        complain(f"{verdict.path}: the last line is torn and was not counted; repeat the certify command to finish")
    _show_failed(verdict)
    extent = f"{verdict.records} of {verdict.planned} inputs" + ("" if verdict.finished else ", unfinished")
    say(f"{verdict.path}: {_conclusion(verdict)} ({extent}{_terms(verdict)}){_unknown(verdict, unknown)}")


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
    from sigmax.rules.registry import assumptions, rebuild

    if not verdict.holds:
        found = len(verdict.findings)
        return f"FAILED: {found} finding{'s' if found > 1 else ''}"
    if verdict.imported:
        return "possible, but not proved: an imported log holds no counts"
    if not verdict.records:
        return "nothing to verify: no input is finished yet"
    assumed = "" if verdict.plan is None else "; ".join(assumptions(rebuild(verdict.plan.rule).describe()))
    return f"every radius follows from its counts{f', assuming {assumed}' if assumed else ''}"


def _unknown(verdict: "Verdict", left: Sequence[str] | None) -> str:
    """What neither the counts nor the data can show, such as how an input came by its noise."""
    from sigmax.rules.registry import schemes_in

    if verdict.plan is None or verdict.imported or not verdict.holds:
        return ""
    schemes = schemes_in(verdict.plan.rule)
    if left is not None:  # what the data was asked about is said by what it left open
        left = [*left, *(each.not_checked for each in schemes if each.name not in ("semi-elastic", "memorized"))]
    not_checked = "; ".join(filter(None, [each.not_checked for each in schemes] if left is None else left))
    return f"; not checked: {not_checked}" if not_checked else ""


def _terms(verdict: "Verdict") -> str:
    """What the radii were proved at: a run is only as good as its alpha."""
    from sigmax.report.schemes import in_words

    plan = verdict.plan
    if plan is None or any(finding.line == 1 for finding in verdict.findings):  # what it says means nothing then
        return ""
    return f"; {in_words(plan.rule)}, n {plan.n}, alpha {plan.alpha}"
