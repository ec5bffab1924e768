"""`sigmax certify`: certify a data set into a run file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sigmax.cli import options as opt
from sigmax.cli.progress import complain, console, note_fewer, note_training_data, progress, resumable, say
from sigmax.cli.tables import shown
from sigmax.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from sigmax.data import Dataset
    from sigmax.engine.voter import Voter
    from sigmax.records.lines import Record
    from sigmax.records.plan import Plan
    from sigmax.schemes.scheme import Scheme

MANY_VOTES = 2_000  # of fewer no trial is made
TRIAL = 32  # copies of an image in a forward pass of the trial, where a full batch would take too long
FEW_CERTIFIED = 20  # below it the share of other classes is chance
MOSTLY_OTHER = 0.8  # of the certified inputs: more for another class than their label suggest another order of classes
TOO_LONG = 0.5  # seconds
TRIALS = 3  # whose best counts: other processes make a trial longer, never shorter
LONG = 60.0  # seconds that a user should hear of before they pass


def certify(
    system: opt.System,
    data: opt.Data,
    out: opt.RunOut,
    split: opt.Split = "test",
    n0: Annotated[int, typer.Option("--n0", help="Samples that pick the class.")] = 100,
    n: Annotated[int, typer.Option("--n", help="Samples that prove the radius, at most if adaptive.")] = 10_000,
    alpha: opt.Alpha = 1e-3,
    sampling: opt.Sampling = "fixed",
    targets: opt.Targets = None,
    tolerance: opt.Tolerance = None,
    seed: opt.Seed = 0,
    start: opt.Start = 0,
    skip: opt.Skip = 1,
    maximum: opt.Maximum = None,
    image_size: opt.ImageSize = None,
    batch: opt.Batch = None,
    device: opt.Device = None,
    dtype: opt.Dtype = "fp32",
    compile_: opt.Compile = "off",
    code: opt.Code = None,
    workers: opt.Workers = None,
    gpus_per_worker: opt.GpusPerWorker = None,
    on: opt.On = "local",
    verbose: Annotated[bool, typer.Option("--verbose", help="Print a line for each input as it is finished.")] = False,
) -> None:
    """Certify the inputs of a data set; an interrupted run continues when the command is repeated.

    A finished run is extended by asking for more inputs: a larger --max keeps every record that is there.

    Example: `sigmax certify systems/half --data cifar10:~/cifar --skip 20 --max 500 --out runs/half.jsonl`
    """
    from sigmax import data as sources
    from sigmax import systems
    from sigmax.jobs.certify import certify_file
    from sigmax.rules.sampling import asked

    question = asked(sampling, opt.radii(targets), tolerance)
    request: dict[str, Any] = {"n0": n0, "n": n, "alpha": alpha, "seed": seed, "sampling": question}
    inputs: dict[str, Any] = {"start": start, "skip": skip, "maximum": maximum}
    machines: dict[str, Any] = {"workers": workers, "gpus_per_worker": gpus_per_worker, "backend": on}
    if out.is_dir():
        raise RequestError(f"--out names the run file, and {out} is a folder; name a file in it: {out / 'run.jsonl'}")
    # Cheap checks of the request come before anything is read.
    scheme = systems.load(system, device=device, dtype=dtype, batch=batch, compile=compile_, code=code or ())
    scheme.check_question(n0=n0, n=n, alpha=alpha, sampling=question)
    dataset = sources.load(data, split, size=image_size)
    note_fewer(len(sources.select(len(dataset), **inputs)), maximum, data)
    note_training_data(scheme, [dataset], "certified accuracy on them says nothing about new ones")
    _warn_of_long_work(scheme, dataset, n, maximum)
    with (
        resumable(f"Every input finished so far is kept in {out}."),
        progress(f"certify {out.name}") as watch,
    ):
        seen = _printed(dataset) if verbose else None
        plan = certify_file(scheme, dataset, out, **request, **inputs, **machines, watch=watch, seen=seen)
    _conclude(out, plan)


def _printed(dataset: "Dataset") -> "Callable[[Record], None]":
    """Prints each record as it is written, as `sigmax show` does, and behind it the file of an image folder's."""
    from sigmax.cli.runs.inputs import header, line

    def show(record: "Record") -> None:
        files = dataset.files_at([record.index])
        text = line(record, classes=dataset.classes)
        say(text if files is None else f"{text}  {files[0]}")

    say(header(dataset.classes))
    return show


def _warn_of_long_work(scheme: "Scheme", dataset: "Dataset", n: int, maximum: int | None) -> None:
    """Say how long an input takes where a CPU votes and all of them would take long; short trials tell."""
    import torch

    from sigmax.progress import spoken

    voters = [(name, voter) for name, voter in scheme.voters.items() if voter.device.type == "cpu" and voter.votes]
    inputs = min(maximum or len(dataset), len(dataset))
    if not voters or n * inputs < MANY_VOTES:
        return
    x = scheme.check(torch.from_numpy(dataset.pixels([0])))
    each = n * sum(_seconds_per_vote(voter, x, scheme.sigma_of(name)) for name, voter in voters)
    if each * inputs > LONG:
        together = f", {inputs:,} of them up to {spoken(each * inputs)}" if inputs > 1 else ""
        complain(
            f"note: roughly, an input takes up to {spoken(each)} on this CPU{together}; "
            "--device cuda is faster, and so are fewer samples: --n 1000 --sampling adaptive",
            style="yellow",
        )


def _seconds_per_vote(voter: "Voter", x: "Tensor", sigma: float) -> float:
    """The least of short trials, each after a warm-up; of a large network one trial alone."""
    from sigmax.bench.forward import seconds_per_vote

    vote = seconds_per_vote(voter, x, sigma, seconds=0.01, batch=TRIAL)
    if vote * TRIAL >= TOO_LONG:
        return vote
    # Small networks are faster in full batches.
    batch = voter.batch if vote * voter.batch < TOO_LONG else TRIAL
    return min(seconds_per_vote(voter, x, sigma, seconds=0.05, batch=batch) for _ in range(TRIALS))


def _conclude(out: Path, plan: "Plan") -> None:
    from sigmax.records.run import planned_inputs
    from sigmax.report.compare.comparison import figures_in, summary

    figures = figures_in(out, plan)
    console.print(shown(summary(out, figures), norm=plan.norm))
    there, asked = planned_inputs(out), len(plan.indices)
    if there > asked:
        say(f"{out} has {there:,} inputs, which all stay; the table is of the {asked:,} asked for.")
    if plan.labelled:
        _note_other_classes(figures.certified, figures.certified - len(figures.radii), plan.data["classes"])
    say(f"Run file: {out}. Next: sigmax verify {out}, sigmax report {out} --out report")


def _note_other_classes(certified: int, other: int, classes: "Sequence[str]") -> None:
    """Ask about the order of the classes where most certificates are for another class than the label."""
    if certified >= FEW_CERTIFIED and other > MOSTLY_OTHER * certified:
        listed = ", ".join(classes[:3]) + (", ..." if len(classes) > 3 else "")
        complain(
            f"note: {100 * other // certified}% of the certified inputs are certified for another class than their "
            f"label: is the order of the classes ({listed}) that of the model?",
            style="yellow",
        )
