"""The inverse of an index map over a box, and the cells it leaves as padding.

A map falls apart into components: groups of inputs and outputs that share no variable, each solved alone. A component
is solved by its digits, piece by piece where it has pieces, else in the index e-graph, else by a table of the values of
its inverse. Where fast paths are off, only the e-graph gives formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

import numpy as np

from eqsat.ir.cached import cached_property
from eqsat.ir.decide import Proof
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import LayoutError
from eqsat.ir.fast import fast_paths, remembered
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import load_table, table_load
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import free_variables, substitute
from eqsat.maps.cases import Solved
from eqsat.maps.injective import injective_part, whole_witness
from eqsat.maps.padding import first_cell, padding_of, some_cell
from eqsat.maps.points import Enumerated
from eqsat.maps.problem import Problem
from eqsat.maps.solution import mismatch, solution
from eqsat.maps.symbolic import solve_symbolic

LARGEST_TABLE = 1 << 22
Cell = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Inverse:
    """The inputs as terms over the physical variables; `padding` holds exactly at the cells that no input reaches.

    `parts` are the components with the padding of each.
    """

    problem: Problem
    values: tuple[Term, ...]
    padding: Term
    parts: tuple[tuple[Problem, Term], ...]

    @property
    def first_padding(self) -> tuple[int, ...] | None:
        """The first padded cell; None without padding, where sizes are symbolic, or where it is too far to be found."""
        return self._first

    @cached_property
    def _first(self) -> Cell | None:
        return self._cell(first_cell)

    @cached_property
    def some_padding(self) -> tuple[int, ...] | None:
        """A padded cell: the first one where it is known."""
        return self.first_padding or self._cell(some_cell)

    def _cell(self, find: Callable[[Term, Sequence[Term], Sequence[int]], Cell | None]) -> Cell | None:
        """The least of the cells that are found for the components, zero elsewhere; None where one is not found."""
        if self.padding is t.TRUE:
            return (0,) * len(self.problem.physical)
        found: list[Cell] = []
        for part, padding in self.parts:
            if padding is t.FALSE:
                continue
            cell = None if part.numbers is None else find(padding, part.physical, part.numbers[1])
            if cell is None:
                return None
            found.append(self.problem.widened(part, cell))
        return min(found, default=None)


# -- one component over numbers ---------------------------------------------------------------------------------------


def _solve_numbers(problem: Problem, given: Sequence[Term] | None, whole: Problem) -> tuple[list[Term], Term]:
    assert problem.numbers is not None
    extents, declared = problem.numbers
    single = given is None and len(extents) == 1 and extents == declared
    if single and fast_paths() and problem.outputs[0] is problem.inputs[0]:  # an axis as it is
        return [problem.physical[0] if extents[0] > 1 else t.index_const(0)], t.FALSE
    if given is not None:
        wrong = mismatch(problem, given)
        if wrong:
            raise LayoutError(f"inverse_index_map of {problem.what}", wrong, "leave it out to have it computed")
        return list(given), _padding(problem, Solved(list(given)))
    found = solution(problem)
    if found is not None:
        return found.values, _padding(problem, found)
    proof = injective_part(problem)
    if proof.verdict == "refuted":
        raise _collision_error(whole, proof)
    points = problem.points
    if points is None:
        raise LayoutError(f"inverse of {problem.what}", "no formula is known, and the box is too large for a table")
    if prod(declared) > LARGEST_TABLE:
        raise LayoutError(
            f"inverse of {problem.what}", f"no formula is known, and a table would have {prod(declared)} entries"
        )
    values = _from_table(problem, points)
    wrong = mismatch(problem, values)
    if wrong:
        raise LayoutError(f"inverse of {problem.what}", wrong)
    return values, _padding(problem, Solved(values))


def _from_table(problem: Problem, points: Enumerated) -> list[Term]:
    """The inverse as loads from constant tables over the flat physical index; cells that are not reached hold 0."""
    flat = t.linear(0, [(prod(points.declared[n + 1 :]), v) for n, v in enumerate(problem.physical)])
    result: list[Term] = []
    for coordinate in points.coordinates:
        values: NDArray = np.zeros(prod(points.declared), np.int64)
        values[points.cells] = coordinate
        result.append(table_load(values, flat))
    return result


def _padding(problem: Problem, found: Solved) -> Term:
    for value in found.values:
        if value.op == "load" and bool((value.payload.array < 0).any()):
            return t.compare("lt", value, 0)  # the table marks cells that are not reached
    return padding_of(problem, found)


# -- the whole map ----------------------------------------------------------------------------------------------------


@remembered(512)
def inverse(problem: Problem) -> Inverse:
    """The checked inverse of a map and its padding predicate.

    Raises LayoutError where two points share a cell (both are named), where a given inverse is wrong, or where no
    formula is found and the sizes are symbolic or too large for a table.
    """
    if any(isinstance(e, int) and e == 0 for e in problem.extents):
        # No point, so every cell is padding.
        empty = any(isinstance(e, int) and e == 0 for e in problem.declared)
        return Inverse(problem, tuple(t.index_const(0) for _ in problem.inputs), t.FALSE if empty else t.TRUE, ())
    values: dict[Term, Term] = {}
    paddings: list[tuple[Problem, Term]] = []
    given = problem.given
    user = None if given is None else dict(zip(problem.inputs, given, strict=True))
    parts = problem.parts
    if user is not None and not all(set(free_variables(user[v])) <= set(p.physical) for p in parts for v in p.inputs):
        parts = [problem]
    for part in parts:
        proposed = None if user is None else [user[v] for v in part.inputs]
        if part.numbers is not None:
            solved, padding = _solve_numbers(part, proposed, problem)
        else:
            solved, padding = solve_symbolic(part, proposed)
        values.update(zip(part.inputs, solved, strict=True))
        paddings.append((part, padding))

    padding = t.logical_or(*(p for _, p in paddings))
    return Inverse(problem, tuple(values[v] for v in problem.inputs), padding, tuple(paddings))


def _collision_error(problem: Problem, proof: Proof) -> LayoutError:
    witness = whole_witness(problem, proof.witness)
    pair = [tuple(int(x) for x in cast("Mapping[str, int]", witness[k]).values()) for k in ("first", "second")]
    return LayoutError(
        problem.what,
        f"not injective: {pair[0]} and {pair[1]} both map to {_image(problem, pair[0])}",
        "use a map that keeps cells apart",
        witness,
    )


def _image(problem: Problem, point: tuple[int, ...]) -> tuple[int, ...]:
    at = dict(zip(problem.inputs, (t.index_const(c) for c in point), strict=True))
    results = evaluate_masked([substitute(o, at) for o in problem.outputs], {}, load_table)
    return tuple(int(value) for value, _ in results)
