"""The registry of schemes: what report, export and verify know of a scheme is what its entry declares."""

import pytest

from sigmax.errors import RequestError
from sigmax.records.journal import write_all
from sigmax.records.verify import verify
from sigmax.report.schemes import voting_parts
from sigmax.rules import registry
from sigmax.rules.cascade import CascadeRule
from sigmax.rules.lipschitz import LipschitzRule
from sigmax.rules.registry import Entry, entry, names, parts_of, schemes_in
from sigmax.rules.routed.rule import DualRule
from sigmax.rules.smoothed import SmoothedRule
from tests.records.helpers import plan, records

EXPERT, SELECTIVE = SmoothedRule.gaussian(0.5, 3), SmoothedRule.gaussian(1.0, 3, defers=True)
ROUTER = SmoothedRule.gaussian(1.0, 2)
CASCADE = CascadeRule((SELECTIVE, EXPERT), LipschitzRule(1.0, 3))
DUAL = DualRule(ROUTER, (EXPERT, CASCADE))


def test_parts_are_declared_with_the_names_that_records_use():
    assert [part.name for part in parts_of(CASCADE.describe())] == ["level-0", "level-1", "last"]
    router, *experts = parts_of(DUAL.describe())
    assert (router.name, router.picks) == ("router", ("expert-0", "expert-1"))
    assert [part.name for part in experts] == ["expert-0", "expert-1"]
    assert [part.description for part in experts] == [EXPERT.describe(), CASCADE.describe()]
    assert parts_of(EXPERT.describe()) == ()
    assert [scheme.name for scheme in schemes_in(DUAL.describe())] == ["dual", "smoothed", "cascade", "lipschitz"]


def test_what_the_votes_of_a_part_are_for_is_declared():
    parts = {part.path: part for part in voting_parts(DUAL.describe())}
    assert list(parts) == [
        *("", "router", "expert-0", "expert-1"),
        *("expert-1/level-0", "expert-1/level-1", "expert-1/last"),
    ]
    assert parts["router"].routes == [
        "expert 0 (sigma 0.5)",
        "expert 1 (cascade, thresholds 0.5 / 0.5, levels 1 / 0.5, last lipschitz)",
    ]
    assert [path for path, part in parts.items() if part.routes] == ["router"]
    assert [path for path, part in parts.items() if part.defers] == ["expert-1/level-0"]


@pytest.mark.parametrize(
    ("declared", "of"),
    [
        (lambda e: not e.votes, {"lipschitz"}),
        (lambda e: e.not_checked, {"memorized", "semi-elastic"}),
        (lambda e: e.with_earlier, {"memorized"}),
        (lambda e: e.levels_tried, {"cascade"}),
        (lambda e: not e.composable, {"memorized"}),
    ],
)
def test_what_the_schemes_of_the_package_declare(declared, of):
    built_in = {"smoothed", "dual", "cascade", "semi-elastic", "memorized", "lipschitz"}
    assert built_in <= set(names())
    assert {name for name in built_in if declared(entry(name))} == of


def test_a_scheme_whose_records_depend_on_earlier_ones_is_no_part_of_another():
    with pytest.raises(RequestError, match="register it with composable=False"):
        Entry("x", summary="", fields=(), from_dict=lambda p, q: EXPERT, with_earlier=lambda r, c, s, e: c)


BROKEN = """
from dataclasses import replace
from sigmax.rules.registry import entry, register
register(replace(entry("smoothed"), name="rings"))
raise ValueError("no rings today")
"""


@pytest.fixture
def broken_package(tmp_path, monkeypatch):
    """A package outside sigmax whose scheme cannot be imported, on the path as pip would put it."""
    (tmp_path / "my_rings.py").write_text(BROKEN)
    about = tmp_path / "my_rings-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-rings\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[sigmax.schemes]\nrings = my_rings\n")
    names()  # the others are there already
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.setattr(registry, "_broken", [])
    registry._load.cache_clear()
    yield
    registry._load.cache_clear()


@pytest.mark.usefixtures("broken_package")
def test_a_package_that_cannot_be_imported_is_named_to_those_who_ask_for_it_alone(tmp_path):
    write_all(tmp_path / "run.jsonl", plan(), records())
    assert verify(tmp_path / "run.jsonl").holds
    assert "rings" not in names()
    expected = r"'rings' of my_rings cannot be imported \(no rings today\); repair or remove that package"
    with pytest.raises(RequestError, match=expected):
        entry("rings")
