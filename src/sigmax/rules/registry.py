"""Schemes by name: the rule of a plan or a system folder is found here, and nowhere else.

A rule registers itself where it is defined. A package outside sigmax adds its own by an entry point of the group
`sigmax.schemes`, whose value is a module that calls `register` when it is imported.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, NamedTuple

from sigmax.config.plugins import imported
from sigmax.errors import RequestError
from sigmax.rules.certificate import Certificate, Stage
from sigmax.rules.procedure import Rule

GROUP = "sigmax.schemes"
DEEPEST = 16  # schemes below schemes; a file may claim any depth, and Python cannot follow a thousand
_BUILT_IN = ("smoothed", "routed.rule", "cascade.rule", "elastic", "memorized", "lipschitz", "splitting")


class UnknownSchemeError(RequestError):
    """No scheme of this name is installed: nothing is known to be wrong with what names it."""


Rebuild = Callable[[Mapping[str, Any]], Rule]  # makes the rule of a part
FromDict = Callable[[Mapping[str, Any], Rebuild], Rule]
Earlier = Sequence[tuple[int, float]]  # class and radius of the records before, where they had one


class Part(NamedTuple):
    """A part of a scheme: what its stages are called, and the description of its own scheme.

    `picks`: the names of the parts that its votes choose between, where they are not votes on classes.
    """

    name: str
    description: Mapping[str, Any]
    picks: tuple[str, ...] = ()


class LevelsTried(NamedTuple):
    """How one record went through the levels of its scheme, as the logs of Jeong & Shin (2024) have it."""

    ended: int  # the level that answered or was undecided, 0 for the first
    undecided: bool
    excluded: float  # exclusion radius of the levels that deferred; inf where none did
    uncertified: int | None  # the class by plain shares of the votes; None: abstained


@dataclass(frozen=True)
class Entry:
    """A scheme: what it is called, what it does in one line, and how its rule is built from plain data.

    `fields`: the keys of its description besides "scheme"; `optional`: others that it may have.
    `parts`: the schemes it is made of, given the description.
    `assumes`: what its certificates assume beyond the samples, given the description; empty where nothing.
    `composable`: whether its certificates hold as part of another scheme.
    `votes`: whether its records hold sampled votes, so that p_A is estimated.
    `not_checked`: what a record cannot show, so that `verify` says so; empty where nothing.
    `with_earlier`: where a record depends on those before it, what replayed votes prove together with them: rule,
    replayed certificate, recorded stages and earlier answers give the certificate. Such a scheme is not composable.
    `levels_tried`: where it has levels, how a record went through them.
    """

    name: str
    summary: str
    fields: tuple[str, ...]
    from_dict: FromDict
    parts: Callable[[Mapping[str, Any]], Iterable[Part]] = lambda description: ()
    assumes: Callable[[Mapping[str, Any]], tuple[str, ...]] = lambda description: ()
    optional: tuple[str, ...] = ()
    composable: bool = True
    votes: bool = True
    not_checked: str = ""
    with_earlier: Callable[[Any, Certificate, Sequence[Stage], Earlier], Certificate] | None = None
    levels_tried: Callable[[Mapping[str, Any], Certificate], LevelsTried] | None = None

    def __post_init__(self) -> None:
        if self.composable and self.with_earlier is not None:
            raise RequestError(
                f"records of the scheme {self.name!r} depend on earlier ones, so no other scheme can build on them; "
                "register it with composable=False"
            )


_entries: dict[str, Entry] = {}
_broken: list[str] = []  # why packages that may add a scheme could not be imported


def register(entry: Entry) -> None:
    """Make a scheme known; a name that is taken is refused."""
    known = _entries.get(entry.name)
    if known is not None and known.from_dict is not entry.from_dict:
        raise RequestError(f"a scheme {entry.name!r} is registered already; choose another name")
    _entries[entry.name] = entry


def entry(name: object) -> Entry:
    """The scheme of a name."""
    _load()
    if not isinstance(name, str):
        raise RequestError(f"unknown scheme {name!r:.80}; expected its name")
    if name not in _entries:
        why = "; ".join(_broken) or "The file may come from a newer version or need a package that adds the scheme"
        raise UnknownSchemeError(
            f"unknown scheme {name!r:.80}; this installation of sigmax knows: {', '.join(names())}. {why}"
        )
    return _entries[name]


def names() -> list[str]:
    """The registered schemes."""
    _load()
    return sorted(_entries)


def rebuild(description: Mapping[str, Any]) -> Rule:
    """The rule that `describe` described; a file is not trusted, so everything is checked again."""
    return _rebuild(description, 0)


def check_part(rule: Rule) -> Rule:
    """The rule, if another scheme can build on its certificates."""
    name = rule.describe()["scheme"]
    if not entry(name).composable:
        raise RequestError(
            f"certificates of the scheme {name!r} hold on their own terms only "
            f"({'; '.join(assumptions(rule.describe()))}), so another scheme cannot build on them"
        )
    return rule


def assumptions(description: Mapping[str, Any]) -> tuple[str, ...]:
    """What the certificates of a scheme and of its parts assume beyond the samples."""
    own = entry(description.get("scheme")).assumes(description)
    inner = (text for part in parts_of(description) for text in assumptions(part.description))
    return tuple(dict.fromkeys((*own, *inner)))


def parts_of(description: Mapping[str, Any]) -> tuple[Part, ...]:
    """The schemes that a scheme is made of, in their order."""
    return tuple(entry(description.get("scheme")).parts(description))


def schemes_in(description: Mapping[str, Any]) -> list[Entry]:
    """The scheme itself and those of all its parts, each once."""
    inner = (found for part in parts_of(description) for found in schemes_in(part.description))
    return list({found.name: found for found in (entry(description.get("scheme")), *inner)}.values())


def _rebuild(description: Mapping[str, Any], depth: int) -> Rule:
    if not isinstance(description, Mapping):
        raise RequestError(f"expected the description of a scheme, got {description!r:.80}; the file is damaged")
    if depth > DEEPEST:
        raise RequestError(f"the scheme has more than {DEEPEST} schemes below each other; the file is damaged")
    kind = entry(description.get("scheme"))
    _check_keys(kind, description)
    rule = kind.from_dict(description, lambda part: check_part(_rebuild(part, depth + 1)))
    if rule.classes != description.get("classes"):
        raise RequestError(f"the scheme has {rule.classes} classes, not {description.get('classes')!r:.80}")
    return rule


def _check_keys(kind: Entry, description: Mapping[str, Any]) -> None:
    missing = [name for name in kind.fields if name not in description]
    if missing:
        raise RequestError(f"the description of the scheme lacks {', '.join(missing)}; the file is damaged")
    surplus = sorted(map(str, set(description) - {"scheme", *kind.fields, *kind.optional}))
    if surplus:
        raise RequestError(f"a scheme {kind.name!r} has no {', '.join(surplus)[:80]}; the file is damaged, or newer")


@cache
def _load() -> None:
    for module in _BUILT_IN:
        import_module(f"sigmax.rules.{module}")
    for point in entry_points(group=GROUP):
        before = dict(_entries)
        try:
            imported(point, "scheme")
        except RequestError as error:  # it concerns those alone who ask for its scheme
            _broken.append(str(error))
            _entries.clear()  # of a module half imported nothing is taken
            _entries.update(before)
