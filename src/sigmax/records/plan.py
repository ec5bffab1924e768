"""The plan of a run: everything that decides its certificates, written before the first of them."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from sigmax.errors import RequestError

FORMAT = 1
FIXED = {"kind": "fixed"}  # what files written before there was anything else mean
_PLAINLY = {  # where a field's own name would not tell the reader what to do
    "system": "system (the model's weights or its settings)",
    "inputs.count": "inputs.count (a run's inputs are fixed; take others with --start and another file)",
}
_MANY = 2**40  # more inputs than any data set has


@dataclass(frozen=True)
class Plan:
    """What is certified, by what, and how. Two runs with equal plans hold the same certificates.

    `made_with` (versions, batch size) is kept for the reader and not compared: it moves no certificate beyond
    the rare vote that a network's own rounding tips.
    """

    rule: Mapping[str, Any]  # the scheme's rule as plain data: scheme, sigmas, classes, bound
    n0: int | None  # selection draws; None where a log does not say
    n: int
    alpha: float
    seed: int | None
    noise: str | None  # which generator the seed belongs to
    arithmetic: str | None  # device and precision: the function that was smoothed
    data: Mapping[str, Any]  # name, split, fingerprint, class names
    inputs: Mapping[str, int]  # start, skip, count: input i of the run is start + i * skip
    system: str | None  # fingerprint of the scheme with its networks
    sampling: Mapping[str, Any] = field(default_factory=lambda: dict(FIXED))  # when a stage may stop, and its looks
    made_with: Mapping[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """The scheme's name."""
        return str(self.rule["scheme"])

    @property
    def indices(self) -> range:
        """The inputs to certify, by their index in the data."""
        start, skip, count = (self.inputs[key] for key in ("start", "skip", "count"))
        return range(start, start + skip * count, skip)

    def to_json(self) -> dict[str, Any]:
        """Plain data for the journal's first line."""
        return {"kind": "plan", "format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "Plan":
        """The plan a journal's first line holds."""
        if line.get("kind") != "plan" or line.get("format") != FORMAT:
            raise RequestError(
                f"expected a run file of format {FORMAT}, whose first line is a plan; "
                f"got {line.get('kind')!r} of format {line.get('format')!r}"
            )
        names = {f.name for f in fields(cls)}
        missing = sorted(names - line.keys() - {"sampling"})
        if missing:
            raise RequestError(f"the plan lacks {', '.join(missing)}; the file is not a whole run file")
        plan = cls(**{name: line[name] for name in names if name in line})
        plan.check()
        return plan

    def check(self) -> None:
        """Raise unless every field is of its kind: a plan may have been read from anywhere."""
        whole = (int, type(None))
        kinds = {
            "rule": isinstance(self.rule, Mapping) and isinstance(self.rule.get("scheme"), str),
            "n0": type(self.n0) in whole,
            "n": type(self.n) is int,
            "alpha": type(self.alpha) is float,
            "seed": type(self.seed) in whole,
            "data": isinstance(self.data, Mapping),
            "inputs": _is_selection(self.inputs),
            "sampling": isinstance(self.sampling, Mapping),
            "made_with": isinstance(self.made_with, Mapping),
        }
        wrong = [name for name, right in kinds.items() if not right]
        if wrong:
            shown = "; ".join(f"{name}: {getattr(self, name)!r:.80}" for name in wrong)
            raise RequestError(f"the plan holds values of the wrong kind ({shown}); the file is damaged")

    def differences(self, other: "Plan") -> list[str]:
        """What differs, as 'name: here, there'; empty when the same run is meant."""
        here, there = dict(_flat(self._compared())), dict(_flat(other._compared()))
        keys = sorted(here.keys() | there.keys())
        return [
            f"{_PLAINLY.get(k, k)}: {here.get(k)!r} here, {there.get(k)!r} there"
            for k in keys
            if here.get(k) != there.get(k)
        ]

    def _compared(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key != "made_with"}


def _is_selection(inputs: object) -> bool:
    """Start, skip and count, each a whole number that a data set could have."""
    if not isinstance(inputs, Mapping):
        return False
    least = {"start": 0, "skip": 1, "count": 1}
    return all(type(inputs.get(k)) is int and low <= inputs[k] < _MANY for k, low in least.items())


def _flat(data: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple) and any(isinstance(entry, Mapping) for entry in value):
            yield from _flat(dict(enumerate(value)), f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", list(value) if isinstance(value, tuple) else value
