"""Normalisation as the first layer of a model, so that noise is always added on the pixel scale."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from sigmax.config.validation import Numbers, Positive, options
from sigmax.errors import RequestError


@options
class Normalisation:
    """The mean and standard deviation of each channel, in units of pixels in [0, 1]."""

    mean: Annotated[Numbers, Field(min_length=1)]
    std: Annotated[tuple[Positive, ...], Field(strict=False)]

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std):
            raise RequestError(
                f"normalisation needs one mean and one std a channel, got means {self.mean} and stds {self.std}"
            )


PRESETS: dict[str, Normalisation | None] = {
    "none": None,
    "cifar10": Normalisation((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    "imagenet": Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "half": Normalisation((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),  # from -1 to 1, as public EfficientNet-Lite weights take
}


def normalisation(asked: str | Normalisation | None) -> Normalisation | None:
    """The normalisation meant by a preset's name; one that is given in numbers, or None, is returned as it is."""
    if not isinstance(asked, str):
        return asked
    if asked not in PRESETS:
        raise RequestError(
            f"unknown normalisation {asked!r}; known are: {', '.join(PRESETS)}. "
            "Others are given as Normalisation(mean, std)"
        )
    return PRESETS[asked]


class Normalise(nn.Module):
    """(pixels - mean) / std, a channel at a time; no part of the state dict, which could contradict itself."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        checked = Normalisation(tuple(mean), tuple(std))
        self.register_buffer("mean", torch.tensor(checked.mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(checked.std).view(-1, 1, 1), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """The same images on the scale that the network behind expects."""
        return (pixels - self.mean) / self.std

    def extra_repr(self) -> str:
        """Every digit of what is subtracted and divided by: being no weights, they show nowhere else."""
        mean, std = (tuple(values.flatten().tolist()) for values in (self.mean, self.std))
        return f"mean={mean}, std={std}"


class Normalised(nn.Sequential):
    """A network of the user's own after its normalisation: takes pixels in [0, 1], with or without noise."""

    def __init__(self, network: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__(OrderedDict(normalise=Normalise(mean, std), network=network))
