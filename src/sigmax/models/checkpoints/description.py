"""What a checkpoint says of itself: enough to rebuild the model, and where it came from."""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from sigmax.config.validation import build
from sigmax.errors import RequestError
from sigmax.models.normalise import Normalisation

_DEEPEST = 50  # levels of lists and objects in options and notes; Python cannot follow a thousand
LARGEST = 1 << 24  # numbers in one image: 3 x 2,364 x 2,364; on loading a network answers a few images
FORMAT = 1  # raised when a reader of the old layout would misread the new one


@dataclass(frozen=True, kw_only=True)
class Description:
    """A model in words. All but `sigma` and `notes` decides what the model computes."""

    architecture: str  # its name in the registry
    classes: int  # how many logits an input gets; 0: none, it is a denoiser and an input comes back as an image
    input_shape: tuple[int, int, int]  # (C, H, W) of one input
    options: Mapping[str, Any] = field(default_factory=dict)  # of the architecture, such as {"width": 16}
    normalisation: Normalisation | None = None  # of pixels in [0, 1], before the network sees them
    sigma: float | None = None  # of the noise it was trained on, in pixels; None: not known
    notes: Mapping[str, Any] = field(default_factory=dict)  # as JSON: training settings, data fingerprint, source

    def __post_init__(self) -> None:
        if not isinstance(self.architecture, str):
            raise RequestError(
                f"architecture must be a name such as 'resnet20', got {self.architecture!r:.80}; see models.names()"
            )
        if not self.denoises and (not _is_count(self.classes) or self.classes < 2):
            raise RequestError(f"classes must be a whole number of at least 2, got {self.classes!r}")
        check_input_shape(self.input_shape)
        object.__setattr__(self, "input_shape", tuple(self.input_shape))
        self._check_normalisation()
        if self.sigma is not None and not 0 <= self.sigma <= sys.float_info.max:
            raise RequestError(f"sigma must be finite and not negative, or None, got {self.sigma!r}")
        for part in ("options", "notes"):
            object.__setattr__(self, part, _as_json(part, getattr(self, part)))

    @property
    def denoises(self) -> bool:
        """Whether it is a denoiser, which takes sigma and returns images, rather than a classifier."""
        return type(self.classes) is int and self.classes == 0

    def _check_normalisation(self) -> None:
        channels = self.input_shape[0]
        if self.denoises and self.normalisation is not None:
            raise RequestError("a denoiser takes and returns pixels on [0, 1]; its normalisation must be None")
        if self.normalisation is not None and len(self.normalisation.mean) != channels:
            raise RequestError(
                f"the normalisation is for {len(self.normalisation.mean)} channels and the inputs have "
                f'{channels}; give {channels} means and stds, or "none"'
            )

    def identity(self) -> str:
        """What decides the model's output, as canonical JSON; training sigma and notes do not."""
        decides = {key: value for key, value in asdict(self).items() if key not in ("sigma", "notes")}
        return json.dumps(decides, sort_keys=True)

    def to_json(self) -> str:
        """The whole description as one JSON object."""
        return json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The description that `to_json` wrote; a file is not trusted, so everything is checked again."""
        try:
            values = json.loads(text)
            version = values.pop("format")
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
            raise RequestError(f"the description is not one of sigmax: {text[:80]!r}") from error
        if version != FORMAT:
            raise RequestError(
                f"the description has format {version!r} and this sigmax reads format {FORMAT}; upgrade sigmax"
            )
        if set(values) != {known.name for known in fields(cls)}:
            raise RequestError(f"the description has the wrong fields: {', '.join(sorted(values))}")
        try:
            if values["normalisation"] is not None:
                values["normalisation"] = build(Normalisation, values["normalisation"], "normalisation")
            return cls(**values)
        except TypeError as error:
            raise RequestError(f"the description holds a value of the wrong kind: {error}") from error


def check_input_shape(shape: Sequence[Any]) -> None:
    """Raise unless this is the shape of an image; of one that fits into memory many times, since files name it."""
    if len(shape) != 3 or not all(map(_is_count, shape)):
        raise RequestError(f"input_shape must be (channels, height, width), each at least 1, got {shape!r}")
    if math.prod(shape) > LARGEST:
        raise RequestError(f"input_shape must be of at most {LARGEST:,} pixels and channels, got {shape!r:.80}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _as_json(part: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping as JSON gives it back, so that a description equals the one read from its file."""
    try:
        plain = json.loads(json.dumps(dict(value), allow_nan=False))
        deep = _levels(plain) > _DEEPEST
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"{part} must be plain JSON values under string keys: {error}") from error
    if deep:
        raise RequestError(f"{part} must be plain JSON values at most {_DEEPEST} levels deep; flatten them")
    return dict(plain)


def _levels(held: Any) -> int:
    """How deeply lists and objects are nested."""
    inner = held.values() if isinstance(held, dict) else held if isinstance(held, list) else ()
    return 1 + max(map(_levels, inner), default=0)
