"""`sigmax certify`: certify a data set into a run file."""

from typing import TYPE_CHECKING, Annotated

import typer

from sigmax.cli import options as opt
from sigmax.cli.progress import complain, console, progress, resumable, say
from sigmax.cli.tables import summary_table

if TYPE_CHECKING:
    from sigmax.certify.scheme import Scheme
    from sigmax.data import Dataset
    from sigmax.records.run import Run


def certify(
    system: opt.System,
    data: opt.Data,
    out: opt.RunOut,
    split: opt.Split = "test",
    n0: Annotated[int, typer.Option("--n0", help="Draws that pick the class.")] = 100,
    n: Annotated[int, typer.Option("--n", help="Draws that prove the radius, at most if adaptive.")] = 10_000,
    alpha: opt.Alpha = 1e-3,
    sampling: opt.Sampling = opt.SamplingName.FIXED,
    targets: opt.Targets = None,
    tolerance: opt.Tolerance = None,
    seed: opt.Seed = 0,
    start: opt.Start = 0,
    skip: opt.Skip = 1,
    maximum: opt.Maximum = None,
    image_size: opt.ImageSize = None,
    batch: opt.Batch = None,
    device: opt.Device = None,
    dtype: opt.Dtype = opt.Precision.FP32,
    compile_: opt.Compile = opt.CompileName.OFF,
) -> None:
    """Certify the inputs of a data set; interrupted runs go on when the command is repeated.

    Example: `sigmax certify systems/half --data cifar10:~/cifar --skip 20 --max 500 --out runs/half.jsonl`
    """
    from sigmax import data as sources
    from sigmax import system as systems
    from sigmax.certify.sampling import asked
    from sigmax.system.job import certify_run

    question = asked(sampling.value, opt.radii(targets), tolerance)
    # Cheap checks of the request come before anything is read.
    scheme = systems.load(system, device=device, dtype=opt.torch_dtype(dtype), batch=batch, compile=compile_.value)
    scheme.check_question(n0=n0, n=n, alpha=alpha, sampling=question)
    dataset = sources.load(data, split, size=image_size)
    _warn_of_training_data(scheme, dataset)
    with (
        resumable(f"Every input finished so far is kept in {out}."),
        progress(f"certify {out.name}") as watch,
    ):
        run = certify_run(
            scheme,
            dataset,
            out,
            n0=n0,
            n=n,
            alpha=alpha,
            seed=seed,
            start=start,
            skip=skip,
            maximum=maximum,
            sampling=question,
            watch=watch,
        )
    _conclude(run)


def _warn_of_training_data(scheme: "Scheme", dataset: "Dataset") -> None:
    from sigmax import models

    described = [models.describe(voter.model) for voter in scheme.voters.values()]
    trained_on = [d.notes.get("training", {}).get("data", {}).get("fingerprint") for d in described if d]
    if dataset.fingerprint in trained_on:
        complain(
            "note: these are images the system was trained on; "
            "certified accuracy on them says nothing about new ones",
            style="yellow",
        )


def _conclude(run: "Run") -> None:
    console.print(summary_table([run]))
    say(f"Run file: {run.path}. Next: sigmax verify {run.path}, sigmax report {run.path} --out report")
