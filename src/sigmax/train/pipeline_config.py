"""A pipeline as one TOML file: every number of it, checked before anything is trained.

out = "work"                     # where all of it is kept; paths begin at the file's own folder
steps = ["router", "finetune", "router"]
device = "cpu"                   # where networks are trained and vote
store = "fp32"                   # how weights are kept, and so what they are

[data]                           # source, image_size, train, test, held_out
[experts]                        # sigmas and a model to train, or systems: folders that exist
[experts.training]               # any of `Settings`
[labels]                         # n, n0, alpha, fraction ... folds, held_out
[router]                         # sigma, model, held_out, preset, objective, and the options of the loss
[router.training]
[[inner]]                        # routers below the first: experts, and all that [router] takes
[balance]                        # goal, radii, draws: routers are made to lean, on images held out
[finetune]                       # votes; used where `steps` says so
[finetune.training]
[certify]                        # rules, experts, n0, n, alpha, seed, start, skip, max, sampling, dtype ...
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, get_args

from sigmax.certify.dual_rule import Combination, DualRule
from sigmax.certify.procedure import Rule
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.errors import RequestError
from sigmax.train.config_table import Table, inside
from sigmax.train.pipeline_read import read_file, tables
from sigmax.train.pipeline_tables import (
    BalanceConfig,
    CertifyConfig,
    DataConfig,
    ExpertsConfig,
    FinetuneConfig,
    InnerConfig,
    LabelsConfig,
    RouterConfig,
)
from sigmax.train.pipeline_tree import Node, tree

__all__ = [
    "BalanceConfig",
    "CertifyConfig",
    "DataConfig",
    "ExpertsConfig",
    "FinetuneConfig",
    "InnerConfig",
    "LabelsConfig",
    "PipelineConfig",
    "RouterConfig",
]

Step = Literal["router", "finetune"]
Store = Literal["fp32", "bf16"]


@dataclass(frozen=True, kw_only=True)
class PipelineConfig:
    """A whole pipeline."""

    out: Path
    data: DataConfig
    experts: ExpertsConfig
    router: RouterConfig
    steps: tuple[Step, ...] = ("router",)
    device: str = "cpu"
    store: Store = "fp32"
    inner: tuple[InnerConfig, ...] = ()
    labels: LabelsConfig = field(default_factory=LabelsConfig)
    balance: BalanceConfig | None = None
    finetune: FinetuneConfig = field(default_factory=FinetuneConfig)
    certify: CertifyConfig = field(default_factory=CertifyConfig)
    file: Path | None = field(default=None, compare=False)  # where all this was read, for errors to name

    def __post_init__(self) -> None:
        if self.steps[:1] != ("router",) or not set(self.steps) <= set(get_args(Step)):
            raise RequestError(
                "steps must begin with 'router' and hold nothing but 'router' and 'finetune'; "
                f"got {list(self.steps)}"
            )
        self.router.check("router")
        for number, router in enumerate(self.inner):
            router.check(f"inner {number}")
        self._check_starts()
        with inside("[[inner]]"):
            tree(self.count, [router.experts for router in self.inner])
        self._check_sure()
        self._check_steps()
        if self.experts.sigmas:
            self.check_draws(self.experts.rules)

    def _check_starts(self) -> None:
        """Raise where a router is to begin with an expert that is not there, or to be unlike it."""
        named = {"router": self.router, **{f"inner {i}": router for i, router in enumerate(self.inner)}}
        for where, router in named.items():
            if router.start is None:
                continue
            if self.experts.systems or not 0 <= router.start < self.count:
                raise RequestError(
                    f"{where}.start must be the place of an expert that is trained here, 0 to {self.count - 1}; "
                    f"got {router.start}"
                )
            theirs, own = ((c.model, dict(c.options), c.normalise) for c in (self.experts, router))
            if theirs != own:
                raise RequestError(
                    f"{where}.start: a router that begins with an expert's network is like it; say the same model, "
                    f"options and normalise of both: {theirs}, got {own}"
                )

    def _check_sure(self) -> None:
        """Raise where a router is to be an expert's sureness and cannot be."""
        for node in self.tree.routers():
            place = self.router_of(node).sure_of
            if place is None:
                continue
            where = "router" if node.inner is None else f"inner {node.inner}"
            if self.experts.systems or self.experts.one_network or not 0 <= place < self.count:
                raise RequestError(
                    f"{where}.sure_of must be the place, 0 to {self.count - 1}, of an expert that is trained here "
                    f"and has a network of its own; got {place}"
                )
            if len(node.routes) != 2 or self.steps != ("router",):
                raise RequestError(
                    f"{where}.sure_of decides between two routes, in one step (steps = ['router']); got "
                    f"{len(node.routes)} routes and steps = {list(self.steps)}. More routes make a tree, [[inner]]"
                )
            if self.router_of(node).names and node.routes[1].experts != (place,):
                raise RequestError(
                    f"{where}.names: the router answers for its last route, which must be the expert that sure_of "
                    f"names; got sure_of = {place}, and the last route is {list(node.routes[1].experts)}"
                )

    def _check_steps(self) -> None:
        """Raise for what cannot go together, though each table is right by itself."""
        apart = self.labels.folds > 1 or self.labels.held_out > 0
        if apart and self.experts.systems:
            raise RequestError(
                "[labels] folds and held_out are about experts that are trained here; systems that exist saw what "
                "they saw: leave them out"
            )
        if apart and all(self.router_of(node).sure_of is not None for node in self.tree.routers()):
            raise RequestError(
                "[labels] folds and held_out are about routers that learn from labels, and none does here "
                "(sure_of); leave them out"
            )
        tuned = self.steps.index("finetune") if "finetune" in self.steps else len(self.steps)
        if self.labels.folds > 1 and "router" in self.steps[tuned:]:
            raise RequestError(
                "[labels] folds: experts of other folds are not fine-tuned, so labels after a 'finetune' cannot be "
                "theirs; end the steps with it, or use held_out"
            )
        if self.balance is not None:
            self._check_balance()
        if self.inner and self.steps != ("router",):
            raise RequestError(
                f"[[inner]]: a tree of routers is trained in one step, steps = ['router']; got {list(self.steps)}. "
                "Fine-tune its experts in a pipeline of their own first"
            )

    def _check_balance(self) -> None:
        if not self.data.held_out:
            raise RequestError("[balance] needs images that nobody was trained on: set data.held_out, such as 0.05")
        if self.steps != ("router",) or self.labels.inner == "measured":
            raise RequestError(
                "[balance] is for routers that are trained once, on labels of experts: steps = ['router'] and "
                f"labels.inner = 'best'; got {list(self.steps)} and {self.labels.inner!r}"
            )
        if self.experts.systems:
            raise RequestError("[balance] needs experts that are trained here; leave it out beside systems")

    @cached_property
    def tree(self) -> Node:
        """The first router and all below it."""
        return tree(self.count, [router.experts for router in self.inner])

    def router_of(self, node: Node) -> RouterConfig:
        """How a router of the tree is trained."""
        return self.router if node.inner is None else self.inner[node.inner]

    def rule_of(self, node: Node, experts: Sequence[Rule], combination: Combination) -> Rule:
        """The rule of a part of the tree over experts of these rules."""
        if node.is_expert:
            return experts[node.experts[0]]
        router = self.router_of(node)
        below = tuple(self.rule_of(route, experts, combination) for route in self.asked(node))
        outcomes = below[0].classes + 1 if router.names else len(below)
        return DualRule(SmoothedRule(router.sigma, outcomes), below, combination)

    def asked(self, node: Node) -> tuple[Node, ...]:
        """The routes of a router that are asked for a class: of one that names, only what it passes to."""
        return node.routes[:1] if self.router_of(node).names else node.routes

    def check_draws(self, experts: Sequence[Rule]) -> None:
        """Raise where labels or certificates of such experts could only abstain, or the experts do not fit."""
        with inside("[labels]"):
            for expert in experts:
                self.labels.check(expert)
        with inside("[certify]"):
            for expert in experts if self.certify.experts else ():
                self.certify.check(expert)
            for combination in self.certify.rules:
                self.certify.check(self.rule_of(self.tree, experts, combination))

    @property
    def count(self) -> int:
        """How many experts there are."""
        return len(self.experts.sigmas or self.experts.systems)

    @classmethod
    def read(cls, path: str | Path, changes: Sequence[str] = ()) -> Self:
        """The pipeline that a TOML file describes; what it does not understand is an error.

        `changes`: such as "router.sigma=0.5", each in place of what the file says.
        """
        path = Path(path)
        told = read_file(path, changes)
        with inside(str(path)):
            return replace(cls.from_table(told, path.parent), file=path)

    @classmethod
    def from_table(cls, told: Table, folder: Path) -> Self:
        """The same from what the file held; relative paths begin at `folder`."""
        given: dict[str, Any] = tables(told, folder, {"steps": tuple[Step, ...], "store": Store})
        return cls(**given)
