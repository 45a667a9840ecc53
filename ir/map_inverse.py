"""The inverse of an index map over a box, the cells it leaves as padding, and the check of both.

A map falls apart into components: groups of inputs and outputs that share no variable. Each is solved alone, so that an
untouched axis costs nothing. A component is solved by its digits, else by a formula read off the table of its values,
else by the table itself. Components small enough are checked at every point; for the others (large or symbolic) only
solved digits count, whose steps are exact, and the registered prover may still refute them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

import numpy as np

from eqsat.ir import term as t
from eqsat.ir.decide import ENUMERATION_LIMIT, Proof, decider, grid, load_table
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import LayoutError
from eqsat.ir.evaluate import evaluate_masked
from eqsat.ir.map_bounds import at_least, bounds
from eqsat.ir.map_solve import Solution, solve_digits
from eqsat.ir.map_tables import Box, formula, radices, table
from eqsat.ir.shape import Dim, static_shape
from eqsat.ir.term import Term
from eqsat.ir.walk import free_variables, leaves, substitute, symbols

Point = dict[Term, int]


@dataclass(frozen=True, eq=False)
class Problem:
    """A map over a box: inputs and their extents, outputs, and variables for the outputs with the declared extents."""

    what: str
    inputs: tuple[Term, ...]
    extents: tuple[Dim, ...]
    outputs: tuple[Term, ...]
    physical: tuple[Term, ...]
    declared: tuple[Dim, ...]


@dataclass(frozen=True, eq=False)
class Inverse:
    """The inputs as terms over the physical variables; `padding` holds exactly at the cells that no input reaches."""

    values: tuple[Term, ...]
    padding: Term
    first_padding: tuple[int, ...] | None = None

    @property
    def is_table(self) -> bool:
        return bool(leaves("load", *self.values))


def components(problem: Problem) -> list[Problem]:
    """The parts of a map that share no variable; an output without variables is a part of its own."""
    used = [frozenset(free_variables(o)) for o in problem.outputs]
    groups: list[tuple[set[Term], list[int]]] = [({v}, []) for v in problem.inputs]
    for n, variables in enumerate(used):
        touched = [g for g in groups if g[0] & variables]
        merged: tuple[set[Term], list[int]] = (set[Term]().union(*(g[0] for g in touched)), [n])
        for g in touched:
            merged[1].extend(g[1])
        groups = [g for g in groups if not any(g is x for x in touched)] + [merged]
    result: list[Problem] = []
    for variables, numbers in groups:
        places = [n for n, v in enumerate(problem.inputs) if v in variables]
        result.append(
            Problem(
                problem.what,
                tuple(problem.inputs[n] for n in places),
                tuple(problem.extents[n] for n in places),
                tuple(problem.outputs[n] for n in sorted(numbers)),
                tuple(problem.physical[n] for n in sorted(numbers)),
                tuple(problem.declared[n] for n in sorted(numbers)),
            )
        )
    return result


# -- enumeration ------------------------------------------------------------------------------------------------------


def values_on(terms: Sequence[Term], variables: Sequence[Term], extents: Sequence[int]) -> list[NDArray] | None:
    """The values of terms at every point of a box, flat; None where one is undefined."""
    env = grid({v: (0, e) for v, e in zip(variables, extents, strict=True)})
    result: list[NDArray] = []
    for value, bad in evaluate_masked(list(terms), env, load_table):
        if bad is not None and bool(np.any(bad)):
            return None
        result.append(np.broadcast_to(value, tuple(extents)).ravel())
    return result


@dataclass(frozen=True, eq=False)
class Enumerated:
    """A component with numbers for all extents: `cells[p]` is the flat physical cell of the flat logical point p."""

    extents: tuple[int, ...]
    declared: tuple[int, ...]
    cells: NDArray

    @property
    def coordinates(self) -> list[NDArray]:
        return [a.ravel() for a in np.indices(self.extents)] if self.extents else []

    @property
    def reached(self) -> NDArray:
        mask = np.zeros(prod(self.declared), np.bool_)
        mask[self.cells] = True
        return mask


def enumerated(problem: Problem) -> Enumerated | None:
    """The component point by point, or None where it is symbolic or too large."""
    extents, declared = static_shape(problem.extents), static_shape(problem.declared)
    if extents is None or declared is None or symbols(*problem.outputs):
        return None
    if max(prod(extents), prod(declared)) > ENUMERATION_LIMIT:
        return None
    arrays = values_on(problem.outputs, problem.inputs, extents)
    if arrays is None:
        raise LayoutError(problem.what, "an output is undefined at a point of the box")
    flat: NDArray = np.zeros(prod(extents), np.int64)
    for array, extent in zip(arrays, declared, strict=True):
        flat = flat * extent + array
    return Enumerated(extents, declared, flat)


def collision(cells: NDArray) -> tuple[int, int] | None:
    """Two logical points of one cell, or None."""
    order = np.argsort(cells, kind="stable")
    same = np.flatnonzero(np.diff(cells[order]) == 0)
    return (int(order[same[0]]), int(order[same[0] + 1])) if same.size else None


# -- solving one component --------------------------------------------------------------------------------------------


def _solve_enumerated(problem: Problem, points: Enumerated, given: Sequence[Term] | None) -> tuple[list[Term], Term]:
    reached = points.reached
    if given is not None:
        wrong = _mismatch(problem, points, given)
        if wrong:
            raise LayoutError(f"inverse_index_map of {problem.what}", wrong, "leave it out to have it computed")
        return list(given), _padding(problem, points, given, reached)
    solution = solve_digits(
        dict(zip(problem.inputs, problem.extents, strict=True)), problem.outputs, problem.physical, problem.declared
    )
    if solution is not None:
        values = [solution.values[v] for v in problem.inputs]
        if not _mismatch(problem, points, values):
            return values, _padding(problem, points, values, reached)
    values = _from_table(problem, points, reached)
    wrong = _mismatch(problem, points, values)
    if wrong:
        raise LayoutError(f"inverse of {problem.what}", wrong)
    return values, _padding(problem, points, values, reached)


def _from_table(problem: Problem, points: Enumerated, reached: NDArray) -> list[Term]:
    box = Box(problem.physical, points.declared, reached)
    cuts = [radices(problem.outputs, e) for e in points.declared]
    result: list[Term] = []
    for extent, coordinate in zip(points.extents, points.coordinates, strict=True):
        values: NDArray = np.zeros(len(reached), np.int64)
        values[points.cells] = coordinate
        found = formula(box, values, extent, radices(problem.outputs, extent), cuts)
        result.append(table(box, values) if found is None else found)
    return result


def _mismatch(problem: Problem, points: Enumerated, values: Sequence[Term]) -> str:
    """Where the proposed inverse is undefined or wrong, or ''."""
    found = values_on(values, problem.physical, points.declared)
    if found is None:
        return "it is undefined at a physical cell"
    for v, array, coordinate in zip(problem.inputs, found, points.coordinates, strict=True):
        wrong = np.flatnonzero(array[points.cells] != coordinate)
        if wrong.size:
            cell = np.unravel_index(int(points.cells[wrong[0]]), points.declared)
            at = tuple(int(c) for c in cell)
            return f"at {at} it gives {v} = {int(array[points.cells[wrong[0]]])}, not {int(coordinate[wrong[0]])}"
    return ""


def _conditions(problem: Problem, values: Sequence[Term]) -> list[Term]:
    """Where the inverse leaves the box, or does not return: together they mark all the padding."""
    result: list[Term] = []
    for value, extent in zip(values, problem.extents, strict=True):
        result += [t.compare("le", t.as_index(extent), value), t.compare("lt", value, 0)]
    table_of = dict(zip(problem.inputs, values, strict=True))
    for p, output in zip(problem.physical, problem.outputs, strict=True):
        result.append(t.compare("ne", substitute(output, table_of), p))
    return result


def _padding(problem: Problem, points: Enumerated, values: Sequence[Term], reached: NDArray) -> Term:
    """The fewest of the conditions that mark the padding of an enumerated component."""
    if bool(reached.all()):
        return t.FALSE
    marked: list[tuple[Term, NDArray]] = []
    for condition in _conditions(problem, values):
        env = grid({v: (0, e) for v, e in zip(problem.physical, points.declared, strict=True)})
        value, bad = evaluate_masked([condition], env, load_table)[0]
        holds = value if bad is None else np.logical_and(value, np.logical_not(bad))
        mask = np.broadcast_to(holds, points.declared).ravel()
        # An output that is undefined outside of the box cannot be asked there.
        if bool(mask.any()) and bad is None:
            marked.append((condition, mask))
    kept: list[tuple[Term, NDArray]] = []
    covered = np.zeros_like(reached)
    for condition, mask in marked:
        if bool(np.any(mask & ~covered)):
            kept.append((condition, mask))
            covered |= mask
    for item in list(kept):
        rest = [m for c, m in kept if c is not item[0]]
        if rest and bool(np.array_equal(np.logical_or.reduce(rest), covered)):
            kept = [k for k in kept if k is not item]
    if bool(np.array_equal(covered, ~reached)):
        return t.logical_or(*(c for c, _ in kept))
    box = Box(problem.physical, points.declared, np.ones_like(reached))
    return t.compare("ne", table(box, (~reached).astype(np.int64)), 0)


def _solve_symbolic(problem: Problem, given: Sequence[Term] | None) -> tuple[list[Term], Term]:
    solution = solve_digits(
        dict(zip(problem.inputs, problem.extents, strict=True)), problem.outputs, problem.physical, problem.declared
    )
    if solution is None:
        collided = _refuted(problem)
        if collided is not None:
            raise collided
        raise LayoutError(
            f"inverse of {problem.what}", "no digit formula inverts it for all sizes", "give the symbols a value"
        )
    values = [solution.values[v] for v in problem.inputs]
    _check_symbolic(problem, values)
    if given is not None:
        table_of = dict(zip(problem.physical, given, strict=True))
        for v, value, user in zip(problem.inputs, values, given, strict=True):
            if user is not value and not decider().prove(t.compare("eq", user, value), _numbers(problem)):
                raise LayoutError(
                    f"inverse_index_map of {problem.what}", f"{v} = {substitute(user, table_of)} could not be proved"
                )
    return values, _symbolic_padding(problem, values, solution)


def _symbolic_padding(problem: Problem, values: Sequence[Term], solution: Solution) -> Term:
    box = {p: (t.index_const(0), t.as_index(e) - 1) for p, e in zip(problem.physical, problem.declared, strict=True)}
    conditions = _conditions(problem, values)
    kept: list[Term] = []
    for n, (value, extent) in enumerate(zip(values, problem.extents, strict=True)):
        bound = bounds(value, box)
        if bound is None or not at_least(t.as_index(extent) - bound.high, 1):
            kept.append(conditions[2 * n])
        if bound is None or not at_least(bound.low):
            kept.append(conditions[2 * n + 1])
    first = 2 * len(values)
    return t.logical_or(*kept, *(conditions[first + k] for k in sorted(solution.loose)))


def _numbers(problem: Problem) -> dict[Term, tuple[int, int]]:
    pairs = [*zip(problem.inputs, problem.extents, strict=True), *zip(problem.physical, problem.declared, strict=True)]
    return {v: (0, e) for v, e in pairs if isinstance(e, int)}


def _check_symbolic(problem: Problem, values: Sequence[Term]) -> None:
    """Let the prover try to refute what the digits gave."""
    table_of = dict(zip(problem.physical, problem.outputs, strict=True))
    for v, value in zip(problem.inputs, values, strict=True):
        proof = decider().prove(t.compare("eq", substitute(value, table_of), v), _numbers(problem))
        if proof.verdict == "refuted":
            raise LayoutError(f"inverse of {problem.what}", f"{v} = {value} fails at {dict(proof.witness or {})}")


def _refuted(problem: Problem) -> LayoutError | None:
    box = _numbers(problem)
    proof = decider().injective(problem.outputs, {v: box[v] for v in problem.inputs if v in box})
    if proof.verdict != "refuted":
        return None
    return LayoutError(problem.what, f"not injective: {dict(proof.witness or {})}")


# -- the whole map ----------------------------------------------------------------------------------------------------


def invert(problem: Problem, given: Sequence[Term] | None = None) -> Inverse:
    """The checked inverse of a map and its padding predicate.

    Raises LayoutError where two points share a cell (both are named), where a given inverse is wrong, or where the
    sizes are symbolic and no digit formula is found.
    """
    if any(isinstance(e, int) and e == 0 for e in problem.extents):
        # No point, so every cell is padding.
        empty = any(isinstance(e, int) and e == 0 for e in problem.declared)
        first = None if empty else (0,) * len(problem.declared)
        return Inverse(tuple(t.index_const(0) for _ in problem.inputs), t.FALSE if empty else t.TRUE, first)
    values: dict[Term, Term] = {}
    paddings: list[Term] = []
    holes: list[tuple[int, ...]] = []
    located = True
    user = None if given is None else dict(zip(problem.inputs, given, strict=True))
    parts = components(problem)
    if user is not None and not all(set(free_variables(user[v])) <= set(p.physical) for p in parts for v in p.inputs):
        parts = [problem]
    for part in parts:
        proposed = None if user is None else [user[v] for v in part.inputs]
        points = enumerated(part)
        if points is not None:
            pair = collision(points.cells)
            if pair is not None:
                raise _collision_error(problem, part, points, pair)
            solved, padding = _solve_enumerated(part, points, proposed)
            if padding is not t.FALSE:
                cell = np.unravel_index(int(np.argmin(points.reached)), points.declared)
                own = dict(zip(part.physical, cell, strict=True))
                holes.append(tuple(int(own.get(p, 0)) for p in problem.physical))
        else:
            solved, padding = _solve_symbolic(part, proposed)
            located = located and padding is t.FALSE
        values.update(zip(part.inputs, solved, strict=True))
        paddings.append(padding)
    first = min(holes) if holes and located else None
    return Inverse(tuple(values[v] for v in problem.inputs), t.logical_or(*paddings), first)


def _collision_error(problem: Problem, part: Problem, points: Enumerated, pair: tuple[int, int]) -> LayoutError:
    first, second = (whole_point(problem, part, points.extents, p) for p in pair)
    return LayoutError(
        problem.what,
        f"not injective: {first} and {second} both map to {_image(problem, first)}",
        "use a map that keeps cells apart",
    )


def _image(problem: Problem, point: tuple[int, ...]) -> tuple[int, ...]:
    at = dict(zip(problem.inputs, (t.index_const(c) for c in point), strict=True))
    results = evaluate_masked([substitute(o, at) for o in problem.outputs], {}, load_table)
    return tuple(int(value) for value, _ in results)


def whole_point(problem: Problem, part: Problem, extents: tuple[int, ...], flat: int) -> tuple[int, ...]:
    """A flat point of a component as a point of the whole box, zero in the other components."""
    own = dict(zip(part.inputs, np.unravel_index(flat, extents) if extents else (), strict=True))
    return tuple(int(own.get(v, 0)) for v in problem.inputs)


def injective(problem: Problem) -> Proof:
    """Whether different points of the box have different cells; the witness of a no is a pair of points."""
    if any(isinstance(e, int) and e == 0 for e in problem.extents):
        return Proof("proved", method="empty box")
    methods: list[str] = []
    unknown: Proof | None = None
    for part in components(problem):
        proof = _injective_part(part)
        methods.append(proof.method)
        if proof.verdict == "refuted":
            return Proof("refuted", _whole_witness(problem, proof.witness), proof.method, note=proof.note)
        if proof.verdict == "unknown":
            unknown = proof
    if unknown is not None:
        return unknown
    return Proof("proved", method=", ".join(dict.fromkeys(m for m in methods if m)) or "structure")


def _injective_part(part: Problem) -> Proof:
    box = _numbers(part)
    if not part.outputs and all(isinstance(e, int) and e == 1 for e in part.extents):
        return Proof("proved", method="structure")
    if static_shape(part.extents) is None or prod(static_shape(part.extents) or ()) > ENUMERATION_LIMIT:
        solution = solve_digits(
            dict(zip(part.inputs, part.extents, strict=True)), part.outputs, part.physical, part.declared
        )
        if solution is not None:
            return Proof("proved", method="digits")
    return decider().injective(part.outputs, {v: box[v] for v in part.inputs if v in box})


def _whole_witness(problem: Problem, witness: Mapping[str, object] | None) -> dict[str, object]:
    """The witness of a component with the inputs of the others at 0."""
    names = [str(v) for v in problem.inputs]
    result: dict[str, object] = {}
    for key, value in (witness or {}).items():
        if isinstance(value, Mapping):
            point = cast("Mapping[str, object]", value)
            result[key] = {name: point.get(name, 0) for name in names}
        else:
            result[key] = value
    return result
