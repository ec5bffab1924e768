"""Easy samples: Gaussian training that leaves hard inputs aside and works on the easy ones alone.

# x input; y its class; d_1 .. d_m noises; p_A(x) share of noisy copies that are classified right; E discard epoch
# C of N copies right; L(C) lower confidence limit of p_A at level alpha (Clopper-Pearson); d* the noise attacked

    epochs before E:  loss(x) = (1/m) sum_i -log f(x + d_i)_y
    at epoch E:       inputs with p_A < threshold, of 100 copies, are dropped for good                    (discard)
    from E on:        loss(x) = (1/m) sum_i -log f(x + d_i*)_y,  d_i* = noise_attack.on_sphere(d_i)         (attack)
    E, E + 10, ..:    w(x) = max(1, Phi^-1(L(C)) / Phi^-1(0.75)) from N = 16 copies at alpha = 0.1        (reweight)

From E on an epoch samples as many inputs as there were at first, with replacement, x with probability in proportion
to w(x), or the same for all that are left: the number of steps does not change. Where nothing is dropped or weighed
an epoch visits every input once, as before. Epochs count from 0, so that E of them are Gaussian training.
`reference`: "share" divides by Phi^-1(0.75), as the paper writes it, and gives weights up to 1.64; "limit" divides
by Phi^-1(L(0.75 N)), the radius that 0.75 of the votes prove, as in its Fig. 4 and the authors' code: up to 7.21.
Source: Sun et al. (2025), "Average Certified Radius is a Poor Metric for Randomized Smoothing", Sec. 5 and App. C.
"""

import math
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from scipy.special import ndtri
from torch import Tensor, nn
from torch.nn import functional

from sigmax import bounds
from sigmax.config.validation import Count, Positive, Whole, about, options
from sigmax.errors import RequestError, RunError
from sigmax.train.loop.noisy import noisy_copies
from sigmax.train.methods.base import Batch, Examples, Method, Score
from sigmax.train.methods.noise_attack import Norm, attacking, in_full, on_sphere
from sigmax.train.methods.registry import on_cifar10, register

VOTES_TOGETHER = 4096  # noisy inputs a forward pass, while p_A is estimated


