"""Models that can say what they are: classifiers and denoisers."""

from collections import OrderedDict
from dataclasses import replace

from torch import Tensor, nn

from sigmax.errors import RequestError, resizing
from sigmax.models.architectures.registry import all_options, build
from sigmax.models.checkpoints.description import Description
from sigmax.models.normalise import Normalise


class Classifier(nn.Sequential):
    """A registered network after its normalisation: pixels in [0, 1], noise already added, to logits.

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
        check_shape(images, self.description)
        for layer in self:
            images = layer(images)
        return images


def check_shape(images: Tensor, description: Description, named: str | None = None) -> None:
    """Raise unless the images have the shape that the described network is for, and say how they would get it.

    named: what a user calls the network, where that is not its architecture.
    """
    found, (channels, height, width) = tuple(images.shape[1:]), description.input_shape
    if found == (channels, height, width):
        return
    advice = "Use one for these images"
    if len(found) == 3 and found[0] == channels and height == width:
        advice += f", or resize pictures: {resizing(height)}"
    network = named or description.architecture
    raise RequestError(f"the network {network} takes images of shape {description.input_shape}; got {found}. {advice}")


class Denoiser(nn.Module):
    """A registered network that removes noise: pixels with noise `sigma` on them to pixels on [0, 1]."""

    takes_sigma = True

    def __init__(self, network: nn.Module, description: Description) -> None:
        super().__init__()
        self.network = network
        self.description = description

    def forward(self, noisy: Tensor, sigma: float | Tensor) -> Tensor:
        """The images without their noise, not clamped; `sigma` in pixels, one number or a tensor (n,)."""
        check_shape(noisy, self.description)
        clean: Tensor = self.network(noisy, sigma)
        return clean


def create(description: Description) -> Classifier:
    """The described model with fresh weights (of torch's global generator), in eval mode, on the CPU.

    Its own description names every option, so that it means the same network should a default ever change.
    """
    if description.denoises:
        raise RequestError(
            f"a {description.architecture!r} of 0 classes is a denoiser; make it with sigmax.models.create_denoiser"
        )
    return Classifier(*_built(description)).eval()


def create_denoiser(description: Description) -> Denoiser:
    """The described denoiser, likewise."""
    if not description.denoises:
        raise RequestError(
            f"a denoiser's description has classes=0, this one of a {description.architecture!r} has "
            f"{description.classes}; make a classifier with sigmax.models.create"
        )
    return Denoiser(*_built(description)).eval()


def _built(description: Description) -> tuple[nn.Module, Description]:
    name, shape = description.architecture, description.input_shape
    complete = all_options(name, description.options)
    network = build(name, classes=description.classes, input_shape=shape, **complete)
    return network, replace(description, options=complete)


def describe(model: object) -> Description | None:
    """What a model of ours is: one from `create`, `load`, `import_weights` or `open_program`; None for any other."""
    described = getattr(model, "description", None) if isinstance(model, nn.Module) else None
    return described if isinstance(described, Description) else None
