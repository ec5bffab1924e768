"""Every number by hand: the radius of k votes is scipy's, the rest is written out.

# five inputs, true class 1, sent to expert 0 of (sigma 0.5, sigma 1); a router with sigma 1
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sigmax import RequestError
from sigmax.records.run import Run
from sigmax.report import acr, best_over_sigma, compare, diagnose, routing
from sigmax.report.compare.diagnosis import route_shares
from sigmax.report.metrics.radii import true_radii
from sigmax.rules.certificate import Role
from sigmax.rules.lipschitz import LipschitzRule
from sigmax.rules.routed.rule import DualRule
from tests.report.duals import (
    ALPHA,
    CONSENSUS,
    HIGH,
    LOW,
    MINIMUM,
    ROUTER,
    Answers,
    reach,
    routed,
    run_of,
    seen,
    under,
    votes,
)

FOR_ROUTER, FOR_EXPERT = ALPHA / 2, ALPHA / 4  # of two experts, by the rule "consensus"

# router's votes for route 0; class and votes of the expert with little noise, of the one with much
CASES: list[tuple[int, tuple[int, int], tuple[int, int]]] = [
    (990, (1, 900), (1, 995)),  # sure of the route: the expert limits, and the other one would do better
    (600, (1, 950), (1, 700)),  # near the other route, whose expert agrees, but not as far
    (600, (1, 950), (2, 700)),  # the other expert disagrees
    (990, (2, 950), (1, 700)),  # the expert in charge is wrong
    (990, (1, 510), (1, 700)),  # the expert in charge is undecided
]


def inputs(*, dual: bool = False, expert: int = 0) -> list[tuple[int, Answers]]:
    """The five inputs as the dual system or one expert alone meets them."""
    if dual:
        return [(1, routed(0, k, votes(*low), votes(*high))) for k, low, high in CASES]
    return [(1, votes(*case[1 + expert])) for case in CASES]


@pytest.fixture
def low() -> Run:
    return run_of(LOW, inputs(expert=0), name="low")


@pytest.fixture
def high() -> Run:
    return run_of(HIGH, inputs(expert=1), name="high")


@pytest.fixture
def dual() -> Run:
    return run_of(CONSENSUS, inputs(dual=True), name="dual")


def test_every_column_by_hand(dual: Run, low: Run, high: Run) -> None:
    frame = diagnose(dual, [low, high]).frame
    own = [reach(900, 0.5, FOR_EXPERT), *2 * [reach(950, 0.5, FOR_EXPERT)], 0.0, 0.0]
    other = [reach(995, 1.0, FOR_EXPERT), reach(700, 1.0, FOR_EXPERT), 0.0, *2 * [reach(700, 1.0, FOR_EXPERT)]]
    near = [*(reach(k, 1.0, FOR_ROUTER) for k, *_ in CASES[:4]), np.nan]  # asked only where the expert certifies
    final = [own[0], other[1], near[2], 0.0, 0.0]
    best = [max(pair) for pair in zip(own, other, strict=True)]
    expected = {
        "R_sigma": near,
        "R_c": own,
        "radius": final,
        "dRs": np.subtract(near, own),
        "R_best": best,
        "dRc": np.subtract(best, own),
    }
    for column, values in expected.items():
        assert frame[column].to_numpy() == pytest.approx(np.asarray(values), abs=1e-9, nan_ok=True), column
    assert frame["index"].tolist() == [0, 1, 2, 3, 4]
    assert frame["label"].tolist() == [1] * 5
    assert frame["route"].tolist() == [0] * 5
    assert frame["bottleneck"].tolist() == [False, True, True, False, False]
    assert frame["asked"].tolist() == [1, 2, 2, 1, 1]


def test_the_summary_by_hand(dual: Run, low: Run, high: Run) -> None:
    found = diagnose(dual, [low, high])
    lost = [
        reach(995, 1.0, FOR_EXPERT) - reach(900, 0.5, FOR_EXPERT),
        *2 * [reach(700, 1.0, FOR_EXPERT)],
    ]
    assert found.frame["dRc"].mean() == pytest.approx(sum(lost) / 5)
    assert route_shares(found.frame, routes=2).tolist() == [1.0, 0.0]
    assert acr(found.run) == acr(dual)
    best = [reach(995, 1.0, FOR_EXPERT), *2 * [reach(950, 0.5, FOR_EXPERT)], *2 * [reach(700, 1.0, FOR_EXPERT)]]
    assert found.oracle.acr == pytest.approx(sum(best) / 5)


def test_the_envelope_by_hand(dual: Run, low: Run, high: Run) -> None:
    """At the runs' own alpha: little noise is right on 3 of 5 up to 0.555, much noise on 4 up to 0.395, then 1."""
    near, mid, far = reach(700, 1.0, ALPHA), reach(950, 0.5, ALPHA), reach(995, 1.0, ALPHA)
    radii = [0.0, near - 1e-9, near + 1e-9, reach(900, 0.5, ALPHA) + 1e-9, mid + 1e-9, far + 1e-9]
    assert best_over_sigma([low, high], radii)["accuracy"].tolist() == [0.8, 0.8, 0.6, 0.4, 0.2, 0.0]
    area = 0.8 * near + 0.6 * (reach(900, 0.5, ALPHA) - near)
    area += 0.4 * (mid - reach(900, 0.5, ALPHA)) + 0.2 * (far - mid)
    found = diagnose(dual, [low, high])
    assert found.envelope.acr == pytest.approx(area)
    # Certified by the dual run: 0.547, 0.379, 0.120.
    assert found.over_envelope([0.0, 0.1, 0.3, 0.5, 1.0, 9.0]).tolist() == pytest.approx(
        [3 / 4, 3 / 4, 2 / 4, 1 / 3, 0.0, np.nan], nan_ok=True
    )


