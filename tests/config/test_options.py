"""Options read from mappings, changed by KEY=VALUE, and described."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, model_validator

from sigmax.config import Options, build, changed, json_schema, markdown, options, with_changes
from sigmax.config.validation import Count, Positive, about
from sigmax.errors import RequestError


@options
class Training:
    epochs: Annotated[Count, about("passes over the data")] = 3
    lr: Positive = 0.1
    schedule: Literal["step", "cosine"] = "step"

    def __post_init__(self) -> None:
        if self.lr > 10:
            raise RequestError("lr above 10 diverges; use less")


class Router(Options):
    sigma: Annotated[Positive, about("noise in pixels")]
    training: Training = Training()
    options: Mapping[str, Any] = {}


class Smoothed(Options):
    kind: Literal["smoothed"]
    sigma: Positive

    @model_validator(mode="after")
    def _small(self) -> "Smoothed":
        if self.sigma > 10:
            raise RequestError("sigma above 10 hides every image")
        return self


class System(Options):
    kind: Literal["system"]
    folder: str


class File(Options):
    out: str
    router: Router
    sigmas: tuple[float, ...] = ()
    schemes: Mapping[str, Annotated[Smoothed | System, Field(discriminator="kind")]] = {}
    most: int | None = None
    many: int | str = 1
    large: bool = False


GOOD: dict[str, Any] = {"out": "work", "router": {"sigma": 1}, "schemes": {"a": {"kind": "smoothed", "sigma": 1.0}}}
PLAIN = build(File, GOOD)


def test_a_file_becomes_a_model_with_defaults():
    assert PLAIN.router == Router(sigma=1.0)
    assert PLAIN.router.training == Training(3, 0.1, "step")
    assert isinstance(PLAIN.schemes["a"], Smoothed)
    assert build(File, {**GOOD, "sigmas": [1, 2.5]}).sigmas == (1.0, 2.5)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"rooter": 1}, "the top level has no 'rooter'; it takes .*; did you mean router?"),
        ({"folder": 1}, r"did you mean \[schemes\] folder\?"),
        ({"router": {"sigma": -1}}, "router.sigma: expected a number above 0, got -1"),
        ({"router": {}}, "router.sigma is missing: noise in pixels"),
        ({"router": 3}, "router: expected a table, got 3"),
        ({"router": {"sigma": 1, "training": {"epoch": 1}}}, r"\[router.training\] has no 'epoch'.*mean epochs"),
        ({"router": {"sigma": 0, "training": {"epochs": 0}}}, "sigma: .*; router.training.epochs: expected"),
        ({"router": {"sigma": 1, "training": {"lr": 11}}}, "router.training: lr above 10 diverges; use less"),
        ({"router": {"sigma": True}}, "router.sigma: expected a number, got True"),
        ({"router": {"sigma": float("inf")}}, "router.sigma: expected a finite number, got inf"),
        ({"router": {"sigma": 1, "training": {"schedule": "x"}}}, "expected 'step' or 'cosine', got 'x'"),
        ({"sigmas": 1}, "sigmas: expected a list, got 1"),
        ({"sigmas": [1, "x"]}, "sigmas.1: expected a number, got 'x'"),
        ({"most": 1.5}, "most: expected a whole number, got 1.5"),
        ({"many": 1.5}, "many: expected a whole number or text, got 1.5"),
        ({"schemes": {"a": {"kind": "x"}}}, "schemes.a.kind: expected one of 'smoothed', 'system', got 'x'"),
        ({"schemes": {"a": {}}}, "schemes.a.kind is missing"),
        ({"schemes": {"a": {"kind": "smoothed", "sigma": 11}}}, "^schemes.a: sigma above 10 hides every image$"),
        ({"schemes": {"a": {"kind": "system"}}}, "schemes.a.folder is missing"),
        ({"schemes": {"a": {"kind": "system", "sigma": 1}}}, r"\[schemes.a\] has no 'sigma'; it takes folder, kind"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(more, said):
    with pytest.raises(RequestError, match=said):
        build(File, {**GOOD, **more})


def test_constructors_say_the_same():
    for wrong, said in [
        (lambda: Training(0), "^epochs: expected a number of at least 1, got 0$"),
        (lambda: Training(epoch=1), "Training has no 'epoch'"),
        (lambda: Router(), "^sigma is missing"),
        (lambda: Router(sigma=1, training=Training(lr=-1.0)), "^lr: expected"),
        (lambda: build(Training, {"lr": "x"}, where="router.training"), "^router.training.lr: expected a number"),
    ]:
        with pytest.raises(RequestError, match=said):
            wrong()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("router.sigma=2", lambda c: c.router.sigma == 2.0),
        ("router.training.epochs = 4", lambda c: c.router.training == Training(4)),
        ("router.training.schedule=cosine", lambda c: c.router.training.schedule == "cosine"),
        ("router.options.width=8", lambda c: c.router.options == {"width": 8}),
        ("sigmas=0.25,0.5", lambda c: c.sigmas == (0.25, 0.5)),
        ("sigmas=[1]", lambda c: c.sigmas == (1.0,)),
        ("sigmas=1", lambda c: c.sigmas == (1.0,)),
        ("large=True", lambda c: c.large),
        ("out=12", lambda c: c.out == "12"),
        ("out=a=b", lambda c: c.out == "a=b"),
        ("schemes.a.sigma=3", lambda c: c.schemes["a"].sigma == 3.0),
        ("most=", lambda c: c.most is None),
    ],
)
def test_a_change_is_typed_by_its_field(change, found):
    assert found(build(File, changed({**GOOD, "most": 5}, [change], File)))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("most", "a change is KEY=VALUE, such as training.epochs=30; got 'most'"),
        ("least=1", "no 'least'; it takes"),
        ("router.training.epoch=1", r"\[router.training\] has no 'epoch'; .* did you mean epochs\?"),
        ("most.more=1", "most is no table, so there is no most.more to change"),
        ("most=abc", "most: expected a whole number, got 'abc'"),
        ("router.training.epochs=0", "router.training.epochs: expected a number of at least 1, got 0"),
    ],
)
def test_a_wrong_change_is_refused(change, said):
    with pytest.raises(RequestError, match=said):
        build(File, changed(GOOD, [change], File))


def test_objects_are_changed_likewise():
    @dataclass(frozen=True)
    class Recipe:
        sigmas: tuple[float, ...] = (0.25, 0.5)
        most: int | None = 10
        sizes: dict = field(default_factory=lambda: {"width": 8})
        training: Training = field(default_factory=Training)

    found = with_changes(Recipe(), ["sigmas=0.1,1", "most=3", "sizes.width=16", "training.lr=0.5"])
    assert found == Recipe((0.1, 1.0), 3, {"width": 16}, Training(lr=0.5))
    assert with_changes(Recipe(), []) == Recipe()


def test_the_models_are_the_documentation():
    table = markdown(File)
    assert "| `router.sigma` | number > 0 | required | noise in pixels |" in table
    assert "| `router.training.epochs` | whole number >= 1 | `3` | passes over the data |" in table
    assert '| `router.training.schedule` | `step`, `cosine` | `"step"` |' in table
    schema = json_schema(File)
    assert schema["required"] == ["out", "router"]
    assert schema["$defs"]["Training"]["properties"]["epochs"]["minimum"] == 1