@register(
    summary="Gaussian training that drops hard images and attacks the noise of the easy ones.",
    presets=on_cifar10(
        discard_epoch=(60, 70, 60), threshold=(0.5, 0.4, 0.4), steps=(3, 6, 4), step=(0.25, 0.25, 0.5), copies=4
    ),
)
@options(frozen=False)
class EasySamples(Method):
    """The recipe above; `discard`, `reweight` and `attack` leave out a part of it each."""

    name: ClassVar[str] = "easy-samples"
    sigma: Annotated[Positive, about("noise in pixels")]
    copies: Annotated[Count, about("m, noisy copies of each image")] = 4
    discard_epoch: Annotated[Whole, about("E: epochs of Gaussian training at first, also if none is discarded")] = 60
    threshold: Annotated[float, Field(ge=0, le=1, description="p_A below which an image is dropped")] = 0.5
    steps: Annotated[Count, about("steps of the attack on a noise, at most")] = 3
    step: Annotated[Positive, about("their length, l2 in pixels; for linf each number moves by step / sqrt D")] = 0.25
    norm: Annotated[Norm, about("of the attack")] = "l2"
    discard: Annotated[bool, about("drop the hard images at epoch E")] = True
    reweight: Annotated[bool, about("show easy images more often from epoch E on")] = True
    attack: Annotated[bool, about("attack the noise from epoch E on")] = True
    discard_votes: Annotated[Count, about("noisy copies that decide whether an image is dropped")] = 100
    weight_votes: Annotated[Count, about("N, noisy copies that decide an image's weight")] = 16
    weight_alpha: Annotated[float, Field(gt=0, lt=1, description="alpha of the weights' limit L")] = 0.1
    weight_every: Annotated[Count, about("epochs between two updates of the weights")] = 10
    weight_from: Annotated[float, Field(gt=0.5, lt=1, description="p_A up to which an image has weight 1")] = 0.75
    reference: Annotated[Literal["share", "limit"], about("what a weight is measured by, see above")] = "share"

    def __post_init__(self) -> None:
        if self.reference == "limit" and self._radius(self._reference_votes) <= 0:
            raise RequestError(
                f"weight_from: expected a share of weight_votes that proves a radius, got {self.weight_from}"
            )
        self._weights: Tensor | None = None  # (N,), on the CPU

    def begin_epoch(self, model: nn.Module, examples: Examples, epoch: int) -> None:
        """Drop inputs and weigh them, in the epochs in which that is due."""
        if epoch < self.discard_epoch:
            return
        since = epoch - self.discard_epoch
        # From torch's global generator, which the loop seeds for every epoch; one part's samples are not the other's.
        dropping, weighing = (
            torch.Generator(examples.device).manual_seed(seed) for seed in torch.randint(2**62, (2,)).tolist()
        )
        weights = torch.ones(len(examples)) if self._weights is None else self._weights
        if self.discard and since == 0:
            right = right_votes(model, examples, sigma=self.sigma, votes=self.discard_votes, generator=dropping)
            weights = (right.double() / self.discard_votes >= self.threshold).float()
            self._refuse_ruin(examples.targets.cpu(), weights > 0, epoch)
        if self.reweight and since % self.weight_every == 0:
            kept = torch.nonzero(weights)[:, 0]
            left = examples.take(kept)
            right = right_votes(model, left, sigma=self.sigma, votes=self.weight_votes, generator=weighing)
            weights = torch.zeros(len(examples)).index_copy(0, kept, self.weights_of(right))
        self._weights = weights

    def weights_of(self, right: Tensor) -> Tensor:
        """w of inputs with so many of N votes right."""
        table = [max(1.0, self._radius(count) / self._unit) for count in range(self.weight_votes + 1)]
        return torch.tensor(table)[right]

    def order(self, count: int, epoch: int, generator: torch.Generator) -> Tensor:
        """The inputs of the epoch: all of them once, or, from E on, sampled by their weights."""
        if epoch < self.discard_epoch or not (self.discard or self.reweight):
            return super().order(count, epoch, generator)
        assert self._weights is not None, "begin_epoch comes before order"
        weights = self._weights.to(generator.device)
        return torch.multinomial(weights, count, replacement=True, generator=generator)

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the noisy copies; right is a copy as it is trained on, attacked or not."""
        pixels, targets = batch.pixels.repeat(self.copies, 1, 1, 1), batch.targets.repeat(self.copies)
        nothing = torch.zeros_like(batch.pixels)
        noise = noisy_copies(nothing, self.noise_of(batch), self.copies, batch.generator)
        if self.attack and batch.epoch >= self.discard_epoch:
            with attacking(model):
                noise = on_sphere(model, pixels, targets, noise, steps=self.steps, step=self.step, norm=self.norm)
        logits = in_full(model(pixels + noise))
        return Score.of(functional.cross_entropy(logits, targets), logits, targets)

    def state_dict(self) -> dict[str, Any]:
        """The weights, once there are any."""
        return {} if self._weights is None else {"weights": self._weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the weights up again."""
        self._weights = state.get("weights")

    def _refuse_ruin(self, targets: Tensor, kept: Tensor, epoch: int) -> None:
        """Raise where what is left teaches nothing: no input, or inputs of one class of several."""
        left, there = (len(set(classes.tolist())) for classes in (targets[kept], targets))
        if left < min(2, there):
            whose = "inputs of one class alone have" if left else "no input has"
            raise RunError(
                f"{whose} p_A of {self.threshold:g} or more after {epoch} epochs, so dropping the others leaves "
                "nothing to learn; lower the threshold, or train longer before the discard epoch"
            )

    @property
    def _reference_votes(self) -> int:
        return math.floor(self.weight_from * self.weight_votes)

    @property
    def _unit(self) -> float:
        """What a radius is divided by, over sigma like the radius."""
        return self._radius(self._reference_votes) if self.reference == "limit" else float(ndtri(self.weight_from))

    def _radius(self, right: int) -> float:
        """Phi^-1(L(right)): what so many votes prove, over sigma."""
        return float(ndtri(bounds.lower(right, self.weight_votes, self.weight_alpha)))


def right_votes(
    model: nn.Module, examples: Examples, *, sigma: float, votes: int, generator: torch.Generator
) -> Tensor:
    """(N,) how many of so many noisy copies of each input are classified right; int64, on the CPU."""
    found = []
    with torch.no_grad():
        size = max(1, VOTES_TOGETHER // votes)
        for first in range(0, len(examples), size):
            part = slice(first, first + size)
            pixels, targets = examples.at(part), examples.targets[part]
            answers = model(noisy_copies(pixels, sigma, votes, generator)).argmax(dim=1)
            found.append((answers.view(votes, -1) == targets).sum(dim=0).cpu())
    return torch.cat(found)
