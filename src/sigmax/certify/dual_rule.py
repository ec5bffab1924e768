"""The rule of dual smoothing: a router, its experts, and how alpha is shared between them. No torch."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from sigmax.bounds import Budget
from sigmax.certify import dual_adaptive, dual_certifying, dual_predicting, naming, naming_predicting
from sigmax.certify.checks import check_draws
from sigmax.certify.dual_parts import ROUTER, Grants, expert_name
from sigmax.certify.procedure import Procedure, Rule
from sigmax.certify.sampling import FIXED, Sampling
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.errors import RequestError
from sigmax.records.certificate import Certificate, Prediction

Combination = Literal["consensus", "min"]


@dataclass(frozen=True)
class DualRule:
    """A smoothed router names the expert in charge; the certificate covers both its choice and the expert's class.

    `rule="min"` is the published procedure: alpha/2 for the route, alpha/2 for the class, the radius is the smaller
    of the two, and an undecided router abstains. Source: Sun et al. (2026), Theorem 4.2 and Sec. 5.1.
    `rule="consensus"` also asks the experts that could be in charge nearby: where they agree, it does not matter
    which of them is. alpha/2 is shared by the router's bounds, alpha/2 by the experts. Source: `radius.routed`.
    An expert that does not pay (a deterministic one) leaves its part to the others. The router's own `bound` serves
    the rule "min"; consensus bounds every route by itself.
    A router that tells one outcome more than the classes apart `names`: outcome c is the class c, the last one
    passes to the only expert (see `naming`). Its alpha/2 pays for both bounds, whatever its own `bound`.
    """

    router: SmoothedRule
    experts: tuple[Rule, ...]
    rule: Combination = "consensus"
    # The experts that may vote on the router's draws: how votes come about, not what they prove.
    sharing: frozenset[int] = field(default=frozenset(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.router, SmoothedRule):
            raise RequestError("the router must be a Smoothed classifier, whose classes are the routes")
        if self.rule not in get_args(Combination):
            raise RequestError(f"rule must be one of {', '.join(get_args(Combination))}; got {self.rule!r}")
        object.__setattr__(self, "experts", tuple(self.experts))
        if self.router.classes != len(self.experts) and not self.names:
            raise RequestError(
                f"the router tells {self.router.classes} routes apart, but there are {len(self.experts)} experts; "
                "give one expert for each class of the router, in the order of its classes; or a single expert to "
                "a router that names the classes and passes, with one class more than the expert"
            )
        classes = [expert.classes for expert in self.experts]
        if len(set(classes)) > 1:
            raise RequestError(
                f"all experts must tell the same classes apart; they tell {', '.join(map(str, classes))}"
            )

    @property
    def names(self) -> bool:
        """Whether the router names classes itself, and leaves what it does not name to one expert."""
        return len(self.experts) == 1 and self.router.classes == self.experts[0].classes + 1

    @property
    def classes(self) -> int:
        """How many classes the experts tell apart."""
        return self.experts[0].classes

    @property
    def pays(self) -> bool:
        """The router's bounds may be wrong by chance, whatever the experts are."""
        return True

    @property
    def largest_noise(self) -> float:
        """The largest sigma of any expert."""
        own = (self.router.sigma,) if self.names else ()
        return max(*own, *(expert.largest_noise for expert in self.experts), 0.0)

    def certifying(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> Procedure[Certificate]:
        """The certificate of the routed classifier by the rule chosen."""
        if self.names:
            told: dict[str, Any] = {"n0": n0, "n": n, "alpha": alpha, "sampling": sampling}
            return naming.certifying(
                self.router, self.experts[0], self.grants(alpha), blind=self.rule == "min", **told
            )
        parts = self.router, self.experts, self.grants(alpha)
        if sampling.kind == "fixed" and self.rule == "min":
            return dual_certifying.minimum(*parts, n0=n0, n=n, alpha=alpha)
        if sampling.kind == "fixed":
            return dual_certifying.consensus(*parts, n0=n0, n=n, alpha=alpha, sharing=self.sharing)
        adaptive = dual_adaptive.consensus if self.rule == "consensus" else dual_adaptive.minimum
        return adaptive(*parts, n0=n0, n=n, alpha=alpha, sampling=sampling)

    def predicting(self, *, n: int, alpha: float) -> Procedure[Prediction]:
        """The class of the routed classifier by the rule chosen."""
        if self.names:
            blind = self.rule == "min"
            return naming_predicting.predicting(self.router, self.experts[0], n=n, alpha=alpha, blind=blind)
        procedure = dual_predicting.consensus if self.rule == "consensus" else dual_predicting.minimum
        return procedure(self.router, self.experts, n=n, alpha=alpha)

    def grants(self, alpha: float) -> Grants:
        """What the router and each expert may spend of alpha when certifying; together at most alpha."""
        paying = sum(expert.pays for expert in self.experts)
        budget = Budget(alpha)
        router = budget.spend(budget.share(2) if paying or self.rule == "min" else alpha, on=ROUTER)
        if not paying:
            return router, (alpha,) * len(self.experts)
        # By the rule "min" only the expert of the route picked beforehand is ever asked: all that is left is its.
        share = budget.share(1 if self.rule == "min" else paying)
        return router, tuple(share if expert.pays else alpha for expert in self.experts)

    def check_certify(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> None:
        """Raise unless the router (by the rule "min") and every expert could certify with its share of alpha."""
        check_draws(alpha, n0=n0, n=n)
        # Beside one expert the others are asked about a radius already known, and so may claim it early.
        sampling = sampling.capped(sys.float_info.max)
        for_router, for_expert = self.grants(alpha)
        parts: dict[str, tuple[Rule, float]] = {
            expert_name(j): (expert, for_expert[j]) for j, expert in enumerate(self.experts)
        }
        if self.names:
            pay = naming.Pay.of(for_router, picked=True, blind=self.rule == "min")
            parts[ROUTER] = replace(self.router, bound="one-sided"), pay.naming
        elif self.rule == "min":
            parts[ROUTER] = self.router, for_router
        for name, (part, share) in parts.items():
            with _told(name, share, alpha):
                part.check_certify(n0=n0, n=n, alpha=share, sampling=sampling)

    def largest_radius(self, *, n: int, alpha: float, sampling: Sampling = FIXED) -> float:
        """What its furthest expert could prove; by the rule "min" the router limits it too."""
        for_router, for_expert = self.grants(alpha)
        furthest = max(
            expert.largest_radius(n=n, alpha=for_expert[j], sampling=sampling)
            for j, expert in enumerate(self.experts)
        )
        if self.names:
            told: dict[str, Any] = {"n": n, "alpha": for_router, "sampling": sampling, "blind": self.rule == "min"}
            return naming.largest_radius(self.router, furthest, **told)
        if self.rule == "consensus":
            return furthest
        return min(furthest, self.router.largest_radius(n=n, alpha=for_router, sampling=sampling))

    def check_predict(self, *, n: int, alpha: float) -> None:
        """Raise unless the router (by the rule "min") and every expert could predict with its half of alpha."""
        check_draws(alpha, n=n)
        half = Budget(alpha).share(2)
        parts: dict[str, Rule] = {expert_name(j): expert for j, expert in enumerate(self.experts)}
        if self.rule == "min" and not self.names:
            parts[ROUTER] = self.router
        elif self.names:  # passing is ruled out for each class by itself
            with _told(ROUTER, half, alpha):
                self.router.check_predict(n=n, alpha=2 * half / self.classes)
        for name, part in parts.items():
            with _told(name, half, alpha):
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


@contextmanager
def _told(name: str, share: float, alpha: float) -> Iterator[None]:
    """Errors of a part say whose they are, and where its odd alpha comes from."""
    try:
        yield
    except RequestError as error:
        raise RequestError(f"{name}, which gets {share:.3g} of alpha={alpha:g}: {error}") from error
