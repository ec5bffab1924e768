"""The cascade's rule: known radii, every stage against the textbook, what is asked and what is said."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import beta, norm

import sigmax as sx
from sigmax.rules.cascade import CascadeRule
from sigmax.rules.cascade.level import Payment
from sigmax.rules.certificate import Outcome, Role
from sigmax.rules.lipschitz import LipschitzRule
from sigmax.rules.procedure import Scores
from sigmax.rules.registry import assumptions, rebuild
from sigmax.rules.replay import replay
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.sampling import FIXED, Sampling
from sigmax.rules.smoothed import SmoothedRule
from tests.rules.test_sampling import cast
from tests.schemes.helpers import feed

patient = settings(deadline=None, max_examples=60)
LAST = 0.9  # share of alpha that the last look has, where an earlier one may claim
ASKED = {"n0": 10, "n": 1_000, "alpha": 0.001}
QUESTIONS = {
    "fixed": FIXED,
    "the radius": Sampling("adaptive"),
    "targets": Sampling("adaptive", targets=(0.1, 0.4)),
    "tolerance": Sampling("adaptive", tolerance=0.1),
}


def plain(sigma: float, classes: int = 3) -> SmoothedRule:
    return SmoothedRule.gaussian(sigma, classes)


def selective(sigma: float, classes: int = 3) -> SmoothedRule:
    return SmoothedRule.gaussian(sigma, classes, defers=True)


def certified(rule: CascadeRule, **votes):
    """The certificate from counts of each part, `level_0=(picks, votes)`; what was asked, in order."""

    def answer(question):
        part = votes[question.part.replace("-", "_")]
        if isinstance(part, Scores):
            return part
        counts = part[int(question.role is Role.ESTIMATION)]
        order = np.random.default_rng(0).permutation(np.repeat(range(len(counts)), counts))
        return tuple(np.bincount(order[question.start : question.stop], minlength=len(counts)).tolist())

    return feed(rule.certifying(**ASKED), answer)


def lower(k: int, n: int, level: float) -> float:
    """Clopper-Pearson by scipy alone."""
    return float(beta.ppf(level, k, n - k + 1)) if k and level else 0.0


def upper(k: int, n: int, level: float) -> float:
    return float(beta.isf(level, k + 1, n - k)) if k < n and level else 1.0


# Known radii


def test_the_published_radius():
    """Three scales: the first excludes all but class 1, the second answers it. Quarters and eighths of alpha, of which
    nine tenths are kept for the last look.
    """
    rule = CascadeRule((plain(1.0), plain(0.5)), plain(0.25))
    rest = {"level_1": ((0, 10, 0), (50, 930, 20)), "last": ((10, 0, 0), (1_000, 0, 0))}
    found, asked = certified(rule, level_0=((4, 3, 3), (360, 320, 320)), **rest)
    first = -norm.ppf(upper(360, 1_000, LAST * 0.0005 / 2))
    answer = 0.5 * norm.ppf(lower(930, 1_000, LAST * 0.00025 / 2))
    assert found.predicted == 1
    assert found.radius == pytest.approx(min(first, answer), rel=1e-9)
    assert (found.sigma, found.answered_by, found.limited_by) == (0.5, "level-1", "level-0/estimation")
    stages = list(dict.fromkeys(q.stage for q in asked))
    assert stages[:4] == [f"level-{j}/{role}" for j in (0, 1) for role in ("selection", "estimation")]
    assert stages[4:] in ([], ["last/selection"])  # the last picks another class than the one that may be of use
    # A rival that may have half of the votes ends it.
    for votes in ((100, 300, 600), (490, 490, 20)):
        found, _ = certified(rule, level_0=((4, 3, 3), votes), **rest)
        assert (found.predicted, found.radius, found.outcome) == (None, 0.0, Outcome.LEVEL_UNDECIDED)


def test_a_level_torn_between_answering_and_deferring_loses_nothing():
    rule = CascadeRule((selective(1.0),), plain(0.5))
    torn = (0, 6, 0, 4), (20, 480, 10, 490)
    found, _ = certified(rule, level_0=torn, last=((0, 10, 0), (0, 999, 1)))
    below = 0.5 * norm.ppf(lower(999, 1_000, LAST * 0.0005))  # the level excludes others twice as far
    assert found.predicted == 1
    assert found.radius == pytest.approx(below, rel=1e-9)
    assert found.answered_by == "last"  # the level was not shown to answer
    found, _ = certified(rule, level_0=torn, last=((10, 0, 0), (999, 0, 1)))
    assert (found.predicted, found.outcome, found.limited_by) == (None, Outcome.LEVEL_UNDECIDED, "level-0/estimation")


def test_a_class_with_the_most_votes_but_too_few_is_left_to_what_is_below():
    rule = CascadeRule((selective(0.5),), plain(0.25))
    found, _ = certified(rule, level_0=((4, 0, 2, 4), (380, 40, 200, 380)), last=((0, 10, 0), (0, 1_000, 0)))
    assert (found.predicted, found.answered_by) == (1, "last")
    assert found.radius == pytest.approx(-0.5 * norm.ppf(upper(380, 1_000, LAST * 0.00025)), rel=1e-9)


def test_thresholds_above_one_half():
    rule = CascadeRule((selective(1.0),), plain(0.5), 0.7)
    found, _ = certified(rule, level_0=((0, 8, 0, 2), (0, 900, 0, 100)), last=((0, 10, 0), (0, 520, 480)))
    assert found.radius == pytest.approx(norm.ppf(lower(900, 1_000, 0.00025)) - norm.ppf(0.7), rel=1e-9)
    assert found.answered_by == "level-0"
    found, _ = certified(rule, level_0=((0, 7, 0, 3), (0, 900, 0, 100)), last=((0, 10, 0), (0, 999, 1)))
    assert found.answered_by == "last"  # 7 of 10 are not above the threshold, so no class was picked


def test_what_the_parts_get():
    deterministic = LipschitzRule(1.0, 3)
    assert CascadeRule((plain(1.0), plain(0.5)), plain(0.25)).alpha_split(0.008) == (0.004, 0.002, 0.002)
    assert CascadeRule((plain(1.0), plain(0.5)), deterministic).alpha_split(0.008) == (0.004, 0.004, 0.004)
    assert CascadeRule((plain(1.0),), deterministic).alpha_split(0.008) == (0.008, 0.008)
    found, _ = certified(
        CascadeRule((plain(1.0),), deterministic),
        level_0=((9, 1, 0), (900, 50, 50)),
        last=Scores(0, 9.0, 1.0, 0.0, 0.0),
    )
    assert found.ledger == (("level-0", 0.001),)
    assert Payment.of(0.004, picked=True) == (0.002, 0.002)
    assert Payment.of(0.004, picked=False) == (0.0, 0.002)


# Every stage against the textbook


def textbook(found, rule: CascadeRule, alpha: float, n: int, sampling: Sampling) -> float:
    """The radius for the class claimed, from the recorded looks, scipy and the split of alpha alone."""
    stages = {(stage.part, stage.role): stage for stage in found.stages}

    def picked_by(part: str, j: int) -> int | None:
        picks = np.array(stages[part, Role.SELECTION].counts)
        return int(picks[:3].argmax()) if picks[:3].max() > rule.thresholds[j] * picks.sum() else None

    def bound(part: str, side, count, share: float) -> float:
        """The best bound of all looks: `count` picks the votes it is for."""
        stage = stages[part, Role.ESTIMATION]
        sums = np.cumsum(stage.looks or (stage.counts,), axis=0)
        # A level that picked no class, and what is below a level, may have shown enough early.
        early = part != "level-0" or picked_by(part, 0) is None
        asked = sampling.in_looks(n).capped(1e300) if early else sampling.in_looks(n)
        looks = zip(sums.tolist(), asked.schedule(n, share), strict=False)
        values = [side(count(votes), sum(votes), look.level) for votes, look in looks]
        return max(values) if side is lower else min(values)

    *shares, left = rule.alpha_split(alpha)
    label, proved = found.predicted, 0.0
    if ("last", Role.ESTIMATION) in stages:
        picks = stages["last", Role.SELECTION].counts
        share = bound("last", lower, lambda votes: votes[label], left)
        proved = max(0.0, rule.last.sigma * ndtri(share)) if int(np.argmax(picks)) == label else 0.0
    for j in reversed(range(len(rule.levels))):
        part, level, t = f"level-{j}", rule.levels[j], rule.thresholds[j]
        if (part, Role.ESTIMATION) not in stages:
            continue
        picked, answer = picked_by(part, j), 0.0
        if picked == label:
            answer = level.sigma * (ndtri(bound(part, lower, lambda votes: votes[label], shares[j] / 2)) - ndtri(t))
        others = bound(part, upper, lambda votes: max(k for c, k in enumerate(votes[:3]) if c != label), shares[j] / 2)
        excluded = level.sigma * (ndtri(t) - ndtri(others))
        proved = max(0.0, answer, min(excluded, proved) if picked in (None, label) else 0.0)
    return proved


RULES = st.builds(
    lambda defers, sigmas, thresholds: CascadeRule(
        tuple(SmoothedRule.gaussian(s, 3, defers=d) for s, d in zip(sigmas, defers, strict=True)),
        plain(0.25),
        thresholds,
    ),
    st.tuples(st.booleans(), st.booleans()),
    st.just((1.0, 0.5)),
    st.tuples(st.sampled_from([0.5, 0.6]), st.sampled_from([0.5, 0.7])),
)
votes_of = st.builds(cast, st.integers(0, 2**32), st.sampled_from([0.02, 0.1, 0.5]))


def agrees_with_the_textbook(rule, votes, question: Sampling, alpha: float = 0.01, n: int = 1_000) -> bool:
    """Whether the certificate is the textbook's; one that abstains agrees with everything."""
    found, _ = feed(rule.certifying(n0=20, n=n, alpha=alpha, sampling=question), votes)
    if found.predicted is None:
        return True
    exact = textbook(found, rule, alpha, n, question)
    return bool(found.radius <= exact * (1 + 1e-9)) and found.radius == pytest.approx(exact, rel=1e-6, abs=1e-7)


