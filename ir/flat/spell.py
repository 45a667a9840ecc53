"""Spelling a flat map in the vocabulary of a target: the steps that move the fewest bytes.

A digit map is read, then repeated, then padded. Reading is: reshape the source so that every digit has an axis; slice
off what is not read; transpose to output order. Everything that drops cells comes first and everything that adds cells
comes last, so no order of the same steps moves less. Shapes of the two ends are hints that save reshapes. A map whose
digits overlap or carry in the source, and a table, is read by a gather along the one axis that is not regular.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.align import common_refinement
from eqsat.ir.flat.border import as_border
from eqsat.ir.flat.facts import atoms
from eqsat.ir.flat.map import Digit, FlatMap, digit, from_digits
from eqsat.ir.flat.ops import TABLE_LIMIT, compose
from eqsat.ir.flat.refine import Part, order_key, refine
from eqsat.ir.flat.size_samples import sampled
from eqsat.ir.flat.sizes import Size, at_most, common, div, leaves_room, mul, number, product, total
from eqsat.ir.flat.steps import (
    Expand,
    Fill,
    Gather,
    Mask,
    Pad,
    Reshape,
    Shape,
    Slice,
    Spelling,
    Step,
    Transpose,
    moved_cells,
    shape_after,
)
from eqsat.ir.flat.table import IntTable, Listed, Map, TableMap, narrowed, surroundings
from eqsat.ir.flat.tabled import looked_up_first
from eqsat.ir.flat.term_map import TermMap


class _Draft:
    """Steps under construction, and the shape that they have reached."""

    def __init__(self, shape: Shape) -> None:
        self.start = self.shape = shape
        self.steps: list[Step] = []

    def add(self, step: Step) -> None:
        self.steps.append(step)
        self.shape = shape_after(step, self.shape)

    def reshape(self, shape: Shape) -> None:
        if shape != self.shape:
            self.add(Reshape(shape))


@lru_cache(maxsize=1 << 12)
def spell(m: Map, src_shape: Shape | None = None, dst_shape: Shape | None = None) -> Spelling | None:
    """The steps that make the view by m of a tensor of src_shape, as a tensor of dst_shape (default: both flat).

    None only for maps with symbols that no steps describe, and for formulas. The fill of padded cells is the caller's.

    >>> from eqsat.ir.flat.map import digit, from_digits
    >>> spell(from_digits(192, [digit(3, 1), digit(64, 3)]), (1, 8, 8, 3), (1, 3, 8, 8)).steps
    (Transpose(perm=(0, 3, 1, 2)),)

    Errors: a shape of another size than the map's.
    """
    return min(spellings(m, src_shape, dst_shape), key=_effort, default=None)


def spellings(m: Map, src_shape: Shape | None = None, dst_shape: Shape | None = None) -> list[Spelling]:
    """All that `spell` chooses from."""
    src = (m.n_in,) if src_shape is None else src_shape
    dst = (m.n_out,) if dst_shape is None else dst_shape
    if product(src) != m.n_in or product(dst) != m.n_out:
        raise LayoutError(f"spell {m} from {src} to {dst}", "a shape has another size than the map")
    if m.is_all_padding:
        return [Spelling(src, (Fill(dst),))]
    if isinstance(m, TermMap):
        return []
    if isinstance(m, TableMap):
        read = _spell_tables(m, src, dst)
        return [] if read is None else [read]
    drafts = list(_drafts(m, src, dst))
    if not drafts:
        read = _gathered(m, src, dst)
        drafts = [] if read is None else [read]
    return list(dict.fromkeys(_finished(draft, dst) for draft in drafts))


def _effort(spelling: Spelling) -> tuple[int, int, int]:
    """Bytes first, then steps, then the sum of ranks."""
    ranks, shape = 0, spelling.src_shape
    for step in spelling.steps:
        shape = shape_after(step, shape)
        ranks += len(shape)
    return sum(sampled(cells) for cells in moved_cells(spelling)), len(spelling.steps), ranks


def _finished(draft: _Draft, dst: Shape) -> Spelling:
    draft.reshape(dst)
    return Spelling(draft.start, tuple(draft.steps))


def _drafts(m: FlatMap, src: Shape, dst: Shape) -> Iterator[_Draft]:
    """Every way without a gather: digits as they are or cut at the axes of dst, read through src or a fitting shape."""
    cuts: list[list[Digit]] = []
    for digits in (list(m.digits), [atom for d in m.digits for atom in atoms(d)], _cut_at(m.digits, dst)):
        if digits is not None and digits not in cuts:
            cuts.append(digits)
    for digits in cuts:
        for shape in dict.fromkeys((src, (m.n_in,), *_fitting_shapes(digits, m.n_in))):
            draft = _Draft(src)
            if _read(draft, shape, digits, m.offset, dst):
                yield draft
        stretch = _stretch(digits, m)
        if stretch is None:
            continue
        cut, digits, offset = stretch
        for shape in _fitting_shapes(digits, cut.shape[0]):
            draft = _Draft(src)
            draft.reshape((m.n_in,))
            draft.add(cut)
            if _read(draft, shape, digits, offset, dst):
                yield draft


def _cut_at(digits: Sequence[Digit], shape: Shape) -> list[Digit] | None:
    """The digits cut at the axes of an output shape; None if they straddle them."""
    pieces = common_refinement(shape, [d.extent for d in digits])
    if pieces is None:
        return None
    result: list[Digit] = []
    rest = {j: d for j, d in enumerate(digits)}
    for _, j, extent in reversed(pieces):
        outer = rest[j]
        if extent == outer.extent:
            result.append(outer)
            continue
        cut = _cut(outer, extent)
        if cut is None:
            return None
        rest[j], inner = cut
        result.append(inner)
    result.reverse()
    return result


def _cut(d: Digit, inner: Size) -> tuple[Digit, Digit] | None:
    """One digit as an outer and an inner one of the given extent, if its window allows that."""
    extent, lo, hi = div(d.extent, inner), div(d.lo, inner), div(d.hi, inner)
    if extent is None:
        return None
    stride = mul(d.stride, inner)
    if lo is not None and hi is not None:
        return Digit(extent, stride, lo, hi), digit(inner, d.stride)
    if isinstance(d.lo, int) and isinstance(d.hi, int) and isinstance(inner, int):
        block = d.lo // inner
        if (d.hi - 1) // inner == block:
            start = block * inner
            return Digit(extent, stride, block, block + 1), Digit(inner, d.stride, d.lo - start, d.hi - start)
    return None


def _moving(digits: Sequence[Digit]) -> list[tuple[Size, Size, bool]]:
    """(stride, width, downwards) of the digits that read more than one position, the longest strides first."""
    moving: list[tuple[Size, Size, bool]] = []
    for d in digits:
        if d.stride != 0 and d.width != 1:
            down = not at_most(0, d.stride)
            moving.append((mul(-1, d.stride) if down else d.stride, d.width, down))
    return sorted(moving, key=lambda move: order_key(move[0]), reverse=True)


def _fitting_shapes(digits: Sequence[Digit], n_in: Size) -> list[Shape]:
    """Shapes of the source in which every digit steps along its own axis, or digits that count on share one."""
    moving = _moving(digits)
    joined: list[tuple[Size, Size, bool]] = []
    for stride, width, down in moving:
        if joined and joined[-1][0] == mul(stride, width) and joined[-1][2] == down:
            width = mul(joined.pop()[1], width)
        joined.append((stride, width, down))
    shapes: list[Shape] = []
    for moves in (moving, joined) if len(joined) < len(moving) else (moving,):
        shape: list[Size] = []
        weight = n_in
        for stride, _, _ in moves:
            below = common(weight, stride)
            extent = div(weight, below)
            if extent is None or extent == 1:
                break
            shape.append(extent)
            weight = below
        else:
            shapes.append(tuple(shape) if weight == 1 and shape else (*shape, weight))
    return shapes


def _stretch(digits: Sequence[Digit], m: FlatMap) -> tuple[Slice, list[Digit], int] | None:
    """A slice of the flat source that keeps all that is read and is whole in the longest stride, and what reads it."""
    moving = _moving(digits)
    if not m.is_numeric or not moving:
        return None
    step = math.gcd(*(number(stride) for stride, _, _ in moving))
    length = number(moving[0][0]) * number(moving[0][1]) // step
    ends = [(number(d.stride) * number(d.lo), number(d.stride) * (number(d.hi) - 1)) for d in digits]
    first = number(m.offset) + sum(map(min, ends))
    beyond = first + step * (length - 1) - (number(m.n_in) - 1)
    start = first - step * max(0, -(-beyond // step))
    if start < 0 or length == m.n_in:
        return None
    inner = [Digit(d.extent, number(d.stride) // step if d.width != 1 else 0, d.lo, d.hi) for d in digits]
    lowest = sum(min(number(d.stride) * number(d.lo), number(d.stride) * (number(d.hi) - 1)) for d in inner)
    cut = Slice((start,), (start + step * (length - 1) + 1,), (step,), (length,))
    return cut, inner, (first - start) // step - lowest


def _read(draft: _Draft, shape: Shape, digits: Sequence[Digit], offset: Size, dst: Shape) -> bool:
    """Slice, transpose, expand and pad, on the source under a shape; false if the digits do not fit it."""
    refined = refine(digits, offset, shape)
    if refined is None:
        return False
    parts, start = refined
    plan = _slice_plan(parts, start, shape)
    if plan is None:
        return False
    cut, order = plan
    draft.reshape(shape)
    if cut is not None:
        draft.add(cut)
    return _arrange(draft, parts, order, dst)


def _slice_plan(parts: list[Part], start: list[Size], shape: Shape) -> tuple[Slice | None, list[int]] | None:
    """The slice that keeps what is read, and the moving parts in source order; None unless each axis is one run."""
    order: list[int] = []
    columns: list[tuple[Size, Size, int, Size]] = []
    for axis, (extent, first) in enumerate(zip(shape, start, strict=True)):
        own = [i for i, p in enumerate(parts) if p.width != 1 and any(a == axis for a, _ in p.steps)]
        if any(len(parts[i].steps) > 1 for i in own):
            return None
        own.sort(key=lambda i: order_key(parts[i].steps[0][1]), reverse=True)
        reverse = bool(own) and parts[own[0]].reverse
        step: Size = parts[own[-1]].steps[0][1] if own else 1
        length: Size = 1
        for i in reversed(own):
            if parts[i].steps[0][1] != mul(step, length) or parts[i].reverse != reverse:
                return None
            length = mul(length, parts[i].width)
        order += own
        column = (0, extent, 1, extent) if _is_whole(first, step, length, extent, reverse) else None
        column = column or _column(first, step, length, extent, reverse)
        if column is None:
            return None
        columns.append(column)
    starts, ends, steps, lengths = (tuple(row) for row in zip(*columns, strict=True)) if columns else ((), (), (), ())
    untouched = lengths == shape and all(step == 1 for step in steps)
    return (None if untouched else Slice(starts, ends, steps, lengths)), order


def _is_whole(first: Size, step: Size, length: Size, extent: Size, reverse: bool) -> bool:
    return first == 0 and step == 1 and length == extent and not reverse


def _column(first: Size, step: Size, length: Size, extent: Size, reverse: bool) -> tuple[Size, Size, int, Size] | None:
    """Start, end, step and length of the slice of one axis; None where a slice of no cells would be read as others."""
    if not isinstance(step, int):
        return None
    last = total(first, mul(step, total(length, -1)))
    if not reverse:
        known = step == 1 or leaves_room(1, length)
        end = total(first, length) if step == 1 else total(last, 1) if known else total(first, mul(step, length))
        return first, end, step, length
    whole = first == 0 and step == 1 and length == extent
    if not (whole or leaves_room(1, length) or leaves_room(step, first)):
        return None
    return last, total(mul(-1, extent), -1) if first == 0 else total(first, -1), -step, length


def _arrange(draft: _Draft, parts: list[Part], order: list[int], dst: Shape) -> bool:
    """Transpose from source to output order, then expand and pad to the parts' extents, if these are one size each."""
    frame: list[Part | None] = list(parts)
    if [p.extent for p in parts] == [e for e in dst if e != 1]:
        rest = iter(parts)
        frame = [None if e == 1 else next(rest) for e in dst]
    moving = [i for i, p in enumerate(parts) if p.steps and p.width != 1]
    read = tuple(1 if p is None or not p.steps else p.width for p in frame)
    wide = tuple(1 if p is None else p.width for p in frame)
    full = tuple(1 if p is None else p.extent for p in frame)
    if order != moving:
        _transpose(draft, parts, order, moving, read)
    if read == wide == full:
        return True
    draft.reshape(read)
    for target in min(_growths(read, wide, full), key=lambda shapes: _grown_cells((read, *shapes))):
        if target == draft.shape:
            continue
        if any(old == 1 and new != 1 and new == w for old, new, w in zip(draft.shape, target, wide, strict=True)):
            draft.add(Expand(target))
        else:
            _pad(draft, frame, target)
    return True


