"""Index maps made of pieces, `where`, minima, magnitudes: each piece is solved alone, then they are put together.

At a cell that comes from a point of the box, exactly one piece gave it (the map is injective), and what tells the
pieces apart is looked for among short conditions on the cell: one that agrees with the piece's own condition at points
of the box is proposed. Where it holds at every cell of one piece and at none of the other by their intervals, every
step holds at every point; otherwise the caller checks the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from eqsat.ir.cached import cached_property
from eqsat.ir.decide import decider
from eqsat.ir.dtypes import NDArray
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts, dag_size, free_variables, nodes_of, substitute
from eqsat.maps.problem import Problem, Sample
from eqsat.maps.read import plain
from eqsat.maps.solve import solve_digits
from eqsat.maps.tidy import tidy

if TYPE_CHECKING:
    from eqsat.index_graph.solve import Found

MOST_PIECES = 16
Ranges = dict[Term, tuple[int, int]]


def _truth(condition: Term, over: Mapping[Term, NDArray], size: int) -> NDArray:
    """Where a condition is defined and holds."""
    value, bad = evaluate_masked([condition], over, load_table)[0]
    holds = value if bad is None else np.logical_and(value, np.logical_not(bad))
    return np.broadcast_to(holds, size)


def exclude(part: Term, ranges: Ranges, limits: Bounds) -> None:
    """Narrow the range of a term that differs from its least or greatest value."""
    constant, parts = t.linear_parts(part.args[0] - part.args[1])
    if len(parts) != 1 or abs(parts[0][0]) != 1:
        return
    node, value = parts[0][1], -constant * parts[0][0]
    low, high = limits.of(node)
    if low is None or high is None or not low <= value <= high:
        return
    if value == low:
        ranges[node] = (low + 1, high + 1)
    elif value == high:
        ranges[node] = (low, high)


@dataclass(frozen=True, eq=False)
class _Piece:
    """The outputs where certain conditions hold, and the ranges that these leave."""

    ranges: Ranges
    outputs: tuple[Term, ...]
    zero: tuple[Term, ...]  # what is 0 here
    condition: Term
    active: NDArray


@dataclass(frozen=True, eq=False)
class Solved:
    """The inputs over the outputs, in order.

    `excluded` are predicates that should be false at every cell a point goes to, with `exact` true at all others;
    outputs in `loose` hold cells no input reaches, beyond the ranges (None: not known). `whole`: every step of it holds
    at every point.
    """

    values: list[Term]
    excluded: tuple[Term, ...] = ()
    loose: frozenset[int] | None = None
    whole: bool = True
    exact: bool = False


def congruence(
    inputs: Sequence[Term],
    outputs: Sequence[Term],
    names: Sequence[Term],
    ranges: Mapping[Term, tuple[int, int]],
    zero: Sequence[Term] = (),
) -> Found | None:
    """`index_graph.solve`, which is loaded when it is first asked: most maps are digits."""
    from eqsat.index_graph.solve import solve

    return solve(inputs, outputs, names, ranges, zero)


class Pieces:
    """A map over a box of numbers, solved piece by piece; `fast`: by digits where that does."""

    def __init__(self, problem: Problem, fast: bool) -> None:
        self.problem, self.fast = problem, fast
        self.inputs = problem.inputs
        self.count = 0
        self.exact = False
        self.whole = _Piece(problem.box, problem.reading, (), t.TRUE, np.ones((), np.bool_))

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
        values = self._by_digits(piece) if self.fast else None
        if values is not None:
            return Solved(values)
        choice = next((n.args[0] for n in nodes_of("where", *piece.outputs) if not nodes_of("where", n.args[0])), None)
        if choice is not None:
            return self._split(piece, choice)
        problem = self.problem
        found = congruence(self.inputs, piece.outputs, problem.physical, {**piece.ranges, **problem.cells}, piece.zero)
        return None if found is None else Solved(decider().shortest(found.values, problem.cells))

    def _by_digits(self, piece: _Piece) -> list[Term] | None:
        problem = self.problem
        assert problem.numbers is not None
        extents = dict(zip(problem.inputs, problem.numbers[0], strict=True))
        box = {v: piece.ranges[v] for v in self.inputs}
        found = solve_digits(extents, piece.outputs, problem.physical, problem.declared, box)
        return None if found is None else [found.values[v] for v in self.inputs]

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
        return solved[0][1] if len(solved) == 1 else self._joined(choice, *solved) if solved else None

    def _joined(self, choice: Term, first: tuple[_Piece, Solved], second: tuple[_Piece, Solved]) -> Solved:
        """Two solved pieces as one solution, with a condition that tells them apart."""
        (yes_part, yes), (no_part, no) = first, second
        if all(a is b for a, b in zip(yes.values, no.values, strict=True)):
            return Solved(yes.values, whole=yes.whole and no.whole)
        test = tidy([self._test(choice, yes_part, yes.values, no_part, no.values)], self.problem.cells)[0]
        values = [a if a is b else t.where(test, a, b) for a, b in zip(yes.values, no.values, strict=True)]
        otherwise = t.logical_not(test)
        excluded = [t.logical_and(test, c) for c in self._outside(yes_part, yes)]
        excluded += [t.logical_and(otherwise, c) for c in self._outside(no_part, no)]
        apart = self._always(test, yes_part) and self._always(otherwise, no_part)
        whole = apart and yes.whole and no.whole
        return Solved(values, tuple(excluded), whole=whole, exact=whole)

    def _outside(self, piece: _Piece, found: Solved) -> list[Term]:
        """What holds at a cell where there is no point of a piece."""
        return list(found.excluded) if found.exact else [t.logical_not(c) for c in self._inside(piece, found.values)]

    def _always(self, claim: Term, piece: _Piece) -> bool:
        """Whether a condition on cells is shown to hold at all cells of a piece."""
        there = substitute(claim, dict(zip(self.problem.physical, piece.outputs, strict=True)))
        if Bounds(piece.ranges).of(there) == (1, 1):
            return True
        box = {v: piece.ranges[v] for v in self.inputs}
        return decider().simplify([there], box)[0] is t.TRUE

    def _narrowed(self, piece: _Piece, choice: Term, condition: Term, active: NDArray) -> _Piece | None:
        """The piece where the condition holds too; None where it never does."""
        bounds = Bounds(piece.ranges)
        if bounds.of(condition) == (0, 0) or (self.sample.complete and not bool(active.any())):
            return None
        ranges: Ranges = dict(bounds.under(condition).facts())
        zero = list(piece.zero)
        for part in conjuncts(condition):
            if part.op == "eq" and part.args[0].dtype == t.INDEX:
                zero.append(part.args[0] - part.args[1])
            elif part.op == "ne" and part.args[0].dtype == t.INDEX:
                exclude(part, ranges, bounds)
        if any(a >= b for a, b in ranges.values()):
            return None
        within = Bounds(ranges)
        table = {choice: t.bool_const(condition is choice)}
        outputs = tuple(plain(substitute(o, table), within) for o in piece.outputs)
        return _Piece(ranges, outputs, tuple(zero), t.logical_and(piece.condition, condition), active)

    # -- telling pieces apart -----------------------------------------------------------------------------------------

    def _test(self, choice: Term, yes: _Piece, first: Sequence[Term], no: _Piece, second: Sequence[Term]) -> Term:
        """A condition on cells that holds for those of the first piece and not for those of the second."""
        inside = t.logical_and(*self._inside(yes, first))
        if self.exact:
            return inside
        candidates: list[Term] = []
        values, others = (dict(zip(self.inputs, some, strict=True)) for some in (first, second))
        if all(values[v] is others[v] for v in free_variables(choice)):
            candidates.append(substitute(choice, values))
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

    def _inside(self, piece: _Piece, found: Sequence[Term]) -> list[Term]:
        """What holds at the cells of a piece: its inputs are in range, its conditions hold, its outputs come back."""
        result: list[Term] = []
        values = dict(zip(self.inputs, found, strict=True))
        for v in self.inputs:
            low, stop = piece.ranges[v]
            result += [t.compare("le", t.index_const(low), values[v]), t.compare("lt", values[v], stop)]
        condition = piece.condition
        result += [substitute(c, values) for c in conjuncts(condition)]
        for p, output in zip(self.problem.physical, piece.outputs, strict=True):
            result.append(t.compare("eq", substitute(output, values), p))
        return [c for c in result if c is not t.TRUE]
