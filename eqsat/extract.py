"""Choosing a program from the e-graph: shared work is counted once (greedy over the DAG), layouts are bridged by views
that are added here, between what is produced and what is read."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eqsat.ir.flat_facts import inverse
from eqsat.ir.flat_map import FlatMap
from eqsat.ir.flat_ops import compose, compose_parts
from eqsat.universe import Reindex, Universe

ClassId = Any
SCALE = 64  # one byte is 64 units of cost, one more node is 1: bytes decide, then the number of nodes


@dataclass(frozen=True)
class Take:
    """The value is a leaf of the program."""

    leaf: int


@dataclass(frozen=True)
class Spell:
    """The value is output `output` of a form over the operand classes."""

    form: int
    output: int
    operands: tuple[ClassId, ...]


@dataclass(frozen=True)
class Bridge:
    """The value is a view of another class, and then, as one View with that, a view of the view."""

    source: ClassId
    reindex: int
    then: int | None = None


Choice = Take | Spell | Bridge


@dataclass
class Nodes:
    """The e-graph as read back: per class its leaves, views and forms."""

    leaves: dict[ClassId, int] = field(default_factory=dict[ClassId, int])
    views: dict[ClassId, list[tuple[ClassId, int]]] = field(default_factory=dict[ClassId, list[tuple[ClassId, int]]])
    forms: dict[ClassId, list[Spell]] = field(default_factory=dict[ClassId, list[Spell]])

    def classes(self) -> list[ClassId]:
        return list(dict.fromkeys([*self.leaves, *self.forms, *self.views]))


@dataclass(frozen=True)
class Alternative:
    """One way to have a class: what it costs by itself, and the classes it needs."""

    choice: Choice
    cost: int
    needs: tuple[ClassId, ...]


def alternatives(
    nodes: Nodes,
    universe: Universe,
    view_cost: Callable[[Reindex], int],
    pair_cost: Callable[[Reindex, Reindex], int | None],
    form_cost: Callable[[int], int],
    constant: Callable[[int], bool],
) -> dict[ClassId, list[Alternative]]:
    """Every way to have every class. A view may start from each produced layout of what it views."""
    produced: dict[ClassId, list[tuple[int | None, ClassId]]] = {}
    known = set(nodes.leaves) | set(nodes.forms)
    for c in nodes.classes():
        if c in known or nodes.views.get(c):
            produced.setdefault(c, []).append((None, c))
    for c in nodes.classes():
        for base, m in nodes.views.get(c, ()):
            if c in nodes.forms and c != base and inverse(universe.reindexes[m].map) is not None:
                produced.setdefault(base, []).append((m, c))
    constants = _constant_classes(nodes, constant)
    table: dict[ClassId, list[Alternative]] = {}
    for c in nodes.classes():
        ways: list[Alternative] = []
        if c in nodes.leaves:
            ways.append(Alternative(Take(nodes.leaves[c]), 0, ()))
        for spell in nodes.forms.get(c, ()):
            ways.append(Alternative(spell, form_cost(spell.form), spell.operands))
        for base, view, then in _behind(nodes, universe, c):
            for p, source in produced.get(base, ()):
                if source == c:
                    continue
                if then is None:
                    way = _bridge(universe, source, p, view, view_cost, source in constants)
                else:
                    way = _pair(universe, source, p, view, then, pair_cost, source in constants)
                if way is not None:
                    ways.append(way)
        table[c] = ways
    return table


Behind = tuple[ClassId, Reindex, Reindex | None]  # what is viewed, by what, and by what that is viewed in turn


def _behind(nodes: Nodes, universe: Universe, c: ClassId) -> list[Behind]:
    """What a class is a view of, and what that is a view of, as far as one fill tells the padding."""
    found: dict[Behind, None] = {}
    for base, m in nodes.views.get(c, ()):
        outer = universe.reindexes[m]
        found.setdefault((base, outer, None))
        for below, inner_number in nodes.views.get(base, ()):
            inner = universe.reindexes[inner_number]
            if inner.fill is None or outer.fill is None or inner.fill is outer.fill:
                found.setdefault((below, inner, outer))
            whole = compose_parts(inner.map, outer.map)
            if whole is None or (whole.outer_pads and whole.inner_pads and inner.fill is not outer.fill):
                continue
            fill = outer.fill if whole.outer_pads else inner.fill if whole.inner_pads else None
            found.setdefault((below, Reindex(whole.map, fill, outer.dtype), None))
    return list(found)


def _constant_classes(nodes: Nodes, constant: Callable[[int], bool]) -> set[ClassId]:
    found = {c for c, leaf in nodes.leaves.items() if constant(leaf)}
    while True:
        more = {c for c, views in nodes.views.items() if c not in found and any(base in found for base, _ in views)}
        if not more:
            return found
        found |= more


def _bridge(
    universe: Universe,
    source: ClassId,
    p: int | None,
    view: Reindex,
    view_cost: Callable[[Reindex], int],
    constant: bool,
) -> Alternative | None:
    if p is not None:
        back = inverse(universe.reindexes[p].map)
        through = None if back is None else compose(back, view.map)
        if through is None:
            return None
        view = Reindex(through, view.fill, view.dtype)
    m = universe.reindexes.number(view)
    cost = 1 if constant else view_cost(view)
    return Alternative(Bridge(source, m), cost, (source,))


def _pair(
    universe: Universe,
    source: ClassId,
    p: int | None,
    first: Reindex,
    second: Reindex,
    pair_cost: Callable[[Reindex, Reindex], int | None],
    constant: bool,
) -> Alternative | None:
    """A view of a view as one View: what no single map says."""
    if p is not None:
        back = inverse(universe.reindexes[p].map)
        through = None if back is None else compose(back, first.map)
        if through is None:
            return None
        first = Reindex(through, first.fill, first.dtype)
    if not isinstance(first.map, FlatMap) or not isinstance(second.map, FlatMap):
        return None
    if isinstance(compose(first.map, second.map, 0), FlatMap):
        return None
    cost = pair_cost(first, second)
    if cost is None:
        return None
    numbers = universe.reindexes.number(first), universe.reindexes.number(second)
    return Alternative(Bridge(source, *numbers), 1 if constant else cost, (source,))


@dataclass(frozen=True)
class Extraction:
    """The chosen way of every class that the roots need, and the cost of all of them together."""

    choices: Mapping[ClassId, Choice]
    cost: int


def greedy(
    table: Mapping[ClassId, Sequence[Alternative]], roots: Sequence[ClassId], passes: int = 8
) -> Extraction | None:
    """A cheap program: first the best tree per class, then, until nothing improves, the best way given what is shared.

    None where a root cannot be built. The result is never claimed to be the optimum.
    """
    order, chosen = _trees(table)
    if any(root not in chosen for root in roots):
        return None
    start = _collect(chosen, roots)
    improved = _share(table, order, dict(chosen), passes)
    best = min((x for x in (start, _collect(improved, roots)) if x is not None), key=lambda e: e.cost, default=None)
    return best


def _trees(table: Mapping[ClassId, Sequence[Alternative]]) -> tuple[list[ClassId], dict[ClassId, Alternative]]:
    """The cheapest tree of every class (Knuth), and the order in which they were settled: needs before users."""
    users: dict[ClassId, list[tuple[ClassId, Alternative]]] = {}
    waiting: dict[tuple[ClassId, int], int] = {}
    heap: list[tuple[int, int, ClassId, Alternative]] = []
    count = 0
    for c, ways in table.items():
        for n, way in enumerate(ways):
            distinct = set(way.needs)
            waiting[c, n] = len(distinct)
            if not distinct:
                heapq.heappush(heap, (way.cost, count, c, way))
                count += 1
            for need in distinct:
                users.setdefault(need, []).append((c, way))
    index = {id(way): (c, n) for c, ways in table.items() for n, way in enumerate(ways)}
    cost: dict[ClassId, int] = {}
    chosen: dict[ClassId, Alternative] = {}
    order: list[ClassId] = []
    while heap:
        total, _, c, way = heapq.heappop(heap)
        if c in cost:
            continue
        cost[c], chosen[c] = total, way
        order.append(c)
        for user, other in users.get(c, ()):
            key = index[id(other)]
            waiting[key] -= 1
            if waiting[key] == 0 and user not in cost:
                heapq.heappush(heap, (other.cost + sum(cost[need] for need in other.needs), count, user, other))
                count += 1
    return order, chosen


def _share(
    table: Mapping[ClassId, Sequence[Alternative]],
    order: Sequence[ClassId],
    chosen: dict[ClassId, Alternative],
    passes: int,
) -> dict[ClassId, Alternative]:
    """Choose again with shared needs counted once; a set of classes is a bit mask."""
    bit = {c: n for n, c in enumerate(order)}
    own = [chosen[c].cost for c in order]
    masks = [0] * len(order)
    totals = [0] * len(order)

    def weigh(way: Alternative, c: ClassId) -> tuple[int, int] | None:
        needs = sorted({bit[x] for x in way.needs}, key=lambda n: -totals[n])
        mask, total = 0, way.cost
        for n in needs:
            fresh = masks[n] & ~mask
            if not mask:
                total += totals[n]
            else:
                rest = fresh
                while rest:
                    low = rest & -rest
                    total += own[low.bit_length() - 1]
                    rest ^= low
            mask |= masks[n]
        return None if mask >> bit[c] & 1 else (total, mask)

    for c in order:
        found = weigh(chosen[c], c)
        if found is None:
            return chosen
        totals[bit[c]], masks[bit[c]] = found[0], found[1] | 1 << bit[c]
    for _ in range(passes):
        changed = False
        for c in order:
            options = [
                (found, way)
                for way in table[c]
                if all(x in bit for x in way.needs)
                for found in [weigh(way, c)]
                if found
            ]
            if not options:
                continue
            (total, mask), way = min(options, key=lambda o: (o[0][0], o[1] is not chosen[c]))
            changed = changed or way is not chosen[c] or total != totals[bit[c]]
            chosen[c], own[bit[c]] = way, way.cost
            totals[bit[c]], masks[bit[c]] = total, mask | 1 << bit[c]
        if not changed:
            break
    return chosen


def _collect(chosen: Mapping[ClassId, Alternative], roots: Sequence[ClassId]) -> Extraction | None:
    """What the roots need under these choices; None if they are circular."""
    state: dict[ClassId, int] = {}
    result: dict[ClassId, Choice] = {}
    cost = 0
    stack: list[tuple[ClassId, bool]] = [(r, False) for r in roots]
    while stack:
        c, ready = stack.pop()
        if ready:
            state[c] = 2
            result[c] = chosen[c].choice
            cost += chosen[c].cost
            continue
        if state.get(c) == 2:
            continue
        if state.get(c) == 1:
            return None
        state[c] = 1
        stack.append((c, True))
        for need in chosen[c].needs:
            if state.get(need) == 1:
                return None
            if state.get(need) is None:
                stack.append((need, False))
    return Extraction(result, cost)
