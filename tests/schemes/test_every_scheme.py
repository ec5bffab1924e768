"""What holds for every scheme: sound where the truth is known, recorded, verified, resumed, kept, guarded."""

import json
import math
import re

import pytest
import torch
from scipy import stats

import sigmax as sx
from sigmax.records.export import export_parquet, export_tsv
from sigmax.records.lines import decode, encode
from sigmax.rules.registry import check_part
from sigmax.systems import fingerprint
from tests.schemes.helpers import own_schemes
from tests.schemes.schemes import DIM, GRID, TABLE, Halfspace, linear, registered, smoothed, uniform

POINTS, ALPHA = 200, 0.05
SAMPLES = {"n0": 20, "n": 150, "alpha": ALPHA}
NAMES = list(TABLE)
KNOWN = [name for name, row in TABLE.items() if row.known]
DRAWING = [name for name, row in TABLE.items() if row.least_samples]
SAMPLINGS = {
    "fixed": {},
    "adaptive": {"sampling": "adaptive"},
    "targets": {"sampling": "adaptive", "targets": (0.02, 0.1, 0.3)},
}


class KilledError(Exception):
    """The run is over before its time."""


def known_inputs():
    """Points far from each other at known distances from the edge of a half-space."""
    generator = torch.Generator().manual_seed(5)
    x = 4 * torch.randn(POINTS, DIM, generator=generator)
    normal = Halfspace(DIM).normal
    margins = torch.rand(POINTS, generator=generator) * 1.2
    x += (margins - x @ normal)[:, None] * normal
    return x, (x.double() @ normal.double()).tolist()


def pictures(count, height=8):
    """Images on the grid that some schemes need."""
    return torch.randint(0, GRID + 1, (count, 1, height, 8), generator=torch.Generator().manual_seed(0)) / GRID


