"""The main job: certify a data set into a run file, and go on where an earlier attempt ended."""

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch

from sigmax import __version__
from sigmax.certify.dual import Dual
from sigmax.certify.sampling import Kind, Sampling, asked, remade
from sigmax.certify.scheme import Scheme
from sigmax.data import Dataset, select
from sigmax.errors import RequestError
from sigmax.noise import philox
from sigmax.noise.draws import GENERATOR, check_word
from sigmax.noise.voter import Voter
from sigmax.records.journal import Journal
from sigmax.records.lines import Record
from sigmax.records.plan import Plan
from sigmax.records.run import Run, read
from sigmax.system.folder import fingerprint

Watch = Callable[[int, int], None]  # called with (inputs recorded, inputs planned)


def certify_run(
    scheme: Scheme,
    dataset: Dataset,
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
    watch: Watch | None = None,
) -> Run:
    """Certify every `skip`-th input from `start`, at most `maximum`, into the run file `out`.

    Everything that can be refused is refused first. A run that was cut, killed or interrupted is continued by
    the same call and ends with the same records as one left alone; a finished run is returned as it is.
    `sampling`, `targets`, `tolerance`: as for `certify`.
    """
    plan = plan_run(
        scheme,
        dataset,
        n0=n0,
        n=n,
        alpha=alpha,
        seed=seed,
        start=start,
        skip=skip,
        maximum=maximum,
        sampling=asked(sampling, targets, tolerance),
    )
    with Journal(Path(out), plan) as journal:
        if not journal.finished:
            _certify_into(journal, scheme.fresh(), dataset, watch or (lambda done, total: None))
    return read(out)


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
    if not isinstance(dataset, Dataset):
        raise RequestError(
            f"certify_run needs a data set, got {type(dataset).__name__}; use sx.data.load(...), or for arrays "
            "sx.data.Dataset(name, split, images, labels, classes)"
        )
    indices = select(len(dataset), start=start, skip=skip, maximum=maximum)
    scheme.check_question(n0=n0, n=n, alpha=alpha, sampling=sampling)
    check_fits(scheme, dataset)
    return Plan(
        rule=dict(scheme.rule.describe()),
        n0=int(n0),
        n=int(n),
        alpha=float(alpha),
        seed=check_word("seed", seed),
        noise=generator(scheme),
        arithmetic=arithmetic(scheme),
        data={
            "name": dataset.name,
            "split": dataset.split,
            "fingerprint": dataset.fingerprint,
            "classes": list(dataset.classes),
        },
        inputs={"start": int(indices[0]), "skip": int(skip), "count": len(indices)},
        system=fingerprint(scheme),
        sampling=sampling.describe(),
        made_with=made_with(scheme),
    )


def _certify_into(journal: Journal, scheme: Scheme, dataset: Dataset, watch: Watch) -> None:
    plan = journal.plan
    indices, size = list(plan.indices), scheme.group(plan.n0 or 1, remade(plan.sampling))
    watch(len(journal.records), len(indices))
    for first in range(0, len(indices), size):
        group = indices[first : first + size]
        if all(index in journal.records for index in group):
            recall(scheme, dataset, [journal.records[index] for index in group])
            continue
        for record in _certify_group(journal, scheme, dataset, group):
            journal.write(record)
            watch(len(journal.records), len(indices))
    journal.finish()


def recall(scheme: Scheme, dataset: Dataset, records: Sequence[Record]) -> None:
    """Tell the scheme, if it remembers, what was certified before."""
    if type(scheme).recall is Scheme.recall:
        return
    pixels = torch.from_numpy(dataset.pixels([record.index for record in records]))
    for x, record in zip(pixels, records, strict=True):
        scheme.recall(x, record.certificate)


def recall_run(scheme: Scheme, run: Run, dataset: Dataset) -> None:
    """Give a scheme the memory of a finished or unfinished run, so that its next answers agree with that run's."""
    there = run.plan.system, run.plan.data.get("fingerprint")
    if there != (fingerprint(scheme), dataset.fingerprint):
        raise RequestError(f"{run.path} is a run of another system or of other data; give those it was made with")
    stored = len(getattr(scheme, "memory", None) or ())
    if stored:
        raise RequestError(
            f"the system remembers {stored} answers already, and balls of two memories may contradict each other; "
            "recall one run, before anything is answered"
        )
    recall(scheme, dataset, run.records)


def _certify_group(journal: Journal, scheme: Scheme, dataset: Dataset, group: Sequence[int]) -> Iterator[Record]:
    """The group's missing records, as they come. Groups are cut by the plan alone, whatever is already done."""
    plan = journal.plan
    known = {
        position: journal.records[index].certificate.stages
        for position, index in enumerate(group)
        if index in journal.records
    }
    clock = time.perf_counter()
    for position, certificate in scheme.certifications(
        dataset.pixels(group),
        n0=plan.n0 or 1,
        n=plan.n,
        alpha=plan.alpha,
        seed=plan.seed or 0,
        ids=group,
        sampling=remade(plan.sampling),
        known=known,
    ):
        if position in known:
            continue
        now = time.perf_counter()
        index = group[position]
        yield Record(index, int(dataset.labels[index]), certificate, seconds=now - clock)
        clock = now


def check_fits(scheme: Scheme, dataset: Dataset) -> None:
    """Raise unless the scheme takes the images of the data set and tells as many classes apart."""
    if scheme.classes != len(dataset.classes):
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
    """Device and precision of every network: with the weights, the function that is smoothed."""
    kinds = {name: _arithmetic(voter) for name, voter in scheme.voters.items()}
    if len(set(kinds.values())) == 1:
        return next(iter(kinds.values()))
    return ", ".join(f"{name}: {kind}" for name, kind in kinds.items())


def _arithmetic(voter: Voter) -> str:
    precision = str(voter.dtype).removeprefix("torch.")
    mode = {"off": "", "default": " compiled"}.get(voter.mode, f" compiled ({voter.mode})")
    return f"{voter.device.type} {precision}{mode}"


def made_with(scheme: Scheme) -> dict[str, Any]:
    """What else a reader may want to know about how the votes came about."""
    return {
        "sigmax": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "batch": {name: voter.batch for name, voter in scheme.voters.items()},
        # By these a report finds the runs of the experts by themselves.
        **({"experts": [fingerprint(expert) for expert in scheme.experts]} if isinstance(scheme, Dual) else {}),
    }
