"""The plan of a run: everything that decides its certificates, written before the first of them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from sigmax import request
from sigmax.errors import RequestError
from sigmax.records import inputs as selected
from sigmax.rules.registry import entry

FORMAT = 2
FIXED = {"kind": "fixed"}
IMPORTED = "imported"  # stands where the scheme would, for a log that another tool wrote
NORM_OF_LOGS = "l2"
_OF_DATA = frozenset("name split fingerprint classes labelled".split())
_OF_MADE_WITH = frozenset("sigmax python torch cpu numpy scipy batch known_by_behaviour_alone experts notes".split())
_OF_A_LOG = frozenset("scheme sigma radii file sigmas".split())  # the rule of an imported log
_HINTS = {  # where a field's own name would not tell the reader what to do
    "system": "the model's weights or its settings",
    "behaviour": "what the network computes on probe inputs: its code or its normalisation is not the same",
    "data.fingerprint": "the images themselves: some were added, removed or changed, or their size or split is another",
    "data.labelled": "whether the inputs have labels",
    "arithmetic": "device, precision, compilation, and what torch may round",
    "inputs": "a run grows only to inputs that include its own; take others with another file",
}


class OtherFormatError(RequestError):
    """A run file of another format: not damaged, but nothing that this version can read."""


@dataclass(frozen=True)
class Plan:
    """What is certified, by what, and how. Two runs with equal plans hold the same certificates.

    `behaviour` is what each network computes on probe inputs, which a hash of its weights (`system`) cannot see. Runs
    made before it was recorded lack it: they can be read and verified, not continued. `made_with` (versions, batch
    size) is not compared: it moves no certificate beyond the rare vote that a network's own rounding tips.
    """

    rule: Mapping[str, Any]  # the scheme's rule as plain data: scheme, noise, sigmas, classes, bound
    norm: str  # of the radii
    n0: int | None  # selection samples; None where a log does not say
    n: int
    alpha: float
    seed: int | None
    generator: str | None  # which random numbers the seed stands for
    arithmetic: str | None  # device and precision: the function that was smoothed
    data: Mapping[str, Any]  # name, split, fingerprint, class names, and whether the inputs have labels
    inputs: selected.Inputs  # start, skip, count: input i of the run is start + i * skip; or a list of such
    system: str | None  # fingerprint of the scheme with its networks
    behaviour: Mapping[str, Any] | None = None  # of each network: outputs on probe inputs, and how close is the same
    sampling: Mapping[str, Any] = field(default_factory=lambda: dict(FIXED))  # when a stage may stop, and its looks
    made_with: Mapping[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """The scheme's name."""
        return str(self.rule["scheme"])

    @property
    def labelled(self) -> bool:
        """Whether the records have labels; those of logs and of runs made before plans said so have."""
        return bool(self.data.get("labelled", True))

    @property
    def imported(self) -> bool:
        """Whether it stands for another tool's log, which has no rule and no counts."""
        return self.method == IMPORTED

    @property
    def indices(self) -> Sequence[int]:
        """The inputs to certify, by their index in the data."""
        return selected.indices(self.inputs)

    @property
    def in_order(self) -> bool:
        """Whether an answer may depend on those before it, as with a memory: its certificates hold on these terms."""
        return not self.imported and entry(self.method).with_earlier is not None

    def to_json(self) -> dict[str, Any]:
        """Plain data for the journal's first line."""
        return {"kind": "plan", "format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "Plan":
        """The plan a journal's first line holds."""
        if line.get("kind") != "plan":
            raise RequestError(f"expected a plan in the first line of a run file; got {line.get('kind')!r:.80}")
        if line.get("format") != FORMAT or type(line["format"]) is not int:
            raise OtherFormatError(
                f"the run file has format {line.get('format')!r:.80}; this version reads format {FORMAT}, so certify "
                "again"
            )
        names = {f.name for f in fields(cls)}
        missing, surplus = sorted(names - line.keys() - {"behaviour"}), sorted(line.keys() - names - {"kind", "format"})
        if missing or surplus:
            wrong = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has {', '.join(surplus)[:80]}"] * bool(surplus)
            raise RequestError(f"the plan {' and '.join(wrong)}; the file is damaged, or newer")
        plan = cls(**{name: line[name] for name in names & line.keys()})
        plan.check()
        return plan

    def check(self) -> None:
        """Raise unless every field is of its kind: a plan may have been read from anywhere."""
        unknown = (type(None),) * self.imported  # a log may not say; a run of sigmax says all of it
        whole, text = (int, *unknown), (str, *unknown)
        kinds = {
            "rule": isinstance(self.rule, Mapping) and isinstance(self.rule.get("scheme"), str),
            "n0": type(self.n0) in whole,
            "n": type(self.n) is int,
            "alpha": type(self.alpha) is float,
            "seed": type(self.seed) in whole,
            "norm": type(self.norm) is str,
            "generator": type(self.generator) in text,
            "arithmetic": type(self.arithmetic) in text,
            "system": type(self.system) in text,
            "behaviour": self.behaviour is None or _is_behaviour(self.behaviour),
            "data": _is_data(self.data),
            "inputs": selected.are_inputs(self.inputs),
            "sampling": isinstance(self.sampling, Mapping),
            "made_with": isinstance(self.made_with, Mapping) and _are_texts(self.made_with.get("notes", ())),
        }
        wrong = [name for name, right in kinds.items() if not right]
        if wrong:
            shown = "; ".join(f"{name}: {getattr(self, name)!r:.80}" for name in wrong)
            raise RequestError(f"the plan holds values of the wrong kind ({shown}); the file is damaged")
        self._refuse_unknown_keys()

    def _refuse_unknown_keys(self) -> None:
        """Raise where a table has a key that no run writes: a reader could take it for a fact about the run."""
        tables = {"data": (self.data, _OF_DATA), "made_with": (self.made_with, _OF_MADE_WITH)}
        if self.imported:  # other rules are checked by their schemes
            tables["rule"] = (self.rule, _OF_A_LOG)
        for name, (table, known) in tables.items():
            surplus = sorted(map(str, table.keys() - known))
            if surplus:
                raise RequestError(f"the plan's {name} has no {', '.join(surplus)[:80]}; the file is damaged, or newer")

    def differences(self, recorded: "Plan", *, inputs: bool = True) -> list[str]:
        """What differs from the plan of a file; empty when the same run is meant.

        inputs: whether to compare them; without, empty means that both can be parts of one run.
        """
        left_out = {"made_with"} if inputs else {"made_with", "inputs"}
        there, here = (
            {key: value for key, value in asdict(plan).items() if key not in left_out} for plan in (recorded, self)
        )
        return request.differences(there, here, hints=_HINTS)

    def grown(self, inputs: selected.Inputs) -> "Plan":
        """The plan of the same run with more inputs; refused where they do not include its own."""
        if not selected.covers(inputs, self.inputs) or selected.same(inputs, self.inputs):
            raise RequestError(
                f"a run of {selected.in_words(self.inputs)} cannot become one of {selected.in_words(inputs)}: it must "
                "keep every input and get others besides"
            )
        if self.in_order and not selected.follow(inputs, self.inputs):
            raise RequestError(
                f"a run of {self.method!r} answers its inputs in order, each with a memory of those before it, so it "
                "grows only by inputs that come after its last one"
            )
        return replace(self, inputs=inputs)


def _are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(text, str) for text in value)


def _is_data(value: object) -> bool:
    if not isinstance(value, Mapping) or type(value.get("labelled", True)) is not bool:
        return False
    classes = value.get("classes")
    return classes is None or _are_texts(classes)


def _is_behaviour(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(request.is_measured, value.values()))
