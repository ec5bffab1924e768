"""Router training as papers did it, every number in one place.

Source: Dual randomized smoothing, App. C.1 and Sec. 6. It names no augmentation and says neither how pixels were
normalised, so there is none. Its routers stand behind a diffusion denoiser; here they see the noisy image itself.
"""

from types import MappingProxyType
from typing import NamedTuple

from sigmax import models
from sigmax.errors import RequestError
from sigmax.train.router_loss import RouterOptions
from sigmax.train.settings import Settings


class RouterFields(RouterOptions, total=False):
    """The loss's hyper-parameters and the router's noise, as keywords of `train_router`."""

    sigma: float


class Preset(NamedTuple):
    """One way to train a router: `train_router(..., architecture=, settings=, **fields)`."""

    architecture: str
    settings: Settings
    fields: RouterFields


# What is used without a preset, for data such as the digits: 15 seconds on a core. The loss has its own defaults.
SMALL = Preset("small-cnn", Settings(optimiser="adamw", lr=0.003, weight_decay=0.01), {})

PRESETS = MappingProxyType(
    {
        "dual-cifar10": Preset(
            "resnet110",
            Settings(
                epochs=90,
                batch=256,
                optimiser="adamw",
                lr=0.01,
                weight_decay=0.01,
                schedule="step",
                step_epochs=30,
                step_factor=0.5,
                augment="none",
            ),
            RouterFields(
                sigma=1.0,
                copies=2,
                labels_kind="soft",
                sharpness=1.0,
                consistency=40.0,
                entropy=0.5,
                balance=True,
                strength="strong",
            ),
        ),
        "dual-imagenet": Preset(
            "resnet50",
            Settings(
                epochs=9,
                batch=200,
                optimiser="adamw",
                lr=0.005,
                weight_decay=0.01,
                schedule="step",
                step_epochs=3,
                step_factor=0.5,
                augment="none",
            ),
            RouterFields(
                sigma=1.0,
                copies=2,
                labels_kind="soft",
                sharpness=1.0,
                consistency=10.0,
                entropy=0.5,
                balance=True,
                strength="weak",
            ),
        ),
    }
)


def router_preset(name: str, *, architecture: str | None = None) -> Preset:
    """The preset of that name: architecture, settings and the fields of the loss, all as the paper has them.

    `architecture` takes the place of the paper's; it must be named where sigmax does not have the paper's.
    """
    if name not in PRESETS:
        raise RequestError(f"unknown preset {name!r}; known are: {', '.join(PRESETS)}")
    preset = PRESETS[name]
    preset = preset._replace(architecture=architecture or preset.architecture)
    if preset.architecture not in models.names():
        raise RequestError(
            f"the preset {name!r} trains {PRESETS[name].architecture!r}, which is not among the architectures here "
            f"({', '.join(models.names())}); name another (architecture=, or --model), or register it with "
            "sigmax.models.register"
        )
    return preset
