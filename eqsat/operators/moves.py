"""What becomes of an operator in normal form when views of its operands, or of its result, change places with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.ir.dtypes import BOOL, COMPLEX, NDArray, highest, is_float, lowest
from eqsat.ir.flat.align import common_refinement
from eqsat.ir.flat.formula import composed
from eqsat.ir.flat.map import Digit, FlatMap, from_digits
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.refine import Part, refine
from eqsat.ir.flat.sizes import Size, mul, total
from eqsat.ir.flat.table import Listed, Map, TableMap, rows_in
from eqsat.ir.flat.tabled import tabled
from eqsat.ir.flat.term_map import TermMap
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of
from eqsat.operators.labels import CanonicalOp, ComputeKind, Coordinate, Label, OpBuilder, Slot, canonicalise


@dataclass(frozen=True)
class Under:
    """An operator over what its operands are views of, and the layout in which it has the result."""

    operator: CanonicalOp
    layout: Map


@dataclass(frozen=True)
class Over:
    """An operator over views of its operands (None: as it is), and the layout in which it has the result."""

    operator: CanonicalOp
    layout: Map
    views: tuple[Map | None, ...]


def varying(operator: CanonicalOp) -> tuple[int, ...]:
    """The operands that have axes; any other is the same at every index."""
    return tuple(k for k, order in enumerate(operator.operands) if order)


def is_pointwise(operator: CanonicalOp) -> bool:
    """Whether each cell depends on one cell of each operand, at plain labels only."""
    kind = operator.kind
    return (
        isinstance(kind, ComputeKind)
        and kind.combiner is None
        and len(operator.outputs) == 1
        and all(not x.name for x in operator.labels)
        and set(operator.outputs[0]) == set(range(len(operator.labels)))
    )


def access(operator: CanonicalOp, k: int) -> FlatMap | None:
    """The cell of operand k that each cell of the result reads; None where that is no one cell, by axes alone."""
    strides: dict[int, Size] = {}
    inner: Size = 1
    for i in reversed(operator.operands[k]):
        at = _followed(operator, k, i)
        if at is None or at in strides or operator.labels[at].extent != operator.labels[i].extent:
            return None
        strides[at] = inner
        inner = mul(inner, operator.labels[i].extent)
    return from_digits(inner, [Digit(x.extent, strides.get(i, 0), 0, x.extent) for i, x in _output(operator)])


def _followed(operator: CanonicalOp, k: int, i: int) -> int | None:
    """The label of the result that a label of operand k is, or that the operand's coordinate there is."""
    name = operator.labels[i].name
    if isinstance(name, Coordinate) and isinstance(operator.kind, ComputeKind):
        load = next(x for x in nodes_of("load", operator.kind.body) if x.payload == k)
        index = load.args[name.number]
        if index.op != "axis":
            return None
        slot = Slot(index.payload[1])
        i = next((n for n in operator.outputs[0] if operator.labels[n].name == slot), -1)
    return i if i in operator.outputs[0] else None


def _output(operator: CanonicalOp) -> list[tuple[int, Label]]:
    return [(i, operator.labels[i]) for i in operator.outputs[0]]


def under(operator: CanonicalOp, size: Size, layouts: Mapping[int, Map] | None = None) -> Under | None:
    """The element-wise operator over flat operands of a size, some of them in layouts: operand k is View(x, layout of
    k). None where labels cannot follow a layout."""
    orders = [[0] if order else list[int]() for order in operator.operands]
    op = OpBuilder(operator.kind, [Label("map", size)], orders, [[0]], [])
    for k, layout in (layouts or {}).items():
        order = op.arrange(op.operands[k], layout)
        if order is None:
            return None
        op.operands[k] = order
    done = canonicalise(op)
    return Under(done.operator, done.output_maps[0])


def over(operator: CanonicalOp, view: Map, fills: bool) -> Over | None:
    """An element-wise operator seen through a view, as the operator over views of its operands.

    `fills`: the view pads, so every operand with axes has to pad where it does. Digits of the view that an operand does
    not have are not its own; where the view has no digits along the operator's axes, all axes become one.
    """
    if not is_pointwise(operator):
        return None
    found: Over | None = None
    if not isinstance(view, TermMap):
        found = _by_digits(operator, view) if isinstance(view, FlatMap) else _by_tables(operator, view)
    if found is None:
        found = _flat(operator, view)
    if found is None or (not fills and not all(m is None or m.is_total for m in found.views)):
        return None
    return found


