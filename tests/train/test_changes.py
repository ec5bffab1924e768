"""Numbers of a recipe, changed from outside."""

from dataclasses import dataclass, field

import pytest

from sigmax.errors import RequestError
from sigmax.train import Settings
from sigmax.train.changes import with_changes


@dataclass(frozen=True)
class Recipe:
    sigmas: tuple[float, ...] = (0.25, 0.5)
    most: int | None = 10
    named: str = "all"
    sizes: dict = field(default_factory=lambda: {"width": 8})
    training: Settings = field(default_factory=Settings)


def test_values_tables_and_settings():
    changes = ["sigmas=(0.1, 1.0)", "most=None", "named = some of them", "sizes.width=16", "sizes.more.deep=1"]
    found = with_changes(Recipe(), [*changes, "training.epochs=3", "training.lr=0.5"])
    assert found == Recipe(
        (0.1, 1.0), None, "some of them", {"width": 16, "more": {"deep": 1}}, Settings(epochs=3, lr=0.5)
    )
    assert with_changes(Recipe(), []) == Recipe()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("most", "a change is KEY=VALUE, such as training.epochs=30; got 'most'"),
        ("least=1", "no 'least' to change in Recipe; it has sigmas, most, named, sizes, training"),
        ("training.epoch=1", "no 'epoch' to change in Settings"),
        ("most.more=1", "no 'more' to change in int"),
        ("training.epochs=0", "epochs must be a whole number of at least 1, got 0"),
    ],
)
def test_what_is_not_there_cannot_be_changed(change, message):
    with pytest.raises(RequestError, match=message):
        with_changes(Recipe(), [change])
