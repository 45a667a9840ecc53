"""The cheapest node of each class, cheapest classes first: each node is looked at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, TypeVar

Node = TypeVar("Node")
Cost = TypeVar("Cost")


def least(
    nodes: Mapping[Any, Sequence[Node]],
    parts_of: Callable[[Node], Sequence[Any]],
    cost: Callable[[Node, Sequence[Any]], Cost],
) -> dict[Any, tuple[Cost, Node]]:
    """For each class that has one, its cheapest node with its cost; of equal ones the first. Nothing may cost less than
    a part of it, by `cost`: of a node, and of its parts.

    >>> nodes = {"a": ["fg", "b"], "b": ["a", "f"], "f": [""], "g": [""], "x": ["x"]}
    >>> least(nodes, tuple, lambda node, parts: 1 + sum(parts))
    {'f': (1, ''), 'g': (1, ''), 'b': (2, 'f'), 'a': (3, 'fg')}
    """
    users: defaultdict[Any, list[int]] = defaultdict(list)
    numbered: list[tuple[Any, Node]] = []
    waiting: list[int] = []
    ready: list[tuple[Cost, int]] = []
    best: dict[Any, tuple[Cost, Node]] = {}

    def found(number: int) -> None:
        node = numbered[number][1]
        heappush(ready, (cost(node, [best[p][0] for p in parts_of(node)]), number))

    for name, own in nodes.items():
        for node in own:
            parts = set(parts_of(node))
            for part in parts:
                users[part].append(len(numbered))
            numbered.append((name, node))
            waiting.append(len(parts))
    for number, left in enumerate(waiting):
        if not left:
            found(number)
    while ready:
        price, number = heappop(ready)
        name, node = numbered[number]
        if name in best:
            continue
        best[name] = (price, node)
        for user in users[name]:
            waiting[user] -= 1
            if not waiting[user]:
                found(user)
    return best
