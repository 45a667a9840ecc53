"""Solving index maps made of pieces: `where`, minima, magnitudes. Each is solved alone, then they are put together.

At a cell that comes from a point of the box, exactly one piece gave it (the map is injective), and what tells the
pieces apart is looked for among short conditions on the cell: one that agrees with the piece's own condition at points
of the box is proposed. The caller checks the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from eqsat.ir.cached import cached_property
from eqsat.ir.dtypes import NDArray
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import dag_size, free_variables, leaves, substitute
from eqsat.maps.bits import solve_bits
from eqsat.maps.equations import WIDEST_BITS, Equations
from eqsat.maps.facts import Constraint
from eqsat.maps.pieces import exclude
from eqsat.maps.problem import Problem, Sample
from eqsat.maps.read import plain

MOST_PIECES = 16
LARGE = 40  # nodes: the equations of larger maps of bits are slower than elimination, and no shorter
Ranges = dict[Term, tuple[int, int]]


def _truth(condition: Term, over: Mapping[Term, NDArray], size: int) -> NDArray:
    """Where a condition is defined and holds."""
    value, bad = evaluate_masked([condition], over, load_table)[0]
    holds = value if bad is None else np.logical_and(value, np.logical_not(bad))
    return np.broadcast_to(holds, size)


@dataclass(frozen=True, eq=False)
class _Piece:
    """The outputs where certain conditions hold, and the ranges that these leave."""

    ranges: Ranges
    outputs: tuple[Term, ...]
    equations: tuple[Constraint, ...]
    condition: Term
    active: NDArray


@dataclass(frozen=True, eq=False)
class Solved:
    """The inputs over the outputs; `excluded` are predicates that should be false at every cell a point goes to.

    `whole`: it was not put together of pieces, so that every step of it holds at every point.
    """

    values: dict[Term, Term]
    excluded: list[Term]
    whole: bool = True


class Pieces:
    """A map over a box of numbers, solved piece by piece."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.inputs = problem.inputs
        self.physical = problem.cells
        self.count = 0
        self.exact = False
        bounds = Bounds(problem.box)
        read = tuple(plain(o, bounds) for o in problem.outputs)
        self.whole = _Piece(problem.box, read, (), t.TRUE, np.ones((), np.bool_))

    @cached_property
    def sample(self) -> Sample:
        """Points at which conditions are tried."""
        return self.problem.sample()

    def solve(self, exact: bool = False) -> Solved | None:
        """Every input as a term over the outputs, or None; `exact`: with conditions that need no sample to be right."""
        self.count, self.exact = 0, exact
        return self._solve(self.whole)

    def _solve(self, piece: _Piece) -> Solved | None:
        self.count += 1
        if self.count > MOST_PIECES:
            return None
        linear = self._by_bits(piece) if leaves("bitxor", *piece.outputs) else None
        if linear is not None and dag_size(*piece.outputs) > LARGE:
            return self._leaf(piece, linear, [])
        given = [Constraint(o, p) for o, p in zip(piece.outputs, self.physical, strict=True)]
        equations = Equations(self.inputs, piece.ranges, self.physical, [*given, *piece.equations])
        values = equations.values() if equations.solve() else None
        if linear is not None and (values is None or dag_size(*linear.values()) <= dag_size(*values.values())):
            return self._leaf(piece, linear, [])
        if values is not None:
            return self._leaf(piece, values, equations.excluded())
        choice = next((n.args[0] for n in leaves("where", *piece.outputs) if not leaves("where", n.args[0])), None)
        if choice is None:
            return None
        told = [Constraint(v, value) for v, value in equations.values().items()]
        return self._split(replace(piece, equations=(*piece.equations, *told)), choice)

    def _leaf(self, piece: _Piece, values: dict[Term, Term], excluded: list[Term]) -> Solved:
        if self.count > 1:
            excluded = [*excluded, *(t.logical_not(c) for c in self._inside(piece, values))]
        return Solved(values, excluded, self.count == 1)

    def _split(self, piece: _Piece, choice: Term) -> Solved | None:
        holds = _truth(choice, self.sample.points, self.sample.size)
        branches = [
            self._narrowed(piece, choice, condition, piece.active & mask)
            for condition, mask in ((choice, holds), (t.logical_not(choice), ~holds))
        ]
        solved: list[tuple[_Piece, Solved]] = []
        for part in branches:
            found = None if part is None else self._solve(part)
            if part is not None and found is None:
                return None
            if part is not None and found is not None:
                solved.append((part, found))
        if len(solved) < 2:
            return solved[0][1] if solved else None
        (yes_part, yes), (no_part, no) = solved
        test = self._test(choice, yes_part, yes.values, no_part, no.values)
        values = {
            v: yes.values[v] if yes.values[v] is no.values[v] else t.where(test, yes.values[v], no.values[v])
            for v in self.inputs
        }
        otherwise = t.logical_not(test)
        excluded = [t.logical_and(test, c) for c in yes.excluded] + [t.logical_and(otherwise, c) for c in no.excluded]
        return Solved(values, excluded, False)

    def _by_bits(self, piece: _Piece) -> dict[Term, Term] | None:
        """The inputs where the outputs are linear over bits."""
        bounds = Bounds({**piece.ranges, **self.physical})
        inputs = set(self.inputs)

        def width(x: Term) -> int | None:
            low, high = bounds.of(x)
            return None if low is None or high is None or low < 0 or high >= 1 << WIDEST_BITS else high.bit_length()

        def unknown(x: Term) -> bool:
            return any(v in inputs for v in free_variables(x))

        found = solve_bits(list(zip(piece.outputs, self.physical, strict=True)), unknown, width)
        return found if all(v in found for v in self.inputs) else None

    def _narrowed(self, piece: _Piece, choice: Term, condition: Term, active: NDArray) -> _Piece | None:
        """The piece where the condition holds too; None where it never does."""
        bounds = Bounds(piece.ranges)
        if bounds.of(condition) == (0, 0) or (self.sample.complete and not bool(active.any())):
            return None
        ranges: Ranges = dict(bounds.under(condition).facts())
        equations = list(piece.equations)
        for part in condition.args if condition.op == "and" else (condition,):
            if part.op == "eq" and part.args[0].dtype == t.INDEX:
                equations.append(Constraint(part.args[0] - part.args[1], t.index_const(0)))
            elif part.op == "ne" and part.args[0].dtype == t.INDEX:
                exclude(part, ranges, bounds)
        if any(a >= b for a, b in ranges.values()):
            return None
        within = Bounds(ranges)
        table = {choice: t.bool_const(condition is choice)}
        outputs = tuple(plain(substitute(o, table), within) for o in piece.outputs)
        return _Piece(ranges, outputs, tuple(equations), t.logical_and(piece.condition, condition), active)

    # -- telling pieces apart -----------------------------------------------------------------------------------------

    def _test(self, choice: Term, yes: _Piece, first: dict[Term, Term], no: _Piece, second: dict[Term, Term]) -> Term:
        """A condition on cells that holds for those of the first piece and not for those of the second."""
        inside = t.logical_and(*self._inside(yes, first))
        if self.exact:
            return inside
        candidates: list[Term] = []
        if all(first[v] is second[v] for v in free_variables(choice)):
            candidates.append(substitute(choice, first))
        candidates += self._inside(yes, first)
        candidates += [t.logical_not(c) for c in self._inside(no, second)]
        candidates.append(inside)
        active = yes.active | no.active
        best: Term | None = None
        for candidate in dict.fromkeys(candidates):
            agrees = np.array_equal(_truth(candidate, self.sample.cells, self.sample.size)[active], yes.active[active])
            if agrees and (best is None or dag_size(candidate) < dag_size(best)):
                best = candidate
        return inside if best is None else best

    def _inside(self, piece: _Piece, values: dict[Term, Term]) -> list[Term]:
        """What holds at the cells of a piece: its inputs are in range, its conditions hold, its outputs come back."""
        result: list[Term] = []
        for v in self.inputs:
            low, stop = piece.ranges[v]
            result += [t.compare("le", t.index_const(low), values[v]), t.compare("lt", values[v], stop)]
        condition = piece.condition
        result += [substitute(c, values) for c in (condition.args if condition.op == "and" else (condition,))]
        for p, output in zip(self.physical, piece.outputs, strict=True):
            result.append(t.compare("eq", substitute(output, values), p))
        return [c for c in result if c is not t.TRUE]
