"""Absorbing a layout into an operator: which pieces of which labels index the operand, once its layout is gone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.facts import inverse
from eqsat.ir.flat.map import FlatMap
from eqsat.ir.flat.sizes import Size, at_most, div, mul, product
from eqsat.ir.flat.table import Map

Label = TypeVar("Label", bound=Hashable)


@dataclass(frozen=True, slots=True)
class LabelPiece(Generic[Label]):
    """The part ``label // stride % extent`` of a label."""

    label: Label
    extent: Size
    stride: Size


@dataclass(frozen=True, slots=True)
class Alignment(Generic[Label]):
    """How labels index an operand: its axes, outermost first, and how each label splits (extents, outermost first)."""

    pieces: tuple[LabelPiece[Label], ...]
    splits: tuple[tuple[Label, tuple[Size, ...]], ...]


def align(labels: Sequence[tuple[Label, Size]], m: Map) -> Alignment[Label] | None:
    """Index x directly where an operator read the view of x by a bijective m at row-major labels.

    None where m counts down, is a table, or has a digit that straddles two labels unevenly. Labels of extent 1 split
    into nothing.

    >>> from eqsat.ir.flat.map import digit, from_digits
    >>> a = align([("n", 2), ("c", 3)], from_digits(6, [digit(2, 1), digit(3, 2)]))
    >>> [p.label for p in a.pieces], a.splits
    (['c', 'n'], (('n', (2,)), ('c', (3,))))
    """
    found = _aligned(tuple(extent for _, extent in labels), m)
    if found is None:
        return None
    pieces, splits = found
    named = tuple(LabelPiece(labels[j][0], extent, stride) for j, extent, stride in pieces)
    return Alignment(named, tuple((label, extents) for (label, _), extents in zip(labels, splits, strict=True)))


@lru_cache(maxsize=1 << 14)
def _aligned(extents: tuple[Size, ...], m: Map) -> tuple[list[tuple[int, Size, Size]], list[tuple[Size, ...]]] | None:
    """The pieces (label number, extent, stride in the label) in source order, and the splits of every label."""
    if product(extents) != m.n_out:
        raise LayoutError(f"align labels of {extents} with {m}", f"the map has {m.n_out} cells")
    back = inverse(m)
    if not isinstance(m, FlatMap) or back is None or not all(at_most(0, d.stride) for d in m.digits):
        return None
    cut = common_refinement(extents, [d.extent for d in m.digits])
    if cut is None:
        return None
    placed: list[tuple[int, int, Size, Size]] = []  # (digit, label, extent, stride in the label), innermost first
    splits: list[tuple[Size, ...]] = [() for _ in extents]
    below: dict[int, Size] = {}
    for label, number, extent in reversed(cut):
        placed.append((number, label, extent, below.get(label, 1)))
        below[label] = mul(below.get(label, 1), extent)
        splits[label] = (extent, *splits[label])
    rank = {number: place for place, number in enumerate(_source_order(m))}
    placed.reverse()
    placed.sort(key=lambda piece: rank[piece[0]])
    return [(label, extent, stride) for _, label, extent, stride in placed], splits


def _source_order(m: FlatMap) -> list[int]:
    """The digits of a bijective map by falling stride."""
    order: list[int] = []
    want: Size = 1
    strides = [d.stride for d in m.digits]
    while len(order) < len(strides):
        number = strides.index(want)
        order.append(number)
        want = mul(want, m.digits[number].extent)
    order.reverse()
    return order


def common_refinement(a: Sequence[Size], b: Sequence[Size]) -> list[tuple[int, int, Size]] | None:
    """The pieces (index in a, index in b, extent) of two shapes of one buffer, outermost first; None if they straddle.

    >>> common_refinement((4, 3), (2, 6))
    [(0, 0, 2), (0, 1, 2), (1, 1, 3)]
    >>> common_refinement((4, 3), (3, 4)) is None
    True
    """
    pieces: list[tuple[int, int, Size]] = []
    i, j = len(a) - 1, len(b) - 1
    left, right = (a[i] if a else 1), (b[j] if b else 1)
    while True:
        while left == 1 and i > 0:
            i, left = i - 1, a[i - 1]
        while right == 1 and j > 0:
            j, right = j - 1, b[j - 1]
        if left == 1 or right == 1:
            break
        over, under = div(left, right), div(right, left)
        if over is not None:
            pieces.append((i, j, right))
            left, right = over, 1
        elif under is not None:
            pieces.append((i, j, left))
            left, right = 1, under
        else:
            return None
    pieces.reverse()
    return pieces if left == 1 and right == 1 else None
