"""Selections by the position on one axis (a concatenation, a roll) over views of one value, as one view of it: what is
read along that axis is a table, and all other axes, of any size, stay as they are.

    concat(x[3:9], x[0:3]) = roll(x, -3);    concat(x[4:8], x[4:8], x[0:4]) = x[table], table = 4 5 6 7 4 5 6 7 0 1 2 3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.flat.align import common_refinement
from eqsat.ir.flat.map import Digit, FlatMap, IntArray, digit
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.recognise import Rows
from eqsat.ir.flat.sizes import Size, common, div, mul, number
from eqsat.ir.flat.table import Lookup, Map, TableMap
from eqsat.ir.flat.tabled import tabled
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, symbols
from eqsat.operators.labels import CanonicalOp, ComputeKind, Coordinate, Kind, Slot, order_map

T = TypeVar("T")


def is_selection(operator: CanonicalOp) -> bool:
    """Whether an operator in normal form copies cells of two or more operands."""
    return _selects(operator.kind)


def _selects(kind: object) -> bool:
    return isinstance(kind, ComputeKind) and kind.combiner is None and kind.body.op == "where" and selects(kind.body)


def of_kind(known: Mapping[object, T], kind: Kind) -> T:
    """What is known of operators of a kind. A part of a selection counts from another position, and so has a kind of
    its own: of that, what is known of selections between as many operands.

    Errors: nothing is known of them (KeyError).
    """
    wanted = None if kind in known else _between(kind)
    found = (x for other, x in known.items() if wanted is not None and _between(other) == wanted)
    return next(found, None) or known[kind]


def _between(kind: object) -> tuple[int, tuple[str, ...]] | None:
    """How many operands a kind of selection has, and of which dtype."""
    return (len(nodes_of("load", kind.body)), kind.dtypes) if isinstance(kind, ComputeKind) and _selects(kind) else None


def selects(body: Term) -> bool:
    """Whether a formula is a tree of `where` over loads, conditions and coordinates by position."""
    while body.op == "where":
        if not _by_position(body.args[1]) or nodes_of("load", body.args[0]):
            return False
        body = body.args[2]
    return _by_position(body)


def _by_position(load: Term) -> bool:
    """Whether a term is the load of a cell whose place no other load tells."""
    return load.op == "load" and not nodes_of("load", *load.args)


@dataclass(frozen=True)
class Along:
    """The label by which a selection selects; per position there, the operand, and the position in it."""

    label: int
    owner: NDArray
    position: NDArray


@dataclass
class _Part:
    """A view over the labels of the result: digits and tables beside the label, and what is read along it."""

    offset: Size
    digits: list[Digit] = field(default_factory=list[Digit])
    lookups: list[Lookup] = field(default_factory=list[Lookup])
    steps: list[tuple[Size, IntArray]] = field(default_factory=list[tuple[Size, IntArray]])
    place: int = 0
    """How many digits stand before the label."""


def stacked(operator: CanonicalOp, maps: Sequence[Map]) -> Map | None:
    """The selection between views by maps, which pad nothing, of one value, as one view; None where the views differ
    beside one axis."""
    along = along_one_axis(operator)
    if along is None:
        return None
    parts: list[_Part] = []
    for k, m in enumerate(maps):
        part = _part(operator, k, m, along)
        if part is None or (parts and (part.digits, part.lookups) != (parts[0].digits, parts[0].lookups)):
            return None
        parts.append(part)
    unit: Size = 0
    for part in parts:
        for size in (part.offset, *(size for size, _ in part.steps)):
            unit = common(unit, size)
    values = np.zeros(len(along.owner), np.int64)
    for k, part in enumerate(parts):
        mine = along.owner == k
        for size, moved in ((part.offset, None), *part.steps):
            times = div(size, unit)
            if not isinstance(times, int):
                return None
            values[mine] += times if moved is None else times * moved[along.position[mine]]
    first, at = parts[0], parts[0].place
    digits = [*first.digits[:at], digit(len(values), 0), *first.digits[at:]]
    rows = [x.rows._replace(places=tuple(p + (p >= at) for p in x.places)) for x in first.lookups]
    here = Rows((at,), values, np.ones(len(values), np.bool_), unit)
    return tabled(maps[0].n_in, digits, [*rows, here], 0)


def along_one_axis(operator: CanonicalOp) -> Along | None:
    """The one axis that the formula of a selection computes with, if each operand has one coordinate of it."""
    assert isinstance(operator.kind, ComputeKind)
    body = operator.kind.body
    slots = [i for i, x in enumerate(operator.labels) if isinstance(x.name, Slot)]
    if symbols(body):
        return None
    loads = nodes_of("load", body)
    extent = operator.labels[slots[0]].extent if len(slots) == 1 else None
    if not isinstance(extent, int) or any(len(x.args) != 1 for x in loads) or slots[0] not in operator.outputs[0]:
        return None
    count = len(operator.operands)

    def load(source: object, index: Sequence[NDArray]) -> tuple[NDArray, NDArray | None]:
        if isinstance(source, Table):
            return load_table(source, index)
        assert isinstance(source, int)
        own = coordinate(operator, source)
        size = 1 if own is None else operator.labels[own].extent  # axes of extent 1 are no labels
        return index[0] * count + source, (index[0] < 0) | (index[0] >= size) if isinstance(size, int) else None

    env: dict[Term, NDArray] = {a: np.arange(extent, dtype=np.int64) for a in nodes_of("axis", body)}
    found, bad = evaluate_masked([body], env, load)[0]
    if bad is not None and bool(np.any(bad)):
        return None
    read = np.broadcast_to(found, (extent,))
    return Along(slots[0], read % count, read // count)


def coordinate(operator: CanonicalOp, k: int) -> int | None:
    """The label of the one coordinate of an operand."""
    return next((i for i in operator.operands[k] if isinstance(operator.labels[i].name, Coordinate)), None)


def _part(operator: CanonicalOp, k: int, m: Map, along: Along) -> _Part | None:
    """The view of an operand over the labels of the result."""
    own = coordinate(operator, k)
    order = [own if i == along.label else i for i in operator.outputs[0]]
    view = [i for i in order if i is not None]
    if sorted(view) != sorted(operator.operands[k]):
        return None
    turned = compose(m, order_map(operator.labels, view, operator.operands[k]))
    extents = [1 if i is None else operator.labels[i].extent for i in order]
    here = operator.outputs[0].index(along.label)
    extent = extents[here]
    if not isinstance(turned, FlatMap | TableMap) or not isinstance(extent, int) or extent == 0:
        return None
    cut = common_refinement(extents, [d.extent for d in turned.digits])
    return None if cut is None else _taken_apart(turned, cut, here, extent)


def _taken_apart(m: FlatMap | TableMap, cut: Sequence[tuple[int, int, Size]], here: int, extent: int) -> _Part | None:
    """A map whose digits are cut at labels, of which the one numbered `here` is apart."""
    part = _Part(m.offset)
    below: dict[int, Size] = {}
    weights: list[tuple[Size, Size]] = []  # of a piece, within its label and within its digit
    in_label: dict[int, Size] = {}
    for label, n, size in reversed(cut):
        weights.append((in_label.get(label, 1), below.get(n, 1)))
        in_label[label], below[n] = mul(in_label.get(label, 1), size), mul(below.get(n, 1), size)
    weights.reverse()
    at = np.arange(extent, dtype=np.int64)
    looked_up = m.looked_up if isinstance(m, TableMap) else frozenset[int]()
    place: dict[int, int] = {}
    mine: dict[int, IntArray] = {}
    for (label, n, size), (inner, within) in zip(cut, weights, strict=True):
        if n in looked_up and size != m.digits[n].extent:
            return None
        if label != here:
            place[n] = len(part.digits)
            part.place += label < here
            part.digits.append(digit(size, mul(m.digits[n].stride, within)))
            continue
        moved = at // number(inner) % number(size)
        if n in looked_up:
            mine[n] = moved
        elif m.digits[n].stride != 0:
            part.steps.append((mul(m.digits[n].stride, within), moved))
    for x in m.lookups if isinstance(m, TableMap) else ():
        if all(p in mine for p in x.places):
            row: IntArray = np.zeros(extent, dtype=np.int64)
            for p in x.places:
                row = row * number(m.digits[p].extent) + mine[p]
            part.steps.append((x.unit, x.table.array[row]))
        elif any(p in mine for p in x.places):
            return None
        else:
            part.lookups.append(x._replace(places=tuple(place[p] for p in x.places)))
    return part
