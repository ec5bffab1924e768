"""Searches around several inputs at once: what they ask for is answered in batches that they share."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

import torch
from torch import Tensor

from sigmax.jobs.attack.climb import Climb, climbed
from sigmax.jobs.attack.margins import NoGradientError
from sigmax.jobs.attack.search import Asked, Attack, Found, Points, Search, Searching
from sigmax.schemes.scheme import Scheme

MOST = 128  # searches at once on a GPU; they end together, so a kill loses the work on so many
NUMBERS = 2**19  # of their inputs, at most: each keeps some hundred points


def at_once(scheme: Scheme, numbers: int) -> int:
    """How many searches fill batches, around inputs of so many numbers; a CPU is filled by one."""
    if all(voter.device.type == "cpu" for voter in scheme.voters.values()):
        return 1
    return min(MOST, max(1, NUMBERS // numbers))


@contextmanager
def few_threads(scheme: Scheme) -> Iterator[None]:
    """Within it torch uses one thread of the host, where no network votes on a CPU; afterwards as many as before.

    The host then works on single images alone: its threads would wait for each other longer than they work.
    """
    before = torch.get_num_threads()
    if any(voter.device.type == "cpu" for voter in scheme.voters.values()):
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def searched(
    scheme: Scheme, searches: Iterable[tuple[Search, Tensor]], options: Attack, count: int
) -> Iterator[tuple[Search, Found | None]]:
    """The searches as they end, each with the nearest point that it confirmed; `count` of them go on at once.

    `searches`: each with the inputs of other classes that it starts from. All that want gradient steps climb first, so
    that predictions come together too.
    """
    waiting, device = iter(searches), next(iter(scheme.voters.values())).device
    generator = torch.Generator(device).manual_seed(options.seed)
    running = list[tuple[Search, Searching, Asked]]()
    while True:
        fresh = islice(waiting, count - len(running))
        begun = [(search, search.run(others)) for search, others in fresh]
        running += [(search, steps, next(steps)) for search, steps in begun]
        if not running:
            return
        climbing = [one for one in running if isinstance(one[2], Climb)]
        served = climbing or running
        rest = [one for one in running if isinstance(one[2], Points)] if climbing else []
        since = time.perf_counter()
        replies = _answers(scheme, options, generator, [asked for _, _, asked in served])
        spent = (time.perf_counter() - since) / len(served)
        running = rest
        for (search, steps, _), reply in zip(served, replies, strict=True):
            search.seconds += spent
            try:
                running.append((search, steps, steps.send(reply)))
            except StopIteration as end:
                yield search, end.value


def _answers(
    scheme: Scheme, options: Attack, generator: torch.Generator, asked: list[Asked]
) -> "list[Tensor] | list[None] | list[list[int | None]]":
    """The answers to requests of one kind."""
    climbs = [one for one in asked if isinstance(one, Climb)]
    points = [one.points for one in asked if isinstance(one, Points)]
    if climbs:
        try:
            return climbed(scheme, climbs, steps=options.steps, samples=options.samples, generator=generator)
        except NoGradientError:
            return [None] * len(climbs)
    found = (p.predicted for p in scheme.predict(torch.cat(points), n=options.n, alpha=options.alpha))
    return [list(islice(found, len(some))) for some in points]