@patient
@given(RULES, votes_of, st.sampled_from(list(QUESTIONS.values())))
def test_the_radius_is_what_the_looks_prove(rule, votes, question):
    assert agrees_with_the_textbook(rule, votes, question)


@pytest.mark.parametrize(
    "payment",
    [
        lambda alpha, *, picked: Payment(alpha, alpha),  # L and U at the same money
        lambda alpha, *, picked: Payment(alpha / 2 if picked else 0.0, alpha / 2 if picked else alpha),  # one for two
    ],
)
def test_payments_that_do_not_add_up_are_caught(payment, monkeypatch):
    monkeypatch.setattr(Payment, "of", payment)
    rule = CascadeRule((selective(1.0), plain(0.5)), plain(0.25))
    assert not all(agrees_with_the_textbook(rule, cast(seed, 0.1), FIXED) for seed in range(40))


@patient
@given(RULES, votes_of, st.sampled_from(list(QUESTIONS.values())))
def test_a_certificate_follows_from_its_record_and_says_who_answered(rule, votes, question):
    asked = {"n0": 20, "n": 1_000, "alpha": 0.01, "sampling": question}
    found, _ = feed(rule.certifying(**asked), votes)
    assert replay(rule.certifying(**asked), found.stages) == found
    assert all(stage.n <= 1_000 for stage in found.stages)
    assert found.radius <= rule.largest_radius(n=1_000, alpha=0.01, sampling=question)
    names = {stage.name for stage in found.stages}
    assert found.limited_by in names
    assert f"{found.answered_by}/estimation" in names
    assert found.sigma == next(s.sigma for s in found.stages if s.part == found.answered_by)
    assert (found.predicted is None) == (found.radius == 0.0)


