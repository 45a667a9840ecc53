"""Moves as loop nests in OpenCL: for a CPU in tiles, where they transpose; which moves do.

    before:  for j: for i: d[j, i] = s[i, j]
    after:   for i0 = 0:I:16: for j0 = 0:J:16:                        # tiles, in the order of the source
                 for j of the tile: for i of the tile: d[j, i] = s[i, j]

The whole tiles come first, then the rest along each of both loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from eqsat.backends.lowering.moves import Access, Move, slab, without_border
from eqsat.ir.dtypes import INDEX
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import For, If, Stmt, Store, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, load
from eqsat.ir.terms.walk import transform

TILE = 16
"""Rows and columns of the tiles that a work-item of a CPU transposes: their lines stay in the first cache."""


def transposed_loop(move: Move) -> int | None:
    """The loop along which a move reads contiguous memory, where that is another than it writes along.

    >>> from eqsat.backends.lowering.moves import operand
    >>> x, y = Access("x", "float32", 0, (1, 64)), Access("y", "float32", 0, (32, 1))
    >>> transposed_loop(Move((64, 32), ((0, 64), (0, 32)), y, (x,), operand(0, "float32")))
    0
    """
    last = len(move.extents) - 1
    if last < 1 or abs(move.out.strides[last]) != 1:
        return None
    for k in range(last):
        if any(abs(a.strides[k]) == 1 and abs(a.strides[last]) > 1 for a in move.operands):
            return k
    return None


def rectangles(moves: Sequence[Move]) -> list[Move]:
    """The moves cut into their interiors and the borders that are filled."""
    found: list[Move] = []
    for move in moves:
        inside, borders = without_border(move, move.boxed)
        found += [inside, *borders]
    return found


def address(access: Access, axes: Sequence[Term]) -> Term:
    """The element of an access at a position of the loops, as a term."""
    return t.linear(access.offset, list(zip(access.strides, axes, strict=True)))


def value(move: Move, axes: Sequence[Term]) -> Term:
    """The body of a move, its operands loaded."""

    def change(node: Term) -> Term | None:
        if node.op != "load" or node.dtype == INDEX:
            return None
        number: int = node.payload
        source = move.operands[number]
        return load(source.buffer, [address(source, axes)], source.dtype)

    return transform(move.body, change)


def inside(move: Move, axes: Sequence[Term]) -> Term:
    """Whether a position of the loops is in the box."""
    ends = [(axes[k], move.extents[k], *move.box[k]) for k in move.boxed]
    low = [t.index_const(start) <= a for a, _, start, _ in ends if start]
    high = [a < stop for a, extent, _, stop in ends if stop < extent]
    return t.logical_and(*low, *high)


def as_nests(func: PrimFunc, moves: Sequence[Move]) -> PrimFunc:
    """The function as loop nests in the order of the result, each with its border."""
    return replace(func, body=seq([_nest(move, {}) for move in moves]))


def as_tiles(func: PrimFunc, moves: Sequence[Move]) -> PrimFunc:
    """The function as loop nests tile after tile in the order of the source, and nests that fill borders."""
    return replace(func, body=seq([nest for move in rectangles(moves) for nest in _tiles(move)]))


def _tiles(move: Move) -> list[Stmt]:
    along, last = transposed_loop(move), len(move.extents) - 1
    if along is None:
        return [_nest(move, {})]
    parts = [move]
    for loop in (along, last):
        parts = [piece for part in parts for piece in _whole_and_rest(part, loop)]
    return [_nest(part, {along: min(TILE, part.extents[along]), last: min(TILE, part.extents[last])}) for part in parts]


def _whole_and_rest(move: Move, loop: int) -> list[Move]:
    """A move cut along a loop where its whole tiles end."""
    extent = move.extents[loop]
    whole = extent // TILE * TILE
    if whole in (0, extent):
        return [move]
    return [slab(move, loop, 0, whole), slab(move, loop, whole, extent)]


def _nest(move: Move, tiles: dict[int, int]) -> Stmt:
    """Loops around one store; of tiled loops the inner digits run innermost, in the order of the result."""
    places: list[Term] = []
    outer: list[tuple[int, Term]] = []
    inner: list[Term] = []

    def loop(extent: int) -> Term:
        return t.ax(len(outer) + len(inner), extent) if extent > 1 else t.index_const(0)

    for k, extent in enumerate(move.extents):
        step = tiles.get(k, 1)
        axis = loop(extent // step)
        # Tiles follow each other as they lie in the source; without tiles the result gives the order.
        reach = max((abs(a.strides[k]) for a in move.operands), default=0) if tiles else 0
        outer.append((-reach * step, axis))
        digit = loop(step)
        inner.append(digit)
        places.append(axis * step + digit)
    cell = (address(move.out, places),)
    stmt: Stmt = Store(move.out.buffer, cell, value(move, places))
    if move.fill is not None and move.boxed:
        stmt = If(inside(move, places), stmt, Store(move.out.buffer, cell, move.fill))
    for axis in reversed([*(axis for _, axis in sorted(outer, key=itemgetter(0))), *inner]):
        if axis.op == "axis":
            stmt = For(axis, stmt)
    return stmt
