"""The cascade: exact chances of error, what each budget is worth, thresholds, and how its runs look to others."""

from functools import cache

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm

import sigmax as sx
from sigmax.certify.multiscale_rule import MultiscaleRule
from sigmax.certify.rebuild import rebuild
from sigmax.records.export import export_tsv
from sigmax.records.field import read_log
from sigmax.records.lines import decode, encode
from sigmax.report.notes import on_run
from sigmax.report.schemes import in_words
from tests.certify.helpers import every_ending, feed, random_answers, slabs, splits
from tests.certify.schemes import linear

SIGMAS = (0.25, 0.5, 1.0)


@cache
def shares(edges, sigma: float, x: float) -> np.ndarray:
    return np.diff(norm.cdf([-np.inf, *edges, np.inf], x, sigma))


def named(rule: MultiscaleRule, edges, x: float) -> int | None:
    """The class that the cascade truly names at x."""
    for scale in rule.scales:
        p = shares(edges, scale.sigma, x)
        if p.max() > scale.threshold:
            return int(p.argmax())
    return None


def true_radius(rule: MultiscaleRule, edges, x: float, label: int) -> float:
    """Distance to the nearest point where something else is named, on a fine grid (from below)."""
    for r in np.arange(0.0, 4.0, 0.002):
        if named(rule, edges, x - r) != label or named(rule, edges, x + r) != label:
            return r
    return 4.0


def chance(path, rule, edges, x: float) -> float:
    """The probability of these answers, all of them."""
    p = 1.0
    for ask, counts in path:
        scale = rule.scales[int(ask.stage[6])]
        p *= multinomial(counts, shares(edges, scale.sigma, x))
    return p


def multinomial(counts, p) -> float:
    value, left, rest = 1.0, sum(counts), 1.0
    for k, share in zip(counts[:-1], p[:-1], strict=True):
        value *= binom.pmf(k, left, min(1.0, share / rest)) if rest > 0 else 1.0
        left, rest = left - k, rest - share
    return float(value)


CASES = [  # thresholds, edges of the slabs, input
    ((0.5, 0.5), (0.0,), 0.05),
    ((0.5, 0.5), (-0.15, 0.15), 0.0),
    ((0.5, 0.6), (-0.3, 0.3), 0.25),
    ((0.7, 0.7), (0.0,), 0.2),
    ((0.55, 0.65), (-0.2, 0.4), 0.1),
]


@pytest.mark.parametrize(("thresholds", "edges", "x"), CASES)
def test_the_chance_of_a_wrong_claim_is_at_most_alpha_exactly(thresholds, edges, x):
    """Every way that the votes can fall, with its probability."""
    alpha, classes = 0.5, len(edges) + 1
    rule = MultiscaleRule((0.25, 0.5), classes, thresholds)
    draws = {"n0": 1, "n": 14 if classes == 2 else 5, "alpha": alpha}
    truth = {c: true_radius(rule, edges, x, c) for c in range(classes)}
    total = wrong = claimed = 0.0
    for path, certificate in every_ending(
        lambda: rule.certifying(**draws), lambda question: splits(question.n, question.classes)
    ):
        p = chance(path, rule, edges, x)
        total += p
        if certificate.predicted is not None:
            claimed += p
            wrong += p * (certificate.radius > truth[certificate.predicted] + 0.002)
    assert total == pytest.approx(1.0)
    assert wrong <= alpha
    assert claimed > 0


def test_the_released_budget_errs_more_often_than_alpha_and_the_sound_one_does_not():
    """At both scales the class lies a hair below the threshold: to name it is wrong, exactly binomially often."""
    alpha, n, x = 0.05, 4_000, 0.1
    p = [norm.cdf(x / sigma) for sigma in (0.25, 0.5, 1.0)]
    for budget, most in (("released", None), ("sound", alpha)):
        rule = MultiscaleRule(SIGMAS, 2, tuple(share + 1e-9 for share in p), budget)
        missed = 1.0
        for scale, grant, share in zip(rule.scales, rule.grants(alpha), reversed(p), strict=True):
            k = np.arange(n + 1)
            names = sx.bounds.lower(k, np.full(n + 1, n), np.full(n + 1, grant.naming)) > scale.threshold
            missed *= 1 - binom.sf(k[names][0] - 1, n, share)
        error = 1 - missed
        assert error > 1.5 * alpha if most is None else error <= most


def test_what_the_bounds_are_paid():
    assert sum(a + b for a, b in MultiscaleRule(SIGMAS, 10, 0.5, "released").grants(0.03)) == pytest.approx(
        0.08  # 2.67 times alpha
    )
    grants = MultiscaleRule(SIGMAS, 10).grants(0.03)
    assert np.array(grants) == pytest.approx(np.array([[0.006, 0.006], [0.006, 0.006], [0.006, 0.0]]))
    assert sum(map(sum, grants)) <= 0.03


