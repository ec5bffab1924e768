"""Runs side by side, one row each: numbers of any runs, or schemes with their costs and assumptions."""

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from sigmax.records.lines import Record
from sigmax.records.plan import Plan
from sigmax.records.rounding import exact
from sigmax.records.run import Run, each_record, sigma_of
from sigmax.report.compare.diagnosis import ReferenceLine, RoutingAnalysis, routing_analysis
from sigmax.report.metrics.accuracy import Floats, easiest_share, grid, grid_of, mean_of, reached
from sigmax.report.metrics.adaptive import furthest_asked, is_adaptive
from sigmax.report.runs import Source, named, refuse_other_norms, stem
from sigmax.report.schemes import assumed_by, other_noises

SIGMAS_SHOWN = 4
ACR, MEAN_RADIUS = "ACR", "mean radius"  # of the radii for true classes; for any class, where these are not known
EASIEST = "ACR top 10%"
MEAN_SAMPLES = "mean samples"
ASSUMES = "assumes"
SAMPLES, SECONDS = "samples", "seconds"  # an input, on average


def compare(runs: Source | Iterable[Source], radii: Sequence[float] | Floats | None = None) -> pd.DataFrame:
    """One row a run: name, sigma, n, alpha, inputs, certified accuracy in % at each radius, ACR, abstained in %.

    Columns of accuracy are named by their radius, with every digit it has ("0.25"); without `radii` the papers' grid is
    taken as far as the runs reach. Beyond the largest radius a run was asked about (its targets) they are NaN.
    `sigma` is text, since a run may have used several. ACR comes with its share, in %, of the easiest tenth of the
    inputs: see `average_radius`.

    A dual run among the runs of all its experts adds two rows that are no certificates, oracle and envelope, of the
    inputs that these runs share: see `diagnose`. Where a run was sampled adaptively its `n` is the most samples of a
    stage, and a column `mean samples` has what an input took. Of runs without labels the columns of radii are the share
    certified for any class, and `mean radius` stands in place of ACR.
    """
    by_name = named(runs)
    return table(by_name, routing_analysis(by_name), grid(by_name.values(), radii))


@dataclass(frozen=True)
class Figures:
    """Sums over a run. `radii`: those that count, rising; `sigmas`: the noise levels that answered."""

    plan: Plan
    inputs: int
    abstained: int
    samples: int
    seconds: float
    radii: Floats
    sigmas: frozenset[float]

    @property
    def certified(self) -> int:
        """Inputs certified for any class."""
        return self.inputs - self.abstained


def figures_of(plan: Plan, records: Iterable[Record]) -> Figures:
    """One pass over the records."""
    inputs = abstained = samples = 0
    seconds = 0.0
    radii, sigmas = array("d"), set[float]()
    for record in records:
        certificate = record.certificate
        inputs += 1
        abstained += certificate.predicted is None
        samples += certificate.samples
        seconds += record.seconds
        if record.counts:
            radii.append(certificate.radius)
        sigma = sigma_of(plan, certificate)
        if not math.isnan(sigma):
            sigmas.add(sigma)
    return Figures(plan, inputs, abstained, samples, seconds, np.sort(np.array(radii)), frozenset(sigmas))


def table(runs: Mapping[str, Run], found: RoutingAnalysis, radii: Floats) -> pd.DataFrame:
    """The rows of the runs, then those of oracle and envelope."""
    figures = {name: figures_of(run.plan, run.records) for name, run in runs.items()}
    return _table(figures, [_reference(line, radii) for line in found.lines], radii)


def figures_in(path: str | Path, plan: Plan) -> Figures:
    """The sums of one finished run file that was asked for the inputs of this plan; few bytes an input are kept."""
    members = plan.indices if isinstance(plan.indices, range) else frozenset(plan.indices)
    return figures_of(plan, (record for record in each_record(Path(path)) if record.index in members))


def summary(path: str | Path, figures: Figures) -> pd.DataFrame:
    """`compare` of one run file with these sums."""
    return _table({stem(Path(path)): figures}, [], grid_of([(figures, figures.radii)], None))