@pytest.mark.parametrize(
    ("threshold", "sigma", "spent"),
    [
        (0.5, 1.0, 0.001 / 4),  # the first level answers furthest, with half of its half of alpha
        (0.992, 0.25, 0.001 / 8),  # three levels can only defer: the last certifies with the eighth that is its own
    ],
)
def test_the_largest_radius_is_what_unanimous_samples_prove(threshold, sigma, spent):
    rule = CascadeRule((selective(1.0),) * 3, plain(0.25), threshold)
    expected = sigma * ndtri(lower(1_000, 1_000, spent))
    assert rule.largest_radius(n=1_000, alpha=0.001) == pytest.approx(expected, rel=1e-9)


# What is asked, and what is said


def given_shares(**parts):
    """Votes by part: the share of class 0, the rest votes to defer or for class 1."""

    def answer(ask):
        share = parts[ask.part.replace("-", "_")]
        zeros = round(share * ask.stop) - round(share * ask.start)
        rest = [0] * (ask.classes - 1)
        rest[-1] = ask.n - zeros
        return (zeros, *rest)

    return answer


def test_a_level_that_answers_far_asks_nothing_below_and_few_votes_where_a_target_is_asked():
    rule = CascadeRule((selective(1.0, 2),), plain(0.25, 2))
    found, asked = feed(rule.certifying(n0=100, n=10_000, alpha=1e-3), given_shares(level_0=0.999, last=1.0))
    assert {q.part for q in asked} == {"level-0"}
    assert found.radius > 2
    found, asked = feed(
        rule.certifying(n0=100, n=10_000, alpha=1e-3, sampling=Sampling("adaptive", targets=(0.5,))),
        given_shares(level_0=0.999, last=1.0),
    )
    assert found.radius >= 0.5
    assert found.samples < 500


