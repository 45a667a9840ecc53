"""Moves: one rectangular loop nest with an affine access for the result and for every operand, in normal form.

A move is what schedules are chosen for and what the C and OpenCL printers print. `out[i] = body(operands[i])` for i in
the box, `fill` elsewhere; all addresses are sums of a stride times a loop position. Loops run from the largest stride
of the result to the smallest, none has extent 1, and neighbours that are one walk through every buffer are one loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from eqsat.ir.dtypes import itemsize
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, load
from eqsat.ir.terms.walk import nodes_of

Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Access:
    """Where a move reads or writes: a buffer, the element of the first iteration, and strides in elements."""

    buffer: str
    dtype: str
    offset: int
    strides: tuple[int, ...]

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return itemsize(self.dtype)

    def span(self, box: Box) -> tuple[int, int]:
        """The least and the greatest element touched in a box that is not empty."""
        ends = [sorted((s * low, s * (high - 1))) for s, (low, high) in zip(self.strides, box, strict=True)]
        return self.offset + sum(e[0] for e in ends), self.offset + sum(e[1] for e in ends)


def operand(number: int, dtype: str) -> Term:
    """The term that stands for an operand's element in the body of a move."""
    return load(number, [t.index_const(0)], dtype)


@dataclass(frozen=True, eq=False)
class Move:
    """A loop nest with one store. `body` reads operands as `operand(n, dtype)`; `fill` loads nothing."""

    extents: tuple[int, ...]
    box: Box
    out: Access
    operands: tuple[Access, ...]
    body: Term
    fill: Term | None = None

    @property
    def is_copy(self) -> bool:
        """Whether the bits of one operand go to the result unchanged."""
        return len(self.operands) == 1 and self.body.op == "load"

    @property
    def is_fill(self) -> bool:
        """Whether nothing is read."""
        return not self.operands and not nodes_of("load", self.body)

    @property
    def points(self) -> int:
        """How many elements are written."""
        return prod(self.extents)

    @property
    def whole(self) -> Box:
        """The box of all iterations."""
        return tuple((0, n) for n in self.extents)

    @property
    def boxed(self) -> tuple[int, ...]:
        """The loops of which the body covers only a part."""
        return tuple(k for k, (n, b) in enumerate(zip(self.extents, self.box, strict=True)) if b != (0, n))


def _take(access: Access, keep: Sequence[int], offset: int = 0) -> Access:
    strides = tuple(access.strides[k] for k in keep)
    return Access(access.buffer, access.dtype, access.offset + offset, strides)


def _pick(move: Move, keep: Sequence[int], fixed: int | None = None) -> Move:
    """The move with loops in another order, or without one that runs once, at its position in the box."""

    def access(a: Access) -> Access:
        return _take(a, keep)

    extents, box = tuple(move.extents[k] for k in keep), tuple(move.box[k] for k in keep)
    if fixed is not None and move.box[fixed] != (0, 1):
        return replace(
            move, extents=extents, box=tuple((0, n) for n in extents), out=access(move.out), operands=(),
            body=move.fill, fill=None,
        )  # fmt: skip
    operands = tuple(access(a) for a in move.operands)
    return replace(move, extents=extents, box=box, out=access(move.out), operands=operands)


def _merged(move: Move, k: int) -> Move | None:
    """Loops k and k + 1 as one, where every buffer is walked in one go."""
    inner = move.extents[k + 1]
    if move.box[k + 1] != (0, inner):
        return None
    for access in (move.out, *move.operands):
        if access.strides[k] != access.strides[k + 1] * inner:
            return None
    low, high = move.box[k]

    def drop(a: Access) -> Access:
        return Access(a.buffer, a.dtype, a.offset, a.strides[:k] + a.strides[k + 1 :])

    return replace(
        move,
        extents=(*move.extents[:k], move.extents[k] * inner, *move.extents[k + 2 :]),
        box=(*move.box[:k], (low * inner, high * inner), *move.box[k + 2 :]),
        out=drop(move.out),
        operands=tuple(drop(a) for a in move.operands),
    )