def _growths(read: Shape, wide: Shape, full: Shape) -> list[list[Shape]]:
    """The orders in which axes can be repeated and padded; a repeated axis is padded after that."""
    repeated = [r != w for r, w in zip(read, wide, strict=True)]
    padded = [w != f for w, f in zip(wide, full, strict=True)]
    rows = list(zip(read, wide, full, repeated, padded, strict=True))
    first = [tuple(1 if again else f for _, _, f, again, _ in rows)]
    first.append(tuple(w if again else f for _, w, f, again, _ in rows))
    last = [tuple(w if again and pad else r for r, w, _, again, pad in rows)]
    last.append(tuple(1 if again and not pad else f for _, _, f, again, pad in rows))
    return [[wide, full], [*first, full], [*last, full]]


def _grown_cells(shapes: Sequence[Shape]) -> int:
    cells = [sampled(product(shape)) for shape in shapes]
    return sum(a + b for a, b, s, t in zip(cells, cells[1:], shapes, shapes[1:], strict=False) if s != t)


def _pad(draft: _Draft, frame: list[Part | None], target: Shape) -> None:
    before: list[Size] = []
    after: list[Size] = []
    for p, old, new in zip(frame, draft.shape, target, strict=True):
        low = p.lo if p is not None and old != new else 0
        high = total(p.extent, mul(-1, p.hi)) if p is not None and old != new else 0
        before.append(low)
        after.append(high)
    draft.add(Pad(tuple(before), tuple(after)))


