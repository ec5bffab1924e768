"""Routers below routers: which experts each chooses among.

A tree is told by its inner routers, each by the places of the experts below it. `[0, 1]` among three experts is

    router ─┬─ inner router ─┬─ expert 0
            │                └─ expert 1
            └─ expert 2
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sigmax.errors import RequestError


@dataclass(frozen=True)
class Node:
    """An expert, or a router with what it chooses among."""

    experts: tuple[int, ...]  # the places of all experts below
    inner: int | None = None  # of an inner router: its number
    routes: tuple["Node", ...] = ()

    @property
    def is_expert(self) -> bool:
        """Whether it is an expert itself."""
        return not self.routes

    def routers(self) -> Iterator["Node"]:
        """All routers, each after those below it."""
        for route in self.routes:
            yield from route.routers()
        if self.routes:
            yield self


def tree(count: int, inner: Sequence[Sequence[int]]) -> Node:
    """The first router over `count` experts, with the inner ones below it; these may hold others told before."""
    nodes = [Node((place,)) for place in range(count)]
    for number, experts in enumerate(inner):
        nodes = _grouped(nodes, number, tuple(experts))
    return Node(tuple(range(count)), routes=tuple(nodes))


def _grouped(nodes: list[Node], number: int, experts: tuple[int, ...]) -> list[Node]:
    """The nodes with those of the experts made one."""
    below = [node for node in nodes if set(node.experts) <= set(experts)]
    found = tuple(place for node in below for place in node.experts)
    neighbours = found == tuple(range(found[0], found[-1] + 1)) if found else False
    if found != experts or not neighbours or not 2 <= len(below) < len(nodes):
        there = ", ".join(str(list(node.experts)) for node in nodes)
        raise RequestError(
            f"inner router {number} must choose among two or more neighbours of {there}, in their order, and not "
            f"among all of them; got experts = {list(experts)}"
        )
    first = nodes.index(below[0])
    return [*nodes[:first], Node(found, number, tuple(below)), *nodes[first + len(below) :]]
