"""An index map solved for its inputs over a box of numbers: by its digits, its pieces, or in the index e-graph.

An inverse that leads back from the cell of every point is right, and shows that the map is injective. What follows from
the outputs by steps that hold at every point has been tried at a few points; anything else is checked at every point of
a small box, and by the rules or the registered prover on a large one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

import numpy as np

from eqsat.index_graph.bits import WIDEST_BITS, solve_bits
from eqsat.ir.decide import decider
from eqsat.ir.fast import fast_paths, remembered
from eqsat.ir.layouts.map_claims import defined
from eqsat.ir.layouts.map_extent import partial
from eqsat.ir.points import ENUMERATION_LIMIT, values_at, values_on
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import dag_size, free_variables, nodes_of, substitute, symbols
from eqsat.maps.cases import Pieces, Solved, congruence
from eqsat.maps.problem import FEW_POINTS, Problem
from eqsat.maps.solve import peeled, solve_digits
from eqsat.maps.tidy import tidy


@lru_cache(maxsize=1024)
def by_digits(problem: Problem) -> Solved | None:
    """The inputs over the outputs where these are sums of digits, for all sizes; tried at a few points of numbers."""
    numbers = problem.numbers is not None
    extents = dict(zip(problem.inputs, problem.extents, strict=True))
    outputs = problem.reading if numbers else problem.outputs
    found = solve_digits(extents, outputs, problem.physical, problem.declared)
    if found is None:
        return None
    values, loose = [found.values[v] for v in problem.inputs], frozenset(found.loose)
    if not numbers:
        return Solved(values, loose=loose)
    plainly = _as_outputs(problem, values)
    same = all(a is b for a, b in zip(values, plainly, strict=True))
    solved = Solved(plainly, _exceeding(problem, found.inner), loose if same else None)
    return None if mismatch(problem, solved.values, trusted=True) else solved


@remembered(1024)
def _shown_digits(problem: Problem) -> Solved | None:
    """The same as it is shown, tried again."""
    found = by_digits(problem)
    if found is None:
        return None
    values = tidy(found.values, problem.cells)
    if all(a is b for a, b in zip(values, found.values, strict=True)):
        return found
    return None if mismatch(problem, values, trusted=True) else replace(found, values=values)


def _as_outputs(problem: Problem, values: Sequence[Term]) -> list[Term]:
    """The values, of inputs that are outputs as they stand these."""
    plainly = dict(zip(problem.outputs[::-1], problem.physical[::-1], strict=True))
    return [plainly.get(v, value) for v, value in zip(problem.inputs, values, strict=True)]


def _exceeding(problem: Problem, inner: Sequence[tuple[Term, Term]]) -> tuple[Term, ...]:
    """What never holds at a cell that a point goes to: values of terms beyond the intervals of these."""
    here, there = Bounds(problem.box), Bounds(problem.cells)
    result: list[Term] = []
    for term, value in inner:
        (low, high), (least, most) = here.of(term), there.of(value)
        if low is not None and (least is None or least < low):
            result.append(t.compare("lt", value, low))
        if high is not None and (most is None or most > high):
            result.append(t.compare("le", t.index_const(high + 1), value))
    return tuple(dict.fromkeys(result))


def _by_bits(problem: Problem) -> list[Solved]:
    """The inputs where the outputs, or what is left of them when digits are put together, are linear over bits."""
    assert problem.numbers is not None
    extents, declared = dict(zip(problem.inputs, problem.numbers[0], strict=True)), problem.numbers[1]
    limits = Bounds({**problem.box, **problem.cells})

    def width(x: Term) -> int | None:
        low, high = limits.of(x)
        return None if low is None or high is None or low < 0 or high >= 1 << WIDEST_BITS else high.bit_length()

    def unknown(x: Term) -> bool:
        return any(v in extents for v in free_variables(x))

    result: list[Solved] = []
    plainly = list(zip(problem.outputs, problem.physical, strict=True))
    for pairs in (plainly, peeled(extents, problem.reading, problem.physical, declared)):
        found = solve_bits(pairs, unknown, width)
        if all(v in found for v in problem.inputs):
            values = tidy([found[v] for v in problem.inputs], problem.cells)
            result.append(Solved(values, _exceeding(problem, pairs)))
    return result


@remembered(1024)
def for_all_sizes(problem: Problem) -> Solved | None:
    """The inputs over the outputs of a map with symbolic sizes, by steps that hold for all of them."""
    found = by_digits(problem) if fast_paths() else None
    if found is not None:
        return found
    known = [*problem.physical, *symbols(*problem.outputs, *map(t.as_index, problem.extents))]
    outputs = [*problem.outputs, *known[len(problem.physical) :]]
    solved = congruence(problem.inputs, outputs, known, {**problem.box, **problem.cells})
    return None if solved is None else Solved(decider().shortest(solved.values, problem.cells))


def solution(problem: Problem) -> Solved | None:
    """The inputs over the outputs of a map over numbers, checked; None where none are found."""
    found = _shown_digits(problem) if fast_paths() else None
    bitwise = bool(nodes_of("bitxor", *problem.outputs))
    return found if found is not None and not bitwise else _solution(problem)


@remembered(1024)
def _solution(problem: Problem) -> Solved | None:
    if problem.collision is not None:
        return None
    for some in _candidates(problem, fast_paths()):
        for found in sorted(some, key=lambda x: dag_size(*x.values)):
            if not mismatch(problem, found.values, trusted=found.whole):
                return found
    return None


def _candidates(problem: Problem, fast: bool) -> Iterator[list[Solved]]:
    """Solutions to be checked, as they are found; of some at once, the shortest is wanted."""
    if fast and nodes_of("bitxor", *problem.outputs):
        found = _shown_digits(problem)
        yield [*([] if found is None else [found]), *_by_bits(problem)]
    if nodes_of("where", *problem.reading):
        pieces = Pieces(problem, fast)
        found = _shown(problem, pieces.solve())
        opaque = found is not None and not nodes_of("where", *problem.outputs)
        yield [x for x in (found, _by_congruence(problem) if opaque else None) if x is not None]
        if found is not None and not found.whole:
            exact = _shown(problem, pieces.solve(exact=True))
            yield [] if exact is None else [exact]
    found = _by_congruence(problem)
    yield [] if found is None else [found]


def _shown(problem: Problem, found: Solved | None) -> Solved | None:
    """A solution as it is shown."""
    return found and replace(found, values=tidy(_as_outputs(problem, found.values), problem.cells))


@remembered(8)
def _by_congruence(problem: Problem) -> Solved | None:
    box = {**problem.box, **problem.cells}
    found = congruence(problem.inputs, problem.outputs, problem.physical, box)
    if found is None and any(a is not b for a, b in zip(problem.outputs, problem.reading, strict=True)):
        found = congruence(problem.inputs, problem.reading, problem.physical, box)
    if found is None:
        return None
    values = decider().shortest(found.values, problem.cells)
    return Solved(_as_outputs(problem, values), _exceeding(problem, found.inner))


def mismatch(problem: Problem, values: Sequence[Term], trusted: bool = False) -> str:
    """Where the proposed inverse of a component of numbers is undefined or wrong, or ''.

    Values that are `trusted`, drawn from the outputs by steps that always hold, are tried at a few points, all of a
    small box. Others are tried at every point and cell of a small box; on a large one they are believed where the
    rules, or for the largest the prover, show that they lead back, and where these cannot, every point is tried.
    """
    assert problem.numbers is not None
    extents = problem.numbers[0]
    if trusted:
        sample = problem.probe
        env, size, coordinates = dict(sample.cells), sample.size, list(sample.points.values())
    else:
        if prod(extents) > FEW_POINTS and _returns(problem, values):
            return _undefined(problem, values)
        points = problem.points
        if points is None:
            return "too many points to try"
        env, size = dict(zip(problem.physical, points.images, strict=True)), points.size
        coordinates = points.coordinates
    found = values_at(values, env, size)
    if found is None:
        return "it is undefined at a physical cell"
    for v, array, coordinate in zip(problem.inputs, found, coordinates, strict=True):
        wrong = np.flatnonzero(array != coordinate)
        if wrong.size:
            k = int(wrong[0])
            at = tuple(int(env[p][k]) for p in problem.physical)
            return f"at {at} it gives {v} = {int(array[k])}, not {int(coordinate[k])}"
    return _undefined(problem, values)


def _returns(problem: Problem, values: Sequence[Term]) -> bool:
    """Whether the values, at the outputs, are shown to be the inputs without trying points."""
    if nodes_of("load", *problem.outputs, *values):
        return False
    table = dict(zip(problem.physical, problem.outputs, strict=True))
    there_and_back = [substitute(v, table) for v in values]
    normal = decider().simplify(there_and_back, problem.box)
    open_claims = [t.compare("eq", a, v) for a, v in zip(normal, problem.inputs, strict=True) if a is not v]
    if not open_claims:
        return True
    large = problem.numbers is None or prod(problem.numbers[0]) > ENUMERATION_LIMIT
    return large and all(decider().prove(c, problem.box) for c in open_claims)


def _undefined(problem: Problem, values: Sequence[Term]) -> str:
    """What is wrong with an inverse that may be undefined at a cell, reached or not; or ''."""
    if not partial(*values):
        return ""
    assert problem.numbers is not None
    declared = problem.numbers[1]
    if prod(declared) <= ENUMERATION_LIMIT:
        known = values_on(values, problem.physical, declared) is not None
    else:
        known = all(decider().prove(defined(v), problem.cells) for v in values)
    return "" if known else "it is undefined at a physical cell"
