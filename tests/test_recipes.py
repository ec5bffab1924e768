"""Every recipe reads well on any machine, and the one for CIFAR-10 runs to its end, made very small."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sigmax as sx
from sigmax.records.verify import verify
from sigmax.system.folder import fingerprint
from sigmax.train import Pipeline, PipelineConfig
from tests.cli.conftest import sigmax  # noqa: F401 (a fixture)
from tests.data.test_cifar10 import TRAIN, records, write_binary
from tests.train.test_pipeline import Bars

RECIPES = Path(__file__).parents[1] / "recipes"
# Small networks, few images and draws, one thread and no compiler: the phases and their order stay the recipe's.
SMALL = """
device=cpu
experts.options={width = 4, most = 8}
experts.training={epochs = 1, batch = 64}
labels.n=20
labels.n0=5
labels.dtype=fp32
labels.compile=off
router.options={width = 4, most = 8}
router.training={epochs = 1, batch = 64}
inner.0.options={width = 4, most = 8}
inner.0.training={epochs = 1, batch = 64}
certify.n=100
certify.n0=10
certify.dtype=fp32
certify.compile=off
certify.max=2
balance.draws=10
""".strip().splitlines()


@pytest.fixture(scope="module")
def cifar10(tmp_path_factory):
    """Files as they are published, with few images of noise in them."""
    folder = tmp_path_factory.mktemp("cifar10")
    for number, name in enumerate([*TRAIN, "test_batch"]):
        write_binary(folder, name, *records(20, number))
    return folder


def test_the_recipe_passes_a_dry_run_without_its_gpu(cifar10, tmp_path, sigmax):  # noqa: F811
    words = ("--dry-run", "--set", f"data.source=cifar10:{cifar10}", "--set", f"out={tmp_path / 'out'}")
    done = sigmax("pipeline", "run", RECIPES / "cifar10_dual.toml", *words)
    assert done.returncode == 0, done.stderr
    assert "0 of 14 phases are done" in done.stdout
    assert not (tmp_path / "out").exists()
    digits = sigmax(
        "pipeline", "run", RECIPES / "digits_dual.toml", "--dry-run", "--set", f"out={tmp_path / 'out'}"
    )
    assert digits.returncode == 0, digits.stderr
    wrong = sigmax("pipeline", "run", RECIPES / "cifar10_dual.toml", *words, "--set", "router.sigma=-1")
    assert wrong.returncode == 2
    assert "[router]: sigma must be a positive number" in wrong.stderr


@pytest.fixture(scope="module")
def small_dual(cifar10, tmp_path_factory):
    """What the recipe of the dual system leaves, made small, and its runs."""
    out = tmp_path_factory.mktemp("dual") / "out"
    changes = [f"data.source=cifar10:{cifar10}", f"out={out}", *SMALL]
    return out, Pipeline(PipelineConfig.read(RECIPES / "cifar10_dual.toml", changes)).run(Bars())


def test_the_recipe_made_small_runs_to_its_end(small_dual):
    out, runs = small_dual
    assert len(runs) == 7
    assert all(verify(run.path).holds for run in runs)
    assert repr(sx.load(out / "systems" / "dual-consensus")) == (
        "Dual(consensus, router sigma 0.92, "
        "experts (consensus, router sigma 0.6, experts 0.32 / 0.6) / 0.92, 10 classes)"
    )


def test_the_comparison_made_small_runs_on_the_networks_of_the_dual_system(
    cifar10,
    small_dual,
    tmp_path,
    sigmax,  # noqa: F811
):
    text = (RECIPES / "cifar10_compare.toml").read_text()
    text = text.replace("../work/cifar10-dual", str(small_dual[0])).replace("sigma0 =", "steps = 2\nsigma0 =")
    config = tmp_path / "compare.toml"
    config.write_text(text.replace("../work/", ""))
    small = ("device=cpu", "certify.dtype=fp32", "certify.compile=off", "certify.n=100", "certify.n0=10")
    changes = [f"data.source=cifar10:{cifar10}", "data.skip=10", *small]
    done = sigmax("compare", config, *(word for change in changes for word in ("--set", change)))
    assert done.returncode == 0, done.stderr
    runs = {path.stem: sx.read(path) for path in (tmp_path / "cifar10-compare").glob("*.jsonl")}
    assert set(runs) == {
        *(f"constant-{sigma}" for sigma in ("0.32", "0.6", "0.92")),
        *(f"dual-{rule}" for rule in ("min", "consensus")),
        "multiscale",
        *(f"{scheme}-{sigma}" for scheme in ("semi-elastic", "memorized") for sigma in ("0.32", "0.6")),
    }
    assert all(len(run.records) == 2 and run.finished and verify(run.path).holds for run in runs.values())
    asked = runs["dual-min"].plan.sampling["targets"]
    assert asked == [r / 4 for r in range(11)]
    assert runs["semi-elastic-0.6"].plan.rule["field"]["points"] == 100
    alone = sx.load(small_dual[0] / "experts" / "sigma-0.6")
    assert runs["constant-0.6"].plan.system == fingerprint(alone), "the very weights that the dual system has"


def test_the_final_system_keeps_to_its_room():
    """25 MB for experts and routers, as they are kept."""
    from sigmax import models

    config = PipelineConfig.read(RECIPES / "cifar10_dual.toml")
    nets = [(config.experts, 10)] * config.count + [(config.router, 2)] + [(inner, 2) for inner in config.inner]
    room = 0
    for part, classes in nets:
        model = models.build(part.model, classes=classes, input_shape=(3, 32, 32), **part.options)
        room += sum((2 if t.ndim >= 2 else t.element_size()) * t.numel() for t in model.state_dict().values())
    assert config.store == "bf16"
    assert room < 24.5e6


def test_variants_of_its_routers_are_judged_on_images_held_out(cifar10, tmp_path):
    variants = [
        {"name": "below", "router": "inner", "set": ["inner.0.copies=1"]},
        {"name": "above", "router": "outer", "set": ["router.copies=3"]},
    ]
    (tmp_path / "variants.json").write_text(json.dumps(variants))
    script = RECIPES.parent / "benchmarks" / "router_variants.py"
    changes = [f"data.source=cifar10:{cifar10}", "data.held_out=0.2", f"out={tmp_path / 'out'}", *SMALL]
    words = [RECIPES / "cifar10_dual.toml", tmp_path / "variants.json", "--draws", "20"]
    words += [word for change in changes for word in ("--set", change)]
    done = subprocess.run([sys.executable, script, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.strip().split("  ")[0] for line in done.stdout.splitlines()[-7:]]
    assert rows == [
        "radius",
        *(f"sigma-{sigma}" for sigma in ("0.32", "0.6", "0.92")),
        "best expert of each image",
        "above over below",
        rows[-1],
    ]
    assert rows[-1].startswith("leaning ")
    for name in ("below", "above"):
        assert np.load(tmp_path / "out" / "variants" / f"{name}.npz")["logits"].shape == (20, 20, 2)
    Pipeline(
        PipelineConfig.read(RECIPES / "cifar10_dual.toml", changes)
    ).check()  # the folder is still the recipe's


def test_every_ablation_fits_the_recipe():
    from benchmarks.cifar10_ablations import STUDIES, fitting

    recipe = RECIPES / "cifar10_dual.toml"
    start = PipelineConfig.read(recipe).router.start
    for variants in STUDIES.values():
        for variant in variants:
            config = PipelineConfig.read(recipe, fitting(variant, start))
            assert config.router.start == config.count - 1


def test_ablations_of_a_small_recipe(tmp_path, capsys):
    """Every study that the recipe allows, on the digits, over one set of experts where that is all it takes."""
    from benchmarks import cifar10_ablations

    small = """
