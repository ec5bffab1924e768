"""The runs a report is about: read, checked for content, and named so that no two share a name."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from sigmax.errors import RequestError
from sigmax.records.run import Run, read
from sigmax.report.schemes import is_sound

Source = Run | str | Path
SAME_SIGMA = 1e-9  # relative: 0.3 and 0.1 + 0.2 are one noise


def load(source: Source) -> Run:
    """The run itself, read if a path was given; one without any record is refused."""
    run = source if isinstance(source, Run) else read(source)
    if not run.records:
        raise RequestError(f"{run.path} holds no certified input yet; certify some before reporting on it")
    return run


def named(sources: Source | Iterable[Source]) -> dict[str, Run]:
    """Runs by name, in the order given: the file's name, with its folder's before it where two are alike.

    The name of a run says what its numbers do not, in every table, legend and sentence: that its radii are no
    certificates, or that inputs are missing.
    """
    if isinstance(sources, Source):
        sources = [sources]
    runs = [load(source) for source in sources]
    if not runs:
        raise RequestError("a report needs at least one run; none was given")
    return dict(zip(_names(runs), runs, strict=True))


def _marked(run: Run) -> str:
    marks = [] if is_sound(run.plan.rule) else ["not sound"]
    marks += [] if run.finished else ["unfinished"]
    return f"{_stem(run.path)} ({', '.join(marks)})" if marks else _stem(run.path)


def _names(runs: list[Run]) -> list[str]:
    names, paths = [_marked(run) for run in runs], [run.path for run in runs]
    shared = _repeated(names)
    names = [
        f"{p.resolve().parent.name}/{name}" if name in shared else name
        for p, name in zip(paths, names, strict=True)
    ]
    shared, seen = _repeated(names), Counter[str]()
    for position, name in enumerate(names):
        seen[name] += 1
        if name in shared:
            names[position] = f"{name} ({seen[name]})"
    return names


def _stem(path: Path) -> str:
    """The file's name without .gz and one more ending; '.25' in 'sigma_0.25' is no ending."""
    path = path.with_suffix("") if path.suffix == ".gz" else path
    return path.stem if path.suffix[1:].isalpha() else path.name


def _repeated(names: list[str]) -> set[str]:
    return {name for name, times in Counter(names).items() if times > 1}
