"""How a network is computed in training: precision, memory layout, compilation; and how a step changes it.

Methods know nothing of it. They call the network and get logits in 32-bit floats, whatever it was computed in, so
losses are 32-bit floats too, and an attack by a method runs through the same arithmetic as its loss.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sigmax.train.loop.settings import Settings

_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def computed(model: nn.Module, settings: Settings, device: torch.device) -> nn.Module:
    """The model as the settings want it computed: itself where they ask for nothing special. Shares its weights."""
    if settings.precision == "fp32" and not settings.channels_last and not settings.compile:
        return model
    return Computed(model, settings, device)


class Computed(nn.Module):
    """A model computed in its settings' precision and layout; its weights and modes are the model's own."""

    def __init__(self, model: nn.Module, settings: Settings, device: torch.device) -> None:
        super().__init__()
        self.model = model
        self._layout = torch.channels_last if settings.channels_last else None
        if self._layout is not None:
            model.to(memory_format=self._layout)  # type: ignore[call-overload]  # torch's stubs forget this use
        self._type = _TYPES.get(settings.precision)
        self._device = device.type
        self.takes_sigma = bool(getattr(model, "takes_sigma", False))
        # A function, for as a second submodule the weights would have two names. Batches of an epoch differ by one
        # image at most: two fixed sizes are compiled, not one that may be any.
        self._call: Callable[..., Tensor] = partial(torch.compile(model, dynamic=False) if settings.compile else model)

    def forward(self, images: Tensor, *noise: float | Tensor) -> Tensor:
        """The answer in the images' own precision; a model that takes sigma gets the images' noise."""
        if self._layout is not None:
            images = images.contiguous(memory_format=self._layout)
        with torch.autocast(self._device, dtype=self._type, enabled=self._type is not None):
            answer = self._call(images, *noise)
        return answer.to(images.dtype)


class Update:
    """From a loss to changed weights: scaled for "fp16", where a step that overflows is left out, and clipped."""

    def __init__(self, optimiser: Optimizer, settings: Settings, device: torch.device) -> None:
        self.optimiser, self.settings = optimiser, settings
        self.scaler = torch.amp.GradScaler(device.type, enabled=settings.precision == "fp16")

    def __call__(self, loss: Tensor, lr: float) -> None:
        """One step down the loss's gradient with this learning rate. Asks the device for no number."""
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        self.optimiser.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        if self.settings.clip > 0:
            self.scaler.unscale_(self.optimiser)
            weights = [weight for group in self.optimiser.param_groups for weight in group["params"]]
            nn.utils.clip_grad_norm_(weights, self.settings.clip)
        self.scaler.step(self.optimiser)
        self.scaler.update()

    def state_dict(self) -> dict[str, Any]:
        """What the optimiser and the scaling remember."""
        return {"optimiser": self.optimiser.state_dict(), "scaler": self.scaler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what was remembered."""
        self.optimiser.load_state_dict(state["optimiser"])
        self.scaler.load_state_dict(state["scaler"])
