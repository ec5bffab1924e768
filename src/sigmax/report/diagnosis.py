"""What a dual run loses, and to what: the wrong expert, or a route that may change too near.

# J top route; R_sigma distance at which another route could win; R_j radius of expert j for the true class, else 0
# R_c = R_J, R_best = max_j R_j; dRc = R_best - R_c (lost to the choice of expert); dRs = R_sigma - R_c

Source: Sun et al. (2026), Sec. 6.2; their R_c* is R_best here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sigmax.errors import RequestError
from sigmax.records.run import Run
from sigmax.report.accuracy import Floats, acr, certified_counts, checked_radii
from sigmax.report.references import Reference, envelope_of, oracle_of
from sigmax.report.routes import dual_rule, routing
from sigmax.report.runs import Source, load
from sigmax.report.schemes import in_words
from sigmax.report.shared import on_shared_inputs, true_radii

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """A dual run beside the runs of its experts, all cut to the inputs that every one of them holds.

    `frame` has one row an input: what `routing` tells, then `R_best` and `dRc`.
    """

    run: Run
    experts: tuple[Run, ...]  # in the order of the routes
    frame: "pd.DataFrame"
    oracle: Reference  # of the experts' runs alone, at the chance of error the dual run leaves each
    envelope: Reference  # of the experts' runs as they are recorded

    @property
    def bottleneck_share(self) -> float:
        """The share of inputs whose radius the router limits."""
        return float(self.frame["bottleneck"].mean())

    @property
    def best_share(self) -> float:
        """The share of inputs sent to an expert that no other one beats: dRc = 0."""
        return float((self.frame["dRc"] == 0).mean())

    @property
    def mean_dRc(self) -> float:  # noqa: N802 (the paper's symbol)
        """The radius lost to the choice of expert, on average over all inputs."""
        return float(self.frame["dRc"].mean())

    @property
    def route_shares(self) -> "pd.Series[float]":
        """The share of inputs whose top route is J, for every J."""
        return route_shares(self.frame, routes=len(self.experts))

    @property
    def acr(self) -> float:
        """The dual run's average certified radius, over the shared inputs."""
        return acr(self.run)

    @property
    def acr_oracle(self) -> float:
        """The average radius of the best expert each input."""
        return self.oracle.acr

    @property
    def acr_envelope(self) -> float:
        """The area under the curve of the best expert each radius."""
        return self.envelope.acr

    def over_envelope(self, radii: float | Sequence[float] | Floats, *, strict: bool = False) -> "pd.Series[float]":
        """The dual run's certified accuracy over the best expert's at each radius; NaN where that is 0."""
        import pandas as pd

        asked = checked_radii(radii)
        dual, best = certified_counts(self.run, asked, strict=strict), self.envelope.counts(asked, strict=strict)
        ratio = np.divide(dual, best, out=np.full(len(asked), np.nan), where=best > 0)
        return pd.Series(ratio, index=pd.Index(asked, name="radius"), name="dual / envelope")


def diagnose(dual_run: Source, expert_runs: Iterable[Source]) -> Diagnosis:
    """Where a dual run falls short of its experts, input by input.

    Needs a run of each expert by itself, on the same data (others among `expert_runs` are passed over).

    A run certifies its expert at the whole of its alpha, the dual run at a part of it: the runs' radii are taken
    anew from their counts at that part, so that expert and dual are held to the same proof.
    Each expert has one radius an input: the top route's is the dual run's own R_c, the others' are those of their
    runs. The larger of two draws of one expert would make a right choice look wrong half of the time. Where the
    dual run asked no expert (rule "min", router undecided), R_c is that of the expert's run.
    """
    run, runs = load(dual_run), [load(source) for source in expert_runs]
    _, alphas = dual_rule(run.plan).grants(run.plan.alpha)
    run, *experts = on_shared_inputs([run, *_all_experts(run, runs)])
    radii = np.array([true_radii(of, alpha=alpha) for of, alpha in zip(experts, alphas, strict=True)])
    return Diagnosis(
        run, tuple(experts), _frame(routing(run), radii), oracle_of(radii.max(axis=0)), envelope_of(experts)
    )


def _frame(frame: "pd.DataFrame", radii: Floats) -> "pd.DataFrame":
    """The routing of every input with what the experts' radii (route, input) add to it."""
    route, inputs = frame["route"].to_numpy(), np.arange(len(frame))
    own = frame["R_c"].to_numpy(dtype=np.float64)
    own = np.where(np.isnan(own), radii[route, inputs], own)
    one_each = radii.copy()
    one_each[route, inputs] = own
    best = one_each.max(axis=0)
    return frame.assign(
        R_c=own,
        dRs=frame["R_sigma"] - own,
        bottleneck=frame["radius"] < own,
        R_best=best,
        dRc=best - own,
    )


def route_shares(frame: "pd.DataFrame", *, routes: int) -> "pd.Series[float]":
    """The share of inputs of each top route, in a frame that `routing` made."""
    return frame["route"].value_counts(normalize=True).reindex(range(routes), fill_value=0.0).rename("share")


def find_experts(run: Run, runs: Iterable[Run]) -> list[Run | None]:
    """For each expert of a dual run the run that certifies it alone, or None.

    Of several the one of the same data, draws and alpha is taken, else the first.
    """
    given = list(runs)
    return [_nearest(run, [other for other in given if other.plan.system == f]) for f in _fingerprints(run)]


def _fingerprints(run: Run) -> list[object]:
    """What identifies each expert of a dual run with its networks; a plan that does not say matches no run."""
    routes, told = len(dual_rule(run.plan).experts), run.plan.made_with.get("experts")
    return list(told) if isinstance(told, list | tuple) and len(told) == routes else ["not stated"] * routes


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
