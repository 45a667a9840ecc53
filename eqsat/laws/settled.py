"""Where the result of an operator is one value, whatever its operands hold elsewhere: all around a part of it.

What is combined for a cell is unfolded into pieces, each under conditions on the index. Where all pieces that
conditions on the result's own axes leave are one constant, the cell is what so many of that constant are combined to:
in their dtype, and only if the order makes no difference. A sum of zeros of either sign is 0, for it begins with 0.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eqsat.ir.dtypes import BFLOAT16, BOOL, COMPLEX, NDArray, is_float
from eqsat.ir.flat.map import Digit, FlatMap, digit, from_digits
from eqsat.ir.flat.size_terms import as_extent
from eqsat.ir.flat.sizes import Size, add, leaves_room, mul, number, product
from eqsat.ir.rule import Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, transform
from eqsat.laws.cell_terms import Cells
from eqsat.laws.neutral import Filled, LeftOut, filled, finite_sources, outside_of, padded_shapes
from eqsat.laws.pieces import Conditions, holding, is_zero, pieces_of
from eqsat.operators.labels import CanonicalOp, ComputeKind, Coordinate, Name
from eqsat.operators.within import in_digits, labels_of
from eqsat.proving.rules import normaliser
from eqsat.rewriting.rewrite import Session

BITS: Mapping[str, int] = {"float16": 11, "float32": 24, "float64": 53, BFLOAT16: 8}
"""Whole numbers of so many bits are exact in a type."""


@dataclass(frozen=True, eq=False)
class Settled(Record):
    """The part of a result outside of which it is one value, where that part is in the result, and the statement,
    about the axes of a box, that it is."""

    part: FlatMap
    back: FlatMap
    value: Term
    claim: Term
    box: Mapping[Term, tuple[int, int | None]] = field(default_factory=dict[Term, "tuple[int, int | None]"])
    assuming: Term | None = None


@dataclass(frozen=True, eq=False)
class Around(Record):
    """A result with its labels in digits, the axes of these, and where it is one of some values: each under conditions
    on the axes. `filled`: these axes over symbols that are as large as a box with cells makes them."""

    operator: CanonicalOp
    axes: Mapping[int, Term]
    filled: Filled
    cells: Sequence[tuple[Conditions, Term]]

    def part(self, bundles: Collection[Name] = ()) -> Settled | None:
        """The smallest part beyond which the result is one value, cut along labels and some bundles."""
        kept = {n: self.filled.term(self.axes[n]) for n in cut_labels(self.operator, bundles)}
        return best(self.operator, self.cells, kept, self.filled.extents) if kept else None


def settled(
    cells: Cells, operator: CanonicalOp, values: Mapping[int, int], rules: tuple[Rule, ...] = ()
) -> Settled | None:
    """The part of the result of an operator over some values, by operand, beyond which it may be one value (proposed,
    not proved); None where there is none."""
    found = around(cells, operator, values, rules)
    return None if found is None else found.part()


def around(
    cells: Cells, operator: CanonicalOp, values: Mapping[int, int], rules: tuple[Rule, ...] = ()
) -> Around | None:
    """Where the result of an operator over some values is one value; None where nothing pads them."""
    kind, interned = operator.kind, cells.interned
    if not isinstance(kind, ComputeKind) or kind.identity or len(operator.outputs) != 1 or kind.dtypes[0] in COMPLEX:
        return None
    shapes = [(k, x) for k, value in values.items() for x in dict.fromkeys(padded_shapes(interned, value))]
    whole = in_digits(operator, shapes, "map") if shapes else operator
    if not shapes or not cut_labels(whole):
        return None
    axes = {n: t.ax(n, as_extent(whole.labels[n].extent)) for n in labels_of(whole)}
    body = cells.body(whole, values, axes)
    if body is None:
        return None
    raised = filled({a: whole.labels[n].extent for n, a in axes.items()})
    extents = {a: x for a, x in raised.extents.items() if isinstance(x, int)}
    session = Session(normaliser(rules), {a: (0, x) for a, x in extents.items()})
    own = {raised.term(axes[n]) for n in whole.outputs[0]}
    count = product([*(whole.labels[n].extent for n in _along(whole)), *kind.idle])
    normal, finite = session.normal(raised.term(body)), finite_sources(interned)
    return Around(whole, axes, raised, list(settled_cells(normal, own, kind.combiner, count, finite)))


def cut_labels(operator: CanonicalOp, bundles: Collection[Name] = ()) -> list[int]:
    """The labels of a result along which an operator may be cut."""
    labels = ((n, operator.labels[n]) for n in operator.outputs[0])
    return [n for n, x in labels if x.role == "map" and (not x.name or x.name in bundles)]


def _along(operator: CanonicalOp) -> Iterator[int]:
    """The axes along which an operator combines several values for a cell."""
    for n in labels_of(operator):
        if n not in operator.outputs[0] and not isinstance(operator.labels[n].name, Coordinate):
            yield n


def settled_cells(
    body: Term,
    own: Collection[Term],
    combiner: str | None,
    count: Size,
    finite: Collection[str],
) -> Iterator[tuple[Conditions, Term]]:
    """Conditions on some axes under which what is combined over all others is a constant, and that constant."""
    pieces = pieces_of(transform(body, lambda x: _in_turn(x, own)))
    parts = [({c: yes for c, yes in found.items() if _is_of(c, own)}, x) for found, x in pieces]
    zero = _zero(body.dtype) if combiner == "sum" else None
    known = [zero if zero is not None and is_zero(x, finite) else x if x.op == "const" else None for _, x in parts]
    done = set[frozenset[tuple[Term, bool]]]()
    for conditions, _ in parts:
        key = frozenset(conditions.items())
        if key in done:
            continue
        done.add(key)
        left = [n for n, (other, _) in enumerate(parts) if _agree(conditions, other)]
        values = {known[n] for n in left}
        value = values.pop() if len(values) == 1 else None
        result = None if value is None else combined(combiner, value, count)
        if result is not None:
            yield conditions, result


def _in_turn(x: Term, own: Collection[Term]) -> Term | None:
    """A choice by several conditions as choices in turn: first by those on some axes alone."""
    if x.op != "where" or x.args[0].op != "and":
        return None
    known = [_is_of(c, own) for c in x.args[0].args]
    mine, rest = ([c for c, k in zip(x.args[0].args, known, strict=True) if k is wanted] for wanted in (True, False))
    if not mine or not rest:
        return None
    return t.where(t.logical_and(*mine), t.where(t.logical_and(*rest), *x.args[1:]), x.args[2])


def _is_of(condition: Term, own: Collection[Term]) -> bool:
    """Whether a condition is one on some axes alone."""
    return set(own).issuperset(nodes_of("axis", condition))


def _agree(a: Conditions, b: Conditions) -> bool:
    return all(b.get(c, yes) == yes for c, yes in a.items())


def combined(combiner: str | None, value: Term, count: Size) -> Term | None:
    """What a combiner makes of so many equal constants; None where that is not known, or depends on their order.

    >>> print(combined("sum", t.const(3, "int8"), 50), combined("sum", t.const(0.1, "float32"), 50))
    int8(-106) None
    """
    if combiner is None or (combiner in ("max", "min") and leaves_room(1, count)):
        return value
    held, dtype = np.asarray(t.const_value(value)), value.dtype
    if combiner == "sum":
        if held == 0:
            return _zero(dtype)
        return _sum(held, dtype, count) if leaves_room(1, count) else None
    if combiner == "prod" and (held == 1 or (held == 0 and not _is_negative(held) and leaves_room(1, count))):
        return value
    return None


def _zero(dtype: str) -> Term:
    return t.const(False if dtype == BOOL else 0, dtype)


def _is_negative(held: NDArray) -> bool:
    return is_float(held.dtype.name) and bool(np.signbit(held))


def _sum(held: NDArray, dtype: str, count: Size) -> Term | None:
    """So many times a number."""
    if dtype == BOOL:
        return t.const(True, dtype)
    if not is_float(dtype):
        bits = 8 * np.dtype(dtype).itemsize
        return None if not isinstance(count, int) else t.const(_wrapped(int(held) * count, bits, dtype), dtype)
    x = float(held)
    if not math.isfinite(x):
        return t.const(x, dtype)  # as many of them as there may be
    whole = x.as_integer_ratio()[0]  # of parts that are a power of two, as are those of each sum of some of them
    odd = whole // (whole & -whole)
    if not isinstance(count, int) or abs(odd) * count > 1 << BITS[dtype]:
        return None
    made = t.const(x * count, dtype)
    return made if np.isfinite(np.asarray(t.const_value(made))) else None


def _wrapped(x: int, bits: int, dtype: str) -> int:
    x %= 1 << bits
    return x - (1 << bits) if dtype.startswith("int") and x >> (bits - 1) else x


# -- the part ----------------------------------------------------------------------------------------------------------


def best(
    whole: CanonicalOp,
    cells: Sequence[tuple[Conditions, Term]],
    cut: Mapping[int, Term],
    extents: Mapping[Term, Size],
) -> Settled | None:
    """The smallest part beyond which a result is one of some values, each under conditions: a box of some labels."""
    found: list[tuple[float, Settled]] = []
    for value in dict.fromkeys(x for _, x in cells):
        idle = t.logical_or(t.FALSE, *(holding(c) for c, x in cells if x is value))
        outside = outside_of(whole, idle, cut, extents, 1)
        made = None if outside is None else _parted(outside, value)
        if outside is not None and made is not None:
            left = math.prod((hi - lo) / number(whole.labels[n].extent) for n, (lo, hi) in outside.kept.items())
            found.append((left, made))
    return min(found, key=lambda x: x[0])[1] if found else None


def _parted(outside: LeftOut, value: Term) -> Settled | None:
    """The part of a result that is kept, and where it is, as maps."""
    operator, kept = outside.operator, outside.kept
    part, back = list[Digit](), list[Digit]()
    start: Size | None = 0
    first: Size | None = 0
    whole: Size = 1
    inner: Size = 1
    for n in reversed(operator.outputs[0]):
        extent = operator.labels[n].extent
        low, high = kept.get(n, (0, extent))
        width = kept[n][1] - low if n in kept else extent
        part.insert(0, digit(width, whole))
        back.insert(0, digit(extent, inner, low, high))
        start = None if start is None else add(start, mul(low, whole))
        first = None if first is None else add(first, mul(-low, inner))
        whole, inner = mul(whole, extent), mul(inner, width)
    if start is None or first is None:
        return None
    maps = from_digits(whole, part, start), from_digits(inner, back, first)
    return Settled(*maps, value, outside.claim, outside.box, outside.assuming)
