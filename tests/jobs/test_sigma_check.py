"""With the data: is each input's recorded sigma the one that its field, its search or its rate allows?"""

import json
from dataclasses import replace

import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.jobs.data_check import data_findings
from sigmax.jobs.sigma_check import sigma_findings
from sigmax.records.lines import decode, encode
from sigmax.rules.registry import rebuild
from sigmax.rules.replay import replay
from sigmax.rules.sampling import remade
from tests.cli.conftest import sigmax  # noqa: F401 (a fixture)

DIGITS, TRAIN = sx.data.load("digits"), sx.data.load("digits", "train")
ASK = {"n": 200, "alpha": 0.01, "maximum": 4}


def network():
    torch.manual_seed(0)
    return models.create(models.Description(architecture="small-cnn", classes=10, input_shape=(1, 8, 8)))


def elastic(points=300):
    field = sx.NearestNeighbourSigma(TRAIN.pixels(range(points)), base=0.25, rate=0.05, k=5, offset=1.5)
    return sx.SemiElastic(network(), field=field, classes=10)


def changed(run, stages, certificate=None):
    """The run with other stages at its second input."""
    found = replace(certificate or run.records[1].certificate, stages=tuple(stages))
    return replace(run, records=[*run.records[:1], replace(run.records[1], certificate=found), *run.records[2:]])


def with_sigma(run, path, factor):
    """A file in which the second input has another noise, throughout: its radius follows from it."""
    plan = run.plan
    stages = tuple(replace(s, sigma=s.sigma * factor) for s in run.records[1].certificate.stages)
    procedure = rebuild(plan.rule).certifying(n0=plan.n0, n=plan.n, alpha=plan.alpha, sampling=remade(plan.sampling))
    found = replay(procedure, stages)
    lines = run.path.read_bytes().splitlines(keepends=True)
    lines[2] = encode(changed(run, found.stages, found).records[1].to_json())
    path.write_bytes(b"".join(lines))
    return sx.read(path)


def test_a_sigma_that_is_not_the_fields_is_found_with_its_training_images(tmp_path, sigmax):  # noqa: F811
    scheme = elastic()
    run = sx.certify_run(scheme, DIGITS, tmp_path / "run.jsonl", **ASK)
    for known in ({}, {"train": TRAIN}, {"scheme": scheme}):
        assert not list(data_findings(run, DIGITS, **known))
    forged = with_sigma(run, tmp_path / "forged.jsonl", 1 + 1e-5)
    assert sx.verify(forged.path).holds, "the records alone cannot tell"
    for known in ({"train": TRAIN}, {"scheme": scheme}):
        (found,) = data_findings(forged, DIGITS, **known)
        assert (found.line, "the field gives" in found.message) == (3, True)
    unknown = []
    assert not list(data_findings(forged, DIGITS, unknown=unknown)), "such a change keeps to the rate"
    assert "pass --train" in unknown[0]
    alone = sigmax("verify", run.path)
    assert "(--data shows it, with the field's training images)" in " ".join(alone.stdout.split())
    done = sigmax("verify", run.path, "--data", "digits")
    assert (done.returncode, "not checked" in done.stdout) == (0, False)
    failed = sigmax("verify", forged.path, "--data", "digits")
    assert (failed.returncode, "line 3" in failed.stderr) == (1, True)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("memory", [False, True])
def test_the_command_recomputes_each_sigma_by_the_runs_system(memory, dtype, tmp_path, sigmax):  # noqa: F811
    how = {"classes": 10, "dtype": dtype}
    scheme = sx.Memorized(network(), sigma0=0.25, search="grid", steps=5, **how)
    scheme = scheme if memory else sx.SemiElastic(network(), field=elastic().field, **how)
    folder = scheme.save(tmp_path / "system")
    run = sx.certify_run(scheme, DIGITS, tmp_path / "run.jsonl", **ASK)
    done = sigmax("verify", run.path, "--data", "digits", "--system", folder)
    assert (done.returncode, "not checked" in done.stdout) == (0, False), done.stderr
    if not memory:
        forged = with_sigma(run, tmp_path / "forged.jsonl", 1 - 1e-5)
        failed = sigmax("verify", forged.path, "--data", "digits", "--system", folder)
        assert (failed.returncode, "the field gives" in failed.stderr) == (1, True)


