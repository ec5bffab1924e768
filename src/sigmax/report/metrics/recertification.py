"""What a run would have certified with fewer samples or another alpha, from its own votes: no model is run.

# N samples recorded, k of them for the class picked; n samples asked for; R(K) the radius K of n votes prove at alpha
# K ~ Hypergeometric(N, k, n): how many of n samples, taken at random from the N, are for it

N independent samples come in no order, so n of them taken at random are as good as n new ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammaln

from sigmax import bounds
from sigmax.errors import RequestError
from sigmax.numbers import is_whole
from sigmax.planning import NOISES, least_votes, radius_of
from sigmax.records.lines import Record
from sigmax.records.run import Run
from sigmax.report.metrics.accuracy import Floats, checked_radii
from sigmax.report.metrics.adaptive import is_adaptive
from sigmax.report.metrics.distribution import UNKNOWN, true_class_votes, vote_shares
from sigmax.report.metrics.radii import true_radii
from sigmax.report.runs import Source, labelled, load, sigma_by_record
from sigmax.rules.certificate import Role, Stage, rounded_down
from sigmax.rules.checks import check_samples
from sigmax.rules.procedure import Rule
from sigmax.rules.registry import entry, rebuild
from sigmax.rules.smoothed import SmoothedRule

_CELLS = 2**22  # probabilities computed at once


@dataclass(frozen=True, eq=False)
class Recertified:
    """What a run's inputs would be certified for with `n` samples at `alpha`: an expectation, not a certificate.

    `weight[i]` inputs (a part of one counts as its chance) are expected to be certified for their true class with
    exactly `radii[i]`, rising. `unknown` inputs have no votes on record and count as not certified.
    """

    n: int
    alpha: float
    inputs: int
    radii: Floats
    weight: Floats
    unknown: int = 0

    def accuracy(self, radii: float | Sequence[float] | Floats) -> "pd.Series[float]":
        """The expected share of inputs with R >= r, for each r; see `certified_accuracy`."""
        asked = checked_radii(radii)
        place = np.searchsorted(self.radii, asked)
        reached = np.cumsum(self.weight[::-1])[::-1]  # from the top, where the terms are small
        share = np.append(reached, 0.0)[place] / self.inputs
        return pd.Series(share, index=pd.Index(asked, name="radius"), name="expected certified accuracy")

    def _repr_html_(self) -> str:
        from sigmax.records.notebook import spread
        from sigmax.records.rounding import share_down
        from sigmax.rules.notebook import page, paragraph, table

        radii = spread(self.radii.tolist())
        shares = [f"{share_down(100 * share)}%" for share in self.accuracy(radii)]
        said = f"Expected with n {self.n:,} at alpha {self.alpha:g}, from the votes of {self.inputs:,} inputs"
        rows = [("expected certified accuracy", *shares)]
        shown = [table(("radius", *(rounded_down(r) for r in radii)), rows)] if radii else []
        return page(paragraph(f"{said}: not a certificate.", strong=True), *shown)

    @property
    def acr(self) -> float:
        """The expected average certified radius; see `average_radius` for why not to rank by it."""
        return float(np.sum(self.radii * self.weight)) / self.inputs


def collected(radii: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Each positive radius once, rising, with all the weight it has."""
    some = (radii > 0) & (weight > 0)
    once, places = np.unique(radii[some], return_inverse=True)
    return once, np.bincount(places, weights=weight[some], minlength=len(once)).astype(np.float64)


def recertify(run: Source, n: int | None = None, alpha: float | None = None) -> Recertified:
    """The expected outcome of certifying the run's inputs with `n` of its samples at `alpha`; exact, from the counts.

    For constant noise with the one-sided bound; with all the samples (n as recorded) for any scheme. For fewer samples
    of other schemes use `resample`. The class stays the one the selection samples picked.
    A log without counts takes part with the counts that its radii imply; what it did not certify for its true class
    counts as not certified, though with a larger alpha some of it might be.
    """
    run, n, alpha = _request(run, n, alpha)
    if run.plan.imported:
        votes = true_class_votes(run)
        known = votes.n != UNKNOWN
        noise = sigma_by_record(run)
        return _expected(run, votes.k[known], noise[known], n, alpha, unknown=int(np.sum(~known)))
    rule = _rule(run, n, alpha)
    if n == run.plan.n:
        radii = true_radii(run, alpha=alpha)
        return Recertified(n, alpha, len(radii), *collected(radii, np.ones(len(radii))))
    if not _is_constant_noise(rule) or rule.bound != "one-sided":
        raise RequestError(
            f"the expectation with fewer samples is exact for constant noise ({' or '.join(NOISES)}) and the one-sided "
            f"bound; {run.path.name} is of another rule. Use resample(run, n={n}, alpha={alpha:g}), or "
            f"n={run.plan.n} as recorded"
        )
    right = np.array([_picked(rule, record) == record.label for record in run.records])
    k = true_class_votes(run).k[right]
    return _expected(run, k, np.full(len(k), rule.sigma), n, alpha)


