"""A model that can say what it is."""

from collections import OrderedDict
from dataclasses import replace

from torch import Tensor, nn

from sigmax.errors import RequestError
from sigmax.models.denoiser import Denoiser
from sigmax.models.description import Description
from sigmax.models.normalise import Normalise
from sigmax.models.registry import all_options, build


class Classifier(nn.Sequential):
    """A registered network behind its normalisation: pixels in [0, 1], noise already added, to logits.

    `network` is the bare network; its tensors are what a checkpoint holds. `description` rebuilds the rest.
    """

    network: nn.Module
    description: Description

    def __init__(self, network: nn.Module, description: Description) -> None:
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        if description.normalisation is not None:
            layers["normalise"] = Normalise(description.normalisation.mean, description.normalisation.std)
        layers["network"] = network
        super().__init__(layers)
        self.description = description

    def forward(self, images: Tensor) -> Tensor:
        """Logits, one row an image; refused for images of another shape, which many a network would take."""
        if tuple(images.shape[1:]) != self.description.input_shape:
            raise RequestError(
                f"this {self.description.architecture!r} was made for images of shape "
                f"{self.description.input_shape}; got {tuple(images.shape[1:])}. Use one made for these images"
            )
        for layer in self:
            images = layer(images)
        return images


def create(description: Description) -> Classifier:
    """The described model with fresh weights, in eval mode, on the CPU.

    Weights are drawn from torch's global generator. The model's own description names every option, so that it
    means the same network should a default ever change.
    """
    if description.denoises:
        raise RequestError(
            f"a {description.architecture!r} of 0 classes is a denoiser; make it with sigmax.models.create_denoiser"
        )
    complete = all_options(description.architecture, description.options)
    network = build(
        description.architecture,
        classes=description.classes,
        input_shape=description.input_shape,
        **complete,
    )
    return Classifier(network, replace(description, options=complete)).eval()


def describe(model: object) -> Description | None:
    """What a model made by `create`, `load` or `import_weights`, or a denoiser of ours, is; None for any other."""
    return model.description if isinstance(model, Classifier | Denoiser) else None
