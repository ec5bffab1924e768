"""What a network answers to noisy copies of held-out images: asked once, kept, and counted for any threshold."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from sigmax.data import Dataset
from sigmax.engine.voter import voting
from sigmax.errors import RequestError
from sigmax.files import written_whole
from sigmax.models.selective import Selective
from sigmax.progress import Watch, silent
from sigmax.radius.noise import described
from sigmax.request import refuse_other
from sigmax.rules.certificate import Certificate
from sigmax.schemes.scheme import Scheme
from sigmax.schemes.smoothed import Smoothed
from sigmax.systems.folder import fingerprint
from sigmax.systems.networks import fingerprint_of
from sigmax.train.loop.quick_check import noisy_answers
from sigmax.train.loop.stored import on_device

ADVICE = "Delete it to ask the network again, or choose another place"
TOGETHER = 100  # images that a deterministic certifier is given at once

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Answers(NamedTuple):
    """What a network answers to noisy copies of each image, (images, samples)."""

    top: NDArray[np.integer[Any]]  # the class with the largest logit
    confidence: NDArray[np.float32]  # its softmax

    def counts(self, classes: int, confidence: float = 0.0) -> Ints:
        """(images, classes) how often each class is answered with at least this confidence."""
        images = len(self.top)
        cells = np.arange(images)[:, None] * classes + self.top
        found = np.bincount(cells[self.confidence >= confidence], minlength=images * classes)
        return found.reshape(images, classes).astype(np.int64, copy=False)


class Certain(NamedTuple):
    """What a deterministic certifier proves of each image, (images,)."""

    predicted: Ints  # -1 where it abstains
    radius: Floats

    def reached(self, labels: Ints) -> Floats:
        """How far the true class of each image is certified."""
        return np.where(self.predicted == labels, self.radius, 0.0)


def network_of(level: Smoothed) -> Any:
    """The model that a level's confidence is taken from."""
    model = level.voters["base"].model
    return model.model if isinstance(model, Selective) else model


def answers_of(part: Smoothed, images: Dataset, *, samples: int, seed: int, watch: Watch = silent) -> Answers:
    """What a level's network answers to noisy copies, in its arithmetic; `watch(done, total)` counts noisy copies."""
    voter, network = part.voters["base"], network_of(part)
    pixels = on_device(images, voter.device)
    generator = torch.Generator(voter.device).manual_seed(seed)
    found, done, total = [], 0, len(images) * samples
    watch(0, total)
    how: dict[str, Any] = {"samples": samples, "generator": generator, "noise": part.noise.name}
    with voting([voter]), torch.autocast(voter.device.type, voter.dtype, enabled=voter.dtype != torch.float32):
        for _, logits in noisy_answers(network, pixels, part.sigma, **how):
            largest = logits.float().softmax(dim=1).max(dim=1)
            found.append((largest.indices.cpu(), largest.values.cpu()))
            done += len(logits)
            watch(done, total)
    top, confidence = (torch.cat(columns).view(len(images), samples).numpy() for columns in zip(*found, strict=True))
    return Answers(top.astype(np.min_scalar_type(part.classes - 1)), confidence)


def certain_of(part: Scheme, images: Dataset, *, watch: Watch = silent) -> Certain:
    """The certificates of a deterministic scheme; `watch(done, total)` counts images."""
    found, total = list[Certificate](), len(images)
    watch(0, total)
    for first in range(0, total, TOGETHER):
        found += part.certify(images.pixels(range(first, min(first + TOGETHER, total))))
        watch(len(found), total)
    predicted = [-1 if c.predicted is None else c.predicted for c in found]
    return Certain(np.array(predicted, np.int64), np.array([c.radius for c in found], np.float64))


def kept_answers(
    path: Path | None, part: Scheme, images: Dataset, *, samples: int, seed: int, watch: Watch = silent
) -> Answers | Certain:
    """The same from the file; else the network is asked, and its answers kept there. Another request is refused."""

    def asked() -> Answers | Certain:
        if isinstance(part, Smoothed):
            return answers_of(part, images, samples=samples, seed=seed, watch=watch)
        return certain_of(part, images, watch=watch)

    if path is None:
        return asked()
    request = _request(part, images, samples=samples, seed=seed)
    if path.is_file():
        return read_answers(path, request, Answers if isinstance(part, Smoothed) else Certain)
    found = asked()
    text = np.array(json.dumps(request))
    with written_whole(path) as draft, draft.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, request=text, **found._asdict())
    return found


def read_answers(path: Path, request: Mapping[str, Any], kind: type[Answers] | type[Certain]) -> Answers | Certain:
    """The answers in a file; those of another request are refused with what differs."""
    try:
        with np.load(path, allow_pickle=False) as file:
            there = dict(json.loads(str(file["request"])))
            refuse_other(there, request, f"{path} holds what a network answered to another request", ADVICE)
            found = kind(*(file[name] for name in kind._fields))
    except RequestError:
        raise
    except Exception as error:  # a damaged file can fail in any way at all; the advice is the same
        raise RequestError(f"{path} is damaged ({error!r:.200}); delete it to ask the network again") from error
    return found


def _request(part: Scheme, images: Dataset, *, samples: int, seed: int) -> dict[str, Any]:
    """All that the answers depend on."""
    dtypes = sorted({str(voter.dtype) for voter in part.voters.values()})
    said: dict[str, Any] = {"classes": part.classes, "images": images.fingerprint, "dtype": ", ".join(dtypes)}
    if isinstance(part, Smoothed):
        network = fingerprint_of("base", network_of(part))
        said |= {"network": network, **described(part.noise), "samples": samples, "seed": seed}
    else:
        said |= {"system": fingerprint(part)}
    plain: dict[str, Any] = json.loads(json.dumps(said))
    return plain
