"""Dual smoothing certifies: what votes on the route and votes on the class prove together. No torch.

# q_j the router's share of route j, a the route that its selection samples picked; L <= q_a and q_j <= U_j bounds
# D_j = (z(L) - z(U_j)) / 2 distance below which route j cannot win; R_j radius of expert j

The expert of the route picked comes first: if it certifies nothing, the router need not be sampled, and once R_a is
known the router only has to show D_j >= R_a. Other experts are asked only where it is not going to, and only for
what is still missing. Sound for any such order: every look of every stage has its level (see `sampling`), every bound
that may be used its part of alpha, so all of them hold together with probability at least 1 - alpha, whatever came
first. Fixed sampling is the case of one look.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from sigmax import radius
from sigmax.bounds import Budget, Spent, table
from sigmax.rules.certificate import Certificate, Outcome, Role, Stage, leading
from sigmax.rules.poll import Poll
from sigmax.rules.procedure import Answer, Counts, Procedure, Question, Rule, asking_as, in_step, votes
from sigmax.rules.routed.parts import ROUTER, AlphaSplit, certify_expert, expert_name, router_request
from sigmax.rules.sampling import Sampling, optimistic_counts
from sigmax.rules.selecting import Picks, leads_clearly, selecting
from sigmax.rules.smoothed import SmoothedRule

Reach = tuple[float, ...]


@dataclass(frozen=True)
class Task:
    """One certification: who votes, what each may spend, and what is asked."""

    router: SmoothedRule
    experts: tuple[Rule, ...]
    split: AlphaSplit
    n0: int
    n: int
    alpha: float
    sampling: Sampling
    # The experts that may vote on the router's samples: how votes come about, not what they prove.
    sharing: frozenset[int] = frozenset()

    def routing(self) -> Generator[Question, Answer, Picks]:
        """The router's selection samples."""
        ask = router_request(self.router, Role.SELECTION, self.n0)
        return (yield from selecting(ask, self.sampling, leads_clearly(self.router.classes)))

    def expert(self, route: int, sampling: Sampling) -> Procedure[Certificate]:
        """The certificate of one expert."""
        alpha = self.split.experts[route]
        return certify_expert(self.experts, route, n0=self.n0, n=self.n, alpha=alpha, sampling=sampling)

    def concluded(
        self, picks: Picks, estimation: Stage | None, found: Mapping[int, Certificate], claim: "Claim"
    ) -> Certificate:
        """The parts' stages and payments under one claim; what was reserved counts as spent, used or not."""
        route = (picks.stage,) if estimation is None else (picks.stage, estimation)
        top = next(iter(found.values()))
        reserved = [
            Spent(expert_name(j), self.split.experts[j])
            for j, expert in enumerate(self.experts)
            if expert.is_random and j not in found and claim.all_experts
        ]
        return Certificate(
            predicted=claim.predicted,
            radius=claim.radius,
            outcome=claim.outcome,
            alpha=self.alpha,
            stages=(*route, *(stage for part in found.values() for stage in part.stages)),
            ledger=(
                Spent(ROUTER, self.split.router),
                *(entry for part in found.values() for entry in part.ledger),
                *reserved,
            ),
            answered_by=top.answered_by,
            limited_by=claim.limited_by,
        )


@dataclass(frozen=True)
class Claim:
    """What a rule concluded from the parts."""

    outcome: Outcome
    limited_by: str | None
    predicted: int | None = None
    radius: float = 0.0
    all_experts: bool = False  # whether each expert has a part of alpha of its own, asked or not


def minimum(task: Task) -> Procedure[Certificate]:
    """The published rule: the route is constant within R_sigma, the expert's class within R_c; the smaller counts.

    Sound at alpha: the route is wrong with probability at most its part; given the route, which other samples
    picked, the expert's certificate is wrong with probability at most its own.
    Source: Sun et al. (2026), Theorem 4.2 and Sec. 5.1.
    """
    picks = yield from task.routing()
    top, _ = leading(picks.counts)
    expert = yield from task.expert(top, task.sampling)
    if expert.predicted is None:
        return task.concluded(picks, None, {top: expert}, Claim(expert.outcome, expert.limited_by))
    sampling = task.sampling.capped(expert.radius)
    own = task.router.estimating(top, n=task.n, alpha=task.split.router, sampling=sampling)
    estimation = replace((yield from asking_as(ROUTER, own)), part=ROUTER)
    if not estimation.radius:
        futile = estimation.n < task.n and task.sampling.targets
        outcome = Outcome.FUTILITY_STOP if futile else Outcome.ROUTER_UNDECIDED
        return task.concluded(picks, estimation, {top: expert}, Claim(outcome, estimation.name))
    limited = estimation.name if estimation.radius < expert.radius else expert.limited_by
    claim = Claim(expert.outcome, limited, expert.predicted, min(estimation.radius, expert.radius))
    return task.concluded(picks, estimation, {top: expert}, claim)


