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


class Climb(NamedTuple):
    """A request for gradient steps in a ball; the answer is where the starts end up, or None without gradients.

    What is found may lie outside by roundings of 32-bit floats.
    """

    x: Tensor
    starts: Tensor  # (k, ...)
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
    size = max(1, min(voter.batch for voter in scheme.voters.values()) // copies)
    found = list[Tensor]()
    while len(found) < len(climbs):
        some = climbs[len(found) : len(found) + size]
        try:
            with voting(scheme.voters.values()):
                points = _climbed(scheme, margin, some, steps, generator.device)
        except torch.OutOfMemoryError:
            if size == 1:
                raise
            size = (size + 1) // 2
            torch.cuda.empty_cache()
        else:
            found.extend(torch.split(points.cpu(), [len(climb.starts) for climb in some]))
    return found


def _climbed(scheme: Scheme, margin: Margins, climbs: Sequence[Climb], steps: int, device: torch.device) -> Tensor:
    own = torch.stack([climb.x for climb in climbs]).to(device)
    owner = torch.tensor([i for i, climb in enumerate(climbs) for _ in climb.starts], device=device)
    aims = _aims(margin, own, climbs).to(device)
    radius = torch.tensor([climb.radius for climb in climbs], device=device)[owner]
    x, points = own[owner], torch.cat([climb.starts for climb in climbs]).to(device)
    least, most = limits(climbs[0].x, scheme.domain)
    for _ in range(steps):
        with torch.enable_grad():
            moving = points.detach().requires_grad_()
            height = margin(moving).masked_fill(~aims, -math.inf).amax(1)
            (slope,) = torch.autograd.grad(height.sum(), moving)
        slope = torch.nan_to_num(slope)
        moved = points + wide(STEP * radius / steps / norms(slope), slope) * slope
        away = moved.clamp(least, most) - x
        away = away * wide((radius * (1 - MARGIN) / norms(away)).clamp_max(1.0), away)
        points = (x + away).clamp(least, most)
    return points


def _aims(margin: Margins, own: Tensor, climbs: Sequence[Climb]) -> Tensor:
    """Which classes each start aims at: the first at any other, the next at the nearest, the second nearest ..."""
    with torch.enable_grad():
        near = margin(own.clone().requires_grad_()).detach().cpu()
    rows = list[Tensor]()
    for climb, margins_there in zip(climbs, near, strict=True):
        others = torch.arange(len(margins_there)) != climb.certified
        ranked = margins_there.masked_fill(~others, -math.inf).argsort(descending=True)[:-1].tolist()
        rows.append(others)
        for start in range(1, len(climb.starts)):
            rows.append(torch.arange(len(others)) == ranked[(start - 1) % len(ranked)])
    return torch.stack(rows)


def norms(points: Tensor) -> Tensor:
    """The l2 norm of each point; of zero the least that can be divided by."""
    found: Tensor = points.flatten(1).norm(dim=1).clamp_min(1e-30)
    return found


def wide(numbers: Tensor, points: Tensor) -> Tensor:
    """A number a point, in the shape that multiplies points."""
    return numbers.view(-1, *(1,) * (points.ndim - 1))
