"""A pipeline's file: what it says when it leaves things out, and what is refused, before anything is written."""

import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import get_type_hints

import pytest

from sigmax.errors import RequestError
from sigmax.train import FINE_TUNING, PRESETS, Pipeline, PipelineConfig, Settings
from sigmax.train.pipeline_config import (
    BalanceConfig,
    CertifyConfig,
    DataConfig,
    ExpertsConfig,
    FinetuneConfig,
    LabelsConfig,
    RouterConfig,
)
from sigmax.train.router_options import LossOptions
from sigmax.train.router_presets import SMALL

SMALLEST = """
out = "work"
[data]
source = "digits"
[experts]
sigmas = [0.1, 0.4]
[router]
sigma = 0.4
"""


def read(folder, text):
    (folder / "pipe.toml").write_text(text)
    return PipelineConfig.read(folder / "pipe.toml")


def test_what_is_left_out_has_a_default(tmp_path):
    config = read(tmp_path, SMALLEST)
    assert config == PipelineConfig(
        out=tmp_path / "work",
        data=DataConfig(source="digits"),
        experts=ExpertsConfig(sigmas=(0.1, 0.4)),
        router=RouterConfig(sigma=0.4),
    )
    assert (config.steps, config.device, config.count) == (("router",), "cpu", 2)
    assert config.experts.training == Settings()
    assert (config.router.model, config.router.training, config.router.loss) == ("small-cnn", SMALL.settings, {})
    assert config.finetune.training == FINE_TUNING
    assert config.labels == LabelsConfig(n=100, n0=20, alpha=1e-3, fraction=1.0)
    assert config.certify == CertifyConfig(rules=("min", "consensus"), n0=100, n=10_000, alpha=1e-3)
    assert config.file == tmp_path / "pipe.toml"


def test_what_is_said_is_taken(tmp_path):
    config = read(
        tmp_path,
        """
        out = "/elsewhere"
        steps = ["router", "finetune", "router"]
        device = "cuda"
        [data]
        source = "folder:pictures"
        image_size = 32
        test = "held-out"
        [experts]
        sigmas = [0.25, 1]
        one_network = true
        model = "resnet20"
        normalise = "cifar10"
        bound = "runner-up"
        training = {epochs = 3, lr = 1, device = "cpu"}
        [labels]
        fraction = 0.5
        alpha = 0.01
        [router]
        sigma = 1
        options = {width = 4}
        sharpness = 3
        balance = false
        strength = "weak"
        held_out = 0.2
        [router.training]
        epochs = 5
        [finetune]
        votes = 50
        training.epochs = 2
        [certify]
        rules = ["min"]
        experts = false
        max = 1
        """,
    )
    assert config.out == Path("/elsewhere")
    assert config.steps == ("router", "finetune", "router")
    assert config.data == DataConfig(source=f"folder:{tmp_path}/pictures", image_size=32, test="held-out")
    assert config.experts == ExpertsConfig(
        sigmas=(0.25, 1.0),
        one_network=True,
        model="resnet20",
        normalise="cifar10",
        bound="runner-up",
        training=Settings(epochs=3, lr=1.0, device="cpu"),
    )
    assert str(config.experts.sigmas) == "(0.25, 1.0)", "a whole number names the same file as its float"
    assert (config.labels.fraction, config.labels.alpha, config.labels.n) == (0.5, 0.01, 100)
    assert config.router.loss == {"sharpness": 3.0, "balance": False, "strength": "weak"}
    assert (config.router.sigma, config.router.options, config.router.held_out) == (1.0, {"width": 4}, 0.2)
    assert config.router.training == replace(SMALL.settings, epochs=5, device="cuda")
    assert config.finetune.training == replace(FINE_TUNING, epochs=2, device="cuda")
    assert config.finetune.votes == 50
    assert config.certify == CertifyConfig(rules=("min",), experts=False, max=1)


def test_a_preset_fills_what_the_table_leaves_out(tmp_path):
    text = SMALLEST.replace("sigma = 0.4", 'preset = "dual-cifar10"\nconsistency = 15\ntraining.epochs = 7')
    router, preset = read(tmp_path, text).router, PRESETS["dual-cifar10"]
    assert (router.model, router.sigma) == ("resnet110", 1.0)
    assert router.training == replace(preset.settings, epochs=7)
    expected = {name: value for name, value in preset.fields.items() if name != "sigma"}
    assert router.loss == {**expected, "consistency": 15.0}
    chosen = read(tmp_path, text.replace("consistency", 'sigma = 0.5\nmodel = "resnet20"\nconsistency')).router
    assert (chosen.model, chosen.sigma) == ("resnet20", 0.5)


