"""What any choice in a part costs at least, and what having each of its nodes is worth: a linear program, in which each
value that all programs make is made once. Its prices are whole numbers, and what they claim too much is counted."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
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
    begun = time.monotonic()
    program = _Program(rows)
    for root in roots:
        program.at_least_one(root)
    once = made_once(rows, values)
    for v, keys in once.items():
        program.made(v, keys)
    found: Any = pywraplp
    solver: Any = found.Solver.CreateSolver("GLOP")
    # nothing taken meets no demand and costs nothing: where the dual simplex method starts
    solver.SetSolverSpecificParametersAsString(f"max_deterministic_time: {WORK} use_dual_simplex: true")
    solver.LoadModelFromProto(program.proto)
    left = min(seconds, LONGEST) - (time.monotonic() - begun)
    solver.SetTimeLimit(max(1, round(1000 * left)))
    with interrupt.stopped_by(solver.InterruptSolve):
        status = solver.Solve()
    if status != pywraplp.Solver.OPTIMAL:
        return None
    worth = [max(0, round(constraint.dual_value() * UNIT)) for constraint in solver.constraints()]
    paid = {key: worth[n] for key, n in program.demands.items()}
    made = {v: worth[n] for v, n in program.once.items()}
    return Least({key: price for key, price in paid.items() if price}, made, too_much(rows, once, paid, made))


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
    """The program: how far each step is taken; a node is had as far as its steps are. Constraints have numbers."""

    def __init__(self, rows: Rows) -> None:
        from ortools.linear_solver import linear_solver_pb2

        found: Any = linear_solver_pb2
        self.proto: Any = found.MPModelProto()
        self.count = 0
        self.taken: dict[Node, range] = {}
        self.demands: dict[tuple[User, Node], int] = {}
        self.once: dict[Value, int] = {}
        self.rows = rows
        for node, some in rows.steps.items():
            self.taken[node] = range(self.count, self.count + len(some))
            for step in some:
                self._variable(step.cost / UNIT)
        for node, some in rows.steps.items():
            users: dict[Node, list[int]] = {}
            for taken, step in zip(self.taken[node], some, strict=True):
                for need in set(step.needs):
                    users.setdefault(need, []).append(taken)
            for need, taken in users.items():
                self._demand(node, need, taken)

    def at_least_one(self, node: Node) -> None:
        """A node is had whatever is chosen."""
        self.demands[None, node] = self._constraint(1.0, self.taken[node])

    def made(self, v: Value, keys: Sequence[Used]) -> None:
        """Some of these steps are taken; of those, one is followed, and what it needs is had as far as it is.

        As one is followed, steps of several nodes that need the same need all of it together.
        """
        if len({node for node, _ in keys}) == 1:
            self.once[v] = self._constraint(1.0, [self.taken[node][n] for node, n in keys])
            return
        users: dict[Node, list[int]] = {}
        every: list[int] = []
        for node, n in keys:
            followed = self._variable(0.0)
            every.append(followed)
            self._constraint(0.0, [self.taken[node][n]], [followed])
            for need in set(self.rows.steps[node][n].needs):
                users.setdefault(need, []).append(followed)
        self.once[v] = self._constraint(1.0, every)
        for need, followed in users.items():
            if len(followed) > 1:
                self._demand(v, need, followed)

    def _demand(self, user: User, node: Node, taken: Sequence[int]) -> None:
        self.demands[user, node] = self._constraint(0.0, self.taken[node], taken)

    def _variable(self, cost: float) -> int:
        self.proto.variable.add(lower_bound=0.0, upper_bound=inf, objective_coefficient=cost)
        self.count += 1
        return self.count - 1

    def _constraint(self, least: float, more: Sequence[int], less: Sequence[int] = ()) -> int:
        """So much is taken of some variables, at least, beside what is taken of others."""
        found = self.proto.constraint.add(lower_bound=least, upper_bound=inf)
        both = dict.fromkeys(more, 1.0)
        for x in less:
            both[x] = -1.0
        found.var_index.extend(both)
        found.coefficient.extend(both.values())
        return len(self.proto.constraint) - 1