def test_the_published_radius():
    """Passed at sigma 1, named at 0.5: the smaller of the two bounds' radii, at a fifth of alpha each."""
    rule = MultiscaleRule(SIGMAS, 3)
    votes = {
        "scale-0/selection": (5, 3, 2),
        "scale-0/estimation": (100, 300, 600),
        "scale-1/selection": (0, 10, 0),
        "scale-1/estimation": (50, 930, 20),
    }
    passing = rule.scales[0].noise * -norm.ppf(sx.bounds.upper(600, 1_000, 0.001 / 5))
    assert passing < 0  # the rival has most of the votes
    found, _ = feed(rule.certifying(n0=10, n=1_000, alpha=0.001), lambda q: votes[q.stage])
    assert (found.predicted, found.radius, found.outcome) == (None, 0.0, sx.Outcome.SCALE_UNDECIDED)
    votes["scale-0/estimation"] = (360, 320, 320)
    found, asked = feed(rule.certifying(n0=10, n=1_000, alpha=0.001), lambda q: votes[q.stage])
    first = -norm.ppf(sx.bounds.upper(360, 1_000, 0.001 / 5))
    second = 0.5 * norm.ppf(sx.bounds.lower(930, 1_000, 0.001 / 5))
    assert found.predicted == 1
    assert found.radius == pytest.approx(min(first, second), rel=1e-12)
    assert found.sigma == 0.5
    assert found.draws == 2_020
    assert [q.stage for q in asked] == list(votes)


def test_an_undecided_scale_does_not_stop_the_only_class_it_could_name():
    rule = MultiscaleRule((0.5, 1.0), 2)
    votes = {"scale-0/estimation": (500, 500), "scale-1/estimation": (1, 999)}
    split = {**votes, "scale-0/selection": (5, 5), "scale-1/selection": (0, 10)}
    found, _ = feed(rule.certifying(n0=10, n=1_000, alpha=0.001), lambda q: split[q.stage])
    assert found.outcome is sx.Outcome.SCALE_UNDECIDED  # two classes: the other one may have half
    three = MultiscaleRule((0.5, 1.0), 3)
    split = {
        "scale-0/selection": (2, 8, 0),
        "scale-0/estimation": (300, 500, 200),
        "scale-1/selection": (0, 10, 0),
        "scale-1/estimation": (0, 999, 1),
    }
    found, _ = feed(three.certifying(n0=10, n=1_000, alpha=0.001), lambda q: split[q.stage])
    assert found.predicted == 1
    assert found.radius == pytest.approx(-norm.ppf(sx.bounds.upper(300, 1_000, 0.001 / 3)), rel=1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_adaptive_sampling_claims_what_its_looks_prove(seed):
    """Never more than n draws a stage, never more than the largest radius, and the same again from the record."""
    rule = MultiscaleRule(SIGMAS, 4, (0.5, 0.55, 0.6))
    sampling = sx.certify.sampling.Sampling("adaptive", targets=(0.1, 0.4))
    draws = {"n0": 20, "n": 2_000, "alpha": 0.01}
    answers = random_answers(seed, peaked=0.3)
    found, _ = feed(rule.certifying(**draws, sampling=sampling), answers)
    assert all(stage.n <= 2_000 for stage in found.stages)
    assert found.radius <= rule.largest_radius(n=2_000, alpha=0.01, sampling=sampling)
    replayed = sx.certify.procedure.replay(rule.certifying(**draws, sampling=sampling), found.stages)
    assert replayed == found


def test_higher_thresholds_leave_more_to_the_smaller_scales():
    x = torch.linspace(-1.5, 1.5, 40)[:, None]
    draws = {"n0": 50, "n": 1_000, "alpha": 0.01}
    low, high = (
        sx.Multiscale(slabs([1.0], (0.0,)), sigmas=SIGMAS, classes=2, thresholds=t).certify(x, **draws)
        for t in (0.5, 0.8)
    )
    assert np.mean([c.sigma for c in high]) < np.mean([c.sigma for c in low])


def test_a_network_for_each_scale_votes_at_its_own():
    class Net(torch.nn.Module):
        takes_sigma = True

        def __init__(self, sigma):
            super().__init__()
            self.told, self.sigma = set(), sigma

        def forward(self, batch, sigma):
            self.told.add(sigma)
            return torch.stack([batch[:, 0] * 0, batch[:, 0] * 0 + self.sigma - 0.3], 1)

    nets = [Net(sigma) for sigma in SIGMAS]
    f = sx.Multiscale(nets, sigmas=SIGMAS, classes=2)
    (found,) = f.certify(torch.zeros(1, 2), n0=10, n=100, alpha=0.05)
    assert found.predicted == 1
    assert [net.told for net in nets] == [{0.25}, {0.5}, {1.0}]
    with pytest.raises(sx.RequestError, match="one for each of the 3 sigmas in their order; got 2"):
        sx.Multiscale(nets[:2], sigmas=SIGMAS, classes=2)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"sigmas": (0.5, 0.25)}, "strictly rising"),
        ({"sigmas": (0.5,)}, "at least two noise levels"),
        ({"sigmas": 0.5}, "at least two noise levels"),
        ({"sigmas": (0.25, "1")}, "at least two noise levels"),
        ({"sigmas": (-1, 1)}, "sigma must be a positive number"),
        ({"thresholds": 0.4}, "from 0.5 to below 1"),
        ({"thresholds": (0.5, 0.5)}, "one for each of the 3 sigmas"),
        ({"thresholds": "0.5"}, "from 0.5 to below 1"),
        ({"budget": "generous"}, "budget must be one of sound, released"),
        ({"classes": 1}, "at least 2"),
    ],
)
def test_a_cascade_that_is_none_is_refused(changes, named):
    told = {"sigmas": SIGMAS, "classes": 10, **changes}
    with pytest.raises(sx.RequestError, match=named):
        sx.Multiscale(linear(), **told)
    described = {"scheme": "multiscale", "thresholds": 0.5, "budget": "sound", **told}
    with pytest.raises(sx.RequestError, match=named):
        rebuild(described)


