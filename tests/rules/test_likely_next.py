"""What a request says will be asked next is what its part is asked next, if it is asked anything more.

Of selection samples that are not clear yet, more may be asked for instead.
"""

import numpy as np
import pytest

from sigmax.rules.cascade.rule import CascadeRule
from sigmax.rules.certificate import Role
from sigmax.rules.procedure import VoteRequest
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.sampling import FIXED, Sampling
from sigmax.rules.smoothed import SmoothedRule

SAMPLINGS = {
    "fixed": FIXED,
    "the radius": Sampling("adaptive"),
    "one radius": Sampling("adaptive", targets=(0.2,)),
    "many radii": Sampling("adaptive", targets=(0.0, 0.2, 0.4, 0.8)),
}


def smoothed(sigma, *, classes=3, defers=False):
    return SmoothedRule.gaussian(sigma, classes, defers=defers)


def cascade():
    return CascadeRule((smoothed(1.0, defers=True), smoothed(0.5, defers=True)), smoothed(0.25))


RULES = {
    "smoothed": smoothed(0.5),
    "cascade": cascade(),
    "dual": DualRule(smoothed(0.5, classes=2), (smoothed(0.25), cascade())),
    "dual, min": DualRule(smoothed(0.5, classes=2), (smoothed(0.25), cascade()), "min"),
}


def asked(rule, sampling, seed):
    """Every request of one procedure, whose votes are drawn from shares of its part's own."""
    generator, shares = np.random.default_rng(seed), {}
    procedure = rule.certifying(n0=50, n=2_000, alpha=0.01, sampling=sampling)
    try:
        ask = next(procedure)
        while True:
            assert isinstance(ask, VoteRequest)
            yield ask
            own = shares.setdefault(ask.part, generator.dirichlet([0.3] * ask.classes))
            ask = procedure.send(tuple(generator.multinomial(ask.n, own).tolist()))
    except StopIteration:
        return


def samples(ask):
    return ask.part, ask.role, ask.classes, ask.noise, ask.start, ask.stop, ask.stream


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", RULES)
def test_what_is_foreseen_is_what_the_part_is_asked_next(name, sampling):
    foreseen_looks = foreseen_stages = 0
    for seed in range(20):
        last = {}
        for ask in asked(RULES[name], SAMPLINGS[sampling], seed):
            before = last.get(ask.part)
            foreseen = before and before.likely_next()
            more_selection = ask.role is Role.SELECTION and before
            if more_selection:
                assert (before.role, before.stop) == (Role.SELECTION, ask.start)
            elif foreseen:
                assert samples(foreseen) == samples(ask)
                foreseen_looks += before.role is Role.ESTIMATION
                foreseen_stages += before.role is Role.SELECTION
            elif before:
                assert (before.part, before.role) == ("router", Role.SELECTION)  # an expert comes between
            last[ask.part] = ask
    assert foreseen_stages
    assert foreseen_looks or sampling == "fixed"
