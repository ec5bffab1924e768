"""A pipeline's file: what it says when it leaves things out, and what is refused, before anything is written."""

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import sigmax as sx
from sigmax import models
from sigmax.data import Dataset
from sigmax.errors import RequestError
from sigmax.models import Description
from sigmax.pipeline import Pipeline, PipelineConfig
from sigmax.pipeline.tables import CertifyConfig, DataConfig, ExpertsConfig, LabelsConfig, RouterConfig
from sigmax.train import FINE_TUNING, PRESETS, Settings
from sigmax.train.router.presets import SMALL

SMALLEST = """
out = "work"
[data]
source = "digits"
[experts]
sigmas = [0.1, 0.4]
[router]
sigma = 0.4
"""


def read(folder, text, changes=()):
    (folder / "pipe.toml").write_text(text)
    return PipelineConfig.read(folder / "pipe.toml", changes)


def test_what_is_left_out_has_a_default(tmp_path):
    config = read(tmp_path, SMALLEST)
    assert (config.out, config.data) == (tmp_path / "work", DataConfig(source="digits"))
    assert config.experts == ExpertsConfig(sigmas=(0.1, 0.4))
    assert config.router == RouterConfig(sigma=0.4)
    assert (config.steps, config.device, config.experts.count) == (("router",), "cpu", 2)
    assert config.experts.training == Settings()
    assert (config.router.model, config.router.training) == ("small-cnn", SMALL.settings)
    assert config.finetune.training == FINE_TUNING
    assert config.labels == LabelsConfig(n=100, n0=20, alpha=1e-3, fraction=1.0)
    assert config.certify == CertifyConfig(rules=("min", "consensus"), n0=100, n=10_000, alpha=1e-3)
    Pipeline(config).check()
    assert list(tmp_path.iterdir()) == [tmp_path / "pipe.toml"]


def test_what_is_said_is_taken(tmp_path):
    config = read(
        tmp_path,
        """
        out = "/elsewhere"
        device = "cuda"
        [data]
        source = "folder:pictures"
        test = "held-out"
        [experts]
        sigmas = [0.25, 1]
        model = "resnet20"
        training = {epochs = 3, lr = 1, device = "cpu"}
        [router]
        sigma = 1
        options = {width = 4}
        loss = {sharpness = 3.0, balance = false}
        training.epochs = 5
        [finetune]
        training.epochs = 2
        [certify]
        rules = ["min"]
        max = 1
        """,
    )
    assert config.out == Path("/elsewhere")
    assert config.data == DataConfig(source=f"folder:{tmp_path}/pictures", test="held-out")
    assert str(config.experts.sigmas) == "(0.25, 1.0)", "a whole number names the same file as its float"
    assert config.experts.training == Settings(epochs=3, lr=1.0, device="cpu")
    assert dict(config.router.loss) == {"sharpness": 3.0, "balance": False}
    assert config.router.training == replace(SMALL.settings, epochs=5, device="cuda")
    assert config.finetune.training == replace(FINE_TUNING, epochs=2, device="cuda")
    assert config.certify == CertifyConfig(rules=("min",), max=1)


def test_a_preset_fills_what_the_table_leaves_out(tmp_path):
    text = SMALLEST.replace("sigma = 0.4", 'preset = "dual-cifar10"\nloss.consistency = 15.0\ntraining.epochs = 7')
    router, preset = read(tmp_path, text).router, PRESETS["dual-cifar10"]
    assert (router.model, router.sigma) == ("resnet110", 1.0)
    assert router.training == replace(preset.settings, epochs=7)
    assert router.loss["consistency"] == 15.0
    assert router.loss["entropy"] == 0.5
    chosen = read(tmp_path, text, ["router.sigma=0.5", "router.model=resnet20"]).router
    assert (chosen.model, chosen.sigma) == ("resnet20", 0.5)


