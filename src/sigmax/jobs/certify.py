"""The main job: certify a data set into a run file, and go on where an earlier attempt ended."""

import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch

from sigmax.data import Dataset, as_dataset, select
from sigmax.engine.precision import rounded_products
from sigmax.engine.voter import Voter
from sigmax.errors import RequestError
from sigmax.jobs.backends import local
from sigmax.jobs.backends.workers import certify_into, chosen
from sigmax.noise import philox
from sigmax.noise.addressed import GENERATOR, check_uint64
from sigmax.progress import Watch, shown
from sigmax.records.inputs import same
from sigmax.records.journal import Journal
from sigmax.records.lines import Record
from sigmax.records.plan import Plan
from sigmax.records.run import Run, read
from sigmax.request import refuse_other
from sigmax.rules.sampling import Kind, Sampling, asked
from sigmax.schemes.dual import Dual
from sigmax.schemes.scheme import Scheme, expect_scheme
from sigmax.systems.behaviour import HINT, behaviour, known_by_behaviour_alone
from sigmax.systems.folder import fingerprint
from sigmax.version import __version__


def certify_run(
    scheme: Scheme,
    dataset: object,
    out: str | Path,
    *,
    n0: int = 100,
    n: int = 10_000,
    alpha: float = 1e-3,
    seed: int = 0,
    start: int = 0,
    skip: int = 1,
    maximum: int | None = None,
    sampling: Kind | Sampling = "fixed",
    targets: Sequence[float] | float | None = None,
    tolerance: float | None = None,
    workers: int | None = None,
    gpus_per_worker: float | None = None,
    backend: str = "local",
    watch: Watch | None = None,
    seen: Callable[[Record], None] | None = None,
) -> Run:
    """Certify every `skip`-th input from `start`, at most `maximum`, into the run file `out`.

    `dataset`: a `sigmax.data.Dataset`, or what `sigmax.data.as_dataset` takes: a source such as "digits" or
    "cifar10:PATH" (its split "test"), (images, labels), a torch Dataset or DataLoader, a Hugging Face dataset. The
    whole of it is read once for its fingerprint.

    Everything that can be refused is refused first. A run that was cut is continued by the same call, one of fewer of
    these inputs is extended; either ends with the records of a run left alone. Of a finished run of these inputs or
    more those asked for are returned, and the file stays as it is.
    `sampling`, `targets`, `tolerance`: as for `certify`. `seen` is called with each record once it is safe.
    `watch(done, total)` counts inputs; without it a terminal or a notebook shows a bar, and `sx.silent` shows none.
    `workers`: how many processes share the work; the records are those of one process on the same kind of device.
    `backend`: "local" (this machine), "ray:ADDRESS" (a cluster; without `workers` as many as it has room for) or "ray"
    (the one that RAY_ADDRESS names, else one started here). `gpus_per_worker`: 1 (default on GPUs) or a share of one.
    """
    question: dict[str, Any] = {"n0": n0, "n": n, "alpha": alpha, "seed": seed}
    plan = certify_file(
        scheme,
        dataset,
        out,
        sampling=asked(sampling, targets, tolerance),
        workers=workers,
        gpus_per_worker=gpus_per_worker,
        backend=backend,
        watch=watch,
        seen=seen,
        start=start,
        skip=skip,
        maximum=maximum,
        **question,
    )
    run = read(out)
    return run if same(run.plan.inputs, plan.inputs) else run.only(plan.inputs)


def certify_file(
    scheme: Scheme,
    dataset: object,
    out: str | Path,
    *,
    sampling: Sampling,
    workers: int | None = None,
    gpus_per_worker: float | None = None,
    backend: str = "local",
    watch: Watch | None = None,
    seen: Callable[[Record], None] | None = None,
    **question: Any,
) -> Plan:
    """As `certify_run`, but nothing is read back, so that memory does not grow with the run; returns what was asked.

    question: the other arguments of `certify_run`, all of them.
    """
    expect_scheme(scheme)
    helpers = chosen(workers, backend, gpus_per_worker)
    if helpers is not None:
        helpers.check(scheme)
    data = as_dataset(dataset, classes=scheme.classes)
    plan = plan_run(scheme, data, sampling=sampling, **question)
    with Journal(Path(out), plan, seen=seen) as journal:
        if not journal.answered:
            with shown(watch, f"certify {Path(out).name}") as advance:
                if helpers is None:
                    local.certify_into(journal, scheme.fresh(), data, advance)
                else:
                    certify_into(journal, scheme, data, advance, helpers)
    return plan


