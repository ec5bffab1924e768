"""One step of a diffusion model: its algebra, and diffusers' folders."""

import json

import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax import models
from sigmax.errors import RequestError
from sigmax.models.denoisers import Diffusion, Schedule, from_diffusers, wrap
from sigmax.models.denoisers.schedule import moments


class Oracle(nn.Module):
    """A UNet that was given the clean images, and so predicts without error; it notes what it was asked."""

    def __init__(self, clean, schedule, prediction):
        super().__init__()
        self.u, self.schedule, self.prediction = 2 * clean - 1, schedule, prediction

    def forward(self, image, timesteps, return_dict):
        assert not return_dict
        self.asked = timesteps
        abar = torch.tensor(self.schedule.alphas_bar)[timesteps.long()].to(image.dtype).reshape(-1, 1, 1, 1)
        eps = (image - abar.sqrt() * self.u) / (1 - abar).sqrt()
        answers = {"epsilon": eps, "sample": self.u, "v_prediction": abar.sqrt() * eps - (1 - abar).sqrt() * self.u}
        variance = torch.full_like(image, 7.0)  # what a learned variance adds, and nobody may read
        return (torch.cat([answers[self.prediction], variance], dim=1),)


@pytest.mark.parametrize("prediction", ["epsilon", "sample", "v_prediction"])
@pytest.mark.parametrize("schedule", [Schedule.linear(), Schedule.cosine()], ids=lambda s: s.kind)
@pytest.mark.parametrize("sigma", [0.25, torch.tensor([0.12, 1.0], dtype=torch.float64)], ids=["one", "each"])
def test_a_perfect_prediction_gives_the_clean_image_back(prediction, schedule, sigma):
    clean = torch.rand(2, 3, 4, 4, dtype=torch.float64)
    noisy = clean + torch.randn_like(clean) * (sigma if isinstance(sigma, float) else sigma.reshape(-1, 1, 1, 1))
    level = torch.as_tensor(sigma, dtype=torch.float64).reshape(-1)
    unet = Oracle(clean, schedule, prediction)
    found = Diffusion(unet, schedule, prediction=prediction)(noisy, sigma)
    torch.testing.assert_close(found, clean, rtol=1e-9, atol=1e-9)
    assert unet.asked.tolist() == moments(torch.from_numpy(schedule.alphas_bar), level).timestep.tolist()


def test_what_is_no_weight_shows_in_its_print():
    """A module of no registered class is identified by what it prints."""
    one = Diffusion(nn.Identity(), Schedule.cosine())
    others = [
        Diffusion(nn.Identity(), Schedule.linear()),
        Diffusion(nn.Identity(), Schedule.cosine(), prediction="sample"),
        Diffusion(nn.Identity(), Schedule.cosine(), timestep_scale=0.25),
    ]
    assert len({repr(one), *map(repr, others)}) == 4


def test_an_unknown_prediction_is_refused():
    with pytest.raises(RequestError, match="one of epsilon, sample, v_prediction; got 'x0'"):
        Diffusion(nn.Identity(), Schedule.cosine(), prediction="x0")


SMALL = {
    "sample_size": 8,
    "in_channels": 1,
    "out_channels": 1,
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
    "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    "norm_num_groups": 4,
}


@pytest.fixture
def diffusers():
    return pytest.importorskip("diffusers")


def unet(diffusers, **options):
    torch.manual_seed(0)
    return diffusers.UNet2DModel(**{**SMALL, **options})


@pytest.fixture(params=["folders", "flat"])
def folder(request, diffusers, tmp_path):
    """A pipeline as diffusers writes it, and as its oldest models on the hub lie."""
    scheduler = diffusers.DDPMScheduler(beta_schedule="squaredcos_cap_v2", prediction_type="v_prediction")
    where = (tmp_path / "unet", tmp_path / "scheduler") if request.param == "folders" else (tmp_path, tmp_path)
    unet(diffusers).save_pretrained(where[0])
    scheduler.save_pretrained(where[1])
    return tmp_path


