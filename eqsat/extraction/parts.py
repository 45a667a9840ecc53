"""A choice among alternatives taken apart: what every program needs is settled, what is left falls into parts that have
nothing to do with each other, and equal parts (the blocks of a network) are one question."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from eqsat.extraction.extract import Alternative
from eqsat.graph.nodes import ClassId

K = TypeVar("K")
Table = Mapping[ClassId, Sequence[Alternative]]


@dataclass(frozen=True)
class Open:
    """A way to have a class, with those of its needs that are still in question: the others are there anyway."""

    way: Alternative
    needs: frozenset[ClassId]


Ways = dict[ClassId, list[Open]]


@dataclass(frozen=True)
class Component:
    """A connected component: classes whose choices depend on each other; its roots are needed in any case."""

    ways: Ways
    roots: tuple[ClassId, ...]

    def settled(self) -> dict[ClassId, tuple[int, int]]:
        """As `settled`, of the ways that are open."""
        return settled({c: [(o.way.cost, o.needs) for o in some] for c, some in self.ways.items()})


@dataclass(frozen=True)
class Parts:
    """What is settled (`fixed`: classes that every program has, in the only way that is left), and the open parts."""

    fixed: dict[ClassId, Alternative]
    parts: list[Component]


def take_apart(table: Table, roots: Sequence[ClassId]) -> Parts | None:
    """The settled choices and the independent parts of a problem; None where a root cannot be built.

    >>> from eqsat.extraction.extract import UseForm, UseLeaf
    >>> leaf, dear = Alternative(UseLeaf(0), 0, ()), Alternative(UseLeaf(1), 9, ())
    >>> top = Alternative(UseForm(0, 0, (1, 2)), 1, (1, 2))
    >>> found = take_apart({0: [top], 1: [leaf, dear], 2: [leaf]}, [0])
    >>> sorted(found.fixed), found.parts
    ([0, 1, 2], [])
    """
    order = settled({c: [(w.cost, w.needs) for w in some] for c, some in table.items()})
    if any(root not in order for root in roots):
        return None
    ways: Ways = {}
    stack = list(roots)
    while stack:
        c = stack.pop()
        if c not in ways:
            built = [w for w in table[c] if c not in w.needs and all(n in order for n in w.needs)]
            ways[c] = _undominated([Open(w, frozenset(w.needs)) for w in built])
            stack.extend(n for o in ways[c] for n in o.needs)
    cycle = cycles({c: [o.needs for o in some] for c, some in ways.items()})
    while True:
        ways = _reachable(ways, roots)
        needed = needed_by_all({c: [o.needs for o in some] for c, some in ways.items()}, roots)
        stripped: Ways = {}
        for c, some in ways.items():
            stripped[c] = _undominated([Open(o.way, _in_question(c, o.needs, needed, cycle)) for o in some])
        if all(len(stripped[c]) == len(some) for c, some in ways.items()):
            break
        ways = {c: [Open(o.way, frozenset(o.way.needs)) for o in some] for c, some in stripped.items()}
    fixed = {c: some[0].way for c, some in stripped.items() if c in needed and len(some) == 1 and not some[0].needs}
    left: Ways = {}
    for c, some in stripped.items():
        if c not in fixed:
            left[c] = [Open(o.way, frozenset(n for n in o.needs if n not in fixed)) for o in some]
    return Parts(fixed, _components(left, needed))


def settled(ways: Mapping[ClassId, Sequence[tuple[int, Collection[ClassId]]]]) -> dict[ClassId, tuple[int, int]]:
    """The classes that can be built, needs before users: what each costs at least (a way and its dearest need), and the
    number of a way to build it from classes before it. Ways are given as their costs and needs."""
    users: dict[ClassId, list[tuple[ClassId, int]]] = {}
    waiting: dict[tuple[ClassId, int], int] = {}
    heap: list[tuple[int, int, ClassId, int]] = []
    count = 0
    for c, some in ways.items():
        for n, (cost, needs) in enumerate(some):
            distinct = set(needs)
            waiting[c, n] = len(distinct)
            if not distinct:
                heapq.heappush(heap, (cost, count, c, n))
                count += 1
            for need in distinct:
                users.setdefault(need, []).append((c, n))
    least: dict[ClassId, tuple[int, int]] = {}
    while heap:
        cost, _, c, way = heapq.heappop(heap)
        if c in least:
            continue
        least[c] = cost, way
        for user, n in users.get(c, ()):
            waiting[user, n] -= 1
            if waiting[user, n] == 0 and user not in least:
                heapq.heappush(heap, (cost + ways[user][n][0], count, user, n))  # this need is the dearest
                count += 1
    return least


def _undominated(ways: Sequence[Open]) -> list[Open]:
    """The ways without those that need all that another one needs, and cost no less."""
    if len(ways) < 2:
        return list(ways)
    kept: list[Open] = []
    alone, several = set[ClassId](), list[frozenset[ClassId]]()
    for o in sorted(ways, key=lambda o: (o.way.cost, len(o.needs))):
        if alone.isdisjoint(o.needs) and not any(other <= o.needs for other in several):
            kept.append(o)
            if len(o.needs) == 1:
                alone |= o.needs
            else:
                several.append(o.needs)
    return kept


def _reachable(ways: Ways, roots: Sequence[ClassId]) -> Ways:
    found: Ways = {}
    stack = list(roots)
    while stack:
        c = stack.pop()
        if c not in found:
            found[c] = ways[c]
            stack.extend(n for o in ways[c] for n in o.needs)
    return found


def needed_by_all(ways: Mapping[K, Sequence[Collection[K]]], roots: Sequence[K]) -> set[K]:
    """What is needed whichever of its ways each thing takes, the roots first: what all its ways need, and what those
    need. A set is a bit mask; -1 has every bit.

    >>> sorted(needed_by_all({"a": ["bc", "cd"], "b": ["e"], "c": [""], "d": ["e"], "e": [""]}, ["a"]))
    ['a', 'c', 'e']
    """
    order = _needs_first(ways, roots)
    place = {c: n for n, c in enumerate(order)}
    needs = [[[place[x] for x in some] for some in ways[c]] for c in order]
    users: list[set[int]] = [set() for _ in order]
    for n, every in enumerate(needs):
        for x in (x for some in every for x in some):
            users[x].add(n)
    masks, asked = [-1] * len(order), list(range(len(order)))  # a heap: needs before users
    waiting = set(asked)
    while asked:
        n = heapq.heappop(asked)
        waiting.remove(n)
        common = -1
        for some in needs[n]:
            mask = 0
            for x in some:
                mask |= masks[x]
            common &= mask
        if common | 1 << n != masks[n]:
            masks[n] = common | 1 << n
            for user in users[n] - waiting:
                waiting.add(user)
                heapq.heappush(asked, user)
    whole = 0
    for root in roots:
        whole |= masks[place[root]]
    return {c for n, c in enumerate(order) if whole >> n & 1}


def _needs_first(ways: Mapping[K, Sequence[Collection[K]]], roots: Sequence[K]) -> list[K]:
    """What roots may need, each behind all that it may need and that does not need it in turn."""
    found: dict[K, None] = {}
    seen: set[K] = set()
    stack = [(root, False) for root in roots]
    while stack:
        c, done = stack.pop()
        if done:
            found[c] = None
        elif c not in seen:
            seen.add(c)
            stack.append((c, True))
            stack.extend((x, False) for some in ways[c] for x in some if x not in seen)
    return list(found)


def _in_question(
    c: ClassId, needs: frozenset[ClassId], needed: set[ClassId], cycle: Mapping[ClassId, int]
) -> frozenset[ClassId]:
    """The needs that are not there anyway, and those that might need the class in turn."""
    return frozenset(n for n in needs if n not in needed or (n in cycle and cycle.get(c) == cycle[n]))


def _components(ways: Ways, needed: set[ClassId]) -> list[Component]:
    """The open classes, those together that share a need."""
    head: dict[ClassId, ClassId] = {c: c for c in ways}

    def find(c: ClassId) -> ClassId:
        while head[c] != c:
            head[c] = c = head[head[c]]
        return c

    for c, some in ways.items():
        for o in some:
            for n in o.needs:
                head[find(n)] = find(c)
    groups: dict[ClassId, list[ClassId]] = {}
    for c in ways:
        groups.setdefault(find(c), []).append(c)
    found: list[Component] = []
    for group in groups.values():
        roots = tuple(c for c in group if c in needed)
        inside = _reachable({c: ways[c] for c in group}, roots)
        if inside:
            found.append(Component(inside, roots))
    return found


def cycles(needs: Mapping[ClassId, Sequence[frozenset[ClassId]]]) -> dict[ClassId, int]:
    """The number of the strongly connected component of each class that lies in a cycle (Tarjan)."""
    index: dict[ClassId, int] = {}
    low: dict[ClassId, int] = {}
    trail: list[ClassId] = []
    component: dict[ClassId, int] = {}
    found: dict[ClassId, int] = {}
    for start in needs:
        if start in index:
            continue
        work = [(start, iter({n for some in needs[start] for n in some}))]
        index[start] = low[start] = len(index)
        trail.append(start)
        while work:
            c, rest = work[-1]
            for n in rest:
                if n not in index:
                    index[n] = low[n] = len(index)
                    trail.append(n)
                    work.append((n, iter({m for some in needs[n] for m in some})))
                    break
                if n not in component:
                    low[c] = min(low[c], index[n])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[c])
                if low[c] == index[c]:
                    members: list[ClassId] = []
                    while not members or members[-1] != c:
                        members.append(trail.pop())
                    number = len(component)
                    component.update(dict.fromkeys(members, number))
                    if len(members) > 1:
                        found.update(dict.fromkeys(members, number))
    return found
