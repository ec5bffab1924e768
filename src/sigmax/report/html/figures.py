"""The interactive figures as data: which lines, through which points. The browser only draws them.

A line is a step function. "vh": its value holds from the point before up to this one (certified accuracy, R >= r);
"hv": from this point up to the next (inputs at or below a value). Of very many steps some are left out, always so
that the line that remains is nowhere above the whole one.
"""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sigmax.errors import RequestError
from sigmax.records.run import Run
from sigmax.report.accuracy import Floats, certified_counts, certified_radii, interval
from sigmax.report.distribution import ecdf
from sigmax.report.html.packing import floats, hundredths, thinned
from sigmax.report.questions import NO_SHARES, furthest_asked, is_adaptive, targets, up_to
from sigmax.report.routing_plot import ecdf as at_or_below
from sigmax.report.schemes import one_sided
from sigmax.report.study import Line, Study

if TYPE_CHECKING:
    import pandas as pd

MOST_STEPS = 2_000  # of one line: 10,000 inputs are then drawn to a twentieth of a percent
LEVEL = 0.95
NOTE_ON_SHARES = (
    "p_A depends on no alpha and hardly on n, so it compares classifiers of one sigma fairly where certified radii "
    "need not. A log without counts tells nothing below one half; a dual run's votes are those of the expert its "
    "router put first, and an input on which none was asked counts as one with no votes for its true class."
)
ONE_SIDED = "An input is certified only where p_A is above one half."

Data = dict[str, Any]


def figures(runs: Mapping[str, Run], found: Study) -> list[Data]:
    """All figures that these runs have something to say in, in the order shown."""
    return [figure for figure in (_accuracy(runs, found), _shares(runs), *_routing(found)) if figure["lines"]]


def _accuracy(runs: Mapping[str, Run], found: Study) -> Data:
    return {
        "key": "accuracy",
        "title": "Certified accuracy",
        "x": "l2 radius (pixels in [0, 1])",
        "y": "certified accuracy (%)",
        "step": "vh",
        "lines": [*(_curve(name, run) for name, run in runs.items()), *map(_reference, found.lines)],
        "note": " ".join(_on_accuracy(runs)),
    }


def _on_accuracy(runs: Mapping[str, Run]) -> Iterator[str]:
    yield (
        f"Line: share of inputs certified for their true class with R >= r; band: its {100 * LEVEL:g}% "
        "Clopper-Pearson interval over inputs, at each value by itself."
    )
    asked = [name for name, run in runs.items() if targets(run)]
    if asked:
        yield f"The line of {', '.join(asked)} ends at the largest radius that was asked about."


def _curve(name: str, run: Run) -> Data:
    """A left-out step takes the value of the next one to the right, which is smaller."""
    end = furthest_asked(run)
    radii = up_to(np.unique(np.append(0.0, certified_radii(run))), end)
    radii = radii[thinned(len(radii), MOST_STEPS)]
    k, n = certified_counts(run, radii), len(run.records)
    return {"name": name, "x": floats(radii), "y": hundredths(k, n), **_band(k, n), "cut": end < math.inf}


def _reference(line: Line) -> Data:
    end = furthest_asked(*line.experts)
    radii = up_to(line.curve.steps()[0], end)
    radii = radii[thinned(len(radii), MOST_STEPS)]
    told = {"x": floats(radii), "y": hundredths(line.curve.counts(radii), line.curve.inputs)}
    return {"name": line.name, **told, "reference": True, "cut": end < math.inf}


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
    stopped = [name for name, run in runs.items() if name not in drawn and is_adaptive(run)]
    if stopped:
        yield f"Left out, as sampled adaptively: {', '.join(stopped)}; {NO_SHARES}."


def _vote_shares(name: str, run: Run) -> Data | None:
    """None where votes tell nothing: of a deterministic classifier, an impossible log, adaptive sampling."""
    try:
        steps = ecdf(run, level=LEVEL)
    except RequestError:
        return None
    steps = steps.iloc[thinned(len(steps), MOST_STEPS)]
    n = len(run.records)
    return {
        "name": name,
        "x": floats(steps["p"].tolist()),
        "y": hundredths((n * steps["share"]).round().to_numpy(dtype=np.int64), n),
        **_widened(steps["low"].to_numpy(), steps["high"].to_numpy()),
    }


def _routing(found: Study) -> Iterator[Data]:
    lost = {name: d.frame["dRc"] for name, d in found.diagnoses.items()}
    near = {name: frame["dRs"].dropna() for name, frame in found.routings.items()}
    yield _distribution("lost", "Lost to the choice of expert", "dRc = R_best - R_c", lost)
    yield _distribution("near", "Distance of the next route", "dRs = R_sigma - R_c", near)


def _distribution(key: str, title: str, x: str, values: "Mapping[str, pd.Series[float]]") -> Data:
    told: dict[str, Floats] = {name: np.asarray(of, dtype=np.float64) for name, of in values.items() if len(of)}
    ends = np.concatenate([[0.0], *told.values()])
    lines = [_ecdf(name, of, float(ends.min()), float(ends.max())) for name, of in told.items()]
    return {"key": key, "title": title, "x": x, "y": "inputs at or below (%)", "step": "hv", "lines": lines}


def _ecdf(name: str, values: Floats, left: float, right: float) -> Data:
    x, k = at_or_below(values, left, right)
    kept = thinned(len(x), MOST_STEPS)
    return {
        "name": name,
        "x": floats(x[kept]),
        "y": hundredths(k[kept], len(values)),
        **_band(k[kept], len(values)),
    }


def _band(k: NDArray[np.int64], n: int) -> Data:
    """The Clopper-Pearson interval over inputs."""
    return _widened(*interval(k, n, level=LEVEL))


def _widened(low: Floats, high: Floats) -> Data:
    """To whole hundredths of a percent, outward."""
    return {"low": [int(v) for v in np.floor(1e4 * low)], "high": [int(v) for v in np.ceil(1e4 * high)]}
