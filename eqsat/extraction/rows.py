"""A part as rows: its nodes in an order in which users come before what they need, and the steps to have each."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from eqsat.extraction.extract import Alternative, InsertView
from eqsat.extraction.parts import Component, Open, cycles
from eqsat.graph.nodes import ClassId

Node = tuple[ClassId, int]
"""A class as it is used, as it is made by other means than a view of its equals, or made so that it is at most one
view, two views (MADE + 1, MADE + 2) behind what is made."""
AS_USED, MADE, LAST = 0, 1, 1 << 30
AROUND = 4
"""So many nodes below one tell what it is like: equal for equal blocks, whatever lies under them."""


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


Row = tuple[int, int, Step]
"""The cost of a step, and the nodes that it needs, as bits from the next place on."""


@dataclass(frozen=True)
class Rows:
    """The nodes of a part in order, the steps of each that need later nodes only, and the roots, as bits.

    whole: whether no step is left out because it goes round in circles.
    """

    steps: Mapping[Node, Sequence[Step]]
    order: Sequence[Node]
    table: Sequence[Sequence[Row]]
    start: int
    whole: bool


def places_of(mask: int, first: int) -> Iterator[int]:
    """The places of the bits of a mask, whose first bit is some place."""
    while mask:
        low = mask & -mask
        yield first + low.bit_length() - 1
        mask ^= low


def rows_of(part: Component) -> Rows:
    """The rows of a part."""
    return rows_with(steps_of(part), part)


def rows_with(steps: Mapping[Node, Sequence[Step]], part: Component) -> Rows:
    """The rows of a part with some steps."""
    roots = [(c, AS_USED) for c in part.roots]
    order = _ordered(steps, roots)
    return in_order({node: steps[node] for node in order}, roots, order)


def narrower(rows: Rows, part: Component) -> Rows:
    """The rows of a part, where none goes round in circles, in an order in which few nodes are needed at a time and not
    yet had: each next one brings the fewest new ones."""
    below = {node: list(dict.fromkeys(x for s in rows.steps[node] for x in s.needs)) for node in rows.order}
    above: dict[Node, list[Node]] = {node: [] for node in rows.order}
    for node, some in below.items():
        for x in some:
            above[x].append(node)
    waits, news = {x: len(some) for x, some in above.items()}, {x: len(some) for x, some in below.items()}
    first = {node: n for n, node in enumerate(rows.order)}
    there, order, heap = set[Node](), list[Node](), list[tuple[int, int]]()

    def need(nodes: Iterable[Node]) -> None:
        """Nodes are needed: those above bring fewer new ones."""
        for x in nodes:
            if x not in there:
                there.add(x)
                for user in above[x]:
                    news[user] -= 1
                    if not waits[user]:
                        heapq.heappush(heap, (news[user], first[user]))

    def ready(node: Node) -> None:
        need([node])
        heapq.heappush(heap, (news[node], first[node]))

    done = set[Node]()
    for node, count in waits.items():
        if not count:
            ready(node)
    while heap:
        node = rows.order[heapq.heappop(heap)[1]]
        if node in done:  # it was there with more new ones, too
            continue
        done.add(node)
        order.append(node)
        need(below[node])
        for x in below[node]:
            waits[x] -= 1
            if not waits[x]:
                ready(x)
    return in_order(rows.steps, [(c, AS_USED) for c in part.roots], order)


def in_order(steps: Mapping[Node, Sequence[Step]], roots: Sequence[Node], order: Sequence[Node]) -> Rows:
    """Rows for nodes in an order."""
    place = {node: n for n, node in enumerate(order)}
    whole = True
    table: list[list[Row]] = []
    for n, node in enumerate(order):
        forward = [s for s in steps[node] if all(place[x] > n for x in s.needs)]
        whole = whole and len(forward) == len(steps[node])
        ways = [(s.cost, sum(1 << (place[x] - n - 1) for x in set(s.needs)), s) for s in forward]
        table.append(sorted(ways, key=lambda row: row[:2]))
    start = 0
    for root in set(roots):
        start |= 1 << place[root]
    return Rows(steps, order, table, start, whole)


def steps_of(part: Component) -> dict[Node, list[Step]]:
    """The alternatives between nodes. Layouts of one value are views of each other, which goes round in circles. Here
    views in a circle start from what is made otherwise: those of views are seldom worth it, and in `views`."""
    circle = cycles({c: [o.needs for o in some] for c, some in part.ways.items()})
    made = {c for c in circle if any(not isinstance(o.way.choice, InsertView) for o in part.ways[c])}

    def needed(o: Open, c: ClassId) -> tuple[Node, ...]:
        inside = isinstance(o.way.choice, InsertView) and c in circle
        return tuple((n, MADE if inside and circle.get(n) == circle[c] else AS_USED) for n in o.needs)

    def there(o: Open) -> tuple[Node, ...]:
        return tuple((n, AS_USED) for n in o.way.needs if n not in o.needs and n in part.ways)

    steps: dict[Node, list[Step]] = {}
    for c, some in part.ways.items():
        every = [Step(o.way, needed(o, c), there(o)) for o in some]
        if c not in circle:
            steps[c, AS_USED] = every
        else:
            own = [s for s in every if not is_view(s)]
            views = [s for s in every if is_view(s)]
            steps[c, AS_USED] = [Step(None, ((c, MADE),)), *views] if own else views
            steps[c, MADE] = own or [s for s in views if all(kind == AS_USED or n in made for n, kind in s.needs)]
    return steps


def is_view(step: Step) -> bool:
    return step.way is not None and isinstance(step.way.choice, InsertView)


def _ordered(steps: Mapping[Node, Sequence[Step]], roots: Sequence[Node]) -> list[Node]:
    """All nodes, users before what they need where that is possible, one branch after the other, and of the branches
    below a node the deepest first: what lies under all of them (the stream past the blocks of a network) comes last."""
    below = {node: list(dict.fromkeys(x for s in some for x in (*s.needs, *s.there))) for node, some in steps.items()}
    heights: dict[Node, int] = {}
    for node in _finished(below, roots):
        heights[node] = 1 + max((heights[x] for x in below[node] if x in heights), default=0)
    seen = _seen(steps, list(heights))
    ranks = {node: (height, seen[node]) for node, height in heights.items()}
    ranked = {node: sorted(some, key=ranks.__getitem__) for node, some in below.items() if node in ranks}
    return _finished(ranked, sorted(roots, key=ranks.__getitem__))[::-1]


def _seen(steps: Mapping[Node, Sequence[Step]], nodes: Sequence[Node]) -> dict[Node, int]:
    """What each node is like, as a number, by what those are like that its steps need, in whichever order they come."""
    place = {node: n for n, node in enumerate(nodes)}
    ways = [[(s.cost, [place[x] for x in s.needs]) for s in steps[node]] for node in nodes]
    seen = [hash(sum(hash((cost, len(needs))) for cost, needs in some)) for some in ways]
    for _ in range(AROUND):
        seen = [
            hash(
                sum(
                    [
                        hash((cost, sum([seen[x] for x in needs]) if len(needs) > 1 else seen[needs[0]]))
                        if needs
                        else cost
                        for cost, needs in some
                    ]
                )
            )
            for some in ways
        ]
    return dict(zip(nodes, seen, strict=True))


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
    for (c, _), step in sorted(chosen.items(), key=lambda item: item[0][1] or LAST):
        if step.way is not None and c not in ways:  # with the fewest views, as others may need it
            ways[c] = step.way
    return ways
