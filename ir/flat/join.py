"""Composing maps with tables: where the tables of one view meet the digits and tables of another.

Each digit, and each table, of the outer view moves on some axes of the inner view's box. Tables that move on axes of
digits alone stay as they are; what meets at a table, or at the window of an axis, becomes one table over the digits
that move there, so that no table is longer than the axes it is about.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.ir.flat.map import Digit, IntArray, all_padding, digit
from eqsat.ir.flat.recognise import BoolArray, Rows, Sets
from eqsat.ir.flat.refine import Part, pulled, refine, stays, step_on
from eqsat.ir.flat.sizes import Size, add, common, div, mul, numbers, signed_total, total, where_filled
from eqsat.ir.flat.table import Listed, rows_in
from eqsat.ir.flat.tabled import tabled

WORD = 1 << 63


@dataclass
class _Mover:
    """Output digits that move together: per row of them, how far on each axis (a step, and how often); and which rows
    are valid."""

    places: tuple[int, ...]
    moves: dict[int, tuple[Size, IntArray]]
    valid: BoolArray


def compose_rows(f: Listed, g: Listed, limit: int) -> Listed | None:
    """f after g, one of which has tables; None where digits carry, sizes do not fit, or a table has more rows than the
    limit."""
    shape = [d.extent for d in f.digits]
    refined = refine(g.digits, g.offset, shape)
    if refined is None:
        return None
    parts, start = refined
    movers = _movers(g, parts, shape)
    return None if movers is None else _Join(f, g, parts, start, movers, limit).result()


def _movers(g: Listed, parts: Sequence[Part], shape: Sequence[Size]) -> list[_Mover] | None:
    """The tables of g as they move on the axes of f."""
    place: list[int] = []  # the last part of each digit: digits of tables are one part each
    n = -1
    for d in g.digits:
        cells: Size = 1
        n += 1
        cells = parts[n].extent
        while cells != d.extent:
            n += 1
            cells = mul(cells, parts[n].extent)
        place.append(n)
    found: list[_Mover] = []
    for r in rows_in(g):
        moves = _moves(r, shape)
        if moves is None:
            return None
        found.append(_Mover(tuple(place[p] for p in r.places), moves, r.valid))
    return found


def _moves(r: Rows, shape: Sequence[Size]) -> dict[int, tuple[Size, IntArray]] | None:
    """Multiples of a unit in the mixed radix of a shape."""
    unit, values = r.unit, r.values
    result: dict[int, tuple[Size, IntArray]] = {}
    for axis in range(len(shape) - 1, -1, -1):
        extent = shape[axis]
        if not bool(values.any()):
            break
        if axis and isinstance(unit, int) and isinstance(extent, int):
            if unit * int(values.max()) >= WORD:
                return None
            values, moved = np.divmod(values * unit, extent)
            unit = 1
            if bool(moved.any()):
                result[axis] = 1, moved
            continue
        above = div(unit, extent) if axis else None
        if above is None:
            result[axis] = unit, values
            break
        unit = above
    return result


class _Join:
    """The pieces of g over the box of f; nodes are the parts, then the movers."""

    def __init__(
        self, f: Listed, g: Listed, parts: list[Part], start: list[Size], movers: list[_Mover], limit: int
    ) -> None:
        self.f, self.g, self.parts, self.start, self.movers, self.limit = f, g, parts, start, movers, limit
        self.bounds: list[tuple[Size, Size]] = [(0, p.width) for p in parts]
        self.lows = where_filled(d.extent for d in g.digits)
        self.sets = Sets(len(parts) + len(movers))
        self.masked: set[int] = set()
        self.tables = rows_in(f)
        self.on_axis: list[list[int]] = [[] for _ in f.digits]
        for n, p in enumerate(parts):
            for axis, _ in p.steps:
                self.on_axis[axis].append(n)
        for n, m in enumerate(movers):
            for axis in m.moves:
                self.on_axis[axis].append(len(parts) + n)

    def result(self) -> Listed | None:
        """The composed map."""
        if not all(self._stays(axis) for axis in range(len(self.on_axis))):
            return None
        empty = self._meet()
        if empty is None or empty:
            return None if empty is None else all_padding(self.f.n_in, self.g.n_out)
        offset: Size | None = self.f.offset
        for position, d in zip(self.start, self.f.digits, strict=True):
            offset = None if offset is None else add(offset, mul(d.stride, position))
        rows: list[Rows] = []
        taken: set[int] = set()
        for group in self.sets.groups():
            own = [r for r in self.tables if any(n in group for a in r.places for n in self.on_axis[a])]
            if own or any(n >= len(self.parts) for n in group):
                made = self._together(group, own)
                if made is None:
                    return None
                rows.append(made)
                taken.update(made.places)
        for r in self.tables:
            if not any(self.on_axis[a] for a in r.places):
                row = self._row(r, {})
                if row is None:
                    return None
                if not bool(r.valid[row]):
                    return all_padding(self.f.n_in, self.g.n_out)
                offset = None if offset is None else add(offset, mul(r.unit, int(r.values[row])))
        return self._assembled(rows, taken, offset)

    def _stays(self, axis: int) -> bool:
        """Whether all that moves on an axis together stays on it."""
        nodes = self.on_axis[axis]
        if all(n < len(self.parts) for n in nodes):
            return True  # `refine` says so
        return stays(self.start[axis], [self._reach(n, axis) for n in nodes], self.f.digits[axis].extent, self.lows)

    def _reach(self, n: int, axis: int) -> tuple[Size, Size]:
        """The step of a node on an axis, and how many positions it has there."""
        if n < len(self.parts):
            return step_on(self.parts[n], axis), self.parts[n].width
        step, moved = self.movers[n - len(self.parts)].moves[axis]
        return step, int(moved.max()) + 1

    def _meet(self) -> bool | None:
        """Join what meets at a table or at a window; whether nothing is read, None if that is not known."""
        for r in self.tables:
            nodes = [n for a in r.places for n in self.on_axis[a]]
            for n in nodes:
                self.sets.join(nodes[0], n)
        for axis, d in enumerate(self.f.digits):
            nodes = self.on_axis[axis]
            if d.is_full:
                continue
            if any(n >= len(self.parts) for n in nodes):
                self.masked.add(axis)
                for n in nodes:
                    self.sets.join(nodes[0], n)
                continue
            empty = pulled(d, self.start[axis], [(n, *self._reach(n, axis)) for n in nodes], self.bounds, self.lows)
            if empty is None or empty:
                return empty
        return False

    def _together(self, group: tuple[int, ...], tables: Sequence[Rows]) -> Rows | None:
        """What the nodes of a group add, as one table."""
        count = len(self.parts)
        movers = [self._counted(n) if n < count else self.movers[n - count] for n in group]
        if any(m is None for m in movers):
            return None
        known = [m for m in movers if m is not None]
        places = sorted({p for m in known for p in m.places})
        extents = numbers([self.parts[p].extent for p in places])
        if extents is None or math.prod(extents) > self.limit:
            return None
        valid = np.ones(extents, dtype=np.bool_)
        moved: dict[int, list[tuple[Size, IntArray]]] = {}
        for m in known:
            own = [e if p in m.places else 1 for p, e in zip(places, extents, strict=True)]
            valid &= m.valid.reshape(own)
            for axis, (step, steps) in m.moves.items():
                moved.setdefault(axis, []).append((step, steps.reshape(own)))
        added: list[tuple[Size, IntArray]] = []
        for axis, steps in moved.items():
            d = self.f.digits[axis]
            added += [(mul(d.stride, step), s) for step, s in steps] if d.stride != 0 else []
            if axis in self.masked:
                position, window = self._position(axis, steps), numbers([d.lo, d.hi])
                if position is None or window is None:
                    return None
                valid = valid & (position >= window[0]) & (position < window[1])
        for r in tables:
            row = self._row(r, moved)
            if row is None:
                return None
            row = np.where(valid, row, 0)
            added.append((r.unit, r.values[row]))
            valid = valid & r.valid[row]
        return summed(tuple(places), extents, added, valid)

    def _counted(self, n: int) -> _Mover | None:
        """A part as rows."""
        p = self.parts[n]
        known = numbers([p.extent, p.lo, p.hi, *self.bounds[n]])
        if known is None or known[0] > self.limit:
            return None
        extent, lo, hi, low, high = known
        d = np.arange(extent, dtype=np.int64)
        steps = hi - 1 - d if p.reverse else d - lo
        valid = (steps >= max(low, 0)) & (steps < min(high, hi - lo))
        return _Mover((n,), {axis: (step, np.where(valid, steps, 0)) for axis, step in p.steps}, valid)

    def _position(self, axis: int, steps: Sequence[tuple[Size, IntArray]]) -> IntArray | None:
        known = numbers([self.start[axis], *(step for step, _ in steps)])
        if known is None:
            return None
        total: IntArray = np.asarray(known[0], dtype=np.int64)
        for step, (_, moved) in zip(known[1:], steps, strict=True):
            total = total + step * moved
        return total

    def _row(self, r: Rows, moved: dict[int, list[tuple[Size, IntArray]]]) -> IntArray | None:
        """The row of a table of f at the positions on its axes."""
        row: IntArray = np.zeros((), dtype=np.int64)
        for axis in r.places:
            position, extent = self._position(axis, moved.get(axis, ())), self.f.digits[axis].extent
            if position is None or not isinstance(extent, int):
                return None
            row = row * extent + position
        return row

    def _assembled(self, rows: list[Rows], taken: set[int], offset: Size | None) -> Listed | None:
        """The parts that no table took as digits, beside the tables."""
        digits: list[Digit] = []
        for n, p in enumerate(self.parts):
            if n in taken:
                digits.append(digit(p.extent, 0))
                continue
            made = moved_digit(p, [(s, self.f.digits[a].stride) for a, s in p.steps], self.bounds[n], offset)
            if made is None:
                return None
            digits.append(made[0])
            offset = made[1]
        return None if offset is None else tabled(self.f.n_in, digits, rows, offset)


def summed(
    places: tuple[int, ...], extents: Sequence[int], added: Sequence[tuple[Size, IntArray]], valid: BoolArray
) -> Rows | None:
    """The sum of multiples of sizes, in one unit."""
    unit: Size = 0
    for size, _ in added:
        unit = common(unit, size)
    values = np.zeros(extents, dtype=np.int64)
    reach = 0
    for size, some in added:
        times = div(size, unit)
        if not isinstance(times, int):
            return None
        reach += abs(times) * int(np.max(np.abs(some), initial=0))
        if reach >= WORD:
            return None
        values += times * some
    valid = np.broadcast_to(valid, extents)
    return Rows(places, np.where(valid, values, 0).reshape(-1), valid.reshape(-1), 1 if unit == 0 else unit)


def moved_digit(
    p: Part, steps: Sequence[tuple[Size, Size]], bounds: tuple[Size, Size], offset: Size | None
) -> tuple[Digit, Size] | None:
    """A part as a digit, given its steps and the strides of their axes, and the steps that are allowed; and the offset
    with what the digit does not count. None where these are not sizes."""
    stride: Size | None = 0
    for step, weight in steps:
        stride = None if stride is None else add(stride, mul(step, weight))
    if stride is None:
        return None
    first = p.lo
    if p.reverse:
        first, stride = total(p.hi, -1), mul(-1, stride)
    if stride != 0 and first != 0:
        offset = None if offset is None else total(offset, mul(-1, mul(stride, first)))
    lo: Size | None = p.lo
    hi: Size | None = p.hi
    low, high = bounds
    if low != 0 or high != p.width:
        if p.reverse:
            lo, hi = signed_total(p.hi, mul(-1, high)), signed_total(p.hi, mul(-1, low))
        else:
            lo, hi = signed_total(p.lo, low), signed_total(p.lo, high)
    return None if lo is None or hi is None or offset is None else (Digit(p.extent, stride, lo, hi), offset)
