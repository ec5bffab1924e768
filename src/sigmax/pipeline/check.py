"""What can be known to be wrong with a pipeline before it begins, though its file reads well."""

from collections.abc import Sequence

import torch

from sigmax import models
from sigmax.config.validation import inside
from sigmax.data import Dataset, select
from sigmax.errors import RequestError
from sigmax.models import Classifier, Description
from sigmax.pipeline.config import PipelineConfig
from sigmax.pipeline.data import PipelineData
from sigmax.pipeline.phase import OnWarning
from sigmax.pipeline.tables import NetworkConfig
from sigmax.rules.checks import too_much_noise
from sigmax.schemes.scheme import Scheme, whole_steps
from sigmax.train.finetune import shared_networks
from sigmax.train.loop.settings import Settings


def check_devices(config: PipelineConfig, on_warning: OnWarning | None = None) -> None:
    """Raise unless every device named can be used; or only say so, where it is known by name."""
    training = [config.experts.training, config.finetune.training, *([config.router.training] if config.router else [])]
    named = {config.device, *(settings.device for settings in training)}
    named |= {part.device for part in (config.labels, config.certify) if part.device}
    for device in sorted(named):
        try:
            Settings(device=device).torch_device()
        except RequestError as error:
            if on_warning is None or not _is_known(device):
                raise
            on_warning(str(error))


def _is_known(device: str) -> bool:
    try:
        torch.device(device)
    except RuntimeError:
        return False
    return True


def check_data(config: PipelineConfig, data: PipelineData) -> None:
    """Raise unless the images can be divided as asked, and what is learned from some be certified on others."""
    train, test = data.train, data.test
    data.parts(config.out)  # says where they cannot be divided
    if (train.classes, train.shape) != (test.classes, test.shape):
        raise RequestError(
            f"[data] {config.data.train!r} and {config.data.test!r} must be images of one shape and of the same "
            f"classes; got {train!r} and {test!r}"
        )
    with inside("[certify]"):
        select(len(test), **config.certify.inputs)


LOOKED_AT = 32  # images that must be on the grid of splitting noise


def check_networks(config: PipelineConfig, train: Dataset) -> None:
    """Raise unless the networks to train can be built for the data."""
    experts = config.experts
    for place in range(1 if experts.one_network else len(experts.trained)):
        built = _build("[experts]", experts.network_of(place), train, classes=len(train.classes)).description
        start = experts.start_of(place)
        if start is not None:
            _check_start(models.load(start)[1], built)
    if experts.splitting is not None:
        with inside("experts.splitting"):
            whole_steps(torch.from_numpy(train.pixels(range(min(LOOKED_AT, len(train))))), experts.steps)
    if config.router is not None:
        _build("[router]", config.router, train, classes=config.experts.count)


def _check_start(there: Description, built: Description) -> None:
    """Raise unless the checkpoint to begin with holds the network that is trained, but for its classes."""
    for key in ("architecture", "options", "normalisation", "input_shape"):
        theirs, ours = getattr(there, key), getattr(built, key)
        if theirs != ours:
            raise RequestError(f"experts.start: its {key} is {theirs}, expected {ours}; begin with another checkpoint")


def _build(where: str, network: NetworkConfig, train: Dataset, *, classes: int) -> Classifier:
    with inside(where), torch.random.fork_rng(devices=[]):
        return models.create(
            Description(
                architecture=network.model,
                options=network.options,
                classes=classes,
                input_shape=train.shape,
                normalisation=models.normalisation(network.normalise),
            )
        )


def check_systems(config: PipelineConfig, experts: Sequence[Scheme], train: Dataset) -> None:
    """Raise unless the systems given can be labelled with, routed among, and fine-tuned where that is asked for."""
    config.check_samples([expert.rule for expert in experts])
    with inside("experts.systems"):
        if experts[0].classes != len(train.classes):
            raise RequestError(
                f"they have {experts[0].classes} classes, but {train.name} has {len(train.classes)}; give the data "
                "they were trained for"
            )
        for expert in experts:
            expert.check(train.pixels([0]))
        if "finetune" in config.steps:
            shared_networks(experts)


def warn_of_choice(config: PipelineConfig, on_warning: OnWarning) -> None:
    """Say it when what is certified are the images that the thresholds are calibrated on."""
    if config.calibrate is not None and config.data.test == config.data.train:
        on_warning(
            "the images held out are certified, and [calibrate] chooses on the same images: the result is a little "
            "too good, and no measure of calibrated cascades against others"
        )


def warn_of_noise(config: PipelineConfig, noises: Sequence[float], on_warning: OnWarning) -> None:
    """Say it when the router's noise is too small for its experts', or a noise drowns every image."""
    named = [("experts.sigmas", sigma) for sigma in config.experts.sigmas]
    if config.router is not None:
        named += [] if config.router.sigma is None else [("router.sigma", config.router.sigma)]
    for where, sigma in named:
        warning = too_much_noise(sigma)
        if warning:
            on_warning(f"{where}: {warning}")
    if config.router is not None and config.router.noise.sigma < max(noises):
        own = f"router.{'sigma' if config.router.sigma else 'scale'} {config.router.noise.sigma:g}"
        on_warning(
            f"{own} is below the largest noise of the experts, {max(noises):g}: routes "
            f"cannot be certified as far as that expert certifies; use {max(noises):g} or more"
        )
