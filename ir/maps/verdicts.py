"""Verdicts about index maps: whether one is bijective, whether two are the same on a shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from eqsat.ir.decide import Proof, decider
from eqsat.ir.errors import LayoutError
from eqsat.ir.maps.injective import injective, missed_cell
from eqsat.ir.maps.inverse import Inverse
from eqsat.ir.maps.problem import Problem
from eqsat.ir.tensors.shape import Shape, size_term, static_shape
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import free_variables


def bijective(problem: Problem, inverse: Callable[[], Inverse]) -> Proof:
    """Whether every cell of the declared shape belongs to exactly one point; `inverse` may raise a LayoutError."""
    proof = injective(problem)
    if proof.verdict != "proved":
        return proof
    if problem.numbers is not None and prod(problem.numbers[0]) == prod(problem.numbers[1]):
        return proof
    if problem.numbers is None and all(size_term(p.extents) is size_term(p.declared) for p in problem.parts):
        return proof
    if static_shape(problem.extents) is None or static_shape(problem.declared) is None:
        try:
            padding = inverse().padding
        except LayoutError as error:
            return Proof("unknown", method=proof.method, note=str(error))
        return _without_padding(problem, padding, proof.method)
    cell = missed_cell(problem)
    try:
        cell = inverse().some_padding if cell is None else cell
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


def equivalent(inputs: Sequence[Term], extents: Shape, first: Sequence[Term], second: Sequence[Term]) -> Proof:
    """Whether outputs over the same inputs agree at every index of a shape."""
    if len(first) != len(second):
        return Proof("refuted", None, "rank", note=f"{len(first)} and {len(second)} outputs")
    claim = t.logical_and(*(t.compare("eq", a, b) for a, b in zip(first, second, strict=True) if a is not b))
    claim = t.logical_and(*(p for p in (claim.args if claim.op == "and" else (claim,)) if not _reflexive(p)))
    if claim is t.TRUE:
        return Proof("proved", method="structure")
    if any(isinstance(e, int) and e == 0 for e in extents):
        return Proof("proved", method="empty box")
    box = {v: (0, e) for v, e in zip(inputs, extents, strict=True) if isinstance(e, int)}
    claim = decider().simplify([claim], box)[0]
    used = set(free_variables(claim))
    proof = decider().prove(claim, {v: span for v, span in box.items() if v in used})
    if proof.verdict != "refuted":
        return proof
    given = dict(proof.witness or {})
    point = {str(v): given.pop(str(v), 0) for v in inputs}
    return Proof("refuted", {**point, **given}, proof.method, proof.seconds, proof.note, proof.assumptions)


def _reflexive(claim: Term) -> bool:
    return claim.op == "eq" and claim.args[0] is claim.args[1]