def test_paths_begin_at_the_file_wherever_it_is_read_from(tmp_path, monkeypatch):
    text = SMALLEST.replace('"digits"', '"npz:sub/data.npz"').replace(
        "sigmas = [0.1, 0.4]", 'systems = ["a", "/b"]'
    )
    (tmp_path / "pipe.toml").write_text(text)
    monkeypatch.chdir(tmp_path.parent)
    config = PipelineConfig.read(Path(tmp_path.name) / "pipe.toml")
    assert config.out == Path(tmp_path.name) / "work"
    assert config.data.source == f"npz:{tmp_path.name}/sub/data.npz"
    assert config.experts.systems == (f"{tmp_path.name}/a", "/b")
    zoo = read(tmp_path, SMALLEST.replace("sigmas = [0.1, 0.4]", 'systems = ["zoo:a", "hub:b/c"]'))
    assert zoo.experts.systems == ("zoo:a", "hub:b/c")
    home = read(tmp_path, SMALLEST.replace('"work"', '"~/work"').replace('"digits"', '"cifar10:~/cifar"'))
    assert home.out == Path("~/work").expanduser()
    assert home.data.source == f"cifar10:{Path.home()}/cifar"


# What is refused. Each is a change of the smallest file.

LINES = {
    "out": 'out = "work"\n',
    "data": 'source = "digits"\n',
    "experts": "sigmas = [0.1, 0.4]\n",
    "router": "sigma = 0.4\n",
}


def changed(where, text):
    """The smallest file with one of its lines replaced."""
    return SMALLEST.replace(LINES[where], text + "\n")


def with_more(text):
    """The smallest file with more tables after it."""
    return f"{SMALLEST}\n{text}\n"


