"""Gradient steps on the margins within balls, of many searches in one batch."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from sigmax.engine.voter import voting
from sigmax.jobs.attack.ball import MARGIN, limits
from sigmax.jobs.attack.margins import Margins, margins
from sigmax.schemes.scheme import Scheme

STEP = 2.5  # times radius / steps: the usual length of a gradient step
ROWS = 1024  # noisy copies in a batch, at most: they fill a GPU, and their gradients take little memory
PIECES = 4  # of a batch on a GPU: what is less than half of one is climbed in batches of a quarter


class Climb(NamedTuple):
    """A request for gradient steps in a ball; the answer is where the starts end up, or None without gradients.

    What is found may lie outside by roundings of 32-bit floats.
    """

    x: Tensor
    starts: Tensor  # (k, ...), of which the first is x
    certified: int
    radius: float


def climbed(
    scheme: Scheme, climbs: Sequence[Climb], *, steps: int, samples: int, generator: torch.Generator
) -> list[Tensor]:
    """The answers to the climbs, on the device of the generator, with `samples` noises a point, network and step.

    As many as fill a batch go together; where memory ends, half as many.
    """
    margin = margins(scheme, samples, generator)
    copies = samples * max(len(climb.starts) for climb in climbs)
    size = max(1, min(ROWS, *(voter.batch for voter in scheme.voters.values())) // copies)
    found = list[Tensor]()
    while len(found) < len(climbs):
        left = climbs[len(found) :]
        some = _filled(left, size) if generator.device.type == "cuda" else left[:size]
        try:
            with voting(scheme.voters.values()):
                points = _climbed(margin, some, steps, generator.device, limits(some[0].x, scheme.domain))
        except torch.OutOfMemoryError:
            if size == 1:
                raise
            size = (size + 1) // 2
            torch.cuda.empty_cache()
        else:
            found.extend(torch.split(points.cpu(), [len(climb.starts) for climb in some])[: len(left)])
    return found


def _filled(climbs: Sequence[Climb], size: int) -> Sequence[Climb]:
    """The first climbs, as a batch of one of two sizes; where there are too few, the last one stands several times.

    cuDNN plans the convolutions of every new size of batch, forwards and backwards, which takes longer than the steps.
    """
    size = size if len(climbs) > size // 2 else max(1, size // PIECES)
    return [*climbs[:size], *[climbs[-1]] * (size - len(climbs))]


def _climbed(
    margin: Margins, climbs: Sequence[Climb], steps: int, device: torch.device, domain: tuple[float, float]
) -> Tensor:
    counts = torch.tensor([len(climb.starts) for climb in climbs])
    owner = torch.arange(len(climbs)).repeat_interleave(counts).to(device)
    firsts = (counts.cumsum(0) - counts).to(device)
    certified = torch.tensor([climb.certified for climb in climbs], device=device)
    radius = torch.tensor([climb.radius for climb in climbs], device=device)[owner]
    x = torch.stack([climb.x for climb in climbs]).to(device)[owner]
    points, aims = torch.cat([climb.starts for climb in climbs]).to(device), None
    for _ in range(steps):
        with torch.enable_grad():
            moving = points.detach().requires_grad_()
            heights = margin(moving)
            aims = _aims(heights.detach(), firsts, owner, certified) if aims is None else aims
            (slope,) = torch.autograd.grad(heights.masked_fill(~aims, -math.inf).amax(1).sum(), moving)
        slope = torch.nan_to_num(slope)
        moved = points + wide(STEP * radius / steps / norms(slope), slope) * slope
        away = moved.clamp(*domain) - x
        away = away * wide((radius * (1 - MARGIN) / norms(away)).clamp_max(1.0), away)
        points = (x + away).clamp(*domain)
    return points


def _aims(heights: Tensor, firsts: Tensor, owner: Tensor, certified: Tensor) -> Tensor:
    """Which classes each start aims at: the first at any other, the next at the nearest, the second nearest ...

    `heights`: the margins at the starts. The first one of a climb is its x, where classes are near or far.
    """
    classes = torch.arange(heights.shape[1], device=heights.device)
    others = (classes != certified[:, None])[owner]
    ranked = heights[firsts][owner].masked_fill(~others, -math.inf).argsort(dim=1, descending=True)
    place = torch.arange(len(owner), device=owner.device) - firsts[owner]
    aim = ranked.gather(1, ((place - 1) % (len(classes) - 1))[:, None])
    return torch.where(place[:, None] == 0, others, classes == aim)


def norms(points: Tensor) -> Tensor:
    """The l2 norm of each point; of zero the least that can be divided by."""
    found: Tensor = points.flatten(1).norm(dim=1).clamp_min(1e-30)
    return found


def wide(numbers: Tensor, points: Tensor) -> Tensor:
    """A number a point, in the shape that multiplies points."""
    return numbers.view(-1, *(1,) * (points.ndim - 1))
