"""The search for the nearest point at which a scheme answers another class than the certified one.

1. Gradient steps on the margins (`margins`) in the certified ball, from several starts; random directions of its edge.
2. The same in growing balls, until the answer changes or the nearest input of another class is as near.
3. Bisection, by predictions alone, from the points found and from inputs certified as other classes towards the input;
   then gradient steps in balls between the certified one and the nearest point found.
4. A random walk along the boundary, by predictions alone: sideways, then nearer (Brendel et al. 2018).

Every point is a 32-bit input of the scheme's domain. Predictions of the search may be wrong by chance, and the nearest
of many are the likeliest to be; so `Search.confirmed` puts points to new predictions (see `verdict`).
Source of 1: Madry et al. (2018), PGD; Salman et al. (2019), Sec. 2.2, its expectation over the noise.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sigmax.engine.voter import voting
from sigmax.errors import RequestError
from sigmax.jobs.attack.ball import distance_up, into_ball, limits
from sigmax.jobs.attack.margins import Margins, NoGradientError, margins
from sigmax.numbers import is_whole
from sigmax.schemes.scheme import Scheme

GROWTH = 1.5  # of the radius from one ball to the next
BALLS = 10  # that are tried beyond the certified one, at most
STEP = 2.5  # times radius / steps: the usual length of a gradient step
TIGHTENED = 5  # balls between the certified one and the nearest point
HALVINGS = 8  # of a bisection
PROPOSALS = 8  # of a step of the walk
TRIED = 8  # nearest points that are put to the test one by one; then as many spread over the others
REFINED = 3  # halvings of the way from the last point that failed the test to the first that withstood it


@dataclass(frozen=True)
class Attack:
    """How hard to search, and how predictions are made."""

    steps: int = 20  # gradient steps
    restarts: int = 3  # starts of them, and random directions; the first aims at any class, the others at one each
    samples: int = 16  # noises an expectation is taken over, of every network at every step
    walk: int = 15  # steps along the boundary
    n: int = 1_000  # samples of a prediction
    alpha: float = 1e-3  # of a prediction
    confirmations: int = 3  # predictions with fresh secret seeds that must all answer another class
    seed: int = 0  # of the search; predictions have secret seeds

    def check(self, scheme: Scheme) -> None:
        """Raise unless these options can be searched with."""
        least = {"steps": 0, "restarts": 1, "samples": 1, "walk": 0, "n": 1, "confirmations": 1, "seed": 0}
        for name, low in least.items():
            value = getattr(self, name)
            if not is_whole(value) or value < low:
                raise RequestError(f"{name} must be a whole number of at least {low}; got {value!r}")
        scheme.rule.check_predict(n=self.n, alpha=self.alpha)

    def describe(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


class Found(NamedTuple):
    """A point at which the scheme answered another class."""

    distance: float  # from the input, rounded up
    point: Tensor
    answer: int
    method: str


@dataclass
class Search:
    """The search around one input `x`, certified as `certified` within `radius`."""

    scheme: Scheme
    x: Tensor
    certified: int
    radius: float
    options: Attack
    generator: torch.Generator
    found: list[Found] = field(default_factory=list)
    predictions: int = 0
    inside_tests: int = 0  # points of the ball that were put to the test
    gradients: bool = True

    def run(self, others: Tensor) -> None:
        """Fill `found`; `others` (k, ...) are inputs certified as other classes."""
        self.tried(self._random(self.radius), "random direction")
        self._climb(self.radius)
        if not self.found:
            self._beyond(others)
        far = self.rising[: self.options.restarts]
        self.tried(others, "another input")
        far_points = torch.stack([*(found.point for found in far), *others]) if far or len(others) else others
        if len(far_points):
            self._bisect(far_points)
        if self.found:
            self._tighten()
            self._walk()

    @property
    def rising(self) -> list[Found]:
        """What was found, the nearest first."""
        return sorted(self.found, key=lambda found: found.distance)

    def tried(self, points: Tensor, method: str) -> list[bool]:
        """Whether each of the points is answered as another class; those that are, are kept."""
        if not len(points):
            return []
        answers = self._answers(points)
        changed = [answer not in (None, self.certified) for answer in answers]
        for point, answer, other in zip(points, answers, changed, strict=True):
            if other and answer is not None:
                self.found.append(Found(distance_up(self.x, point), point.clone(), answer, method))
        return changed

    def confirmed(self) -> Found | None:
        """The nearest point found that also withstands predictions which no search chose."""
        rising = self.rising
        spread = rising[TRIED :: max(1, (len(rising) - TRIED) // TRIED)]
        failed = self.radius
        for found in (*rising[:TRIED], *spread):
            if self._withstands(found):
                return self._refined(found, failed) if found.distance > failed else found
            failed = max(failed, found.distance)
        return None

    def _refined(self, best: Found, failed: float) -> Found:
        """A nearer point of the same direction, beyond what failed, that withstands the same test."""
        for _ in range(REFINED):
            (point,) = into_ball(self.x, best.point[None], (failed + best.distance) / 2, self.scheme.domain)
            nearer = Found(distance_up(self.x, point), point, best.answer, best.method)
            if self._withstands(nearer):
                best = nearer
            else:
                failed = nearer.distance
        return best

    def _withstands(self, found: Found) -> bool:
        self.inside_tests += found.distance < self.radius
        again = (self._answers(found.point[None])[0] for _ in range(self.options.confirmations))
        return all(answer not in (None, self.certified) for answer in again)

    def _answers(self, points: Tensor) -> list[int | None]:
        self.predictions += len(points)
        return [p.predicted for p in self.scheme.predict(points, n=self.options.n, alpha=self.options.alpha)]

    def _random(self, radius: float) -> Tensor:
        return into_ball(
            self.x, self.x + 2 * radius * self._directions(self.options.restarts), radius, self.scheme.domain
        )

    def _directions(self, count: int) -> Tensor:
        """Random ones, of length 1."""
        directions = torch.randn(count, *self.x.shape, generator=self.generator)
        return directions / _wide(directions.flatten(1).norm(dim=1), directions)

    def _beyond(self, others: Tensor) -> None:
        """Growing balls until the answer changes, or the nearest of `others` is no further."""
        nearest = min((distance_up(self.x, other) for other in others), default=float("inf"))
        radius = self.radius
        for _ in range(BALLS):
            radius *= GROWTH
            if self.found or radius >= nearest:
                return
            self.tried(self._random(radius), "random direction")
            self._climb(radius)

    def _climb(self, radius: float) -> None:
        """Gradient steps within a ball; where there are no gradients this does nothing."""
        if not self.gradients or not self.options.steps:
            return
        margin = margins(self.scheme, self.options.samples, self.generator)
        try:
            with voting(self.scheme.voters.values()):
                points = self._climbed(margin, radius)
        except NoGradientError:
            self.gradients = False
            return
        self.tried(points, "gradient")

    def _climbed(self, margin: Margins, radius: float) -> Tensor:
        points = torch.cat([self.x[None], self._random(radius)[1:]])
        aims = self._aims(margin)
        for _ in range(self.options.steps):
            with torch.enable_grad():
                moving = points.detach().requires_grad_()
                height = margin(moving).masked_fill(~aims, -torch.inf).amax(1)
                (slope,) = torch.autograd.grad(height.sum(), moving)
            slope = torch.nan_to_num(slope)
            norms = _wide(slope.flatten(1).norm(dim=1), slope).clamp_min(1e-30)
            moved = points + STEP * radius / self.options.steps * slope / norms
            points = into_ball(self.x, moved.clamp(*limits(self.x, self.scheme.domain)), radius, self.scheme.domain)
        return points

    def _aims(self, margin: Margins) -> Tensor:
        """Which classes each start aims at: the first at any other, the next at the nearest, the second nearest ..."""
        with torch.enable_grad():
            near = margin(self.x[None].clone().requires_grad_()).detach()[0]
        near[self.certified] = -torch.inf
        aims = torch.zeros(self.options.restarts, len(near), dtype=torch.bool)
        aims[0] = True
        ranked = near.argsort(descending=True)[:-1].tolist()
        for start in range(1, self.options.restarts):
            aims[start, ranked[(start - 1) % len(ranked)]] = True
        aims[:, self.certified] = False
        return aims

    def _bisect(self, far: Tensor) -> None:
        """From points of another class towards the input, all at once; what abstains counts as not changed."""
        near, away = torch.zeros(len(far)), torch.ones(len(far))
        for _ in range(HALVINGS):
            middle = (near + away) / 2
            points = (self.x + _wide(middle, far) * (far - self.x)).clamp(*limits(self.x, self.scheme.domain))
            changed = torch.tensor(self.tried(points, "bisection"))
            near, away = torch.where(changed, near, middle), torch.where(changed, middle, away)

    def _tighten(self) -> None:
        """Gradient steps in the ball half as far beyond the certified one as the nearest point, and so on."""
        least = self.radius
        for _ in range(TIGHTENED if self.gradients else 0):
            most = self.rising[0].distance
            middle = (least + most) / 2
            self._climb(middle)
            least = least if self.rising[0].distance < most else middle

    def _walk(self) -> None:
        """Sideways on the sphere around the input, then nearer; both steps shrink while no proposal is answered."""
        best = self.rising[0]
        sideways, nearer = 0.1, 0.02
        for _ in range(self.options.walk):
            away = best.point - self.x
            turned = away + sideways * away.norm() * self._directions(PROPOSALS)
            points = into_ball(self.x, self.x + 2 * turned, (1 - nearer) * best.distance, self.scheme.domain)
            changed = self.tried(points, "walk")
            best = self.rising[0]
            factor = 1.5 if sum(changed) > PROPOSALS // 4 else 0.7
            sideways, nearer = min(1.0, sideways * factor), min(0.5, nearer * factor)


def _wide(numbers: Tensor, points: Tensor) -> Tensor:
    """A number a point, in the shape that multiplies points."""
    return numbers.view(-1, *(1,) * (points.ndim - 1))


def nearest_others(x: Tensor, inputs: Tensor, classes: Sequence[int], certified: int, count: int) -> Tensor:
    """Of inputs certified as other classes the nearest to `x`, at most `count`."""
    other = inputs[[label != certified for label in classes]]
    return other[(other - x).flatten(1).norm(dim=1).argsort()[:count]]
