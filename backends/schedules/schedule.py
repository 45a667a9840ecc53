"""What a schedule is: plain data that says how a move is carried out. `choose` makes them, the printers read them."""

from __future__ import annotations

from dataclasses import dataclass

TILE_I, TILE_J = -1, -2
"""The tile loops of a turn in its loop order; other entries number the loops of the move."""


@dataclass(frozen=True)
class Chain:
    """Loops of a move, innermost first, that are one contiguous run in one buffer; `size` counts its elements."""

    loops: tuple[int, ...]
    size: int

    @property
    def plain(self) -> bool:
        """Whether it is a single loop, so that its elements lie at one stride in the other buffer too."""
        return len(self.loops) == 1


@dataclass(frozen=True)
class Run:
    """Copy contiguous runs. The innermost `chunk` loops are walked in the order of the result, as one stretch of it.

    With `stream` the stretch leaves by streaming stores; `fetch` asks for the source so many bytes ahead of a run.
    With `group` the runs of so many steps of the loop around the stretch, which lie side by side, are asked for
    together, while the same number of steps before them are copied.
    The loop `tiled` is cut into pieces of `tile` steps, which the entry TILE_I of the order counts.
    """

    order: tuple[int, ...]
    stream: bool = False
    chunk: int = 0
    fetch: int = 0
    threads: int = 1
    tiled: int | None = None
    tile: int = 0
    group: int = 0


@dataclass(frozen=True)
class Turn:
    """Transpose tiles in registers: `i` is a run of the result, `j` one of the source, `ti` x `tj` the tile.

    `pack` first copies the tile's source rows side by side. `stage` collects the tile's rows of the result before they
    leave, by streaming stores with `stream`; with `dense` they follow each other, and so do the tiles along j. `fetch`
    asks for source rows so many bytes ahead, or with `next` where that loop goes next. At most `band` rows of a tile,
    if given, are read at a time.
    """

    i: Chain
    j: Chain
    ti: int
    tj: int
    order: tuple[int, ...]
    pack: bool = False
    stage: bool = False
    stream: bool = False
    dense: bool = False
    fetch: int = 0
    threads: int = 1
    band: int = 0
    next: int | None = None


@dataclass(frozen=True)
class Shear:
    """Transpose large blocks line by line: each row of the result leaves in whole lines wherever it starts.

    `i` and `j` as in a turn; `blocks` cuts j so that what the rows hold back stays in the second cache, `tj` columns
    are turned at a time, `order` has the other loops and TILE_J for the blocks, `lines` of a row leave at a time.
    `pack` copies a few rows of the source side by side before they are turned; the rows of the tile `fetch`
    tiles ahead are asked for.
    """

    i: Chain
    j: Chain
    tj: int
    blocks: int
    order: tuple[int, ...]
    lines: int = 1
    pack: bool = False
    fetch: int = 1
    threads: int = 1
    stream: bool = True


@dataclass(frozen=True)
class Zip:
    """Interleave or separate few elements: a long loop in blocks of `block`, the small loops around its statement.

    With `braid` 16 bytes of each of the small positions are interleaved, or taken apart, at a time, in registers.
    """

    long: int
    small: tuple[int, ...]
    block: int
    order: tuple[int, ...]
    braid: bool = False
    stream: bool = False
    threads: int = 1


@dataclass(frozen=True)
class Blend:
    """Compute a body tile by tile: `i` is the result's contiguous loop, `j` that of operands which are transposed."""

    i: int
    j: int
    ti: int
    tj: int
    order: tuple[int, ...]
    threads: int = 1
    stream: bool = False


@dataclass(frozen=True)
class Strip:
    """Compute a body along the result's contiguous loop `i`, `ti` elements at a time: TILE_I in `order`."""

    i: int
    ti: int
    order: tuple[int, ...]
    threads: int = 1
    stream: bool = False


@dataclass(frozen=True)
class Cross:
    """Compute a body along `j`, tile by tile, and transpose what it answers into the result, contiguous along `i`."""

    i: int
    j: int
    ti: int
    tj: int
    order: tuple[int, ...]
    threads: int = 1
    stream: bool = False


@dataclass(frozen=True)
class Shuffle:
    """Permute blocks of 16 bytes: `inside` has the loops that walk a block and how many of their steps that takes.

    Element k of a block of the result is element `places[k]` of the block of the source, which begins `first` elements
    behind its first access; `order` has the loops over blocks.
    """

    inside: tuple[tuple[int, int], ...]
    places: tuple[int, ...]
    first: int
    order: tuple[int, ...]
    threads: int = 1
    stream: bool = False


Plan = Run | Turn | Shear | Zip | Blend | Cross | Strip | Shuffle
