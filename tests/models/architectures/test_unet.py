import pytest
import torch
from torch import nn

from sigmax import models
from sigmax.errors import RequestError
from sigmax.models.architectures.unet import UNet

SMALL = {"width": 16, "multipliers": (1, 2), "blocks": 1, "attention": (4,), "head_channels": 8}


def trained_looking(shape, **options):
    """A network whose last layers are not zero, as they are before training."""
    torch.manual_seed(0)
    network = models.build("unet", classes=0, input_shape=shape, **{**SMALL, **options})
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.1)
    return network


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (2, 9, 13)])
def test_every_shape_comes_back(shape):
    network = trained_looking(shape)
    assert not network.training
    assert network(torch.rand(3, *shape), 0.5).shape == (3, *shape)


def test_its_public_size():
    with torch.device("meta"):
        large = UNet(input_shape=(3, 32, 32), width=128, multipliers=(1, 2, 2, 2), blocks=3, attention=(16, 8))
        default = UNet(input_shape=(3, 32, 32))
    assert sum(p.numel() for p in large.parameters()) == 52_542_979
    assert sum(p.numel() for p in default.parameters()) == 6_949_187


def test_one_noise_for_all_is_the_same_as_one_each():
    network, images = trained_looking((1, 8, 8)), torch.rand(4, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(network(images, 0.5), network(images, torch.full((4,), 0.5)))
        each = network(images, torch.tensor([0.1, 0.2, 0.5, 1.0]))
        alone = torch.cat([network(images[i : i + 1], s) for i, s in enumerate([0.1, 0.2, 0.5, 1.0])])
    torch.testing.assert_close(each, alone, rtol=1e-4, atol=1e-5)


def test_the_answer_depends_on_the_noise_and_not_on_neighbours():
    network, images = trained_looking((1, 8, 8)), torch.rand(4, 1, 8, 8)
    with torch.no_grad():
        assert (network(images, 0.1) - network(images, 0.5)).abs().max() > 1e-3
        alone = torch.cat([network(image[None], 0.5) for image in images])
        torch.testing.assert_close(network(images, 0.5), alone, rtol=1e-4, atol=1e-5)


def test_untrained_it_shrinks_towards_grey_as_the_best_linear_estimate_would():
    # F starts as 0: what is left is c_skip u, the best linear estimate of a clean u of standard deviation d.
    network = models.build("unet", classes=0, input_shape=(1, 8, 8), **SMALL, spread=0.3)
    noisy = torch.randn(2, 1, 8, 8)
    share = 0.3**2 / (0.3**2 + 0.4**2)
    torch.testing.assert_close(network(noisy, 0.4), 0.5 + share * (noisy - 0.5))


def test_nearly_without_noise_an_image_stays_what_it_is():
    network, images = trained_looking((1, 8, 8)), torch.rand(4, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(network(images, 1e-5), images, rtol=0, atol=1e-3)


def test_attention_stands_where_it_was_asked_for():
    def attended(**options):
        network = models.build("unet", classes=0, input_shape=(1, 8, 8), **{**SMALL, **options})
        return {name.removesuffix(".attention") for name, _ in network.named_modules() if name.endswith("attention")}

    assert attended(attention=()) == set()
    assert attended(attention=(8,)) == {"down.0", "middle.0", "up.3", "up.4"}
    assert attended(attention=(4,)) == {"down.2", "middle.0", "up.0", "up.1"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 15}, "even number of channels"),
        ({"multipliers": ()}, "multipliers must be whole numbers"),
        ({"blocks": 0}, "at least 1; got 0"),
        ({"spread": 0.0}, "spread of clean pixels"),
        ({"head_channels": 0}, "head_channels"),
        ({"depth": 3}, "has no option depth; its options are: width"),
    ],
)
def test_senseless_options_are_refused(options, message):
    with pytest.raises(RequestError, match=message):
        models.build("unet", classes=0, input_shape=(1, 8, 8), **{**SMALL, **options})


def test_a_classifier_is_no_denoiser_and_the_reverse():
    with pytest.raises(RequestError, match="'resnet20' is a classifier, no denoiser; denoisers are: unet"):
        models.build("resnet20", classes=0, input_shape=(3, 32, 32))
    with pytest.raises(RequestError, match="'unet' is a denoiser.*classifiers: small-cnn"):
        models.build("unet", classes=10, input_shape=(3, 32, 32))
