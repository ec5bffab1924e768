"""The registry: presets as the papers have them, hyper-parameters as text, wrong requests, and methods from outside."""

import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest
from torch.nn import functional

import sigmax as sx
from sigmax.config.plugins import plugins
from sigmax.errors import RequestError
from sigmax.train import GaussianTraining, Method, Score, make_method, register
from sigmax.train.loop.noisy import noisy_copies
from sigmax.train.methods.data_dependent import with_moving_noise
from sigmax.train.methods.macer import Macer
from sigmax.train.methods.registry import GROUP, known, method_preset, settable
from tests.cli.conftest import sigmax  # noqa: F401 (a fixture)


@pytest.mark.parametrize(
    ("name", "field", "values"),
    [
        ("stability", "weight", (2, 2, 1)),
        ("smoothadv", "epsilon", (256 / 256, 256 / 256, 512 / 256)),
        ("smoothadv", "copies", (4, 8, 2)),
        ("macer", "weight", (12, 6, 12)),
        ("consistency", "consistency", (20, 10, 10)),
        ("smoothmix", "step", (0.5, 1, 2)),
        ("smoothmix", "mix_step", (0, 1, 1)),
        ("cat-rs", "weight", (0.5, 1, 2)),
        ("easy-samples", "discard_epoch", (60, 70, 60)),
        ("easy-samples", "threshold", (0.5, 0.4, 0.4)),
        ("easy-samples", "steps", (3, 6, 4)),
        ("easy-samples", "step", (0.25, 0.25, 0.5)),
    ],
)
def test_presets_are_the_papers(name, field, values):
    found = tuple(method_preset("cifar10", name, sigma).fields[field] for sigma in (0.25, 0.5, 1.0))
    assert found == values


def test_macer_waits_at_the_largest_noise():
    assert make_method("macer", 1.0, method_preset("cifar10", "macer", 1.0).fields).plain_epochs == 50
    assert make_method("macer", 0.5, method_preset("cifar10", "macer", 0.5).fields).plain_epochs == 0


def test_moving_noise_wraps_what_supports_it():
    assert with_moving_noise(GaussianTraining(0.5), {"step": 0.01}).inner == GaussianTraining(0.5)
    assert with_moving_noise(Macer(0.5)).step == pytest.approx(1e-4)
    assert "inner" not in settable(type(with_moving_noise(GaussianTraining(0.5))))
    with pytest.raises(RequestError, match="data-dependent has no pace"):
        with_moving_noise(GaussianTraining(0.5), {"pace": 1})


def test_wrong_requests_say_what_there_is():
    with pytest.raises(RequestError, match="unknown training method 'mixup'; known are: cat-rs, consistency"):
        make_method("mixup", 0.5)
    with pytest.raises(RequestError, match="macer has no preset 'imagenet'; it has: cifar10"):
        method_preset("imagenet", "macer", 0.5)
    with pytest.raises(RequestError, match=r"sigma 0.25, 0.5, 1; got 0.3"):
        method_preset("cifar10", "macer", 0.3)
    with pytest.raises(RequestError, match="macer has no lambda; macer takes weight=12.0, gamma=8.0"):
        make_method("macer", 0.5, {"lambda": 1.0})
    with pytest.raises(RequestError, match="cat-rs needs a target model"):
        make_method("cat-rs", 0.5)


@dataclass(frozen=True)
class Softened(Method):
    """A method of somebody's own, a plain dataclass: cross-entropy with softened labels."""

    name: ClassVar[str] = "softened"
    any_noise: ClassVar[bool] = True
    sigma: float
    softening: float = 0.1
    copies: int = 2

    def score(self, model, batch):
        logits = model(noisy_copies(batch.pixels, self.noise_of(batch), self.copies, batch.generator))
        targets = batch.targets.repeat(self.copies)
        loss = functional.cross_entropy(logits, targets, label_smoothing=self.softening)
        return Score(loss, (logits.argmax(1) == targets).float().mean())


@pytest.mark.slow
def test_a_method_from_outside_goes_all_the_way(registrations_are_forgotten, sigmax, tmp_path):  # noqa: F811
    """Trained by its name on the command line, built, certified, verified and reported."""
    register(summary="Softened labels.")(Softened)
    assert known()["softened"].kind is Softened
    assert with_moving_noise(Softened(0.25)).plan()["inner"]["name"] == "softened"
    net, system, run, report = (tmp_path / name for name in ("net.safetensors", "system", "run.jsonl", "report"))
    asked = "--set", "method.softening=0.05", "--set", "training.batch=128"
    for words in (
        ("train", "classifier", "--data", "digits", "--sigma", 0.25, "--method", "softened", *asked, "--epochs", 3,
         "--out", net),
        ("build", "smoothed", net, "--out", system),
        ("certify", system, "--data", "digits", "--max", 20, "--n0", 20, "--n", 200, "--out", run),
        ("verify", run),
        ("report", run, "--out", report),
    ):  # fmt: skip
        done = sigmax(*words)
        assert done.returncode == 0, done.stderr
    plan = {"name": "softened", "sigma": 0.25, "softening": 0.05, "copies": 2}
    assert sx.models.load(net)[1].notes["training"]["method"] == plan
    assert (sx.read(run).frame()["correct"]).mean() > 0.5
    assert any(report.iterdir())


def test_names_are_taken_once(registrations_are_forgotten):
    register(summary="Softened labels.")(Softened)
    register(summary="The same again, as when a file is run twice.")(Softened)

    @dataclass(frozen=True)
    class Other(Softened):
        name: ClassVar[str] = "macer"

    with pytest.raises(RequestError, match="there is a training method 'macer' already"):
        register(summary="Not MACER.")(Other)


PLUGIN = '''
from typing import ClassVar
from sigmax.train import GaussianTraining

class Doubled(GaussianTraining):
    """Gaussian training at twice the noise."""
    name: ClassVar[str] = "doubled"
'''


@pytest.fixture
def installed(registrations_are_forgotten, tmp_path, monkeypatch):
    """A package whose entry point `doubled` is what is given."""

    def install(value):
        (tmp_path / "doubled_noise.py").write_text(PLUGIN)
        info = tmp_path / "doubled_noise-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: doubled-noise\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\ndoubled = {value}\n")
        monkeypatch.syspath_prepend(tmp_path)
        plugins.cache_clear()

    yield install
    sys.modules.pop("doubled_noise", None)


def test_an_installed_package_adds_a_method(installed):
    installed("doubled_noise:Doubled")
    assert known()["doubled"].summary == "Gaussian training at twice the noise."
    assert make_method("doubled", 0.5).plan()["name"] == "doubled"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("doubled_noise:Missing", "cannot be imported"),
        ("json:dumps", r"must be a sigmax\.train\.Method of that name"),
    ],
)
def test_a_broken_package_is_named(installed, value, message):
    installed(value)
    with pytest.raises(RequestError, match=message):
        known()