def plug_in(run: Source, n: int | None = None, alpha: float | None = None) -> Recertified:
    """The same by the shortcut of the paper's appendix: as if every share of n votes were the one recorded.

    It forgets that few samples scatter; `n` may exceed what was sampled. Needs constant noise and the one-sided bound.
    Source: Sun et al. (2025), App. B.1.
    """
    run, n, alpha = _request(run, n, alpha, fewer=False)
    noise, shares = _one_sigma_each(run), vote_shares(run)["p_A"].to_numpy()
    known = ~np.isnan(shares)
    k = np.floor(shares[known] * n + 1e-9).astype(np.int64)
    radii = np.asarray(radius_of(k, sigma=noise[known], n=n, alpha=alpha, noise=_distribution(run)))
    spread = collected(radii, np.ones(len(radii)))
    return Recertified(n, alpha, len(run.records), *spread, int(np.sum(~known)))


def resample(run: Source, n: int, alpha: float | None = None, *, seed: int = 0, times: int = 1) -> Recertified:
    """The same for any scheme, by doing it: the mean of `times` trials with n of each stage's samples, at random.

    With fewer samples a router may reach experts that the run did not ask: they count as undecided, so the accuracy may
    be too small. Selection samples stay as they are.
    """
    run, n, alpha = _request(run, n, alpha)
    if run.plan.imported:
        raise RequestError(
            f"{run.path.name} holds no counts to take samples from; use recertify, which reads its radii"
        )
    if not is_whole(times) or times < 1:
        raise RequestError(f"times must be a whole number of at least 1; got {times!r}")
    _rule(run, n, alpha)
    generator = np.random.default_rng(seed)
    trials = [_trial(run, n, alpha, generator) for _ in range(times)]
    weight = np.full(times * len(run.records), 1 / times)
    return Recertified(n, alpha, len(run.records), *collected(np.concatenate(trials), weight))


def _request(run: Source, n: int | None, alpha: float | None, *, fewer: bool = True) -> tuple[Run, int, float]:
    """The run, and n and alpha where they are not the run's own; refused where its samples do not go so far."""
    run = labelled(load(run), "certifying again with other samples")
    n, alpha = run.plan.n if n is None else n, run.plan.alpha if alpha is None else alpha
    check_samples(alpha, n=n)
    if fewer and n > run.plan.n:
        raise RequestError(
            f"{run.path.name} holds {run.plan.n} samples a stage, fewer than n={n}; ask for at most that, or use "
            "plug_in, which goes beyond what was sampled by assuming that the shares stay the same"
        )
    if n < bounds.fewest_samples(alpha):
        raise RequestError(
            f"n={n} samples can never certify at alpha={alpha:g}, even if all agree; use n >= "
            f"{bounds.fewest_samples(alpha)} or a larger alpha"
        )
    _check_fixed(run)
    return run, n, alpha


def _check_fixed(run: Run) -> None:
    """Every stage has all samples planned: where sampling could stop early, the rest is not known."""
    advice = "certify with fixed sampling to evaluate other n and alpha"
    if not run.plan.imported and entry(run.plan.method).with_earlier is not None:
        raise RequestError(
            f"{run.path.name} has a memory, in which every answer depends on those before, at the run's own n and "
            "alpha; certify with the others to know"
        )
    if is_adaptive(run):
        raise RequestError(f"{run.path.name} was sampled adaptively, so its stages ended at different n; {advice}")
    for record in run.records:
        for stage in record.certificate.stages:
            if stage.role is Role.ESTIMATION and stage.n != run.plan.n:
                raise RequestError(
                    f"input {record.index} of {run.path.name} stopped at {stage.n} of {run.plan.n} samples; {advice}"
                )