def test_a_level_that_defers_is_sampled_only_as_far_as_the_last_reaches():
    rule = CascadeRule((selective(1.0, 2),), plain(0.25, 2))
    found, _ = feed(
        rule.certifying(n0=100, n=10_000, alpha=1e-3, sampling=Sampling("adaptive")),
        given_shares(level_0=0.0, last=0.9),
    )
    samples = {stage.name: stage.n for stage in found.stages}
    assert samples["last/estimation"] == 10_000
    assert samples["level-0/estimation"] < 1_000
    assert (found.answered_by, found.limited_by) == ("last", "last/estimation")


@pytest.mark.parametrize(
    ("votes", "question", "outcome"),
    [
        ({"level_0": 0.5, "last": 1.0}, FIXED, Outcome.CERTIFIED),
        ({"level_0": 0.0, "last": 0.5}, FIXED, Outcome.NO_MAJORITY),
        ({"level_0": 0.0, "last": 0.51}, FIXED, Outcome.TOO_CLOSE),
        ({"level_0": 0.51, "last": 0.5}, FIXED, Outcome.LEVEL_UNDECIDED),
        ({"level_0": 0.52, "last": 0.4}, Sampling("adaptive", targets=(1.0,)), Outcome.FUTILITY_STOP),
    ],
)
def test_every_outcome(votes, question, outcome):
    rule = CascadeRule((selective(1.0, 2),), plain(0.25, 2))
    found, _ = feed(rule.certifying(n0=100, n=1_000, alpha=1e-3, sampling=question), given_shares(**votes))
    assert found.outcome is outcome
    assert found.limited_by is not None


def predicted(**votes):
    rule = CascadeRule((selective(1.0, 2),), plain(0.25, 2))
    return feed(rule.predicting(n=100, alpha=0.02), lambda q: votes[q.part.replace("-", "_")])


@pytest.mark.parametrize(
    ("votes", "label", "outcome", "parts"),
    [
        ({"level_0": (95, 5, 0)}, 0, Outcome.PREDICTED, 1),
        ({"level_0": (5, 5, 90), "last": (3, 97)}, 1, Outcome.PREDICTED, 2),
        ({"level_0": (55, 5, 40), "last": (97, 3)}, 0, Outcome.PREDICTED, 2),
        ({"level_0": (55, 5, 40), "last": (3, 97)}, None, Outcome.LEVEL_UNDECIDED, 2),
        ({"level_0": (50, 50, 0)}, None, Outcome.LEVEL_UNDECIDED, 1),
        ({"level_0": (5, 5, 90), "last": (50, 50)}, None, Outcome.TOO_CLOSE, 2),
    ],
)
def test_every_outcome_of_a_prediction(votes, label, outcome, parts):
    found, asked = predicted(**votes)
    assert (found.predicted, found.outcome, len(asked)) == (label, outcome, parts)
    assert (found.p_value <= 0.02) == (label is not None)


