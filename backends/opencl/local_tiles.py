"""The tiles of transposes in local memory: how large, where their cells lie, how many accesses meet in a bank.

Local memory of a GPU has 32 banks of 4 bytes: word w lies in bank w % 32, and a bank gives one word at a time. Lanes
that run in step and ask a bank for different words wait for each other; lanes that ask for the same word do not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from eqsat.ir.layouts.index_map import IndexMap

BANKS, WORD = 32, 4
"""Banks of the local memory, and bytes of a word."""

SIDE = 32
"""Rows and columns of a tile of words: as many as work-items run in step on common GPUs, or half as many."""
LAYOUTS = ("plain", "padded", "swizzled")
"""How a tile is laid out: as it is, with a spare word in each row, and with each row in another order."""


def shape(last: int, along: int, itemsize: int) -> tuple[int, int]:
    """Rows and columns of the tiles that a box is cut into, for the extents that the result and the source are
    contiguous along. Elements of less than a word have more cells; where one extent is small, the other gets its share.

    >>> shape(512, 512, 4), shape(512, 512, 1), shape(16, 3136, 4), shape(50176, 3, 4)
    ((32, 32), (64, 64), (16, 64), (320, 3))
    """
    side = SIDE if itemsize >= WORD else 2 * SIDE
    small = min(last, along, side)
    if small == side:
        return side, side
    other = min(side * side // small, -(-max(last, along) // SIDE) * SIDE) // SIDE * SIDE
    return (small, other) if last <= along else (other, small)


def layout(name: str, rows: int, columns: int, itemsize: int) -> IndexMap:
    """Where the cell of a row and a column lies. Rows that are no power of two long are not swizzled, but padded.

    >>> [int(layout(name, 32, 32, 4).map_indices((1, 5))[0]) for name in LAYOUTS]
    [37, 38, 36]
    """
    if name == "plain":
        return IndexMap.parse(f"row, column -> row*{columns} + column")
    if name == "padded" or columns & (columns - 1):
        return IndexMap.parse(f"row, column -> row*{columns + max(WORD // itemsize, 1)} + column")
    key = "row" if rows <= columns else f"(row % {columns})"
    return IndexMap.parse(f"row, column -> row*{columns} + (column ^ {key})")


def cells(tile: IndexMap, rows: int, columns: int) -> int:
    """The cells of local memory that a tile takes.

    >>> [cells(layout(name, 32, 32, 4), 32, 32) for name in LAYOUTS]
    [1024, 1055, 1024]
    """
    (found,) = tile.map_shape((rows, columns))
    return int(found)


def rounds(places: Iterable[int], itemsize: int) -> int:
    """How often the banks must be asked until each lane has the element at its place.

    Elements of more than a word are given to as many lanes at a time as fill the banks.

    >>> rounds(range(32), 4), rounds(range(0, 32 * 32, 32), 4), rounds([7] * 32, 4)
    (1, 32, 1)
    """
    lanes = list(places)
    portion = max(min(len(lanes), BANKS * WORD // itemsize), 1)
    most = 0
    for start in range(0, len(lanes), portion):
        asked: defaultdict[int, set[int]] = defaultdict(set)
        for place in lanes[start : start + portion]:
            for word in range(place * itemsize // WORD, ((place + 1) * itemsize - 1) // WORD + 1):
                asked[word % BANKS].add(word)
        most = max(most, *(len(words) for words in asked.values()))
    return most


def conflicts(tile: IndexMap, rows: int, columns: int, itemsize: int) -> tuple[int, int]:
    """The rounds of the worst row and of the worst column of a tile, for as many lanes as it is long, at most SIDE;
    1 is none that waits.

    >>> {name: conflicts(layout(name, 32, 32, 4), 32, 32, 4) for name in LAYOUTS}
    {'plain': (1, 32), 'padded': (1, 1), 'swizzled': (1, 1)}
    """
    along, across = range(min(columns, SIDE)), range(min(rows, SIDE))
    row = max(rounds((tile.map_indices((k, lane))[0] for lane in along), itemsize) for k in range(rows))
    column = max(rounds((tile.map_indices((lane, k))[0] for lane in across), itemsize) for k in range(columns))
    return row, column