def test_the_experts_are_held_to_the_dual_systems_part_of_alpha(low: Run, high: Run) -> None:
    for run, k, sigma in ((low, 900, 0.5), (high, 995, 1.0)):
        recorded, held = true_radii(run), true_radii(run, alpha=FOR_EXPERT)
        assert recorded[0] == pytest.approx(reach(k, sigma, ALPHA))
        assert held[0] == pytest.approx(reach(k, sigma, FOR_EXPERT))
        assert np.all((held < recorded) | (recorded == 0))


def test_a_near_route_limits_nothing_where_its_expert_agrees() -> None:
    answers = votes(1, 950), votes(1, 995)
    dual = run_of(CONSENSUS, [(1, routed(0, 600, *answers))], name="dual")
    experts = [
        run_of(rule, [(1, one)], name=name)
        for rule, one, name in zip((LOW, HIGH), answers, ("low", "high"), strict=True)
    ]
    row = diagnose(dual, experts).frame.iloc[0]
    assert row["dRs"] < 0
    assert row["radius"] == row["R_c"] == pytest.approx(reach(950, 0.5, FOR_EXPERT))
    assert not row["bottleneck"]


def test_luckier_samples_of_the_same_expert_are_no_better_choice(dual: Run, low: Run, high: Run) -> None:
    """The expert's own run certifies more on input 1 than the dual run's samples did: the choice was still right."""
    lucky = [(1, votes(1, 990)) if i == 1 else one for i, one in enumerate(inputs(expert=0))]
    frame = diagnose(dual, [run_of(LOW, lucky, name="low"), high]).frame
    assert frame["dRc"].iloc[1] == 0
    assert frame["R_best"].iloc[1] == frame["R_c"].iloc[1]


def test_an_undecided_router_by_the_published_rule(low: Run, high: Run) -> None:
    """The expert is asked first, at alpha/2, and its radius is known though the run abstains."""
    cases = [(1, routed(0, 510, votes(1, 950))), (1, routed(0, 600, votes(1, 950)))]
    dual = run_of(MINIMUM, cases, name="dual", first=1)
    frame = diagnose(dual, [low, high]).frame
    assert frame["index"].tolist() == [1, 2]
    assert frame["asked"].tolist() == [1, 1]
    assert frame["R_c"].to_numpy() == pytest.approx(reach(950, 0.5, ALPHA / 2))
    assert frame["dRs"].to_numpy() == pytest.approx(np.array([0, reach(600, 1, ALPHA / 2)]) - frame["R_c"])
    assert frame["radius"].to_numpy() == pytest.approx([0, reach(600, 1, ALPHA / 2)])
    assert frame["bottleneck"].tolist() == [True, True]


def test_an_undecided_router_limits_nothing_where_the_expert_certifies_nothing() -> None:
    dual = run_of(MINIMUM, [(1, routed(0, 510, votes(1, 510)))], name="dual", first=4)
    assert routing(dual)["bottleneck"].tolist() == [False]


