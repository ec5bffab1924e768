"""Router training as papers did it, every number in one place.

Source: Dual randomized smoothing, App. C.1 and Sec. 6. It names neither augmentation
nor normalisation, so there is none. Its routers see images denoised by diffusion; here they see the noisy image itself.
"""

from dataclasses import replace
from types import MappingProxyType

from sigmax import models
from sigmax.errors import RequestError
from sigmax.train.loop.settings import Settings
from sigmax.train.methods.registry import Preset

# What is used without a preset, for data such as the digits: 15 seconds on a core. The loss has its own defaults.
SMALL = Preset("small-cnn", Settings(optimiser="adamw", lr=0.003, weight_decay=0.01), {})

_SETTINGS = replace(SMALL.settings, schedule="step", step_factor=0.5, augment="none")
_FIELDS = {"sigma": 1.0, "copies": 2, "labels_kind": "soft", "sharpness": 1.0, "entropy": 0.5, "balance": True}
PRESETS = MappingProxyType(
    {
        "dual-cifar10": Preset(
            "resnet110",
            replace(_SETTINGS, epochs=90, batch=256, lr=0.01, step_epochs=30),
            {**_FIELDS, "consistency": 40.0, "strength": "strong"},
        ),
        "dual-imagenet": Preset(
            "resnet50",
            replace(_SETTINGS, epochs=9, batch=200, lr=0.005, step_epochs=3),
            {**_FIELDS, "consistency": 10.0, "strength": "weak"},
        ),
    }
)


def router_preset(name: str, *, architecture: str | None = None) -> Preset:
    """The preset of that name, all as the paper has it; `architecture` takes the place of the paper's."""
    if name not in PRESETS:
        raise RequestError(f"unknown preset {name!r}; known are: {', '.join(PRESETS)}")
    preset = PRESETS[name]
    preset = preset._replace(architecture=architecture or preset.architecture)
    if preset.architecture not in models.names():
        raise RequestError(
            f"{preset.architecture!r} is not among the architectures here ({', '.join(models.names())}); name another "
            "(architecture=, or --model), or register it with sigmax.models.register"
        )
    return preset
