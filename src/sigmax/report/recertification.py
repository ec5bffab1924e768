"""What a run would have certified with fewer draws or another alpha, from its own votes: no model is run.

# N draws recorded, k of them for the class picked; n draws asked for; R(K) the radius K of n votes prove at alpha
# K ~ Hypergeometric(N, k, n): how many of n draws, taken at random from the N, are for it

N independent draws come in no order, so n of them taken at random are as good as n drawn afresh.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from sigmax import bounds
from sigmax.certify.checks import check_draws, is_whole
from sigmax.certify.procedure import Rule
from sigmax.certify.rebuild import rebuild
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.errors import RequestError
from sigmax.planning import least_votes, radius_of
from sigmax.records.certificate import Stage, leading
from sigmax.records.lines import Record
from sigmax.records.run import Run
from sigmax.report.accuracy import Floats
from sigmax.report.distribution import vote_shares
from sigmax.report.recertified import Recertified, collected
from sigmax.report.runs import Source, load
from sigmax.report.shared import true_radii
from sigmax.report.votes import UNKNOWN, estimation, true_class_votes

_CELLS = 2**22  # probabilities computed at once


def recertify(run: Source, n: int | None = None, alpha: float | None = None) -> Recertified:
    """The expected outcome of certifying the run's inputs with `n` of its draws at `alpha`; exact, from the counts.

    For constant noise with the one-sided bound the expectation is hypergeometric, for each input: nothing is drawn.
    With all the draws (n as recorded) the radii of any scheme follow from its counts at another alpha. For fewer
    draws of other schemes use `resample`. The class stays the one the selection draws picked.

    A log without counts takes part with the counts that its radii tell; what it did not certify for its true class
    is unknown and counts as not certified, though with a larger alpha some of it might be.
    """
    run, n, alpha = _request(run, n, alpha)
    if run.plan.method == "imported":
        votes = true_class_votes(run)
        known = votes.n != UNKNOWN
        noise = run.frame()["sigma"].to_numpy(dtype=np.float64)
        return _expected(run, votes.k[known], noise[known], n, alpha, unknown=int(np.sum(~known)))
    rule = _rule(run, n, alpha)
    if n == run.plan.n:
        radii = true_radii(run, alpha=alpha)
        return Recertified(n, alpha, len(radii), *collected(radii, np.ones(len(radii))), "replayed")
    if not isinstance(rule, SmoothedRule) or rule.bound != "one-sided":
        raise RequestError(
            "the expectation with fewer draws is exact for constant noise and the one-sided bound; "
            f"{run.path.name} is of another rule. Use resample(run, n={n}, alpha={alpha:g}), or n={run.plan.n} as "
            "recorded"
        )
    k = np.array([_votes_picked(record) for record in run.records if _picked(record) == record.label], np.int64)
    return _expected(run, k, np.full(len(k), rule.noise), n, alpha)


def plug_in(run: Source, n: int | None = None, alpha: float | None = None) -> Recertified:
    """The same by the shortcut of the paper's appendix: as if every share of n votes were the one recorded.

    Certified accuracy at r is the share of inputs whose recorded p_A is at least k/n, the least share of n votes
    that certifies r. It forgets that few draws scatter, so it is a step function where `recertify` is smooth; `n`
    may exceed what was drawn. Needs constant noise and the one-sided bound. Source: Sun et al. (2025), App. B.1.
    """
    run, n, alpha = _request(run, n, alpha, fewer=False)
    noise, shares = _one_sigma_each(run), vote_shares(run)["p_A"].to_numpy()
    known = ~np.isnan(shares)
    k = np.floor(shares[known] * n + 1e-9).astype(np.int64)
    radii = np.asarray(radius_of(k, sigma=noise[known], n=n, alpha=alpha))
    spread = collected(radii, np.ones(len(radii)))
    return Recertified(n, alpha, len(run.records), *spread, "plug-in", int(np.sum(~known)))


def resample(run: Source, n: int, alpha: float | None = None, *, seed: int = 0, times: int = 1) -> Recertified:
    """The same for any scheme, by doing it: n of each stage's draws are taken at random, and the rule applied.

    The mean of `times` such trials. With fewer draws a router may reach experts that the run did not ask: they
    count as undecided, so the accuracy is rather too small. Selection draws stay as they are.
    """
    run, n, alpha = _request(run, n, alpha)
    if run.plan.method == "imported":
        raise RequestError(
            f"{run.path.name} holds no counts to take draws from; use recertify, which reads its radii"
        )
    if not is_whole(times) or times < 1:
        raise RequestError(f"times must be a whole number of at least 1; got {times!r}")
    _rule(run, n, alpha)
    generator = np.random.default_rng(seed)
    trials = [_trial(run, n, alpha, generator) for _ in range(times)]
    weight = np.full(times * len(run.records), 1 / times)
    return Recertified(n, alpha, len(run.records), *collected(np.concatenate(trials), weight), f"mean of {times}")


def _request(run: Source, n: int | None, alpha: float | None, *, fewer: bool = True) -> tuple[Run, int, float]:
    """The run, and n and alpha where they are not the run's own; refused where its draws do not go so far."""
    run = load(run)
    n, alpha = run.plan.n if n is None else n, run.plan.alpha if alpha is None else alpha
    check_draws(alpha, n=n)
    if fewer and n > run.plan.n:
        raise RequestError(
            f"{run.path.name} holds {run.plan.n} draws a stage, fewer than n={n}; ask for at most that, or use "
            "plug_in, which goes beyond what was drawn by assuming that the shares stay the same"
        )
    if n < bounds.fewest_draws(alpha):
        raise RequestError(
            f"n={n} draws can never certify at alpha={alpha:g}, even if all agree; use n >= "
            f"{bounds.fewest_draws(alpha)} or a larger alpha"
        )
    _check_fixed(run)
    return run, n, alpha


