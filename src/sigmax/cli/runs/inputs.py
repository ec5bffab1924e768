"""The inputs of a run on the terminal: a line each, and one of them with the votes of every stage."""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from sigmax.cli.progress import console, say
from sigmax.errors import RequestError
from sigmax.records.rounding import down, share_down

if TYPE_CHECKING:
    from sigmax.records.lines import Record
    from sigmax.records.plan import Plan
    from sigmax.records.run import Run
    from sigmax.rules.certificate import Stage

Sort = Literal["index", "radius"]
CLASS = 10  # letters of a class in a line: a certified input of named classes still fits 80 columns
RADIUS = 8  # letters; of a log's that has more, six digits are shown
STAGE = 20  # letters of the limiting stage, whose end says most
NAME, BAR = 22, 38  # letters of the name of a class or a route, and of a bar: 80 a line
MOST_CLASSES = 8  # bars of a stage; the votes of all other classes stand together
EIGHTHS = "\u258f\u258e\u258d\u258c\u258b\u258a\u2589\u2588"  # blocks from an eighth of a letter to a whole one
FULL = EIGHTHS[-1]


def header(classes: tuple[str, ...] = ()) -> str:
    """The head of the lines of inputs whose classes have these names."""
    label, answer = _widths(classes)
    return f"  index {'label':>{label}} {'answer':>{answer}}   radius    sigma  limited by           outcome"


def line(record: "Record", sigma: float | None = None, classes: tuple[str, ...] = ()) -> str:
    """An input in at most 80 letters, or a few more if it abstained and classes have names; the radius rounded down.

    sigma: of a run whose records do not have it.
    """
    c = record.certificate
    label, answer = _widths(classes)
    limit, sigma = c.limited_by or "-", sigma if c.sigma is None else c.sigma
    radius = c.shown_radius()
    cells = (
        f"{record.index:>7}",
        f"{'-' if record.label is None else _class(record.label, classes)[:CLASS]:>{label}}",
        f"{'-' if c.predicted is None else _class(c.predicted, classes)[:CLASS]:>{answer}}",
        f"{radius if len(radius) <= RADIUS else f'{c.radius:.6g}':>{RADIUS}}",
        f"{'-' if sigma is None or math.isnan(sigma) else f'{sigma:g}':>8} ",
        f"{limit if len(limit) <= STAGE else '..' + limit[2 - STAGE :]:<{STAGE}}",
        c.outcome.name.lower(),
    )
    return " ".join(cells)


def _class(column: int, classes: tuple[str, ...]) -> str:
    """A class by its number, and its name where that is known and says more."""
    known = column < len(classes) and classes[column] != str(column)
    return f"{column} {classes[column]}" if known else str(column)


@lru_cache(1)
def _widths(classes: tuple[str, ...]) -> tuple[int, int]:
    """Letters of a label and of an answer."""
    longest = min(CLASS, max((len(_class(column, classes)) for column in range(len(classes))), default=0))
    return max(5, longest), max(6, longest)


def _classes(plan: "Plan") -> tuple[str, ...]:
    """The names of the classes that a run's file holds."""
    return tuple(plan.data.get("classes") or ())


def table(run: "Run", *, limit: int, sort: Sort) -> None:
    """Print a line an input, at most `limit` of them (all if 0)."""
    if limit < 0:
        raise RequestError(f"--limit must be a whole number of at least 0 (0: all inputs); got {limit}")
    keys = {"index": lambda record: record.index, "radius": lambda record: (-record.certificate.radius, record.index)}
    ordered = sorted(run.records, key=keys[sort])
    shown = ordered[: limit or None]
    classes = _classes(run.plan)
    if shown:
        say(f"\n{header(classes)}")
    for record in shown:
        say(line(record, run.sigma_of(record.certificate), classes))
    if len(shown) < len(ordered):
        say(f"... and {len(ordered) - len(shown):,} more; --limit 0 shows all, --index I explains one")


def explain(run: "Run", index: int) -> None:
    """Print what was concluded of one input, and every stage in words and with bars."""
    record = next((record for record in run.records if record.index == index), None)
    if record is None:
        held = sorted(record.index for record in run.records)
        there = f"{len(held)}, from {held[0]} to {held[-1]}" if held else "none yet"
        raise RequestError(f"the run has no input {index}; it holds {there}")
    label = "no label" if record.label is None else f"label {_class(record.label, _classes(run.plan))}"
    say(f"\nInput {index}, {label}: {record.certificate.explain()}")
    for stage in record.certificate.stages:
        reach = "" if stage.radius is None else f": radius {down(stage.radius, 4)}"
        words = stage.in_words()
        say(f"\n{words[0].upper()}{words[1:]}{reach}")
        for text in _bars(stage, _naming(run.plan, stage)):
            say(text)


def _naming(plan: "Plan", stage: "Stage") -> Callable[[int], str]:
    """What a column of a stage's votes stands for: a class, a route, or to defer. A damaged plan may name too few."""
    from sigmax.report.schemes import voting_parts

    parts = () if plan.imported else voting_parts(plan.rule)
    part = next((part for part in parts if part.path == stage.part), None)
    routes = None if part is None else part.routes
    known = _classes(plan)

    def name(column: int) -> str:
        if routes is not None:
            return routes[column] if column < len(routes) else f"route {column}"
        if part is not None and part.defers and column == plan.rule.get("classes"):
            return "defer"
        return _class(column, known)

    return name


def _bars(stage: "Stage", name: Callable[[int], str]) -> Iterator[str]:
    """A bar for each column that got votes, the most first."""
    if not stage.n or stage.scores:
        return
    voted = sorted(((k, c) for c, k in enumerate(stage.counts) if k), key=lambda pair: (-pair[0], pair[1]))
    shown: Iterable[tuple[int, str]] = [(k, name(c)) for k, c in voted[:MOST_CLASSES]]
    rest = sum(k for k, _ in voted[MOST_CLASSES:])
    for k, words in [*shown, *([(rest, "all others")] if rest else [])]:
        yield f"  {words[:NAME]:<{NAME}} {_bar(k / stage.n):<{BAR}} {share_down(100 * k / stage.n):>5}% {k:>9,}"


def _bar(share: float) -> str:
    """A bar of up to `BAR` letters; on terminals without blocks, of whole signs."""
    eighths = max(1, round(8 * BAR * share))
    whole, part = divmod(eighths, 8)
    if console.options.ascii_only:
        return "#" * max(1, whole)
    return FULL * whole + (EIGHTHS[part - 1] if part else "")
