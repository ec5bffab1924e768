"""Denoised training: the network sees denoised images."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from sigmax.engine.settings import Model
from sigmax.errors import RequestError
from sigmax.models import Denoised
from sigmax.schemes.scheme import Scheme


class DenoisedTraining(nn.Module):
    """`network(denoise(noisy, sigma))`, of which the network alone is trained, or with `joint` the denoiser too."""

    takes_sigma = True

    def __init__(self, denoiser: nn.Module, network: nn.Module, sigma: float | None, *, joint: bool = False) -> None:
        super().__init__()
        self.network, self.sigma = network, sigma
        self.denoised = Denoised(denoiser, nn.Identity()) if joint else None
        # A function, so that the denoiser is no part of what is trained; copies of this module share it.
        self._denoise = _fixed(denoiser)

    def forward(self, noisy: Tensor, sigma: float | Tensor | None = None) -> Tensor:
        """The network's answer; a denoiser that stays passes a gradient on only where one is asked of the images."""
        level = self.sigma if sigma is None else sigma
        assert level is not None
        if self.denoised is not None:
            clean = self.denoised.denoise(noisy, level)
        else:
            with torch.set_grad_enabled(torch.is_grad_enabled() and noisy.requires_grad):
                clean = self._denoise(noisy, level)
        answer: Tensor = self.network(clean)
        return answer


def _fixed(denoiser: nn.Module) -> Callable[[Tensor, float | Tensor], Tensor]:
    pair = Denoised(denoiser, nn.Identity())

    def denoise(noisy: Tensor, sigma: float | Tensor) -> Tensor:
        denoiser.eval()  # whoever else holds it may have left it in another mode
        return pair.denoise(noisy, sigma)

    return denoise


def answers(model: nn.Module, noisy: Tensor, sigma: float | Tensor) -> Tensor:
    """The logits of a model in training for images with this noise; a model that takes sigma gets it."""
    inner = getattr(model, "module", model)  # of several processes' shared one
    answer: Tensor = model(noisy, sigma) if getattr(inner, "takes_sigma", False) else model(noisy)
    return answer


def classifier_of(expert: Scheme) -> Model:
    """The network of an expert that can be trained: the one after its denoiser, where it has one."""
    model = expert.voters["base"].model
    return model.classifier if isinstance(model, Denoised) else model


def denoiser_of(expert: Scheme) -> nn.Module | None:
    """The denoiser before an expert's network; it must be a module for denoised training."""
    model = expert.voters["base"].model
    if not isinstance(model, Denoised):
        return None
    if not isinstance(model.denoiser, nn.Module):
        raise RequestError("fine-tuning needs a denoiser that is a torch module, got a plain function")
    return model.denoiser
