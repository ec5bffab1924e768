"""The rule of dual smoothing: a router, its experts, and how alpha is split between them. No torch."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from sigmax.bounds import Budget
from sigmax.errors import RequestError
from sigmax.rules.certificate import Certificate, Prediction
from sigmax.rules.checks import check_norms, check_samples, naming_part
from sigmax.rules.procedure import Procedure, Rule
from sigmax.rules.registry import Entry, Part, register
from sigmax.rules.routed import certifying, predicting
from sigmax.rules.routed.parts import ROUTER, AlphaSplit, expert_name
from sigmax.rules.sampling import FIXED, Sampling
from sigmax.rules.smoothed import SmoothedRule

Combination = Literal["consensus", "min"]


@dataclass(frozen=True)
class DualRule:
    """A smoothed router picks the expert in charge; the certificate covers both its choice and the expert's class.

    `rule="min"` is the published procedure: alpha/2 for the route, alpha/2 for the class, the radius is the smaller
    of the two, and an undecided router abstains. Source: Sun et al. (2026), Theorem 4.2 and Sec. 5.1.
    `rule="consensus"` also asks the experts that could be in charge nearby: where they agree, it does not matter
    which of them is. alpha/2 is shared by the router's bounds, alpha/2 by the experts. Source: `radius.routed`.
    An expert that is not random (a deterministic one) leaves its part to the others. The router's own `bound` serves
    the rule "min"; consensus bounds every route by itself.
    """

    router: SmoothedRule
    experts: tuple[Rule, ...]
    rule: Combination = "consensus"
    # The experts that may vote on the router's samples: how votes come about, not what they prove.
    sharing: frozenset[int] = field(default=frozenset(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.router, SmoothedRule):
            raise RequestError("the router must be a Smoothed classifier, whose classes are the routes")
        if self.router.defers:
            raise RequestError("a router picks one of its experts and cannot defer; use Cascade for a selective model")
        if self.rule not in get_args(Combination):
            raise RequestError(f"rule must be one of {', '.join(get_args(Combination))}; got {self.rule!r}")
        object.__setattr__(self, "experts", tuple(self.experts))
        if self.router.classes != len(self.experts):
            raise RequestError(
                f"the router has {self.router.classes} routes, but there are {len(self.experts)} experts; give one "
                "expert for each route, in the order of the routes. A model that answers or defers belongs in a Cascade"
            )
        classes = [expert.classes for expert in self.experts]
        if len(set(classes)) > 1:
            raise RequestError(f"all experts must have the same classes; they have {', '.join(map(str, classes))}")
        check_norms({ROUTER: self.router, **{expert_name(j): expert for j, expert in enumerate(self.experts)}})

    @property
    def classes(self) -> int:
        """How many classes the experts have."""
        return self.experts[0].classes

    @property
    def norm(self) -> str:
        """That of all its parts."""
        return self.router.norm

    @property
    def is_random(self) -> bool:
        """The router's bounds may be wrong by chance, whatever the experts are."""
        return True

    @property
    def largest_noise(self) -> float:
        """The largest sigma of any expert."""
        return max(expert.largest_noise for expert in self.experts)

    def certifying(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> Procedure[Certificate]:
        """The certificate of the routed classifier by the rule chosen."""
        split = self.alpha_split(alpha)
        sampling = sampling.beyond(0.0, None)  # a part may be of use to the others below the floor of the whole
        task = certifying.Task(self.router, self.experts, split, n0, n, alpha, sampling, self.sharing)
        return certifying.consensus(task) if self.rule == "consensus" else certifying.minimum(task)

    def predicting(self, *, n: int, alpha: float) -> Procedure[Prediction]:
        """The class of the routed classifier by the rule chosen."""
        procedure = predicting.consensus if self.rule == "consensus" else predicting.minimum
        return procedure(self.router, self.experts, n=n, alpha=alpha)

    def alpha_split(self, alpha: float) -> AlphaSplit:
        """What the router and each expert may spend of alpha when certifying; together at most alpha."""
        random = sum(expert.is_random for expert in self.experts)
        budget = Budget(alpha)
        router = budget.spend(budget.share(2) if random or self.rule == "min" else alpha, on=ROUTER)
        if not random:
            return AlphaSplit(router, (alpha,) * len(self.experts))
        # By the rule "min" only the expert of the route picked beforehand is ever asked: all that is left is its.
        share = budget.share(1 if self.rule == "min" else random)
        return AlphaSplit(router, tuple(share if expert.is_random else alpha for expert in self.experts))

    def check_certify(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> None:
        """Raise unless the router (by the rule "min") and every expert could certify with its part of alpha."""
        check_samples(alpha, n0=n0, n=n)
        # Beside one expert the others are asked about a radius already known, and so may claim it early.
        sampling = sampling.capped(sys.float_info.max)
        split = self.alpha_split(alpha)
        parts: dict[str, tuple[Rule, float]] = {
            expert_name(j): (expert, split.experts[j]) for j, expert in enumerate(self.experts)
        }
        if self.rule == "min":
            parts[ROUTER] = self.router, split.router
        for name, (part, share) in parts.items():
            with naming_part(name, share, alpha):
                part.check_certify(n0=n0, n=n, alpha=share, sampling=sampling)

    def largest_radius(self, *, n: int, alpha: float, sampling: Sampling = FIXED) -> float:
        """What its furthest expert could prove; by the rule "min" the router limits it too."""
        split = self.alpha_split(alpha)
        furthest = max(
            expert.largest_radius(n=n, alpha=split.experts[j], sampling=sampling)
            for j, expert in enumerate(self.experts)
        )
        if self.rule == "consensus":
            return furthest
        return min(furthest, self.router.largest_radius(n=n, alpha=split.router, sampling=sampling))

    def check_predict(self, *, n: int, alpha: float) -> None:
        """Raise unless the router (by the rule "min") and every expert could predict with its half of alpha."""
        check_samples(alpha, n=n)
        half = Budget(alpha).share(2)
        parts: dict[str, Rule] = {expert_name(j): expert for j, expert in enumerate(self.experts)}
        if self.rule == "min":
            parts[ROUTER] = self.router
        for name, part in parts.items():
            with naming_part(name, half, alpha):
                part.check_predict(n=n, alpha=half)

    def describe(self) -> Mapping[str, Any]:
        """The rule as plain data; a part that is itself routed holds its own router and experts."""
        return {
            "scheme": "dual",
            "rule": self.rule,
            "classes": self.classes,
            "router": dict(self.router.describe()),
            "experts": [dict(expert.describe()) for expert in self.experts],
        }


def _from_dict(plain: Mapping[str, Any], part: Callable[[Mapping[str, Any]], Rule]) -> DualRule:
    if not isinstance(plain["experts"], list):
        raise RequestError("the experts of a dual scheme must be a list; the file is damaged")
    router = part(plain["router"])
    return DualRule(router, tuple(map(part, plain["experts"])), plain["rule"])  # type: ignore[arg-type]  # checked


def _parts(plain: Mapping[str, Any]) -> Iterator[Part]:
    experts = [Part(expert_name(j), expert) for j, expert in enumerate(plain["experts"])]
    yield Part(ROUTER, plain["router"], picks=tuple(expert.name for expert in experts))
    yield from experts


register(
    Entry(
        "dual",
        summary="a certified router picks the expert for each input (Sun et al. 2026)",
        fields=("rule", "classes", "router", "experts"),
        parts=_parts,
        from_dict=_from_dict,
    )
)
