"""Does a region of a value hold the pad value? The question behind pad(crop(x), v) = x, asked of a prover."""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.graph.labels import ComputeKind, Signed
from eqsat.graph.universe import Hub, Leaf, Universe, ViewOf
from eqsat.ir.decide import Proof, decider
from eqsat.ir.flat.map import FlatMap
from eqsat.ir.flat.size_terms import as_extent
from eqsat.ir.flat.table import Map
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import leaves, map_loads, transform

MAX_DEPTH = 6


@dataclass(frozen=True)
class Obligation:
    """A side condition that the search met: what was asked, and the verdict."""

    question: str
    proof: Proof


def region_holds(universe: Universe, value: int, m: Map, fill: Term) -> Proof:
    """Is every cell of a value outside of the window of m equal, bit by bit, to the fill?"""
    n = universe.types[value].size
    if not isinstance(m, FlatMap) or not isinstance(n, int):
        return Proof("unknown", method="regions", note="symbolic or irregular window")
    i = t.ax(0, as_extent(n))
    cell = cell_of(universe, value, i, MAX_DEPTH)
    if cell is None:
        return Proof("unknown", method="regions", note="the value has no formula")
    cell = _folded(cell)
    outside = t.logical_not(valid_at(m, i))
    claim = _holds(cell, fill)
    if claim is None:
        return Proof("unknown", method="regions", note=f"{cell} is not piecewise constant")
    return decider().prove(t.logical_or(t.logical_not(outside), claim), {i: (0, n)})


def _holds(cell: Term, fill: Term) -> Term | None:
    """The condition under which a piecewise formula is bitwise the fill; pieces that are not constants never are."""
    if cell is fill:
        return t.TRUE
    if cell.op == "const":
        return t.FALSE
    if cell.op == "where":
        then, other = _holds(cell.args[1], fill), _holds(cell.args[2], fill)
        if then is None or other is None or leaves("load", cell.args[0]):
            return None
        return t.logical_or(t.logical_and(cell.args[0], then), t.logical_and(t.logical_not(cell.args[0]), other))
    return t.FALSE


def address_at(m: FlatMap, i: Term) -> Term:
    """The source index of output index i, as a term."""
    address, inner = t.as_index(as_extent(m.offset)), t.index_const(1)
    for d in reversed(m.digits):
        digit = i // inner % t.as_index(as_extent(d.extent))
        address = address + digit * t.as_index(as_extent(d.stride))
        inner = inner * t.as_index(as_extent(d.extent))
    return address


def valid_at(m: FlatMap, i: Term) -> Term:
    """Whether output index i reads the source, as a term."""
    checks: list[Term] = []
    inner = t.index_const(1)
    for d in reversed(m.digits):
        digit = i // inner % t.as_index(as_extent(d.extent))
        if d.lo != 0:
            checks.append(t.compare("le", t.as_index(as_extent(d.lo)), digit))
        if d.hi != d.extent:
            checks.append(t.compare("lt", digit, t.as_index(as_extent(d.hi))))
        inner = inner * t.as_index(as_extent(d.extent))
    return t.logical_and(*checks)


def cell_of(universe: Universe, value: int, i: Term, depth: int) -> Term | None:
    """The formula of a value's cell at flat index i; what lies deeper than `depth` operators is an opaque load."""
    known = universe.constants.get(value)
    if known is not None:
        return known
    item = universe.values[value]
    opaque = t.load(f"value {value}", [i], universe.types[value].dtype)
    if isinstance(item, Leaf) or depth == 0:
        return opaque
    if isinstance(item, ViewOf):
        view = universe.reindexes[item.reindex]
        if not isinstance(view.map, FlatMap):
            return opaque
        inner = cell_of(universe, item.base, address_at(view.map, i), depth)
        if inner is None or view.fill is None:
            return inner
        return t.where(valid_at(view.map, i), inner, view.fill)
    signed = universe.signed[item.signed]
    if (
        not isinstance(signed.kind, ComputeKind)
        or signed.kind.combiner is not None
        or any(x.name for x in signed.labels)
    ):
        return opaque
    return _applied(universe, item, signed, i, depth)


def _applied(universe: Universe, hub: Hub, signed: Signed, i: Term, depth: int) -> Term | None:
    digits: dict[int, Term] = {}
    inner = t.index_const(1)
    for label in reversed(signed.outputs[0]):
        extent = t.as_index(as_extent(signed.labels[label].extent))
        digits[label] = i // inner % extent
        inner = inner * extent
    cells: list[Term] = []
    for order, operand in zip(signed.operands, hub.operands, strict=True):
        index = t.index_const(0)
        for label in order:
            index = index * t.as_index(as_extent(signed.labels[label].extent)) + digits[label]
        cell = cell_of(universe, operand, index, depth - 1)
        if cell is None:
            return None
        cells.append(cell)
    assert isinstance(signed.kind, ComputeKind)
    return map_loads(signed.kind.body, lambda load: cells[load.payload] if isinstance(load.payload, int) else load)


def _folded(cell: Term) -> Term:
    """Operators pushed into the pieces of `where`, and evaluated, in their dtype, where all arguments are constants."""

    def change(node: Term) -> Term | None:
        if node.op in ("where", "const", "load", "axis") or node.dtype == t.INDEX or not node.args:
            return None
        for n, a in enumerate(node.args):
            if a.op == "where" and all(b.op == "const" for m, b in enumerate(node.args) if m != n):
                pieces = [
                    t.make(node.op, [*node.args[:n], p, *node.args[n + 1 :]], node.payload, node.dtype)
                    for p in a.args[1:]
                ]
                changed = [change(p) for p in pieces]
                return t.where(a.args[0], *(p if c is None else c for p, c in zip(pieces, changed, strict=True)))
        if all(a.op == "const" for a in node.args) and node.dtype != t.BOOL:
            value, bad = evaluate_masked([node], {})[0]
            return None if bad is not None else t.const(value[()], node.dtype)
        return None

    return transform(cell, change)
