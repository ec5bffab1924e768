"""What only the data can show: labels. (Distances of a memory: tests/schemes/test_memorized.py.)"""

from dataclasses import replace

import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.jobs.data_check import data_findings
from sigmax.records.lines import decode, encode
from tests.cli.conftest import sigmax  # noqa: F401 (a fixture)


@pytest.fixture
def run(tmp_path):
    """Three digits, certified by a network that has a mind of its own."""
    described = models.Description(architecture="small-cnn", classes=10, input_shape=(1, 8, 8))
    scheme = sx.Smoothed(models.create(described), sigma=0.1, classes=10)
    return sx.certify_run(scheme, sx.data.load("digits"), tmp_path / "run.jsonl", n=200, alpha=0.01, maximum=3)


def change(run, **values):
    """The second record with other values and a checksum that fits them."""
    lines = run.path.read_bytes().splitlines(keepends=True)
    lines[2] = encode({**decode(lines[2]), **values})
    run.path.write_bytes(b"".join(lines))
    return sx.read(run.path)


def test_a_forged_label_is_found_with_the_data_alone(run, sigmax):  # noqa: F811
    digits = sx.data.load("digits")
    assert not list(data_findings(run, digits))
    done = sigmax("verify", run.path, "--data", "digits")
    assert done.returncode == 0
    assert "Every label is that of digits." in done.stdout
    true = run.records[1].label
    forged = change(run, label=(true + 1) % 10)
    assert sx.verify(run.path).holds, "the records alone cannot tell"
    (found,) = data_findings(forged, digits)
    assert found.line == 3
    assert f"in the data its label is {true}" in found.message
    failed = sigmax("verify", run.path, "--data", "digits")
    assert failed.returncode == 1
    assert "line 3" in failed.stderr


def test_other_data_is_refused(run):
    with pytest.raises(
        sx.RequestError, match=r"is a run of other data \(digits test\): .* the split and the image size"
    ):
        list(data_findings(run, sx.data.load("digits", "train")))


def test_a_smaller_dimension_than_the_images_have_is_found(tmp_path):
    def mine(batch):
        return torch.full((len(batch),), 0.1)

    described = models.Description(architecture="small-cnn", classes=10, input_shape=(1, 8, 8))
    f = sx.SemiElastic(models.create(described), field=sx.VouchedField(mine, 0.01), classes=10, dim=64)
    digits = sx.data.load("digits")
    run = sx.certify_run(f, digits, tmp_path / "run.jsonl", n=200, alpha=0.01, maximum=2)
    assert not list(data_findings(run, digits))
    rule = {**run.plan.rule, "dim": 1}
    (found,) = data_findings(replace(run, plan=replace(run.plan, rule=rule)), digits)
    assert found.line == 1
    assert "inputs of 1 numbers; those of the data have 64" in found.message


def test_a_rule_with_keys_of_its_own_is_refused(run):
    lines = run.path.read_bytes().splitlines(keepends=True)
    plan = decode(lines[0])
    lines[0] = encode({**plan, "rule": {**plan["rule"], "proved": True}})
    run.path.write_bytes(b"".join(lines))
    assert "a scheme 'smoothed' has no proved" in sx.verify(run.path).findings[0].message