def test_the_share_of_every_route(low: Run, high: Run) -> None:
    cases = [(1, routed(route, 990, votes(1, 900), votes(1, 900))) for route in (1, 0, 1, 1, 1)]
    found = diagnose(run_of(CONSENSUS, cases, name="dual"), [low, high])
    assert route_shares(found.frame, routes=2).to_dict() == {0: 0.2, 1: 0.8}
    assert found.frame["R_c"].iloc[0] == pytest.approx(reach(900, 1.0, FOR_EXPERT))
    assert found.frame["R_c"].iloc[1] == pytest.approx(reach(900, 0.5, FOR_EXPERT))


# ---- which runs go together ------------------------------------------------------------------------


def test_experts_are_found_by_their_fingerprints_in_any_order(dual: Run, low: Run, high: Run) -> None:
    stranger = run_of(HIGH, inputs(expert=0), name="stranger")
    found = diagnose(dual, [stranger, high, low])
    assert [run.path.name for run in found.experts] == ["low.jsonl", "high.jsonl"]


def test_of_two_runs_of_an_expert_the_one_like_the_dual_run_is_taken(dual: Run, low: Run, high: Run) -> None:
    other = replace(low, path=low.path.with_name("few.jsonl"), plan=replace(low.plan, n=500))
    elsewhere = replace(low, plan=replace(low.plan, data={**low.plan.data, "fingerprint": "beef"}))
    assert diagnose(dual, [elsewhere, other, high, low]).experts[0] == low


def test_missing_experts_are_named(dual: Run, low: Run) -> None:
    with pytest.raises(RequestError, match=r"none was given of expert 1 \(smoothed, sigma 1; fingerprint high\)"):
        diagnose(dual, [low])
    with pytest.raises(RequestError, match=r"of expert 0 .*, expert 1 "):
        diagnose(dual, [])
    silent = replace(dual, plan=replace(dual.plan, made_with={}))
    with pytest.raises(RequestError, match="fingerprint not stated"):
        diagnose(silent, [low])


def test_a_run_without_a_router(low: Run, high: Run) -> None:
    for ask in (lambda: diagnose(low, [high]), lambda: routing(low)):
        with pytest.raises(RequestError, match="expected a run of a dual system, got one of the scheme 'smoothed'"):
            ask()


def test_other_data_are_refused(dual: Run, low: Run, high: Run) -> None:
    data = {"name": "digits", "split": "train", "fingerprint": "beef"}
    other = run_of(HIGH, inputs(expert=1), name="high", data=data)
    with pytest.raises(
        RequestError, match=r"dual.jsonl of digits test \(fingerprint f00d\), high.jsonl of digits train"
    ):
        diagnose(dual, [low, other])


def test_other_inputs_are_refused(dual: Run, low: Run) -> None:
    with pytest.raises(RequestError, match="no input is held by all of dual.jsonl, low.jsonl, high.jsonl"):
        diagnose(dual, [low, run_of(HIGH, inputs(expert=1), name="high", first=5)])


def test_other_labels_are_other_data(low: Run) -> None:
    nameless = {"name": "not stated", "split": "", "fingerprint": None}
    other = run_of(HIGH, [(2, votes(1, 900))], name="high", data=nameless, first=2)
    with pytest.raises(RequestError, match="input 2 has the label 1 in low.jsonl and 2 in high.jsonl"):
        best_over_sigma([low, other], 0.0)


def test_only_shared_inputs_count(dual: Run, low: Run) -> None:
    high = run_of(HIGH, inputs(expert=1)[2:], name="high", first=2)
    found = diagnose(dual, [low, high])
    assert found.frame["index"].tolist() == [2, 3, 4]
    assert len(found.run.records) == found.oracle.inputs == found.envelope.inputs == 3
    assert acr(found.run) == pytest.approx(reach(600, 1.0, FOR_ROUTER) / 3)


# ---- other kinds of expert -------------------------------------------------------------------------


def test_a_deterministic_expert() -> None:
    """It leaves its part of alpha to the other, and reads the same at any alpha."""
    exact = LipschitzRule(constant=1.0, classes=3)
    rule = DualRule(ROUTER, (exact, HIGH), "consensus")
    answers = seen(1, 1.0), votes(1, 700)
    dual = run_of(rule, [(1, routed(0, 990, *answers)), (1, routed(1, 990, *answers))], name="dual")
    low, high = run_of(exact, [(1, answers[0])] * 2, name="low"), run_of(HIGH, [(1, answers[1])] * 2, name="high")
    frame = diagnose(dual, [low, high]).frame
    certain = float(true_radii(low)[0])
    assert certain == pytest.approx(0.5**0.5, rel=1e-3)
    assert frame["R_c"].to_numpy() == pytest.approx([certain, reach(700, 1.0, ALPHA / 2)])
    assert frame["dRc"].to_numpy() == pytest.approx([0, certain - reach(700, 1.0, ALPHA / 2)])


