"""Repeating whole axes as one step: what a reshape, an expand and a reshape do together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eqsat.ir.flat.sizes import product
from eqsat.ir.flat.steps import Expand, Reshape, Shape, Step, Tile, shape_after


def tiled(steps: Sequence[Step], source: Shape) -> list[Step]:
    """Steps with a tile in place of an expand wherever it repeats whole axes, and takes no more steps.

    >>> tiled([Reshape((2, 1, 3)), Expand((2, 4, 3)), Reshape((2, 12))], (2, 3))
    [Tile(repeats=(1, 4))]
    >>> tiled([Reshape((2, 1, 3)), Expand((2, 4, 3)), Reshape((8, 3))], (2, 3))
    [Tile(repeats=(1, 4)), Reshape(shape=(8, 3))]
    """
    found: list[Step] = []
    rest = list(steps)
    shape = source
    while rest:
        taken, made = _first(rest, shape)
        found += made
        for step in made:
            shape = shape_after(step, shape)
        rest = rest[taken:]
    return found


def _first(steps: Sequence[Step], shape: Shape) -> tuple[int, list[Step]]:
    """How many of some steps stand first in another spelling, and that."""
    before = isinstance(steps[0], Reshape) and len(steps) > 1 and isinstance(steps[1], Expand)
    grown = steps[1] if before else steps[0]
    if not isinstance(grown, Expand):
        return 1, list(steps[:1])
    units = shape_after(steps[0], shape) if before else shape
    taken = 2 if before else 1
    result = grown.shape
    if taken < len(steps) and isinstance(after := steps[taken], Reshape):
        taken, result = taken + 1, after.shape
    kept = tuple(a for a, b in zip(units, grown.shape, strict=True) if a == b)
    for start in (shape, kept):
        repeats = _repeats(start, units, grown.shape)
        if repeats is None or all(n == 1 or d == 1 for n, d in zip(repeats, start, strict=True)):
            continue  # what has one cell along an axis is expanded
        tile = Tile(repeats)
        made: list[Step] = [] if start == shape else [Reshape(start)]
        made += [tile] if shape_after(tile, start) == result else [tile, Reshape(result)]
        if len(made) <= taken:
            return taken, made
    return taken, list(steps[:taken])


def _repeats(source: Shape, units: Shape, grown: Shape) -> Shape | None:
    """How often each axis of a shape is repeated, if its cells under the shape `units`, some of whose axes of extent 1
    are repeated, are those axes repeated whole. Numbers only, and no shape without cells.

    >>> _repeats((2, 3, 4), (2, 1, 12), (2, 5, 12)), _repeats((2, 3), (2, 3, 1), (2, 3, 5))
    ((1, 5, 1), None)
    """
    if 0 in (*source, *grown):
        return None
    found: list[int] = []
    place = 0
    while len(found) < len(source):
        again = 1
        if place < len(units) and units[place] != grown[place]:
            again, place = grown[place], place + 1
        taken = _group(source[len(found) :], units[place:], grown[place:])
        if taken is None or not isinstance(again, int):
            return None
        axes, parts = taken
        found += [again, *(1,) * (axes - 1)]
        place += parts
    return tuple(found) if all(a == b == 1 for a, b in zip(units[place:], grown[place:], strict=True)) else None


def _group(source: Shape, units: Shape, grown: Shape) -> tuple[int, int] | None:
    """The fewest axes of one shape and parts of another that hold the same cells, none of these parts repeated."""
    kept = _same(units, grown)
    if source[0] == 1:
        return 1, 0
    for axes in range(1, len(source) + 1):
        whole = product(source[:axes])
        for parts in range(1, kept + 1):
            if product(units[:parts]) == whole:
                return axes, parts
    return None


def _same(units: Iterable[object], grown: Iterable[object]) -> int:
    """How many axes stand first that are not repeated."""
    count = 0
    for a, b in zip(units, grown, strict=True):
        if a != b:
            break
        count += 1
    return count
