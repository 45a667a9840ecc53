"""The cheapest choice in a part by an integer program over its classes; a bound where time does not suffice."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from eqsat import interrupt
from eqsat.extraction.extract import Alternative
from eqsat.extraction.frontier import Node, by_class, steps_of
from eqsat.extraction.parts import Component, cycles
from eqsat.graph.nodes import ClassId

WORKERS = 4  # fewer prove nothing for long, however many processors there are
CLOSE = 1e-6  # of the cost: what is left then are nodes that move nothing
LARGEST = 20_000  # alternatives: more take longer than they are worth
DEAREST = 1 << 62  # all costs together, in 64 bits


def improve(
    part: Component, known: Mapping[ClassId, Alternative], seconds: float
) -> tuple[dict[ClassId, Alternative], int] | None:
    """A choice no dearer than a known one, and what any costs at least; None where the part is too large."""
    from ortools.sat.python import cp_model

    ways = [o.way for some in part.ways.values() for o in some]
    if len(ways) > LARGEST or 2 * sum(w.cost for w in ways) >= DEAREST:
        return None
    steps = steps_of(part)
    model = cp_model.CpModel()
    active: dict[Node, Any] = {node: model.new_bool_var("") for node in steps}
    cycle = cycles({node: [frozenset(s.needs) for s in some] for node, some in steps.items()})
    places: dict[Node, Any] = {node: model.new_int_var(0, len(cycle), "") for node in cycle}
    used: dict[tuple[Node, int], Any] = {}
    costs: list[Any] = []
    for node, some in steps.items():
        for n, step in enumerate(some):
            mine = used[node, n] = active[node] if len(some) == 1 else model.new_bool_var("")
            for need in step.needs:
                model.add_implication(mine, active[need])
                if node in cycle and cycle.get(need) == cycle[node]:
                    order: Any = model.add(places[need] < places[node])
                    order.only_enforce_if(mine)
            model.add_hint(mine, step.way is not None and known.get(node[0]) is step.way)
            costs.append(step.cost * mine)
        if len(some) > 1:
            model.add(sum(used[node, n] for n in range(len(some))) == active[node])
        elif not some:
            model.add(active[node] == 0)
    for root in part.roots:
        model.add(active[root, False] == 1)
    total = sum(costs)
    model.minimize(total)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = WORKERS
    solver.parameters.interleave_search = True  # the same answer every time
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.relative_gap_limit = CLOSE
    solver.parameters.catch_sigint_signal = False  # it would take Ctrl-C for itself, and answer
    with interrupt.stopped_by(solver.stop_search):
        status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    found = by_class({node: steps[node][n] for (node, n), v in used.items() if solver.value(v)})
    cost = cost_in(part, found)
    return found, min(cost, ceil(solver.best_objective_bound - CLOSE))


def cost_in(part: Component, chosen: Mapping[ClassId, Alternative]) -> int:
    """What the classes of a part that its roots need cost under a choice."""
    cost, seen, stack = 0, set[ClassId](), list(part.roots)
    while stack:
        c = stack.pop()
        if c not in seen:
            seen.add(c)
            way = chosen[c]
            cost += way.cost
            stack.extend(n for n in way.needs if n in part.ways)
    return cost
