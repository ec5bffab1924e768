"""Every recipe reads well on any machine, and those for GPUs run to their end, made very small."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import sigmax as sx
from sigmax import models
from sigmax.pipeline import Pipeline, PipelineConfig
from sigmax.records.rounding import share_down
from sigmax.records.verify import verify
from sigmax.systems.folder import fingerprint
from tests.cli.conftest import sigmax  # noqa: F401 (a fixture)
from tests.data.table import write_cifar10_binary
from tests.pipeline.helpers import Bars, Killed

RECIPES = Path(__file__).parents[1] / "recipes"
# Small networks, few images and samples, one thread and no compiler: the phases and their order stay the recipe's.
SMALL = """
device=cpu
experts.options={width = 4, most = 8}
experts.training={epochs = 1, batch = 64}
certify.n=100
certify.n0=10
certify.dtype=fp32
certify.compile=off
certify.max=2
calibrate.samples=10
""".strip().splitlines()


@pytest.fixture(scope="module")
def cifar10(tmp_path_factory):
    """Files as they are published, with few images of noise in them."""
    folder = tmp_path_factory.mktemp("cifar10")
    random = np.random.default_rng(0)
    for split, count in (("train", 100), ("test", 20)):
        images = random.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
        write_cifar10_binary(folder, split, images, np.arange(count) % 10)
    return folder


def test_the_recipe_passes_a_dry_run_without_its_gpu(cifar10, tmp_path, sigmax):  # noqa: F811
    words = ("--dry-run", "--set", f"data.source=cifar10:{cifar10}", "--set", f"out={tmp_path / 'out'}")
    done = sigmax("pipeline", "run", RECIPES / "cifar10_cascade.toml", *words)
    assert done.returncode == 0, done.stderr
    assert "0 of 12 phases are done" in done.stdout
    assert not (tmp_path / "out").exists()
    more = sigmax("pipeline", "run", RECIPES / "cifar10_four_levels.toml", *words)
    assert "0 of 15 phases are done" in more.stdout, more.stderr
    dual = sigmax("pipeline", "run", RECIPES / "cifar10_dual.toml", *words)
    assert "0 of 13 phases are done" in dual.stdout, dual.stderr
    for name in ("digits_dual.toml", "digits_cascade.toml"):
        digits = sigmax("pipeline", "run", RECIPES / name, "--dry-run", "--set", f"out={tmp_path / 'out'}")
        assert digits.returncode == 0, digits.stderr
    wrong = sigmax("pipeline", "run", RECIPES / "cifar10_cascade.toml", *words, "--set", "cascade.thresholds=0.3")
    assert wrong.returncode == 2
    assert "threshold" in wrong.stderr


@pytest.fixture(scope="module")
def small_cascade(cifar10, tmp_path_factory):
    """What the recipe of the cascade leaves, scaled down, and its runs."""
    out = tmp_path_factory.mktemp("cascade") / "out"
    changes = [f"data.source=cifar10:{cifar10}", f"out={out}", *SMALL]
    return out, Pipeline(PipelineConfig.read(RECIPES / "cifar10_cascade.toml", changes)).run(Bars())


def test_the_recipe_scaled_down_runs_to_its_end(small_cascade):
    out, runs = small_cascade
    assert len(runs) == 4
    assert all(verify(run.path).holds for run in runs)
    assert repr(sx.load(out / "systems" / "cascade")) == "Cascade(sigma 0.86 / 0.52, last 0.33, 10 classes)"


@pytest.mark.slow
def test_the_recipe_of_four_levels_scaled_down_runs_and_is_calibrated_again_by_the_same_answers(cifar10, tmp_path):
    changes = [f"data.source=cifar10:{cifar10}", f"out={tmp_path}", *SMALL, "experts.epochs=1", "certify.experts=false"]
    recipe, bars = RECIPES / "cifar10_four_levels.toml", Bars()
    (run,) = Pipeline(PipelineConfig.read(recipe, changes)).run(Bars())
    assert verify(run.path).holds
    assert repr(sx.load(tmp_path / "systems" / "cascade")) == "Cascade(sigma 0.86 / 0.52 / 0.33, last 0.15, 10 classes)"
    weights = f"calibrate.weights={[1.0] + [0.0] * 10}"
    again = [*changes, "calibrate.published=", "calibrate.objective=mean", weights]
    Pipeline(PipelineConfig.read(recipe, again)).run(bars)
    assert bars.asked == ["calibrate", "build cascade", "certify cascade"]


@pytest.mark.slow
def test_the_paper_s_recipe_and_each_variant_scaled_down_run_to_their_ends(cifar10, tmp_path):
    """The variants are read off the header, as a user would copy them."""
    recipe = RECIPES / "cifar10_dual.toml"
    header = " ".join(line.strip("# ") for line in recipe.read_text().split("out =")[0].splitlines())
    variants = header.split("Variants")[1].split("Each takes")[0].split(":")
    variants = [re.findall(r"--set '?([^ ']+)", words) for words in variants]
    changes = [[], *(found for found in variants if found)]
    assert len(changes) == 5
    training = [f"{table}.training.{how}" for table in ("router", "finetune") for how in ("epochs=1", "precision=fp32")]
    small = [*SMALL[:-1], *training, "router.training.compile=false", "labels.dtype=fp32", "labels.compile=off"]
    for number, change in enumerate(changes):
        at = [f"data.source=cifar10:{cifar10}", f"out={tmp_path / str(number)}"]
        runs = Pipeline(PipelineConfig.read(recipe, [*at, *change, *small])).run(Bars())
        assert len(runs) == 5
        assert all(verify(run.path).holds for run in runs)


def test_the_recipe_in_l1_passes_a_dry_run_and_runs_scaled_down(cifar10, tmp_path, sigmax):  # noqa: F811
    recipe, out = RECIPES / "cifar10_l1.toml", tmp_path / "out"
    changes = [f"data.source=cifar10:{cifar10}", f"out={out}"]
    dry = sigmax("pipeline", "run", recipe, "--dry-run", *(word for change in changes for word in ("--set", change)))
    assert dry.returncode == 0, dry.stderr
    assert not out.exists()
    mean = "calibrate.objective=mean"  # tiny networks certify nothing at the radii of the recipe: there is no ratio
    runs = Pipeline(PipelineConfig.read(recipe, [*changes, *SMALL, "experts.epochs=1", mean])).run(Bars())
    assert len(runs) == 5
    assert {run.plan.norm for run in runs} == {"l1"}
    assert all(verify(run.path).holds for run in runs)
    cascade = "Cascade(uniform 5.2 / 3 / 1.75, last Splitting(scale 1.3, 663 offsets, 10 classes), 10 classes)"
    assert repr(sx.load(out / "systems" / "cascade")) == cascade


def test_the_comparison_scaled_down_runs_on_the_networks_of_the_cascade(
    cifar10,
    small_cascade,
    tmp_path,
    sigmax,  # noqa: F811
):
    text = (RECIPES / "cifar10_compare.toml").read_text()
    text = text.replace("../work/cifar10-cascade", str(small_cascade[0])).replace("sigma0 =", "steps = 2\nsigma0 =")
    config = tmp_path / "compare.toml"
    config.write_text(text.replace("../work/", ""))
    small = ("device=cpu", "certify.dtype=fp32", "certify.compile=off", "certify.n=100", "certify.n0=10")
    changes = [f"data.source=cifar10:{cifar10}", "data.skip=10", *small]
    done = sigmax("compare", config, *(word for change in changes for word in ("--set", change)))
    assert done.returncode == 0, done.stderr
    runs = {path.stem: sx.read(path) for path in (tmp_path / "cifar10-compare").glob("*.jsonl")}
    assert set(runs) == {
        *(f"constant-{sigma}" for sigma in ("0.33", "0.52", "0.86")),
        "cascade",
        "multiscale",
        *(f"{scheme}-{sigma}" for scheme in ("semi-elastic", "memorized") for sigma in ("0.33", "0.52")),
    }
    assert all(len(run.records) == 2 and run.finished and verify(run.path).holds for run in runs.values())
    asked = runs["cascade"].plan.sampling["targets"]
    assert asked == [r / 4 for r in range(11)]
    assert runs["semi-elastic-0.52"].plan.rule["field"]["points"] == 100
    alone = sx.load(small_cascade[0] / "experts" / "sigma-0.52")
    assert runs["constant-0.52"].plan.system == fingerprint(alone), "the very weights that the cascade has"


IMAGENETTE = RECIPES / "imagenette_cascade.toml"
PHOTOGRAPHS = """
device=cpu
data.held_out=0.2
data.image_size=32
experts.sigmas=[0.1, 0.2, 0.3, 0.4]
experts.epochs=2
experts.training={batch = 32, lr = 0.03, augment = "resized", precision = "fp32"}
calibrate.samples=10
labels={n = 50, n0 = 10, held_out = 0.4}
router.sigma=0.4
router.training={epochs = 1, batch = 32, lr = 0.0003, augment = "resized"}
certify.n=100
certify.n0=10
certify.dtype=fp32
certify.compile=off
certify.max=2
""".strip().splitlines()


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Two classes of photographs that their colour tells apart, and a network of other classes to begin with."""
    folder, random = tmp_path_factory.mktemp("photographs"), np.random.default_rng(0)
    for split, count in (("train", 40), ("val", 3)):
        for label, name in enumerate(("red", "blue")):
            (folder / "photos" / split / name).mkdir(parents=True)
            for number in range(count):
                image = random.integers(0, 100, (40, 50, 3), dtype=np.uint8)
                image[:, :, 2 * label] += 150
                Image.fromarray(image).save(folder / "photos" / split / name / f"{number}.jpg")
    torch.manual_seed(0)
    for side in (32, 40):
        described = models.Description(
            architecture="efficientnet-lite0",
            classes=7,
            input_shape=(3, side, side),
            normalisation=models.normalisation("half"),
        )
        models.save(folder / f"start-{side}.safetensors", models.create(described))
    return folder


