"""Pipelines in l1: experts under uniform and splitting noise, in a Dual and in a Cascade; and what does not fit."""

import pytest

import sigmax as sx
from sigmax import models
from sigmax.pipeline import Pipeline, PipelineConfig
from sigmax.records.verify import verify
from tests.pipeline.helpers import Bars

FILE = """
out = "out"
[data]
source = "digits"
held_out = 0.1
[experts]
noise = "uniform"
scales = [0.3, 0.6]
splitting = 0.3
grid = 240
options = [{width = 3}, {width = 4}, {width = 4}]
epochs = [3, 2, 2]
[experts.training]
batch = 128
[router]
scale = 0.6
options = {width = 4}
[router.training]
epochs = 2
[labels]
n = 50
fraction = 0.1
[cascade]
[calibrate]
radii = [0.1, 0.2]
samples = 16
[certify]
n = 200
max = 6
rules = ["consensus"]
"""


def written(tmp_path, text=FILE):
    (tmp_path / "l1.toml").write_text(text)
    return tmp_path / "l1.toml"


def test_both_systems_over_one_set_of_experts(tmp_path):
    config = PipelineConfig.read(written(tmp_path))
    runs = Pipeline(config).run(Bars())
    assert {run.path.stem for run in runs} >= {"splitting-0.3", "uniform-0.3", "uniform-0.6", "cascade"}
    assert {run.plan.norm for run in runs} == {"l1"}
    assert all(verify(run.path).holds for run in runs)
    dual = next(sx.load(path) for path in (tmp_path / "out" / "systems").glob("*consensus*"))
    assert repr(dual.experts[0]).startswith("Splitting(scale 0.3")
    networks = [models.describe(expert.voters["base"].model) for expert in dual.experts]
    assert [network.options["width"] for network in networks] == [3, 4, 4]
    metrics = [tmp_path / "out" / "nets" / f"{name}.safetensors.metrics.jsonl" for name in config.experts.names]
    assert [len(path.read_text().splitlines()) for path in metrics] == [3, 2, 2]
    assert [expert.noise for expert in dual.experts[1:]] == [sx.noise.Uniform(0.3), sx.noise.Uniform(0.6)]
    assert dual.router.noise == sx.noise.Uniform(0.6)
    again = Pipeline(PipelineConfig.read(tmp_path / "l1.toml")).run(Bars())
    assert [run.records for run in again] == [run.records for run in runs]
    table = sx.report.compare(runs)
    assert table["sigma"].str.contains("uniform|splitting").all()


def test_images_off_the_grid_are_refused_before_anything_is_trained(tmp_path):
    config = PipelineConfig.read(written(tmp_path, FILE.replace("grid = 240", "grid = 255")))
    with pytest.raises(sx.RequestError, match="experts.splitting: grid=255 is for inputs that are multiples of 1/255"):
        Pipeline(config).run(Bars())
    assert not (tmp_path / "out" / "nets").exists()


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('noise = "uniform"\n', "", "scales and splitting are for radii in l1: set noise = 'uniform'"),
        ("scales = [0.3, 0.6]", "sigmas = [0.3, 0.6]", "sigmas are of Gaussian noise; beside noise = 'uniform'"),
        ("scales = [0.3, 0.6]", "scales = [0.6, 0.3]", "scales must be strictly rising"),
        ("epochs = [3, 2, 2]", "epochs = [3, 2]", "one for each of the 3 experts, splitting first; got 2"),
        ("splitting = 0.3\n", "", "grid goes with Gaussian noise, or with splitting"),
        ("scales = [0.3, 0.6]", 'scales = [0.3, 0.6]\nmethod = "macer"', "macer training is made for Gaussian noise"),
        ("scales = [0.3, 0.6]", "scales = [0.3, 0.6]\none_network = true", "one_network is for several scales"),
        ("[router]\nscale = 0.6", "[router]\nsigma = 0.6", "the same norm; they have router: l2, expert-0: l1"),
        ("[router]\nscale = 0.6", "[router]", "it needs either sigma, of Gaussian noise, or scale"),
        ('out = "out"', 'out = "out"\nsteps = ["router", "finetune"]', "fine-tuned under Gaussian noise alone"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, old, new, named):
    assert old in FILE
    with pytest.raises(sx.RequestError, match=named):
        PipelineConfig.read(written(tmp_path, FILE.replace(old, new)))
