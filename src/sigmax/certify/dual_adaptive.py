"""Dual smoothing certifies and draws no vote that cannot matter. No torch.

# D_j distance below which route j cannot win, R_j radius of expert j, a the route picked; see `dual_certifying`

The expert in charge comes first: if it certifies nothing, the router need not be asked, and once R_a is known the
router only has to show D_j >= R_a. Other experts are asked only where it is not going to, and only for what is
still missing. Sound for any such order: every look of every stage has its level (see `sampling`), every bound that
may be used its grant, so all of them hold together with probability at least 1 - alpha, whatever came first.
"""

from collections.abc import Generator, Iterable, Mapping
from dataclasses import replace
from math import inf

from sigmax.bounds import Spent
from sigmax.certify.dual_certifying import Experts, distances, reaches, route_bounds, routed, whole
from sigmax.certify.dual_parts import ROUTER, Grants, ask_router, certify_expert, expert_name
from sigmax.certify.procedure import Answer, Counts, Procedure, Question, asking_as, prefixed, votes
from sigmax.certify.sampling import Poll, Sampling, hopeful
from sigmax.certify.smoothed_rule import SmoothedRule
from sigmax.records.certificate import Certificate, Outcome, Stage, leading

Reach = tuple[float, ...]


def minimum(
    router: SmoothedRule, experts: Experts, grants: Grants, *, n0: int, n: int, alpha: float, sampling: Sampling
) -> Procedure[Certificate]:
    """The published rule; the router is sampled until its radius no longer limits, or will not cease to."""
    for_router, for_expert = grants
    picks = yield from votes(ask_router(router, "selection", n0))
    top, _ = leading(picks)
    expert = yield from certify_expert(experts, top, n0=n0, n=n, alpha=for_expert[top], sampling=sampling)
    if expert.predicted is None:
        return whole(alpha, [_route(router, picks, None, for_router), expert], expert.outcome)
    estimation = yield from asking_as(
        ROUTER, router.estimating(top, n=n, alpha=for_router, sampling=sampling.capped(expert.radius))
    )
    estimation = replace(estimation, name=prefixed(ROUTER, estimation.name))
    parts = [_route(router, picks, estimation, for_router), expert]
    if not estimation.radius:
        given_up = estimation.n < n and sampling.targets
        return whole(alpha, parts, Outcome.GIVEN_UP if given_up else Outcome.ROUTER_UNDECIDED)
    return whole(alpha, parts, expert.outcome, expert.predicted, min(estimation.radius, expert.radius))


def consensus(
    router: SmoothedRule, experts: Experts, grants: Grants, *, n0: int, n: int, alpha: float, sampling: Sampling
) -> Procedure[Certificate]:
    """Whichever expert is in charge within the radius, it gives the same class there (`radius.routed`)."""
    for_router, for_expert = grants
    picks = yield from votes(ask_router(router, "selection", n0))
    top, _ = leading(picks)
    found = {top: (yield from certify_expert(experts, top, n0=n0, n=n, alpha=for_expert[top], sampling=sampling))}
    routes = Routes(router, top, n=n, alpha=for_router, sampling=sampling.capped(found[top].radius))
    sigma = experts[top].largest_noise
    while not sampling.enough(
        routed(routes.reach, found, range(len(experts))), routes.possible(found, range(len(experts))), sigma
    ):
        limit = routes.possible(found, found)
        j = routes.out_of_hope(found, limit)
        if j is not None:
            asked = sampling.capped(limit)
            found[j] = yield from certify_expert(experts, j, n0=n0, n=n, alpha=for_expert[j], sampling=asked)
        elif routes.exhausted:
            break
        else:
            yield from routes.more()
    proved = routed(routes.reach, found, range(len(experts)))
    unused = [
        Spent(expert_name(j), for_expert[j]) for j, expert in enumerate(experts) if expert.pays and j not in found
    ]
    outcome, predicted = found[top].outcome, found[top].predicted
    if predicted is not None and not proved:
        given_up = sampling.targets and not routes.exhausted
        outcome, predicted = Outcome.GIVEN_UP if given_up else Outcome.EXPERTS_DISAGREE, None
    parts = [_route(router, picks, routes.stage, for_router), *found.values()]
    return whole(alpha, parts, outcome, predicted, proved, unused=unused)


class Routes:
    """What the router's votes so far prove of the distance of every other route, and what all of them may prove."""

    def __init__(self, router: SmoothedRule, top: int, *, n: int, alpha: float, sampling: Sampling) -> None:
        self.router = router
        self.top = top
        self.sampling = sampling
        self.poll = Poll(ask_router(router, "estimation", n), sampling.schedule(n, alpha))
        self.reach: Reach = (0.0,) * router.classes
        self.hope: Reach = tuple(0.0 if j == top else inf for j in range(router.classes))
        self._best: Stage | None = None

    @property
    def exhausted(self) -> bool:
        """Whether the router has cast all its votes."""
        return self.poll.exhausted

    @property
    def stage(self) -> Stage | None:
        """The router's estimation with the bounds of the look that proved most; None if it was not asked."""
        if self._best is None:
            return None
        counts = self.poll.counts
        return replace(self._best, counts=counts, n=sum(counts), looks=self.poll.recorded)

    def more(self) -> Generator[Question, Answer, None]:
        """The next look. Each route keeps the best distance of all looks, since all of them hold together."""
        yield from self.poll.more()
        reach, stage = distances(self.router, self.top, self.poll.counts, self.poll.level)
        if self._best is None or (stage.radius or 0.0) >= (self._best.radius or 0.0):
            self._best = stage
        self.reach = tuple(map(max, self.reach, reach))
        self.hope = self.reach if self.exhausted else tuple(map(max, self.reach, self._hoped()))

    def _hoped(self) -> Reach:
        n, level = self.poll.schedule[-1]
        best = hopeful(self.poll.counts, self.top, n, self.sampling.doubt)
        return reaches(self.router, self.top, *route_bounds(self.top, best, n, level))

    def possible(self, found: Mapping[int, Certificate], routes: Iterable[int]) -> float:
        """The radius if the router proved all it may and the experts not asked yet agreed as far as needed."""
        return min(self._possible(j, found) for j in routes)

    def _possible(self, j: int, found: Mapping[int, Certificate]) -> float:
        if j not in found:
            return inf
        agrees = found[j].predicted is not None and found[j].predicted == found[self.top].predicted
        return max(self.hope[j], found[j].radius) if agrees else self.hope[j]

    def out_of_hope(self, found: Mapping[int, Certificate], limit: float) -> int | None:
        """The nearest route not asked yet that the router will hardly keep out of the radius `limit`."""
        open_routes = [j for j in range(len(self.hope)) if j not in found and self.hope[j] < limit]
        return min(open_routes, key=lambda j: (self.hope[j], j), default=None)


def _route(router: SmoothedRule, picks: Counts, estimation: Stage | None, alpha: float) -> Certificate:
    """The router's part of the certificate; its grant counts as spent, asked or not."""
    selection = Stage(prefixed(ROUTER, "selection"), router.sigma, picks, sum(picks))
    stages = (selection,) if estimation is None else (selection, estimation)
    return Certificate(None, 0.0, Outcome.CERTIFIED, alpha, stages, (Spent(ROUTER, alpha),))