def _table(figures: Mapping[str, Figures], references: list[dict[str, object]], radii: Floats) -> pd.DataFrame:
    rows = [{"name": name, **_row(of, radii)} for name, of in figures.items()]
    frame = pd.DataFrame(rows + references)
    samples = [of.samples / of.inputs if is_adaptive(of) else math.nan for of in figures.values()]
    if not all(map(math.isnan, samples)):
        place = list(frame.columns).index("n") + 1
        frame.insert(place, MEAN_SAMPLES, samples + [math.nan] * len(references))
    return frame


def _row(of: Figures, radii: Floats) -> dict[str, object]:
    return {
        "sigma": _listed(of.sigmas, of.plan),
        "n": of.plan.n,
        "alpha": of.plan.alpha,
        "inputs": of.inputs,
        **_accuracies(of, radii),
        **_means(of),
        "abstained": 100 * of.abstained / of.inputs,
    }


def _means(of: Figures) -> dict[str, float]:
    mean = mean_of(of.radii, of.inputs)
    if not of.plan.labelled:
        return {MEAN_RADIUS: mean}
    return {ACR: mean, EASIEST: 100 * easiest_share(of.radii, of.inputs)}


def is_accuracy(frame: pd.DataFrame) -> bool:
    """Whether the columns of radii in a table of runs are accuracies: without labels they are shares."""
    return MEAN_RADIUS not in frame.columns


def _accuracies(of: Figures, radii: Floats) -> dict[str, float]:
    """Certified accuracy (without labels: share) in %, a column a radius; NaN beyond the largest radius asked about."""
    # 100 * k / n rather than 100 * (k / n): a share of exactly 37.25% must not become 37.25000000000001
    return _columns(radii, 100 * reached(of.radii, radii) / of.inputs, furthest_asked(of))


def _reference(line: ReferenceLine, radii: Floats) -> dict[str, object]:
    """A row of the same kind; nothing abstains where nothing is predicted, and an envelope has no single inputs."""
    curve = line.curve
    certified = 100 * curve.counts(radii) / curve.inputs
    return {
        "name": line.name,
        "sigma": ", ".join(dict.fromkeys(sigmas(run) for run in line.experts)),
        "n": max(run.plan.n for run in line.experts),
        "alpha": line.alpha,
        "inputs": curve.inputs,
        **_columns(radii, certified, line.end),
        ACR: curve.acr,
        EASIEST: 100 * easiest_share(*curve.choices, curve.inputs) if len(curve.choices) == 1 else math.nan,
        "abstained": math.nan,
    }


def _columns(radii: Floats, certified: Floats, end: float) -> dict[str, float]:
    """One column a radius; NaN beyond what was asked."""
    return {exact(r): share if r <= end else math.nan for r, share in zip(radii, certified, strict=True)}


def sigmas(run: Run) -> str:
    """The noise levels that decided the run's radii: all of them if few, else from which to which.

    "none" is a classifier without noise; inputs on which no expert was asked do not count.
    """
    return _listed(figures_of(run.plan, run.records).sigmas, run.plan)


def _listed(levels: Iterable[float], plan: Plan) -> str:
    """The levels; those of other noise than Gaussian after its name."""
    used, others = sorted(levels), other_noises(plan.rule)
    name = f"{', '.join(others)} " if others else ""
    if not used:
        return "-"
    if len(used) > SIGMAS_SHOWN:
        return f"{name}{used[0]:g} to {used[-1]:g}"
    return name + ", ".join(f"{sigma:g}" if sigma else "none" for sigma in used)


def scheme_table(
    runs: Source | Iterable[Source] | Mapping[str, Run], radii: Sequence[float] | Floats | None = None
) -> pd.DataFrame:
    """One row a run: what its certificates assume beyond the samples, accuracies as in `compare`, ACR, and costs."""
    by_name = dict(runs) if isinstance(runs, Mapping) else named(runs)
    refuse_other_norms(list(by_name.values()))
    asked = grid(by_name.values(), radii)
    figures = {name: figures_of(run.plan, run.records) for name, run in by_name.items()}
    return pd.DataFrame([{"scheme": name, **_scheme_row(of, asked)} for name, of in figures.items()])


def _scheme_row(of: Figures, radii: Floats) -> dict[str, object]:
    return {
        ASSUMES: "; ".join(assumed_by(of.plan.rule)) or "nothing more",
        **_accuracies(of, radii),
        **{name: mean for name, mean in _means(of).items() if name != EASIEST},
        SAMPLES: round(of.samples / of.inputs),
        SECONDS: of.seconds / of.inputs,
    }
