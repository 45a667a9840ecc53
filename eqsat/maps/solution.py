"""An index map solved for its inputs over a box of numbers: the equations, the tidying, and the check of the result.

An inverse that leads back from the cell of every point is right, and shows that the map is injective. What the
equations alone give is right by their steps, and has been tried at a few points; anything else is checked at every
point of a small box, and by the rules or the registered prover on a large one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

import numpy as np

from eqsat.ir.decide import decider
from eqsat.ir.layouts.map_claims import defined, partial
from eqsat.ir.points import ENUMERATION_LIMIT, values_at, values_on
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import leaves, substitute
from eqsat.maps.cases import Pieces, Solved
from eqsat.maps.direct import direct
from eqsat.maps.problem import FEW_POINTS, Problem
from eqsat.maps.tidy import tidy


@lru_cache(maxsize=1024)
def solution(problem: Problem) -> Solved | None:
    """The inputs over the outputs by the equations of a map over numbers, checked; None where that finds none."""
    if len(problem.outputs) == len(problem.inputs) == 1 and problem.outputs[0] is problem.inputs[0]:
        return Solved({problem.inputs[0]: problem.physical[0]}, [])
    found = direct(problem)
    if found is not None and not partial(*found.terms):
        return Solved(dict(zip(problem.inputs, found.terms, strict=True)), [])
    for exact in (False, True):
        found = _raw(problem, exact)
        if found is None:
            return None
        tidied = tidy([found.values[v] for v in problem.inputs], problem.cells)
        if not mismatch(problem, tidied, trusted=found.whole):
            return replace(found, values=dict(zip(problem.inputs, tidied, strict=True)))
        if found.whole:
            return None
    return None


def certified(problem: Problem) -> bool:
    """Whether the equations alone solve the map, which is injective then: each of their steps holds at every point."""
    if direct(problem) is not None:
        return True
    found = _raw(problem, False)
    if found is None or not found.whole:
        return False
    values = [found.values[v] for v in problem.inputs]
    sample = problem.sample()
    back = values_at(values, sample.cells, sample.size)
    return back is not None and all(map(np.array_equal, back, sample.points.values()))


@lru_cache(maxsize=1024)
def _raw(problem: Problem, exact: bool) -> Solved | None:
    return None if problem.collision is not None else Pieces(problem).solve(exact)


def mismatch(problem: Problem, values: Sequence[Term], trusted: bool = False) -> str:
    """Where the proposed inverse of a component of numbers is undefined or wrong, or ''.

    Small ones are tried at every point and cell. Large ones are believed where the rules, or for the largest the
    prover, show that they lead back; where these cannot, every point is tried as long as they are few enough, and of
    larger boxes a sample if the values are `trusted`: drawn from the equations by steps that always hold.
    """
    assert problem.numbers is not None
    extents = problem.numbers[0]
    if prod(extents) > FEW_POINTS and _returns(problem, values):
        return _undefined(problem, values)
    points = problem.points
    if points is not None:
        env, size = dict(zip(problem.physical, points.images, strict=True)), points.size
        coordinates = points.coordinates
    elif trusted:
        sample = problem.sample()
        env, size, coordinates = dict(sample.cells), sample.size, list(sample.points.values())
    else:
        return "too many points to try"
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
    if leaves("load", *problem.outputs, *values):
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
