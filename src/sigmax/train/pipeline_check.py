"""What can be known to be wrong with a pipeline before it begins, though its file reads well."""

from collections.abc import Callable, Sequence

import torch

from sigmax import models
from sigmax.certify.checks import too_much_noise
from sigmax.certify.scheme import Scheme
from sigmax.data import Dataset, select
from sigmax.errors import RequestError
from sigmax.models import Classifier, Description
from sigmax.train.balance import lean
from sigmax.train.config_table import inside
from sigmax.train.finetune import shared_networks
from sigmax.train.pipeline_config import ExpertsConfig, PipelineConfig, RouterConfig
from sigmax.train.pipeline_data import PipelineData
from sigmax.train.pipeline_tree import Node
from sigmax.train.settings import Settings


def check_devices(config: PipelineConfig, on_warning: Callable[[str], None] | None = None) -> None:
    """Raise unless every device named can be used; or only say so, where it is known by name."""
    training = [part.training for part in (config.experts, config.router, config.finetune)]
    training += [router.training for router in config.inner]
    voted_on = {part.device for part in (config.labels, config.certify) if part.device}
    for device in sorted({config.device, *voted_on, *(settings.device for settings in training)}):
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
    certify = config.certify
    with inside("[certify]"):
        select(len(test), start=certify.start, skip=certify.skip, maximum=certify.max)


def check_networks(config: PipelineConfig, train: Dataset) -> None:
    """Raise unless the networks to train can be built for the data."""
    if config.experts.sigmas:
        _build("[experts]", config.experts, train, classes=len(train.classes))
    for node in config.tree.routers():
        where = "[router]" if node.inner is None else f"[inner {node.inner}]"
        router = _build(where, config.router_of(node), train, classes=len(node.routes))
        if config.balance is not None and config.router_of(node).sure_of is None:
            with inside(where):
                lean(router, 1.0)


def _build(where: str, told: ExpertsConfig | RouterConfig, train: Dataset, *, classes: int) -> Classifier:
    with inside(where), torch.random.fork_rng(devices=[]):
        return models.create(
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


def warn_of_choice(config: PipelineConfig, on_warning: Callable[[str], None]) -> None:
    """Say it when what is certified are the images that the routers' leans are chosen on."""
    if config.balance is not None and config.data.test == config.data.train:
        on_warning(
            "the images held out are certified, and [balance] chooses on the same images: the result is a little "
            "too good, and no measure of routers with [balance] against others"
        )


def warn_of_noise(config: PipelineConfig, noises: Sequence[float], on_warning: Callable[[str], None]) -> None:
    """Say it when a router's noise is too small for its experts', or a noise drowns every image."""
    routers = {_named(node): (config.router_of(node).sigma, node) for node in config.tree.routers()}
    told = [*(("experts.sigmas", s) for s in config.experts.sigmas), *((n, s) for n, (s, _) in routers.items())]
    for where, sigma in told:
        warning = too_much_noise(sigma)
        if warning:
            on_warning(f"{where}: {warning}")
    for where, (sigma, node) in routers.items():
        largest = max(noises[place] for place in node.experts)
        if sigma < largest:
            on_warning(
                f"{where}.sigma {sigma:g} is below the largest noise of the experts, {largest:g}: routes cannot be "
                f"certified as far as that expert certifies; use {largest:g} or more"
            )


def _named(node: Node) -> str:
    return "router" if node.inner is None else f"inner {node.inner}"
