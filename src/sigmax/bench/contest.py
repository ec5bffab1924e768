"""The contest: one system, the same images, n and alpha; votes, seconds and share of the ceiling of each.

The ceiling is what the system's networks reach when nothing but their forward passes run, as the engine runs them.
What is done soon is done again, and the median counts.
"""

import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from sigmax.bench import reference_loop
from sigmax.bench.forward import seconds_per_vote
from sigmax.bench.time_shares import Shares
from sigmax.engine.voter import voting
from sigmax.jobs.certify import arithmetic
from sigmax.rules.certificate import Certificate, joined
from sigmax.rules.procedure import NETWORK
from sigmax.rules.sampling import Sampling
from sigmax.schemes.scheme import Scheme
from sigmax.version import __version__

USUAL_RADII = tuple(0.25 * i for i in range(11))
TOLERANCE = 0.2
WARM_UP = 2  # inputs each contender certifies before the clock runs


@dataclass(frozen=True)
class Row:
    """What one contender did. `ratio`: how many times faster than the reference loop an input is done with."""

    contender: str
    inputs: int
    samples_per_input: float
    votes_per_s: float
    s_per_input: float
    ratio: float
    ceiling_votes_per_s: float  # what forward passes alone would reach
    of_ceiling: float  # votes_per_s as a share of it
    certified: float | None = None  # share of inputs with a certificate, right or wrong; the loop makes none


@dataclass
class Turns:
    """The times that one contender took for the same work, again and again, and what came of it."""

    inputs: int
    votes: Counter[str]  # by network
    seconds: list[float]
    certified: float | None = None

    def row(self, contender: str, slow: float, cost: Mapping[str, float]) -> Row:
        """`slow`: the reference loop's seconds an input; `cost`: a forward pass's seconds a vote of each network."""
        seconds, samples = median(self.seconds), self.votes.total()
        at_best = sum(n * cost[name] for name, n in self.votes.items())
        return Row(
            contender=contender,
            inputs=self.inputs,
            samples_per_input=samples / self.inputs,
            votes_per_s=samples / seconds,
            s_per_input=seconds / self.inputs,
            ratio=slow * self.inputs / seconds,
            ceiling_votes_per_s=samples / at_best,
            of_ceiling=at_best / seconds,
            certified=self.certified,
        )


@dataclass(frozen=True)
class Conditions:
    """What all contenders are asked."""

    n0: int
    n: int
    alpha: float
    radius: float  # the one radius that adaptive sampling is asked about
    reference_inputs: int  # the reference loop is slow and its speed the same for every input, so it gets fewer
    seconds: float  # a contender that is done sooner does it again, for so long


def contest(scheme: Scheme, rival: Scheme, x: Tensor, asked: Conditions) -> Iterator[Row]:
    """One row a contender, as soon as it is known. `rival` holds the same networks as the reference loop runs them.

    The loop comes first: the engine makes the C library keep memory (`keep_freed_memory`), which speeds up whatever
    follows in the process, and those who run the loop do not have that.
    """
    loop = _repeated(partial(_reference, rival, x[: asked.reference_inputs], asked), asked.seconds)
    slow = median(loop.seconds) / loop.inputs
    scheme.check(x)
    cost = forward_seconds(scheme, x)
    yield loop.row("reference loop", slow, cost)
    for name, sampling in _samplings(scheme, asked):
        yield _repeated(partial(_engine, scheme, x, asked, sampling), asked.seconds).row(name, slow, cost)


def _repeated(work: Callable[[], Turns], least: float) -> Turns:
    begun, turns = time.perf_counter(), work()
    while time.perf_counter() - begun < least:
        turns.seconds += work().seconds
    return turns


def _samplings(scheme: Scheme, asked: Conditions) -> Iterator[tuple[str, Sampling]]:
    yield "fixed", Sampling()
    yield "adaptive", Sampling("adaptive")
    yield f"adaptive, to {TOLERANCE:g} sigma", Sampling("adaptive", tolerance=TOLERANCE)
    if asked.radius <= scheme.rule.largest_radius(n=asked.n, alpha=asked.alpha):
        yield f"adaptive, radius {asked.radius:g}?", Sampling("adaptive", targets=(asked.radius,))
    yield "adaptive, the 11 radii?", Sampling("adaptive", targets=USUAL_RADII)


def _reference(rival: Scheme, x: Tensor, asked: Conditions) -> Turns:
    for voter in rival.voters.values():
        if isinstance(voter.model, torch.nn.Module):
            voter.lay_out(torch.contiguous_format)
    there = x.to(main_device(rival)[0])
    votes: reference_loop.Votes = Counter()
    with voting(rival.voters.values()):
        reference_loop.certify(rival, there[0], n0=asked.n0, n=min(asked.n, reference_loop.BATCH))  # warm-up
        begun = time.perf_counter()
        for one in there:
            votes += reference_loop.certify(rival, one, n0=asked.n0, n=asked.n)[1]
        return Turns(len(x), votes, [time.perf_counter() - begun])


def _engine(scheme: Scheme, x: Tensor, asked: Conditions, sampling: Sampling) -> Turns:
    options: Mapping[str, Any] = {"n0": asked.n0, "n": asked.n, "alpha": asked.alpha, "sampling": sampling}
    scheme.fresh().certify(x[:WARM_UP], **options)
    fresh, begun = scheme.fresh(), time.perf_counter()
    found = fresh.certify(x, **options)
    seconds, votes = time.perf_counter() - begun, Counter[str]()
    for certificate in found:
        votes += _votes(certificate)
    return Turns(len(x), votes, [seconds], sum(c.predicted is not None for c in found) / len(x))


def forward_seconds(scheme: Scheme, x: Tensor) -> dict[str, float]:
    """Seconds a vote of each network, forward passes alone; one that has several names is timed once a sigma."""
    known: dict[tuple[int, float], float] = {}
    for name, voter in scheme.voters.items():
        key = id(voter), scheme.sigma_of(name)
        known[key] = known.get(key) or seconds_per_vote(voter, x, key[1])
    return {name: known[id(voter), scheme.sigma_of(name)] for name, voter in scheme.voters.items()}


def _votes(certificate: Certificate) -> Counter[str]:
    """The votes behind a certificate: the stages of a part are voted on by its network."""
    votes = Counter[str]()
    for stage in certificate.stages:
        if stage.n:
            votes[joined(stage.part, NETWORK)] += stage.n
    return votes


def main_device(scheme: Scheme) -> tuple[torch.device, torch.dtype]:
    """Where and in which precision the largest network votes."""
    voter = max(scheme.voters.values(), key=lambda v: sum(p.numel() for p in _parameters(v.model)))
    return voter.device, voter.dtype


def _parameters(model: object) -> Sequence[Tensor]:
    return list(model.parameters()) if isinstance(model, torch.nn.Module) else []


def as_json(
    scheme: Scheme, asked: Conditions, rows: Sequence[Row], what: str, shares: Mapping[str, Shares] | None = None
) -> dict[str, Any]:
    """The run as plain data: the request, the machine and the rows; `shares`: what `time_shares` found."""
    device, _ = main_device(scheme)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu"
    return {
        "kind": "sigmax bench",
        "system": what,
        "rule": dict(scheme.rule.describe()),
        "asked": asdict(asked),
        "machine": {"device": name, "threads": torch.get_num_threads(), "torch": torch.__version__},
        "arithmetic": arithmetic(scheme),
        "batch": {name: voter.batch for name, voter in scheme.voters.items()},
        "sigmax": __version__,
        **({"time_shares": shares} if shares else {}),
        "rows": [asdict(row) for row in rows],
    }