BAD = {
    "no TOML": ("out = ", "is not TOML"),
    "no text": (b"\xff\xfe", "is not TOML"),
    "endless nesting": ("a = " + 5000 * "[" + 5000 * "]", "is not TOML"),
    "empty": ("", "out is missing: name a folder"),
    "no out": (changed("out", ""), "out is missing: name a folder"),
    "no data": (SMALLEST.replace('[data]\nsource = "digits"', ""), "[data] is missing"),
    "no experts": (SMALLEST.replace("[experts]\nsigmas = [0.1, 0.4]", ""), "[experts] is missing"),
    "no router": (SMALLEST.replace("[router]\nsigma = 0.4", ""), "[router] is missing"),
    "no source": (changed("data", ""), "data.source is missing"),
    "no sigma": (changed("router", ""), "router.sigma is missing"),
    "unknown key": (
        changed("out", 'out = "work"\nrounds = 2'),
        "has no rounds; it takes balance, certify, data",
    ),
    "unknown table": (with_more("[smoothing]\nn = 1"), "the file has no smoothing"),
    "unknown in data": (changed("data", 'source = "digits"\nsplit = "test"'), "[data] has no split"),
    "unknown in experts": (
        changed("experts", "sigma = 0.1"),
        "[experts] has no sigma; it takes bound, hyper, method, model",
    ),
    "unknown in router": (changed("router", "sigma = 0.4\nlambda = 1"), "[router] has no lambda"),
    "unknown in settings": (
        changed("router", "sigma = 0.4\ntraining.lambda = 1"),
        "[router.training] has no lambda",
    ),
    "unknown in labels": (with_more("[labels]\nN = 1"), "[labels] has no N; it takes alpha, batch, compile"),
    "unknown in certify": (with_more("[certify]\nmaximum = 1"), "[certify] has no maximum"),
    "unknown in finetune": (with_more("[finetune]\nn = 1"), "[finetune] has no n; it takes consistency, training"),
    "no weight": (
        with_more("[finetune]\nconsistency = -1.0"),
        "[finetune]: consistency must be at least 0 and finite",
    ),
    "half a copy": (
        with_more("[finetune]\nconsistency = 1.0\ntraining = {batch = 15}"),
        "[finetune]: a step of batch=15 inputs has batch / copies images, and copies=2 does not divide it",
    ),
    "loss is no table": (changed("router", "sigma = 0.4\nloss = {}"), "[router] has no loss"),
    "table is text": (changed("out", 'out = "work"\nlabels = "many"'), "labels must be a table; got 'many'"),
    "training is a number": (
        changed("experts", "sigmas=[0.1,0.4]\ntraining=3"),
        "experts.training must be a table",
    ),
    "out is a number": (changed("out", "out = 3"), "out must be text; got 3"),
    "out holds a null": (changed("out", 'out = "a\\u0000b"'), "out must be text; got 'a\\x00b'"),
    "out is too long": (changed("out", f'out = "{300 * "x"}"'), "cannot be read (File name too long)"),
    "systems are too long": (changed("experts", f'systems = ["{300 * "x"}", "b"]'), "cannot be a system folder"),
    "source is a list": (changed("data", "source = []"), "data.source must be text; got []"),
    "image_size is text": (changed("data", 'source="digits"\nimage_size="8"'), "data.image_size must be a whole"),
    "sigmas is text": (changed("experts", 'sigmas = "0.1"'), "experts.sigmas must be a list; got '0.1'"),
    "sigmas hold text": (changed("experts", 'sigmas = [0.1, "0.4"]'), "experts.sigmas, entry 2, must be a finite"),
    "sigmas hold nan": (changed("experts", "sigmas = [0.1, nan]"), "entry 2, must be a finite number; got nan"),
    "sigma is true": (changed("router", "sigma = true"), "router.sigma must be a finite number; got True"),
    "n is text": (with_more('[labels]\nn = "many"'), "labels.n must be a whole number; got 'many'"),
    "n is broken": (with_more("[certify]\nn = 1e4"), "certify.n must be a whole number; got 10000.0"),
    "n is true": (with_more("[certify]\nn = true"), "certify.n must be a whole number; got True"),
    "experts is a number": (with_more("[certify]\nexperts = 1"), "certify.experts must be true or false; got 1"),
    "bound is of another kind": (
        changed("experts", 'sigmas = [0.1, 0.4]\nbound = "two-sided"'),
        "experts.bound must be one of one-sided, runner-up; got 'two-sided'",
    ),
    "one_network is text": (
        changed("experts", 'sigmas = [0.1, 0.4]\none_network = "yes"'),
        "experts.one_network must be true or false",
    ),
    "epochs is broken": (
        changed("router", "sigma = 0.4\ntraining.epochs = 2.5"),
        "training.epochs must be a whole",
    ),
    "epochs is true": (changed("router", "sigma=0.4\ntraining.epochs = true"), "epochs must be a whole number"),
    "lr is text": (changed("router", 'sigma=0.4\ntraining.lr = "fast"'), "router.training.lr must be a finite"),
    "no epochs": (
        changed("experts", "sigmas = [0.1, 0.4]\ntraining.epochs = 0"),
        "[experts.training]: epochs must be a whole number of at least 1, got 0",
    ),
    "lr below 0": (with_more("[finetune.training]\nlr = -1"), "[finetune.training]: lr must be positive"),
    "unknown optimiser": (with_more('[finetune.training]\noptimiser="lbfgs"'), "optimiser must be one of sgd"),
    "no sigmas": (changed("experts", ""), "[experts] needs either sigmas"),
    "empty sigmas": (changed("experts", "sigmas = []"), "[experts] needs either sigmas"),
    "one sigma": (changed("experts", "sigmas = [0.1]"), "[experts] must be two or more"),
    "falling sigmas": (changed("experts", "sigmas = [0.4, 0.1]"), "experts.sigmas must be strictly rising"),
    "equal sigmas": (changed("experts", "sigmas = [0.1, 0.1]"), "experts.sigmas must be strictly rising"),
    "sigma of 0": (changed("experts", "sigmas = [0, 0.1]"), "experts.sigmas: sigma must be a positive number"),
    "sigma below 0": (changed("router", "sigma = -1"), "[router]: sigma must be a positive number"),
    "one system": (changed("experts", 'systems = ["a"]'), "[experts] must be two or more"),
    "both": (changed("experts", 'sigmas=[0.1, 0.4]\nsystems=["a", "b"]'), "beside systems it got sigmas"),
    "systems to train": (changed("experts", 'systems=["a", "b"]\ntraining.epochs = 3'), "it got training"),
    "no such systems": (
        changed("experts", 'systems = ["a", "b"]'),
        "expected a system folder with a system.toml at",
    ),
    "unknown model": (
        changed("experts", 'sigmas=[0.1,0.4]\nmodel="vit"'),
        "experts.model must be one of small-cnn",
    ),
    "unknown router": (changed("router", 'sigma = 0.4\nmodel = "vit"'), "router.model must be one of small-cnn"),
    "unknown option": (changed("experts", "sigmas=[0.1,0.4]\noptions.depth=3"), "has no option depth"),
    "unknown option of the router": (
        changed("router", "sigma = 0.4\noptions.depth = 3"),
        "[router]: architecture 'small-cnn' has no option depth",
    ),
    "impossible option": (
        changed("router", "sigma=0.4\noptions.width=-1"),
        "[router]: architecture 'small-cnn' with",
    ),
    "unknown normalise": (changed("router", 'sigma=0.4\nnormalise="l2"'), "router.normalise must be one of none"),
    "normalise of colours": (
        changed("router", 'sigma = 0.4\nnormalise = "cifar10"'),
        "[router]: the normalisation is for 3 channels",
    ),
    "unknown preset": (changed("router", 'preset = "mine"'), "router.preset: unknown preset 'mine'"),
    "preset is a number": (changed("router", "preset = 1"), "router.preset must be text; got 1"),
    "preset without its network": (changed("router", 'preset = "dual-imagenet"'), "name another (architecture="),
    "unknown strength": (
        changed("router", 'sigma=0.4\nstrength="most"'),
        "router.strength must be one of weak, strong",
    ),
    "sharpness of 0": (changed("router", "sigma=0.4\nsharpness=0"), "[router]: sharpness must be positive"),
    "copies below 1": (changed("router", "sigma=0.4\ncopies=0"), "[router]: copies must be a whole number"),
    "nothing held out": (changed("router", "sigma=0.4\nheld_out=0"), "[router]: held_out must lie between 0 and 1"),
    "unknown step": (
        changed("out", 'out="work"\nsteps=["router", "tune"]'),
        "steps, entry 2, must be one of router",
    ),
    "no steps": (changed("out", 'out="work"\nsteps=[]'), "steps must begin with 'router'"),
    "finetune first": (changed("out", 'out="work"\nsteps=["finetune"]'), "steps must begin with 'router'"),
    "unknown rule": (
        with_more('[certify]\nrules = ["max"]'),
        "certify.rules, entry 1, must be one of consensus, min",
    ),
    "no rules": (with_more("[certify]\nrules = []"), "[certify]: rules must be some of"),
    "a rule twice": (with_more('[certify]\nrules = ["min", "min"]'), "[certify]: rules must be some of"),
    "rules is text": (with_more('[certify]\nrules = "min"'), "certify.rules must be a list; got 'min'"),
    "labels of few draws": (with_more("[labels]\nn = 9"), "[labels]: n=9 draws can never certify at alpha=0.001"),
    "few draws": (
        with_more("[certify]\nn = 11"),
        "[certify]: expert-0, which gets 0.00025 of alpha=0.001: n=11 draws",
    ),
    "no draws": (with_more("[certify]\nn0 = 0"), "[certify]: n0 must be a whole number of draws"),
    "alpha of 1": (with_more("[labels]\nalpha = 1"), "[labels]: alpha must lie strictly between 0 and 1"),
    "fraction of 2": (with_more("[labels]\nfraction = 2"), "[labels]: fraction must lie above 0 and at most at 1"),
    "seed below 0": (with_more("[certify]\nseed = -1"), "[certify]: seed must be a whole number from 0"),
    "seed of a sample": (with_more("[labels]\nsample_seed = -1"), "[labels]: sample_seed must be a whole number"),
    "one vote": (
        with_more("[finetune]\nvotes = 1"),
        "[finetune]: votes must be a whole number of votes, at least 2",
    ),
    "start too far": (with_more("[certify]\nstart = 360"), "[certify]: start must lie in 0..359"),
    "skip of 0": (with_more("[certify]\nskip = 0"), "[certify]: skip must be at least 1"),
    "max of 0": (with_more("[certify]\nmax = 0"), "[certify]: max must be at least 1"),
    "unknown source": (changed("data", 'source = "nowhere"'), "unknown data source 'nowhere'"),
    "missing data": (changed("data", 'source = "cifar10:absent"'), "absent does not exist"),
    "unknown split": (
        changed("data", 'source = "digits"\ntest = "val"'),
        "the splits are train and test, got 'val'",
    ),
    "size of digits": (changed("data", 'source = "digits"\nimage_size = 4'), "an image size is only for folders"),
    "size of nothing": (
        changed("data", 'source="digits"\nimage_size=0'),
        "the image size must be a positive number",
    ),
    "home of nobody": (changed("out", 'out = "~nobody-at-all/x"'), "~nobody-at-all/x cannot be found"),
    "unusable device": (changed("out", 'out="work"\ndevice="nonsense"'), "device 'nonsense' cannot be used"),
    "unusable device to train on": (
        changed("router", 'sigma = 0.4\ntraining.device = "nonsense"'),
        "device 'nonsense' cannot be used",
    ),
}


