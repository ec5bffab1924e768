import pytest
import torch
from torch import nn

from sigmax import models
from sigmax.errors import RequestError


def test_each_channel_is_shifted_and_scaled():
    pixels = torch.rand(2, 3, 4, 4)
    found = models.Normalise((0.1, 0.2, 0.3), (0.5, 1.0, 2.0))(pixels)
    for channel, (mean, std) in enumerate([(0.1, 0.5), (0.2, 1.0), (0.3, 2.0)]):
        torch.testing.assert_close(found[:, channel], (pixels[:, channel] - mean) / std)


def test_it_moves_with_the_model_but_stays_out_of_the_state_dict():
    model = models.Normalised(nn.Flatten(), (0.5,), (0.25,))
    assert list(model.state_dict()) == []
    assert {buffer.dtype for buffer in model.double().buffers()} == {torch.float64}


def test_normalised_wraps_any_network():
    network = nn.Conv2d(1, 2, 1)
    pixels = torch.rand(3, 1, 4, 4)
    wrapped = models.Normalised(network, (0.5,), (0.25,))
    torch.testing.assert_close(wrapped(pixels), network((pixels - 0.5) / 0.25))


def test_presets_by_name():
    assert models.normalisation("none") is None
    assert models.normalisation(None) is None
    imagenet = models.normalisation("imagenet")
    assert imagenet is not None
    assert imagenet.mean == (0.485, 0.456, 0.406)
    assert models.normalisation(imagenet) is imagenet
    with pytest.raises(RequestError, match="known are: none, cifar10, imagenet"):
        models.normalisation("cifar")


def test_its_text_shows_every_digit():
    stds = [torch.tensor(0.25), torch.nextafter(torch.tensor(0.25), torch.tensor(1.0))]
    texts = [repr(models.Normalised(nn.Flatten(), (0.5,), (float(std),))) for std in stds]
    assert "Normalise(mean=(0.5,), std=(0.25,))" in texts[0]
    assert "Normalise(mean=(0.5,), std=(0.2500000298023224,))" in texts[1]


@pytest.mark.parametrize(
    ("mean", "std"),
    [
        *(((), ()), ((0.5,), (0.5, 0.5))),
        *((("a",), (1.0,)), (("0.5",), (1.0,)), ("5", (1.0,)), ((0.5,), (10**400,)), ((None,), (1.0,)), (0.5, 1.0)),
        ((0.5,), (0.0,)),
        ((0.5,), (-1.0,)),
        ((float("nan"),), (1.0,)),
    ],
)
def test_senseless_numbers_are_refused(mean, std):
    with pytest.raises(RequestError, match="normalisation needs|(mean|std)[.0]*: expected"):
        models.Normalisation(mean, std)
