"""What the parts of a routed system are called, and how its procedures reach them."""

from sigmax.certify.procedure import Ask, Procedure, Rule, prefixed, within
from sigmax.certify.sampling import FIXED, Sampling
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.records.certificate import Certificate, Prediction

Grants = tuple[float, tuple[float, ...]]  # what the router and what each expert may spend
ROUTER = "router"
NAMED = "named"  # the votes of a router that picked a class: it is in charge itself


def expert_name(route: int) -> str:
    """How the expert of a route is called in stages, networks and the ledger."""
    return f"expert-{route}"


def ask_router(router: SmoothedRule, stage: str, draws: int, *, part: str = ROUTER) -> Ask:
    """Votes on the route; `part`: whose stage it is to be."""
    return Ask(prefixed(ROUTER, "base"), prefixed(part, stage), router.classes, router.sigma, draws)


def certify_expert(
    experts: tuple[Rule, ...], route: int, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED
) -> Procedure[Certificate]:
    """The certificate of one expert, as a part of the whole."""
    return within(expert_name(route), experts[route].certifying(n0=n0, n=n, alpha=alpha, sampling=sampling))


def predict_expert(experts: tuple[Rule, ...], route: int, *, n: int, alpha: float) -> Procedure[Prediction]:
    """The prediction of one expert, as a part of the whole."""
    return within(expert_name(route), experts[route].predicting(n=n, alpha=alpha))
