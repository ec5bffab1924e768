"""A run held against its data: what the records cannot show by themselves."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.jobs.sigma_check import described, sigma_findings
from sigmax.radius import Memory, rounding
from sigmax.records.run import Run, numbered_records
from sigmax.records.verify import Finding
from sigmax.request import refuse_other
from sigmax.rules.certificate import Role
from sigmax.rules.memorized import MemorizedRule
from sigmax.rules.registry import parts_of, rebuild
from sigmax.rules.replay import replay
from sigmax.rules.sampling import remade

if TYPE_CHECKING:
    from sigmax.schemes.scheme import Scheme


def data_findings(
    run: Run,
    dataset: Dataset,
    *,
    train: Dataset | None = None,
    scheme: "Scheme | None" = None,
    unknown: list[str] | None = None,
) -> Iterator[Finding]:
    """Where labels, dimensions, sigmas or distances of a memory are not the inputs'; nothing if all is right.

    For runs that `verify` found to hold; refused where the data is not the one that the run names.
    train: the images that a sigma(x) field measures distances to; with them its sigmas are recomputed.
    scheme: the system of the run, with which every sigma is recomputed. unknown: is given what could not be checked.
    """
    if dataset.fingerprint != run.plan.data.get("fingerprint"):
        raise RequestError(
            f"{run.path} is a run of other data ({run.plan.data.get('name')} {run.plan.data.get('split')}): the images "
            "given are not the same. Give the source, the split and the image size (--image-size) that it was "
            "certified with; files may also have been added, removed or changed since"
        )
    if scheme is not None:
        _refuse_another_system(run, scheme, dataset)
    wrong = [*_size_findings(run.plan.rule, dataset), *_label_findings(run, dataset)]
    yield from wrong
    if not wrong:
        yield from _score_findings(run, dataset)
        yield from sigma_findings(run, dataset, [] if unknown is None else unknown, train=train, scheme=scheme)
    rule = rebuild(run.plan.rule)
    if not wrong and isinstance(rule, MemorizedRule):  # of other inputs nothing could be said
        yield from _memory_findings(run, rule, dataset)


def _refuse_another_system(run: Run, scheme: "Scheme", dataset: Dataset) -> None:
    from sigmax.systems.behaviour import HINT, behaviour
    from sigmax.systems.folder import fingerprint

    there = {"system": run.plan.system, "behaviour": run.plan.behaviour}
    here = {"system": fingerprint(scheme), "behaviour": behaviour(scheme, dataset.shape)}
    if run.plan.behaviour is None:  # of runs made before it was recorded
        del there["behaviour"], here["behaviour"]
    what = f"{run.path} is a run of another system"
    refuse_other(there, here, what, "Give the one it was certified with", hints={"behaviour": HINT})


def _size_findings(rule: Mapping[str, Any], dataset: Dataset) -> Iterator[Finding]:
    """Semi-elastic radii shrink with the dimension, which is the images' and nobody's choice."""
    size = math.prod(dataset.shape)
    if rule.get("dim", size) != size:
        yield Finding(1, f"the plan speaks of inputs of {rule['dim']} numbers; those of the data have {size}")
    for part in parts_of(rule):
        yield from _size_findings(part.description, dataset)


def _score_findings(run: Run, dataset: Dataset) -> Iterator[Finding]:
    """Scores without noise: the allowance for rounding grows with the input's norm and dimension."""
    if not any(plain["scheme"] == "lipschitz" for _, plain in described(run.plan.rule)):
        return
    dim = math.prod(dataset.shape)
    least = rounding(dim, bits=64)
    for line, record in numbered_records(run):
        scored = [stage for stage in record.certificate.stages if stage.role is Role.SCORE]
        if not scored:
            continue
        size = float(np.linalg.norm(dataset.pixels([record.index]).astype(np.float64))) + math.sqrt(dim)
        for stage in scored:
            _, _, said, share = stage.scores
            if said < size * (1 - 1e-12) or share < least:
                yield Finding(
                    line,
                    f"input {record.index}: {stage.name} allows for the rounding of an input of size {said} by "
                    f"the share {share}; the input's size is {size}, and the share at least {least}",
                )


def _label_findings(run: Run, dataset: Dataset) -> Iterator[Finding]:
    for line, record in numbered_records(run):
        if record.index >= len(dataset):
            yield Finding(line, f"input {record.index} is not in the data, which has {len(dataset)} inputs")
            continue
        label = dataset.labels_at([record.index])[0]
        if record.label != label:
            there = "it has none" if label is None else f"its label is {label}"
            yield Finding(line, f"input {record.index} has the label {record.label} here; in the data {there}")


def _memory_findings(run: Run, rule: MemorizedRule, dataset: Dataset) -> Iterator[Finding]:
    """Where a distance is wrong or a ball was overlooked: the memory is built again, in the order of the file."""
    plan, memory = run.plan, Memory(dataset.pixels([0]).size)
    for line, record in numbered_records(run):
        c, x = record.certificate, dataset.pixels([record.index]).ravel()
        procedure = rule.certifying(n0=plan.n0 or 0, n=plan.n, alpha=plan.alpha, sampling=remade(plan.sampling))
        found, _ = memory.explain(x, *rule.proposed(replay(procedure, c.stages)))
        settled = next((stage.radius for stage in c.stages if stage.role is Role.MEMORY), None)
        if settled != found.radius or (found.radius and c.predicted != found.label):
            yield Finding(
                line,
                f"input {record.index}: the memory of the inputs before gives class {found.label} within "
                f"{found.radius}; the record says class {c.predicted} within {settled}",
            )
        if c.predicted is not None:
            memory.add(x, c.predicted, c.radius)
