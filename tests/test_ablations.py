"""The tables of docs/ablations.md, recounted from the radii that are kept, independently of the benchmark."""

import math
import re
import shlex
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

REPO = Path(__file__).parents[1]
RADII = np.arange(0, 2.6, 0.25)
EXPERTS = ("sigma-0.33", "sigma-0.52", "sigma-0.86")
NOT_KEPT = ("bound", "finetune")
COLUMNS = {  # of the runs that were made before the system was described as a cascade
    "comparison: cascade": "comparison: dual-consensus",
    "comparison: cascade of the two with least noise": "comparison: inner-0-consensus",
}
NOT_SHOWN = {"comparison: dual-min", "comparison: inner-0-min"}  # no system is certified like this any more


@pytest.fixture(scope="module")
def kept():
    """By image, the radius that each run certifies for its class."""
    return pd.read_csv(REPO / "results" / "cifar10-ablations.csv.gz", index_col="image")


def tables():
    """(ablation, rows) of each table; a row is its name and its cells."""
    for section in (REPO / "docs" / "ablations.md").read_text().split("\n## ")[1:]:
        ablation = re.match(r"[^\n]*`--ablation (\w+)`", section)
        for table in re.findall(r"(?:^\|.*\n)+", section + "\n", re.MULTILINE) if ablation else []:
            rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
            yield ablation[1], [(name, cells) for name, *cells in rows]


def holds(kept, ablation, name):
    """Whether each image is certified at each radius; a router of another ablation may be shown again."""
    column = next(name for name in (column_of(ablation, name), f"rounds: {name}") if name in kept)
    return kept[column].to_numpy()[:, None] >= RADII


def column_of(ablation, name):
    return COLUMNS.get(f"{ablation}: {name}", f"{ablation}: {name}")


def shares(held):
    return [f"{100 * share:.2f}" for share in held.mean(axis=0)]


def gain(before, after):
    change = after.astype(float) - before
    won, lost = int((change > 0).sum()), int((change < 0).sum())
    chance = binomtest(won, won + lost).pvalue if won + lost else 1.0
    error = change.std() / np.sqrt(len(change))
    return f"{100 * change.mean():+.1f} ± {100 * error:.1f}{'*' if chance <= 0.01 else ''}"


def first_of_its_kind(ablation, rows, place):
    """The row that a row is compared with: min where both are of one system, else the first of the same rule."""
    if ablation == "comparison":
        return rows[place - 1][0]
    rule = rows[place][0].rpartition(", ")[2]
    return next(name for name, _ in rows if name.endswith(f", {rule}"))


@pytest.mark.parametrize(("ablation", "rows"), [table for table in tables() if table[0] not in NOT_KEPT])
def test_rows_and_gains(kept, ablation, rows):
    for place, (name, cells) in enumerate(rows):
        if name == "gain":
            above = rows[place - 1][0]
            before = holds(kept, ablation, first_of_its_kind(ablation, rows, place - 1))
            pairs = zip(before.T, holds(kept, ablation, above).T, strict=True)
            assert cells == [gain(*pair) for pair in pairs], f"below {above}"
        elif "envelope" not in name:
            assert cells == shares(holds(kept, ablation, name)), name


def test_the_envelope(kept):
    rows = dict(next(rows for ablation, rows in tables() if ablation == "comparison"))
    best = np.max([holds(kept, "comparison", expert).mean(axis=0) for expert in EXPERTS], axis=0)
    assert rows["envelope of the experts"] == [f"{100 * share:.2f}" for share in best]
    ratio = holds(kept, "comparison", "cascade").mean(axis=0) / best
    assert rows["cascade / envelope"] == [f"{math.floor(1000 * value + 1e-6) / 1000:.3f}" for value in ratio]


def test_every_run_that_is_kept_is_shown(kept):
    shown = {column_of(ablation, name) for ablation, rows in tables() for name, _ in rows}
    assert set(kept) - NOT_SHOWN <= shown
    assert list(kept.index) == list(range(0, 10_000, 10))


def test_the_bound_is_compared_with_the_runs_of_the_comparison():
    """The runs with the runner-up bound are not kept; those that they are compared with are."""
    compared = dict(next(rows for ablation, rows in tables() if ablation == "comparison"))
    (rows,) = (rows for ablation, rows in tables() if ablation == "bound")
    one_sided = {name.removesuffix(", one-sided"): cells for name, cells in rows if name.endswith(", one-sided")}
    assert len(one_sided) == len(EXPERTS) + 1
    assert all(compared[name] == cells for name, cells in one_sided.items())


def test_the_command_of_the_page_fits_the_recipe(tmp_path):
    """Keys of labels and routers beside a recipe for a cascade are for the ablations of routers."""
    from benchmarks import cifar10_ablations as ablations

    page = (REPO / "docs" / "ablations.md").read_text()
    command = shlex.split(re.search(r"```bash\n(.*?)```", page, re.DOTALL)[1].replace("\\\n", " "))
    changes = [change for flag, change in pairwise(command) if flag == "--set" and not change.startswith("data.")]
    changes += ["data.source=digits", "device=cpu", f"out={tmp_path}"]
    recipe = REPO / command[2]
    base = ablations._pipeline(recipe, ablations._for_cascades(recipe, changes))
    assert base.config.cascade is not None
    assert base.config.certify.n == 5000
    for ablation, variants in ablations.ABLATIONS.items():
        for variant in variants:
            varied = ablations._varied(base, recipe, ablation, variant, changes).config
            assert (varied.cascade is not None) == (variant.system == "cascade")
            assert varied.cascade is not None or varied.labels.compile == "off"