def of_photographs(folder, out, *changes):
    given = (
        f"data.source=folder:{folder / 'photos'}",
        f"experts.start={folder / 'start-32.safetensors'}",
        f"out={out}",
    )
    return [*given, *PHOTOGRAPHS, *changes]


def test_the_recipe_for_photographs_passes_a_dry_run_without_its_gpu(photographs, tmp_path, sigmax):  # noqa: F811
    changes = of_photographs(photographs, tmp_path / "out", "device=cuda")
    words = [word for change in changes for word in ("--set", change)]
    done = sigmax("pipeline", "run", IMAGENETTE, "--dry-run", *words)
    assert done.returncode == 0, done.stderr
    assert "0 of 21 phases are done" in done.stdout
    other = ("--set", f"experts.start={photographs / 'start-40.safetensors'}")
    wrong = sigmax("pipeline", "run", IMAGENETTE, "--dry-run", *words, *other)
    assert wrong.returncode == 2
    assert "experts.start: its input_shape is (3, 40, 40), expected (3, 32, 32)" in wrong.stderr


def test_the_recipe_for_photographs_asks_what_it_says():
    config = PipelineConfig.read(IMAGENETTE)
    radii = tuple(0.25 * step for step in range(13))
    assert config.experts.sigmas == (0.25, 0.5, 1.0, 2.0)
    assert (config.certify.n0, config.certify.n, config.certify.alpha) == (100, 10_000, 0.001)
    assert config.calibrate.radii == radii
    assert config.certify.targets == (*radii, 3.5, 4.0, 5.0, 6.0)
    assert config.router is not None
    assert config.router.start == config.experts.sigmas.index(config.router.sigma)
    assert config.certify.rules == ("min", "consensus")


