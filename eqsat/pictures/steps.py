"""What a picture shows: for each step of a chain of maps, the cells of a layout and which element each one holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError, LayoutError
from eqsat.ir.layouts.as_map import as_map
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.layout import Layout, LayoutPair
from eqsat.ir.layouts.pattern import is_pattern
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.shape import as_shape, format_shape, require_static
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term

PADDING = -1
WIDE, MANY = 32, 512
"""Cells shown beside each other, below each other, and in one grid."""

Extents = tuple[int, ...]
Step = IndexMap | Layout | LayoutPair | str | tuple[str, str] | Callable[..., Any]
"""A map, its text, a layout, two of them ("NCHW -> NCHW16c", or a pair), an einops pattern, a function of indices."""


@dataclass(frozen=True, eq=False)
class Grid:
    """A layout with the elements that its first cells hold, by their place in the order of the source."""

    title: str
    shape: Extents
    cells: NDArray
    padding: int
    """How many of all cells hold padding."""

    @property
    def cut(self) -> bool:
        """Whether there are more cells than are shown."""
        return tuple(self.cells.shape) != self.shape


@dataclass(frozen=True)
class _Shaped:
    shape: Extents


def map_of(step: Any, shape: Extents, sizes: Mapping[str, int]) -> IndexMap:
    """The map that a step is on a shape; LayoutError or ParseError says why it is none.

    >>> print(map_of("NCHW -> NCHW4c", (1, 8, 2, 2), {}), "|", map_of("(a b) -> b a", (6,), {"a": 2}))
    n, c, h, w -> n, c // 4, h, w, c % 4 | ab -> ab % 3, ab // 3
    """
    if isinstance(step, Layout | LayoutPair):
        return step.index_map
    if isinstance(step, tuple):
        names = cast("tuple[Any, ...]", step)
        if len(names) != 2:
            raise LayoutError(f"plot of {step!r}", "a tuple is a pair of layouts", "a chain of steps is a list")
        return as_map(_Shaped(shape), names[0], names[1], {})
    if isinstance(step, str):
        sides = [side.strip() for side in step.split("->")]
        if len(sides) == 2 and all(side[:1].isupper() and "," not in side for side in sides):
            return as_map(_Shaped(shape), Layout(sides[0]), sides[1], {})
        return as_map(_Shaped(shape), step, None, sizes if is_pattern(step) else {})
    return as_map(_Shaped(shape), step, None, {})


def first_cells(shape: Extents) -> Extents:
    """The corner of a layout that is shown: every other axis goes to the right, the rest down.

    >>> first_cells((4, 4)), first_cells((1024, 32)), first_cells((10_000,))
    ((4, 4), (16, 32), (20,))
    """
    shown = list(shape)

    def cut(axes: Sequence[int], most: int) -> None:
        while prod(shown[a] for a in axes) > most:
            widest = max(axes, key=lambda a: shown[a])
            shown[widest] = (shown[widest] + 1) // 2

    last = len(shape) - 1
    cut(range(last, -1, -2), WIDE)
    cut(range(last - 1, -1, -2), WIDE)
    cut(range(len(shape)), MANY)
    return tuple(shown)


def grids(steps: Sequence[Any], shape: Any, sizes: Mapping[str, int]) -> list[Grid]:
    """The source and the layout after each step, with the elements that their first cells hold.

    >>> [grid.cells.tolist() for grid in grids(["i -> i//4, i%4"], (6,), {})]
    [[0, 1, 2, 3, 4, 5], [[0, 1, 2, 3], [4, 5, -1, -1]]]
    """
    source = require_static(as_shape(shape), "plot")
    layouts, inverses = [source], list[tuple[IndexMap, Term]]()
    result = [Grid("source", source, _elements(source, source, inverses), 0)]
    for number, step in enumerate(steps, 1):
        before = layouts[-1]
        m = map_of(step, before, sizes)
        what = f"plot of {m} on {format_shape(before)}"
        after = require_static(m.map_shape(before), what)
        if not m.names:
            m = IndexMap.identity(len(before))
        if prod(before):
            inverses.append(m.non_surjective_inverse(before))
        layouts.append(after)
        title = f"{number}. {m}" if len(steps) > 1 else str(m)
        result.append(Grid(title, after, _elements(after, source, inverses), prod(after) - prod(source)))
    return result


def _elements(shape: Extents, source: Extents, inverses: Sequence[tuple[IndexMap, Term]]) -> NDArray:
    """The elements in the first cells of a layout, found by going back through the steps."""
    shown = first_cells(shape)
    if not prod(source):
        return np.full(shown, PADDING, np.int64)
    places = list(np.indices(shown))
    padded = np.zeros(shown, bool)
    for inverse, padding in reversed(inverses):
        env = dict(zip(inverse.initial_indices, places, strict=True))
        (marks, bad), *found = evaluate_masked([padding, *inverse.final_indices], env, load_table)
        padded |= np.broadcast_to(marks, shown)
        if bad is not None and bool(np.any(np.logical_and(bad, np.logical_not(padded)))):
            raise EvaluationError(f"plot of {inverse}", f"{padding} is undefined at a cell")
        # What padding would hold is nothing: any place will do to go on.
        places = [np.where(padded, 0, np.broadcast_to(value, shown)) for value, _ in found]
    order: NDArray = np.zeros(shown, np.int64)
    for place, extent in zip(places, source, strict=True):
        order = order * extent + place
    return np.where(padded, PADDING, order)
