"""A network in training behind a denoiser: what it is shown are denoised images."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from sigmax.certify.scheme import Scheme
from sigmax.errors import RequestError
from sigmax.models import Denoised
from sigmax.noise.voter import Model


class Behind(nn.Module):
    """`network(denoise(noisy, sigma))`, of which the network alone is trained, moved, saved and averaged.

    Methods with one noise for all images call it as `model(noisy)`, and `sigma` is theirs; those with several pass
    the noise of each image (see `answers`).
    """

    takes_sigma = True

    def __init__(self, denoiser: nn.Module, network: nn.Module, sigma: float | None) -> None:
        super().__init__()
        self.network, self.sigma = network, sigma
        # A function, so that the denoiser is no part of what is trained; copies of this module share it.
        self._denoise = _fixed(denoiser)

    def forward(self, noisy: Tensor, sigma: float | Tensor | None = None) -> Tensor:
        """The network's answer; through the denoiser flows a gradient only where one is asked of the images."""
        level = self.sigma if sigma is None else sigma
        assert level is not None
        with torch.set_grad_enabled(torch.is_grad_enabled() and noisy.requires_grad):
            clean = self._denoise(noisy, level)
        answer: Tensor = self.network(clean)
        return answer


class Together(nn.Module):
    """The same pair, of which both parts are trained, moved and averaged.

    The denoiser learns what the network needs: what it makes of an image may no longer look like one.
    """

    takes_sigma = True

    def __init__(self, denoiser: nn.Module, network: nn.Module, sigma: float | None) -> None:
        super().__init__()
        self.pair, self.sigma = Denoised(denoiser, network), sigma

    def forward(self, noisy: Tensor, sigma: float | Tensor | None = None) -> Tensor:
        """The network's answer."""
        level = self.sigma if sigma is None else sigma
        assert level is not None
        answer: Tensor = self.pair(noisy, level)
        return answer


def _fixed(denoiser: nn.Module) -> Callable[[Tensor, float | Tensor], Tensor]:
    pair = Denoised(denoiser, nn.Identity())

    def denoise(noisy: Tensor, sigma: float | Tensor) -> Tensor:
        denoiser.eval()  # whoever else holds it may have left it in another mode
        return pair.denoise(noisy, sigma)

    return denoise


def answers(model: nn.Module, noisy: Tensor, sigma: float | Tensor) -> Tensor:
    """What a model in training says of images with this noise; one that wants to know the noise is told."""
    inner = getattr(model, "module", model)  # of several processes' shared one
    answer: Tensor = model(noisy, sigma) if getattr(inner, "takes_sigma", False) else model(noisy)
    return answer


def classifier_of(expert: Scheme) -> Model:
    """The network of an expert that can be trained: behind its denoiser, where it has one."""
    model = expert.voters["base"].model
    return model.classifier if isinstance(model, Denoised) else model


def denoiser_of(expert: Scheme) -> nn.Module | None:
    """The denoiser before an expert's network, which must be a module for training to go on behind it."""
    model = expert.voters["base"].model
    if not isinstance(model, Denoised):
        return None
    if not isinstance(model.denoiser, nn.Module):
        raise RequestError("a denoiser that is a plain function cannot be fine-tuned behind; use a torch module")
    return model.denoiser
