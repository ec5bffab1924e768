"""The tables of docs/ablations.md are what the radii that are kept say, by other means than the benchmark's."""

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

REPO = Path(__file__).parents[1]
RADII = np.arange(0, 2.6, 0.25)
EXPERTS = ("sigma-0.33", "sigma-0.52", "sigma-0.86")
NOT_KEPT = ("bound", "finetune")


@pytest.fixture(scope="module")
def kept():
    """By image, the radius that each run certifies for its class."""
    return pd.read_csv(REPO / "results" / "cifar10-ablations.csv.gz", index_col="image")


def tables():
    """(study, rows) of each table; a row is its name and its cells."""
    for section in (REPO / "docs" / "ablations.md").read_text().split("\n## ")[1:]:
        study = re.match(r"[^\n]*`--study (\w+)`", section)
        for table in re.findall(r"(?:^\|.*\n)+", section + "\n", re.MULTILINE) if study else []:
            rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
            yield study[1], [(name, cells) for name, *cells in rows]


def holds(kept, study, name):
    """Whether each image is certified at each radius; a router of another study may be shown again."""
    column = next(name for name in (f"{study}: {name}", f"rounds: {name}") if name in kept)
    return kept[column].to_numpy()[:, None] >= RADII


def shares(held):
    return [f"{100 * share:.2f}" for share in held.mean(axis=0)]


def gain(before, after):
    change = after.astype(float) - before
    won, lost = int((change > 0).sum()), int((change < 0).sum())
    chance = binomtest(won, won + lost).pvalue if won + lost else 1.0
    error = change.std() / np.sqrt(len(change))
    return f"{100 * change.mean():+.1f} ± {100 * error:.1f}{'*' if chance <= 0.01 else ''}"


def first_of_its_kind(study, rows, place):
    """The row that a row is set against: min where both are of one system, else the first by the same rule."""
    if study == "comparison":
        return rows[place - 1][0]
    rule = rows[place][0].rpartition(", ")[2]
    return next(name for name, _ in rows if name.endswith(f", {rule}"))


@pytest.mark.parametrize(("study", "rows"), [table for table in tables() if table[0] not in NOT_KEPT])
def test_rows_and_gains(kept, study, rows):
    for place, (name, cells) in enumerate(rows):
        if name == "gain":
            above = rows[place - 1][0]
            before = holds(kept, study, first_of_its_kind(study, rows, place - 1))
            pairs = zip(before.T, holds(kept, study, above).T, strict=True)
            assert cells == [gain(*pair) for pair in pairs], f"below {above}"
        elif "envelope" not in name:
            assert cells == shares(holds(kept, study, name)), name


def test_the_envelope(kept):
    rows = dict(next(rows for study, rows in tables() if study == "comparison"))
    best = np.max([holds(kept, "comparison", expert).mean(axis=0) for expert in EXPERTS], axis=0)
    assert rows["envelope of the experts"] == [f"{100 * share:.2f}" for share in best]
    ratio = holds(kept, "comparison", "dual-consensus").mean(axis=0) / best
    assert rows["dual-consensus / envelope"] == [f"{math.floor(1000 * value + 1e-6) / 1000:.3f}" for value in ratio]


def test_every_run_that_is_kept_is_shown(kept):
    shown = {f"{study}: {name}" for study, rows in tables() for name, _ in rows}
    assert set(kept) <= shown
    assert list(kept.index) == list(range(0, 10_000, 10))


def test_the_bound_is_set_against_the_runs_of_the_comparison():
    """The runs with the runner-up bound are not kept; what they are set against is."""
    compared = dict(next(rows for study, rows in tables() if study == "comparison"))
    (rows,) = (rows for study, rows in tables() if study == "bound")
    one_sided = {name.removesuffix(", one-sided"): cells for name, cells in rows if name.endswith(", one-sided")}
    assert len(one_sided) == len(EXPERTS) + 1
    assert all(compared[name] == cells for name, cells in one_sided.items())
