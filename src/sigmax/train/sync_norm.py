"""Batch normalisation over the images of all processes together, on the CPU.

# x the images of one process, x' those of all; N numbers a channel in x'; a channel's mean and variance over x'

torch has it for GPUs alone (SyncBatchNorm). Normalised by its own share of a batch, a process would train another
network than one process does with the whole batch: small shares, other statistics. The mean and the sum of squares
about it are summed over the processes, forward and backward, so the result is that of one process up to rounding.
"""

from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.modules.batchnorm import _BatchNorm


class SummedNorm(_BatchNorm):
    """Batch normalisation whose statistics in training are those of all processes' images; for the CPU."""

    def _check_input_dim(self, given: Tensor) -> None:
        """Any number of dimensions will do: the layer whose place it takes has seen to it."""

    def forward(self, given: Tensor) -> Tensor:
        """(n, C, ...) normalised by channel; in eval mode as usual."""
        if not (self.training or self.running_mean is None):
            return super().forward(given)
        axes = [axis for axis in range(given.ndim) if axis != 1]
        shape = [-1 if axis == 1 else 1 for axis in range(given.ndim)]
        numbers = torch.tensor(given.numel() // given.shape[1], dtype=torch.float64)
        distributed.all_reduce(numbers)
        full = given.to(torch.promote_types(given.dtype, torch.float32))  # sums of halves would be coarse
        mean = _summed(full.sum(axes)) / numbers
        centred = full - mean.view(shape)
        variance = _summed(centred.square().sum(axes)) / numbers
        if self.training:
            self._remember(mean.detach(), variance.detach() * numbers / (numbers - 1))
        scaled = centred * (variance + self.eps).rsqrt().view(shape)
        if self.weight is not None:
            scaled = scaled * self.weight.view(shape) + self.bias.view(shape)
        return scaled.to(given.dtype)

    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked += 1
        share = self.momentum if self.momentum is not None else 1 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)


class _Sum(torch.autograd.Function):
    """The sum over the processes. Every process's loss depends on it, so gradients are summed as well."""

    @staticmethod
    def forward(_: Any, part: Tensor) -> Tensor:
        whole = part.contiguous().clone()
        distributed.all_reduce(whole)
        return whole

    @staticmethod
    def backward(_: Any, *gradients: Tensor) -> Tensor:
        whole = gradients[0].contiguous().clone()
        distributed.all_reduce(whole)
        return whole


def _summed(part: Tensor) -> Tensor:
    whole: Tensor = _Sum.apply(part)  # type: ignore[no-untyped-call]
    return whole


def synchronised(model: nn.Module, device: torch.device) -> nn.Module:
    """The model with batch normalisation over all processes; its weights and their names stay what they are."""
    if device.type == "cuda":
        converted: nn.Module = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
        return converted
    for name, layer in list(model.named_children()):
        if isinstance(layer, _BatchNorm):
            setattr(model, name, _summed_norm(layer))
        else:
            synchronised(layer, device)
    return model


def _summed_norm(layer: _BatchNorm) -> SummedNorm:
    """The same layer, with the same tensors, synchronised."""
    new = SummedNorm(layer.num_features, layer.eps, layer.momentum, layer.affine, layer.track_running_stats)
    new.weight, new.bias = layer.weight, layer.bias
    new.running_mean, new.running_var = layer.running_mean, layer.running_var
    new.num_batches_tracked = layer.num_batches_tracked
    return new.train(layer.training)