@pytest.mark.slow
def test_the_recipe_for_photographs_scaled_down_runs_to_its_end(photographs, tmp_path):
    """Ended once in a phase of every kind, and gone on with each time."""
    out = tmp_path / "out"
    config = PipelineConfig.read(IMAGENETTE, of_photographs(photographs, out))
    names = {phase.name.split("-")[0]: phase.name for phase in reversed(Pipeline(config).phases())}
    kinds = (
        "train sigma",
        "calibration outputs of sigma",
        "calibrate",
        "make labels",
        "train router",
        "build dual",
        "certify sigma",
    )
    for kind in kinds:
        with pytest.raises(Killed):
            Pipeline(config).run(Bars(names[kind], 2 if kind == "train sigma" else 1))
        left = {phase.name for phase in Pipeline(config).phases() if phase.state != "done"}
        assert names[kind] in left, kind
    runs = Pipeline(config).run(Bars())
    assert len(runs) == 7
    assert all(len(run.records) == 2 and verify(run.path).holds for run in runs)
    cascade = sx.load(out / "systems" / "cascade")
    assert repr(cascade) == "Cascade(sigma 0.4 / 0.3 / 0.2, last 0.1, 2 classes)"
    sizes = [path.stat().st_size for path in (out / "nets").glob("*.safetensors")]
    assert len(sizes) == 5
    assert max(sizes) < 16e6, "a network of few classes fits where a file may have 16 MB"


