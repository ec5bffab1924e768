"""Dual randomized smoothing (Sun et al. 2026): noise that depends on the input, by way of a certified router."""

import warnings
from collections.abc import Iterable, Mapping, Sequence

from torch import Tensor

from sigmax.certify.dual_parts import ROUTER, expert_name
from sigmax.certify.dual_rule import Combination, DualRule
from sigmax.certify.fields import SigmaField
from sigmax.certify.parts import check_part
from sigmax.certify.procedure import prefixed
from sigmax.certify.scheme import Domain, Scheme
from sigmax.certify.smoothed import Smoothed
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.errors import RequestError
from sigmax.models.classifier import describe
from sigmax.noise.sharing import can_share
from sigmax.noise.voter import Voter


class Dual(Scheme):
    """A smoothed router picks, for each input, which expert classifies it.

    router: a `Smoothed` whose classes are the routes, in the order of `experts`.
    experts: any schemes that tell the same classes apart: `Smoothed` with several sigmas over one network or a
    network each, `Lipschitz`, or another `Dual` (a tree of routers). By custom from the least noise to the most.
    A router with one class more than its only expert names the classes itself, and passes with the last one:
    `models.sureness(network, names=True)` makes one.
    rule: "consensus" (default) or "min", the published one; see `DualRule`.
    """

    def __init__(self, router: Smoothed, experts: Sequence[Scheme], *, rule: Combination = "consensus") -> None:
        experts = _listed(experts)
        parts = _parts(router, experts)
        assert isinstance(router.rule, SmoothedRule)
        dual = DualRule(router.rule, tuple(expert.rule for expert in experts), rule, _sharing(router, experts))
        super().__init__(dual, _voters(parts), domain=_domain(parts))
        if dual.names:
            _refuse_trained(router, len(experts))
        self.router = router
        self.experts = experts
        self.combination: Combination = dual.rule
        self._parts = parts
        _warn_of_small_noise(dual)

    def sigma_of(self, network: str) -> float:
        """The noise of the part that the network belongs to."""
        part, _, inner = network.partition("/")
        return self._parts[part].sigma_of(inner)

    def own_noise(self, x: Tensor, ids: Sequence[int], seed: int) -> Mapping[str, Sequence[float]]:
        """What its parts ask for."""
        told = {name: part.own_noise(x, ids, seed) for name, part in self._parts.items()}
        return {
            prefixed(name, stage): found for name, by_stage in told.items() for stage, found in by_stage.items()
        }

    @property
    def fields(self) -> Mapping[str, SigmaField]:
        """Those of its parts."""
        return {prefixed(name, place): f for name, part in self._parts.items() for place, f in part.fields.items()}

    def __repr__(self) -> str:
        return f"Dual({_in_short(self)}, {self.classes} classes)"


def _refuse_trained(router: Smoothed, experts: int) -> None:
    """A router that was trained to choose among experts names no classes, though their number may be right."""
    told = describe(router.voters["base"].model)
    if told is not None and "router" in told.notes:
        raise RequestError(
            f"the router was trained to choose among {told.classes} experts, but there are {experts}; give one for "
            "each of its routes, in their order"
        )


def _sharing(router: Smoothed, experts: Sequence[Scheme]) -> frozenset[int]:
    """The experts under the router's own noise and behind its own denoiser: one pass of that serves both."""
    return frozenset(
        j
        for j, expert in enumerate(experts)
        if isinstance(expert, Smoothed)
        and expert.sigma == router.sigma
        and can_share([router.voters["base"], expert.voters["base"]])
    )


def _listed(experts: Iterable[Scheme]) -> tuple[Scheme, ...]:
    if isinstance(experts, Scheme) or not isinstance(experts, Iterable):
        raise RequestError(f"experts must be a list of schemes, one for each route; got {type(experts).__name__}")
    return tuple(experts)


def _in_short(dual: Dual) -> str:
    """What stands in the parentheses: 'consensus, router sigma 1, experts 0.25 / 0.5 / 1'."""
    experts = " / ".join(map(_expert_in_short, dual.experts))
    assert isinstance(dual.rule, DualRule)
    if dual.rule.names:
        return f"{dual.combination}, router sigma {dual.router.sigma:g} names or passes to {experts}"
    return f"{dual.combination}, router sigma {dual.router.sigma:g}, experts {experts}"


def _expert_in_short(expert: Scheme) -> str:
    if isinstance(expert, Smoothed):
        return f"{expert.sigma:g}"
    return f"({_in_short(expert)})" if isinstance(expert, Dual) else type(expert).__name__


def _parts(router: Smoothed, experts: Sequence[Scheme]) -> dict[str, Scheme]:
    if not isinstance(router, Smoothed):
        raise RequestError(
            f"the router must be a Smoothed classifier whose classes are the routes; got {type(router).__name__}"
        )
    for expert in experts:
        if not isinstance(expert, Scheme):
            raise RequestError(
                "experts must be schemes such as Smoothed(model, sigma=0.5, classes=10); "
                f"got {type(expert).__name__}"
            )
        check_part(expert.rule)
    return {ROUTER: router, **{expert_name(j): expert for j, expert in enumerate(experts)}}


def _voters(parts: dict[str, Scheme]) -> dict[str, Voter]:
    """The voters of all parts by their names in the whole; a network used twice is one voter, in fuller batches."""
    voters: dict[str, Voter] = {}
    for name, part in parts.items():
        for inner, voter in part.voters.items():
            voters[prefixed(name, inner)] = next((known for known in voters.values() if known.like(voter)), voter)
    return voters


def _domain(parts: dict[str, Scheme]) -> Domain:
    domains = {name: part.domain for name, part in parts.items()}
    if any(domain != domains[ROUTER] for domain in domains.values()):
        told = ", ".join(f"{name}: {domain}" for name, domain in domains.items())
        raise RequestError(f"router and experts must accept the same range of inputs; their domains are {told}")
    return domains[ROUTER]


def _warn_of_small_noise(dual: DualRule) -> None:
    if dual.router.sigma < dual.largest_noise:
        warnings.warn(
            f"the router's sigma {dual.router.sigma:g} is below the largest sigma of its experts, "
            f"{dual.largest_noise:g}: as sure of the route as that expert is of the class, the router proves a "
            "smaller radius, and so limits the large radii that expert is there for; "
            "use a router with at least that sigma",
            stacklevel=3,
        )