def test_paths_begin_at_the_file_wherever_it_is_read_from(tmp_path, monkeypatch):
    text = SMALLEST.replace('"digits"', '"npz:sub/data.npz"').replace(
        "sigmas = [0.1, 0.4]", 'systems = ["a", "/b", "zoo:c"]'
    )
    (tmp_path / "pipe.toml").write_text(text)
    monkeypatch.chdir(tmp_path.parent)
    config = PipelineConfig.read(Path(tmp_path.name) / "pipe.toml")
    assert config.out == Path(tmp_path.name) / "work"
    assert config.data.source == f"npz:{tmp_path.name}/sub/data.npz"
    assert config.experts.systems == (f"{tmp_path.name}/a", "/b", "zoo:c")
    home = read(tmp_path, SMALLEST.replace('"work"', '"~/work"'))
    assert home.out == Path("~/work").expanduser()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("out = ", "is not TOML"),
        ("a = " + 5000 * "[" + 5000 * "]", "is not TOML"),
        ("", "out is missing: the folder of all results; data is missing; experts is missing"),
        (SMALLEST.replace("[router]", "[routers]"), "did you mean router?"),
        (SMALLEST.replace('source = "digits"', ""), "data.source is missing: digits, mnist:PATH"),
    ],
)
def test_a_bad_file_is_refused(tmp_path, text, named):
    with pytest.raises(RequestError) as refused:
        read(tmp_path, text)
    assert named in str(refused.value)
    with pytest.raises(RequestError, match="cannot be read"):
        PipelineConfig.read(tmp_path / "absent.toml")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("rounds=2", "the top level has no 'rounds'; it takes calibrate, cascade, certify"),
        ("router.epochs=3", "[router] has no 'epochs'; it takes"),
        ("router.epochs=3", "did you mean [router.training] epochs?"),
        ("router.training.epoch=3", "[router.training] has no 'epoch'"),
        ("out=a\0b", "no path holds a null character"),
        ("out=~nobody-at-all/x", "~nobody-at-all/x cannot be found"),
        ("experts.sigmas=0.1,nan", "experts.sigmas.1: expected a finite number, got nan"),
        ("experts.sigmas=0.4,0.1", "experts: sigmas must be strictly rising; got [0.4, 0.1]"),
        ("experts.sigmas=0.1", "experts: it needs two or more experts"),
        ("experts.sigmas=", "experts: it needs either sigmas"),
        ("experts.systems=a,b", "experts: it needs either sigmas"),
        ("experts.sigmas=; experts.systems=a,b; experts.model=small-cnn", "leave out model, or systems"),
        ("experts.model=vit-of-mine", "experts.model: expected one of small-cnn"),
        ("experts.method=mine", "experts: unknown training method 'mine'"),
        ("experts.hyper={consistency=1.0}", "consistency"),
        ('experts.method=["gaussian"]', "experts: method must be one for all, or a list of one for each of the 2"),
        ("experts.one_network=true; experts.method=macer", "is trained by gaussian or consistency; got 'macer'"),
        ("experts.one_network=true; experts.hyper={copies=4}", "gaussian has no copies where one network is for"),
        ("experts.training.epochs=0", "epochs"),
        ("experts.options.depth=3", "has no option depth"),
        ("router.sigma=true", "router.sigma: expected a number, got True"),
        ("router.sigma=-1", "router.sigma: expected a number above 0, got -1"),
        ("router.preset=mine", "router.preset: unknown preset 'mine'"),
        ("router.preset=dual-cifar10; router.loss.objective=certified", "sets the paper's loss"),
        ("router.loss.sharpness=0", "sharpness"),
        ("router.start=2", "router.start must be the place of an expert that is trained here, 0 to 1; got 2"),
        ("router.start=1; router.options.width=8", "has its model, options and normalise"),
        ("router.normalise=cifar10", "[router]: the normalisation is for 3 channels"),
        ("labels.n=9", "[labels]: n=9 samples can never certify at alpha=0.001"),
        ("labels.n=1e4", "labels.n: expected a whole number, got 10000.0"),
        ("labels.fraction=2", "labels.fraction: expected a number of at most 1, got 2"),
        ("labels.folds=2; labels.held_out=0.1", "labels: take folds, which label every image, or held_out"),
        ("labels.folds=100000", "labels.folds: 1437 inputs can be divided into 2 to 1437 folds"),
        ("labels.folds=2; steps=router,finetune,router", "they cannot label after a 'finetune'"),
        ("certify.n=11", "[certify]: "),
        ("certify.rules=max", "certify.rules.0: expected 'consensus' or 'min', got 'max'"),
        ("certify.rules=min,min", "certify: rules must name each rule once"),
        ("certify.rules=[]", "certify.rules must name a rule of the Dual"),
        ("certify.targets=0.1", "certify: targets and tolerance say when sampling may stop"),
        ("certify.sampling=adaptive; certify.targets=50", "[certify]: none of the targets can be reached"),
        ("certify.start=360", "[certify]: start must lie in 0..359"),
        ("certify.device=nonsense", "device 'nonsense' cannot be used"),
        ("finetune.votes=1", "finetune.votes: expected a number of at least 2, got 1"),
        ("finetune.consistency=1; finetune.training.batch=15", "finetune: "),
        ("steps=finetune", "steps must begin with 'router'; got ['finetune']"),
        ("steps=router,tune", "steps.1: expected 'router' or 'finetune', got 'tune'"),
        ("data.held_out=0.00001", "data.held_out: a share of 1e-05"),
        ("data.source=nowhere", "nowhere"),
        ("calibrate.samples=3", "[calibrate] chooses the confidence thresholds of a [cascade]; a Dual has none"),
        ("store=int8", "store: expected 'fp32' or 'bf16', got 'int8'"),
    ],
)
def test_a_bad_value_is_refused_before_anything_is_written(tmp_path, change, named):
    (tmp_path / "pipe.toml").write_text(SMALLEST)
    with pytest.raises(RequestError) as refused:
        Pipeline.read(tmp_path / "pipe.toml", change.split("; ")).check()
    assert str(refused.value).startswith(f"{tmp_path / 'pipe.toml'}")
    assert named in str(refused.value)
    assert list(tmp_path.iterdir()) == [tmp_path / "pipe.toml"]