def test_the_final_system_keeps_to_its_room():
    """25 MB for all networks, as they are stored."""
    config = PipelineConfig.read(RECIPES / "cifar10_cascade.toml")
    room = 0
    for _ in range(config.experts.count):
        model = models.build(config.experts.model, classes=10, input_shape=(3, 32, 32), **config.experts.options)
        room += sum((2 if t.ndim >= 2 else t.element_size()) * t.numel() for t in model.state_dict().values())
    assert config.store == "bf16"
    assert room < 24.5e6


@pytest.mark.parametrize("name", ["cifar10_cascade.toml", "digits_dual.toml"])
def test_every_ablation_fits_the_recipe(name):
    from benchmarks.cifar10_ablations import ABLATIONS, as_cascade, as_dual

    recipe = PipelineConfig.read(RECIPES / name)
    for ablation, variants in ABLATIONS.items():
        for variant in variants:
            system = as_cascade(recipe) if variant.system == "cascade" else as_dual(variant, recipe)
            config = PipelineConfig.read(RECIPES / name, [*system, *variant.changes])
            assert (config.cascade is not None) == (variant.system == "cascade")
            if recipe.router is None and config.router is not None and ablation != "shared":
                assert config.router.start == config.experts.count - 1


@pytest.mark.slow
def test_ablations_of_a_small_recipe(tmp_path, capsys):
    """Every ablation that the recipe allows, on the digits, over one set of experts where that is all it takes."""
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
    ablations = ("comparison", "bound", "lambda", "folds", "rounds", "finetune", "sets")
    cifar10_ablations.main([str(RECIPES / "digits_dual.toml"), *changes, "--radii", "0,0.1", "--ablation", *ablations,
        "--vary", "router.loss.consistency=1; router.loss.copies=1", "--vary", "router.loss.entropy=0.1",
        "--keep", str(tmp_path / "rows.csv.gz")])  # fmt: skip
    said = capsys.readouterr().out
    rows = [line for line in said.splitlines() if line.startswith("| ")]
    trained = 2 * (5 + 2 + 3 + 2 + 3 + 6)
    assert len(rows) == len(ablations) + 1 + (7 + 1) + (2 * 4 + 4) + (trained + trained - 2 * 6)  # of 6, with gains
    assert all(line.count("|") == 4 for line in rows)
    assert "| dual-consensus / envelope |" in said
    assert "| router.loss.consistency=1; router.loss.copies=1, consensus |" in said
    kept = pd.read_csv(tmp_path / "rows.csv.gz", index_col="image")
    shown = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows]
    counted = [row for row in shown if row[0] not in ("gain", shown[0][0]) and "envelope" not in row[0]]
    assert [name.split(": ", 1)[1] for name in kept] == [name for name, *_ in counted]
    for column, (_, *cells) in zip(kept, counted, strict=True):
        assert [share_down(100 * (kept[column] >= r).mean(), 2) for r in (0, 0.1)] == cells
    studied = tmp_path / "out" / "ablations"
    ours = (tmp_path / "out" / "nets" / "sigma-0.1.safetensors").read_bytes()
    assert [path.read_bytes() == ours for path in studied.glob("lambda/*/nets/sigma-0.1.safetensors")] == [True] * 5
    quarters = [path.read_bytes() for path in studied.glob("sets/*/nets/sigma-0.25.safetensors")]
    assert len(quarters) == 4
    assert len(set(quarters)) == 1, "trained once for all sets that have it"
    (twice,) = studied.glob("rounds/*/labels-2")
    assert twice.parent.name.startswith("and-a-second-router-")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--radii", "a,b"], "--radii must be radii such as 0,0.25,0.5; got 'a,b'"),
        (["--radii", "0,nan"], "radii must be a list of numbers of at least 0"),
        (["--keep", "rows.csv"], "expected a name like rows.csv.gz, not rows.csv"),
        (["--keep", "text.csv.gz"], "text.csv.gz is damaged, or no table of --keep"),
        (["--keep", "other.csv.gz"], "other.csv.gz is damaged, or no table of --keep"),
        (["--keep", "text.csv.gz/rows.csv.gz"], "cannot write text.csv.gz/rows.csv.gz"),
        (["--vary", "nokey"], "a change is KEY=VALUE"),
        (["--vary", "router.bogus=1"], "bogus"),
    ],
)
def test_a_wrong_ablation_is_refused_before_any_work(tmp_path, monkeypatch, words, message):
    from benchmarks import cifar10_ablations

    monkeypatch.chdir(tmp_path)
    Path("text.csv.gz").write_text("text")
    pd.DataFrame({"a": [1]}).to_csv("other.csv.gz")
    with pytest.raises(sx.RequestError) as refused:
        cifar10_ablations.main([str(RECIPES / "digits_dual.toml"), "--set", f"out={tmp_path / 'out'}", *words])
    assert message in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_radii_of_other_images_are_not_kept_in_one_table(tmp_path):
    from benchmarks.cifar10_ablations import keep

    results = RECIPES.parent / "results" / "cifar10"
    keep(tmp_path / "rows.csv.gz", "constant", sx.read(results / "constant-0.33.jsonl.gz"))
    with pytest.raises(sx.RequestError, match="is of other images than"):
        keep(tmp_path / "rows.csv.gz", "seed 1", sx.read(results / "cascade.jsonl.gz"))
    assert list(pd.read_csv(tmp_path / "rows.csv.gz", index_col="image")) == ["constant"]


SMALL_CASCADE = """
out = "work"
[data]
source = "digits"
held_out = 0.1
[experts]
sigmas = [0.1, 0.3]
options = {width = 4}
training = {epochs = 1, batch = 64}
[cascade]
[calibrate]
samples = 16
radii = [0.0, 0.1]
[certify]
n = 100
n0 = 10
skip = 120
"""


@pytest.mark.slow
def test_trained_routers_beside_a_cascade(tmp_path, capsys):
    """The recipe has no labels: the first variant that needs them makes them, and lends them to the others."""
    from benchmarks import cifar10_ablations

    (tmp_path / "pipe.toml").write_text(SMALL_CASCADE)
    changes = ["certify.skip=120"]
    words = [word for change in changes for word in ("--set", change)]
    cifar10_ablations.main([str(tmp_path / "pipe.toml"), *words, "--radii", "0,0.1", "--ablation", "router"])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + 1 + 2 * 2 + 2  # the head, the cascade, two routers by two rules, the second with its gains
    made = sorted((tmp_path / "work" / "ablations" / "router").glob("*/labels-1"))
    assert len(made) == 2
    assert len({(folder / "expert-0.jsonl").read_bytes() for folder in made}) == 1
