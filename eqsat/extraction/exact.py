"""The cheapest choice in a part by an integer program over its nodes; a bound where the work allowed is not enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from eqsat import interrupt
from eqsat.extraction.bound import made_once
from eqsat.extraction.extract import Alternative
from eqsat.extraction.parts import Component, cycles
from eqsat.extraction.rows import AS_USED, Node, Rows, Step, by_class
from eqsat.extraction.values import Values
from eqsat.graph.nodes import ClassId

CLOSE = 1e-6  # of the cost: what is left then are nodes that move nothing
LARGEST = 1_500  # steps: of more it finds and proves nothing for long
DEAREST = 1 << 62  # all costs together, in 64 bits


def improve(
    part: Component, rows: Rows, values: Values, known: Mapping[ClassId, Alternative], work: float, seconds: float
) -> tuple[dict[ClassId, Alternative], int] | None:
    """A choice no dearer than a known one, and what any costs at least; None where the part is too large.

    work: how much the solver may do, as it counts itself; about seconds.
    """
    from ortools.sat.python import cp_model

    steps = rows.steps
    every = [step for some in steps.values() for step in some]
    if len(every) > LARGEST or 2 * sum(step.cost for step in every) >= DEAREST:
        return None
    model = cp_model.CpModel()
    active: dict[Node, Any] = {node: model.new_bool_var("") for node in steps}
    used: dict[tuple[Node, int], Any] = {}
    hints = _chosen_steps(steps, [(c, AS_USED) for c in part.roots], known)
    for node, some in steps.items():
        for n in range(len(some)):
            used[node, n] = active[node] if len(some) == 1 else model.new_bool_var("")
            model.add_hint(used[node, n], hints.get(node) == n)
        if len(some) > 1:
            model.add_hint(active[node], node in hints)
            model.add(sum(used[node, n] for n in range(len(some))) == active[node])
        elif not some:
            model.add(active[node] == 0)
    _needs(model, rows, active, used)
    for root in part.roots:
        model.add(active[root, AS_USED] == 1)
    for keys in made_once(rows, values).values():
        model.add_bool_or([used[key] for key in keys])
    model.minimize(sum(steps[node][n].cost * taken for (node, n), taken in used.items()))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.parameters.max_deterministic_time = work
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.relative_gap_limit = CLOSE
    solver.parameters.catch_sigint_signal = False  # it would take Ctrl-C for itself, and answer
    with interrupt.stopped_by(solver.stop_search):
        status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    found = by_class({node: steps[node][n] for (node, n), taken in used.items() if solver.value(taken)})
    return found, min(cost_in(part, found), ceil(solver.best_objective_bound - CLOSE))


def _chosen_steps(
    steps: Mapping[Node, Sequence[Step]], roots: Sequence[Node], known: Mapping[ClassId, Alternative]
) -> dict[Node, int]:
    """The steps that a choice takes, by their numbers, as far as the nodes have such."""
    found: dict[Node, int] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in found:
            ways = [step.way for step in steps[node]]
            way = known[node[0]]
            number = next((ways.index(x) for x in (way, None) if x in ways), None)
            if number is not None:
                found[node] = number
                stack.extend(steps[node][number].needs)
    return found


def _needs(model: Any, rows: Rows, active: dict[Node, Any], used: dict[tuple[Node, int], Any]) -> None:
    """What is used needs what it needs; nothing needs itself."""
    cycle = cycles({node: [frozenset(s.needs) for s in some] for node, some in rows.steps.items()})
    places: dict[Node, Any] = {node: model.new_int_var(0, len(cycle), "") for node in cycle}
    for node, some in rows.steps.items():
        users: dict[Node, list[Any]] = {}
        for n, step in enumerate(some):
            for need in set(step.needs):
                users.setdefault(need, []).append(used[node, n])
                if node in cycle and cycle.get(need) == cycle[node]:
                    model.add(places[need] < places[node]).only_enforce_if(used[node, n])
        for need, taken in users.items():
            if len(taken) == 1:
                model.add_implication(taken[0], active[need])
            else:  # one of them at most is used
                model.add(sum(taken) <= active[need])


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
