"""Schemes side by side on the same inputs: accuracies, what they cost, and what their radii are worth."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sigmax.files import written_whole
from sigmax.records.run import Run
from sigmax.report.accuracy import Floats, certified_counts
from sigmax.report.average import average_radius
from sigmax.report.comparison import exact, grid
from sigmax.report.figures import axes, save
from sigmax.report.markdown import NOTHING, paragraphs, shown, table
from sigmax.report.notes import on_comparing, on_run
from sigmax.report.plot import draw
from sigmax.report.questions import furthest_asked
from sigmax.report.runs import Source, named
from sigmax.report.schemes import in_words, soundness

if TYPE_CHECKING:
    import pandas as pd

SOUND = "sound by"
DRAWS, SECONDS = "draws", "seconds"  # an input, on average


def scheme_table(
    runs: Source | Iterable[Source] | Mapping[str, Run], radii: Sequence[float] | Floats | None = None
) -> "pd.DataFrame":
    """One row a run: what its soundness rests on, certified accuracy in % at radii, ACR, draws and seconds.

    Beyond the largest radius a run was asked about (its targets) its accuracy is NaN.
    """
    import pandas as pd

    by_name = dict(runs) if isinstance(runs, Mapping) else named(runs)
    asked = grid(by_name.values(), radii)
    return pd.DataFrame([{"scheme": name, **_row(run, asked)} for name, run in by_name.items()])


def _row(run: Run, radii: Floats) -> dict[str, object]:
    inputs, end = len(run.records), furthest_asked(run)
    certified = 100 * certified_counts(run, radii, strict=False) / inputs
    return {
        SOUND: soundness(run.plan.rule),
        **{exact(r): share if r <= end else math.nan for r, share in zip(radii, certified, strict=True)},
        "ACR": average_radius(run).value,
        DRAWS: round(sum(record.certificate.draws for record in run.records) / inputs),
        SECONDS: sum(record.seconds for record in run.records) / inputs,
    }


def write_scheme_table(
    runs: Mapping[str, Run], out: str | Path, radii: Sequence[float] | Floats | None = None
) -> list[Path]:
    """Write compare.md, .csv and .json, and the figure compare.pdf and .png into a folder."""
    folder = Path(out)
    frame = scheme_table(runs, radii)
    page = folder / "compare.md"
    with written_whole(page) as draft:
        draft.write_text(_page(runs, frame), encoding="utf-8")
    sheet = folder / "compare.csv"
    with written_whole(sheet) as draft:
        frame.to_csv(draft, index=False)
    plain = folder / "compare.json"
    with written_whole(plain) as draft:
        draft.write_text(json.dumps(_plain(runs, frame), indent=1) + "\n", encoding="utf-8")
    ax = draw(list(runs.values()), axes(columns=2))
    return [page, sheet, plain, *save(ax, folder / "compare")]


def _plain(runs: Mapping[str, Run], frame: "pd.DataFrame") -> list[dict[str, object]]:
    """The rows, each with what its run was asked and made with; a cell without a number is null."""
    cells = frame.astype(object).where(frame.notna(), None)
    return [
        {
            **{str(name): value for name, value in row.items()},
            "inputs": len(run.records),
            **{name: getattr(run.plan, name) for name in ("n0", "n", "alpha", "seed", "arithmetic")},
            "sampling": dict(run.plan.sampling),
            "rule": dict(run.plan.rule),
        }
        for row, run in zip(cells.to_dict("records"), runs.values(), strict=True)
    ]


def _page(runs: Mapping[str, Run], frame: "pd.DataFrame") -> str:
    names = [str(name) for name in frame.columns]
    rows = [
        [cell_text(n, cell) for n, cell in zip(names, row, strict=True)] for row in frame.itertuples(index=False)
    ]
    first = next(iter(runs.values()))
    told = f"{len(first.records):,} inputs of {first.plan.data['name']} {first.plan.data['split']}"
    notes = [f"* {sentence}" for sentence in on_comparing(list(runs.values()))]
    notes += [f"* {sentence}" for sentence in _on_runs(runs)]
    return paragraphs(
        [
            "# Schemes compared",
            f"{told}, n={first.plan.n:,}, alpha={first.plan.alpha:g}. Certified accuracy in % at l2 radii, "
            "rounded down; draws and seconds are an input's, on average.",
            table(names, rows).rstrip(),
            "![certified accuracy against the radius](compare.png)",
            "## What was run",
            "\n".join(f"* {name}: {in_words(run.plan.rule)}" for name, run in runs.items()),
            *(["## Notes", "\n".join(notes)] if notes else []),
        ]
    )


def _on_runs(runs: Mapping[str, Run]) -> Iterator[str]:
    """What there is to say of the runs, once where it is the same of several."""
    told: dict[str, list[str]] = {}
    for name, run in runs.items():
        for sentence in on_run(run):
            told.setdefault(sentence, []).append(name)
    for sentence, names in told.items():
        yield f"{'each' if len(names) == len(runs) > 1 else ', '.join(names)}: {sentence}"


def cell_text(name: str, value: object) -> str:
    """A cell of the table as text, by the name of its column; never rounded up."""
    if name == SECONDS:
        return f"{value:.3g}" if isinstance(value, float) else NOTHING
    return f"{value:,}" if isinstance(value, int) else shown(name, value)
