import json
from dataclasses import replace

import pytest

from sigmax.errors import RequestError
from sigmax.models import Description, Normalisation

FULL = Description(
    architecture="small-cnn",
    options={"width": 8},
    classes=10,
    input_shape=(1, 8, 8),
    normalisation=Normalisation((0.1,), (1 / 3,)),
    sigma=0.25,
    notes={"data": {"name": "digits"}, "shape": (1, 2)},
)


def nested(depth):
    """An object in an object in an object, innermost a list."""
    held = []
    for _ in range(depth - 1):
        held = {"in": held}
    return held


def test_json_round_trip_is_exact():
    assert Description.from_json(FULL.to_json()) == FULL
    bare = Description(architecture="x", classes=2, input_shape=(3, 4, 5))
    assert Description.from_json(bare.to_json()) == bare


def test_identity_ignores_what_the_output_does_not_depend_on():
    assert replace(FULL, sigma=None, notes={}).identity() == FULL.identity()
    for change in (
        {"architecture": "y"},
        {"options": {"width": 9}},
        {"classes": 11},
        {"input_shape": (1, 8, 9)},
        {"normalisation": None},
    ):
        assert replace(FULL, **change).identity() != FULL.identity()


def test_as_deep_as_is_allowed_is_written_and_read():
    deep = replace(FULL, notes=nested(50), options=nested(50))
    assert Description.from_json(deep.to_json()).identity() == deep.identity()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": 1}, "classes must be a whole number of at least 2, got 1"),
        ({"classes": True}, "classes must be"),
        ({"input_shape": (8, 8)}, "input_shape must be"),
        ({"input_shape": (1, 0, 8)}, "input_shape must be"),
        ({"input_shape": (3, 8, 8)}, "the normalisation is for 1 channels and the inputs have 3"),
        ({"sigma": -0.1}, "sigma must be finite and not negative"),
        ({"sigma": float("nan")}, "sigma must be finite"),
        ({"sigma": 10**400}, "sigma must be finite"),
        ({"architecture": ["small-cnn"]}, "architecture must be a name"),
        ({"notes": {"when": object()}}, "notes must be plain JSON"),
        ({"options": {"width": float("inf")}}, "options must be plain JSON"),
        ({"notes": nested(60)}, "notes must be plain JSON values at most 50 levels deep"),
        ({"notes": nested(100_000)}, "notes must be plain JSON"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    with pytest.raises(RequestError, match=message):
        replace(FULL, **change)


def written(**change):
    return json.dumps({**json.loads(FULL.to_json()), **change})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "not one of sigmax"),
        ("[1, 2]", "not one of sigmax"),
        ("{}", "not one of sigmax"),
        (written(format=2), "format 2 and this sigmax reads format 1; upgrade"),
        (written(extra=1), "wrong fields"),
        (written(normalisation={"mean": [0.1]}), "normalisation.std is missing"),
        (written(normalisation=7), "normalisation: expected a table, got 7"),
        (written(input_shape=None), "value of the wrong kind"),
        (written(sigma="0.25"), "value of the wrong kind"),
        (written(options=3), "wrong kind|plain JSON"),
        (written(normalisation={"mean": ["a"], "std": ["b"]}), "normalisation.mean.0: expected a number, got 'a'"),
        (written(normalisation={"mean": [0.1], "std": [10**400]}), "normalisation.std.0: expected a "),
        (written(architecture=["small-cnn"]), "architecture must be a name"),
        (written(architecture={"name": "small-cnn"}), "architecture must be a name"),
        ("[" * 100_000, "not one of sigmax"),
        (written(notes={})[:-1] + ', "more": ' + "[" * 100_000, "not one of sigmax"),
    ],
)
def test_a_file_is_not_trusted(text, message):
    with pytest.raises(RequestError, match=message):
        Description.from_json(text)
