"""What a dual run loses, and to what: the wrong expert, or a route that may change too near.

# J top route; R_sigma distance at which another route could win; R_j radius of expert j for the true class, else 0
# R_c = R_J, R_best = max_j R_j; dRc = R_best - R_c (lost to the choice of expert); dRs = R_sigma - R_c

Source: Sun et al. (2026), Sec. 6.2; their R_c* is R_best here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from sigmax.errors import RequestError
from sigmax.records.run import Run
from sigmax.report.compare.best import Reference, envelope_of, oracle_of
from sigmax.report.metrics.accuracy import Floats, certified_counts, checked_radii
from sigmax.report.metrics.adaptive import furthest_asked, up_to
from sigmax.report.metrics.radii import true_radii
from sigmax.report.metrics.routes import dual_rule, is_dual, routing
from sigmax.report.runs import Source, load, on_shared_inputs, why_not
from sigmax.report.schemes import in_words

ORACLE = "oracle (best expert each input)"
ENVELOPE = "envelope (best expert each radius)"


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """A dual run beside the runs of its experts, all cut to the inputs that every one of them holds.

    `frame` has one row an input: the columns of `routing`, then `R_best` and `dRc`.
    """

    run: Run
    experts: tuple[Run, ...]  # in the order of the routes
    frame: pd.DataFrame
    oracle: Reference  # of the experts' runs alone, at the chance of error the dual run leaves each
    envelope: Reference  # of the experts' runs as they are recorded

    def over_envelope(self, radii: float | Sequence[float] | Floats) -> "pd.Series[float]":
        """The dual run's certified accuracy over the best expert's at each radius; NaN where that is 0."""
        asked = checked_radii(radii)
        dual, best = certified_counts(self.run, asked), self.envelope.counts(asked)
        ratio = np.divide(dual, best, out=np.full(len(asked), np.nan), where=best > 0)
        return pd.Series(ratio, index=pd.Index(asked, name="radius"), name="dual / envelope")


def diagnose(dual_run: Source, expert_runs: Iterable[Source]) -> Diagnosis:
    """Where a dual run falls short of its experts, input by input.

    Needs a run of each expert by itself, on the same data (others among `expert_runs` are passed over). Their radii are
    taken again from their counts at the part of alpha that the dual run gives them. The top route's radius is the dual
    run's own R_c: the larger of two estimates of one expert would make a right choice look wrong half of the time.
    """
    run, runs = load(dual_run), [load(source) for source in expert_runs]
    alphas = dual_rule(run.plan).alpha_split(run.plan.alpha).experts
    run, *experts = on_shared_inputs([run, *_all_experts(run, runs)])
    radii = np.array([true_radii(of, alpha=alpha) for of, alpha in zip(experts, alphas, strict=True)])
    return Diagnosis(
        run, tuple(experts), _frame(routing(run), radii), oracle_of(radii.max(axis=0)), envelope_of(experts)
    )


def _frame(frame: pd.DataFrame, radii: Floats) -> pd.DataFrame:
    """The routing of every input with what the experts' radii (route, input) add to it."""
    route, inputs = frame["route"].to_numpy(), np.arange(len(frame))
    one_each = radii.copy()
    one_each[route, inputs] = frame["R_c"]
    best = one_each.max(axis=0)
    return frame.assign(R_best=best, dRc=best - frame["R_c"])


def route_shares(frame: pd.DataFrame, *, routes: int) -> "pd.Series[float]":
    """The share of inputs of each top route, in a frame of `routing`."""
    return frame["route"].value_counts(normalize=True).reindex(range(routes), fill_value=0.0).rename("share")


def find_experts(run: Run, runs: Iterable[Run]) -> list[Run | None]:
    """For each expert of a dual run the run that certifies it alone, or None.

    Of several the one of the same data, samples and alpha is taken, else the first.
    """
    given = list(runs)
    return [_nearest(run, [other for other in given if other.plan.system == f]) for f in _fingerprints(run)]


def _fingerprints(run: Run) -> list[object]:
    """What identifies each expert of a dual run with its networks; a plan that does not say matches no run."""
    routes, stated = len(dual_rule(run.plan).experts), run.plan.made_with.get("experts")
    return list(stated) if isinstance(stated, list | tuple) and len(stated) == routes else ["not stated"] * routes


