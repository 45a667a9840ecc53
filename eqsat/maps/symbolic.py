"""The inverse of a component of an index map with symbolic sizes, and its padding, for all values of the symbols.

What the solvers give holds for all sizes; the prover may still refute it. A given inverse counts only where the prover
shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eqsat.ir.decide import Proof, decider
from eqsat.ir.errors import LayoutError
from eqsat.ir.ranges.map_bounds import at_least, bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import size_term
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute
from eqsat.maps.problem import Problem
from eqsat.maps.solution import for_all_sizes
from eqsat.maps.tidy import tidy


def solve_symbolic(problem: Problem, given: Sequence[Term] | None) -> tuple[list[Term], Term]:
    """The checked inverse, and the predicate of the padding.

    Raises LayoutError where no solution is found, where two points share a cell, and for a given inverse that is wrong
    or cannot be shown.
    """
    found = for_all_sizes(problem)
    if given is not None:
        _check_given(problem, given)
        return list(given), _padding(problem, given, None)
    if found is None:
        proof = decider().injective(problem.outputs, problem.box)
        if proof.verdict == "refuted":
            shown = f"not injective: {dict(proof.witness or {})}"
            raise LayoutError(problem.what, shown, "use a map that keeps cells apart", proof.witness)
        raise LayoutError(
            f"inverse of {problem.what}", "no digit formula inverts it for all sizes", "give the symbols a value"
        )
    values = found.values
    for v, value, proof in _returns(problem, values):
        if proof.verdict == "refuted":
            raise LayoutError(f"inverse of {problem.what}", f"{v} = {value} fails at {dict(proof.witness or {})}")
    return values, _padding(problem, values, found.loose)


def _returns(problem: Problem, values: Sequence[Term]) -> Iterator[tuple[Term, Term, Proof]]:
    """For each input: whether its value, at the outputs, is the input."""
    table = dict(zip(problem.physical, problem.outputs, strict=True))
    for v, value in zip(problem.inputs, values, strict=True):
        yield v, value, decider().prove(t.compare("eq", substitute(value, table), v), problem.box)


def _check_given(problem: Problem, given: Sequence[Term]) -> None:
    for v, value, proof in _returns(problem, given):
        what = f"inverse_index_map of {problem.what}"
        if proof.verdict == "refuted":
            raise LayoutError(what, f"{v} = {value} fails at {dict(proof.witness or {})}")
        if proof.verdict == "unknown":
            raise LayoutError(what, f"{v} = {value} could not be proved", "leave it out to have it computed")


def _padding(problem: Problem, values: Sequence[Term], loose: frozenset[int] | None) -> Term:
    if size_term(problem.extents) is size_term(problem.declared):
        return t.FALSE
    box = {p: (t.index_const(0), t.as_index(e) - 1) for p, e in zip(problem.physical, problem.declared, strict=True)}
    claims = problem.conditions(values)
    kept: list[Term] = []
    for n, (value, extent) in enumerate(zip(values, problem.extents, strict=True)):
        bound = bounds(value, box)
        if bound is None or not at_least(t.as_index(extent) - bound.high, 1):
            kept.append(claims[2 * n])
        if bound is None or not at_least(bound.low):
            kept.append(claims[2 * n + 1])
    back = claims[2 * len(values) :]
    kept += back if loose is None else [back[k] for k in sorted(loose)]
    return t.logical_or(*tidy(_possible(problem, kept), problem.cells))


def _possible(problem: Problem, claims: Sequence[Term]) -> list[Term]:
    """The claims that are not shown to hold nowhere, or only where earlier ones do."""
    kept: list[Term] = []
    for claim in claims:
        if not decider().prove(t.logical_or(*kept, t.logical_not(claim)), problem.cells):
            kept.append(claim)
    return kept
