"""The tables of a pipeline's file, one dataclass each, with what can be wrong with a table by itself."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, get_args

import torch

from sigmax import models
from sigmax.certify.dual_rule import Combination
from sigmax.certify.procedure import Rule
from sigmax.certify.sampling import Sampling, asked
from sigmax.certify.smoothed_rule import Bound, SmoothedRule
from sigmax.errors import RequestError
from sigmax.noise.draws import check_word
from sigmax.train.config_table import Table, inside
from sigmax.train.finetune import FINE_TUNING, check_tuning, check_votes
from sigmax.train.label_folder import sample
from sigmax.train.methods import make_method
from sigmax.train.partial import later
from sigmax.train.router_options import LossOptions, check_loss
from sigmax.train.router_presets import SMALL
from sigmax.train.settings import Settings

GAUSSIAN = "gaussian"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the images are; `train` is trained and labelled on, `test` certified."""

    source: str
    image_size: int | None = None
    train: str = "train"
    test: str = "test"
    held_out: float = later(0.0)  # share of `train` kept from training and labels; `test = "train"` certifies it

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            raise RequestError(f"data.held_out must be at least 0 and below 1; got {self.held_out!r}")


@dataclass(frozen=True, kw_only=True)
class ExpertsConfig:
    """Experts to train, one a sigma, or systems that exist already."""

    sigmas: tuple[float, ...] = ()
    one_network: bool = False  # one network under all sigmas, rather than one each
    method: tuple[str, ...] = (GAUSSIAN,)  # one for all sigmas, or one each
    hyper: tuple[Table, ...] = ({},)  # the methods' hyper-parameters, likewise
    model: str = "small-cnn"
    options: Table = field(default_factory=dict)  # of the architecture
    normalise: str = "none"
    bound: Bound = "one-sided"  # what their votes are put to: see `SmoothedRule`
    systems: tuple[str, ...] = ()  # folders, from least noise to most; instead of all the others
    training: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        if bool(self.sigmas) == bool(self.systems):
            raise RequestError("[experts] needs either sigmas, to train one expert each, or systems that exist")
        if max(len(self.systems), len(self.sigmas)) < 2:
            raise RequestError("[experts] must be two or more: a router has to have a choice")
        if self.systems:
            return
        with inside("experts.sigmas"):
            rules = self.rules
        if any(one.sigma >= next_.sigma for one, next_ in pairwise(rules)):
            raise RequestError(f"experts.sigmas must be strictly rising; got {list(self.sigmas)}")
        check_network("experts", self.model, self.normalise)
        self._check_methods()

    def _check_methods(self) -> None:
        for name in ("method", "hyper"):
            if len(getattr(self, name)) not in (1, len(self.sigmas)):
                raise RequestError(
                    f"experts.{name} must be one for all, or a list of one for each of the {len(self.sigmas)} "
                    f"sigmas; got {len(getattr(self, name))}"
                )
        if self.one_network and (self.method != (GAUSSIAN,) or self.hyper != ({},)):
            raise RequestError(
                "experts.one_network trains by cross-entropy under a random one of the sigmas; leave out method "
                "and hyper, or train a network each"
            )
        with inside("[experts]"):
            for place in range(len(self.sigmas)):
                made = make_method(*self.method_of(place))
                made.images(self.training.batch)

    @property
    def rules(self) -> list[SmoothedRule]:
        """How experts that are trained here certify; of two classes, which is the least there is."""
        return [SmoothedRule(sigma, 2, self.bound) for sigma in self.sigmas]

    def method_of(self, place: int) -> tuple[str, float, Table]:
        """Name, noise and hyper-parameters of the training method of an expert."""
        return _one_of(self.method, place), self.sigmas[place], _one_of(self.hyper, place)


@dataclass(frozen=True, kw_only=True)
class VotingConfig:
    """Votes: how many, and on which machine in which arithmetic; `Smoothed` and `certify` say what it means."""

    n0: int
    n: int
    alpha: float = 1e-3
    seed: int = 0
    sampling: Literal["fixed", "adaptive"] = later("fixed")
    targets: tuple[float, ...] = later(())  # adaptive: ask only which of these radii hold
    tolerance: float | None = later(None)  # adaptive: the radius up to this share of sigma
    device: str | None = later(None)  # None: the file's
    dtype: Literal["fp32", "bf16", "fp16"] = later("fp32")
    compile: Literal["off", "default", "graphs", "tuned", "auto"] = later("off")
    batch: int | None = later(None)  # noisy inputs a forward pass

    def __post_init__(self) -> None:
        check_word("seed", self.seed)
        if self.batch is not None and self.batch < 1:
            raise RequestError(f"batch must be at least 1; got {self.batch}")
        _ = self.question

    @property
    def question(self) -> Sampling:
        """What is asked of each input, and so when its sampling may stop."""
        return asked(self.sampling, self.targets or None, self.tolerance)

    def how(self, device: str) -> dict[str, Any]:
        """How networks vote, as keywords of `Smoothed` and `load`; `device` where none is named."""
        return {
            "device": self.device or device,
            "dtype": DTYPES[self.dtype],
            "compile": self.compile,
            "batch": self.batch,
        }

    def check(self, rule: Rule) -> None:
        """Raise where so many votes could never certify by this rule, or reach none of the targets."""
        told: dict[str, Any] = {"n": self.n, "alpha": self.alpha, "sampling": self.question}
        rule.check_certify(n0=self.n0, **told)
        targets = self.question.targets
        if targets and targets[0] > rule.largest_radius(**told):
            raise RequestError(
                f"none of the targets can be reached: n={self.n} draws at alpha={self.alpha:g} prove at most "
                f"{rule.largest_radius(**told):.4g}, and the smallest target is {targets[0]:g}"
            )


