"""One pass through a denoiser for several classifiers of its images."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from sigmax.models.denoised import Denoised


class Branches(nn.Module):
    """The logits of several `Denoised` models side by side, (n, K_1 + K_2 + ...); their denoiser runs once."""

    takes_sigma = True

    def __init__(self, models: Sequence[Denoised], classes: Sequence[int]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.classes = tuple(classes)

    @property
    def sigma_may_be_tensor(self) -> bool:
        """As of each of the models."""
        return all(isinstance(model, Denoised) and model.sigma_may_be_tensor for model in self.models)

    @property
    def denoiser(self) -> Callable[..., Tensor]:
        """That of all the models."""
        first = self.models[0]
        assert isinstance(first, Denoised)
        return first.denoiser

    def with_denoiser(self, denoiser: Callable[..., Tensor]) -> "Branches":
        """The same classifiers with another form of the same denoiser (a compiled one)."""
        first, *others = self.models
        assert isinstance(first, Denoised)
        return Branches([first.with_denoiser(denoiser), *others], self.classes)  # type: ignore[list-item]  # all are

    def forward(self, noisy: Tensor, sigma: float | Tensor) -> Tensor:
        """Each classifier's answer for the same denoised images."""
        first = self.models[0]
        assert isinstance(first, Denoised)
        clean = first.denoise(noisy, sigma)
        # A classifier may work in place, and the next one must see what it would see by itself.
        copies = [clean.clone() for _ in self.models[1:]]
        answers = [model.classify(x, sigma) for model, x in zip(self.models, (*copies, clean), strict=True)]  # type: ignore[operator]
        return torch.cat([_as_logits(*pair) for pair in zip(answers, self.classes, strict=True)], dim=1)


def _as_logits(answer: Tensor, classes: int) -> Tensor:
    """Logits as they are; class ids as logits that say the same, with NaN, which is refused, for no class."""
    if answer.ndim == 2:
        return answer
    chosen = (answer[:, None] == torch.arange(classes, device=answer.device)).float()
    return torch.where(chosen.any(1, keepdim=True), chosen, torch.nan)
