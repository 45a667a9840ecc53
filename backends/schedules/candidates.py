"""The few other schedules of a move that are worth measuring: tile shapes, loop orders, packing, prefetching."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import BLOCK, LINE, Machine
from eqsat.backends.schedules.choose import choose
from eqsat.backends.schedules.schedule import (
    TILE_J,
    ContiguousCopy,
    Interleave,
    JoinedLines,
    LineTiles,
    LineTranspose,
    Schedule,
    StreamingTranspose,
    TransposeTiles,
)
from eqsat.backends.schedules.transpose import result_order, source_order

TILE_SHAPES = ((1, 1), (2, 2), (4, 4), (1, 4), (4, 1))
"""Cache lines along i and along j of the tiles that are tried."""
LINE_COUNTS = (1, 2, 4, 6, 8)
"""Lines of a row of the result that a streaming transpose is tried with."""
BLOCKS = (256, 4096)
"""Steps of the long loop that an interleave is tried with."""
LARGEST_TILE = 32 << 10
"""Bytes of a tile at most: the first cache."""


def _transposes(move: Move, first: TransposeTiles) -> Iterator[Schedule]:
    if first.contiguous:
        row = first.ti * move.out.size
        wide = (w for w in (first.tj // 2, 2 * first.tj) if BLOCK // move.out.size <= w <= first.j.size)
        lines = (w for w in wide if all(n * row >= LINE for n in (w, first.j.size % w or w)))
        yield from (replace(first, tj=w) for w in lines)
        yield replace(first, prefetch=0 if first.prefetch else 2 * LINE)
        if first.prefetch_loop is not None:
            yield replace(first, prefetch_loop=None)
        return
    if move.boxed:
        return
    line = LINE // move.out.size
    for high, wide in TILE_SHAPES:
        tile = replace(first, ti=min(high * line, first.i.size), tj=min(wide * line, first.j.size))
        if tile.ti * tile.tj * move.out.size <= LARGEST_TILE:
            yield replace(tile, order=result_order(move, tile))
            yield replace(tile, order=source_order(move, tile))
    yield replace(first, pack=not first.pack, band=0)


def _streaming_transposes(move: Move, first: StreamingTranspose) -> Iterator[Schedule]:
    line, tiles = LINE // move.out.size, first.prefetch_tiles
    for lines in LINE_COUNTS:
        if lines * line <= first.i.size and lines != first.lines:
            yield replace(first, lines=lines, prefetch_tiles=max(1, tiles * first.lines // lines))
    for others in (0, tiles // 2, 2 * tiles):
        yield replace(first, prefetch_tiles=others)
    yield replace(first, tj=2 * line)
    yield replace(first, pack=not first.pack)
    yield replace(first, interleaved=not first.interleaved)


def _line_transposes(move: Move, first: LineTranspose) -> Iterator[Schedule]:
    line = LINE // move.out.size
    for lines in LINE_COUNTS:
        if lines * line <= first.i.size:
            yield replace(first, lines=lines)
    yield from (replace(first, prefetch_tiles=tiles) for tiles in (0, 1, 2, 4, 8))
    if first.part and not isinstance(first, JoinedLines):
        yield replace(first, part=0, order=tuple(k for k in first.order if k != TILE_J))


def _line_tiles(move: Move, first: LineTiles) -> Iterator[Schedule]:
    line = LINE // move.out.size
    for high, wide in TILE_SHAPES:
        if high * line <= first.i.size and wide * line <= first.j.size:
            yield replace(first, high=high, wide=wide)


def _copies(move: Move, first: ContiguousCopy) -> Iterator[Schedule]:
    if first.tiled is not None:
        wide = (w for w in (first.tile // 2, 2 * first.tile) if 2 <= w < move.extents[first.tiled])
        yield from (replace(first, tile=w) for w in wide)
        return
    outer = first.order[: len(first.order) - first.inner]
    if not move.operands or not outer:
        return
    rest = first.order[len(outer) :]
    step = abs(move.operands[0].strides[outer[-1]]) * move.out.size
    for prefetch in (0, step, 4 * step):
        yield replace(first, prefetch=prefetch, prefetch_group=0)
    yield replace(first, order=(*sorted(outer), *rest), prefetch=0, prefetch_group=0)


def _interleaves(move: Move, first: Interleave) -> Iterator[Schedule]:
    source = move.operands[0]
    yield replace(first, order=tuple(sorted(first.order)))
    yield replace(first, order=tuple(sorted(first.order, key=lambda k: -abs(source.strides[k]))))
    if first.in_registers:
        yield replace(first, in_registers=False)
    long = move.extents[first.long]
    yield from (replace(first, block=min(block, long)) for block in BLOCKS if first.block < long or block < long)


def candidates(move: Move, machine: Machine, threads: int = 1) -> tuple[Schedule, ...]:
    """A few schedules, the chosen one first. All write by the same kind of stores: rules decide that better."""
    first = choose(move, machine, threads)
    if first is None:
        return ()
    found: dict[Schedule, None] = {first: None}
    if isinstance(first, TransposeTiles):
        found |= dict.fromkeys(_transposes(move, first))
    elif isinstance(first, StreamingTranspose):
        found |= dict.fromkeys(_streaming_transposes(move, first))
    elif isinstance(first, LineTranspose):
        found |= dict.fromkeys(_line_transposes(move, first))
    elif isinstance(first, LineTiles):
        found |= dict.fromkeys(_line_tiles(move, first))
    elif isinstance(first, ContiguousCopy):
        found |= dict.fromkeys(_copies(move, first))
    elif isinstance(first, Interleave):
        found |= dict.fromkeys(_interleaves(move, first))
    return tuple(found)
