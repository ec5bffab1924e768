"""The job: attack the certified inputs of a run, and go on where an earlier attempt ended."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmax.data import Dataset, as_dataset
from sigmax.errors import RequestError
from sigmax.files import written_whole
from sigmax.jobs.attack.ball import Space
from sigmax.jobs.attack.log import Attacked, AttackLog
from sigmax.jobs.attack.search import Attack, Found, Search, nearest_others
from sigmax.jobs.attack.together import at_once, few_threads, searched
from sigmax.jobs.attack.verdict import AttackVerdict, judged
from sigmax.jobs.backends import local
from sigmax.jobs.certify import arithmetic, recall_run
from sigmax.progress import Watch, shown
from sigmax.records.lines import Record
from sigmax.records.run import Run, read
from sigmax.request import refuse_other
from sigmax.schemes.scheme import Scheme, expect_scheme
from sigmax.systems.behaviour import HINT, behaviour
from sigmax.systems.folder import fingerprint

LOG, RESULTS = "attack.jsonl", "results.json"
OTHERS = 2  # inputs certified as other classes that each search also starts from
_HINTS = {"behaviour": HINT, "arithmetic": "device, precision and compilation, with which the run was certified"}


@dataclass(frozen=True)
class AttackResult:
    """What an attack found, input by input, and what it says of the run."""

    rows: tuple[Attacked, ...]
    verdict: AttackVerdict
    folder: Path

    @property
    def ratios(self) -> list[float]:
        """Distance found over certified radius, of the inputs for which a point was found."""
        return [row.ratio for row in self.rows if row.ratio is not None]


def attack_run(
    run: Run | str | Path,
    scheme: Scheme,
    dataset: object,
    out: str | Path,
    *,
    options: Attack | None = None,
    maximum: int | None = None,
    together: int | None = None,
    watch: Watch | None = None,
    seen: Callable[[Attacked], None] | None = None,
) -> AttackResult:
    """Search around every certified input of a run for the nearest point that is answered as another class.

    A point inside a certified ball that is confirmed (see `sigmax.jobs.attack.verdict`) is a violation; it is saved as
    violation-INDEX.npz in the folder `out`, beside a line an input (attack.jsonl) and the whole (results.json). That
    none is found proves nothing: a stronger search might find one. An attack that was cut is continued by the same
    call.

    `scheme`, `dataset`: those the run was certified with, on the same kind of device and in the same precision.
    `maximum`: consider only the first so many inputs of the run, by index. `together`: how many inputs to search around
    at once (default: as many as fill a GPU; on a CPU 1). `seen` is called with each result.
    """
    expect_scheme(scheme)
    run = run if isinstance(run, Run) else read(run)
    options = options or Attack()
    data = as_dataset(dataset, classes=scheme.classes)
    _check(run, scheme, data, maximum)
    options.check(scheme)
    scheme = scheme.fresh()
    if local.has_memory(scheme):
        recall_run(scheme, run, data)
    considered = sorted(run.records, key=lambda record: record.index)[:maximum]
    certified = [record for record in considered if record.certificate.radius > 0]
    folder = Path(out)
    log, shown_as = AttackLog(folder / LOG, _request(run, options)), f"attack {run.path.name}"
    with log, shown(watch, shown_as) as advance, few_threads(scheme):
        _attack_all(log, certified, scheme, data, options=options, together=together, watch=advance, seen=seen)
    rows = tuple(log.done[record.index] for record in certified)
    verdict = judged(
        considered=len(considered),
        certified=len(rows),
        violations=sum(row.violation for row in rows),
        alpha=run.plan.alpha,
        inside_tests=sum(row.inside_tests for row in rows),
        each=options.alpha**options.confirmations,
    )
    result = AttackResult(rows, verdict, folder)
    _write(result, run, options)
    return result


def _check(run: Run, scheme: Scheme, data: Dataset, maximum: int | None) -> None:
    plan = run.plan
    if plan.imported or plan.system is None:
        raise RequestError(f"{run.path} is another tool's log, which names no system; certify with sigmax to attack it")
    if plan.norm != "l2":
        raise RequestError(
            f"the attack searches l2 balls; the radii of {run.path} are in the norm {plan.norm}. Attack a run of a "
            "system under Gaussian noise"
        )
    if not run.finished:
        raise RequestError(f"{run.path} is unfinished; repeat its certify command first")
    if maximum is not None and maximum < 1:
        raise RequestError(f"max must be at least 1; got {maximum}")
    there = {"system": plan.system, "data": plan.data.get("fingerprint"), "arithmetic": plan.arithmetic}
    here = {"system": fingerprint(scheme), "data": data.fingerprint, "arithmetic": arithmetic(scheme)}
    what, advice = f"{run.path} is a run of another system or of other data", "Give those it was certified with"
    refuse_other(there, here, what, advice, hints=_HINTS)
    known, found = {"behaviour": plan.behaviour}, {"behaviour": behaviour(scheme, data.shape)}
    refuse_other(known, found, what, advice, hints=_HINTS)


def _request(run: Run, options: Attack) -> dict[str, Any]:
    """What decides the results; how many inputs are attacked does not, so that an attack can be extended."""
    plan = {key: value for key, value in asdict(run.plan).items() if key not in ("made_with", "inputs")}
    return {"kind": "attack", "options": asdict(options), "run": plan}


def _attack_all(
    log: AttackLog,
    certified: Sequence[Record],
    scheme: Scheme,
    data: Dataset,
    *,
    options: Attack,
    together: int | None,
    watch: Watch,
    seen: Callable[[Attacked], None] | None,
) -> None:
    inputs = torch.from_numpy(data.pixels([record.index for record in certified])) if certified else torch.empty(0)
    done = sum(record.index in log.done for record in certified)
    watch(done, len(certified))
    count = together or at_once(scheme, inputs[:1].numel() or 1)
    for search, nearest in searched(scheme, _searches(log, certified, inputs, scheme, options), options, count):
        row = _row(search, nearest)
        if row.violation and nearest is not None:
            _save_point(log.path.parent, search.x, row, nearest)
        log.write(row)
        if seen is not None:
            seen(row)
        done += 1
        watch(done, len(certified))


def _searches(
    log: AttackLog, certified: Sequence[Record], inputs: Tensor, scheme: Scheme, options: Attack
) -> Iterator[tuple[Search, Tensor]]:
    """The searches that are left to do, each with the inputs of other classes that it starts from."""
    classes = [record.certificate.predicted or 0 for record in certified]
    space = Space(scheme.domain, scheme.grid)
    for x, label, record in zip(inputs, classes, certified, strict=True):
        if record.index not in log.done:
            search = Search(record.index, x, label, record.certificate.radius, space, options)
            yield search, nearest_others(x, inputs, classes, label, OTHERS)


def _row(search: Search, nearest: Found | None) -> Attacked:
    distance, _, answer, method = nearest or (None, None, None, None)
    return Attacked(
        index=search.index,
        certified=search.certified,
        radius=search.radius,
        nearest=distance,
        answer=answer,
        method=method,
        violation=distance is not None and distance < search.radius,
        inside_tests=search.inside_tests,
        predictions=search.predictions,
        gradients=search.gradients,
        seconds=round(search.seconds, 3),
    )


def _save_point(folder: Path, x: Tensor, row: Attacked, found: Found) -> None:
    facts = {"index": row.index, "certified": row.certified, "radius": row.radius}
    there = {"distance": found.distance, "answer": found.answer}
    with written_whole(folder / f"violation-{row.index}.npz") as draft, draft.open("wb") as file:
        np.savez(file, allow_pickle=False, x=x.numpy(), point=found.point.numpy(), **facts, **there)


def _write(result: AttackResult, run: Run, options: Attack) -> None:
    content = {
        "run": str(run.path),
        "system": run.plan.system,
        "data": dict(run.plan.data),
        "options": asdict(options),
        "verdict": {**asdict(result.verdict), "refuted": result.verdict.refuted},
        "inputs": [{**asdict(row), "ratio": row.ratio} for row in result.rows],
    }
    with written_whole(result.folder / RESULTS) as draft:
        draft.write_text(json.dumps(content, indent=1) + "\n")
