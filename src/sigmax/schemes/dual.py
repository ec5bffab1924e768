"""Dual randomized smoothing (Sun et al. 2026): noise that depends on the input, by way of a certified router."""

import warnings
from collections.abc import Iterable, Sequence

from sigmax.engine.sharing import can_share
from sigmax.errors import RequestError
from sigmax.radius.noise import level_word
from sigmax.rules.routed.parts import ROUTER, expert_name
from sigmax.rules.routed.rule import Combination, DualRule
from sigmax.rules.smoothed import SmoothedRule
from sigmax.schemes.composite import Composite, check_scheme
from sigmax.schemes.registry import NetworkSource, build, register
from sigmax.schemes.scheme import Scheme
from sigmax.schemes.smoothed import Smoothed


class Dual(Composite):
    """A smoothed router picks, for each input, which expert classifies it.

    router: a `Smoothed` whose classes are the routes, in the order of `experts`.
    experts: any schemes with the same classes: `Smoothed` with several sigmas over one network or a network each,
    `Lipschitz`, `Cascade`, or another `Dual`. By custom from the least noise to the most.
    rule: "consensus" (default) or "min", the published one; see `DualRule`.
    """

    def __init__(self, router: Smoothed, experts: Sequence[Scheme], *, rule: Combination = "consensus") -> None:
        if not isinstance(router, Smoothed):
            raise RequestError(
                f"the router must be a Smoothed classifier whose classes are the routes; got {type(router).__name__}"
            )
        if isinstance(experts, Scheme) or not isinstance(experts, Iterable):
            raise RequestError(f"experts must be a list of schemes, one for each route; got {type(experts).__name__}")
        self.router = router
        self.experts = tuple(check_scheme(expert, "an expert") for expert in experts)
        assert isinstance(router.rule, SmoothedRule)
        rules = tuple(expert.rule for expert in self.experts)
        dual = DualRule(router.rule, rules, rule, _sharing(router, self.experts))
        super().__init__(dual, {ROUTER: router, **{expert_name(j): e for j, e in enumerate(self.experts)}})
        self.combination: Combination = dual.rule
        _warn_of_small_noise(dual)

    def __repr__(self) -> str:
        experts = " / ".join(f"{e.sigma:g}" if isinstance(e, Smoothed) else repr(e) for e in self.experts)
        router = f"{level_word(self.router.noise)} {self.router.sigma:g}"
        return f"Dual({self.combination}, router {router}, experts {experts}, {self.classes} classes)"


def _sharing(router: Smoothed, experts: Sequence[Scheme]) -> frozenset[int]:
    """The experts with the router's own noise and denoiser: one pass of the denoiser serves both."""
    return frozenset(
        j
        for j, expert in enumerate(experts)
        if isinstance(expert, Smoothed)
        and expert.noise == router.noise
        and can_share([router.voters["base"], expert.voters["base"]])
    )


def _warn_of_small_noise(dual: DualRule) -> None:
    if dual.router.sigma < dual.largest_noise:
        warnings.warn(
            f"the router's sigma {dual.router.sigma:g} is below the largest sigma of its experts, "
            f"{dual.largest_noise:g}: with the same p_A the router certifies a smaller radius than that expert, and so "
            "limits the large radii that the expert is there for; use a router with at least that sigma",
            stacklevel=3,
        )


def _from_rule(rule: DualRule, source: NetworkSource) -> Dual:
    router = build(rule.router, source.part(ROUTER))
    experts = [build(expert, source.part(expert_name(j))) for j, expert in enumerate(rule.experts)]
    return Dual(router, experts, rule=rule.rule)  # type: ignore[arg-type]  # it checks the router's kind


register("dual", _from_rule)
