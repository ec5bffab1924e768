import pytest
import torch
from torch import nn
from torch.nn import functional

from sigmax import models
from sigmax.models.architectures.resnet import BasicBlock, PaddedShortcut


def parameters(network):
    return sum(parameter.numel() for parameter in network.parameters())


def thin_resnet_parameters(depth):
    """Counted from Table 6 of the paper: 3x3 convolutions without bias, two numbers a channel of batch norm."""
    blocks = (depth - 2) // 6

    def layer(channels, out):
        return 9 * channels * out + 2 * out

    stem = layer(3, 16)
    same = sum(layer(c, c) * (2 * blocks - 1) for c in (16, 32, 64))
    first = layer(16, 16) + layer(16, 32) + layer(32, 64)
    return stem + same + first + 64 * 10 + 10


@pytest.mark.parametrize(("depth", "count"), [(20, 269_722), (56, 853_018), (110, 1_727_962)])
def test_thin_resnets_have_the_papers_size(depth, count):
    assert thin_resnet_parameters(depth) == count
    assert parameters(models.build(f"resnet{depth}", classes=10, input_shape=(3, 32, 32))) == count


@pytest.mark.parametrize(("width", "count"), [(64, 11_173_962), (16, 701_466)])
def test_resnet18_has_its_size(width, count):
    assert parameters(models.build("resnet18", classes=10, input_shape=(3, 32, 32), width=width)) == count


def test_small_cnn_on_digits_is_the_network_described():
    network = models.build("small-cnn", classes=10, input_shape=(1, 8, 8))
    shapes = [tuple(p.shape) for name, p in network.named_parameters() if name.endswith("weight")]
    assert shapes == [(16, 1, 3, 3), (32, 16, 3, 3), (64, 32 * 4 * 4), (10, 64)]


@pytest.mark.parametrize("size", [(8, 8), (7, 9)])
def test_padded_shortcut_is_subsampling_and_zero_channels(size):
    features = torch.rand(2, 16, *size)
    found = PaddedShortcut(16, 32)(features)
    expected = torch.zeros_like(found)
    for row in range(found.shape[2]):
        for column in range(found.shape[3]):
            expected[:, 8:24, row, column] = features[:, :, 2 * row, 2 * column]
    assert found.shape == (2, 32, (size[0] + 1) // 2, (size[1] + 1) // 2)
    assert torch.equal(found, expected)


def test_the_block_adds_its_shortcut_before_the_last_relu():
    block = BasicBlock(4, 8, stride=2, shortcut=PaddedShortcut(4, 8)).eval()
    features = torch.randn(2, 4, 6, 6)
    # Fresh batch norms in eval mode divide by sqrt(1 + eps) and do nothing else.
    scale = (1 + block.bn1.eps) ** -0.5
    inner = functional.relu(functional.conv2d(features, block.conv1.weight, stride=2, padding=1) * scale)
    outer = functional.conv2d(inner, block.conv2.weight, padding=1) * scale
    expected = functional.relu(outer + block.shortcut(features))
    torch.testing.assert_close(block(features), expected)


@pytest.mark.parametrize("name", models.names())
def test_in_eval_mode_an_inputs_logits_do_not_depend_on_its_batch(name):
    network = models.build(name, classes=10, input_shape=(3, 16, 16))
    images = torch.rand(6, 3, 16, 16)
    with torch.no_grad():
        together, alone = network(images), torch.cat([network(image[None]) for image in images])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["resnet20", "resnet18"])
def test_first_weights_keep_the_signal_alive(name):
    """Deep networks with careless first weights give constant logits, and training never starts."""
    torch.manual_seed(0)
    network = models.build(name, classes=10, input_shape=(3, 32, 32))
    network.train()
    logits = network(torch.randn(16, 3, 32, 32))
    assert isinstance(network.linear, nn.Linear)
    assert 0.05 < logits.std(dim=0).mean() < 5