def _by_digits(operator: CanonicalOp, view: FlatMap) -> Over | None:
    refined = refine(view.digits, view.offset, operator.extents(operator.outputs[0]))
    if refined is None:
        return None
    parts, start = refined
    if any(len(p.steps) > 1 for p in parts):
        return None
    labels = [Label("map", p.extent) for p in parts]
    axis_of = {i: n for n, i in enumerate(operator.outputs[0])}
    operands: list[list[int]] = []
    views: list[Map | None] = []
    for order in operator.operands:
        mine = {axis_of[i] for i in order}
        # A window is the operand's even where it lies on a digit that the operand does not have (a broadcast).
        own = [n for n, p in enumerate(parts) if _axis(p) in mine or (order and _windowed(p))]
        m = _operand_view(operator, order, axis_of, parts, start, own) if order else None
        if order and m is None:
            return None
        operands.append(own)
        views.append(m)
    done = canonicalise(OpBuilder(operator.kind, labels, operands, [list(range(len(parts)))], []))
    return Over(done.operator, done.output_maps[0], tuple(views))


def _by_tables(operator: CanonicalOp, view: TableMap) -> Over | None:
    """An operand has those digits of the view that its cells depend on, and its own part of the view over them."""
    reads: list[Listed | None] = []
    for k, order in enumerate(operator.operands):
        at = access(operator, k) if order else None
        read = None if at is None else compose(at, view)
        if order and (read is None or isinstance(read, TermMap)):
            return None
        reads.append(read if isinstance(read, FlatMap | TableMap) else None)
    extents = list[Size]()
    cut = [d.extent for d in view.digits]
    for read in reads:
        pieces = None if read is None else common_refinement(cut, [d.extent for d in read.digits])
        if read is not None and pieces is None:
            return None
        cut = cut if pieces is None else [extent for _, _, extent in pieces]
    extents = cut
    operands: list[list[int]] = []
    views: list[Map | None] = []
    for read in reads:
        own, m = ([], None) if read is None else _own_digits(read, extents)
        operands.append(own)
        views.append(m)
    labels = [Label("map", extent) for extent in extents]
    done = canonicalise(OpBuilder(operator.kind, labels, operands, [list(range(len(extents)))], []))
    return Over(done.operator, done.output_maps[0], tuple(views))


def _own_digits(m: Listed, extents: Sequence[Size]) -> tuple[list[int], Map | None]:
    """The pieces of an output on which a map depends, and the map over these alone."""
    pieces = common_refinement([d.extent for d in m.digits], extents)
    assert pieces is not None  # the extents refine the digits of every operand
    places = m.looked_up if isinstance(m, TableMap) else frozenset[int]()
    kept = [n for n, d in enumerate(m.digits) if n in places or d.stride != 0 or not d.is_full]
    number = {n: at for at, n in enumerate(kept)}
    rows = [r._replace(places=tuple(number[p] for p in r.places)) for r in rows_in(m)]
    return [k for n, k, _ in pieces if n in number], tabled(m.n_in, [m.digits[n] for n in kept], rows, m.offset)


def _flat(operator: CanonicalOp, view: Map) -> Over | None:
    """All axes as one: each operand is gathered cell by cell."""
    views: list[Map | None] = []
    for k, order in enumerate(operator.operands):
        read = access(operator, k) if order else None
        whole = None if read is None else composed(read, view)
        if order and whole is None:
            return None
        views.append(whole)
    flat = under(operator, view.n_out)
    return None if flat is None else Over(flat.operator, flat.layout, tuple(views))


def _windowed(p: Part) -> bool:
    return p.lo != 0 or p.hi != p.extent


def _axis(p: Part) -> int:
    return p.steps[0][0] if p.steps else -1