NESTED = DualRule(ROUTER, (CONSENSUS, HIGH), "consensus")


def nested(inner: Answers, outer: Answers, **plan: Any) -> tuple[Run, Run, Run]:
    """A dual system whose expert 0 is dual itself, and the runs of its experts."""
    dual = run_of(NESTED, [(1, routed(0, 990, inner, outer))], name="dual", **plan)
    return dual, run_of(CONSENSUS, [(1, inner)], name="low"), run_of(HIGH, [(1, outer)], name="high")


def test_an_expert_that_is_itself_dual() -> None:
    """Its alpha/4 is shared again: half for its router, a quarter of it for each of its experts."""
    dual, low, high = nested(routed(0, 600, votes(1, 950), votes(1, 700)), votes(1, 995))
    found = diagnose(dual, [low, high])
    row = found.frame.iloc[0]
    assert row["asked"] == 1
    assert row["R_c"] == pytest.approx(reach(700, 1.0, FOR_EXPERT / 4))
    assert row["R_best"] == pytest.approx(reach(995, 1.0, FOR_EXPERT))
    inner = routing(low).iloc[0]
    assert (inner["asked"], inner["R_sigma"]) == (2, pytest.approx(reach(600, 1.0, FOR_ROUTER)))


def test_an_expert_that_the_inner_router_did_not_ask_counts_as_undecided() -> None:
    """Its run at the whole alpha has the inner route further off than the radius; at a quarter it is nearer."""
    inner = routed(0, 687, votes(1, 802), votes(1, 995))
    dual, low, high = nested(inner, votes(1, 700))
    assert reach(687, 1.0, ALPHA / 2) > reach(802, 0.5, ALPHA / 4)
    assert reach(687, 1.0, ALPHA / 8) < reach(802, 0.5, ALPHA / 16)
    assert {stage.part for stage in low.records[0].certificate.stages} == {"router", "expert-0"}
    assert true_radii(low) == pytest.approx(reach(802, 0.5, ALPHA / 4))
    assert true_radii(low, alpha=ALPHA / 4) == pytest.approx(reach(687, 1.0, ALPHA / 8))
    assert diagnose(dual, [low, high]).oracle.acr == pytest.approx(reach(700, 1.0, ALPHA / 4))


def test_a_record_that_lost_its_votes_is_refused(dual: Run, low: Run, high: Run) -> None:
    def without(run: Run, role: Role) -> Run:
        record = run.records[0]
        kept = tuple(stage for stage in record.certificate.stages if role is not stage.role)
        return replace(run, records=(replace(record, certificate=replace(record.certificate, stages=kept)),))

    with pytest.raises(RequestError, match="input 0 has no votes that pick a route"):
        routing(without(dual, Role.SELECTION))
    longer = replace(dual.records[0].certificate.stages[0], counts=(0, 0, 10))
    forged = replace(dual.records[0].certificate, stages=(longer, *dual.records[0].certificate.stages[1:]))
    with pytest.raises(RequestError, match="the router has 2 routes, but its votes are on 3"):
        routing(replace(dual, records=(replace(dual.records[0], certificate=forged),)))
    with pytest.raises(RequestError, match="lacks classes, router, experts"):
        compare(replace(dual, plan=replace(dual.plan, rule={"scheme": "dual", "rule": "min"})))
    with pytest.raises(RequestError, match="no stage 'estimation'"):
        true_radii(without(low, Role.ESTIMATION), alpha=ALPHA / 2)
    with pytest.raises(RequestError, match="no stage 'router/selection'"):
        true_radii(without(dual, Role.SELECTION), alpha=ALPHA)
    assert true_radii(without(dual, Role.ESTIMATION), alpha=ALPHA).tolist() == [0.0], "not asked proves nothing"


def test_prefixes_are_whole_names() -> None:
    """Route 1 is not taken for route 10."""
    rule = DualRule(replace(ROUTER, classes=11), (LOW,) * 11, "min")
    answers = {
        **under("router", votes(10, 990, classes=11)),
        **under("expert-10", votes(1, 900)),
        **under("expert-1", votes(1, 600)),
    }
    frame = routing(run_of(rule, [(1, answers)], name="dual"))
    assert frame["route"].tolist() == [10]
    assert frame["R_c"].to_numpy() == pytest.approx(reach(900, 0.5, ALPHA / 2))
