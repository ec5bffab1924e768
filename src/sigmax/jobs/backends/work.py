"""What a worker holds and does, whichever backend started it: a job once, then one group of inputs after another.

A job travels as bytes in memory, never by a file. A group holds its images, so a worker needs no data set.
"""

import io
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from sigmax.errors import RequestError
from sigmax.records.lines import Record
from sigmax.records.plan import Plan
from sigmax.rules.certificate import Prediction, Stage
from sigmax.rules.sampling import remade
from sigmax.schemes.scheme import Scheme

PORTION_SECONDS = 1.0  # results are sent together for so long: what the loss of a worker may cost beside its inputs


@dataclass(frozen=True)
class Group:
    """Inputs to answer together. `known`: recorded stages by position, of inputs that are answered already."""

    indices: Sequence[int]
    labels: Sequence[int | None]
    pixels: NDArray[np.float32]
    known: Mapping[int, Sequence[Stage]] = field(default_factory=dict)


@dataclass(frozen=True)
class Predicted:
    """A prediction and the index of its input."""

    index: int
    prediction: Prediction


class Job(Protocol):
    """What is asked of every input."""

    def results(self, group: Group) -> Iterator[Any]:
        """A result with an `index` for each input of the group that is not known, as they come."""


@dataclass(frozen=True)
class Certifying:
    """The job of a run: the records that the plan asks for."""

    scheme: Scheme
    plan: Plan
    weights: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", self.scheme.weights())  # once, not for every group

    def results(self, group: Group) -> Iterator[Record]:
        """The group's missing records, as they come."""
        plan = self.plan
        clock = time.perf_counter()
        for position, certificate in self.scheme.certifications(
            group.pixels,
            n0=plan.n0 or 1,
            n=plan.n,
            alpha=plan.alpha,
            seed=plan.seed or 0,
            ids=group.indices,
            weights=self.weights,
            sampling=remade(plan.sampling),
            known=group.known,
        ):
            if position in group.known:
                continue
            now = time.perf_counter()
            yield Record(group.indices[position], group.labels[position], certificate, seconds=now - clock)
            clock = now


@dataclass(frozen=True)
class Predicting:
    """The job of `predict`."""

    scheme: Scheme
    n: int
    alpha: float
    seed: int

    def results(self, group: Group) -> Iterator[Predicted]:
        """The group's predictions, in their order."""
        found = self.scheme.predict(group.pixels, n=self.n, alpha=self.alpha, seed=self.seed, ids=group.indices)
        yield from (Predicted(index, prediction) for index, prediction in zip(group.indices, found, strict=True))


Portion = tuple[list[Any], float]  # results, and the seconds that went into them


def portions(results: Iterable[Any], seconds: float = PORTION_SECONDS) -> Iterator[Portion]:
    """The results in lists, one about every so many seconds; the last one may be empty, and holds the rest's time."""
    begun, waiting = time.perf_counter(), list[Any]()
    for result in results:
        waiting.append(result)
        now = time.perf_counter()
        if now - begun >= seconds:
            yield waiting, now - begun
            begun, waiting = time.perf_counter(), []
    yield waiting, time.perf_counter() - begun


def packed(job: Job, *, pickler: Any = None) -> bytes:
    """The job as bytes for a worker; weights leave the GPU on the way.

    `pickler`: a module like pickle, for a backend that has a better one.
    """
    buffer = io.BytesIO()
    try:
        torch.save(job, buffer, **({"pickle_module": pickler} if pickler else {}))
    except Exception as error:  # pickling runs the models' own code
        raise RequestError(
            f"the system cannot be sent to workers ({type(error).__name__}: {error}); a model must be picklable: "
            "define its class and functions at the top level of a module that workers can import, without lambdas, or "
            "certify without workers"
        ) from error
    return buffer.getvalue()


def unpacked(content: bytes) -> Job:
    """The job of `packed`, which only the driver that started this worker may have written."""
    job: Job = torch.load(io.BytesIO(content), map_location="cpu", weights_only=False)
    return job
