"""The tables of a pipeline's file, one model each, with what can be wrong with a table by itself."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from sigmax import models
from sigmax.config.toml import Place
from sigmax.config.validation import Count, Options, Positive, Share, Uint64, Weight, about, inside
from sigmax.errors import RequestError
from sigmax.pipeline.voting import SYSTEM, Grid, Selection, Source, VotingConfig
from sigmax.radius import Gaussian, Split, Uniform
from sigmax.rules.procedure import Rule
from sigmax.rules.routed.rule import Combination
from sigmax.rules.smoothed import Bound, SmoothedRule
from sigmax.rules.splitting import SplittingRule
from sigmax.train.finetune import FINE_TUNING, check_tuning
from sigmax.train.loop.noisy import NoiseName
from sigmax.train.loop.settings import Settings
from sigmax.train.methods.registry import make_method
from sigmax.train.methods.several_noises import mixed
from sigmax.train.router.options import check_loss
from sigmax.train.router.presets import SMALL

GAUSSIAN = "gaussian"
BY_SIGMA = ("options", "method", "hyper", "epochs", "start")  # keys of [experts] that may be a list
Table = Mapping[str, Any]
Tables = Table | tuple[Table, ...]  # one for all experts, or one for each


class DataConfig(Options):
    """Which images are for what."""

    source: Source
    image_size: Annotated[Count | None, about("for image folders: pixels a side")] = None
    train: Annotated[str, about("the split that is trained and labelled on")] = "train"
    test: Annotated[str, about("the split that is certified; `train` certifies the images held out of it")] = "test"
    held_out: Annotated[Share, about("share of `train` kept from training and labels, to calibrate and choose on")] = 0


class NetworkConfig(Options):
    """An architecture to train."""

    model: Annotated[str, about("architecture")] = "small-cnn"
    options: Annotated[Table, about("options of the architecture")] = Field(default_factory=dict)
    normalise: Annotated[str, about("how the network normalises pixels")] = "none"

    @field_validator("model", "normalise", mode="after")
    @classmethod
    def _known(cls, value: str, info: Any) -> str:
        known = models.names() if info.field_name == "model" else tuple(models.PRESETS)
        if value not in known:
            raise RequestError(f"expected one of {', '.join(known)}, got {value!r}")
        return value


OPTIONS = about("options of the architecture: one for all, or a list")


class ExpertsConfig(NetworkConfig):
    """Experts to train, one for each sigma (a splitting one comes first), or systems that exist.

    `options`, `method`, `hyper`, `epochs` and `start` are one for all experts, or a list of one for each.
    """

    sigmas: Annotated[tuple[Positive, ...], about("noise of the experts to train, rising, in pixels")] = ()
    noise: Annotated[Literal["gaussian", "uniform"], about("its distribution; radii are in l2 and l1")] = "gaussian"
    scales: Annotated[tuple[Positive, ...], about("of uniform noise, in place of sigmas: the most it moves")] = ()
    splitting: Annotated[
        Positive | None, about("beside scales: scale of an expert exact in l1, first of the routes, last of a cascade")
    ] = None
    one_network: Annotated[
        bool, about("one network under all sigmas, by gaussian or consistency, rather than one for each")
    ] = False
    options: Annotated[Tables, OPTIONS] = Field(default_factory=dict)  # type: ignore[assignment]  # see `network_of`
    method: Annotated[str | tuple[str, ...], about("training method: one for all, or a list")] = GAUSSIAN
    hyper: Annotated[Tables, about("hyper-parameters of the method: one, or a list")] = Field(default_factory=dict)
    epochs: Annotated[Count | tuple[Count, ...] | None, about("in place of training.epochs: one, or a list")] = None
    start: Annotated[
        Path | tuple[Literal[""] | Path, ...] | None,
        Place(gaps=True),
        about('checkpoint of this model to begin with, with any classes: one for all, or a list in which "" is none'),
    ] = None
    bound: Annotated[Bound, about("how rivals are bounded: see `Smoothed`")] = "one-sided"
    grid: Annotated[Grid | None, about("255 for 8-bit images: noise in whole steps of 1/255, the router's too")] = None
    systems: Annotated[tuple[str, ...], SYSTEM, about("system folders, from least noise on, instead of all else")] = ()
    training: Annotated[Settings, about("settings of the training loop")] = Settings()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.noise == "uniform" and self.sigmas:
            raise RequestError("sigmas are of Gaussian noise; beside noise = 'uniform' give scales")
        if self.noise == "gaussian" and (self.scales or self.splitting):
            raise RequestError("scales and splitting are for radii in l1: set noise = 'uniform' beside them")
        if bool(self.levels) == bool(self.systems):
            raise RequestError("it needs either sigmas, to train one expert for each, or systems that exist")
        if self.noise == "uniform" and self.grid is not None and self.splitting is None:
            raise RequestError(
                "grid goes with Gaussian noise, or with splitting, which certifies stored images exactly"
            )
        if self.count < 2:
            raise RequestError("it needs two or more experts; certify a single one with sigmax certify")
        beside = sorted(self.model_fields_set - {"systems"})
        if self.systems and beside:
            raise RequestError(f"systems exist and are not trained; leave out {', '.join(beside)}, or systems")
        if any(one >= next_ for one, next_ in pairwise(self.levels)):
            raise RequestError(f"{self._called} must be strictly rising; got {list(self.levels)}")
        if self.levels:
            self._check_methods()
        return self

    def _check_methods(self) -> None:
        lists = [name for name in BY_SIGMA if isinstance(getattr(self, name), tuple)]
        for name in lists:
            if len(getattr(self, name)) != self.count:
                each = f"{self.count} experts, splitting first" if self.splitting else f"{self.count} {self._called}"
                raise RequestError(
                    f"{name} must be one for all, or a list of one for each of the {each}; got "
                    f"{len(getattr(self, name))}"
                )
        if self.one_network and self.splitting:
            raise RequestError("one_network is for several scales of one noise; leave it out, or splitting")
        if self.one_network and lists:
            raise RequestError(
                f"one_network trains one network for all {self._called}; give one {lists[0]}, not a list"
            )
        if self.one_network:
            method, _, hyper = self.method_of(0)
            mixed(method, self.levels, hyper, self.noise).images(self.training.batch)
            return
        for place_, (noise, _) in enumerate(self.trained):
            make_method(*self.method_of(place_), noise=noise).images(self.training.batch)

    @property
    def count(self) -> int:
        """How many experts there are."""
        return len(self.trained or self.systems)

    @property
    def levels(self) -> tuple[float, ...]:
        """The noise levels of additive noise, rising."""
        return self.sigmas or self.scales

    @property
    def _called(self) -> str:
        """What the file calls these levels."""
        return "scales" if self.scales else "sigmas"

    @property
    def trained(self) -> list[tuple[NoiseName, float]]:
        """Noise and level of each expert that is trained, in their order."""
        split: list[tuple[NoiseName, float]] = [] if self.splitting is None else [("splitting", self.splitting)]
        return [*split, *((self.noise, level) for level in self.levels)]

    @property
    def names(self) -> list[str]:
        """What the experts are called in files and tables, with every digit: no two may share a file."""
        if self.systems:
            return [f"expert-{j}" for j in range(len(self.systems))]
        return [f"{'sigma' if noise == 'gaussian' else noise}-{level!r}" for noise, level in self.trained]

    @property
    def steps(self) -> int:
        """Steps from 0 to 1 that images have for the splitting expert: those of 8 bits unless the file says others."""
        return 255 if self.grid is None else self.grid

    def rule_of(self, place: int, classes: int = 2) -> Rule:
        """How one of them does."""
        noise, level = self.trained[place]
        if noise == "splitting":
            return SplittingRule(Split.of_scale(level, self.steps), classes)
        made = Gaussian(level, self.grid) if noise == "gaussian" else Uniform(level)
        return SmoothedRule(made, classes, self.bound)

    def method_of(self, place: int) -> tuple[str, float, Table]:
        """Name, noise and hyper-parameters of the training method of an expert."""
        return self._of("method", place), self.trained[place][1], self._of("hyper", place)

    def network_of(self, place: int) -> NetworkConfig:
        """The network of an expert."""
        return NetworkConfig(model=self.model, options=self._of("options", place), normalise=self.normalise)

    def training_of(self, place: int) -> Settings:
        """The settings of an expert's training loop."""
        epochs = self._of("epochs", place)
        return self.training if epochs is None else replace(self.training, epochs=epochs)

    def start_of(self, place: int) -> Path | None:
        """The checkpoint that an expert begins with, if any."""
        return self._of("start", place) or None

    def _of(self, name: str, place: int) -> Any:
        given = getattr(self, name)
        return given[place] if isinstance(given, tuple) else given


