"""Runs side by side: one row each."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from sigmax.records.run import Run
from sigmax.report.accuracy import Floats, certified_counts, checked_radii, usual_radii
from sigmax.report.average import average_radius, easiest_share
from sigmax.report.questions import furthest_asked, is_adaptive, mean_draws
from sigmax.report.runs import Source, named
from sigmax.report.study import Line, Study, study

if TYPE_CHECKING:
    import pandas as pd

SIGMAS_SHOWN = 4
EASIEST = "ACR top 10%"
MEAN_DRAWS = "mean draws"


def compare(
    runs: Source | Iterable[Source], radii: Sequence[float] | Floats | None = None, *, strict: bool = False
) -> "pd.DataFrame":
    """One row a run: name, sigma, n, alpha, inputs, certified accuracy in % at each radius, ACR, abstained in %.

    ACR comes with the share of it, in %, that the easiest tenth of the inputs makes: see `average_radius`.

    The columns of accuracy are named by their radius, with every digit it has ("0.25"); see `certified_accuracy`
    for `strict`. `sigma` is text, since a run may have used several. Without `radii` the papers' grid is taken as
    far as the runs reach.

    A dual run among the runs of all its experts adds two rows that are no certificates: "oracle (best expert each
    input)" and "envelope (best expert each radius)"; see `diagnose`. They are of the inputs that these runs share.

    Where a run was sampled adaptively its `n` is the most draws of a stage, and a column `mean draws` has what an
    input took. Beyond the largest radius a run was asked about (its targets) its accuracy is NaN.
    """
    by_name = named(runs)
    return table(by_name, study(by_name), grid(by_name.values(), radii), strict=strict)


def grid(runs: Iterable[Run], radii: Sequence[float] | Floats | None) -> Floats:
    """The radii asked for, or the usual ones."""
    return usual_radii(list(runs)) if radii is None else checked_radii(radii)


def table(runs: Mapping[str, Run], found: Study, radii: Floats, *, strict: bool) -> "pd.DataFrame":
    """The rows of the runs, then those of what was found to hold them against."""
    import pandas as pd

    rows = [{"name": name, **_row(run, radii, strict)} for name, run in runs.items()]
    frame = pd.DataFrame(rows + [_reference(line, radii, strict) for line in found.lines])
    draws = [mean_draws(run) if is_adaptive(run) else math.nan for run in runs.values()]
    if not all(map(math.isnan, draws)):
        place = list(frame.columns).index("n") + 1
        frame.insert(place, MEAN_DRAWS, draws + [math.nan] * len(found.lines))
    return frame


def _row(run: Run, radii: Floats, strict: bool) -> dict[str, object]:
    inputs, average = len(run.records), average_radius(run)
    # 100 * k / n rather than 100 * (k / n): a share of exactly 37.25% must not become 37.25000000000001
    certified = 100 * certified_counts(run, radii, strict=strict) / inputs
    return {
        "sigma": sigmas(run),
        "n": run.plan.n,
        "alpha": run.plan.alpha,
        "inputs": inputs,
        **_shares(radii, certified, furthest_asked(run)),
        "ACR": average.value,
        EASIEST: 100 * average.easiest_tenth,
        "abstained": 100 * sum(record.certificate.predicted is None for record in run.records) / inputs,
    }


def _reference(line: Line, radii: Floats, strict: bool) -> dict[str, object]:
    """A row of the same kind; nothing abstains where nothing is predicted, and an envelope has no single inputs."""
    curve = line.curve
    certified = 100 * curve.counts(radii, strict=strict) / curve.inputs
    return {
        "name": line.name,
        "sigma": ", ".join(dict.fromkeys(sigmas(run) for run in line.experts)),
        "n": max(run.plan.n for run in line.experts),
        "alpha": line.alpha,
        "inputs": curve.inputs,
        **_shares(radii, certified, furthest_asked(*line.experts)),
        "ACR": curve.acr,
        EASIEST: 100 * easiest_share(*curve.choices, curve.inputs) if len(curve.choices) == 1 else math.nan,
        "abstained": math.nan,
    }


def _shares(radii: Floats, certified: Floats, end: float) -> dict[str, float]:
    """One column a radius; NaN beyond what was asked."""
    return {exact(r): share if r <= end else math.nan for r, share in zip(radii, certified, strict=True)}


def exact(radius: float) -> str:
    """The shortest text that reads back as this very number: two radii never share a column."""
    return repr(float(radius) + 0.0).removesuffix(".0")  # + 0.0, since -0.0 is the radius 0


def sigmas(run: Run) -> str:
    """The noise levels that decided the run's radii: all of them if few, else from which to which.

    "none" is a classifier without noise; inputs on which no expert was asked do not count.
    """
    used = sorted(set(run.frame()["sigma"].dropna()))
    if not used:
        return "-"
    if len(used) > SIGMAS_SHOWN:
        return f"{used[0]:g} to {used[-1]:g}"
    return ", ".join(f"{sigma:g}" if sigma else "none" for sigma in used)
