"""Which networks share a denoiser, and the one voter that runs it once for all of them."""

from collections.abc import Sequence

import torch
from torch import nn

from sigmax.engine.branches import Branches
from sigmax.engine.voter import Voter
from sigmax.errors import RequestError
from sigmax.models.denoised import Denoised


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
    if not all(_only_classifies_what_it_denoised(voter.model) for voter in voters):
        raise RequestError(
            "a hook or a forward of its own was put on a Denoised that router and expert share, after the scheme was "
            "built; votes on shared samples would leave it out, so build the scheme again"
        )
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