def _transpose(draft: _Draft, parts: list[Part], order: list[int], moving: list[int], read: Shape) -> None:
    """One transpose; it carries axes of extent 1 along where that saves a reshape."""
    widths = [parts[i].width for i in order]
    if [e for e in draft.shape if e != 1] != widths:
        draft.reshape((*(1 for e in read if e == 1), *widths))
    units = [a for a, e in enumerate(draft.shape) if e == 1]
    places = dict(zip(order, (a for a, e in enumerate(draft.shape) if e != 1), strict=True))
    if len(units) == len(read) - len(moving):
        spare, targets = iter(units), iter(moving)
        perm = tuple(next(spare) if e == 1 else places[next(targets)] for e in read)
    else:
        perm = (*units, *(places[i] for i in moving))
    draft.add(Transpose(perm))


def _gathered(m: FlatMap, src: Shape, dst: Shape) -> _Draft | None:
    """Read what m reads by a gather, in output order, then expand and pad."""
    offset = m.offset
    for d in m.digits:
        offset = total(offset, mul(d.stride, d.lo))
    reads = from_digits(m.n_in, [digit(d.width, d.stride) for d in m.digits if d.stride != 0], offset)
    core = _core(reads)
    if core is None:
        return None
    draft = _gather_table(_Draft(src), *core)
    parts = [Part(d.extent, d.lo, d.hi, d.width, False, ((0, 1),) if d.stride != 0 else ()) for d in m.digits]
    moving = [i for i, p in enumerate(parts) if p.steps and p.width != 1]
    return draft if _arrange(draft, parts, moving, dst) else None


