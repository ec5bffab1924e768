"""Which routes a trained router takes on held-out inputs, in words, and a warning where it takes one for nearly all."""

from collections.abc import Mapping, Sequence
from typing import Any

NEARLY_ALL = 0.95  # of the held-out inputs: a route that takes so many has collapsed the router
BEST_FOR = 0.9  # of the inputs: a route that is best for so many may take nearly all


def said_of_routes(found: Mapping[str, Any], routes: Sequence[str]) -> str:
    """What the last check (`Watcher`) showed: a sentence on accuracy, one on radii, one on the shares of the routes."""
    shares = ", ".join(
        f"{name} {taken:.1%} ({best:.1%})"
        for name, taken, best in zip(routes, found["routes"], found["labels"], strict=True)
    )
    return (
        f"Held out, {found['inputs']} inputs: {found['matching']:.1%} sent to their best expert, the route "
        f"certified within {found['radius']:.3f} on average and undecided for {found['abstained']:.1%}. "
        f"By consensus a radius of {found['attained']:.3f}; always the best expert: {found['possible']:.3f}. "
        f"Taken (best): {shares}."
    )


def warning_of_collapse(found: Mapping[str, Any], routes: Sequence[str], advice: str) -> str | None:
    """What is wrong, where one route takes nearly every input though the labels send many elsewhere."""
    taken = max(range(len(routes)), key=lambda route: found["routes"][route])
    share, best = found["routes"][taken], found["labels"][taken]
    if share < NEARLY_ALL or best >= BEST_FOR:
        return None
    return (
        f"the router sends {share:.1%} of the held-out inputs to {routes[taken]}, which is best for {best:.1%} of "
        f"them: the system will be little more than that expert, with less alpha. {advice}"
    )
