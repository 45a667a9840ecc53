"""Operators that only select between cells of their operands (a concatenation): a view of one may read one operand
alone, and one over views of one value is a view (law: where(c, x[e1], x[e2]) = x[where(c, e1, e2)]).

    concat(x, y)[0:n] = x, where x has n rows;    concat(x[0:4], x[4:9]) = x[0:9]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.sizes import numbers, value
from eqsat.ir.flat.table import Map
from eqsat.ir.flat.tabled import from_array
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute, symbols
from eqsat.operators.labels import CanonicalOp, ComputeKind, Coordinate, Slot
from eqsat.operators.stacks import stacked

MAX_CELLS = 1 << 20


@lru_cache(maxsize=16)
def owners(operator: CanonicalOp) -> tuple[NDArray, NDArray] | None:
    """For every flat cell of the result, the operand it is copied from and the flat cell of that operand; None for more
    than `MAX_CELLS`."""
    size = operator.size(operator.outputs[0])
    if not isinstance(size, int) or size > MAX_CELLS or numbers(operator.extents(range(len(operator.labels)))) is None:
        return None  # no cells of symbolic rows, too
    assert isinstance(operator.kind, ComputeKind)
    if symbols(operator.kind.body):
        return None  # which operand it is depends on a size
    return owners_at(operator, np.arange(size, dtype=np.int64), {})


def owners_at(operator: CanonicalOp, cells: NDArray, sizes: Mapping[Term, int]) -> tuple[NDArray, NDArray] | None:
    """The same for some cells, at values of the symbols; None where one of them is copied from outside of an operand.

    Errors: a symbol has no value (LayoutError).
    """
    lengths = [value(extent, sizes) for extent in operator.extents(range(len(operator.labels)))]
    positions: dict[int, NDArray] = {}
    inner = 1
    for label in reversed(operator.outputs[0]):
        positions[label] = cells // inner % max(lengths[label], 1)
        inner *= lengths[label]
    assert isinstance(operator.kind, ComputeKind)
    table = {s: t.index_const(n) for s, n in sizes.items()}
    body = substitute(operator.kind.body, table)
    if unknown := symbols(body):
        raise LayoutError(f"cells of {body}", f"{unknown[0]} has no value")
    slots = {x.name.number: n for n, x in enumerate(operator.labels) if isinstance(x.name, Slot)}
    env: dict[Term, NDArray] = {axis: positions[slots[axis.payload[1]]] for axis in nodes_of("axis", body)}

    def load(source: object, index: Sequence[NDArray]) -> tuple[NDArray, NDArray | None]:
        if isinstance(source, Table):
            return load_table(source, index)
        assert isinstance(source, int)
        flat: NDArray = np.zeros((), np.int64)
        bad: NDArray | None = None
        for label in operator.operands[source]:
            name, extent = operator.labels[label].name, lengths[label]
            at = index[name.number] if isinstance(name, Coordinate) else positions[label]
            out = (at < 0) | (at >= extent)
            if bool(np.any(out)):
                bad = out if bad is None else bad | out
            flat = flat * extent + np.clip(at, 0, extent - 1)
        return flat * len(operator.operands) + source, bad

    found, bad = evaluate_masked([body], env, load)[0]
    if bad is not None and bool(np.any(bad)):
        return None
    read = np.broadcast_to(found, cells.shape)
    return read % len(operator.operands), read // len(operator.operands)


def part(operator: CanonicalOp, sizes: Sequence[int], m: Map) -> tuple[int, Map] | None:
    """The one operand that a view of a selection reads, and the view of it; None where it reads several."""
    found = owners(operator)
    if found is None or not m.is_numeric:
        return None
    owner, address = found
    cells = m.to_array()
    inside = cells >= 0
    read = owner[cells[inside]]
    if not read.size or bool(np.any(read != read[0])):
        return None
    table = np.full(cells.shape, -1, np.int64)
    table[inside] = address[cells[inside]]
    return int(read[0]), from_array(table, sizes[int(read[0])])


def merged(operator: CanonicalOp, maps: Sequence[Map]) -> Map | None:
    """The selection over views by `maps` of one value, as one view of it; None where one pads or a table is too big."""
    if not all(m.is_total for m in maps):
        return None
    whole = stacked(operator, maps)
    if whole is not None:
        return whole
    found = owners(operator)
    if found is None or not all(m.is_numeric for m in maps):
        return None
    owner, address = found
    cells = np.zeros(owner.shape, np.int64)
    for k, m in enumerate(maps):
        mine = owner == k
        cells[mine] = m.at(address[mine])
    n_in = maps[0].n_in
    assert isinstance(n_in, int)
    return from_array(cells, n_in)


def selection_operand_sizes(operator: CanonicalOp) -> list[int] | None:
    """The flat size of every operand, where all are numbers."""
    sizes = [operator.size(o) for o in operator.operands]
    return [s for s in sizes if isinstance(s, int)] if all(isinstance(s, int) for s in sizes) else None
