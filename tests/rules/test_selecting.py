"""Selection in looks: what is picked is what all n0 samples would pick, and nothing else depends on it."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from sigmax.errors import RequestError
from sigmax.rules.cascade import CascadeRule
from sigmax.rules.certificate import Role
from sigmax.rules.procedure import VoteRequest
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.sampling import FIXED, Sampling
from sigmax.rules.selecting import answers_clearly, leads_clearly, selecting
from sigmax.rules.smoothed import SmoothedRule

N0 = 100
ADAPTIVE = Sampling("adaptive")
LOOKS = ADAPTIVE.selection_stops(N0)


def ask(classes=2, n0=N0):
    return SmoothedRule.gaussian(0.5, classes).request(Role.SELECTION, n0)


def played(request, sampling, clear, votes):
    """The picks where the samples are these votes, in this order, and what was asked for."""
    asked, procedure = [], selecting(request, sampling, clear)
    try:
        question = next(procedure)
        while True:
            assert isinstance(question, VoteRequest)
            asked.append((question.start, question.stop))
            counts = np.bincount(votes[question.start : question.stop], minlength=request.classes)
            question = procedure.send(tuple(counts.tolist()))
    except StopIteration as end:
        return end.value, asked


def chance_of_another_pick(p, clear, pick):
    """By enumeration: that selection in looks picks otherwise than all n0 samples, of votes for class 0 or 1."""
    wrong, open_paths = 0.0, {0: 1.0}  # votes for class 0 at a look that was not clear, with their chance
    for start, stop in pairwise((0, *LOOKS)):
        here = {}
        for k, chance in open_paths.items():
            for more in range(stop - start + 1):
                here[k + more] = here.get(k + more, 0.0) + chance * stats.binom.pmf(more, stop - start, p)
        open_paths = {}
        for k, chance in here.items():
            counts = (k, stop - k)
            if stop < N0 and clear(counts, N0, ADAPTIVE.futility):
                rest = np.arange(N0 - stop + 1)
                other = [pick((k + m, N0 - k - m)) != pick(counts) for m in rest.tolist()]
                wrong += chance * float(np.dot(other, stats.binom.pmf(rest, N0 - stop, p)))
            elif stop < N0:
                open_paths[k] = chance
    return wrong


SHARES = (0.03, 0.2, 0.35, 0.45, 0.48, 0.5, 0.52, 0.55, 0.6, 0.7, 0.9, 0.99)


@pytest.mark.parametrize("p", SHARES)
def test_the_leading_class_is_most_likely_that_of_all_samples(p):
    assert chance_of_another_pick(p, leads_clearly(2), lambda counts: counts.index(max(counts))) < 0.02


@pytest.mark.parametrize("threshold", [0.5, 0.7])
@pytest.mark.parametrize("p", SHARES)
def test_whether_a_level_answers_is_most_likely_what_all_samples_say(p, threshold):
    def pick(counts):
        return counts[0] > threshold * sum(counts)

    assert chance_of_another_pick(p, answers_clearly(1, threshold), pick) < 0.02


def test_unanimous_votes_are_clear_at_the_first_look_and_a_tie_never_is():
    picks, asked = played(ask(), ADAPTIVE, leads_clearly(2), np.zeros(N0, int))
    assert (picks.counts, asked) == ((16, 0), [(0, 16)])
    picks, asked = played(ask(), ADAPTIVE, leads_clearly(2), np.arange(N0) % 2)
    assert (picks.counts, asked) == ((50, 50), [(0, 16), (16, 32), (32, 64), (64, 100)])


def test_votes_to_defer_are_no_rivals_but_count_against_the_threshold():
    deferring = np.r_[np.zeros(8, int), np.full(8, 2)][np.arange(N0) % 16]  # half for class 0, half to defer
    picks, _ = played(ask(3), ADAPTIVE, leads_clearly(2), deferring)
    assert picks.counts == (16, 0, 16)
    picks, _ = played(ask(3), ADAPTIVE, answers_clearly(2, 0.5), deferring)
    assert sum(picks.counts) == N0
    picks, _ = played(ask(3), ADAPTIVE, answers_clearly(2, 0.9), deferring)
    assert picks.counts == (8, 0, 8)


def test_fixed_sampling_and_no_first_look_take_all_samples_at_once():
    for sampling in (FIXED, Sampling("adaptive", first0=0), Sampling("adaptive", first0=N0)):
        picks, asked = played(ask(), sampling, leads_clearly(2), np.zeros(N0, int))
        assert (picks.counts, asked, picks.stage.looks) == ((N0, 0), [(0, N0)], ())


@pytest.mark.parametrize("n0", [1, 2, 10, 16, 17, 1_000])
def test_there_are_never_more_than_n0(n0):
    picks, asked = played(ask(n0=n0), ADAPTIVE, leads_clearly(2), np.arange(n0) % 2)
    assert sum(picks.counts) == n0
    assert asked[-1][1] == n0


def test_a_stage_keeps_its_looks_where_there_were_several():
    votes = np.r_[np.arange(16) % 2, np.zeros(84, int)]
    picks, asked = played(ask(), ADAPTIVE, leads_clearly(2), votes)
    assert asked == [(0, 16), (16, 32)]
    assert picks.stage.looks == ((8, 8), (16, 0))
    assert (picks.stage.counts, picks.stage.n) == ((24, 8), 32)


@pytest.mark.parametrize("first0", [-1, 1.5, "16", None, True])
def test_a_first_look_that_is_no_number_of_samples_is_refused(first0):
    with pytest.raises(RequestError, match="first0"):
        Sampling("adaptive", first0=first0)


def test_the_router_of_a_dual_selects_in_looks_too():
    rule = DualRule(SmoothedRule.gaussian(1.0, 2), tuple(SmoothedRule.gaussian(s, 3) for s in (0.25, 0.5)), "min")
    first = next(rule.certifying(n0=N0, n=1_000, alpha=0.01, sampling=ADAPTIVE))
    assert (first.stage, first.start, first.stop) == ("router/selection", 0, 16)


@pytest.mark.parametrize(("threshold", "looks"), [(0.5, 1), (0.9, 4)])
def test_a_level_of_a_cascade_is_looked_at_with_its_own_threshold(threshold, looks):
    """Fifteen of sixteen votes are clearly more than half, and not clearly more than nine tenths."""
    levels = (SmoothedRule.gaussian(1.0, 2, defers=True),)
    rule = CascadeRule(levels, SmoothedRule.gaussian(0.5, 2), threshold)
    procedure = rule.certifying(n0=N0, n=1_000, alpha=0.01, sampling=ADAPTIVE)
    asked, question = [], next(procedure)
    while question.role is Role.SELECTION and question.part == "level-0":
        asked.append(question.n)
        question = procedure.send((question.n - question.n // 16, 0, question.n // 16))
    assert asked == [16, 16, 32, 36][:looks]
