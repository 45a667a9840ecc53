"""Whether an index map is bijective."""

from __future__ import annotations

from math import prod

from eqsat.ir.decide import Proof, decider
from eqsat.ir.errors import LayoutError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import size_term, static_shape
from eqsat.ir.terms.term import Term
from eqsat.maps.injective import injective, missed_cell
from eqsat.maps.inverse import inverse
from eqsat.maps.problem import Problem


def bijective(problem: Problem) -> Proof:
    """Whether every cell of the declared shape belongs to exactly one point."""
    proof = injective(problem)
    if proof.verdict != "proved":
        return proof
    if problem.numbers is not None and prod(problem.numbers[0]) == prod(problem.numbers[1]):
        return proof
    if problem.numbers is None and all(size_term(p.extents) is size_term(p.declared) for p in problem.parts):
        return proof
    if static_shape(problem.extents) is None or static_shape(problem.declared) is None:
        try:
            padding = inverse(problem).padding
        except LayoutError as error:
            return Proof("unknown", method=proof.method, note=str(error))
        return _without_padding(problem, padding, proof.method)
    cell = missed_cell(problem)
    try:
        cell = inverse(problem).some_padding if cell is None else cell
    except LayoutError as error:
        return Proof("refuted", None, "counting", note=str(error))
    return Proof("refuted", None if cell is None else {"padding": cell}, "counting", note="cells without an index")


def _without_padding(problem: Problem, padding: Term, method: str) -> Proof:
    """Whether the padding of an injective map with symbolic sizes is empty for all of them."""
    if padding is t.FALSE:
        return Proof("proved", method=method)
    empty = decider().prove(t.logical_not(padding), problem.cells)
    note = f"padding where {padding}"
    if empty.verdict != "refuted" or empty.witness is None:
        return Proof(empty.verdict, method=empty.method, note="" if empty else note)
    values = dict(empty.witness)
    cell = tuple(values.pop(str(p), 0) for p in problem.physical)
    return Proof("refuted", {"padding": cell, **values}, empty.method, note=note)
