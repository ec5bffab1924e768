"""The runs that come with the repository prove their radii, and the tables in the docs are what they say."""

import gzip
import json
import os
import re
import runpy
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import sigmax as sx
from sigmax import report, systems
from sigmax.records.rounding import down, share_down
from sigmax.records.verify import verify

REPO = Path(__file__).parents[1]
CASCADE = REPO / "docs" / "cascade.md"
RECIPE = REPO / "recipes" / "cifar10_cascade.toml"
RUNS = sorted(REPO.glob("results/*/*.jsonl.gz"))
SOME = 100  # inputs of each: all of them take minutes, by `sigmax verify results/*/*.jsonl.gz`


@pytest.mark.parametrize("run", RUNS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_the_first_inputs_of_every_run_prove_their_radii(run, tmp_path):
    part = tmp_path / run.name.removesuffix(".gz")
    with gzip.open(run, "rb") as whole:
        part.write_bytes(b"".join(islice(whole, 1 + SOME)))
    found = verify(part)
    assert found.holds
    assert found.records == SOME


@pytest.mark.slow
def test_every_run_proves_its_radii_on_a_processor_with_other_last_bits():
    """numpy's exp and log then differ in the bounds of few votes: a hundred times in the cascade's 10,000 records."""
    newer = pytest.importorskip("numpy._core._multiarray_umath").__cpu_dispatch__
    older = {**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(newer), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "sigmax", "verify", *map(str, RUNS)]
    done = subprocess.run(words, env=older, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_tables_of_cifar10_are_what_the_runs_say():
    lines = runpy.run_path(str(REPO / "docs" / "pictures" / "cifar10.py"))["tables"]()
    written = (REPO / "README.md").read_text() + CASCADE.read_text()
    rows = [line for line in lines if line.startswith("|") and "---" not in line and "images that" not in line]
    assert len(rows) > 8
    for row in rows:
        assert row.split("\n")[0] in written or row.startswith("| lead")
    assert " ".join(lines[1].strip("| ").split(" | ")[1:]) in RECIPE.read_text()


def test_the_spread_over_seeds_is_what_the_runs_say():
    head, *rows = runpy.run_path(str(REPO / "docs" / "pictures" / "cifar10.py"))["seeds"]()
    written, recipe = CASCADE.read_text(), RECIPE.read_text()
    assert all(row in written for row in (head, *rows))
    mean, deviation = (row.strip("| ").split(" | ")[1:] for row in rows[-2:])
    assert " ".join(mean) in recipe
    assert " ".join(deviation) in recipe
    shares = np.array([[float(cell) for cell in row.strip("| ").split(" | ")[1:]] for row in rows[:3]])
    published = runpy.run_path(str(REPO / "docs" / "pictures" / "cifar10.py"))["PUBLISHED"]
    assert (shares > published["Dual RS, fine-tuned (published)"]).all()


def test_sums_and_shares_in_the_text_are_what_the_runs_say():
    last = runpy.run_path(str(REPO / "docs" / "pictures" / "cifar10.py"))["tables"]()[-1]
    ratio, samples = re.fullmatch(r"mean of the ratios ([\d.]+); ([\d,]+) samples an image", last).groups()
    said = " ".join(CASCADE.read_text().split())
    assert f"the mean of the ratios is {ratio}" in said
    assert f"{samples} samples an image" in " ".join((REPO / "README.md").read_text().split())
    answers = report.answers_by_sigma(REPO / "results" / "cifar10" / "cascade.jsonl.gz")
    for _, row in answers.iterrows():
        assert f"{row['inputs']:,.0f}" in said
        assert re.search(rf"{row['right']:,.0f} (right|are certified)[^;.]*{down(row['mean_radius'], 2)}", said)


def test_the_table_of_all_schemes_is_what_the_runs_say():
    folder = REPO / "results" / "cifar10-compare"
    runs = {path.name.removesuffix(".jsonl.gz"): sx.read(path) for path in folder.glob("*.jsonl.gz")}
    frame = report.scheme_table(runs, [0.25 * step for step in range(11)])
    written = (REPO / "docs" / "other_schemes.md").read_text()
    assert len(frame) == len(runs) >= 8
    for _, row in frame.iterrows():
        radii = [share_down(row[name]) for name in frame.columns if name[:1].isdigit()]
        cells = ["0" if share == "0.0" else share for share in radii] + [f"{row['samples']:,}"]
        assert f"| {' | '.join(cells)} |" in written


def test_the_systems_of_the_zoo_and_their_thresholds_are_those_that_were_certified():
    cascade = sx.load("zoo:cifar10-cascade")
    run = sx.read(REPO / "results" / "cifar10" / "cascade.jsonl.gz")
    assert run.plan.system == systems.fingerprint(cascade)
    assert len(run.records) == 10_000
    chosen = json.loads((REPO / "results" / "cifar10" / "thresholds.json").read_text())["confidence"]
    assert [cascade.voters[f"level-{j}/base"].model.confidence for j in range(2)] == chosen
    for level in (*cascade.levels, cascade.last):
        network = level.voters["base"].model
        network = getattr(network, "model", network)
        constant = sx.read(REPO / "results" / "cifar10" / f"constant-{level.sigma:g}.jsonl.gz")
        alone = sx.Smoothed(network, sigma=level.sigma, classes=10)
        assert constant.plan.system == systems.fingerprint(alone), "the constant rows are of the same networks"


def test_what_is_said_of_the_attack_on_cifar10_is_what_its_log_says():
    said = " ".join((REPO / "docs" / "attack.md").read_text().split())
    for sentence in runpy.run_path(str(REPO / "docs" / "pictures" / "attack.py"))["sentences"]():
        assert sentence in said
