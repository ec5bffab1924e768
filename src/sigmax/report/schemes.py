"""Schemes in words, from the plain data of a plan. What a scheme assumes is read from the registry of rules."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sigmax.radius.noise import level_in, noise_in_words
from sigmax.records.plan import IMPORTED
from sigmax.rules.certificate import joined
from sigmax.rules.registry import assumptions, parts_of

_ELSEWHERE = ("scheme", "classes", "file", "radii")  # what other lines of a report say


def scheme_text(rule: Mapping[str, Any]) -> str:
    """The scheme and its settings: 'dual, rule consensus, router sigma 1, experts 0.25 / 0.5 / 1'."""
    settings = (_setting(key, value) for key, value in rule.items() if key not in _ELSEWHERE)
    return ", ".join([str(rule["scheme"]), *(setting for setting in settings if setting)])


def in_words(rule: Mapping[str, Any]) -> str:
    """The same in short: of a smoothed classifier its noise alone, 'smoothed, sigma 0.5'."""
    return f"{rule['scheme']}, {_noise(rule)}" if level_in(rule) else scheme_text(rule)


def _setting(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return key if value else ""
    if isinstance(value, Mapping) and level_in(value):
        return f"{key} {_noise(value)}"
    if isinstance(value, Mapping) and "scheme" not in value:
        return f"{key} " + " ".join(filter(None, (_setting(name, of) for name, of in value.items())))
    several = isinstance(value, Sequence) and not isinstance(value, str)
    return f"{key} {' / '.join(map(_short, value)) if several else _short(value)}"


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return short_name(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def short_name(rule: Mapping[str, Any]) -> str:
    """A part of a scheme in a word: its noise if it has one, else what it is."""
    found = level_in(rule)
    if found is not None:
        return f"{found[1]:g}" + (f" {rule['bound']}" if rule.get("bound", "one-sided") != "one-sided" else "")
    return f"({scheme_text(rule)})" if parts_of(rule) else str(rule["scheme"])


def _noise(rule: Mapping[str, Any]) -> str:
    words = noise_in_words(rule)
    if words is None:
        return short_name(rule).strip("()")
    return f"{words.split(' ')[0]} {short_name(rule)}"


def other_noises(rule: Mapping[str, Any]) -> list[str]:
    """The noises beside the Gaussian that a scheme and its parts vote under, in their order."""
    if rule["scheme"] == IMPORTED:
        return []
    inner = (name for part in parts_of(rule) for name in other_noises(part.description))
    own = [] if rule.get("noise", "gaussian") == "gaussian" else [str(rule["noise"])]
    return list(dict.fromkeys((*own, *inner)))


def assumed_by(rule: Mapping[str, Any]) -> list[str]:
    """What the certificates of a run assume beyond the samples."""
    if rule["scheme"] == IMPORTED:
        return ["the log's own claims, which nothing proves"]
    return list(assumptions(rule))


def one_sided(rule: Mapping[str, Any]) -> bool:
    """Whether the class's own share alone decides, so that it takes more than half of the votes; a log is read so."""
    if rule["scheme"] == IMPORTED:
        return True
    answering = (part.description for part in parts_of(rule) if not part.picks)
    return all(map(one_sided, answering)) and str(rule.get("bound", "one-sided")) == "one-sided"


class VotingPart(NamedTuple):
    """A part of a scheme by its path in records, and what its votes are for."""

    path: str
    routes: list[str] | None  # the parts that a router's votes choose between; None where votes are for classes
    defers: bool  # whether a last column counts the votes for no class


def voting_parts(rule: Mapping[str, Any], path: str = "") -> Iterator[VotingPart]:
    """The scheme itself and every part of it, in their order."""
    yield VotingPart(path, None, bool(rule.get("defers", False)))
    parts = {part.name: part for part in parts_of(rule)}
    for name, part in parts.items():
        if part.picks:
            routes = [f"{part_title(picked)} ({_noise(parts[picked].description)})" for picked in part.picks]
            yield VotingPart(joined(path, name), routes, False)
        else:
            yield from voting_parts(part.description, joined(path, name))


def part_title(part: str) -> str:
    """A part as text: 'expert 1, level 0'; nothing for the whole scheme."""
    return part.replace("/", ", ").replace("-", " ")
