"""Where the cells of a square tile lie in local memory, and how many of its accesses meet in a bank.

Local memory of a GPU has 32 banks of 4 bytes: word w lies in bank w % 32, and a bank gives one word at a time. Lanes
that run in step and ask a bank for different words wait for each other; lanes that ask for the same word do not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from eqsat.ir.layouts.index_map import IndexMap

BANKS, WORD = 32, 4
"""Banks of the local memory, and bytes of a word."""

TILES: dict[str, IndexMap] = {
    "plain": IndexMap.parse("row, column -> row*32 + column"),
    "padded": IndexMap.parse("row, column -> row*33 + column"),
    "swizzled": IndexMap.parse("row, column -> row*32 + (column ^ row)"),
}
"""The layouts of a tile of 32 x 32: as it is, with a spare column, and with each row in another order."""


def cells(tile: IndexMap, side: int) -> int:
    """The cells of local memory that a tile takes.

    >>> [cells(tile, 32) for tile in TILES.values()]
    [1024, 1055, 1024]
    """
    (found,) = tile.map_shape((side, side))
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


def conflicts(tile: IndexMap, side: int, itemsize: int) -> tuple[int, int]:
    """The rounds of the worst row and of the worst column of a tile; 1 is none that waits.

    >>> {name: conflicts(tile, 32, 4) for name, tile in TILES.items()}
    {'plain': (1, 32), 'padded': (1, 1), 'swizzled': (1, 1)}
    """
    lanes = range(side)
    rows = max(rounds((tile.map_indices((k, lane))[0] for lane in lanes), itemsize) for k in lanes)
    columns = max(rounds((tile.map_indices((lane, k))[0] for lane in lanes), itemsize) for k in lanes)
    return rows, columns
