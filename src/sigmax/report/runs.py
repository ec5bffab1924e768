"""The runs a report is about: read, named so that no two share a name, and cut to the inputs they share."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError
from sigmax.records.run import Run, read

Source = Run | str | Path
SAME_SIGMA = 1e-9  # relative: 0.3 and 0.1 + 0.2 are one noise


def load(source: Source) -> Run:
    """The run itself, read if a path was given; one without any record is refused."""
    if not isinstance(source, Source):
        raise RequestError(
            f"expected one run, a Run or the path of a run file; got {type(source).__name__}. Call this for each run "
            "by itself, or put several side by side with sigmax.report.compare([a, b])"
        )
    run = source if isinstance(source, Run) else read(source)
    if not run.records:
        raise RequestError(f"{run.path} holds no certified input yet; certify some before reporting on it")
    return run


def norm_of(runs: Iterable[Run]) -> str:
    """The norm of the runs' radii, which is one: see `refuse_other_norms`."""
    return " / ".join(dict.fromkeys(run.plan.norm for run in runs))


def labelled(run: Run, purpose: str) -> Run:
    """The run, for a purpose that needs the true classes; refused without them."""
    if not run.labelled:
        raise RequestError(
            f"{run.path.name} has no labels, which {purpose} needs; certify data with labels, or use "
            "sigmax.report.certified_share"
        )
    return run


def sigma_by_record(run: Run) -> NDArray[np.float64]:
    """The noise level of every record, in the order of the records; NaN where nothing was asked."""
    return np.array([run.sigma_of(record.certificate) for record in run.records], dtype=np.float64)


def named(sources: Source | Iterable[Source]) -> dict[str, Run]:
    """Runs by name, in the order given: the file's name, with its folder's before it where two are alike.

    In every table, legend and sentence the name of a run says if inputs are missing.
    """
    if isinstance(sources, Source):
        sources = [sources]
    runs = [load(source) for source in sources]
    if not runs:
        raise RequestError("a report needs at least one run; none was given")
    if len({run.labelled for run in runs}) > 1:
        which = ", ".join(run.path.name for run in runs if not run.labelled)
        raise RequestError(
            f"{which} has no labels and other runs have: a share certified for any class is no accuracy; report on "
            "them apart"
        )
    refuse_other_norms(runs)
    return dict(zip(_names(runs), runs, strict=True))


def refuse_other_norms(runs: Sequence[Run]) -> None:
    """Raise unless all radii are in one norm: a number in another norm is another claim."""
    if len({run.plan.norm for run in runs}) > 1:
        which = ", ".join(f"{run.path.name}: {run.plan.norm}" for run in runs)
        raise RequestError(f"the radii of the runs are in different norms ({which}); report on them apart")


def _names(runs: list[Run]) -> list[str]:
    names = [stem(run.path) + ("" if run.finished else " (unfinished)") for run in runs]
    shared, paths = _repeated(names), [run.path for run in runs]
    names = [
        f"{p.resolve().parent.name}/{name}" if name in shared else name for p, name in zip(paths, names, strict=True)
    ]
    shared, seen = _repeated(names), Counter[str]()
    for position, name in enumerate(names):
        seen[name] += 1
        if name in shared:
            names[position] = f"{name} ({seen[name]})"
    return names


def stem(path: Path) -> str:
    """The file's name without .gz and one more ending; '.25' in 'sigma_0.25' is no ending."""
    path = path.with_suffix("") if path.suffix == ".gz" else path
    return path.stem if path.suffix[1:].isalpha() else path.name


def _repeated(names: list[str]) -> set[str]:
    return {name for name, times in Counter(names).items() if times > 1}


def on_shared_inputs(runs: Sequence[Run]) -> list[Run]:
    """The runs cut to the inputs that all of them hold, by rising index; refused where `why_not` has a reason."""
    refuse_other_norms(runs)
    reason = why_not(runs)
    if reason is not None:
        raise RequestError(reason)
    by_index = [{record.index: record for record in run.records} for run in runs]
    shared = sorted(set.intersection(*map(set, by_index)))
    return [replace(run, records=tuple(of[i] for i in shared)) for run, of in zip(runs, by_index, strict=True)]


def why_not(runs: Sequence[Run]) -> str | None:
    """Why the runs cannot be compared input by input, and what to do; None where they can."""
    first, *others = runs
    for run in others:
        if not _same_fingerprint(first, run):
            return f"the runs are of different data: {_data(first)}, {_data(run)}; certify the same data with both"
    if not set.intersection(*({record.index for record in run.records} for run in runs)):
        return (
            f"no input is held by all of {', '.join(run.path.name for run in runs)}; "
            "certify the same inputs (--start, --skip, --max) with each"
        )
    labels = {record.index: record.label for record in first.records}
    for run in others:  # a log that states no data can still be distinguished by its labels
        for record in run.records:
            if labels.get(record.index, record.label) != record.label:
                one, other = ("none" if of is None else of for of in (labels[record.index], record.label))
                return (
                    f"the runs are of different data: input {record.index} has the label {one} in {first.path.name} "
                    f"and {other} in {run.path.name}; certify the same data with both"
                )
    return None


def _same_fingerprint(one: Run, other: Run) -> bool:
    """Whether nothing speaks against it: an imported log has no fingerprint."""
    return len({run.plan.data.get("fingerprint") for run in (one, other)} - {None}) < 2


def _data(run: Run) -> str:
    data = run.plan.data
    known = f" (fingerprint {data['fingerprint']})" if data.get("fingerprint") else ""
    return f"{run.path.name} of {data['name']} {data['split']}{known}"