def _operand_view(
    operator: CanonicalOp,
    order: Sequence[int],
    axis_of: dict[int, int],
    parts: Sequence[Part],
    start: Sequence[Size],
    own: Sequence[int],
) -> FlatMap | None:
    """The view of one operand: the pieces of its own axes, weighted by the operand's strides."""
    weights: dict[int, Size] = {}
    inner: Size = 1
    for i in reversed(order):
        weights[axis_of[i]] = inner
        inner = mul(inner, operator.labels[i].extent)
    offset: Size = 0
    digits: list[Digit] = []
    for axis, weight in weights.items():
        offset = total(offset, mul(start[axis], weight))
    for n in own:
        p = parts[n]
        stride = mul(p.steps[0][1], weights[_axis(p)]) if _axis(p) in weights else 0
        first = p.lo
        if p.reverse:
            stride, first = mul(-1, stride), total(p.hi, -1)
        offset = total(offset, mul(-1, mul(stride, first)))
        digits.append(Digit(p.extent, stride, p.lo, p.hi))
    return from_digits(inner, digits, offset)


# -- constants ---------------------------------------------------------------------------------------------------------


def applied(operator: CanonicalOp, values: Sequence[Term]) -> Term | None:
    """An element-wise operator on constants, in its dtype; None where undefined or dependent on more than them."""
    kind = operator.kind
    if not isinstance(kind, ComputeKind) or kind.combiner is not None or len(values) != len(operator.operands):
        return None
    if any(nodes_of(op, kind.body) for op in ("axis", "sym", "hole")):
        return None
    arrays = [np.asarray(t.const_value(v)) for v in values]

    def load(source: object, index: Sequence[NDArray]) -> tuple[NDArray, NDArray | None]:
        if isinstance(source, Table):
            return load_table(source, index)
        assert isinstance(source, int)
        return arrays[source], None

    value, bad = evaluate_masked([kind.body], {}, load)[0]
    if bad is not None and bool(np.any(bad)):
        return None
    return t.const(np.asarray(value)[()], kind.dtypes[0])


def fills_for(
    operator: CanonicalOp,
    dtypes: Sequence[str],
    fill: Term,
    more: Sequence[float] = (),
    held: Mapping[int, Term] | None = None,
) -> list[Term] | None:
    """Constants, of one value, for all operands of an element-wise operator (but those of which is known what they
    hold) that it takes to `fill`, bit by bit; tried are some numbers of the type, the constants that it computes with,
    and more."""
    kind, held = operator.kind, held or {}
    dtype = next(d for k, d in enumerate(dtypes) if k not in held)
    used = [*held.values(), *(nodes_of("const", kind.body) if isinstance(kind, ComputeKind) else ())]
    own = [x for x in used if x.dtype == dtype]
    for number in (*_candidates(dtype, fill), *own, *_negatives(own), *_in_type(more, dtype)):
        cast = [t.const(np.asarray(t.const_value(number)).astype(d)[()], d) for d in dtypes]
        values = [held.get(k, x) for k, x in enumerate(cast)]
        if applied(operator, values) is fill:
            return values
    return None


def _negatives(numbers: Sequence[Term]) -> list[Term]:
    """The negatives of numbers of a type that has a sign."""
    signed = [x for x in numbers if is_float(x.dtype)]
    return [t.const(-np.asarray(t.const_value(x))[()], x.dtype) for x in signed]


def _in_type(numbers: Sequence[float], dtype: str) -> list[Term]:
    """Numbers in a type: in floats rounded, in others only those that it has."""
    if dtype == BOOL or dtype in COMPLEX:
        return []
    if is_float(dtype):
        return [t.const(np.asarray(n, dtype)[()], dtype) for n in numbers]
    return [t.const(int(n), dtype) for n in numbers if n == int(n) and lowest(dtype) <= n <= highest(dtype)]


def _candidates(dtype: str, fill: Term) -> list[Term]:
    values: list[Term] = [fill] if fill.dtype == dtype else []
    for number in (*(() if dtype == BOOL else (0, 1)), lowest(dtype), highest(dtype)):
        values.append(t.const(number, dtype))
    if is_float(dtype):
        values += [t.const(-0.0, dtype), t.const(-1.0, dtype)]
    elif dtype.startswith("int"):
        values.append(t.const(-1, dtype))
    return values
