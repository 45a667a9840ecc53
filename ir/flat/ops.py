"""Composing flat maps, and knowing which of the two views a cell's padding comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.join import compose_rows, moved_digit
from eqsat.ir.flat.map import Digit, FlatMap, all_padding, canonical, digit
from eqsat.ir.flat.recognise import Rows
from eqsat.ir.flat.refine import pulled, refine, step_on
from eqsat.ir.flat.sizes import Size, add, common, mul, numbers, product, total, where_filled
from eqsat.ir.flat.table import IntTable, Listed, Lookup, Map, TableMap, cells_of, narrowed, surroundings
from eqsat.ir.flat.tabled import widened
from eqsat.ir.flat.term_map import TermMap

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
    if f.is_identity or g.is_identity:
        return g if f.is_identity else f
    if f.is_all_padding or g.is_all_padding:
        return all_padding(f.n_in, g.n_out)
    if isinstance(f, TermMap) or isinstance(g, TermMap):
        return None
    return compose_listed(f, g, table_limit)


@lru_cache(maxsize=1 << 14)
def compose_listed(f: Listed, g: Listed, table_limit: int) -> Listed | None:
    """As `compose`, by digits, else by tables of the digits that meet, else cell by cell."""
    if isinstance(f, FlatMap) and isinstance(g, FlatMap):
        found = _compose_digits(f, g)
    else:
        found = compose_rows(f, g, table_limit)
    return _compose_tables(f, g, table_limit) if found is None else found


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
    if h is None or isinstance(h, TermMap) or isinstance(g, TermMap):
        return None if h is None else Composed(h, not g.is_total, not f.is_total)
    return Composed(h, not g.is_total, h.valid_count != g.valid_count)


def _compose_digits(f: FlatMap, g: FlatMap) -> FlatMap | None:
    refined = refine(g.digits, g.offset, [d.extent for d in f.digits])
    if refined is None:
        return None
    parts, start = refined
    bounds: list[tuple[Size, Size]] = [(0, part.width) for part in parts]
    lows = where_filled(d.extent for d in g.digits)
    for axis, d in enumerate(f.digits):
        if not d.is_full:
            reach = [(i, step_on(p, axis), p.width) for i, p in enumerate(parts) if any(a == axis for a, _ in p.steps)]
            empty = pulled(d, start[axis], reach, bounds, lows)
            if empty is None or empty:
                return None if empty is None else all_padding(f.n_in, g.n_out)
    offset = f.offset
    for position, d in zip(start, f.digits, strict=True):
        if position != 0:
            offset = total(offset, mul(d.stride, position))
    digits: list[Digit] = []
    for part, allowed in zip(parts, bounds, strict=True):
        made = moved_digit(part, [(step, f.digits[axis].stride) for axis, step in part.steps], allowed, offset)
        if made is None:
            return None
        digits.append(made[0])
        offset = made[1]
    return canonical(f.n_in, digits, offset)


def _compose_tables(f: Listed, g: Listed, table_limit: int) -> Listed | None:
    """Composition where digits carry: neighbouring digits of f are one table, as few as do.

    The outer blocks and the inner runs that both maps leave alone are left out.
    """
    f_outer, f_inner = surroundings(f)
    g_outer, g_inner = surroundings(g)
    outer, inner = common(f_outer, g_outer), common(f_inner, g_inner)
    f_core, g_core = narrowed(f, outer, inner), narrowed(g, outer, inner)
    if f_core is None or g_core is None:
        return None
    for whole in _merged(f_core, table_limit):
        found = compose_rows(whole, g_core, table_limit)
        if found is not None:
            return widened(outer, found, inner)
    return None


def _merged(f: Listed, limit: int) -> Iterator[Listed]:
    """The map with some neighbouring digits as one, which a table looks up; those with the smallest tables first."""
    ranges: list[tuple[int, int, int]] = []
    for first in range(len(f.digits)):
        for stop in range(first + 1, len(f.digits) + 1):
            cells = product([d.extent for d in f.digits[first:stop]])
            known = numbers([cells, *(d.stride for d in f.digits[first:stop])])
            if known is not None and 1 < known[0] <= limit:
                ranges.append((known[0], first, stop))
    for _, first, stop in sorted(ranges):
        found = _one_table(f, first, stop)
        if found is not None:
            yield found


def _one_table(f: Listed, first: int, stop: int) -> Listed | None:
    """The map with its digits from first to stop as one; None where a table has only some of them."""
    inside: list[Rows] = []
    rest: list[Lookup] = []
    less = stop - first - 1
    for x in f.lookups if isinstance(f, TableMap) else ():
        here = [first <= p < stop for p in x.places]
        if all(here) and isinstance(x.unit, int):
            inside.append(x.rows._replace(places=tuple(p - first for p in x.places)))
        elif any(here):
            return None
        else:
            rest.append(x._replace(places=tuple(p if p < first else p - less for p in x.places)))
    values, valid = (part.reshape(-1) for part in cells_of(f.digits[first:stop], inside))
    least = int(values[valid].min())
    table = Lookup((first,), 1, IntTable(np.where(valid, values - least, -1)))
    offset = add(f.offset, least)
    digits = (*f.digits[:first], digit(len(values), 0), *f.digits[stop:])
    return None if offset is None else TableMap(f.n_in, digits, (table, *rest), offset)