@pytest.mark.parametrize(("text", "named"), BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_before_anything_is_written(tmp_path, monkeypatch, text, named):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "pipe.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(RequestError) as refused:
        Pipeline(PipelineConfig.read(file)).check()
    assert str(refused.value).startswith(f"{file}")
    assert named in str(refused.value)
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_is_not_there_is_refused(tmp_path):
    for path in (tmp_path / "absent.toml", tmp_path):
        with pytest.raises(RequestError, match="cannot be read"):
            PipelineConfig.read(path)


def test_the_changes_above_are_of_a_good_file(tmp_path):
    assert SMALLEST.count("\n") == 8
    Pipeline(read(tmp_path, SMALLEST)).check()
    assert list(tmp_path.iterdir()) == [tmp_path / "pipe.toml"]
    assert all(line in SMALLEST for line in LINES.values())
    tomllib.loads(with_more("[labels]"))


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("sigma = 0.4", "sigma = 0.4\nepochs = 3", "; did you mean [router.training] epochs?"),
        ("sigma = 0.4", "sigma = 0.4\nepoch = 3", "; did you mean [router.training] epochs?"),
        ("sigmas = [", "sigma = [", "; did you mean sigmas?"),
        ("[router]", "[routers]", "; did you mean router?"),
        ("sigma = 0.4", "sigma = 0.4\ntraining.epoch = 3", "; did you mean epochs?"),
    ],
)
def test_a_key_that_is_misspelt_or_misplaced_gets_a_hint(tmp_path, old, new, hint):
    with pytest.raises(RequestError) as refused:
        read(tmp_path, SMALLEST.replace(old, new))
    assert str(refused.value).endswith(hint)


