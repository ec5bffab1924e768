"""One pass through a denoiser for several classifiers of its images."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sigmax.engine.voter import Voter
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


def can_share(voters: Sequence[Voter]) -> bool:
    """Whether the voters' models have one denoiser, and run with the same settings on the same device."""
    models = [voter.model for voter in voters]
    if not all(_only_classifies_what_it_denoised(model) for model in models):
        return False
    one_denoiser = len({id(model.denoiser) for model in models if isinstance(model, Denoised)}) == 1
    return one_denoiser and len({(v.device, v.dtype, v.compile) for v in voters}) == 1


def _only_classifies_what_it_denoised(model: object) -> bool:
    """Whether a model is its two parts and no more: the joint pass calls these, and knows nothing around them."""
    if type(model) is not Denoised or not isinstance(model.classifier, nn.Module):
        return False
    return not (model._forward_hooks or model._forward_pre_hooks or "forward" in vars(model))


def joint_voter(voters: Sequence[Voter]) -> Voter:
    """One voter for all of them, built once: its votes have a column for each."""
    first, key = voters[0], tuple(voters)
    if key not in first.joint:
        models = [voter.model for voter in voters if isinstance(voter.model, Denoised)]
        parts = tuple(voter.classes for voter in voters)
        # The mode chosen for the first: a trial of its own would come in the middle of a run.
        first.joint[key] = Voter(
            Branches(models, parts),
            classes=sum(parts),
            parts=parts,
            device=first.device,
            dtype=first.dtype,
            batch=min(voter.batch for voter in voters),
            compile=first.mode,
        )
        # Votes of the joint one are cast among theirs, so its tensors lie right already.
        if any(voter.layout is torch.contiguous_format for voter in voters):  # one of them insists on it
            first.joint[key].lay_out(torch.contiguous_format)
    return first.joint[key]
