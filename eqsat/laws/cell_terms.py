"""Maps and cells of values as terms of one index: what conditions of laws ask a prover about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.ir.flat.formula import address_at, valid_at
from eqsat.ir.flat.size_terms import as_extent
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import map_loads, nodes_of, substitute, transform
from eqsat.operators.interned import Hub, Interned, Leaf, ViewOf
from eqsat.operators.labels import CanonicalOp, ComputeKind, Coordinate, Slot

MOST_CELLS = 400
"""So many cells of values are unfolded for one question; what lies behind them is any value."""


def digits_at(operator: CanonicalOp, order: Sequence[int], i: Term) -> dict[int, Term]:
    """The position on each label of a flat index over an order of labels."""
    found: dict[int, Term] = {}
    inner = t.index_const(1)
    for label in reversed(order):
        extent = t.as_index(as_extent(operator.labels[label].extent))
        found[label] = i // inner % extent
        inner = inner * extent
    return found


def _axes_at(operator: CanonicalOp, digits: Mapping[int, Term]) -> dict[Term, Term]:
    """The axes that a formula computes with, by the positions on the labels."""
    assert isinstance(operator.kind, ComputeKind)
    slots = {
        x.name.number: digits[n] for n, x in enumerate(operator.labels) if isinstance(x.name, Slot) and n in digits
    }
    axes = nodes_of("axis", operator.kind.body)
    return {axis: slots[axis.payload[1]] for axis in axes if axis.payload[1] in slots}


def read_at(operator: CanonicalOp, k: int, i: Term) -> Term:
    """The flat cell of operand k that a selection copies to an index of its result, where it takes that operand."""
    assert isinstance(operator.kind, ComputeKind)
    digits = digits_at(operator, operator.outputs[0], i)
    table = _axes_at(operator, digits)
    load = next(x for x in nodes_of("load", operator.kind.body) if x.payload == k)
    index = t.index_const(0)
    for n in operator.operands[k]:
        label = operator.labels[n]
        at = substitute(load.args[label.name.number], table) if isinstance(label.name, Coordinate) else digits[n]
        index = index * t.as_index(as_extent(label.extent)) + at
    return index


def takes_at(operator: CanonicalOp, k: int, i: Term) -> Term:
    """Whether a selection takes operand k at an index of its result, as a term."""
    assert isinstance(operator.kind, ComputeKind)
    table = _axes_at(operator, digits_at(operator, operator.outputs[0], i))
    taken, open_ = t.FALSE, t.TRUE
    body = operator.kind.body
    while True:
        here, rest = (body.args[1], body.args[2]) if body.op == "where" else (body, None)
        condition = t.TRUE if rest is None else substitute(body.args[0], table)
        if here.payload == k:
            taken = t.logical_or(taken, t.logical_and(open_, condition))
        if rest is None:
            return taken
        open_ = t.logical_and(open_, t.logical_not(condition))
        body = rest


def source_of(value: int) -> str:
    """What the cells of a value that is not unfolded are loaded from."""
    return f"value {value}"


class Cells:
    """Cells of values as formulas, unfolded through views and operators."""

    def __init__(self, interned: Interned) -> None:
        self.interned = interned
        self.left = MOST_CELLS
        self._known: dict[tuple[int, Term], Term] = {}

    def at(self, value: int, i: Term) -> Term:
        """The formula of a value's cell at flat index i; what has no formula, or lies too deep, is a load."""
        key = value, i
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._unfolded(value, i)
        return found

    def _unfolded(self, value: int, i: Term) -> Term:
        interned = self.interned
        known = interned.constants.get(value)
        if known is not None:
            return known
        item = interned.values[value]
        opaque = t.load(source_of(value), [i], interned.types[value].dtype)
        self.left -= 1
        if isinstance(item, Leaf) or self.left < 0:
            return opaque
        if isinstance(item, ViewOf):
            view = interned.reindexes[item.reindex]
            inner = self.at(item.base, address_at(view.map, i))
            return inner if view.fill is None else t.where(valid_at(view.map, i), inner, view.fill)
        operator = interned.operators[item.operator]
        if not isinstance(operator.kind, ComputeKind) or operator.kind.combiner is not None:
            return self.reduced(item, i, opaque)
        found = self.body(operator, dict(enumerate(item.operands)), digits_at(operator, operator.outputs[0], i))
        return opaque if found is None else found

    def reduced(self, hub: Hub, i: Term, opaque: Term) -> Term:
        """The cell of a result that has no formula of its own: of which nothing is known."""
        del hub, i
        return opaque

    def body(self, operator: CanonicalOp, values: Mapping[int, int], digits: Mapping[int, Term]) -> Term | None:
        """What a formula computes of some operands (of others: any cells) at positions on its labels; None where it
        computes with an axis of which no position is given."""
        assert isinstance(operator.kind, ComputeKind)
        body = operator.kind.body
        table = _axes_at(operator, digits)
        if any(axis not in table for axis in nodes_of("axis", body)):
            return None

        def cell(load: Term) -> Term:
            if isinstance(load.payload, Table):  # numbers that the formula itself holds
                return load
            index, k = t.index_const(0), int(load.payload)
            for n in operator.operands[k]:
                label = operator.labels[n]
                at = load.args[label.name.number] if isinstance(label.name, Coordinate) else digits[n]
                index = index * t.as_index(as_extent(label.extent)) + at
            return self.at(values[k], index) if k in values else t.load(f"operand {k}", [index], load.dtype)

        return map_loads(substitute(body, table), cell)


def same_cell(a: Term, b: Term) -> Term:
    """A condition under which two piecewise formulas are the same value, bit by bit."""
    if a is b:
        return t.TRUE
    for x, y in ((a, b), (b, a)):
        if x.op == "where" and not nodes_of("load", x.args[0]):
            then, other = same_cell(x.args[1], y), same_cell(x.args[2], y)
            return t.logical_or(t.logical_and(x.args[0], then), t.logical_and(t.logical_not(x.args[0]), other))
    if a.op == "load" and b.op == "load" and a.payload == b.payload and len(a.args) == len(b.args):
        return t.logical_and(*(t.compare("eq", x, y) for x, y in zip(a.args, b.args, strict=True)))
    return t.FALSE


def folded(cell: Term) -> Term:
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