def _rule(run: Run, n: int, alpha: float) -> Rule:
    rule = rebuild(run.plan.rule)
    rule.check_certify(n0=run.plan.n0 or 1, n=n, alpha=alpha)
    return rule


def _one_sigma_each(run: Run) -> Floats:
    """The noise of every input; refused where a radius depends on more than one smoothed classifier."""
    if run.plan.imported:
        return sigma_by_record(run)
    rule = rebuild(run.plan.rule)
    if not _is_constant_noise(rule):
        raise RequestError(
            f"{run.path.name} is of the scheme {run.plan.method!r}, whose radius is not a function of one p_A; "
            "use recertify with the recorded n, or resample"
        )
    if rule.bound != "one-sided":
        raise RequestError(
            f"{run.path.name} is of the {rule.bound} bound, whose radius depends on a rival's votes too; "
            "use recertify with the recorded n, or resample"
        )
    return np.full(len(run.records), rule.sigma)


def _is_constant_noise(rule: Rule) -> TypeGuard[SmoothedRule]:
    """Whether its radius is that of p_A under a known noise: a subclass may have a theorem of its own."""
    return type(rule) is SmoothedRule and rule.noise.name in NOISES


def _distribution(run: Run) -> str:
    """Of the noise of a run of constant noise; that of a log is Gaussian."""
    return str(run.plan.rule.get("noise", "gaussian"))


def _picked(rule: SmoothedRule, record: Record) -> int:
    """The class the selection samples picked."""
    for stage in record.certificate.stages:
        if stage.role is Role.SELECTION:
            return rule.top(stage.counts)
    raise RequestError(f"input {record.index} has no selection votes; run `sigmax verify` on the file")


def _expected(run: Run, k: NDArray[np.int64], noise: Floats, n: int, alpha: float, *, unknown: int = 0) -> Recertified:
    """All inputs' hypergeometric distributions added up, noise by noise."""
    radii, weight = [np.empty(0)], [np.empty(0)]
    for sigma in np.unique(noise):
        how: dict[str, Any] = {"sigma": float(sigma), "n": n, "alpha": alpha, "noise": _distribution(run)}
        least = int(least_votes(0.0, **how))
        votes = np.arange(least, n + 1)
        weight.append(_chances(run.plan.n, k[noise == sigma], n, votes))
        radii.append(np.asarray(radius_of(votes, **how)))
    spread = collected(np.concatenate(radii), np.concatenate(weight))
    return Recertified(n, alpha, len(run.records), *spread, unknown)


def _chances(sampled: int, k: NDArray[np.int64], n: int, votes: NDArray[np.int64]) -> Floats:
    """For each of `votes` the sum over inputs of P[K = votes], K ~ Hypergeometric(sampled, k, n)."""
    log_factorial = gammaln(np.arange(sampled + 1) + 1.0)

    def log_choose(m: NDArray[np.int64], j: NDArray[np.int64]) -> Floats:
        inside = np.clip(j, 0, m)
        logs = log_factorial[m] - log_factorial[inside] - log_factorial[m - inside]
        return np.where(inside == j, logs, -np.inf)

    total = np.zeros(len(votes))
    counts, times = np.unique(k, return_counts=True)
    step = max(1, _CELLS // max(1, len(votes)))
    whole = float(log_choose(np.array([sampled]), np.array([n]))[0])
    for start in range(0, len(counts), step):
        some = counts[start : start + step, None]
        logs = log_choose(some, votes[None]) + log_choose(sampled - some, n - votes[None]) - whole
        total += times[start : start + step] @ np.exp(logs)
    return total


def _trial(run: Run, n: int, alpha: float, generator: np.random.Generator) -> Floats:
    """The radii for true classes that one random choice of n samples a stage proves."""
    records = tuple(
        replace(record, certificate=replace(record.certificate, stages=_thinned(record, n, generator)))
        for record in run.records
    )
    return true_radii(replace(run, plan=replace(run.plan, n=n), records=records), alpha=alpha)


def _thinned(record: Record, n: int, generator: np.random.Generator) -> tuple[Stage, ...]:
    """The stages with n of their estimation votes, taken at random; what picked the class stays."""
    return tuple(
        replace(stage, counts=tuple(map(int, generator.multivariate_hypergeometric(stage.counts, n))), n=n)
        if stage.role is Role.ESTIMATION
        else stage
        for stage in record.certificate.stages
    )
