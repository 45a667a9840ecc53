"""Composing flat maps, and knowing which of the two views a cell's padding comes from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.map import Digit, FlatMap, all_padding, canonical
from eqsat.ir.flat.refine import Part, order_key, refine, step_on
from eqsat.ir.flat.sizes import Size, add, at_most, common, div, mul, numbers
from eqsat.ir.flat.table import Map, TableMap, from_array, widened

TABLE_LIMIT = 1 << 18
"""The largest table, in cells, that composition builds where it finds no digit form."""


@dataclass(frozen=True, slots=True)
class Composed:
    """A composition, and which fill its padding shows: that of the outer view g, of the inner view f, or both."""

    map: Map
    outer_pads: bool
    inner_pads: bool


def compose(f: Map, g: Map, table_limit: int = TABLE_LIMIT) -> Map | None:
    """The map o -> f(g(o)), of a view by g of a view by f; padding where either pads. None: no form within the limit.

    >>> from eqsat.ir.flat.map import digit, from_digits
    >>> f = from_digits(6, [digit(3, 1), digit(2, 3)])
    >>> print(compose(f, from_digits(6, [digit(2, 1), digit(3, 2)])))
    (6:1) of 6

    Errors: f and g do not meet in size.
    """
    if f.n_out != g.n_in:
        raise LayoutError(f"compose {f} after {g}", f"{f.n_out} cells are offered, {g.n_in} expected")
    if isinstance(f, FlatMap) and isinstance(g, FlatMap):
        result = _compose_digits(f, g)
        if result is not None:
            return result
    elif f.is_identity or g.is_identity:
        return g if f.is_identity else f
    elif f.is_all_padding or g.is_all_padding:
        return all_padding(f.n_in, g.n_out)
    return _compose_tables(f, g, table_limit)


def compose_parts(f: Map, g: Map, table_limit: int = TABLE_LIMIT) -> Composed | None:
    """The composition, with the exact answer to "whose fill is in its padded cells".

    Where g pads a cell its own fill stands there; where only f pads it, the fill of f; so one fill is enough exactly if
    not both flags are set.

    >>> from eqsat.ir.flat.map import digit, from_digits
    >>> pad, crop = from_digits(4, [digit(6, 1, 1, 5)], -1), from_digits(6, [digit(4, 1)], 1)
    >>> c = compose_parts(pad, crop)
    >>> print(c.map, c.outer_pads, c.inner_pads)
    (4:1) of 4 False False
    """
    h = compose(f, g, table_limit)
    return None if h is None else Composed(h, not g.is_total, h.valid_count != g.valid_count)


@lru_cache(maxsize=1 << 14)
def _compose_digits(f: FlatMap, g: FlatMap) -> FlatMap | None:
    if f.is_identity or g.is_identity:
        return g if f.is_identity else f
    if f.is_all_padding or g.is_all_padding:
        return all_padding(f.n_in, g.n_out)
    refined = refine(g.digits, g.offset, [d.extent for d in f.digits])
    if refined is None:
        return None
    parts, start = refined
    bounds: list[tuple[Size, Size]] = [(0, part.width) for part in parts]
    for axis, d in enumerate(f.digits):
        if d.is_full:
            continue
        reach = [(i, step_on(p, axis), p.width) for i, p in enumerate(parts) if any(a == axis for a, _ in p.steps)]
        cuts = _pull_window(d.lo, d.hi, start[axis], reach)
        if cuts is None:
            return None
        for index, low, high in cuts:
            joint = (low, high) if index < 0 else _intersect(bounds[index], (low, high))
            if joint is None:
                return None
            if joint[0] == joint[1]:
                return all_padding(f.n_in, g.n_out)
            if index >= 0:
                bounds[index] = joint
    return _assemble(f, parts, start, bounds)


def _assemble(f: FlatMap, parts: list[Part], start: list[Size], bounds: list[tuple[Size, Size]]) -> FlatMap | None:
    """The composed map, from the pieces of g and the steps in which f allows each."""
    offset: Size | None = f.offset
    for position, d in zip(start, f.digits, strict=True):
        if position != 0:
            offset = None if offset is None else add(offset, mul(d.stride, position))
    digits: list[Digit] = []
    for part, (low, high) in zip(parts, bounds, strict=True):
        stride: Size | None = 0
        for axis, step in part.steps:
            stride = None if stride is None else add(stride, mul(step, f.digits[axis].stride))
        if stride is None:
            return None
        first = part.lo
        if part.reverse:
            first, stride = add(part.hi, -1), mul(-1, stride)
        if stride != 0 and first != 0:
            offset = None if offset is None or first is None else add(offset, mul(-1, mul(stride, first)))
        lo, hi = part.lo, part.hi
        if low != 0 or high != part.width:
            if part.reverse:
                lo, hi = add(part.hi, mul(-1, high)), add(part.hi, mul(-1, low))
            else:
                lo, hi = add(part.lo, low), add(part.lo, high)
            if lo is None or hi is None:
                return None
        digits.append(Digit(part.extent, stride, lo, hi))
    return None if offset is None else canonical(f.n_in, digits, offset)


def _intersect(a: tuple[Size, Size], b: tuple[Size, Size]) -> tuple[Size, Size] | None:
    low = a[0] if at_most(b[0], a[0]) else b[0] if at_most(a[0], b[0]) else None
    high = a[1] if at_most(a[1], b[1]) else b[1] if at_most(b[1], a[1]) else None
    if low is None or high is None:
        return None
    return (0, 0) if at_most(high, low) else (low, high) if at_most(low, high) else None


Cut = tuple[int, Size, Size]
"""A piece of g (-1: none of them), and the steps [first, stop) of it that stay; none where first == stop."""


def _pull_window(lo: Size, hi: Size, start: Size, reach: list[tuple[int, Size, Size]]) -> list[Cut] | None:
    """Which steps keep start + sum(step * t) in [lo, hi), if that is a box; reach lists (piece, step, width)."""
    if not reach:
        if start == 0:
            return [(-1, 0, 1 if lo == 0 else 0)]
        known = numbers([lo, start, hi])
        return None if known is None else [(-1, 0, 1 if known[0] <= known[1] < known[2] else 0)]
    reach = sorted(reach, key=lambda move: order_key(move[1]), reverse=True)
    known = numbers([lo, hi, start, *(part for move in reach for part in move)])
    if known is not None:
        return _pull_numbers(known[0], known[1], known[2], known[3:])
    # With symbols the steps are nested: the smaller ones together never reach the next multiple of the largest.
    index, step, _ = reach[0]
    low, high = div(lo, step), div(hi, step)
    return [(index, low, high)] if start == 0 and low is not None and high is not None else None


def _pull_numbers(lo: int, hi: int, start: int, reach: list[int]) -> list[Cut] | None:
    """The same in numbers; reach is piece, step, width, piece, step, width, ..., the largest step first."""
    index, step, width = reach[:3]
    spread = sum(s * (w - 1) for s, w in zip(reach[4::3], reach[5::3], strict=True))

    def reaching(distance: int) -> int:
        return min(width, max(0, -(-distance // step)))

    first, first_some = reaching(lo - start), reaching(lo - start - spread)
    stop, stop_some = reaching(hi - start - spread), reaching(hi - start)
    if first_some >= stop_some:
        return [(-1, 0, 0)]
    if first == first_some and stop == stop_some:
        return [(index, first, stop)]
    if stop_some - first_some > 1:
        return None
    # The window lies inside of one step of this piece: the others decide.
    inner = _pull_numbers(lo, hi, start + step * first_some, reach[3:])
    return None if inner is None else [(index, first_some, stop_some), *inner]


def _compose_tables(f: Map, g: Map, table_limit: int) -> Map | None:
    """Composition cell by cell, without the outer blocks and the inner runs that both maps leave alone."""
    f_outer, f_inner = surroundings(f)
    g_outer, g_inner = surroundings(g)
    outer, inner = common(f_outer, g_outer), common(f_inner, g_inner)
    f_core, g_core = narrowed(f, outer, inner), narrowed(g, outer, inner)
    if f_core is None or g_core is None or not (f_core.is_numeric and g_core.is_numeric):
        return None
    return widened(outer, _compose_cells(f_core, g_core), inner) if at_most(g_core.n_out, table_limit) else None


@lru_cache(maxsize=256)
def _compose_cells(f: Map, g: Map) -> Map:
    inner = g.to_array()
    n_in = numbers([f.n_in])
    if n_in is None:
        raise LayoutError(f"compose {f} after {g}", "this needs numbers")
    return from_array(np.where(inner >= 0, f.at(inner), -1), n_in[0])


def surroundings(m: Map) -> tuple[Size, Size]:
    """How many outer blocks, and inner cells in a run, the map leaves where they are."""
    if isinstance(m, TableMap):
        return m.outer, m.inner
    if not m.digits:
        return 1, 1
    head, tail = m.digits[0], m.digits[-1]
    # Every other digit stays inside of a block, or the last block would read outside of the source.
    outer = head.extent if head.is_full and mul(head.extent, head.stride) == m.n_in else 1
    inner: Size = 1
    if tail.stride == 1:
        inner = m.n_in
        for part in (tail.extent, tail.lo, tail.hi, m.offset, *(d.stride for d in m.digits[:-1])):
            inner = common(inner, part)
    return outer, inner


def narrowed(m: Map, outer: Size, inner: Size) -> Map | None:
    """The map of one block and of whole runs; both divide what the map leaves where it is."""
    n_in = div(m.n_in, mul(outer, inner))
    if n_in is None:
        return None
    if isinstance(m, TableMap):
        blocks, run = div(m.outer, outer), div(m.inner, inner)
        return None if blocks is None or run is None else TableMap(n_in, blocks, m.table, run)
    columns = [list(d) for d in m.digits]
    for column in columns[:-1]:
        column[1] = _exact(column[1], inner)
    if inner != 1:
        extent, stride, lo, hi = columns[-1]
        columns[-1] = [_exact(extent, inner), stride, _exact(lo, inner), _exact(hi, inner)]
    if outer != 1:
        extent = _exact(columns[0][0], outer)
        columns[0] = [extent, columns[0][1], 0, extent]
    return canonical(n_in, [Digit(*column) for column in columns], _exact(m.offset, inner))


def _exact(a: Size, b: Size) -> Size:
    quotient = div(a, b)
    if quotient is None:
        raise LayoutError(f"{a} / {b}", "is not exact")
    return quotient