def test_a_key_that_is_like_no_other_gets_no_hint(tmp_path):
    with pytest.raises(RequestError) as refused:
        read(tmp_path, SMALLEST.replace("sigma = 0.4", "sigma = 0.4\nxyzzy = 3"))
    assert "did you mean" not in str(refused.value)


def test_the_docs_name_every_key():
    page = (Path(__file__).parents[2] / "docs" / "dual.md").read_text()
    tables = page.partition("\nAll keys;")[2].partition("\n## ")[0]
    general = tables.partition("[experts.training]")
    sections = dict(re.findall(r"\*\*\[+(\w+)\]+\*\*(.*?)(?=\*\*\[|\Z)", general[0], re.DOTALL))
    kinds = {"data": DataConfig, "experts": ExpertsConfig, "labels": LabelsConfig, "router": RouterConfig}
    kinds |= {"balance": BalanceConfig, "finetune": FinetuneConfig, "certify": CertifyConfig}
    assert named(sections.pop("inner")) == {"experts"}
    assert sections.keys() == kinds.keys()
    asked = {name: {field.name for field in fields(kind)} for name, kind in kinds.items()}
    asked["router"] = (asked["router"] - {"loss"}) | {*get_type_hints(LossOptions), "preset"}
    for name, keys in asked.items():
        assert keys <= named(sections[name]), name
    assert {"out", "steps", "device", "store"} <= named(general[0].partition("**[")[0])
    assert {field.name for field in fields(Settings)} <= named(general[2])


def named(table):
    """The keys in the first column."""
    return {key for row in table.splitlines() for key in re.findall(r"`(\w+)`", row.lstrip("| ").partition("|")[0])}
