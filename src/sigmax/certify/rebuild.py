"""A rule made again from the plain data that `describe` gave: what verification and loading begin with."""

from collections.abc import Callable, Mapping
from typing import Any

from sigmax.certify.dual_rule import DualRule
from sigmax.certify.lipschitz_rule import LipschitzRule
from sigmax.certify.memorized_rule import MemorizedRule
from sigmax.certify.multiscale_rule import MultiscaleRule
from sigmax.certify.parts import check_part
from sigmax.certify.procedure import Rule
from sigmax.certify.semi_elastic_rule import SemiElasticRule
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.errors import RequestError

DEEPEST = 16  # routers below routers; a file may claim any depth, and Python cannot follow a thousand
PLAIN: Mapping[str, Callable[..., Rule]] = {  # rules made of their fields alone
    "smoothed": SmoothedRule,
    "lipschitz": LipschitzRule,
    "multiscale": MultiscaleRule,
    "semi-elastic": SemiElasticRule,
    "memorized": MemorizedRule,
}
FIELDS = {
    "smoothed": ("sigma", "classes", "bound"),
    "lipschitz": ("constant", "classes"),
    "multiscale": ("sigmas", "classes", "thresholds", "budget"),
    "semi-elastic": ("field", "dim", "classes"),
    "memorized": ("sigma0", "least", "most", "classes", "search", "steps", "noises", "step"),
    "dual": ("rule", "router", "experts"),
}


def rebuild(description: Mapping[str, Any], depth: int = 0) -> Rule:
    """The rule that `describe` described; a file is not trusted, so everything is checked again."""
    fields = _fields(description, depth)
    if description["scheme"] in PLAIN:
        return PLAIN[description["scheme"]](**fields)
    router = rebuild(fields["router"], depth + 1)
    experts = tuple(check_part(rebuild(expert, depth + 1)) for expert in fields["experts"])
    dual = DualRule(router, experts, fields["rule"])  # type: ignore[arg-type]  # it checks the router's kind itself
    if dual.classes != description.get("classes"):
        raise RequestError(f"the experts tell {dual.classes} classes apart, not {description.get('classes')}")
    return dual


def refuse_surplus(description: Mapping[str, Any]) -> None:
    """Raise where a description that can be rebuilt says more than `describe` does: a reader would believe it."""
    scheme = description["scheme"]
    surplus = sorted(map(str, set(description) - {"scheme", "classes", *FIELDS[scheme]}))
    if surplus:
        raise RequestError(f"a scheme {scheme!r} has no {', '.join(surplus)[:80]}; the file is damaged, or newer")
    for part in (description["router"], *description["experts"]) if scheme == "dual" else ():
        refuse_surplus(part)


def _fields(description: Mapping[str, Any], depth: int) -> dict[str, Any]:
    scheme = description.get("scheme") if isinstance(description, Mapping) else description
    if not isinstance(description, Mapping) or not isinstance(scheme, str) or scheme not in FIELDS:
        raise RequestError(
            f"unknown scheme {scheme!r:.80}; this version of sigmax knows: {', '.join(FIELDS)}. "
            "The file may come from a newer version"
        )
    wanted = FIELDS[scheme]
    missing = [name for name in wanted if name not in description]
    if missing:
        raise RequestError(f"the description of the scheme lacks {', '.join(missing)}; the file is damaged")
    if depth > DEEPEST:
        raise RequestError(f"the scheme has more than {DEEPEST} routers below each other; the file is damaged")
    if scheme == "dual" and not isinstance(description["experts"], list):
        raise RequestError("the experts of a dual scheme must be a list; the file is damaged")
    return {name: description[name] for name in wanted}