def _check_fixed(run: Run) -> None:
    """Every stage drew what was planned: where sampling could stop early, the rest is not known."""
    advice = "certify with fixed sampling to work out other n and alpha"
    if run.plan.method == "memorized":
        raise RequestError(
            f"{run.path.name} has a memory, in which every answer depends on those before, at the run's own n and "
            "alpha; certify with the others to know"
        )
    if dict(getattr(run.plan, "sampling", {})).get("kind", "fixed") != "fixed":  # older plans do not say
        raise RequestError(
            f"{run.path.name} was sampled adaptively, so that its stages end where they like; {advice}"
        )
    for record in run.records:
        for stage in record.certificate.stages:
            if stage.name.rpartition("/")[2] == "estimation" and stage.n != run.plan.n:
                raise RequestError(
                    f"input {record.index} of {run.path.name} stopped at {stage.n} of {run.plan.n} draws; {advice}"
                )


def _rule(run: Run, n: int, alpha: float) -> Rule:
    rule = rebuild(run.plan.rule)
    rule.check_certify(n0=run.plan.n0 or 1, n=n, alpha=alpha)
    return rule


def _one_sigma_each(run: Run) -> Floats:
    """The noise of every input; refused where a radius depends on more than one smoothed classifier."""
    if run.plan.method == "imported":
        return run.frame()["sigma"].to_numpy(dtype=np.float64)
    rule = rebuild(run.plan.rule)
    if not isinstance(rule, SmoothedRule):
        raise RequestError(
            f"{run.path.name} is of the scheme {run.plan.method!r}, whose radius is not a function of one p_A; "
            "use recertify with the recorded n, or resample"
        )
    if rule.bound != "one-sided":
        raise RequestError(
            f"{run.path.name} is of the {rule.bound} bound, whose radius depends on a rival's votes too; "
            "use recertify with the recorded n, or resample"
        )
    return np.full(len(run.records), rule.noise)


def _picked(record: Record) -> int:
    """The class the selection draws picked."""
    for stage in record.certificate.stages:
        if stage.name == "selection":
            return leading(stage.counts)[0]
    raise RequestError(f"input {record.index} has no selection votes; run `sigmax verify` on the file")


def _votes_picked(record: Record) -> int:
    stage = estimation(record)
    if stage is None:
        raise RequestError(f"input {record.index} has no estimation votes; run `sigmax verify` on the file")
    return stage.counts[_picked(record)]


def _expected(
    run: Run, k: NDArray[np.int64], noise: Floats, n: int, alpha: float, *, unknown: int = 0
) -> Recertified:
    """All inputs' hypergeometric distributions added up, noise by noise."""
    radii, weight = [np.empty(0)], [np.empty(0)]
    for sigma in np.unique(noise):
        least = int(least_votes(0.0, sigma=float(sigma), n=n, alpha=alpha))
        votes = np.arange(least, n + 1)
        weight.append(_chances(run.plan.n, k[noise == sigma], n, votes))
        radii.append(np.asarray(radius_of(votes, sigma=float(sigma), n=n, alpha=alpha)))
    spread = collected(np.concatenate(radii), np.concatenate(weight))
    return Recertified(n, alpha, len(run.records), *spread, "exact expectation", unknown)


def _chances(drawn: int, k: NDArray[np.int64], n: int, votes: NDArray[np.int64]) -> Floats:
    """For each of `votes` the sum over inputs of P[K = votes], K ~ Hypergeometric(drawn, k, n)."""
    log_factorial = gammaln(np.arange(drawn + 1) + 1.0)

    def log_choose(m: NDArray[np.int64], j: NDArray[np.int64]) -> Floats:
        inside = np.clip(j, 0, m)
        logs = log_factorial[m] - log_factorial[inside] - log_factorial[m - inside]
        return np.where(inside == j, logs, -np.inf)

    total = np.zeros(len(votes))
    counts, times = np.unique(k, return_counts=True)
    step = max(1, _CELLS // max(1, len(votes)))
    whole = float(log_choose(np.array([drawn]), np.array([n]))[0])
    for start in range(0, len(counts), step):
        some = counts[start : start + step, None]
        logs = log_choose(some, votes[None]) + log_choose(drawn - some, n - votes[None]) - whole
        total += times[start : start + step] @ np.exp(logs)
    return total


def _trial(run: Run, n: int, alpha: float, generator: np.random.Generator) -> Floats:
    """The radii for true classes that one random choice of n draws a stage proves."""
    records = tuple(
        replace(record, certificate=replace(record.certificate, stages=_thinned(record, n, generator)))
        for record in run.records
    )
    return true_radii(replace(run, plan=replace(run.plan, n=n), records=records), alpha=alpha)


def _thinned(record: Record, n: int, generator: np.random.Generator) -> tuple[Stage, ...]:
    """The stages with n of their estimation votes, taken at random; what picked the class stays."""
    return tuple(
        replace(stage, counts=tuple(map(int, generator.multivariate_hypergeometric(stage.counts, n))), n=n)
        if stage.name.rpartition("/")[2] == "estimation"
        else stage
        for stage in record.certificate.stages
    )