def _nearest(run: Run, candidates: Sequence[Run]) -> Run | None:
    def unlike(other: Run) -> tuple[bool, ...]:
        here, there = run.plan, other.plan
        return (
            here.data.get("fingerprint") != there.data.get("fingerprint"),
            (here.n0, here.n) != (there.n0, there.n),
            here.alpha != there.alpha,
        )

    return min(candidates, key=unlike, default=None)


def _all_experts(run: Run, runs: Sequence[Run]) -> list[Run]:
    found = find_experts(run, runs)
    missing = [
        f"expert {route} ({in_words(rule)}; fingerprint {fingerprint})"
        for route, (of, rule, fingerprint) in enumerate(
            zip(found, run.plan.rule["experts"], _fingerprints(run), strict=True)
        )
        if of is None
    ]
    if missing:
        raise RequestError(
            f"expected a run of each expert of {run.path.name} by itself; none was given of {', '.join(missing)}. "
            "Certify it on the same data, and give its run file too"
        )
    return [of for of in found if of is not None]


@dataclass(frozen=True, eq=False)
class ReferenceLine:
    """A reference as a report shows it: a row of the table and a dashed line of the plot."""

    name: str
    curve: Reference
    experts: tuple[Run, ...]  # the runs it was computed from
    alpha: float  # the chance of error of the whole that its radii are part of

    @property
    def end(self) -> float:
        """The largest radius that all experts were asked about; infinite where they were asked for theirs."""
        return furthest_asked(*self.experts)

    def steps(self) -> tuple[Floats, Floats]:
        """The radii at which the curve falls, up to `end`, and the accuracy up to each of them."""
        radii = up_to(self.curve.steps()[0], self.end)
        return radii, self.curve.accuracy(radii)


@dataclass(frozen=True, eq=False)
class RoutingAnalysis:
    """The dual runs of a report by name; empty where there is none."""

    routings: Mapping[str, pd.DataFrame]
    diagnoses: Mapping[str, Diagnosis]  # of those whose experts are there
    notes: Mapping[str, str] = field(default_factory=dict)  # why one that stands beside other runs has no diagnosis

    @property
    def lines(self) -> list[ReferenceLine]:
        """The oracle and the envelope of every dual run; those that several share stand once, and are named so."""
        oracles, envelopes = [], []
        for name, d in self.diagnoses.items():
            oracles.append(ReferenceLine(name, d.oracle, d.experts, d.run.plan.alpha))
            whole = max(run.plan.alpha for run in d.experts)
            envelopes.append(ReferenceLine(name, d.envelope, d.experts, whole))
        return [*_titled(ORACLE, oracles), *_titled(ENVELOPE, envelopes)]


def routing_analysis(runs: Mapping[str, Run]) -> RoutingAnalysis:
    """Everything the runs say about routing."""
    duals = {name: run for name, run in runs.items() if is_dual(run)}
    diagnoses, notes = dict[str, Diagnosis](), dict[str, str]()
    for name, run in duals.items():
        if not run.labelled:
            notes[name] = "no oracle and envelope: they go by the true class, and the run has no labels"
            continue
        experts = [expert for expert in find_experts(run, runs.values()) if expert is not None]
        needed = len(run.plan.rule["experts"])
        if len(experts) < needed:
            if not all(is_dual(other) for other in runs.values()):
                notes[name] = _without_experts(len(experts), needed)
            continue
        reason = why_not([run, *experts])
        if reason is None:
            diagnoses[name] = diagnose(run, experts)
        else:
            notes[name] = f"not compared with its experts: {reason}"
    frames = {name: diagnoses[name].frame if name in diagnoses else routing(run) for name, run in duals.items()}
    return RoutingAnalysis(frames, diagnoses, notes)


def _without_experts(found: int, needed: int) -> str:
    return (
        f"no oracle and envelope: there are runs of {found or 'none'} of its {needed} experts. Other runs are not "
        "of them, by the systems' fingerprints; certify the experts it was built from, on the same inputs"
    )


def _titled(title: str, lines: list[ReferenceLine]) -> Iterator[ReferenceLine]:
    """The lines that differ, named by the title alone if there is one of them."""
    different: list[ReferenceLine] = []
    for line in lines:
        if not any(line.curve.same_as(known.curve) for known in different):
            different.append(line)
    for line in different:
        yield replace(line, name=title if len(different) == 1 else f"{title}, {line.name}")
