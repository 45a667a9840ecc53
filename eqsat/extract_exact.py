"""The cheapest program of an e-graph, by an integer program over its classes; a bound where time does not suffice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from eqsat.extract import Alternative, ClassId, Extraction

WORKERS = 4  # fewer prove nothing for long, however many processors there are
CLOSE = 1e-6  # of the cost: what is left then are nodes that move nothing
LARGEST = 20_000  # alternatives: more take longer than they are worth
DEAREST = 1 << 62  # all costs together, in 64 bits
Table = Mapping[ClassId, Sequence[Alternative]]


@dataclass(frozen=True)
class Exact:
    """A program and the least cost that any program of the e-graph can have: the same number if it is the cheapest."""

    extraction: Extraction
    bound: int

    @property
    def gap(self) -> float:
        """How much of the cost may be too much: 0 for an optimum."""
        cost = self.extraction.cost
        return (cost - self.bound) / cost if cost > self.bound else 0.0


def improve(table: Table, roots: Sequence[ClassId], known: Extraction, seconds: float) -> Exact | None:
    """A program no dearer than a known one, and how cheap one could be; None where the problem is too large.

    >>> from eqsat.extract import Spell, Take
    >>> cheap, dear = Alternative(Take(0), 1, ()), Alternative(Spell(0, 0, (1,)), 5, (1,))
    >>> found = improve({0: [dear, cheap], 1: [cheap]}, [0], Extraction({0: dear.choice, 1: cheap.choice}, 6), 5.0)
    >>> found.extraction.cost, found.gap
    (1, 0.0)
    """
    reduced = _reduced(table, roots, known.cost)
    least = _least(reduced)
    bound = max((least[root] for root in roots), default=0)
    if bound >= known.cost:
        return Exact(known, known.cost)
    ways = [w for some in reduced.values() for w in some]
    if len(ways) > LARGEST or known.cost + sum(w.cost for w in ways) >= DEAREST:
        return None
    return _solve(reduced, roots, known, bound, seconds)


# -- what can be left out ---------------------------------------------------------------------------------------------


def _least(table: Table) -> dict[ClassId, int]:
    """What a class costs at least: a way with the dearest of its needs. Classes that cannot be built are left out."""
    least: dict[ClassId, int] = {}
    changed = True
    while changed:
        changed = False
        for c, ways in table.items():
            known = [w.cost + max((least[n] for n in w.needs), default=0) for w in ways if _all_in(w.needs, least)]
            if known and (c not in least or min(known) < least[c]):
                least[c] = min(known)
                changed = True
    return least


def _all_in(needs: Iterable[ClassId], known: Mapping[ClassId, Any]) -> bool:
    return all(n in known for n in needs)


def _reduced(table: Table, roots: Sequence[ClassId], most: int) -> dict[ClassId, list[Alternative]]:
    """The classes that roots may need, with the ways that can be part of a program that costs at most this."""
    least = _least(table)
    kept: dict[ClassId, list[Alternative]] = {}
    stack = list(roots)
    while stack:
        c = stack.pop()
        if c in kept:
            continue
        ways = [w for w in table[c] if _all_in(w.needs, least) and c not in w.needs]
        ways = [w for w in ways if w.cost + max((least[n] for n in w.needs), default=0) <= most]
        kept[c] = _undominated(ways)
        stack.extend(n for w in kept[c] for n in w.needs)
    return kept


def _undominated(ways: Sequence[Alternative]) -> list[Alternative]:
    """The ways without those that need all that another one needs, and cost no less."""
    kept: list[tuple[frozenset[ClassId], Alternative]] = []
    for w in sorted(ways, key=lambda w: (w.cost, len(w.needs))):
        needs = frozenset(w.needs)
        if not any(other <= needs for other, _ in kept):
            kept.append((needs, w))
    return [w for _, w in kept]


def _cycles(table: Table) -> dict[ClassId, int]:
    """The number of the strongly connected component of each class that lies in a cycle (Tarjan)."""
    index: dict[ClassId, int] = {}
    low: dict[ClassId, int] = {}
    trail: list[ClassId] = []
    component: dict[ClassId, int] = {}
    found: dict[ClassId, int] = {}
    for start in table:
        if start in index:
            continue
        work = [(start, iter({n for w in table[start] for n in w.needs}))]
        index[start] = low[start] = len(index)
        trail.append(start)
        while work:
            c, needs = work[-1]
            for n in needs:
                if n not in index:
                    index[n] = low[n] = len(index)
                    trail.append(n)
                    work.append((n, iter({m for w in table[n] for m in w.needs})))
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


# -- the integer program ----------------------------------------------------------------------------------------------


def _solve(table: Table, roots: Sequence[ClassId], known: Extraction, bound: int, seconds: float) -> Exact:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    active: dict[ClassId, Any] = {c: model.new_bool_var("") for c in table}
    cycle = _cycles(table)
    places: dict[ClassId, Any] = {c: model.new_int_var(0, len(cycle), "") for c in cycle}
    used: dict[tuple[ClassId, int], Any] = {}
    costs: list[Any] = []
    for c, ways in table.items():
        for n, way in enumerate(ways):
            mine = used[c, n] = active[c] if len(ways) == 1 else model.new_bool_var("")
            for need in set(way.needs):
                model.add_implication(mine, active[need])
                if c in cycle and cycle.get(need) == cycle[c]:
                    order: Any = model.add(places[need] < places[c])
                    order.only_enforce_if(mine)
            model.add_hint(mine, known.choices.get(c) == way.choice)
            costs.append(way.cost * mine)
        if len(ways) > 1:
            model.add(sum(used[c, n] for n in range(len(ways))) == active[c])
        elif not ways:
            model.add(active[c] == 0)
    for root in set(roots):
        model.add(active[root] == 1)
    total = sum(costs)
    model.add(total <= known.cost)
    model.minimize(total)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = WORKERS
    solver.parameters.interleave_search = True  # the same answer every time
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.relative_gap_limit = CLOSE
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Exact(known, bound)
    found = _followed(table, roots, {key[0]: key[1] for key, v in used.items() if solver.value(v)})
    best = found if found.cost < known.cost else known
    return Exact(best, min(best.cost, max(bound, ceil(solver.best_objective_bound - CLOSE))))


def _followed(table: Table, roots: Sequence[ClassId], chosen: Mapping[ClassId, int]) -> Extraction:
    """What the roots need, in the order in which it is built; a solution may hold classes that nothing needs."""
    choices: dict[ClassId, Any] = {}
    cost = 0
    seen: set[ClassId] = set()
    stack = [(root, False) for root in roots]
    while stack:
        c, ready = stack.pop()
        way = table[c][chosen[c]]
        if ready:
            choices[c] = way.choice
            cost += way.cost
        elif c not in seen:
            seen.add(c)
            stack.append((c, True))
            stack.extend((n, False) for n in way.needs)
    return Extraction(choices, cost)
