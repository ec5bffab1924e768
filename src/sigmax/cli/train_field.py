"""`sigmax train classifier --field`: each training image under the noise that a field gives it."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import typer

from sigmax.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sigmax.data import Dataset
    from sigmax.train import Method

PREFIX = "field."


class FieldName(StrEnum):
    """Fields that noise can come from."""

    NEAREST_NEIGHBOUR = "nearest-neighbour"


Field = Annotated[
    FieldName | None,
    typer.Option(
        help="Noise by the image's distance to the others, SIGMA at the usual one, as `build semi-elastic` has it; "
        "--hyper field.rate=0.01, field.k=20 and field.offset=5 say how."
    ),
]


@dataclass(frozen=True)
class FieldOptions:
    """What a nearest-neighbour field is told besides its base, which is the training's sigma."""

    name: ClassVar[str] = "field"
    rate: float = 0.01
    k: int = 20
    offset: float = 5.0

    @classmethod
    def asked(cls, name: FieldName | None, hyper: "Sequence[str]", *, moving: bool) -> Self | None:
        """The field that the options describe; None where they ask for none."""
        from sigmax.train.methods import parsed

        own = [text.removeprefix(PREFIX) for text in hyper if text.startswith(PREFIX)]
        if name is None:
            if own:
                raise RequestError(f"{PREFIX + own[0]!r} is of a field; add --field {FieldName.NEAREST_NEIGHBOUR}")
            return None
        if moving:
            raise RequestError("--field and --data-dependent both decide the noise of an image; give one of them")
        return cls(**parsed(cls, own))  # type: ignore[arg-type]  # all that it asks for are fields and a name

    def teaching(self, teach: "Callable[[float], Method]", dataset: "Dataset") -> "Callable[[float], Method]":
        """The method under the noise of a field over these images, for any base."""
        from sigmax.certify.fields import NearestNeighbourSigma
        from sigmax.train import FieldNoise

        points = dataset.pixels(range(len(dataset)))
        return lambda sigma: FieldNoise(teach(sigma), NearestNeighbourSigma(points, base=sigma, **asdict(self)))

    def next_command(self, out: "Path", data: str, sigma: float) -> str:
        """What builds a system with the very field of the training."""
        told = f"--base {sigma:g} --rate {self.rate:g} --k {self.k} --offset {self.offset:g}"
        return f"sigmax build semi-elastic {out} --data {data} {told} --out SYSTEM"


def without_field(hyper: "Sequence[str]") -> list[str]:
    """The hyper-parameters that are not of a field."""
    return [text for text in hyper if not text.startswith(PREFIX)]
