"""What every scheme has in common: the two public methods, and the checks before any work."""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Literal, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sigmax.engine import rounds
from sigmax.engine.inputs import Noisy
from sigmax.engine.voter import Voter
from sigmax.errors import RequestError
from sigmax.models.content import content_of
from sigmax.noise.addressed import check_uint64
from sigmax.rules.certificate import Certificate, Prediction
from sigmax.rules.checks import check_question
from sigmax.rules.procedure import Procedure, Result, Rule, with_noise
from sigmax.rules.sampling import FIXED, Kind, Sampling, asked
from sigmax.schemes.fields import SigmaField
from sigmax.schemes.sources import batch_of

Inputs = Tensor | npt.NDArray[np.floating]
Domain = tuple[float, float] | Literal["images"] | None
RESOLUTION = 1024  # steps of 32-bit floats within one sigma, at least
MOST_STEPS = 2**22  # of a grid from 0; 32-bit floats hold them exactly, with room to tell a step from what is beside it
OFF_GRID = 2.0**-22  # of an input, relatively: twice what dividing by the grid, or multiplying by 1 / grid, rounds
ROUND_BATCHES = 4  # selection batches a group fills: keeps them full, and the first result near
ADAPTIVE_BATCHES = 16  # first looks' batches a group fills: later rounds have fewer inputs, and should be full too