def test_the_reference_is_that_of_the_models():
    """`make docs-tables` writes it."""
    docs = Path(__file__).parents[2] / "docs"
    page = runpy.run_path(str(docs / "pictures" / "configuration.py"))["page"]
    assert (docs / "configuration.md").read_text() == page()


def test_every_verb_with_keys_is_in_the_documentation():
    import typer

    from sigmax.cli.main import app

    def verbs(command, words=()):
        for name, inner in getattr(command, "commands", {}).items():
            yield from verbs(inner, (*words, name))
        if any("--keys" in option.opts for option in command.params):
            yield " ".join(words)

    found = set(verbs(typer.main.get_command(app)))
    docs = Path(__file__).parents[2] / "docs"
    headings = {line for line in (docs / "configuration.md").read_text().splitlines() if line.startswith("### ")}
    assert {"train classifier", "train router", "train denoiser", "finetune", "label", "calibrate", "bench"} <= found
    assert {f"### `sigmax {verb}`" for verb in found} <= headings


# What only a look at data and systems can tell


def test_splits_that_do_not_fit_are_refused(tmp_path, monkeypatch):
    def load(source, split, size=None):
        side = 8 if split == "train" else 4
        images = np.zeros((2, 1, side, side), np.float32)
        return Dataset(name="odd", split=split, images=images, labels=np.arange(2), classes=("a", "b"))

    monkeypatch.setattr("sigmax.data.load", load)
    with pytest.raises(RequestError, match=r"\[data\] 'train' and 'test' must be images of one shape"):
        Pipeline(read(tmp_path, SMALLEST)).check()


def smoothed(classes=10, sigma=0.1, shape=(1, 8, 8)):
    torch.manual_seed(0)
    network = models.create(
        Description(architecture="small-cnn", classes=classes, input_shape=shape, options={"width": 4})
    )
    return sx.Smoothed(network, sigma=sigma, classes=classes)


def with_systems(folder, *systems, changes=()):
    for j, system in enumerate(systems):
        system.save(folder / f"system-{j}")
    listed = [f"system-{j}" for j in range(len(systems))]
    return read(folder, SMALLEST.replace("sigmas = [0.1, 0.4]", f"systems = {listed}"), changes)


@pytest.mark.parametrize(
    ("systems", "steps", "named"),
    [
        (lambda: (smoothed(), smoothed(classes=3)), "router", "classes"),
        (lambda: (smoothed(classes=3), smoothed(classes=3)), "router", "they have 3 classes, but digits has 10"),
        (lambda: (smoothed(), smoothed(shape=(3, 8, 8))), "router", "shape"),
        (lambda: (smoothed(), exact()), "router,finetune", "expert 1 is a Lipschitz"),
    ],
)
def test_systems_that_do_not_fit_are_refused(tmp_path, systems, steps, named):
    config = with_systems(tmp_path, *systems(), changes=[f"steps={steps}"])
    with pytest.raises(RequestError, match=named):
        Pipeline(config).check()
    assert not config.out.exists()


def exact():
    return sx.Lipschitz(smoothed().voters["base"].model, 1.0, classes=10)


def test_noise_that_will_not_do_is_warned_of(tmp_path):
    said = []
    Pipeline(read(tmp_path, SMALLEST, ["router.sigma=0.3"]), on_warning=said.append).check()
    assert [text.partition(":")[0] for text in said] == [
        "router.sigma 0.3 is below the largest noise of the experts, 0.4"
    ]
    config = read(tmp_path, SMALLEST, ["experts.sigmas=0.25,25", "router.sigma=100"])
    Pipeline(config, on_warning=said.append).check()
    assert [text.partition(":")[0] for text in said[1:]] == ["experts.sigmas", "router.sigma"]


def test_a_dry_run_may_name_a_device_of_another_machine(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("needs a machine without CUDA")
    said = []
    made = Pipeline(read(tmp_path, SMALLEST, ["device=cuda"]), on_warning=said.append)
    made.check(devices=False)
    assert len(said) == 1
    assert said[0].startswith("device 'cuda' cannot be used")
    with pytest.raises(RequestError, match="device 'cuda' cannot be used"):
        made.check()