def test_a_sigma_that_breaks_the_rate_is_found_by_the_inputs_alone(tmp_path):
    field = sx.VouchedField(lambda batch: torch.full((len(batch),), 0.25), 0.001)
    scheme = sx.SemiElastic(network(), field=field, classes=10, dim=64)
    run = sx.certify_run(scheme, DIGITS, tmp_path / "run.jsonl", **ASK)
    unknown = []
    assert not list(data_findings(run, DIGITS, unknown=unknown))
    assert "pass scheme= in Python" in unknown[0]
    forged = with_sigma(run, tmp_path / "forged.jsonl", 1.5)
    assert sx.verify(forged.path).holds
    found = list(data_findings(forged, DIGITS))
    assert [f.line for f in found] == [3, 4, 5], "each with the forged one"
    assert all("does not allow both" in f.message for f in found)


def test_a_jitter_smaller_than_the_points_give_is_found(tmp_path):
    run = sx.certify_run(elastic(), DIGITS, tmp_path / "run.jsonl", **ASK)
    rule = {**run.plan.rule, "field": {**run.plan.rule["field"], "jitter": 0.0}}
    (found,) = data_findings(replace(run, plan=replace(run.plan, rule=rule)), DIGITS, train=TRAIN)
    assert (found.line, "jitter" in found.message) == (1, True)


def test_the_search_of_a_memorized_run_is_repeated_by_its_system(tmp_path):
    scheme = sx.Memorized(network(), sigma0=0.25, classes=10, steps=5, step=1.0)
    run = sx.certify_run(scheme, DIGITS, tmp_path / "run.jsonl", **ASK)
    unknown = []
    assert not list(data_findings(run, DIGITS, unknown=unknown))
    assert "on which no radius rests: pass --system" in unknown[0]
    assert not list(data_findings(run, DIGITS, scheme=scheme))
    first, *rest = run.records[1].certificate.stages
    forged = changed(run, (replace(first, sigma=first.sigma * 1.01), *rest))
    (found,) = sigma_findings(forged, DIGITS, [], scheme=scheme)
    assert (found.line, "the search finds" in found.message) == (3, True)
    with pytest.raises(sx.RequestError, match="is a run of another system"):
        list(data_findings(run, DIGITS, scheme=elastic()))


@pytest.mark.parametrize("place", [2, 3])
def test_a_score_that_allows_too_little_for_rounding_is_found(tmp_path, place):
    run = sx.certify_run(sx.Lipschitz(network(), 100.0, classes=10), DIGITS, tmp_path / "run.jsonl", **ASK)
    assert not list(data_findings(run, DIGITS))
    (stage,) = run.records[1].certificate.stages
    scores = tuple(value * (0.5 if i == place else 1) for i, value in enumerate(stage.scores))
    (found,) = data_findings(changed(run, [replace(stage, scores=scores)]), DIGITS)
    assert (found.line, "allows for the rounding" in found.message) == (3, True)


OF_THE_PLAN = ["", "data", "made_with", "sampling", "inputs", "rule", "rule field", "behaviour base"]


@pytest.mark.parametrize(
    ("line", "place"), [*((0, place) for place in OF_THE_PLAN), (1, ""), (1, "stages 0"), (1, "stages 2"), (-1, "")]
)
def test_a_key_that_no_run_writes_is_a_finding_wherever_it_stands(tmp_path, line, place):
    run = sx.certify_run(elastic(20), DIGITS, tmp_path / "run.jsonl", n=200, alpha=0.01, maximum=1)
    assert sx.verify(run.path).holds
    lines = run.path.read_bytes().splitlines(keepends=True)
    data = table = json.loads(json.dumps(decode(lines[line])))
    for key in place.split():
        table = table[int(key) if key.isdigit() else key]
    table["audited"] = True
    lines[line] = encode(data)
    run.path.write_bytes(b"".join(lines))
    assert sx.verify(run.path).findings[0].line == range(1, len(lines) + 1)[line]
