"""The interactive figures as data: which lines, through which points. The browser only draws them.

A line is a step function. "vh": its value holds from the point before up to this one (certified accuracy, R >= r);
"hv": from this point up to the next (inputs at or below a value). Of very many steps some are left out, always so
that the line that remains is nowhere above the whole one.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from sigmax.errors import RequestError
from sigmax.records.run import Run
from sigmax.report.compare.diagnosis import ReferenceLine, RoutingAnalysis
from sigmax.report.html.packing import floats, hundredths, thinned
from sigmax.report.metrics.accuracy import LEVEL, Floats, certified_curve, interval, measure
from sigmax.report.metrics.adaptive import NO_SHARES, furthest_asked, is_adaptive, targets
from sigmax.report.metrics.distribution import ecdf
from sigmax.report.plots.routing import ecdf as at_or_below
from sigmax.report.runs import norm_of
from sigmax.report.schemes import one_sided

MOST_STEPS = 2_000  # of one line: 10,000 inputs are then drawn to a twentieth of a percent
NOTE_ON_SHARES = (
    "p_A does not depend on alpha and hardly on n, so it compares classifiers of one sigma fairly where certified "
    "radii need not. A log without counts says nothing below one half. In a scheme with parts the votes are those of "
    "the part that answered; an input without such votes counts as one with none for its true class."
)
ONE_SIDED = "An input is certified only where p_A is above one half."

Data = dict[str, Any]


def figures(runs: Mapping[str, Run], found: RoutingAnalysis) -> list[Data]:
    """All figures that these runs have something to say in, in the order shown."""
    return [figure for figure in (_accuracy(runs, found), _shares(runs), *_routing(found)) if figure["lines"]]


def _accuracy(runs: Mapping[str, Run], found: RoutingAnalysis) -> Data:
    words = "certified accuracy" if _labelled(runs) else "certified share"
    return {
        "key": "accuracy",
        "title": words.capitalize(),
        "x": f"{norm_of(runs.values())} radius (pixels in [0, 1])",
        "y": f"{words} (%)",
        "step": "vh",
        "lines": [*(_curve(name, run) for name, run in runs.items()), *map(_reference, found.lines)],
        "note": " ".join(_on_accuracy(runs)),
    }


def _labelled(runs: Mapping[str, Run]) -> bool:
    return all(run.labelled for run in runs.values())


def _on_accuracy(runs: Mapping[str, Run]) -> Iterator[str]:
    of = "their true" if _labelled(runs) else "any"
    yield (
        f"Line: share of inputs certified for {of} class with R >= r; band: its {100 * LEVEL:g}% "
        "Clopper-Pearson interval over inputs, at each value by itself."
    )
    asked = [name for name, run in runs.items() if targets(run)]
    if asked:
        yield f"The line of {', '.join(asked)} ends at the largest radius that was asked about."


def _curve(name: str, run: Run) -> Data:
    curve = certified_curve(run)
    band, given = (curve["low"], curve["high"]), run.plan.imported
    line = _line(name, curve["radius"], curve[measure(run)], len(run.records), band, given=given)
    return {**line, "cut": furthest_asked(run) < math.inf}


def _reference(line: ReferenceLine) -> Data:
    return {**_line(line.name, *line.steps(), line.curve.inputs), "reference": True, "cut": line.end < math.inf}


def _shares(runs: Mapping[str, Run]) -> Data:
    lines = [line for name, run in runs.items() if (line := _vote_shares(name, run)) is not None]
    return {
        "key": "shares",
        "title": "Distribution of p_A",
        "x": "p_A: share of an input's noisy copies that get its true class",
        "y": "inputs with p_A at least this (%)",
        "step": "vh",
        "lines": lines,
        "note": " ".join([NOTE_ON_SHARES, *_on_shares(runs, {line["name"] for line in lines})]),
    }


def _on_shares(runs: Mapping[str, Run], drawn: set[str]) -> Iterator[str]:
    """What p_A decides in these runs, and which of them are not drawn, and why."""
    others = [name for name in runs if name in drawn and not one_sided(runs[name].plan.rule)]
    if not others:
        yield ONE_SIDED
    elif len(others) < len(drawn):
        yield f"{ONE_SIDED[:-1]}, but for {', '.join(others)}, which need to lead the runner-up alone."
    unknown = [name for name, run in runs.items() if not run.labelled]
    if unknown:
        yield f"Left out, as their data has no labels: {', '.join(unknown)}."
    stopped = [name for name, run in runs.items() if name not in drawn and is_adaptive(run)]
    if stopped:
        yield f"Left out, as sampled adaptively: {', '.join(stopped)}; {NO_SHARES}."


def _vote_shares(name: str, run: Run) -> Data | None:
    """None where votes say nothing: of a deterministic classifier, an impossible log, adaptive sampling."""
    try:
        steps = ecdf(run)
    except RequestError:
        return None
    return _line(name, steps["p"], steps["share"], len(run.records), (steps["low"], steps["high"]))


def _routing(found: RoutingAnalysis) -> Iterator[Data]:
    lost = {name: d.frame["dRc"] for name, d in found.diagnoses.items()}
    near = {name: frame["dRs"].dropna() for name, frame in found.routings.items()}
    yield _distribution("lost", "Lost to the choice of expert", "dRc = R_best - R_c", lost)
    yield _distribution("near", "Distance of the next route", "dRs = R_sigma - R_c", near)


def _distribution(key: str, title: str, x: str, values: "Mapping[str, pd.Series[float]]") -> Data:
    known: dict[str, Floats] = {name: np.asarray(of, dtype=np.float64) for name, of in values.items() if len(of)}
    ends = np.concatenate([[0.0], *known.values()])
    lines = [_ecdf(name, of, float(ends.min()), float(ends.max())) for name, of in known.items()]
    return {"key": key, "title": title, "x": x, "y": "inputs at or below (%)", "step": "hv", "lines": lines}


def _ecdf(name: str, values: Floats, left: float, right: float) -> Data:
    (x, k), n = at_or_below(values, left, right), len(values)
    return _line(name, x, k / n, n, interval(k, n))


def _line(
    name: str,
    x: ArrayLike,
    share: ArrayLike,
    inputs: int,
    band: tuple[ArrayLike, ArrayLike] | None = None,
    *,
    given: bool = False,
) -> Data:
    """A line of shares of so many inputs; the band around it is widened to whole hundredths of a percent.

    A step left out takes the value of the next one, which is smaller. given: whether the places are another tool's.
    """
    k = np.rint(inputs * _kept(share)).astype(np.int64)
    line = {"name": name, "x": floats(_kept(x), given=given), "y": hundredths(k, inputs)}
    if band is None:
        return line
    low, high = np.floor(1e4 * _kept(band[0])), np.ceil(1e4 * _kept(band[1]))
    return {**line, "low": low.astype(int).tolist(), "high": high.astype(int).tolist()}


def _kept(values: ArrayLike) -> Floats:
    """The points of a line that are drawn."""
    points = np.asarray(values, dtype=np.float64)
    return points[thinned(len(points), MOST_STEPS)]