class LabelOptions(VotingConfig):
    """Labels of images, whoever labels them."""

    n0: Annotated[Count, about("samples that pick the class")] = 20
    n: Annotated[Count, about("samples that bound its probability")] = 100
    fraction: Annotated[float, Field(gt=0, le=1, description="share of the training images that is labelled")] = 1.0
    sample_seed: Annotated[Uint64, about("which images are in the share, in folds and held out")] = 0

    @property
    def request(self) -> dict[str, Any]:
        """What `make_labels` is asked, as its keywords."""
        return {**super().request, "fraction": self.fraction, "sample_seed": self.sample_seed}


class LabelsConfig(LabelOptions):
    """How far each expert certifies each training image: what the router learns from."""

    folds: Annotated[Count, about("above 1: each fold is labelled by experts trained on the other folds")] = 1
    held_out: Annotated[Share, about("above 0: experts are trained without this share, and only it is labelled")] = 0

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.folds > 1 and self.held_out:
            raise RequestError("take folds, which label every image, or held_out, which trains experts once; not both")
        return self


class RouterConfig(NetworkConfig):
    """The router of a Dual: a smoothed classifier whose classes are the experts."""

    sigma: Annotated[Positive | None, about("noise of the router, at least the largest of the experts'")] = None
    scale: Annotated[Positive | None, about("of uniform noise, in place of sigma: for experts in l1")] = None
    preset: Annotated[str | None, about("settings of a paper, for what the table leaves out")] = None
    held_out: Annotated[float, Field(gt=0, lt=1, description="share of the labels to watch the training with")] = 0.1
    start: Annotated[int | None, Field(ge=0, description="place of the expert whose network to begin with")] = None
    loss: Annotated[Table, about("objective and its hyper-parameters")] = Field(default_factory=dict)
    training: Annotated[Settings, about("settings of the training loop")] = SMALL.settings

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.sigma is None) == (self.scale is None):
            raise RequestError("it needs either sigma, of Gaussian noise, or scale, of uniform noise")
        with inside("loss"):
            check_loss(self.noise.sigma, self.loss)
        return self

    @property
    def noise(self) -> Gaussian | Uniform:
        """What it votes under."""
        return Gaussian(self.sigma) if self.sigma is not None else Uniform(self.scale)  # type: ignore[arg-type]  # one is