def normalise(move: Move) -> Move:
    """The normal form: no loop of extent 1, largest output stride first, walks merged.

    >>> x = Access("x", "float32", 0, (12, 4, 1, 1)); y = Access("y", "float32", 0, (12, 1, 3, 1))
    >>> print(normalise(Move((2, 3, 4, 1), ((0, 2), (0, 3), (0, 4), (0, 1)), y, (x,), operand(0, "float32"))).extents)
    (2, 4, 3)
    """
    for k in range(len(move.extents) - 1, -1, -1):
        if move.extents[k] == 1:
            move = _pick(move, [n for n in range(len(move.extents)) if n != k], k)
    if any(low >= high for low, high in move.box):
        assert move.fill is not None
        move = replace(move, box=move.whole, operands=(), body=move.fill, fill=None)
    order = sorted(range(len(move.extents)), key=lambda k: (-move.out.strides[k], k))
    move = _pick(move, order)
    k = 0
    while k + 1 < len(move.extents):
        merged = _merged(move, k)
        move, k = (move, k + 1) if merged is None else (merged, max(k - 1, 0))
    return move


WORD = "uint64"
"""The type of the halves of elements that are twice as wide."""


def in_words(move: Move) -> Move | None:
    """A move of elements of 16 bytes as one of their halves, with a loop over the two; None where those are not alike.

    >>> x, y = Access("x", "complex128", 0, (1, 3)), Access("y", "complex128", 0, (4, 1))
    >>> wide = in_words(Move((3, 4), ((0, 3), (0, 4)), y, (x,), operand(0, "complex128")))
    >>> wide.extents, wide.operands[0].strides
    ((3, 4, 2), (2, 6, 1))
    """
    if move.out.size <= itemsize(WORD):
        return move
    if not (move.is_copy or move.is_fill):
        return None
    body = operand(0, WORD) if move.is_copy else _half(move.body)
    fill = None if move.fill is None else _half(move.fill)
    if body is None or (fill is None) != (move.fill is None):
        return None

    def halves(a: Access) -> Access:
        return Access(a.buffer, WORD, 2 * a.offset, (*(2 * s for s in a.strides), 1))

    operands = tuple(map(halves, move.operands))
    return normalise(Move((*move.extents, 2), (*move.box, (0, 2)), halves(move.out), operands, body, fill))


def _half(value: Term) -> Term | None:
    """Both halves of a constant; None where they differ."""
    bits = 8 * itemsize(WORD)
    high, low = divmod(value.payload, 1 << bits) if value.op == "const" else (0, 1)
    return t.const(low, WORD) if high == low else None


def slab(move: Move, loop: int, low: int, high: int) -> Move:
    """The part of a move with one loop between two positions."""

    def shift(a: Access) -> Access:
        return replace(a, offset=a.offset + a.strides[loop] * low)

    first, last = move.box[loop]
    first, last = max(first - low, 0), min(last, high) - low
    box = (*move.box[:loop], (first, max(last, first)), *move.box[loop + 1 :])
    extents = (*move.extents[:loop], high - low, *move.extents[loop + 1 :])
    operands = tuple(shift(a) for a in move.operands)
    return replace(move, extents=extents, box=box, out=shift(move.out), operands=operands)


def without_border(move: Move, loops: Sequence[int]) -> tuple[Move, tuple[Move, ...]]:
    """The part inside of the box along some loops, and the moves that fill what lies outside of it."""
    borders: list[Move] = []
    for k in loops:
        low, high = move.box[k]
        for start, stop in ((0, low), (high, move.extents[k])):
            if start < stop:
                borders.append(normalise(slab(move, k, start, stop)))
        move = slab(move, k, low, high)
    return move, tuple(borders)
