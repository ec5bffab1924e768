"""An auditor needs no torch: verify, report, show, export and plan run in a process where importing it fails."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import sigmax as sx

COMMITTED = Path(__file__).parents[2] / "results" / "cifar10-compare" / "cascade.jsonl.gz"

WITHOUT = """
import json, sys
from importlib.abc import MetaPathFinder

class Refusing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "safetensors"):
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, Refusing())
from sigmax.cli.main import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["sigmax", *words]
    try:
        main()
    except SystemExit as end:
        print(words[0], "ended with", end.code or 0, flush=True)
"""


def without_torch(folder, *requests):
    command = [sys.executable, "-c", WITHOUT, json.dumps(requests)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of a cascade, certified with torch in this process."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    level = sx.Smoothed(sx.models.selective(model, confidence=0.2), sigma=0.5, classes=10)
    cascade = sx.Cascade([level], last=sx.Smoothed(model, sigma=0.25, classes=10))
    out = tmp_path_factory.mktemp("run") / "run.jsonl"
    return sx.certify_run(cascade, sx.data.load("digits", "test"), out, n=200, maximum=8).path


def test_auditing_needs_no_torch(run, tmp_path):
    requests = {
        "every radius follows from its counts": ["verify", str(run)],
        "Every label is that of digits": ["verify", str(run), "--data", "digits"],
        "report.html": ["report", str(run), "--out", "report"],
        "cascade.jsonl.gz: every radius follows from its counts": ["verify", str(COMMITTED)],
        "committed/report.md": ["report", str(COMMITTED), "--out", "committed"],
        "Input 2, label": ["show", str(run), "--index", "2"],
        "8 inputs": ["export", str(run), "--out", "run.tsv"],
        "2,235": ["plan", "--radius", "0.5", "--sigma", "0.25"],
        "Usage: sigmax certify [OPTIONS] SYSTEM": ["certify", "--help"],
    }
    done = without_torch(tmp_path, *requests.values())
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    for words, request in requests.items():
        assert words in said
        assert f"{request[0]} ended with 0" in said


def test_torch_is_indeed_missing_there(tmp_path):
    done = without_torch(tmp_path, ["predict", "nowhere", "--data", "digits"])
    assert done.returncode != 0
    assert "is not installed here" in done.stderr
