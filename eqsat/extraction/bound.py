"""What any choice in a part costs at least, and what having each of its nodes is worth: a linear program, in which each
value that all programs make is made once. Its prices are whole numbers, and what they claim too much is counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat import interrupt
from eqsat.extraction.rows import Node, Rows
from eqsat.extraction.values import Value, Values
from eqsat.ir.cached import cached_property

UNIT = 1 << 16  # of costs, so that floats hold them
LARGEST = 60_000  # steps: more take longer than they are worth
WORK = 4.0  # of the solver, which counts it; about seconds
LONGEST = 3600.0  # seconds, where more are given

Used = tuple[Node, int]
"""A step by its node and number."""


User = Node | Value | None
"""Who needs a node: another one, a value that every program makes, or (None) all programs."""


@dataclass(frozen=True)
class Least:
    """Prices: what each user pays for each node that it needs, whichever of its steps need it; what making each value
    that every program makes is worth; and by how much these claim too much, which is counted in whole numbers."""

    paid: Mapping[tuple[User, Node], int]
    made: Mapping[Value, int]
    slack: int

    @property
    def cost(self) -> int:
        """What any choice costs at least."""
        roots = (price for (user, _), price in self.paid.items() if user is None)
        return max(0, sum(roots) + sum(self.made.values()) - self.slack)

    @cached_property
    def prices(self) -> Mapping[Node, int]:
        """The worth of each node: what all that may need it pay."""
        found: dict[Node, int] = {}
        for (_, node), price in self.paid.items():
            found[node] = found.get(node, 0) + price
        return found


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
    once = made_once(rows, values)
    for v, keys in once.items():
        program.made(v, keys)
    with interrupt.stopped_by(solver.InterruptSolve):
        status = solver.Solve()
    if status != pywraplp.Solver.OPTIMAL:
        return None
    paid = {key: _whole(constraint) for key, constraint in program.demands.items()}
    made = {v: _whole(constraint) for v, constraint in program.once.items()}
    return Least({key: price for key, price in paid.items() if price}, made, too_much(rows, once, paid, made))


def _whole(constraint: Any) -> int:
    return max(0, round(constraint.dual_value() * UNIT))


def too_much(
    rows: Rows, once: Mapping[Value, Sequence[Used]], paid: Mapping[tuple[User, Node], int], made: Mapping[Value, int]
) -> int:
    """What steps cost less than what their nodes and values are worth, with what they pay: 0 where prices are right."""
    left: dict[Used, int] = {}
    worth: dict[Node, int] = {}
    for (_, node), price in paid.items():
        worth[node] = worth.get(node, 0) + price
    for node, some in rows.steps.items():
        for n, step in enumerate(some):
            left[node, n] = step.cost + sum(paid.get((node, x), 0) for x in set(step.needs)) - worth.get(node, 0)
    for v, keys in once.items():
        for node, n in keys:
            own = sum(paid.get((v, x), 0) for x in set(rows.steps[node][n].needs))
            left[node, n] -= max(0, made.get(v, 0) - own)
    return sum(-x for x in left.values() if x < 0)


def made_once(rows: Rows, values: Values) -> dict[Value, list[Used]]:
    """The steps that make a value which every program makes, for each such value: one of them is taken."""
    places: dict[tuple[int, int], list[Used]] = {}
    for node, some in rows.steps.items():
        for n, step in enumerate(some):
            if step.way is not None:
                places.setdefault((node[0], id(step.way)), []).append((node, n))
    needed = {v: values.made[v] for v in sorted(values.needed)}
    return {v: [key for c, o in some for key in places.get((c, id(o.way)), ())] for v, some in needed.items()}


class _Program:
    """The program: how far each step is taken; a node is had as far as its steps are."""

    def __init__(self, solver: Any, rows: Rows) -> None:
        self.solver, self.rows = solver, rows
        self.taken: dict[Used, Any] = {}
        self.demands: dict[tuple[User, Node], Any] = {}
        self.once: dict[Value, Any] = {}
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
                self._demand(node, need, taken)

    def at_least_one(self, node: Node) -> None:
        """A node is had whatever is chosen."""
        self.demands[None, node] = constraint = self.solver.Constraint(1, self.solver.infinity())
        self._had(constraint, node)

    def made(self, v: Value, keys: Sequence[Used]) -> None:
        """Some of these steps are taken; of those, one is followed, and what it needs is had as far as it is.

        As one is followed, steps of several nodes that need the same need all of it together.
        """
        self.once[v] = one = self.solver.Constraint(1, self.solver.infinity())
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
                self._demand(v, need, followed)

    def _demand(self, user: User, node: Node, taken: Iterable[Any]) -> None:
        self.demands[user, node] = constraint = self.solver.Constraint(0, self.solver.infinity())
        self._had(constraint, node)
        for variable in taken:
            constraint.SetCoefficient(variable, -1)

    def _had(self, constraint: Any, node: Node) -> None:
        for n in range(len(self.rows.steps[node])):
            constraint.SetCoefficient(self.taken[node, n], 1)
