"""Denoised smoothing: a classifier that never saw noise, after a network that removes it.

The pair is a base model like any other: the noise is added outside, at exactly sigma, so the certificate of the
smoothed pair is the ordinary one.
Sources: Salman et al. (2020), "Denoised Smoothing: A Provable Defense for Pretrained Classifiers"; Carlini et al.
(2023), "(Certified!!) Adversarial Robustness for Free!" (one step of a diffusion model).
"""

from collections.abc import Callable
from inspect import Parameter, signature

from torch import Tensor, nn

from sigmax.errors import RequestError
from sigmax.models.adapters.exported import as_callable
from sigmax.models.classifier import Classifier, Denoiser

Network = Callable[..., Tensor]


class Denoised(nn.Module):
    """`classifier(denoise(noisy, sigma))`: a base model for `Smoothed` and every scheme that takes one.

    denoiser: a `models.denoisers` one, or any image denoiser called as `model(noisy)` or `model(noisy, sigma)` (which,
    its attribute `takes_sigma` says, or else its signature), pixels on [0, 1] in and out. It is kept as it is: two
    `Denoised` over one denoiser hold the same object, and schemes share its work.
    classifier: any module or callable, images on [0, 1] -> logits or class ids; normalisation belongs inside it.
    """

    takes_sigma = True

    def __init__(self, denoiser: Network, classifier: Network) -> None:
        super().__init__()
        denoiser, classifier = as_callable(denoiser), as_callable(classifier)
        _check(denoiser, classifier)
        self.denoiser = denoiser
        self.classifier = classifier
        self._denoiser_takes_sigma = takes_sigma(denoiser)
        self._classifier_takes_sigma = bool(getattr(classifier, "takes_sigma", False))

    def forward(self, noisy: Tensor, sigma: float | Tensor) -> Tensor:
        """The classifier's answer for the denoised images."""
        return self.classify(self.denoise(noisy, sigma), sigma)

    def classify(self, clean: Tensor, sigma: float | Tensor) -> Tensor:
        """The classifier's answer for images that are denoised already."""
        return self.classifier(clean, sigma) if self._classifier_takes_sigma else self.classifier(clean)

    def denoise(self, noisy: Tensor, sigma: float | Tensor) -> Tensor:
        """Images on [0, 1], shaped as they came; `sigma` in pixels, one number or a tensor (n,)."""
        clean = self.denoiser(noisy, sigma) if self._denoiser_takes_sigma else self.denoiser(noisy)
        if not isinstance(clean, Tensor) or clean.shape != noisy.shape:
            shape = tuple(clean.shape) if isinstance(clean, Tensor) else type(clean).__name__
            raise RequestError(
                f"the denoiser must return images of the shape it was given, {tuple(noisy.shape)}; it returned "
                f"{shape}. Use one for these images"
            )
        return clean.clamp(0, 1)

    @property
    def sigma_may_be_tensor(self) -> bool:
        """Whether sigma may come as a tensor: our own denoisers take both, others may not be."""
        return isinstance(self.denoiser, Denoiser) and not self._classifier_takes_sigma

    def with_denoiser(self, denoiser: Network) -> "Denoised":
        """The same classifier with another form of the same denoiser (a compiled one), called alike."""
        other = Denoised(denoiser, self.classifier)
        other._denoiser_takes_sigma = self._denoiser_takes_sigma  # a compiled module hides its signature
        return other


def takes_sigma(model: Network) -> bool:
    """Whether a denoiser is called as `model(noisy, sigma)`: as it declares, or as its signature reads."""
    declared = getattr(model, "takes_sigma", None)
    if declared is not None:
        return bool(declared)
    try:
        parameters = list(signature(model.forward if isinstance(model, nn.Module) else model).parameters.values())
    except (TypeError, ValueError):  # written in C, or otherwise without a signature
        return False
    second = [p for p in parameters if p.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)][1:2]
    return any(p.default is Parameter.empty or p.name == "sigma" for p in second)


def _check(denoiser: Network, classifier: Network) -> None:
    for name, part in (("denoiser", denoiser), ("classifier", classifier)):
        if not callable(part):
            raise RequestError(f"the {name} must be a module or another callable; got {type(part).__name__}")
    if hasattr(denoiser, "config") and hasattr(denoiser, "time_embedding"):
        raise RequestError(
            f"a bare {type(denoiser).__name__} does not say which noise its timesteps mean; load it with its "
            "scheduler: sigmax.models.denoisers.from_diffusers(FOLDER or hub id), or wrap(unet, schedule)"
        )
    if isinstance(denoiser, Denoiser) and isinstance(classifier, Classifier):
        theirs, ours = denoiser.description.input_shape, classifier.description.input_shape
        if theirs != ours:
            raise RequestError(
                f"the denoiser is for images of shape {theirs} and the classifier for {ours}; the two must agree"
            )
