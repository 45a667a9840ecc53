"""What any choice in a part costs at least, and what having each of its nodes is worth: a linear program, in which each
value that all programs make is made once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import floor
from typing import Any

from eqsat import interrupt
from eqsat.extraction.rows import Node, Rows
from eqsat.extraction.values import Values

UNIT = 1 << 16  # of costs, so that floats hold them
SLACK = 1e-7  # of a bound, for what floats lose
LARGEST = 60_000  # steps: more take longer than they are worth
WORK = 4.0  # of the solver, which counts it; about seconds
LONGEST = 3600.0  # seconds, where more are given

Used = tuple[Node, int]
"""A step by its node and number."""


@dataclass(frozen=True)
class Least:
    """The least cost, and the worth of each node."""

    cost: int
    prices: Mapping[Node, int]


def least_cost(rows: Rows, values: Values, roots: Iterable[Node], seconds: float) -> Least | None:
    """The answer of the linear program; None where the part is too large for it, or the seconds are over."""
    from ortools.linear_solver import pywraplp

    if sum(len(some) for some in rows.steps.values()) > LARGEST:
        return None
    found: Any = pywraplp
    solver: Any = found.Solver.CreateSolver("GLOP")
    # nothing taken meets no demand and costs nothing: where the dual simplex method starts
    solver.SetSolverSpecificParametersAsString(f"max_deterministic_time: {WORK} use_dual_simplex: true")
    solver.SetTimeLimit(max(1, round(1000 * min(seconds, LONGEST))))
    program = _Program(solver, rows)
    for root in roots:
        program.at_least_one(root)
    for keys in made_once(rows, values):
        program.made(keys)
    with interrupt.stopped_by(solver.InterruptSolve):
        status = solver.Solve()
    if status != pywraplp.Solver.OPTIMAL:
        return None
    cost = solver.Objective().Value() * (1 - SLACK)
    prices = {node: round(sum(c.dual_value() for c in some) * UNIT) for node, some in program.demands.items()}
    return Least(max(0, floor(cost * UNIT)), prices)


def made_once(rows: Rows, values: Values) -> list[list[Used]]:
    """The steps that make a value which every program makes, for each such value: one of them is taken."""
    places: dict[tuple[int, int], list[Used]] = {}
    for node, some in rows.steps.items():
        for n, step in enumerate(some):
            if step.way is not None:
                places.setdefault((node[0], id(step.way)), []).append((node, n))
    return [[key for c, o in values.made[v] for key in places.get((c, id(o.way)), ())] for v in sorted(values.needed)]


class _Program:
    """The program: how far each step is taken; a node is had as far as its steps are."""

    def __init__(self, solver: Any, rows: Rows) -> None:
        self.solver, self.rows = solver, rows
        self.taken: dict[Used, Any] = {}
        self.demands: dict[Node, list[Any]] = {}
        for node, some in rows.steps.items():
            for n, step in enumerate(some):
                self.taken[node, n] = variable = solver.NumVar(0, solver.infinity(), "")
                solver.Objective().SetCoefficient(variable, step.cost / UNIT)
        for node, some in rows.steps.items():
            users: dict[Node, list[Any]] = {}
            for n, step in enumerate(some):
                for need in set(step.needs):
                    users.setdefault(need, []).append(self.taken[node, n])
            for need, taken in users.items():
                self._demand(need, taken)

    def at_least_one(self, node: Node) -> None:
        """A node is had whatever is chosen."""
        self._had(self.solver.Constraint(1, self.solver.infinity()), node)

    def made(self, keys: Iterable[Used]) -> None:
        """Some of these steps are taken; of those, one is followed, and what it needs is had as far as it is.

        As one is followed, steps of several nodes that need the same need all of it together.
        """
        one = self.solver.Constraint(1, self.solver.infinity())
        keys = list(keys)
        if len({node for node, _ in keys}) == 1:
            for key in keys:
                one.SetCoefficient(self.taken[key], 1)
            return
        users: dict[Node, list[Any]] = {}
        for node, n in keys:
            followed = self.solver.NumVar(0, self.solver.infinity(), "")
            one.SetCoefficient(followed, 1)
            limit = self.solver.Constraint(0, self.solver.infinity())
            limit.SetCoefficient(self.taken[node, n], 1)
            limit.SetCoefficient(followed, -1)
            for need in set(self.rows.steps[node][n].needs):
                users.setdefault(need, []).append(followed)
        for need, followed in users.items():
            if len(followed) > 1:
                self._demand(need, followed)

    def _demand(self, node: Node, taken: Iterable[Any]) -> None:
        constraint = self.solver.Constraint(0, self.solver.infinity())
        self._had(constraint, node)
        for variable in taken:
            constraint.SetCoefficient(variable, -1)

    def _had(self, constraint: Any, node: Node) -> None:
        for n in range(len(self.rows.steps[node])):
            constraint.SetCoefficient(self.taken[node, n], 1)
        self.demands.setdefault(node, []).append(constraint)
