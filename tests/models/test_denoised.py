"""A denoiser and a classifier as one base model."""

import pytest
import torch
from torch import nn

import sigmax as sx
from sigmax import models
from sigmax.errors import RequestError
from sigmax.models.denoised import takes_sigma

SHAPE = (1, 8, 8)


def unet(**options):
    small = {"width": 8, "multipliers": (1, 2), "blocks": 1, "attention": (), **options}
    return models.create_denoiser(models.Description(architecture="unet", classes=0, input_shape=SHAPE, options=small))


def classifier(classes=10):
    return models.create(models.Description(architecture="small-cnn", classes=classes, input_shape=SHAPE))


class Shrinking(nn.Module):
    """The best linear estimate: knows sigma."""

    def forward(self, noisy, sigma):
        return 0.5 + (noisy - 0.5) / (1 + (sigma / 0.25) ** 2)


class Blur(nn.Module):
    """A blind denoiser: does not know sigma."""

    def forward(self, noisy):
        return nn.functional.avg_pool2d(noisy, 3, stride=1, padding=1)


def images(count=3):
    return torch.from_numpy(sx.data.load("digits", "test").pixels(range(count)))


@pytest.mark.parametrize("denoiser", [Shrinking(), Blur(), unet(), lambda noisy: noisy], ids=lambda d: type(d).__name__)
def test_it_is_the_classifier_of_the_denoised_image(denoiser):
    net, noisy = classifier(), images() + 0.5 * torch.randn(3, *SHAPE)
    both = sx.Denoised(denoiser, net)
    with torch.no_grad():
        clean = denoiser(noisy, 0.5) if takes_sigma(denoiser) else denoiser(noisy)
        assert torch.equal(both.denoise(noisy, 0.5), clean.clamp(0, 1))
        assert torch.equal(both(noisy, 0.5), net(clean.clamp(0, 1)))


def test_the_votes_are_those_of_noise_at_exactly_sigma(monkeypatch):
    """Smoothed(Denoised(d, c)) votes as Smoothed of the function c(d(., sigma)) does, on the same noise."""
    monkeypatch.setattr(sx.Smoothed, "weights", lambda _: "")  # a function shows none, so its noise would differ
    d, c = unet(), classifier()
    whole = sx.Smoothed(sx.Denoised(d, c), sigma=0.25, classes=10)
    function = sx.Smoothed(lambda batch: c(d(batch, 0.25).clamp(0, 1)), sigma=0.25, classes=10)
    found, expected = (f.certify(images(), n0=20, n=200, seed=5) for f in (whole, function))
    assert [s.counts for f in found for s in f.stages] == [s.counts for f in expected for s in f.stages]


def test_router_and_experts_share_one_denoiser():
    shared = unet()
    router = sx.Smoothed(sx.Denoised(shared, classifier(2)), sigma=0.5, classes=2)
    net = sx.Denoised(shared, classifier())
    dual = sx.Dual(router, [sx.Smoothed(net, sigma=s, classes=10) for s in (0.25, 0.5)])
    assert all(voter.model.denoiser is shared for voter in dual.voters.values())
    assert len(dual.certify(images(), n0=20, n=100, seed=0)) == 3


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (Shrinking(), True),
        (Blur(), False),
        (lambda noisy: noisy, False),
        (lambda noisy, level: noisy, True),
        (lambda noisy, sigma=1.0: noisy, True),
        (lambda noisy, mask=None: noisy, False),
        (lambda *images: images[0], False),
        (torch.relu, False),
    ],
)
def test_whether_a_denoiser_wants_sigma_is_read_off_its_signature(model, expected):
    assert takes_sigma(model) is expected


def test_a_declaration_comes_before_the_signature():
    blind = Shrinking()
    blind.takes_sigma = False
    assert not takes_sigma(blind)


def test_a_classifier_may_be_told_sigma_too():
    class Told(nn.Module):
        takes_sigma = True

        def forward(self, clean, sigma):
            return torch.full((len(clean), 2), float(sigma))

    assert sx.Denoised(Blur(), Told())(images(), 0.25)[0, 0] == 0.25


def test_a_denoiser_of_another_shape_is_refused():
    other = models.create(models.Description(architecture="small-cnn", classes=10, input_shape=(1, 28, 28)))
    with pytest.raises(RequestError, match=r"shape \(1, 8, 8\) and the classifier for \(1, 28, 28\)"):
        sx.Denoised(unet(), other)
    f = sx.Smoothed(sx.Denoised(unet(), nn.Flatten()), sigma=0.5, classes=64)
    with pytest.raises(RequestError, match=r"takes images of shape \(1, 8, 8\); got \(1, 28, 28\)"):
        f.certify(torch.rand(1, 1, 28, 28), n=100)


def test_what_changes_the_shape_is_no_denoiser():
    f = sx.Smoothed(sx.Denoised(nn.AvgPool2d(2), nn.Flatten()), sigma=0.5, classes=16)
    with pytest.raises(RequestError, match=r"must return images of the shape it was given.*\(8, 1, 4, 4\)"):
        f.certify(images(), n=100)


def test_parts_that_cannot_be_called_are_refused():
    with pytest.raises(RequestError, match="the denoiser must be a module or another callable; got str"):
        sx.Denoised("unet", classifier())
    with pytest.raises(RequestError, match="the classifier must be"):
        sx.Denoised(unet(), None)


def test_inputs_outside_the_pixel_range_are_refused():
    f = sx.Smoothed(sx.Denoised(unet(), classifier()), sigma=0.5, classes=10)
    with pytest.raises(RequestError, match=r"\[0, 1\]"):
        f.certify(2 * images() - 1, n=100)


@pytest.mark.slow
@pytest.mark.parametrize("each", [False, True], ids=["one noise", "one an image"])
def test_denoiser_and_classifier_compile_as_one_graph(each):
    from sigmax.models.denoisers import Diffusion, Schedule

    class Constant(nn.Module):
        def forward(self, image, timesteps, return_dict):
            return (0.1 * image * timesteps.reshape(-1, 1, 1, 1) / 1000,)

    sigma = torch.tensor([0.25, 0.5, 1.0]) if each else 0.25
    noisy = torch.rand(3, *SHAPE)
    for denoiser in (unet(), Diffusion(Constant(), Schedule.linear())):
        pair = sx.Denoised(denoiser, classifier()).eval()
        compiled = torch.compile(pair, fullgraph=True, backend="eager")  # the graph alone, without kernels
        with torch.no_grad():
            torch.testing.assert_close(compiled(noisy, sigma), pair(noisy, sigma))


def test_a_denoisers_description():
    description = unet().description
    assert description.denoises
    assert models.Description.from_json(description.to_json()) == description
    with pytest.raises(RequestError, match="normalisation must be None"):
        models.Description(
            architecture="unet", classes=0, input_shape=SHAPE, normalisation=models.Normalisation((0.5,), (0.5,))
        )
    with pytest.raises(RequestError, match="has classes=0, this one of a 'small-cnn' has 10"):
        models.create_denoiser(classifier().description)
