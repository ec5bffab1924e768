"""What the parts of a routed system are called, and how its procedures reach them."""

from typing import NamedTuple

from sigmax.rules.certificate import Certificate, Prediction, Role
from sigmax.rules.procedure import Procedure, Rule, VoteRequest, within
from sigmax.rules.sampling import FIXED, Sampling
from sigmax.rules.smoothed import SmoothedRule

ROUTER = "router"


class AlphaSplit(NamedTuple):
    """What the router and what each expert may spend of alpha."""

    router: float
    experts: tuple[float, ...]


def expert_name(route: int) -> str:
    """How the expert of a route is called in stages, networks and the ledger."""
    return f"expert-{route}"


def router_request(router: SmoothedRule, role: Role, n: int) -> VoteRequest:
    """Votes on the route."""
    return VoteRequest(ROUTER, role, router.columns, router.noise, n)


def certify_expert(
    experts: tuple[Rule, ...], route: int, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED
) -> Procedure[Certificate]:
    """The certificate of one expert, as a part of the whole."""
    return within(expert_name(route), experts[route].certifying(n0=n0, n=n, alpha=alpha, sampling=sampling))


def predict_expert(experts: tuple[Rule, ...], route: int, *, n: int, alpha: float) -> Procedure[Prediction]:
    """The prediction of one expert, as a part of the whole."""
    return within(expert_name(route), experts[route].predicting(n=n, alpha=alpha))