class Scheme:
    """A rule and the networks that vote for it.

    Subclasses only say which rule and which networks; the methods here are final.
    `domain`: the range the inputs must lie in. "images" (default) asks [0, 1] of anything with three or more
    axes an input and nothing of plain vectors; a pair asks that range of everything; None asks nothing.
    `grid`: where its noise or a part has one, the inputs must be multiples of 1 / grid; `noise_grid`: of its noise.
    """

    def __init__(
        self, rule: Rule, voters: Mapping[str, Voter], *, domain: Domain = "images", grid: int | None = None
    ) -> None:
        self.rule = rule
        self.voters = dict(voters)
        self.domain = domain
        self.grid = self.noise_grid = grid

    @property
    def classes(self) -> int:
        """How many classes the scheme has."""
        return self.rule.classes

    @final
    def certify(
        self,
        x: object,
        *,
        n0: int = 100,
        n: int = 10_000,
        alpha: float = 1e-3,
        seed: int = 0,
        ids: Sequence[int] | None = None,
        sampling: Kind | Sampling = "fixed",
        targets: Sequence[float] | float | None = None,
        tolerance: float | None = None,
    ) -> list[Certificate]:
        """One certificate an input: each is wrong with probability at most `alpha`, whatever the input.

        x: a batch (inputs, ...), pixels in [0, 1] or 8-bit images, certified as 32-bit floats; or images in whatever
        `sigmax.data.as_dataset` takes: (images, labels), a torch Dataset or DataLoader, "digits" ...
        `n0` samples pick the class, `n` others prove the radius; adaptive sampling takes at most so many.
        `seed` and `ids` (default 0, 1, ...) are the address of the noise, together with the networks' weights and the
        input itself: an input called by the same id gets the same noise in any batch, order or subset.
        `sampling="adaptive"` stops as soon as more samples cannot change what is asked, and never takes more than n:
        the radius itself; or only which of the radii `targets` hold; or the radius up to `tolerance` times sigma.
        """
        question = asked(sampling, targets, tolerance)
        self.check_question(n0=n0, n=n, alpha=alpha, sampling=question)
        seed = check_uint64("seed", seed)
        x = self.check(batch_of(x, self.classes))
        ids = check_ids(ids, len(x))
        found: dict[int, Certificate] = {}
        stated = {"n0": int(n0), "n": int(n), "norm": self.rule.norm, **question.describe()}
        size, weights = self.group(n0, question), self.weights()
        for first in range(0, len(x), size):
            part = slice(first, first + size)
            noisy = Noisy(x[part], ids[part], seed, weights)
            procedures = self._procedures(
                lambda: self.rule.certifying(n0=n0, n=n, alpha=alpha, sampling=question), noisy
            )
            results = rounds.run(procedures, noisy, self.voters, together=True)
            for position, certificate in self.concluded(noisy.x, results):
                found[first + position] = replace(certificate, asked=stated)
        return [found[i] for i in range(len(x))]

    @final
    def predict(
        self,
        x: object,
        *,
        n: int = 1_000,
        alpha: float = 1e-3,
        seed: int | None = None,
        ids: Sequence[int] | None = None,
    ) -> list[Prediction]:
        """One prediction an input: a returned class is not the smoothed class with probability at most `alpha`.

        x: as for `certify`.
        Without a seed a fresh secret one is sampled: an attacker who knew the noise could aim at it.
        """
        self.rule.check_predict(n=n, alpha=alpha)
        seed = check_uint64("seed", secrets.randbits(64) if seed is None else seed)
        x = self.check(batch_of(x, self.classes))
        noisy = Noisy(x, check_ids(ids, len(x)), seed)
        procedures = self._procedures(lambda: self.rule.predicting(n=n, alpha=alpha), noisy)
        found = dict(self.concluded(x, rounds.run(procedures, noisy, self.voters, together=True)))
        return [found[i] for i in range(len(x))]

    @final
    def certifications(
        self,
        x: Inputs,
        *,
        n0: int,
        n: int,
        alpha: float,
        seed: int,
        ids: Sequence[int],
        weights: str | None = None,
        sampling: Sampling = FIXED,
        known: rounds.Recorded | None = None,
    ) -> Iterator[tuple[int, Certificate]]:
        """Certificates of one group as they are reached, with their positions in `x`.

        `weights`: what `weights()` says, which the noise is addressed by; a run of many groups asks once.
        `known` holds the recorded stages of positions already certified: they are not voted on again, and the
        others get the votes they would have got in an uninterrupted run.
        """
        self.check_question(n0=n0, n=n, alpha=alpha, sampling=sampling)
        x = self.check(x, unchanged=weights is not None)
        noisy = Noisy(x, check_ids(ids, len(x)), check_uint64("seed", seed), weights or self.weights())
        procedures = self._procedures(
            lambda: self.rule.certifying(n0=n0, n=n, alpha=alpha, sampling=sampling), noisy, known
        )
        yield from self.concluded(noisy.x, rounds.run(procedures, noisy, self.voters, known))

    def _procedures(
        self, begin: Callable[[], Procedure[Result]], noisy: Noisy, known: rounds.Recorded | None = None
    ) -> list[Procedure[Result]]:
        """One procedure an input, given the input's own noise where the scheme has such; as recorded, if it was."""
        procedures = [begin() for _ in noisy.ids]
        known = known or {}
        new = [i for i in range(len(procedures)) if i not in known]
        found = self.own_noise(noisy.x[new], [noisy.ids[i] for i in new], noisy.seed) if new else {}
        noise = {i: {stage: values[place] for stage, values in found.items()} for place, i in enumerate(new)}
        noise |= {i: {stage.name: stage.sigma for stage in stages if not stage.n} for i, stages in known.items()}
        return [with_noise(procedure, noise[i]) if noise[i] else procedure for i, procedure in enumerate(procedures)]

    def own_noise(self, x: Tensor, ids: Sequence[int], seed: int) -> Mapping[str, Sequence[float]]:
        """The noise of each input by itself, under the stages that ask for it; nothing where all have the same."""
        return {}

    def concluded(self, x: Tensor, results: Iterator[tuple[int, Result]]) -> Iterator[tuple[int, Result]]:
        """What follows from the procedures' results; a scheme with a memory puts them in order and settles them."""
        return results

    def fresh(self) -> "Scheme":
        """The scheme as it was built, without what it remembers of inputs."""
        return self

    def recall(self, x: Tensor, certificate: Certificate) -> None:
        """Take up a certificate of an earlier attempt at the same run."""

    @property
    def fields(self) -> Mapping[str, SigmaField]:
        """The fields that noise comes from, by their places in the scheme, such as `expert-0/field`."""
        return {}

    @final
    def check_question(self, *, n0: int, n: int, alpha: float, sampling: Sampling = FIXED) -> None:
        """Raise unless these samples could ever certify, and reach at least one of the targets."""
        check_question(self.rule, n0=n0, n=n, alpha=alpha, sampling=sampling)

    @final
    def group(self, n0: int, sampling: Sampling = FIXED) -> int:
        """How many inputs to certify together so that batches are full at the smallest number of samples asked.

        No more than fit: one input more would cost a batch of its own.
        """
        voting = [voter for voter in self.voters.values() if voter.votes] or list(self.voters.values())
        largest = max(voter.batch for voter in voting)
        if sampling.kind == "fixed":
            return max(1, ROUND_BATCHES * largest // max(n0, 1))
        return max(1, ADAPTIVE_BATCHES * largest // max(1, min(n0, sampling.first)))

    @final
    def check(self, x: Inputs, *, unchanged: bool = False) -> Tensor:
        """The inputs as float32 on the CPU, after every check that needs no long work.

        `unchanged`: the networks are as they were when last checked, as within a run.
        """
        x = check_inputs(x, self.domain)
        if self.grid is not None:
            x = whole_steps(x, self.grid)
        for name, voter in self.voters.items():
            if voter.votes:
                check_resolution(x, self.sigma_of(name))
            voter.check(x, self.sigma_of(name), unchanged=unchanged)
        return x

    def sigma_of(self, network: str) -> float:
        """The noise a network is used with (what a network that takes sigma is tried with)."""
        raise NotImplementedError

    @final
    def weights(self) -> str:
        """32 hex digits of the networks' weights, which the noise of certificates is addressed by."""
        return content_of(voter.model for voter in self.voters.values())

    @final
    def save(self, folder: str | Path, *, store: Literal["fp32", "bf16"] = "fp32") -> Path:
        """Write the scheme and its networks as one folder that `sigmax.load` reads back.

        `store="bf16"` takes half the room and rounds the weights: what is read back is the rounded system.
        """
        systems = import_module("sigmax.systems")  # a layer above: folders know schemes, schemes know no files
        written: Path = systems.save(self, folder, store=store)
        return written


def expect_scheme(value: object, what: str | None = None) -> Scheme:
    """The scheme, if it is one; `what` is what the caller takes it for."""
    if isinstance(value, Scheme):
        return value
    got = f"the class {value.__name__}, not an object of it" if isinstance(value, type) else type(value).__name__
    if isinstance(value, str | Path):
        got = f"{str(value)!r}; sx.load reads a system's folder"
    expected = "expected a scheme" if what is None else f"{what} must be a scheme"
    raise RequestError(f"{expected} such as sx.Smoothed(model, sigma=0.5, classes=10); got {got}")


def check_inputs(x: Inputs, domain: Domain) -> Tensor:
    """A batch of finite floats within the domain, as float32 on the CPU."""
    if not isinstance(x, Tensor):
        x = torch.from_numpy(np.ascontiguousarray(x))
    if x.dtype == torch.uint8 and x.ndim >= 4 and domain == "images":
        x = x.to(torch.float32) / 255  # as data sets store images
    if not x.is_floating_point():
        most = "255" if x.dtype == torch.uint8 else "their largest possible value"
        raise RequestError(f"inputs must be floating point, pixels in [0, 1]; got {x.dtype}. Divide by {most}")
    if x.ndim < 2 or x.numel() == 0:
        raise RequestError(
            f"inputs must be a batch (inputs, ...) with at least one input; got shape {tuple(x.shape)}. "
            "Add a batch axis: x[None]"
        )
    x = x.detach().to("cpu", torch.float32).contiguous()
    bad = ~torch.isfinite(x).flatten(1).all(1)
    if bad.any():
        raise RequestError(f"inputs must be finite; input {int(bad.nonzero()[0])} holds NaN or infinity")
    if domain == "images":
        domain = (0.0, 1.0) if x.ndim >= 4 else None
    if domain is not None:
        _check_range(x, *domain)
    return x


def _check_range(x: Tensor, least: float, most: float) -> None:
    outside = ((x < least) | (x > most)).flatten(1).any(1)
    if outside.any():
        i = int(outside.nonzero()[0])
        raise RequestError(
            f"pixels must lie in [{least:g}, {most:g}]; input {i} spans {x[i].min():g} to {x[i].max():g}. "
            "Divide by the largest possible value (255 if they are 8-bit), leave normalisation to the model, or pass "
            "domain=None if these are not pixels"
        )


def whole_steps(x: Tensor, grid: int) -> Tensor:
    """The inputs as the 32-bit floats nearest to k / grid; raises where one is none of these but for its rounding."""
    steps = (x * grid).round_()
    exact = steps / grid
    off = ((x - exact).abs() > OFF_GRID * exact.abs()) | (steps.abs() > MOST_STEPS)
    if off.any():
        i = int(off.flatten(1).any(1).nonzero()[0])
        raise RequestError(
            f"grid={grid} is for inputs that are multiples of 1/{grid}, as 8-bit images divided by 255 are of 1/255; "
            f"input {i} holds {float(x[i][off[i]][0]):.9g}. Give the images as they were stored (uint8 will do), round "
            f"them: (x * {grid}).round() / {grid}, or leave out grid, for noise in floats (Splitting needs one)"
        )
    return exact


def check_resolution(x: Tensor, sigma: float) -> None:
    """Raise where 32-bit floats are too coarse for the noise: rounded away, it would prove what is not so."""
    spacing = float(np.spacing(np.float32(x.abs().max())))
    if sigma < RESOLUTION * spacing:
        raise RequestError(
            f"sigma={sigma:g} is too small beside inputs as large as {x.abs().max():g}: 32-bit floats are "
            f"{spacing:.2g} apart there and would round the noise away. "
            f"Use sigma >= {RESOLUTION * spacing:.2g}, or rescale the inputs"
        )


def refuse_noise(noise: object, scheme: str) -> None:
    """Raise where a scheme whose theorem is of Gaussian noise is given a distribution."""
    if noise is not None:
        raise RequestError(
            f"{scheme} has a theorem for Gaussian noise alone, and gives each input a sigma of its own; leave out "
            f"noise={noise!r}. Smoothed, Dual and Cascade take any noise"
        )


def check_ids(ids: Sequence[int] | None, count: int) -> list[int]:
    """The inputs' ids, one each and all different: equal ids would mean equal noise."""
    if ids is None:
        return list(range(count))
    checked = [check_uint64("an input id", i) for i in ids]
    if len(checked) != count or len(set(checked)) != count:
        raise RequestError(
            f"ids must name each of the {count} inputs differently; got {len(checked)} ids, "
            f"{len(set(checked))} different"
        )
    return checked
