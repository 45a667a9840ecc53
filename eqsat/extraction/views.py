"""Views of views: a layout may cost less as a view of another layout that is itself a view, as where that one is there
for another reason and the view of it moves nothing. Choices are looked for without, and then made better with them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from eqsat.extraction.exact import cost_in
from eqsat.extraction.extract import Alternative, InsertView
from eqsat.extraction.parts import Component, Open, cycles
from eqsat.extraction.rows import AS_USED, MADE, Node, Rows, Step, is_view, rows_with
from eqsat.graph.nodes import ClassId

Edge = tuple[ClassId, ClassId]
"""A view: what it is of, and what it makes."""
MOST_VIEWS = 4
"""So many views behind each other are looked at each by itself."""
MOST_CHAINS = 1_000
"""So many chains of them are followed in one circle."""
ROUNDS = 4
"""How often a choice is looked through for nearer views."""


def rows_with_views(part: Component) -> Rows:
    """The rows of a part with all views of views that a cheapest choice may have.

    A class of a circle has a node as it is made otherwise, one as it is or a view of such, and so on: a view from a
    node with so many views behind it is one with one more, up to the last node, of which those with more are views,
    too. A view of a view is only worth it where it costs less than that of what the other one is a view of.
    """
    steps, circles = _by_circle(part)
    for members, views in circles:
        _add_views(members, views, steps)
    return rows_with({n: some for n, some in steps.items() if some or n[1] == AS_USED}, part)


def has_views_of_views(part: Component) -> bool:
    """Whether a part has views that `rows` leaves out, or pays for twice, and that may be worth it."""
    steps, circles = _by_circle(part)
    for _, views in circles:
        prices, ends = _prices(views)
        first = [(x, c) for x, c in prices if steps[x, MADE]]
        if any(is_view(s) for x in {x for x, _ in first} for s in steps[x, MADE]):
            return True
        if next(_longer(first, prices, ends), None) is not None:
            return True
    return False


Circle = tuple[Sequence[ClassId], Mapping[ClassId, Mapping[ClassId, Step]]]
"""Classes that are views of each other, and the views of each by what they are of."""


def _by_circle(part: Component) -> tuple[dict[Node, list[Step]], list[Circle]]:
    """The steps of what is in no circle, and of what is made otherwise in one; and the circles."""
    circle = cycles({c: [o.needs for o in some] for c, some in part.ways.items()})
    steps: dict[Node, list[Step]] = {}
    inside: dict[int, dict[ClassId, dict[ClassId, Step]]] = {n: {} for n in circle.values()}
    for c, some in part.ways.items():
        own: list[Step] = []
        for o in some:
            there = tuple((n, AS_USED) for n in o.way.needs if n not in o.needs and n in part.ways)
            step = Step(o.way, tuple((n, AS_USED) for n in o.needs), there)
            source = _source(c, o, circle)
            if source is None:
                own.append(step)
                continue
            known = inside[circle[c]].setdefault(c, {})
            if source not in known or step.cost < known[source].cost:
                known[source] = step
        steps[c, AS_USED if c not in circle else MADE] = own
    members: dict[int, list[ClassId]] = {n: [] for n in inside}
    for c, number in circle.items():
        members[number].append(c)
    return steps, [(some, inside[number]) for number, some in members.items()]


def _source(c: ClassId, o: Open, circle: Mapping[ClassId, int]) -> ClassId | None:
    """The class of its own circle that a way views."""
    if c not in circle or not isinstance(o.way.choice, InsertView):
        return None
    return next((n for n in o.needs if circle.get(n) == circle[c]), None)


def with_nearer_views(
    part: Component, chosen: Mapping[ClassId, Alternative], deadline: float
) -> dict[ClassId, Alternative]:
    """A choice in which each class is the cheapest view of those that are there, or of one between, as far as that is
    known at the deadline."""
    circle = cycles({c: [o.needs for o in some] for c, some in part.ways.items()})
    views: dict[ClassId, dict[ClassId, Alternative]] = {}
    for c, some in part.ways.items():
        for o in some:
            source = _source(c, o, circle)
            known = views.setdefault(c, {})
            if source is not None and (source not in known or o.way.cost < known[source].cost):
                known[source] = o.way
    ways, cost = dict(chosen), cost_in(part, chosen)
    for _ in range(ROUNDS):
        before = cost
        there = _needed(part, ways)
        for c in there:
            if time.monotonic() >= deadline:
                return ways
            for source, other in _nearer(c, views, ways, there):
                if c in _needed(part, ways, [source]):
                    continue
                new = {**ways, **other}
                if cost_in(part, new) < cost:
                    ways, cost = new, cost_in(part, new)
        if cost == before:
            break
    return ways


def _nearer(
    c: ClassId,
    views: Mapping[ClassId, Mapping[ClassId, Alternative]],
    ways: Mapping[ClassId, Alternative],
    there: Collection[ClassId],
) -> Iterator[tuple[ClassId, dict[ClassId, Alternative]]]:
    """Ways to have a class that cost less than the one it has, from a class that is there: as a view of it, or with one
    between."""
    for x, way in views.get(c, {}).items():
        if way.cost >= ways[c].cost:
            continue
        if x in there:
            yield x, {c: way}
            continue
        sources = {y: v for y, v in views.get(x, {}).items() if y in there and y != c}
        y = min(sources, key=lambda y: sources[y].cost, default=None)
        if y is not None and sources[y].cost + way.cost < ways[c].cost:
            yield y, {x: sources[y], c: way}


def _needed(
    part: Component, ways: Mapping[ClassId, Alternative], roots: Iterable[ClassId] | None = None
) -> dict[ClassId, None]:
    """The classes of a part that some of it needs under a choice: the roots, unless others are given."""
    found: dict[ClassId, None] = {}
    stack = list(part.roots if roots is None else roots)
    while stack:
        c = stack.pop()
        if c not in found:
            found[c] = None
            stack.extend(n for n in ways[c].needs if n in part.ways)
    return found


def _add_views(
    members: Sequence[ClassId], views: Mapping[ClassId, Mapping[ClassId, Step]], steps: dict[Node, list[Step]]
) -> None:
    """Add the steps of classes that are views of each other."""
    levels, deeper = _levels(views, {c for c in members if steps[c, MADE]})
    last = len(levels)
    starts = {(x, n) for n, some in enumerate((*levels, deeper)) for x, _ in some}
    for c in members:
        had: dict[ClassId, int] = {}
        below = (c, MADE) if steps.get((c, MADE)) else None
        incoming = views.get(c, {})
        for n in range(1, last + 1):
            if (c, n) in starts:
                steps[c, MADE + n] = _at_most(c, incoming, levels[:n], had, below)
                below = (c, MADE + n)
        if below is not None and (c, last) in starts:
            steps[below] += [Step(s.way, ((x, MADE + last),), s.there) for x, s in incoming.items() if (x, c) in deeper]
        steps[c, AS_USED] = _at_most(c, incoming, levels if (c, last) in starts else (*levels, deeper), had, below)


def _at_most(
    c: ClassId, views: Mapping[ClassId, Step], levels: Sequence[set[Edge]], had: dict[ClassId, int], below: Node | None
) -> list[Step]:
    """The steps of a class with so many views at most, beside those of a node with fewer; `had` says from which node of
    each other class it has a view there."""
    found = [] if below is None else [Step(None, (below,))]
    for x, step in views.items():
        most = max((n for n, some in enumerate(levels) if (x, c) in some), default=-1)
        if most > had.get(x, -1):
            found.append(Step(step.way, ((x, MADE + most),), step.there))
            had[x] = most
    return found


def _levels(
    views: Mapping[ClassId, Mapping[ClassId, Step]], made: Collection[ClassId]
) -> tuple[list[set[Edge]], set[Edge]]:
    """The views, from one class to another, that are worth it with none, one, two views behind them, and so on; and
    those that may be with more."""
    prices, ends = _prices(views)
    chains: list[tuple[ClassId, ...]] = [(x, c) for x, c in prices if x in made]
    levels: list[set[Edge]] = []
    deeper = set[Edge]()
    while chains:
        if len(levels) < MOST_VIEWS:
            levels.append({chain[-2:] for chain in chains})
        else:
            deeper.update(chain[-2:] for chain in chains)
        chains = list(islice(_longer(chains, prices, ends), MOST_CHAINS + 1))
        if len(chains) > MOST_CHAINS:
            return levels, set(prices)
    return levels, deeper


def _prices(views: Mapping[ClassId, Mapping[ClassId, Step]]) -> tuple[dict[Edge, int], dict[ClassId, list[ClassId]]]:
    """What each view costs, and what views there are of each class."""
    prices = {(x, c): step.cost for c, some in views.items() for x, step in some.items()}
    ends: dict[ClassId, list[ClassId]] = {}
    for x, c in prices:
        ends.setdefault(x, []).append(c)
    return prices, ends


def _longer(
    chains: Iterable[tuple[ClassId, ...]], prices: Mapping[Edge, int], ends: Mapping[ClassId, Sequence[ClassId]]
) -> Iterator[tuple[ClassId, ...]]:
    """Chains of views with one more behind, which costs less than a view of any class before: those are there, too."""
    for chain in chains:
        *before, last = chain
        for c in ends.get(last, ()):
            price = prices[last, c]
            if c not in before and all(price < prices.get((x, c), price + 1) for x in before):
                yield (*chain, c)