def slowly(name: str, sampling: str):
    """The searches and fields of some schemes take their time with every kind of sampling."""
    slow = name.startswith(("semi-elastic", "memorized")) and sampling != "fixed"
    return pytest.param(name, sampling, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize(("name", "sampling"), [slowly(name, sampling) for name in KNOWN for sampling in SAMPLINGS])
def test_no_certificate_reaches_beyond_the_truth_more_often_than_alpha(name, sampling):
    row, (x, margins) = TABLE[name], known_inputs()
    found = row.build(Halfspace(DIM), 2).certify(x, **SAMPLES, **SAMPLINGS[sampling])
    wrong = sum(
        c.predicted is not None and (c.predicted != 1 or c.radius > row.stretch * away - row.slack)
        for c, away in zip(found, margins, strict=True)
    )
    assert stats.binomtest(wrong, POINTS, ALPHA, alternative="greater").pvalue > 1e-4, wrong
    assert sum(c.radius > 0 for c in found) > POINTS / 4, "a scheme that abstains is sound and useless"
    for c in found:
        assert c.alpha == ALPHA
        assert (c.predicted is None) == (c.radius == 0)
        assert math.fsum(entry.alpha for entry in c.ledger) <= ALPHA * (1 + 1e-12)


def test_every_registered_scheme_has_a_row():
    built = {row.build(linear(), 10).rule.describe()["scheme"] for row in TABLE.values()}
    assert built == set(own_schemes())


@pytest.mark.parametrize("name", KNOWN)
def test_a_sentence_says_what_limits_the_radius(name):
    """Radii and lower bounds are printed rounded down, upper bounds up."""
    row, (x, _) = TABLE[name], known_inputs()
    found = row.build(Halfspace(DIM), 2).certify(x[:30], **SAMPLES)
    for c in found:
        said, stage = c.explain(), c.limit
        assert stage is not None
        assert said.count(". ") == 0
        assert said.endswith(".")
        assert stage.role in said
        assert stage.part in said
        if c.predicted is None:
            assert said.startswith(f"Abstained ({c.outcome.name.lower()})")
            continue
        assert said.startswith(f"Class {c.predicted} within radius ")
        assert c.radius - 1e-4 < number(said, "radius ") <= c.radius
        if stage.lower is not None:
            assert stage.lower - 1e-4 < number(said, "p_A >= ") <= stage.lower
        if stage.upper is not None:
            assert stage.upper + 1e-4 > number(said, "every other p <= ") >= stage.upper
    (torn,) = row.build(Halfspace(DIM), 2).certify(torch.zeros(1, DIM), **SAMPLES)
    assert (torn.predicted, torn.radius) == (None, 0.0)
    assert torn.outcome.advice in torn.explain()


def number(text: str, after: str) -> float:
    return float(re.match(r"[\d.]+\d", text.partition(after)[2]).group())


@pytest.mark.parametrize("name", KNOWN)
def test_predictions_are_wrong_no_more_often_than_alpha(name):
    row, (x, margins) = TABLE[name], known_inputs()
    found = row.build(Halfspace(DIM), 2).predict(x, n=150, alpha=ALPHA, seed=1)
    # Where the truth is no class at all, to name one is wrong as well.
    wrong = sum(
        p.predicted is not None and (p.predicted != 1 or away < row.slack)
        for p, away in zip(found, margins, strict=True)
    )
    assert stats.binomtest(wrong, POINTS, ALPHA, alternative="greater").pvalue > 1e-4, wrong
    assert sum(p.predicted == 1 for p in found) > POINTS / 4


def run_of(name, path, *, sampling="fixed", **options):
    arguments = {**SAMPLES, "maximum": 24, **SAMPLINGS[sampling], **options}
    return sx.certify_run(TABLE[name].build(linear(), 10), sx.data.load("digits"), path, **arguments)


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", NAMES)
def test_a_run_verifies_and_resumes_to_the_same_records(name, sampling, tmp_path):
    whole = run_of(name, tmp_path / "whole.jsonl", sampling=sampling)
    assert len({record.certificate.radius for record in whole.records}) > 3
    assert sx.verify(whole.path).holds
    for cut in (1, 9):

        def kill(done, total, cut=cut):
            if done == cut:
                raise KilledError

        path = tmp_path / f"{cut}.jsonl"
        with pytest.raises(KilledError):
            run_of(name, path, sampling=sampling, watch=kill)
        resumed = run_of(name, path, sampling=sampling)
        assert [(r.index, r.certificate) for r in resumed.records] == [(r.index, r.certificate) for r in whole.records]
        assert sx.verify(path).holds


@pytest.mark.parametrize("name", NAMES)
def test_a_record_that_claims_more_is_found(name, tmp_path):
    path = run_of(name, tmp_path / "run.jsonl").path
    lines = path.read_bytes().splitlines(keepends=True)
    number, line = next((i, d) for i, d in enumerate(map(decode, lines)) if d.get("radius"))

    def findings(**changes):
        lines[number] = encode({**line, **changes})
        path.write_bytes(b"".join(lines))
        return [finding.message for finding in sx.verify(path).findings]

    assert not findings()
    assert any("radius" in text for text in findings(radius=line["radius"] * 1.01))
    assert any("predicted" in text for text in findings(predicted=(line["predicted"] + 1) % 10))
    assert any("alpha" in text for text in findings(alpha=0.01))
    assert findings(stages=line["stages"][:-1])
    stages = json.loads(json.dumps(line["stages"]))
    stages[0]["sigma"] *= 1.5
    assert findings(stages=stages) or not TABLE[name].noise


@pytest.mark.parametrize("name", NAMES)
def test_reports_and_exports_take_its_runs(name, tmp_path):
    run = run_of(name, tmp_path / "run.jsonl")
    frame = run.frame()
    assert (frame["sigma"] >= 0).all()
    made = sx.report.write([run], tmp_path / "report")
    assert (tmp_path / "report").is_dir(), made
    export_tsv(run, tmp_path / "run.tsv")
    assert len((tmp_path / "run.tsv").read_text().splitlines()) == 25
    export_parquet(run, tmp_path / "run.parquet")


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_holds_it(name, tmp_path):
    scheme = TABLE[name].build(registered(), 10)
    if not TABLE[name].saves:
        with pytest.raises(sx.RequestError, match="cannot be saved"):
            scheme.save(tmp_path / "system")
        return
    scheme.save(tmp_path / "system")
    loaded = sx.load(tmp_path / "system", batch=64)
    x = pictures(5)
    assert (loaded.rule, fingerprint(loaded)) == (scheme.rule, fingerprint(scheme))
    assert loaded.certify(x, **SAMPLES) == scheme.certify(x, **SAMPLES)
    assert repr(loaded) == repr(scheme)
    with pytest.raises(sx.RequestError, match="holds another system"):
        smoothed(registered(), 10, 0.3).save(tmp_path / "system")


@pytest.mark.parametrize("name", NAMES)
def test_it_may_be_an_expert_or_is_refused(name, tmp_path):
    row = TABLE[name]
    expert = row.build(linear(), 10)
    router = sx.Smoothed(linear(2, seed=1), sigma=1.0, classes=2, batch=64)
    if not row.may_be_expert:
        with pytest.raises(sx.RequestError):
            check_part(expert.rule)
        with pytest.raises(sx.RequestError):
            sx.Dual(router, [smoothed(linear(), 10), expert])
        return
    if expert.rule.norm == "l1":
        with pytest.raises(sx.RequestError, match="the same norm; they have router: l2, expert-0: l2, expert-1: l1"):
            sx.Dual(router, [smoothed(linear(), 10), expert])
        router, other = uniform(linear(2, seed=1), 2), uniform(linear(), 10)
    else:
        other = smoothed(linear(), 10)
    system = sx.Dual(router, [other, expert])
    run = sx.certify_run(system, sx.data.load("digits"), tmp_path / "run.jsonl", **SAMPLES, maximum=12)
    assert sx.verify(run.path).holds
    assert any("expert-1/" in stage.name for r in run.records for stage in r.certificate.stages)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"alpha": 0.0}, "alpha must lie strictly between 0 and 1"),
        ({"n": 0}, "n must be a whole number"),
        ({"n0": 1.5}, "n0 must be a whole number"),
        ({"ids": [1, 1]}, "ids must name each of the 2 inputs differently"),
        ({"sampling": "greedy"}, "sampling must be one of"),
        ({"targets": (0.1,)}, "ask for sampling='adaptive'"),
    ],
)
def test_bad_requests_are_refused(name, changes, named):
    scheme = TABLE[name].build(linear(), 10)
    with pytest.raises(sx.RequestError, match=named):
        scheme.certify(pictures(2), **{**SAMPLES, **changes})


@pytest.mark.parametrize("name", DRAWING)
def test_samples_that_can_never_do_are_refused(name):
    scheme = TABLE[name].build(linear(), 10)
    x = pictures(2)
    with pytest.raises(sx.RequestError, match="can never certify"):
        scheme.certify(x, n=9, alpha=0.001)
    with pytest.raises(sx.RequestError, match="can never predict"):
        scheme.predict(x, n=9, alpha=0.001)
    with pytest.raises(sx.RequestError, match="none of the targets can be reached"):
        scheme.certify(x, **SAMPLES, sampling="adaptive", targets=(50.0,))


@pytest.mark.parametrize("name", NAMES)
def test_inputs_that_are_none_are_refused(name):
    scheme = TABLE[name].build(linear(), 10)
    for x, named in (
        (torch.full((1, 1, 8, 8), torch.nan), "finite"),
        (torch.full((1, 1, 8, 8), 3.0), "pixels must lie in"),
        (pictures(2, 9), "raised by the model|numbers"),
    ):
        with pytest.raises(sx.RequestError, match=named):
            scheme.certify(x, **SAMPLES)
