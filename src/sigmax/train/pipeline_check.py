"""What can be known to be wrong with a pipeline before it begins, though its file reads well."""

from collections.abc import Callable, Sequence

import torch

from sigmax import models
from sigmax.certify.checks import too_much_noise
from sigmax.certify.scheme import Scheme
from sigmax.data import Dataset, select
from sigmax.errors import RequestError
from sigmax.models import Description
from sigmax.train.config_table import inside
from sigmax.train.finetune import shared_networks
from sigmax.train.pipeline_config import ExpertsConfig, PipelineConfig, RouterConfig
from sigmax.train.settings import Settings


def check_devices(config: PipelineConfig) -> None:
    """Raise unless every device named can be used."""
    trained_on = {part.training.device for part in (config.experts, config.router, config.finetune)}
    for device in sorted({config.device} | trained_on):
        Settings(device=device).torch_device()


def check_data(config: PipelineConfig, train: Dataset, test: Dataset) -> None:
    """Raise unless what is learned from `train` can be certified on `test`."""
    if (train.classes, train.shape) != (test.classes, test.shape):
        raise RequestError(
            f"[data] {config.data.train!r} and {config.data.test!r} must be images of one shape and of the same "
            f"classes; got {train!r} and {test!r}"
        )
    certify = config.certify
    with inside("[certify]"):
        select(len(test), start=certify.start, skip=certify.skip, maximum=certify.max)


def check_networks(config: PipelineConfig, train: Dataset) -> None:
    """Raise unless the networks to train can be built for the data."""
    if config.experts.sigmas:
        _build("[experts]", config.experts, train, classes=len(train.classes))
    _build("[router]", config.router, train, classes=config.count)


def _build(where: str, told: ExpertsConfig | RouterConfig, train: Dataset, *, classes: int) -> None:
    with inside(where), torch.random.fork_rng(devices=[]):
        models.create(
            Description(
                architecture=told.model,
                options=told.options,
                classes=classes,
                input_shape=train.shape,
                normalisation=models.normalisation(told.normalise),
            )
        )


def check_systems(config: PipelineConfig, experts: Sequence[Scheme], train: Dataset) -> None:
    """Raise unless the systems given can be labelled with, routed among, and fine-tuned where that is asked for."""
    config.check_draws([expert.rule for expert in experts])
    with inside("experts.systems"):
        if experts[0].classes != len(train.classes):
            raise RequestError(
                f"they tell {experts[0].classes} classes apart, but {train.name} has {len(train.classes)}; "
                "give the data they were trained for"
            )
        for expert in experts:
            expert.check(train.pixels([0]))
        if "finetune" in config.steps:
            shared_networks(experts)


def warn_of_noise(config: PipelineConfig, largest: float, on_warning: Callable[[str], None]) -> None:
    """Say it when the router's noise is too small for the experts', or a noise drowns every image."""
    for where, sigma in (*(("experts.sigmas", s) for s in config.experts.sigmas), ("router", config.router.sigma)):
        warning = too_much_noise(sigma)
        if warning:
            on_warning(f"{where}: {warning}")
    if config.router.sigma < largest:
        on_warning(
            f"router.sigma {config.router.sigma:g} is below the largest noise of the experts, {largest:g}: routes "
            f"cannot be certified as far as that expert certifies; use {largest:g} or more"
        )