def _spell_tables(m: TableMap, src: Shape, dst: Shape) -> Spelling | None:
    """One gather of all tables, if that has not too many rows, else a gather for each; borders of several axes."""
    core = _core(m)
    found = None if core is None else _finished(_gather_table(_Draft(src), *core), dst)
    if found is not None and core is not None and not (_grows(core[1]) and len(m.lookups) > 1):
        return found
    apart = _apart(m, src, dst)
    if found is None or apart is None:
        return apart or found
    return apart if all(isinstance(step, Pad | Reshape) for step in apart.steps) else found


def _grows(m: Listed) -> bool:
    """Whether a map may be a border around several axes: it reads each cell, some again."""
    return m.is_total and number(m.n_out) > number(m.n_in)


def _apart(m: TableMap, src: Shape, dst: Shape) -> Spelling | None:
    """A gather for each table."""
    apart = looked_up_first(m)
    core = None if apart is None else _core(apart[0])
    if apart is None or core is None or compose(*apart) != m:
        return None
    draft = _gather_table(_Draft(src), *core)
    rest = spell(apart[1], draft.shape, dst)
    if rest is None:
        return None
    first, second = draft.steps[-1], next(iter(rest.steps), None)
    if isinstance(first, Pad) and isinstance(second, Pad) and first.mode == second.mode:  # of different axes
        before, after = (
            tuple(map(total, a, b)) for a, b in ((first.before, second.before), (first.after, second.after))
        )
        both = Pad(before, after, first.mode)
        return Spelling(src, (*draft.steps[:-1], both, *rest.steps[1:]))
    return Spelling(src, (*draft.steps, *rest.steps))


