"""Which rules may be a part of a larger one."""

from sigmax.certify.memorized_rule import MemorizedRule
from sigmax.certify.multiscale_rule import MultiscaleRule
from sigmax.certify.procedure import Rule
from sigmax.errors import RequestError


def check_part(rule: Rule) -> Rule:
    """The rule, seen to give certificates that a router can build on."""
    if isinstance(rule, MultiscaleRule) and not rule.sound:
        raise RequestError(
            "a cascade with budget='released' proves nothing, so nothing can be built on it; use budget='sound'"
        )
    if isinstance(rule, MemorizedRule):
        raise RequestError(
            "what Memorized certifies holds within its memory, which depends on the order of the inputs; a router "
            "cannot build on it"
        )
    return rule
