"""Claims about the outputs of index maps that any prover can decide: that they are defined, that two maps agree."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

from eqsat.ir.decide import Proof, decider
from eqsat.ir.errors import LayoutError
from eqsat.ir.layouts.map_extent import declared_extent, partial
from eqsat.ir.map_on_box import MapOnBox
from eqsat.ir.points import ENUMERATION_LIMIT
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, as_shape, format_shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts, free_variables

if TYPE_CHECKING:
    from eqsat.ir.layouts.index_map import IndexMap


def defined(term: Term) -> Term:
    """A claim that holds exactly where an index term is defined."""
    return t.compare("eq", term, term)


def require_defined(m: MapOnBox) -> None:
    """Raise LayoutError where an output may be undefined at a point of a box too large to try."""
    if m.numbers is None or prod(m.numbers[0]) <= ENUMERATION_LIMIT or not partial(*m.outputs):
        return
    for output in m.outputs:
        proof = decider().prove(defined(output), m.box)
        if proof.verdict == "refuted":
            at = ", ".join(f"{name} = {value}" for name, value in (proof.witness or {}).items())
            raise LayoutError(m.what, f"{output} is undefined at {at}")
        if proof.verdict == "unknown":
            raise LayoutError(m.what, f"{output} may be undefined at a point of the box")


def equivalent(inputs: Sequence[Term], extents: Shape, first: Sequence[Term], second: Sequence[Term]) -> Proof:
    """Whether outputs over the same inputs agree at every index of a shape."""
    if len(first) != len(second):
        return Proof("refuted", None, "rank", note=f"{len(first)} and {len(second)} outputs")
    claim = t.logical_and(*(t.compare("eq", a, b) for a, b in zip(first, second, strict=True) if a is not b))
    claim = t.logical_and(*(p for p in conjuncts(claim) if not _reflexive(p)))
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


def on_box(m: IndexMap, sizes: tuple[Term, ...]) -> MapOnBox:
    """A map on a shape as a prover is asked about it; LayoutError where an output is negative or undefined there."""
    return _on_box(m, m.names, sizes)


@lru_cache(maxsize=1024)
def _on_box(m: IndexMap, names: tuple[str, ...], sizes: tuple[Term, ...]) -> MapOnBox:
    """The same; maps are equal whatever their variables are called, but are shown by their own names."""
    del names
    extents = as_shape(sizes)
    variables, outputs = m.on_shape(extents)

    def title() -> str:
        return f"map {m} on {format_shape(extents)}"

    axes = dict(zip(variables, extents, strict=True))
    declared = tuple(declared_extent(o, axes, title) for o in outputs)
    prefix = next(p for p in ("p", "q", "phys_") if not any(n.startswith(p) for n in m.names) or p == "phys_")
    physical = tuple(t.var(f"{prefix}{n}", e if isinstance(e, Term) else None) for n, e in enumerate(declared))
    back = m.inverse_index_map
    given = None if back is None else tuple(t.as_index(i) for i in back.map_indices(physical))
    question = MapOnBox(title, variables, extents, outputs, physical, declared, given)
    require_defined(question)
    return question