# The released budget: marked wherever it is met


def released(path):
    f = sx.Multiscale(linear(), sigmas=SIGMAS, classes=10, budget="released")
    return f, sx.certify_run(f, sx.data.load("digits"), path, n0=20, n=200, alpha=0.01, maximum=40)


def test_unsound_radii_say_so(tmp_path):
    f, run = released(tmp_path / "run.jsonl")
    assert "not sound" in repr(f)
    claims = [r.certificate for r in run.records if r.certificate.radius]
    assert claims
    assert {c.outcome for c in claims} == {sx.Outcome.UNSOUND}
    assert all(not c.ledger for c in claims)
    assert run.plan.rule["budget"] == "released"
    assert "NOT SOUND" in on_run(run)[0]
    assert "not sound" in in_words(run.plan.rule)
    assert sx.verify(run.path).holds
    sx.report.write([run], tmp_path / "report")
    assert "NOT SOUND" in (tmp_path / "report" / "report.md").read_text()
    for name in ("table.md", "table.csv"):
        assert "run (not sound)" in (tmp_path / "report" / name).read_text()
    assert sx.report.compare([run])["name"].tolist() == ["run (not sound)"]
    alike = run.path.with_name("run (not sound).jsonl")  # a file may be called so; no run is lost for it
    alike.write_bytes(run.path.read_bytes())
    assert len(sx.report.compare([run, alike])) == 2
    legend = sx.report.draw([run]).get_legend_handles_labels()[1]
    assert any("run (not sound)" in label for label in legend)


def test_unsound_radii_cannot_pass_for_certificates(tmp_path):
    f, run = released(tmp_path / "run.jsonl")
    lines = run.path.read_bytes().splitlines(keepends=True)
    plan = decode(lines[0])
    lines[0] = encode({**plan, "rule": {**plan["rule"], "budget": "sound"}})
    run.path.write_bytes(b"".join(lines))
    assert not sx.verify(run.path).holds
    router = sx.Smoothed(linear(2), sigma=1.0, classes=2)
    with pytest.raises(sx.RequestError, match="proves nothing"):
        sx.Dual(router, [f, f])
    with pytest.raises(sx.RequestError, match="proves nothing"):
        rebuild(
            {
                "scheme": "dual",
                "rule": "min",
                "classes": 10,
                "router": dict(router.rule.describe()),
                "experts": [dict(f.rule.describe())] * 2,
            }
        )
    with pytest.raises(sx.RequestError, match="use sampling='fixed'"):
        f.certify(torch.rand(1, 1, 8, 8), sampling="adaptive")


def test_the_authors_table(tmp_path):
    sigmas = (0.05, 0.1, 0.2)
    f = sx.Multiscale(linear(), sigmas=sigmas, classes=10)
    draws = {"n0": 20, "n": 200, "alpha": 0.01}
    run = sx.certify_run(f, sx.data.load("digits"), tmp_path / "run.jsonl", **draws, maximum=60)
    export_tsv(run, tmp_path / "run.tsv")
    header, *rows = (line.split("\t") for line in (tmp_path / "run.tsv").read_text().splitlines())
    assert header == "idx label predict radius r_neg correct pred_uc corr_uc stage time".split()
    told = [dict(zip(header, row, strict=True)) for row in rows]
    assert {row["stage"] for row in told} == {"0", "1", "2"}
    assert "-2" in {row["predict"] for row in told}
    for row, record in zip(told, sorted(run.records, key=lambda record: record.index), strict=True):
        c = record.certificate
        assert sigmas[2 - int(row["stage"])] == c.sigma
        assert (row["r_neg"] == "inf") == (row["stage"] == "0")
        assert float(row["radius"]) <= min(c.radius, float(row["r_neg"]))
        if c.predicted is not None:
            assert row["pred_uc"] == row["predict"] == str(c.predicted)
    back = read_log(tmp_path / "run.tsv", sigma=sigmas, n=200, alpha=0.01)
    assert {r.index: r.certificate.predicted for r in back.records} == {
        r.index: r.certificate.predicted for r in run.records
    }