def consensus(task: Task) -> Procedure[Certificate]:
    """Whichever expert is in charge within the radius, it gives the same class there (`radius.routed`).

    Sound at alpha: every bound that may be used has its part of alpha, so by the union bound all of them hold together
    with probability at least 1 - alpha, and then the theorem applies. For that the bounds need not be independent: an
    expert that is `sharing` the router's denoiser and noise votes on the router's samples.
    """
    picks = yield from task.routing()
    top, _ = leading(picks.counts)
    routes, expert = yield from _first(task, top)
    found = {top: expert}
    if expert.predicted is None:
        claim = Claim(expert.outcome, expert.limited_by, all_experts=True)
        return task.concluded(picks, routes.stage, found, claim)
    everyone, sigma = range(len(task.experts)), task.experts[top].largest_noise
    while not task.sampling.enough(routed(routes.reach, found, everyone), routes.possible(found, everyone), sigma):
        limit = routes.possible(found, found)
        j = routes.out_of_reach(found, limit)
        if j is not None:
            found[j] = yield from task.expert(j, task.sampling.capped(limit))
        elif routes.poll.exhausted:
            break
        else:
            yield from routes.more()
    return task.concluded(picks, routes.stage, found, _claimed(task, routes, found, top))


def _first(task: Task, top: int) -> Generator[Question, Answer, tuple["Routes", Certificate]]:
    """The expert of the route picked; on the same samples also the router's estimation, where they share a denoiser.

    The router's votes are not looked at before they are needed. Where they never are, the record is without them, as
    it would be had they not been cast: what is asked, and so what `replay` asks, does not depend on sharing.
    """
    request, looks = Routes(task, top).poll.next_request(), len(task.sampling.schedule(task.n, task.split.router))
    counts: Counts | None = None
    if top in task.sharing and looks == 1:
        counts, expert = yield from in_step(request, task.expert(top, task.sampling))
    else:
        expert = yield from task.expert(top, task.sampling)
    return Routes(task, top, expert.radius, cast=counts), expert


def _claimed(task: Task, routes: "Routes", found: Mapping[int, Certificate], top: int) -> Claim:
    proved = routed(routes.reach, found, range(len(task.experts)))
    limited = routes.limited_by(found)
    if proved:
        return Claim(found[top].outcome, limited, found[top].predicted, proved, all_experts=True)
    futile = task.sampling.targets and not routes.poll.exhausted
    outcome = Outcome.FUTILITY_STOP if futile else Outcome.EXPERTS_DISAGREE
    return Claim(outcome, limited, all_experts=True)