def plan_run(
    scheme: Scheme,
    dataset: Dataset,
    *,
    n0: int,
    n: int,
    alpha: float,
    seed: int,
    start: int,
    skip: int,
    maximum: int | None,
    sampling: Sampling,
) -> Plan:
    """What `certify_run` would write at the head of its file; refuses what it would refuse."""
    indices = select(len(dataset), start=start, skip=skip, maximum=maximum)
    scheme.check_question(n0=n0, n=n, alpha=alpha, sampling=sampling)
    check_fits(scheme, dataset)
    return Plan(
        rule=dict(scheme.rule.describe()),
        n0=int(n0),
        n=int(n),
        alpha=float(alpha),
        seed=check_uint64("seed", seed),
        norm=scheme.rule.norm,
        generator=generator(scheme),
        arithmetic=arithmetic(scheme),
        data={
            "name": dataset.name,
            "split": dataset.split,
            "fingerprint": dataset.fingerprint,
            "classes": list(dataset.classes),
            "labelled": dataset.labelled,
        },
        inputs={"start": int(indices[0]), "skip": int(skip), "count": len(indices)},
        system=fingerprint(scheme),
        behaviour=behaviour(scheme, dataset.shape),
        sampling=sampling.describe(),
        made_with=made_with(scheme),
    )


def recall_run(scheme: Scheme, run: Run, dataset: object) -> None:
    """Give a scheme the memory of a finished or unfinished run, so that its next answers agree with that run's."""
    data = as_dataset(dataset, classes=expect_scheme(scheme).classes)
    there = {"system": run.plan.system, "data": run.plan.data.get("fingerprint"), "behaviour": run.plan.behaviour}
    here = {"system": fingerprint(scheme), "data": data.fingerprint, "behaviour": behaviour(scheme, data.shape)}
    what = f"{run.path} is a run of another system or of other data"
    refuse_other(there, here, what, "Give those it was certified with", hints={"behaviour": HINT})
    stored = len(getattr(scheme, "memory", None) or ())
    if stored:
        raise RequestError(
            f"the system remembers {stored} answers already, and balls of two memories may contradict each other; "
            "recall one run, before anything is answered"
        )
    local.recall(scheme, data, run.records)


def check_fits(scheme: Scheme, dataset: Dataset) -> None:
    """Raise unless the scheme takes the images of the data set and tells as many classes apart."""
    if dataset.classes and scheme.classes != len(dataset.classes):  # without labels they may be unknown
        few = len(dataset.classes) < scheme.classes
        unnamed = few and dataset.classes == tuple(map(str, range(len(dataset.classes))))
        raise RequestError(
            f"the system tells {scheme.classes} classes apart, but {dataset.name} has {len(dataset.classes)}; "
            "certify the data the system was trained for"
            + (f", or save the data with classes=[{scheme.classes} names]: its largest label was counted" * unnamed)
        )
    scheme.check(dataset.pixels([0]))


def generator(scheme: Scheme) -> str:
    """Which noise the seed stands for: a GPU makes its own, the same for every GPU up to the last bits."""
    kinds = {voter.device.type for voter in scheme.voters.values() if voter.votes} or {"cpu"}
    return ", ".join(GENERATOR if kind == "cpu" else f"{philox.GENERATOR} on {kind}" for kind in sorted(kinds))


def arithmetic(scheme: Scheme) -> str:
    """Device, precision and what torch may round, of every network: with the weights, the function that is smoothed."""
    kinds = {name: _arithmetic(voter) for name, voter in scheme.voters.items()}
    if len(set(kinds.values())) == 1:
        return next(iter(kinds.values()))
    return ", ".join(f"{name}: {kind}" for name, kind in kinds.items())


def _arithmetic(voter: Voter) -> str:
    precision = str(voter.dtype).removeprefix("torch.")
    mode = {"off": "", "default": " compiled"}.get(voter.mode, f" compiled ({voter.mode})")
    # Scores are always computed in full; see `Voter.scores`.
    rounded = rounded_products(voter.device.type) if voter.votes else ""
    return f"{voter.device.type} {precision}{mode}{rounded}"


def made_with(scheme: Scheme) -> dict[str, Any]:
    """What else a reader may want to know about how the votes came about."""
    functions = known_by_behaviour_alone(scheme)
    return {
        "sigmax": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "batch": {name: voter.batch for name, voter in scheme.voters.items()},
        **({"known_by_behaviour_alone": functions} if functions else {}),
        # By these a report finds the runs of the experts by themselves.
        **({"experts": [fingerprint(expert) for expert in scheme.experts]} if isinstance(scheme, Dual) else {}),
    }
