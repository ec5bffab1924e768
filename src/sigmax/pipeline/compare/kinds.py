"""The kinds of scheme that a comparison may name: the options of each, and how it is built over its networks.

A package outside sigmax adds its own in the module of its entry point (group `sigmax.schemes`):

    @register
    class MineScheme(NetworkScheme):
        kind: Literal["mine"]
        scheme = Mine
        sigma: Positive
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from sigmax import models
from sigmax.config.toml import Place
from sigmax.config.validation import Count, Options, Positive, Weight, about
from sigmax.errors import RequestError
from sigmax.pipeline.voting import SYSTEM, Grid
from sigmax.rules import registry as rules
from sigmax.rules.smoothed import Bound
from sigmax.schemes.cascade import Multiscale
from sigmax.schemes.fields import NearestNeighbourSigma
from sigmax.schemes.memorized import Memorized
from sigmax.schemes.scheme import Scheme
from sigmax.schemes.semi_elastic import SemiElastic
from sigmax.schemes.smoothed import Smoothed


class Ingredients(NamedTuple):
    """What a scheme of a comparison is built over."""

    networks: Sequence[models.Classifier]
    how: Mapping[str, Any]  # device, dtype, batch and compile
    training_images: Callable[[], NDArray[np.float32]]  # read when they are first asked for

    @property
    def classes(self) -> int:
        """How many classes the networks have."""
        return self.networks[0].description.classes


class SchemeConfig(Options):
    """What every scheme may be given."""

    sampling: Annotated[Literal["fixed", "adaptive"] | None, about("in place of [certify]'s")] = None


class NetworkScheme(SchemeConfig):
    """A scheme over checkpoints."""

    scheme: ClassVar[Callable[..., Scheme]]
    grid: Annotated[Grid | None, about("255 for 8-bit images: noise in whole steps of 1/255")] = None
    network: Annotated[str | None, Place(), about("checkpoint, or its name in [networks]; else `network`")] = None

    @property
    def several_networks(self) -> tuple[str, ...] | None:
        """Its checkpoints, where it has more than one."""
        return None

    def built(self, over: Ingredients) -> Scheme:
        """The scheme: `scheme` over its networks with its own options, unless a kind says it otherwise."""
        own = self.model_dump(exclude={"kind", "network", "networks", "sampling", "grid"})
        networks = list(over.networks) if len(over.networks) > 1 else over.networks[0]
        return type(self).scheme(networks, **own, grid=self.grid, classes=over.classes, **over.how)


Kind = TypeVar("Kind", bound=SchemeConfig)
_kinds: dict[str, type[SchemeConfig]] = {}


def register(options: type[Kind]) -> type[Kind]:
    """Let a comparison name this kind of scheme; a name that is taken is refused."""
    (name,) = get_args(options.model_fields["kind"].annotation)
    if _kinds.setdefault(name, options) is not options:
        raise RequestError(f"a kind of scheme {name!r} is registered already; choose another name")
    return options


def kinds() -> tuple[type[SchemeConfig], ...]:
    """The kinds of sigmax and of every installed package."""
    rules.names()  # imports them
    return tuple(_kinds.values())


@register
class SmoothedScheme(NetworkScheme):
    """Constant noise (Cohen et al. 2019)."""

    scheme = Smoothed
    kind: Literal["smoothed"]
    sigma: Positive
    bound: Bound = "one-sided"


@register
class MultiscaleScheme(NetworkScheme):
    """A cascade of falling noise levels (Jeong & Shin 2024)."""

    scheme = Multiscale
    kind: Literal["multiscale"]
    sigmas: Annotated[tuple[Positive, ...], about("strictly rising")]
    networks: Annotated[
        Annotated[tuple[str, ...], Field(min_length=1)] | None,
        Place(),
        about("one for each sigma, in place of `network`"),
    ] = None
    thresholds: Annotated[tuple[float, ...] | float, about("share of votes that an answer needs, one or each")] = 0.5

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.network is not None and self.networks is not None:
            raise RequestError("give network, for all sigmas, or networks, one for each; not both")
        return self

    @property
    def several_networks(self) -> tuple[str, ...] | None:
        """One for each sigma, if so given."""
        return self.networks


@register
class SemiElasticScheme(NetworkScheme):
    """A sigma(x) of proved rate (Sukenik et al. 2022)."""

    kind: Literal["semi-elastic"]
    base: Positive
    rate: Weight
    k: Count
    offset: float
    points: Annotated[Count | None, about("training images that distances are measured to; else all")] = None

    def built(self, over: Ingredients) -> Scheme:
        """The scheme."""
        options = {name: getattr(self, name) for name in ("base", "rate", "k", "offset")}
        field = NearestNeighbourSigma(over.training_images()[: self.points], **options)
        return SemiElastic(over.networks[0], field=field, grid=self.grid, classes=over.classes, **over.how)


@register
class MemorizedScheme(NetworkScheme):
    """A sigma of its own for each input, sound within a memory (Alfarra et al. 2022)."""

    scheme = Memorized
    kind: Literal["memorized"]
    sigma0: Positive
    least: Positive | None = None
    most: Positive | None = None
    step: Positive = 0.02
    steps: Count = 50
    noises: Count = 8
    search: str = "ascent"


@register
class SystemScheme(SchemeConfig):
    """A system that exists."""

    kind: Literal["system"]
    folder: Annotated[str, SYSTEM, about("system folder, zoo:NAME or hub:OWNER/NAME")]
