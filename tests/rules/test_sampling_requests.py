"""What may be asked of adaptive sampling, what an answer says of the question, and why sampling stopped early."""

import json

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax.rules.certificate import Outcome, Role, Stage
from sigmax.rules.replay import replay
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.sampling import LEAST_ALPHA
from sigmax.rules.smoothed import SmoothedRule


def shares(*probabilities):
    """A network whose votes have these shares, whatever the input: it looks at the noise alone."""
    edges = torch.tensor(probabilities).cumsum(0)[:-1]

    def network(batch):
        uniform = torch.special.ndtr(batch[:, 0] / 0.5)
        return torch.bucketize(uniform, edges)

    return sx.Smoothed(network, sigma=0.5, classes=len(probabilities))


def test_a_certificate_says_what_it_was_asked():
    (c,) = shares(0.9, 0.1).certify(torch.zeros(1, 2), n0=20, n=500, sampling="adaptive", targets=0.25)
    assert c.asked["n"] == 500
    assert c.asked["targets"] == [0.25]
    assert sx.Sampling(**{k: v for k, v in c.asked.items() if k not in ("n0", "n", "norm")}).targets == (0.25,)
    (c,) = shares(0.9, 0.1).certify(torch.zeros(1, 2), n0=20, n=500)
    assert c.asked == {"n0": 20, "n": 500, "norm": "l2", "kind": "fixed"}


@pytest.mark.parametrize(
    ("network", "question", "outcome"),
    [
        (shares(0.95, 0.05), {"targets": 1.2}, Outcome.CERTIFIED),  # some radius was proved on the way, if not 1.2
        (shares(0.4, 0.35, 0.25), {}, Outcome.NO_MAJORITY),
        (shares(0.52, 0.48), {"targets": 0.4}, Outcome.FUTILITY_STOP),
    ],
)
def test_an_early_end_says_why(network, question, outcome):
    (c,) = network.certify(torch.zeros(1, 2), n0=200, n=5_000, sampling="adaptive", **question)
    assert c.samples < 400
    assert c.outcome is outcome
    assert c.radius < 0.1


def test_a_router_that_was_not_needed_is_not_blamed():
    experts = tuple(SmoothedRule.gaussian(sigma=0.5, classes=2) for _ in range(2))
    rule = DualRule(SmoothedRule.gaussian(sigma=1.0, classes=2), experts)
    asked = sx.Sampling("adaptive", targets=(1.2,))
    procedure = rule.certifying(n0=10, n=1_000, alpha=1e-3, sampling=asked)
    question = next(procedure)
    try:
        while True:
            votes = (question.n - question.n // 5, question.n // 5)
            question = procedure.send(votes)
    except StopIteration as end:
        found = end.value
    assert found.outcome is Outcome.FUTILITY_STOP
    assert not any(stage.name == "router/estimation" for stage in found.stages)


def test_numbers_of_numpy_survive_a_file():
    sampling = sx.Sampling("adaptive", first=np.int64(64), tolerance=np.float32(0.25))
    assert json.loads(json.dumps(sampling.describe())) == sampling.describe()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"last": 1.0}, "last=1.0: no such schedule"),
        ({"cap": "x"}, "cap='x': no such schedule"),
        ({"cap": float("nan")}, "cap=nan: no such schedule"),
        ({"targets": np.array(0.5)}, "a list of radii"),
        ({"targets": b"1"}, "a list of radii"),
        ({"targets": {}}, "a list of radii"),
    ],
)
def test_an_impossible_schedule_is_refused(options, message):
    with pytest.raises(sx.RequestError, match=message):
        sx.Sampling("adaptive", **options)


def test_a_cap_from_outside_is_refused():
    with pytest.raises(sx.RequestError, match="cap, floor and wanted are set by schemes"):
        shares(0.9, 0.1).certify(torch.zeros(1, 2), n=500, sampling=sx.Sampling("adaptive", cap=0.5))


def test_too_small_an_alpha_is_refused_before_any_vote():
    with pytest.raises(sx.RequestError, match=f"use at least {LEAST_ALPHA:g}"):
        shares(0.9, 0.1).certify(torch.zeros(1, 2), n=500, alpha=1e-25, sampling="adaptive", targets=0.1)


def test_more_samples_than_bounds_were_measured_for_are_refused():
    with pytest.raises(sx.RequestError, match="from 1 to 1,000,000,000"):
        SmoothedRule.gaussian(sigma=0.5, classes=2).check_certify(n0=100, n=10**10, alpha=1e-3)


def test_a_look_without_votes_is_no_look():
    stage = Stage("", Role.SELECTION, 0.5, (10, 0), 10)
    forged = Stage("", Role.ESTIMATION, 0.5, (32, 0), 32, looks=((0, 0), (32, 0)))
    rule = SmoothedRule.gaussian(sigma=0.5, classes=2)
    asked = sx.Sampling("adaptive", targets=(0.1,))
    found = replay(rule.certifying(n0=10, n=1_000, alpha=1e-3, sampling=asked), (stage, forged))
    assert found.stages[1].looks != forged.looks  # which verification reports