def test_the_p_value_is_the_alpha_at_which_the_class_would_just_be_returned():
    rule = CascadeRule((selective(1.0, 2),), plain(0.25, 2), 0.6)
    votes = {"level_0": (20, 10, 70), "last": (65, 35)}
    predict = partial(
        lambda alpha: feed(rule.predicting(n=100, alpha=alpha), lambda q: votes[q.part.replace("-", "_")])
    )
    level = predict(0.3)[0].p_value
    assert predict(level)[0].predicted == 0
    assert predict(level * 0.999)[0].predicted is None


# Requests


def test_samples_that_can_never_do_are_refused():
    rule = CascadeRule((selective(1.0), selective(0.5)), LipschitzRule(1.0, 3))
    # Half of a half for L at the second level, where 11 votes are just enough; a tenth is that of the looks before.
    alpha = 4 * 2.0**-11 * 1.05
    for sampling in (FIXED, Sampling("adaptive", first=2)):
        rule.check_certify(n0=1, n=11, alpha=alpha / LAST, sampling=sampling)
        with pytest.raises(sx.RequestError, match=r"n=11 samples can never certify at level-1 .* use n >= 12"):
            rule.check_certify(n0=1, n=11, alpha=alpha, sampling=sampling)
    with pytest.raises(sx.RequestError, match=r"never certify at level-0 \(threshold 0.9\).* use n >= 79"):
        CascadeRule((selective(1.0),), plain(0.5), 0.9).check_certify(n0=1, n=50, alpha=0.001)
    with pytest.raises(sx.RequestError, match=r"level-0, which gets 0.0005 .*threshold 0.9 and 3 classes.* n >= 83"):
        CascadeRule((selective(1.0),), plain(0.5), 0.9).check_predict(n=82, alpha=0.001)
    CascadeRule((selective(1.0),), plain(0.5), 0.9).check_predict(n=83, alpha=0.001)


@pytest.mark.parametrize(
    ("levels", "last", "thresholds", "said"),
    [
        ((), plain(0.5), 0.5, "at least one level"),
        ((LipschitzRule(1.0, 3),), plain(0.5), 0.5, "each a Smoothed classifier"),
        ((plain(1.0, 4),), plain(0.5), 0.5, "same classes; they have 4, 3"),
        ((SmoothedRule.gaussian(1.0, 3, bound="runner-up"),), plain(0.5), 0.5, "level-0 must use bound='one-sided'"),
        ((plain(1.0),), plain(0.5), 0.4, "from 1/2 to below 1, got 0.4"),
        ((plain(1.0),), plain(0.5), (0.5, 0.6), "one for each of the 1 levels"),
        ((plain(1.0),), plain(0.5), "0.5", "a threshold must be a share of votes"),
    ],
)
def test_a_cascade_that_is_none_is_refused(levels, last, thresholds, said):
    with pytest.raises(sx.RequestError, match=said):
        CascadeRule(levels, last, thresholds)


def test_a_selective_model_is_held_to_a_majority():
    with pytest.raises(sx.RequestError, match="held to a majority"):
        SmoothedRule.gaussian(0.5, 3, bound="runner-up", defers=True)


def test_what_parts_assume_is_assumed_by_the_whole():
    rule = CascadeRule((selective(1.0),), DualRule(plain(1.0, 2), (LipschitzRule(1.0, 3), LipschitzRule(2.0, 3))))
    assert assumptions(rule.describe()) == assumptions(LipschitzRule(1.0, 3).describe()) != ()


def test_a_damaged_description_is_refused():
    right = dict(CascadeRule((selective(1.0),), plain(0.5)).describe())
    assert rebuild(right) == CascadeRule((selective(1.0),), plain(0.5))
    for wrong in ({"levels": "all"}, {"thresholds": [0.2]}, {"last": 3}, {"classes": 4}, {"budget": "sound"}):
        with pytest.raises(sx.RequestError):
            rebuild({**right, **wrong})