class FinetuneConfig(Options):
    """How the experts of a Dual are fine-tuned, where `steps` say so."""

    votes: Annotated[int, Field(ge=2, description="votes that decide the route of a training image")] = 100
    consistency: Annotated[Weight, about("weight of agreement between noisy copies; 0: cross-entropy alone")] = 0.0
    training: Annotated[Settings, about("settings of the training loop")] = FINE_TUNING

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_tuning(self.training, self.consistency)
        return self


class CascadeConfig(Options):
    """A cascade of the experts: the one of largest sigma first, that of smallest sigma last."""

    confidence: Annotated[
        tuple[Share, ...] | Share,
        about("softmax confidence below which a level defers: one, or one for each; 0: never"),
    ] = 0.5
    thresholds: Annotated[tuple[float, ...] | float, about("share of votes to answer, from 1/2: one, or each")] = 0.5


class CertifyConfig(Selection, VotingConfig):
    """What is certified in the end."""

    rules: Annotated[
        tuple[Combination, ...], about("rules of a Dual, each a system of its own; none: only the cascade is certified")
    ] = ("min", "consensus")
    experts: Annotated[bool, about("also certify each expert by itself")] = True

    @model_validator(mode="after")
    def _rules_once(self) -> Self:
        if len(set(self.rules)) < len(self.rules):
            raise RequestError(f"rules must name each rule once; got {list(self.rules)}")
        return self

    @property
    def request(self) -> dict[str, Any]:
        """What `certify_run` is asked, as its keywords."""
        return {**super().request, **self.inputs}