class Routes:
    """What the router's votes so far prove of the distance of every other route, and what all of them may prove."""

    def __init__(self, task: Task, top: int, cap: float = inf, *, cast: Counts | None = None) -> None:
        self.router, self.top = task.router, top
        self.sampling = task.sampling.capped(cap)
        request = router_request(task.router, Role.ESTIMATION, task.n)
        self.poll = Poll(request, self.sampling.schedule(task.n, task.split.router))
        self.reach: Reach = (0.0,) * task.router.classes
        self.optimistic: Reach = tuple(0.0 if j == top else inf for j in range(task.router.classes))
        self._best: Stage | None = None
        self._cast = cast  # votes of the first look that are there already

    @property
    def stage(self) -> Stage | None:
        """The router's estimation with the bounds of the look that proved most; None if it was not asked."""
        if self._best is None:
            return None
        counts = self.poll.counts
        return replace(self._best, counts=counts, n=sum(counts), looks=self.poll.recorded)

    def more(self) -> Generator[Question, Answer, None]:
        """The next look. Each route keeps the best distance of all looks, since all of them hold together."""
        counts, self._cast = self._cast, None
        self.poll.take((yield from votes(self.poll.next_request())) if counts is None else counts)
        reach, stage = distances(self.router, self.top, self.poll.counts, self.poll.level)
        if self._best is None or (stage.radius or 0.0) >= (self._best.radius or 0.0):
            self._best = stage
        self.reach = tuple(map(max, self.reach, reach))
        self.optimistic = self.reach if self.poll.exhausted else tuple(map(max, self.reach, self._all_samples()))

    def _all_samples(self) -> Reach:
        n, level = self.poll.schedule[-1]
        best = optimistic_counts(self.poll.counts, self.top, n, self.sampling.futility)
        return reaches(self.router, self.top, *route_bounds(self.top, best, n, level))

    def possible(self, found: Mapping[int, Certificate], routes: Iterable[int]) -> float:
        """The radius if the router proved all it may and the experts not asked yet agreed as far as needed."""
        return min(self._possible(j, found) for j in routes)

    def _possible(self, j: int, found: Mapping[int, Certificate]) -> float:
        if j not in found:
            return inf
        agrees = found[j].predicted is not None and found[j].predicted == found[self.top].predicted
        return max(self.optimistic[j], found[j].radius) if agrees else self.optimistic[j]

    def out_of_reach(self, found: Mapping[int, Certificate], limit: float) -> int | None:
        """The nearest route not asked yet that the router is unlikely to rule out within the radius `limit`."""
        open_routes = [j for j in range(len(self.optimistic)) if j not in found and self.optimistic[j] < limit]
        return min(open_routes, key=lambda j: (self.optimistic[j], j), default=None)

    def limited_by(self, found: Mapping[int, Certificate]) -> str | None:
        """The stage that limits the radius: an expert that agrees and outreaches the router, or the router."""

        def ends(j: int) -> float:
            agrees = j in found and found[j].predicted == found[self.top].predicted
            return max(self.reach[j], found[j].radius) if agrees else self.reach[j]

        j = min(range(len(self.reach)), key=lambda j: (ends(j), j))
        own = found.get(j)
        if own is not None and own.predicted == found[self.top].predicted and own.radius >= self.reach[j]:
            return own.limited_by
        return None if self.stage is None else self.stage.name


def distances(router: SmoothedRule, top: int, counts: Counts, alpha: float) -> tuple[Reach, Stage]:
    """D_j of every route (0 of `top`), from votes cast after `top` was fixed, and the stage that proves them.

    With probability at least 1 - alpha no route j wins at a distance below D_j. Two routes need one bound, since
    q_j = 1 - q_a; more need one each, and alpha is shared among them.
    """
    n = sum(counts)
    lower, rivals = route_bounds(top, counts, n, alpha)
    reach = reaches(router, top, lower, rivals)
    nearest = min(rivals, key=lambda j: (reach[j], -(rivals[j] or 0.0)))
    return reach, Stage(ROUTER, Role.ESTIMATION, router.sigma, counts, n, alpha, lower, rivals[nearest], reach[nearest])


def route_bounds(top: int, counts: Counts, n: int, alpha: float) -> tuple[float, dict[int, float | None]]:
    """L of the top route, and U of each other where there is more than one; alpha is shared among them all."""
    several = len(counts) > 2
    each = Budget(alpha).share(len(counts)) if several else alpha
    rivals = {j: table.upper(k, n, each) if several else None for j, k in enumerate(counts) if j != top}
    return table.lower(counts[top], n, each), rivals


def reaches(router: SmoothedRule, top: int, lower: float, rivals: Mapping[int, float | None]) -> Reach:
    """D_j of every route from its bounds, in the order of the routes; 0 of `top`."""
    distance = {j: radius.smoothed(router.noise, lower, upper) for j, upper in rivals.items()}
    return tuple(distance.get(j, 0.0) for j in range(len(rivals) + 1))


def routed(reach: Sequence[float], found: Mapping[int, Certificate], routes: Iterable[int]) -> float:
    """The radius if only `routes` existed; an expert that was not asked counts as one that disagrees."""
    considered = [(reach[j], found.get(j)) for j in routes]
    return radius.routed(
        [distance for distance, _ in considered],
        [expert.radius if expert else 0.0 for _, expert in considered],
        [expert.predicted if expert else None for _, expert in considered],
    )
