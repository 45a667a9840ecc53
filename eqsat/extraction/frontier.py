"""The cheapest choice in a part, class by class from the roots down. What was chosen so far matters only by which of
the classes below it needs (the frontier), so of all choices with one frontier the cheapest is kept. Blocks in a row
have narrow frontiers: the effort grows with their number. Where frontiers become too many, the best are followed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.extraction.extract import Alternative, Bridge
from eqsat.extraction.parts import Component, Open, cycles
from eqsat.graph.nodes import ClassId

MANY, WIDTH = 60, 400
"""How many frontiers are looked through for those that cannot win, and how many are followed at most."""

DEPTH = 2
"""How many steps are looked down for what adding a node costs."""

Node = tuple[ClassId, bool]
"""A class as it is used (False), or as it is made by other means than a view of its equals (True)."""


@dataclass(frozen=True)
class Step:
    """One way to have a node: the alternative, unless it only passes on to the other node of its class."""

    way: Alternative | None
    needs: tuple[Node, ...]
    there: tuple[Node, ...] = ()
    """What else it needs, which is there in any case."""

    @property
    def cost(self) -> int:
        return 0 if self.way is None else self.way.cost


@dataclass(frozen=True)
class Found:
    """The way chosen for each class of a part, and whether no choice is cheaper."""

    ways: dict[ClassId, Alternative]
    exact: bool


def cheapest_in(part: Component, deadline: float) -> Found | None:
    """The cheapest choice, or a cheap one where there are too many or time is over; None if all are circular."""
    steps = steps_of(part)
    roots = [(c, False) for c in part.roots]
    order = _ordered(steps, roots)
    place = {node: n for n, node in enumerate(order)}
    exact = True
    table: list[list[Row]] = []
    for n, node in enumerate(order):
        rows = [(s.cost, s) for s in steps[node]]
        forward = [(cost, s) for cost, s in rows if all(place[x] > n for x in s.needs)]
        exact = exact and len(forward) == len(rows)
        table.append([(cost, sum(1 << (place[x] - n - 1) for x in set(s.needs)), s) for cost, s in forward])
    start = 0
    for root in set(roots):
        start |= 1 << place[root]
    found, whole = _followed(table, start, _at_most(table, start), deadline)
    if found is None:
        return None
    chosen: dict[Node, Step] = {}
    trail: Any = found
    while trail is not None:
        trail, n, step = trail
        chosen[order[n]] = step
    return Found(by_class(chosen), exact and whole)


Row = tuple[int, int, Step]
"""The cost of a step, and the nodes that it needs, as bits from the next place on."""

States = dict[int, tuple[int, Any]]
"""For each frontier (bits from the next place on) the least cost so far, and the trail of choices that leads there."""


def _at_most(table: Sequence[Sequence[Row]], start: int) -> list[int | None]:
    """What adding a node to a program costs at most, where the roots behind it are there; None: it cannot be had."""
    most: list[int | None] = [None] * len(table)
    for n in range(len(table) - 1, -1, -1):
        for price, needs, _ in table[n]:
            total: int | None = price
            for at in _bits(needs & ~(start >> n + 1)):
                more = most[n + 1 + at]
                total = None if total is None or more is None else total + more
            known = most[n]
            if total is not None and (known is None or total < known):
                most[n] = total
    return most


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _followed(
    table: Sequence[Sequence[Row]], start: int, most: Sequence[int | None], deadline: float
) -> tuple[Any, bool]:
    """The trail of the cheapest choice, (trail before, place, step), and whether all frontiers were followed."""
    states: States = {start: (0, None)}
    whole = True
    for n, ways in enumerate(table):
        after: States = {}
        for mask, (cost, trail) in states.items():
            below = mask >> 1
            if not mask & 1:
                known = after.get(below)
                if known is None or cost < known[0]:
                    after[below] = cost, trail
                continue
            for price, needs, step in ways:
                total, key = cost + price, below | needs
                known = after.get(key)
                if known is None or total < known[0]:
                    after[key] = total, (trail, n, step)
        if len(after) > MANY:
            after = _promising(after, Given(table, start, most, n + 1))
            width = WIDTH if time.monotonic() < deadline else 1
            whole = whole and len(after) <= width
            after = dict(list(after.items())[:width])
        states = after
        if not states:
            return None, False
    return min(states.values(), key=lambda x: x[0])[1], whole


@dataclass(frozen=True)
class Given:
    """What adding a node costs at most where some nodes are there already; bits are counted from `base` on."""

    table: Sequence[Sequence[Row]]
    start: int
    most: Sequence[int | None]
    base: int

    def added(self, at: int, mask: int, depth: int = DEPTH) -> int | None:
        """The cost of one node beside those of a mask: most often it is a view of one of them."""
        n = self.base + at
        least = self.most[n]
        for price, needs, _ in self.table[n] if depth else ():
            total: int | None = price
            for below in _bits(needs & ~(self.start >> n + 1) & ~(mask >> at + 1)):
                if least is not None and total is not None and total >= least:
                    break
                more = self.added(at + 1 + below, mask, depth - 1)
                total = None if total is None or more is None else total + more
            if total is not None and (least is None or total < least):
                least = total
        return least


def _promising(states: States, given: Given) -> States:
    """The states, cheapest first, without those beside which another is no dearer even when all that only it needs is
    added to the program."""
    ranked = sorted(states.items(), key=lambda item: (item[1][0], item[0].bit_count()))
    kept: States = {}
    for mask, state in ranked:
        known: dict[int, int | None] = {}
        for other, (cost, _) in kept.items():
            room = state[0] - cost
            for at in _bits(other & ~mask):
                if at not in known:
                    known[at] = given.added(at, mask)
                more = known[at]
                room = -1 if more is None else room - more
                if room < 0:
                    break
            if room >= 0:
                break
        else:
            kept[mask] = state
    return kept


def steps_of(part: Component) -> dict[Node, list[Step]]:
    """The alternatives between nodes. Layouts of one value are views of each other, which goes round in circles; a view
    of what is itself a view of the same is never needed, so in a circle views start from what is made otherwise."""
    circle = cycles({c: [o.needs for o in some] for c, some in part.ways.items()})
    made = {c for c in circle if any(not isinstance(o.way.choice, Bridge) for o in part.ways[c])}

    def needed(o: Open, c: ClassId) -> tuple[Node, ...]:
        inside = isinstance(o.way.choice, Bridge) and c in circle
        return tuple((n, inside and circle.get(n) == circle[c]) for n in o.needs)

    def there(o: Open) -> tuple[Node, ...]:
        return tuple((n, False) for n in o.way.needs if n not in o.needs and n in part.ways)

    steps: dict[Node, list[Step]] = {}
    for c, some in part.ways.items():
        every = [Step(o.way, needed(o, c), there(o)) for o in some]
        if c not in circle:
            steps[c, False] = every
        else:
            own = [s for s in every if s.way is not None and not isinstance(s.way.choice, Bridge)]
            views = [s for s in every if s not in own]
            steps[c, False] = [Step(None, ((c, True),)), *views] if own else views
            steps[c, True] = own or [s for s in views if all(not inside or n in made for n, inside in s.needs)]
    return steps


def _ordered(steps: Mapping[Node, Sequence[Step]], roots: Sequence[Node]) -> list[Node]:
    """All nodes, users before what they need where that is possible, one branch after the other, and of the branches
    below a node the deepest first: what lies under all of them (the stream past the blocks of a network) comes last."""
    below = {node: list(dict.fromkeys(x for s in some for x in (*s.needs, *s.there))) for node, some in steps.items()}
    height: dict[Node, int] = {}
    for node in _finished(below, roots):
        height[node] = 1 + max((height.get(x, 0) for x in below[node]), default=0)
    ranked = {node: sorted(some, key=lambda x: height[x]) for node, some in below.items() if node in height}
    return _finished(ranked, sorted(roots, key=lambda x: height[x]))[::-1]


def _finished(below: Mapping[Node, Sequence[Node]], roots: Sequence[Node]) -> list[Node]:
    """All nodes in the order in which a walk in depth leaves them."""
    done: list[Node] = []
    seen: set[Node] = set()
    for root in roots:
        work = [] if root in seen else [(root, iter(below[root]))]
        seen.add(root)
        while work:
            node, rest = work[-1]
            for x in rest:
                if x not in seen:
                    seen.add(x)
                    work.append((x, iter(below[x])))
                    break
            else:
                work.pop()
                done.append(node)
    return done


def by_class(chosen: Mapping[Node, Step]) -> dict[ClassId, Alternative]:
    """The way of each class: where it is made otherwise, too, that serves all."""
    ways: dict[ClassId, Alternative] = {}
    for (c, made), step in chosen.items():
        if step.way is not None and (made or c not in ways):
            ways[c] = step.way
    return ways