@dataclass(frozen=True, kw_only=True)
class LabelsConfig(VotingConfig):
    """How the training inputs are labelled; see `make_labels`."""

    n: int = 100
    n0: int = 20
    fraction: float = 1.0
    sample_seed: int = 0
    folds: int = later(1)  # above 1: each fold is labelled by experts trained on the other folds
    held_out: float = later(0.0)  # above 0: experts are trained without this share, which alone is labelled
    inner: Literal["best", "measured"] = later("best")  # radius of a routed expert: its best expert's, or its own

    def __post_init__(self) -> None:
        super().__post_init__()
        sample(1, self.fraction, self.sample_seed)
        if self.folds < 1:
            raise RequestError(f"folds must be at least 1 (no cross-fitting); got {self.folds}")
        if not 0 <= self.held_out < 1:
            raise RequestError(f"held_out must be at least 0 and below 1; got {self.held_out!r}")
        if self.folds > 1 and self.held_out:
            raise RequestError(
                "take folds, which label every input, or held_out, which trains experts once; not both"
            )
        if self.folds > 1 and self.inner == "measured":
            raise RequestError(
                "inner = 'measured' certifies a router with the final experts, which saw every input; with folds "
                "take inner = 'best'"
            )


@dataclass(frozen=True, kw_only=True)
class RouterConfig:
    """How a router is trained; see `train_router`."""

    sigma: float
    model: str = SMALL.architecture
    options: Table = field(default_factory=dict)  # of the architecture
    normalise: str = "none"
    held_out: float = 0.1
    start: int | None = None  # place of the expert whose network to begin with, its last layer aside
    sure_of: int | None = None  # place of the expert whose sureness decides between two routes; nothing is trained
    names: bool = False  # that expert is the second route, and what it is sure of it answers by the router's votes
    loss: LossOptions = field(default_factory=LossOptions)
    training: Settings = SMALL.settings

    def check(self, where: str) -> None:
        """Raise for what is wrong with the router, whatever its experts are."""
        with inside(f"[{where}]"):
            SmoothedRule(self.sigma, 2)
            check_loss(self.sigma, self.loss)
            if not 0 < self.held_out < 1:
                raise RequestError(f"held_out must lie between 0 and 1; got {self.held_out!r}")
            if self.names and self.sure_of is None:
                raise RequestError("names is about the expert whose sureness decides; set sure_of to its place")
        check_network(where, self.model, self.normalise)


@dataclass(frozen=True, kw_only=True)
class InnerConfig(RouterConfig):
    """A router below the first: it and its experts are one route of the router above."""

    experts: tuple[int, ...]  # their places among all experts, counted from 0


@dataclass(frozen=True, kw_only=True)
class BalanceConfig:
    """What the routers are brought into balance for; see `balance`."""

    goal: tuple[float, ...]  # certified accuracy in % at each of the radii: the least lead over it is made largest
    radii: tuple[float, ...] = tuple(0.25 * i for i in range(11))
    draws: int = 512  # noisy copies of each image held out, for every network

    def __post_init__(self) -> None:
        if not self.goal or len(self.goal) != len(self.radii):
            raise RequestError(
                f"[balance] goal must hold one number for each of the {len(self.radii)} radii; got {len(self.goal)}"
            )
        if self.draws < 1:
            raise RequestError(f"[balance] draws must be at least 1; got {self.draws}")


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig:
    """How experts are fine-tuned; see `fine_tune`."""

    votes: int = 100
    consistency: float = 0.0  # weight of agreement between noisy copies; 0 is the paper's cross-entropy alone
    training: Settings = FINE_TUNING

    def __post_init__(self) -> None:
        check_votes(self.votes, "votes")
        check_tuning(self.training, self.consistency)


@dataclass(frozen=True, kw_only=True)
class CertifyConfig(VotingConfig):
    """What is certified in the end."""

    rules: tuple[Combination, ...] = ("min", "consensus")
    experts: bool = True  # also each expert by itself: what oracle and envelope are made of
    n0: int = 100
    n: int = 10_000
    start: int = 0
    skip: int = 1
    max: int | None = None

    @property
    def request(self) -> dict[str, Any]:
        """What `certify_run` is asked, as its keywords."""
        return {
            "n0": self.n0,
            "n": self.n,
            "alpha": self.alpha,
            "seed": self.seed,
            "start": self.start,
            "skip": self.skip,
            "maximum": self.max,
            "sampling": self.question,
        }

    def __post_init__(self) -> None:
        super().__post_init__()
        known = get_args(Combination)
        if not self.rules or not set(self.rules) <= set(known) or len(set(self.rules)) < len(self.rules):
            raise RequestError(f"rules must be some of {', '.join(known)}, once; got {list(self.rules)}")


def check_network(where: str, model: str, normalise: str) -> None:
    """Raise unless architecture and normalisation are known by these names."""
    for name, value, known in (("model", model, models.names()), ("normalise", normalise, tuple(models.PRESETS))):
        if value not in known:
            raise RequestError(f"{where}.{name} must be one of {', '.join(known)}; got {value!r}")


def _one_of(listed: Sequence[Any], place: int) -> Any:
    return listed[place] if len(listed) > 1 else listed[0]
