"""Distillation: noisy copies of an image are to be classified as a fixed teacher classifies the image itself.

# x input; y its class; f_m softmax on noisy copy m, z_m its logits; t logits of the teacher on x, without noise
# T temperature; w weight; fbar the mean of f_m; H entropy

    loss(x) = mean_m [ (1 - w) -log f_m(y) + w T^2 KL(softmax(t / T) || softmax(z_m / T)) ]
              + consistency * mean_m KL(fbar || f_m) + entropy * H(fbar)

The teacher was trained with little noise or none, so it sees classes that much noise hides, and says which of them an
image is near to. It sees the image as it is augmented. The last two terms are those of `consistency`; 0, the default,
leaves them out.
Sources: Hinton, Vinyals & Dean (2015), "Distilling the Knowledge in a Neural Network", for the loss with T and T^2;
Salman et al. (2020), "Denoised Smoothing: A Provable Defense for Pretrained Classifiers", for a noisy input that is
taught what a classifier says of the clean one (their stability objective). No setting is published for smoothing:
w = 0.9 and T = 4 are usual for CIFAR-100 without noise, as in Tian et al. (2020), "Contrastive Representation
Distillation".
"""

from dataclasses import field, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from sigmax import models
from sigmax.config.validation import Count, Positive, Weight, about, options
from sigmax.errors import RequestError
from sigmax.train.loop.noisy import by_copy, noisy_copies
from sigmax.train.methods.base import Batch, Method, Score
from sigmax.train.methods.consistency import fit, unsteadiness
from sigmax.train.methods.noise_attack import in_full
from sigmax.train.methods.registry import on_cifar10, register
from sigmax.train.methods.teacher import check_classes, fixed_copy, ready_for


@register(
    summary="Noisy copies of an image are to be classified as a fixed teacher classifies the image itself.",
    presets=on_cifar10(weight=0.9, temperature=4.0),
)
@options
class Distillation(Method):
    """The loss above. A step passes its copies through the network once, and its images through the teacher."""

    name: ClassVar[str] = "distillation"
    sigma: Annotated[Positive, about("noise in pixels")]
    teacher: Annotated[nn.Module | str | Path | None, about("a classifier or its checkpoint; must be given")] = None
    weight: Annotated[float, Field(ge=0, le=1, description="w, of the teacher's answer; the class has the rest")] = 0.9
    temperature: Annotated[Positive, about("T, by which both logits are divided")] = 4.0
    copies: Annotated[Count, about("noisy copies of each image")] = 1
    consistency: Annotated[Weight, about("weight of the copies' disagreement")] = 0.0
    entropy: Annotated[Weight, about("weight of the entropy of their mean")] = 0.0
    fixed: nn.Module = field(init=False, repr=False, compare=False)  # the teacher, a copy that is never trained
    fingerprint: str = field(init=False, repr=False)  # of it

    def __post_init__(self) -> None:
        if self.teacher is None:
            raise RequestError(
                "distillation needs a teacher, and got none; train one with little noise and name its checkpoint"
            )
        if self.consistency and self.copies < 2:
            raise RequestError(
                f"consistency: one noisy copy cannot disagree with itself; set copies=2, got {self.copies}"
            )
        object.__setattr__(self, "fixed", fixed_copy(self.teacher))
        object.__setattr__(self, "fingerprint", models.fingerprint(self.fixed))

    def plan(self) -> dict[str, Any]:
        """The teacher stands there by its fingerprint: what it computes counts, not where it lies."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.init and f.name != "teacher"}
        return {"name": self.name, **own, "teacher": self.fingerprint}

    def score(self, model: nn.Module, batch: Batch) -> Score:
        """The mean loss of the batch; right is a noisy copy of the true class."""
        noisy = noisy_copies(batch.pixels, self.noise_of(batch), self.copies, batch.generator)
        logits = by_copy(model(noisy), self.copies)
        taught = self.taught(batch.pixels, logits.dtype)
        check_classes(taught.shape[1], logits.shape[2], what="teacher", method=self.name)
        return Score.of(self.losses(logits, batch.targets, taught), logits, batch.targets)

    def taught(self, images: Tensor, precision: torch.dtype) -> Tensor:
        """The teacher's logits, (n, K), computed in the precision of the network that is trained."""
        teacher = ready_for(self.fixed, images, what="teacher", method=self.name)
        low = precision in (torch.bfloat16, torch.float16)
        with torch.no_grad(), torch.autocast(images.device.type, precision if low else torch.bfloat16, enabled=low):
            return in_full(teacher(images))

    def losses(self, logits: Tensor, targets: Tensor, taught: Tensor) -> Tensor:
        """The loss of each input, (n,), from logits of its copies, (m, n, K), its class and the teacher's logits."""
        logits = in_full(logits)
        log_t = (taught / self.temperature).log_softmax(dim=1)
        log_s = (logits / self.temperature).log_softmax(dim=2)
        apart = (log_t.exp() * (log_t - log_s)).sum(dim=2).mean(dim=0)
        log_f = logits.log_softmax(dim=2)
        losses = (1 - self.weight) * fit(log_f, targets) + self.weight * self.temperature**2 * apart
        if not (self.consistency or self.entropy):
            return losses
        return losses + unsteadiness(log_f, consistency=self.consistency, entropy=self.entropy)
