"""The search for the nearest point at which a scheme answers another class than the certified one.

1. Gradient steps on the margins (`margins`) in the certified ball, from several starts; random directions of its edge.
2. The same in growing balls, until the answer changes or the nearest input of another class is as near.
3. Bisection, by predictions alone, from the points found and from inputs certified as other classes towards the input;
   then gradient steps in balls between the certified one and the nearest point found.
4. A random walk along the boundary, by predictions alone: sideways, then nearer (Brendel et al. 2018).

Every point is a 32-bit input of the scheme's domain, and of its grid if it has one. Predictions of the search may be
wrong by chance, and the nearest of many are the likeliest to be; so `Search._confirmed` puts points to new predictions
(see `verdict`).

A search is a generator: it yields what it wants to know, a `Climb` or `Points`, and is sent the answer. So the
searches around many inputs can share batches (`together`).
Source of 1: Madry et al. (2018), PGD; Salman et al. (2019), Sec. 2.2, its expectation over the noise.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sigmax.errors import RequestError
from sigmax.jobs.attack.ball import Space, distance_up, into_ball
from sigmax.jobs.attack.climb import Climb, wide
from sigmax.numbers import is_whole
from sigmax.schemes.scheme import Scheme

GROWTH = 1.5  # of the radius from one ball to the next
BALLS = 10  # that are tried beyond the certified one, at most
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


class Found(NamedTuple):
    """A point at which the scheme answered another class."""

    distance: float  # from the input, rounded up
    point: Tensor
    answer: int
    method: str


class Points(NamedTuple):
    """A request for predictions; the answer is the class of each point, or None where the scheme abstains."""

    points: Tensor


Asked = Climb | Points
Searching = Generator[Asked, Any, "Found | None"]
Trying = Generator[Asked, Any, list[bool]]
Moving = Generator[Asked, Any, None]


@dataclass
class Search:
    """The search around one input `x`, certified as `certified` within `radius`."""

    index: int
    x: Tensor
    certified: int
    radius: float
    space: Space
    options: Attack
    found: list[Found] = field(default_factory=list)
    predictions: int = 0
    inside_tests: int = 0  # points of the ball that were put to the test
    gradients: bool = True
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.generator = torch.Generator().manual_seed((self.options.seed * 1_000_003 + self.index) % 2**63)

    def run(self, others: Tensor) -> Searching:
        """The nearest point that is confirmed; `others` (k, ...) are inputs certified as other classes."""
        yield from self._tried(self._random(self.radius), "random direction")
        yield from self._climb(self.radius)
        if not self.found:
            yield from self._beyond(others)
        far = self.rising[: self.options.restarts]
        yield from self._tried(others, "another input")
        far_points = torch.stack([*(found.point for found in far), *others]) if far or len(others) else others
        if len(far_points):
            yield from self._bisect(far_points)
        if self.found:
            yield from self._tighten()
            yield from self._walk()
        return (yield from self._confirmed())

    @property
    def rising(self) -> list[Found]:
        """What was found, the nearest first."""
        return sorted(self.found, key=lambda found: found.distance)

    def _tried(self, points: Tensor, method: str) -> Trying:
        """Whether each of the points is answered as another class; those that are, are kept."""
        if not len(points):
            return []
        answers = yield from self._answers(points)
        changed = [answer not in (None, self.certified) for answer in answers]
        for point, answer, other in zip(points, answers, changed, strict=True):
            if other and answer is not None:
                self.found.append(Found(distance_up(self.x, point), point.clone(), answer, method))
        return changed

    def _confirmed(self) -> Searching:
        """The nearest point found that also withstands predictions which no search chose."""
        rising = self.rising
        spread = rising[TRIED :: max(1, (len(rising) - TRIED) // TRIED)]
        failed = self.radius
        for found in (*rising[:TRIED], *spread):
            if (yield from self._withstands(found)):
                return (yield from self._refined(found, failed)) if found.distance > failed else found
            failed = max(failed, found.distance)
        return None

    def _refined(self, best: Found, failed: float) -> Generator[Asked, Any, Found]:
        """A nearer point of the same direction, beyond what failed, that withstands the same test."""
        for _ in range(REFINED):
            (point,) = into_ball(self.x, best.point[None], (failed + best.distance) / 2, self.space)
            nearer = Found(distance_up(self.x, point), point, best.answer, best.method)
            if (yield from self._withstands(nearer)):
                best = nearer
            else:
                failed = nearer.distance
        return best

    def _withstands(self, found: Found) -> Generator[Asked, Any, bool]:
        self.inside_tests += found.distance < self.radius
        again = found.point.expand(self.options.confirmations, *found.point.shape)
        answers = yield from self._answers(again)  # each has noise of its own
        return all(answer not in (None, self.certified) for answer in answers)

    def _answers(self, points: Tensor) -> Generator[Asked, Any, list[int | None]]:
        self.predictions += len(points)
        answers: list[int | None] = yield Points(points)
        return answers

    def _random(self, radius: float) -> Tensor:
        points = self.x + 2 * radius * self._directions(self.options.restarts)
        return into_ball(self.x, points, radius, self.space)

    def _directions(self, count: int) -> Tensor:
        """Random ones, of length 1."""
        directions = torch.randn(count, *self.x.shape, generator=self.generator)
        return directions / wide(directions.flatten(1).norm(dim=1), directions)

    def _beyond(self, others: Tensor) -> Moving:
        """Growing balls until the answer changes, or the nearest of `others` is no further."""
        nearest = min((distance_up(self.x, other) for other in others), default=float("inf"))
        radius = self.radius
        for _ in range(BALLS):
            radius *= GROWTH
            if self.found or radius >= nearest:
                return
            yield from self._tried(self._random(radius), "random direction")
            yield from self._climb(radius)

    def _climb(self, radius: float) -> Moving:
        """Gradient steps within a ball; where there are no gradients this does nothing."""
        if not self.gradients or not self.options.steps:
            return
        starts = torch.cat([self.x[None], self._random(radius)[1:]])
        points: Tensor | None = yield Climb(self.x, starts, self.certified, radius)
        if points is None:
            self.gradients = False
            return
        yield from self._tried(into_ball(self.x, points, radius, self.space), "gradient")

    def _bisect(self, far: Tensor) -> Moving:
        """From points of another class towards the input, all at once; what abstains counts as not changed."""
        near, away = torch.zeros(len(far)), torch.ones(len(far))
        for _ in range(HALVINGS):
            middle = (near + away) / 2
            points = self.space.nearest(self.x, self.x + wide(middle, far) * (far - self.x))
            changed = torch.tensor((yield from self._tried(points, "bisection")))
            near, away = torch.where(changed, near, middle), torch.where(changed, middle, away)

    def _tighten(self) -> Moving:
        """Gradient steps in the ball half as far beyond the certified one as the nearest point, and so on."""
        least = self.radius
        for _ in range(TIGHTENED if self.gradients else 0):
            most = self.rising[0].distance
            middle = (least + most) / 2
            yield from self._climb(middle)
            least = least if self.rising[0].distance < most else middle

    def _walk(self) -> Moving:
        """Sideways on the sphere around the input, then nearer; both steps shrink while no proposal is answered."""
        best = self.rising[0]
        sideways, nearer = 0.1, 0.02
        for _ in range(self.options.walk):
            away = best.point - self.x
            turned = away + sideways * away.norm() * self._directions(PROPOSALS)
            points = into_ball(self.x, self.x + 2 * turned, (1 - nearer) * best.distance, self.space)
            changed = yield from self._tried(points, "walk")
            best = self.rising[0]
            factor = 1.5 if sum(changed) > PROPOSALS // 4 else 0.7
            sideways, nearer = min(1.0, sideways * factor), min(0.5, nearer * factor)


def nearest_others(x: Tensor, inputs: Tensor, classes: Sequence[int], certified: int, count: int) -> Tensor:
    """Of inputs certified as other classes the nearest to `x`, at most `count`."""
    other = inputs[[label != certified for label in classes]]
    return other[(other - x).flatten(1).norm(dim=1).argsort()[:count]]
