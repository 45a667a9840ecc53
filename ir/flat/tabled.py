"""The canonical form of maps with tables: the finest digits, and the smallest groups of them that a table looks up.

One that has a form without tables never has one with them. Maps of at most `SMALL` cells have exactly one form; larger
ones are taken apart as they come, so that two forms of one map may be told apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.map import Digit, all_padding, canonical, digit
from eqsat.ir.flat.recognise import SMALL, Rows, components, digits_of_array, factored, rows_of
from eqsat.ir.flat.refine import stays
from eqsat.ir.flat.sizes import Size, add, at_most, div, mul, number, numbers, product, value
from eqsat.ir.flat.table import IntTable, Listed, Lookup, TableMap, cells_of, rows_in
from eqsat.ir.terms.term import Term


def from_array(table: npt.ArrayLike, n_in: int) -> Listed:
    """The canonical map of an array of source indices (negative: padding): digits where any digit form exists.

    >>> print(from_array([0, 2, 4, 1, 3, 5], 6))
    (2:1, 3:2) of 6
    >>> print(from_array([2, 3, 0, 1, 4, 5, 8, 9, 6, 7, 10, 11], 12))
    (2:6, 3:table, 2:1) by table of 1 in steps of 2 of 12
    """
    array = np.asarray(table, dtype=np.int64).reshape(-1)
    if array.size and int(array.max()) >= n_in:
        raise LayoutError("flat map", f"reads source index {int(array.max())}, outside of [0, {n_in})")
    digits = digits_of_array(array, n_in)
    if digits is not None:
        return digits
    found = factored(np.maximum(array, 0), array >= 0)
    made = _assembled(n_in, [digit(e, 0) for e in found.extents], found.rows, found.offset)
    assert made is not None  # numbers add up
    return made


def tabled(n_in: Size, digits: Sequence[Digit], rows: Iterable[Rows], offset: Size) -> Listed | None:
    """The canonical map of digits and of what some of them, without a stride or window of their own, add together.

    None where sizes with symbols do not add up to one.

    >>> roll = np.array([1, 2, 0]), np.ones(3, dtype=np.bool_)
    >>> print(tabled(6, [digit(3, 0), digit(2, 1)], [Rows((0,), *roll, 2)], 0))
    (3:table, 2:1) by table of 0 in steps of 2 of 6
    """
    listed = list(rows)
    n_out = product([d.extent for d in digits])
    if n_out == 0 or any(d.lo == d.hi for d in digits) or not all(bool(r.valid.any()) for r in listed):
        return all_padding(n_in, n_out)
    if not listed:
        return canonical(n_in, digits, offset)
    sizes = [n_in, offset, *(s for d in digits for s in d), *(r.unit for r in listed)]
    known = numbers(sizes)
    if known is not None and number(n_out) <= SMALL:
        source, valid = cells_of(digits, listed)
        return from_array(np.where(valid, source + number(offset), -1), known[0])
    found = _refined(digits, listed, offset)
    return None if found is None else _assembled(n_in, *found)


Parts = tuple[list[Digit], list[Rows], Size]


def _refined(digits: Sequence[Digit], rows: Sequence[Rows], offset: Size) -> Parts | None:
    """Rows over finer digits, as far as they are sums of such; span by span of digits that the same tables reach."""
    done: list[Digit] = []
    finer: list[Rows] = []
    shift: Size | None = offset
    first = 0
    while first < len(digits):
        stop, own = first + 1, list[Rows]()
        for r in sorted(rows, key=lambda r: r.places[0]):
            if first <= r.places[0] < stop:
                own.append(_moved(r, -first))
                stop = max(stop, r.places[-1] + 1)
        parts, here, base = _span(digits[first:stop], own)
        finer += [_moved(r, len(done)) for r in here]
        done += parts
        shift = None if shift is None or base is None else add(shift, base)
        first = stop
    return None if shift is None else (done, finer, shift)


def _moved(r: Rows, by: int) -> Rows:
    return r._replace(places=tuple(p + by for p in r.places))


def _span(digits: Sequence[Digit], rows: Sequence[Rows]) -> tuple[list[Digit], list[Rows], Size | None]:
    """One span over its finest digits, and what is to be added to the offset."""
    if not rows:
        return list(digits), [], 0
    finer, base = list[Rows](), list[Size]()
    if len(rows) == 1 and len(rows[0].places) == len(digits):
        found = factored(rows[0].values, rows[0].valid, spread=False)
        finer = [r._replace(unit=rows[0].unit) for r in found.rows]
        return [digit(e, 0) for e in found.extents], finer, mul(rows[0].unit, found.offset)
    for r in rows:
        shape = [number(digits[p].extent) for p in r.places]
        values, valid = r.values.reshape(shape), r.valid.reshape(shape)
        split, start = rows_of(values, valid, components(values, valid))
        finer += [x._replace(places=tuple(r.places[n] for n in x.places), unit=r.unit) for x in split]
        base.append(mul(r.unit, start))
    shift: Size | None = 0
    for part in base:
        shift = None if shift is None else add(shift, part)
    return list(digits), finer, shift


def _assembled(n_in: Size, digits: Sequence[Digit], rows: Iterable[Rows], offset: Size) -> Listed | None:
    """The map of digits and rows that are as fine as they can be: rows that count up are digits, neighbours are one."""
    joined, listed = _joined(digits, rows)
    shift: Size | None = offset
    kept: list[Lookup] = []
    for r in map(_upwards, listed):
        found = _counted(joined[r.places[0]].extent, r) if len(r.places) == 1 else None
        if found is None:
            values = r.values[r.valid]
            least, step = int(values.min()), math.gcd(*(values - values[0]).tolist())
            table = np.where(r.valid, (r.values - least) // max(step, 1), -1)
            kept.append(Lookup(r.places, mul(r.unit, step), IntTable(table)))
            base: Size = mul(r.unit, least)
        else:
            joined[r.places[0]], base = found
        shift = None if shift is None else add(shift, base)
    if shift is None:
        return None
    places = {p for x in kept for p in x.places}
    done: list[Digit] = []
    numbered: dict[int, int] = {}
    segment: list[Digit] = []
    for n, d in enumerate([*joined, None]):
        if d is not None and n not in places:
            segment.append(d)
            continue
        run = canonical(n_in, segment, shift)
        done, shift, segment = [*done, *run.digits], run.offset, []
        if d is not None:
            numbered[n] = len(done)
            done.append(d)
    if not kept:
        return canonical(n_in, done, shift)
    kept.sort(key=lambda x: x.places)
    lookups = tuple(x._replace(places=tuple(numbered[p] for p in x.places)) for x in kept)
    return TableMap(n_in, tuple(done), lookups, shift)


def _upwards(r: Rows) -> Rows:
    """The same rows in a unit that is not negative, so that equal maps have equal tables."""
    return r if at_most(0, r.unit) else r._replace(values=-r.values, unit=mul(-1, r.unit))


def _joined(digits: Sequence[Digit], rows: Iterable[Rows]) -> tuple[list[Digit], list[Rows]]:
    """The digits without unit ones, and those that are neighbours in the output and in a table as one."""
    rows = list(rows)
    owner = {p: n for n, r in enumerate(rows) for p in r.places}
    joined: list[Digit] = []
    number_of: dict[int, int] = {}
    before: int | None = None
    for p, d in enumerate(digits):
        if d.extent == 1:
            continue
        mine = owner.get(p)
        if mine is not None and mine == before:
            joined[-1] = digit(mul(joined[-1].extent, d.extent), 0)
        else:
            joined.append(d)
        number_of[p], before = len(joined) - 1, mine
    listed: list[Rows] = []
    for r in rows:
        places = tuple(dict.fromkeys(number_of[p] for p in r.places if p in number_of))
        if not places:  # of unit digits alone: one row, which is valid
            places = (len(joined),)
            joined.append(digit(1, 0))
        listed.append(r._replace(places=places))
    return joined, listed


def _counted(extent: Size, r: Rows) -> tuple[Digit, Size] | None:
    """The digit that counts what the rows of one digit add, valid in one window, and what it adds at its start."""
    valid = np.flatnonzero(r.valid)
    lo, hi = int(valid[0]), int(valid[-1]) + 1
    if hi - lo != len(valid):
        return None
    step = int(r.values[lo + 1] - r.values[lo]) if hi - lo > 1 else 0
    if bool(np.any(np.diff(r.values[lo:hi]) != step)):
        return None
    return Digit(extent, mul(r.unit, step), lo, hi), mul(r.unit, int(r.values[lo]) - step * lo)


def widened(outer: Size, m: Listed, inner: Size) -> Listed:
    """The map m on every one of ``outer`` blocks of the buffer, and on runs of ``inner`` cells instead of cells.

    >>> from eqsat.ir.flat.map import from_digits
    >>> print(widened(2, from_digits(6, [Digit(3, 1, 0, 3), Digit(2, 3, 0, 2)]), 4))
    (2:24, 3:4, 2:12, 4:1) of 48
    """
    n_in = product([outer, m.n_in, inner])
    digits = [Digit(d.extent, mul(d.stride, inner), d.lo, d.hi) for d in m.digits]
    whole = [Digit(outer, mul(m.n_in, inner), 0, outer), *digits, Digit(inner, 1, 0, inner)]
    rows = [_moved(r, 1)._replace(unit=mul(r.unit, inner)) for r in rows_in(m)]
    small = not isinstance(cells := product([d.extent for d in whole]), int) or cells <= SMALL
    found = (tabled if small else _assembled)(n_in, whole, rows, mul(m.offset, inner))
    assert found is not None  # multiples of one size add up where the size itself did
    return found


def with_numbers(m: TableMap, symbols: Mapping[Term, int]) -> Listed:
    """The map with numbers for its symbols. Errors: one of them has none (LayoutError)."""
    digits = [Digit(*(value(part, symbols) for part in d)) for d in m.digits]
    rows = [r._replace(unit=value(r.unit, symbols)) for r in rows_in(m)]
    found = tabled(value(m.n_in, symbols), digits, rows, value(m.offset, symbols))
    assert found is not None
    return found


def looked_up_first(m: TableMap) -> tuple[Listed, Listed] | None:
    """A map with tables as one that looks up rows along one axis of the source, and the view of that; None where no
    table has an axis of its own.

    >>> roll = Rows((2,), np.array([1, 2, 0]), np.ones(3, dtype=np.bool_), 4)
    >>> print(*looked_up_first(tabled(24, [digit(4, 1), digit(2, 12), digit(3, 0)], [roll], 0)), sep=" then ")
    (2:12, 3:table, 4:1) by table of 1 in steps of 4 of 24 then (4:1, 6:4) of 24
    """
    for x in m.lookups:
        sizes = [d.stride for d in m.digits if d.stride != 0] + [y.unit for y in m.lookups]
        above = [n for s in (*sizes, m.n_in) if isinstance(n := div(s, x.unit), int) and n > int(x.table.array.max())]
        for extent in sorted(set(above)):
            blocks = div(m.n_in, mul(extent, x.unit))
            rest = None if blocks is None else _without(m, x, extent)
            if blocks is not None and rest is not None:
                first = widened(blocks, from_array(x.table.array, extent), x.unit)
                return first, rest
    return None


def _without(m: TableMap, x: Lookup, extent: int) -> Listed | None:
    """The map over what a table has looked up along an axis of the source, of which nothing else reads any part."""
    below, wide, count = x.unit, mul(x.unit, extent), len(x.table)

    def moved(size: Size, reach: int | Size) -> Size | None:
        """A step in the new source: over whole blocks, or inside of a run."""
        times = div(size, wide)
        return (
            mul(times, mul(below, count)) if times is not None else size if stays(0, [(size, reach)], below) else None
        )

    digits: list[Digit] = []
    offset = moved(m.offset, 2)
    for d in m.digits:
        length = mul(-1, d.stride) if not at_most(0, d.stride) else d.stride
        stride = 0 if d.stride == 0 else moved(length, d.hi)
        if stride is None:
            return None
        digits.append(d._replace(stride=stride if length == d.stride else mul(-1, stride)))
    rows: list[Rows] = []
    for y in m.lookups:
        unit = moved(y.unit, int(y.table.array.max()) + 1) if y != x else below
        if unit is None:
            return None
        own = y.rows if y != x else Rows(x.places, np.arange(count, dtype=np.int64), np.ones(count, dtype=np.bool_))
        rows.append(own._replace(unit=unit))
    n_in = div(mul(m.n_in, count), extent)
    return None if offset is None or n_in is None else tabled(n_in, digits, rows, offset)