experts.training={epochs = 2, batch = 64}
experts.options={width = 4}
labels.n=50
labels.fraction=0.1
router.training={epochs = 1, batch = 64}
router.options={width = 4}
finetune.training={epochs = 1, batch = 256}
finetune.votes=10
certify.n=100
certify.n0=10
certify.skip=120
""".strip().splitlines()
    changes = [word for change in [*small, f"out={tmp_path / 'out'}"] for word in ("--set", change)]
    studies = ("comparison", "bound", "lambda", "folds", "rounds")
    cifar10_ablations.main([str(RECIPES / "digits_dual.toml"), *changes, "--radii", "0,0.1", "--study", *studies,
        "--vary", "router.consistency=1; router.copies=1", "--vary", "router.entropy=0.1"])  # fmt: skip
    said = capsys.readouterr().out
    rows = [line for line in said.splitlines() if line.startswith("| ")]
    assert len(rows) == len(studies) + 1 + 7 + 2 + 2 * (4 + 2 + 2 + 2)
    assert all(line.count("|") == 4 for line in rows)
    assert "| dual-consensus-skip120 / envelope |" in said
    assert "| router.consistency=1; router.copies=1, consensus |" in said
    studied = tmp_path / "out" / "ablations"
    ours = (tmp_path / "out" / "nets" / "sigma-0.1.safetensors").read_bytes()
    assert [path.read_bytes() == ours for path in studied.glob("lambda/*/nets/sigma-0.1.safetensors")] == [True] * 4
    assert [path.parent.name.startswith("two-rounds-") for path in studied.glob("rounds/*/labels-2")] == [True]
