"""A denoiser that can say what it is."""

from dataclasses import replace

from torch import Tensor, nn

from sigmax.errors import RequestError
from sigmax.models.architectures.registry import all_options, build_denoiser
from sigmax.models.checkpoints.description import Description
from sigmax.models.classifier import check_shape


class Denoiser(nn.Module):
    """A registered network that removes noise: pixels with noise `sigma` on them to pixels on [0, 1].

    `network` is the bare network; its tensors are what a checkpoint holds. `description` rebuilds the rest.
    """

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


def create_denoiser(description: Description) -> Denoiser:
    """The described denoiser with fresh weights, sampled as those of `create` are; in eval mode, on the CPU."""
    if not description.denoises:
        raise RequestError(
            f"a denoiser's description has classes=0, this one of a {description.architecture!r} has "
            f"{description.classes}; make a classifier with sigmax.models.create"
        )
    complete = all_options(description.architecture, description.options)
    network = build_denoiser(description.architecture, input_shape=description.input_shape, **complete)
    return Denoiser(network, replace(description, options=complete)).eval()