def test_a_folder_of_diffusers_is_read(folder, diffusers):
    denoiser = from_diffusers(folder)
    description = denoiser.description
    assert description.input_shape == (1, 8, 8)
    assert description.options["prediction"] == "v_prediction"
    assert description.options["schedule"] == Schedule("cosine", 1000).describe()
    noisy = torch.rand(2, 1, 8, 8)
    expected = Diffusion(unet(diffusers).eval(), Schedule("cosine", 1000), prediction="v_prediction")
    with torch.no_grad():
        torch.testing.assert_close(denoiser(noisy, 0.5), expected(noisy, 0.5))


def test_it_is_saved_in_a_system_and_certifies_the_same(diffusers, tmp_path):
    classifier = models.create(models.Description(architecture="small-cnn", classes=10, input_shape=(1, 8, 8)))
    pair = sx.Denoised(wrap(unet(diffusers), Schedule.linear()), classifier)
    scheme = sx.Smoothed(pair, sigma=0.25, classes=10)
    images = sx.data.load("digits", "test").pixels(range(2))
    again = sx.load(scheme.save(tmp_path / "system"))
    found, expected = (f.certify(images, n0=10, n=100, seed=1) for f in (again, scheme))
    assert [s.counts for c in found for s in c.stages] == [s.counts for c in expected for s in c.stages]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_channels": 3}, "takes 3 channels and returns 3 .* the UNet takes 3 and returns 1"),
        ({"out_channels": 4}, "the UNet takes 1 and returns 4"),
        ({"num_class_embeds": 10}, "use an unconditional one"),
        ({"sample_size": None}, "names no sample_size"),
    ],
)
def test_a_unet_that_does_not_fit_is_refused(diffusers, options, message):
    with pytest.raises(RequestError, match=message):
        wrap(unet(diffusers, **options), Schedule.linear())


def test_another_image_size_is_refused(diffusers):
    denoiser = wrap(unet(diffusers), Schedule.linear())
    with pytest.raises(RequestError, match=r"takes images of shape \(1, 8, 8\); got \(1, 16, 16\)"):
        denoiser(torch.rand(1, 1, 16, 16), 0.5)
    with pytest.raises(RequestError, match=r"for images of \[8, 8\] pixels, and these have \[16, 16\]"):
        models.build("diffusers", classes=0, input_shape=(1, 16, 16), **denoiser.description.options)


def test_a_bare_unet_is_refused_with_the_way(diffusers):
    with pytest.raises(RequestError, match="does not say which noise its timesteps mean.*from_diffusers"):
        sx.Denoised(unet(diffusers), nn.Flatten())
    with pytest.raises(RequestError, match="expected a diffusers UNet2DModel"):
        wrap(nn.Identity(), Schedule.linear())


def test_folders_that_cannot_be_used_say_why(folder, tmp_path):
    config = next(path for path in (folder / "unet/config.json", folder / "config.json") if path.exists())
    description = json.loads(config.read_text())
    config.write_text(json.dumps({**description, "_class_name": "UNet2DConditionModel"}))
    with pytest.raises(RequestError, match="holds a UNet2DConditionModel"):
        from_diffusers(folder)
    config.write_text(json.dumps({**description, "block_out_channels": [16, 16]}))
    with pytest.raises(RequestError, match="cannot be read|do not fit"):
        from_diffusers(folder)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(RequestError, match="lacks scheduler/scheduler_config.json and scheduler_config.json"):
        from_diffusers(empty)
    with pytest.raises(RequestError, match="expected a diffusers folder or the hub's name of one"):
        from_diffusers(tmp_path / "nowhere")


def test_without_diffusers_the_error_says_what_to_install(monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(RequestError, match=r"pip install 'sigmax\[diffusion\]'"):
        from_diffusers(tmp_path)