def _core(m: Listed) -> tuple[Size, Listed, Size] | None:
    """A map as blocks of runs: how many blocks, the map of one, which has numbers, and how long runs are."""
    outer, inner = surroundings(m)
    core = narrowed(m, outer, inner)
    return None if core is None or not core.is_numeric or not at_most(core.n_out, TABLE_LIMIT) else (outer, core, inner)


def _gather_table(draft: _Draft, outer: Size, core: Listed, inner: Size) -> _Draft:
    """Gather along the axis of the table, and mask what is invalid; a border around the axis is a pad."""
    axis = _axis_for(draft.shape, outer, core.n_in)
    if axis is None:
        ends = [e for e in (outer,) if e != 1], [e for e in (inner,) if e != 1]
        draft.reshape((*ends[0], core.n_in, *ends[1]))
        axis = len(ends[0])
    rows, extent = number(core.n_out), number(core.n_in)
    border = as_border(core.to_array(), extent) if core.is_total and rows > extent else None
    if border is not None:
        before, after = ([n if k == axis else 0 for k in range(len(draft.shape))] for n in border[:2])
        draft.add(Pad(tuple(before), tuple(after), border.mode))
        return draft
    draft.add(Gather(axis, IntTable.later(rows, lambda: np.maximum(core.to_array(), 0))))
    if not core.is_total:
        draft.add(Mask(axis, IntTable.later(rows, lambda: core.to_array() >= 0)))
    return draft


def _axis_for(shape: Shape, outer: Size, rows: Size) -> int | None:
    """The axis of a shape that is the axis of the table."""
    for axis, extent in enumerate(shape):
        if extent == rows and product(shape[:axis]) == outer:
            return axis
    return None
