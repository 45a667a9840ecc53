"""Where an index map puts the points of a small box, as a table: rows are the first physical axes, columns the last."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm, prod

import numpy as np

from eqsat.ir.errors import EqsatError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.shown import card, grid
from eqsat.ir.terms.shape import require_static
from eqsat.ir.terms.term import Term, int_value
from eqsat.ir.terms.walk import postorder

CELLS, ROWS = 256, 64
"""Of a grid that is shown."""


def map_card(m: IndexMap, head: str) -> str:
    """A map as notebooks show it: its text, and where it puts the points of a small box."""
    found = map_grid(m)
    return card(head, str(m)) if found is None else card(head, str(m), {"of the box": found[0]}, found[1])


def map_grid(m: IndexMap) -> tuple[tuple[int, ...], str] | None:
    """The box that is shown, and the grid; None where no small box shows the map.

    >>> box, text = map_grid(IndexMap.parse("i -> i//4, i%4"))
    >>> box, text.count("<tr>"), text.count("repeating")
    ((7,), 2, 1)
    """
    box = example_box(m)
    try:
        shape = require_static(m.map_shape(box), "index map")
        if not all(box) or prod(shape) > CELLS or not shape:
            return None
        cells = np.full(shape, "", dtype=object)
        points = np.indices(box).reshape(len(box), -1)
        places = np.broadcast_arrays(*m.map_indices(list(points)), points[0])[:-1]
    except (EqsatError, TypeError, ValueError):
        return None
    for number in range(points.shape[1]):
        place = tuple(int(p[number]) for p in places)
        label = ",".join(str(x) for x in points[:, number])
        cells[place] = f"{cells[place]} | {label}" if cells[place] else label
    rows: Sequence[Sequence[str]] = cells.reshape(-1, shape[-1]).tolist()
    return (box, grid(rows)) if len(rows) <= ROWS else None


def example_box(m: IndexMap) -> tuple[int, ...]:
    """A box in which each axis goes nearly twice through what divides it, so that padding is seen."""
    divisors: dict[Term, int] = {}
    for node in postorder(*m.final_indices):
        if node.op in ("floordiv", "mod", "truncdiv", "truncmod", "bitand", "bitxor"):
            value = int_value(node.args[1])
            if value is not None and 0 < value <= CELLS:
                for axis in _axes(node.args[0], m.initial_indices):
                    divisors[axis] = lcm(divisors.get(axis, 1), value)
    alone = len(m.initial_indices) == 1
    return tuple(2 * divisors[a] - (1 if alone else 0) if a in divisors else 2 for a in m.initial_indices)


def _axes(term: Term, axes: Sequence[Term]) -> list[Term]:
    inside = set(postorder(term))
    return [axis for axis in axes if axis in inside]
