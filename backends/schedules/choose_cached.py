"""Schedules of transposes of which the caches hold much: tile shapes and loop orders follow from what stays where."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from eqsat.backends.cache_sets import PERIOD, WAYS, aliases, rows_per_set, sets_reached
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import BLOCK, LINE, Machine
from eqsat.backends.schedules.contiguity import tile_extent
from eqsat.backends.schedules.schedule import TILE_I, TILE_J, TransposeTiles
from eqsat.backends.schedules.transpose import TILE_LINES, Transpose, begins_within_lines, result_order, source_order

LINES = 16
"""Lines of a row of the result that are written one after the other, where the second cache holds the source."""
CACHED_SHARE = 6
"""A result of up to 1 / CACHED_SHARE of the last cache is found there, besides all else. Measured."""
STRIP, BYTE_STRIP = 32, 16
"""Rows of the result that are written side by side, a register block of each in turn; two blocks of bytes, and of words
in rows of few lines. Measured; where a machine likes strips of many rows, it says of how many."""
HIGH_STRIP = 8
"""Rows of the source of strips of many rows, at least. Measured."""
HALVED = 16
"""Lines of the result that are collected where half of each comes from a register block. Measured."""
COLLECTED_ROWS = 128
"""Rows of the source of which a register block each is collected, where those of the result meet in a set. Measured."""


def likes_many_rows(machine: Machine) -> bool:
    """Whether reading on along the rows of the source is worth more than parts of a line soon after each other."""
    return machine.strip > STRIP


def strip_rows(it: Transpose, machine: Machine) -> int:
    """Rows of a strip of the result that begin anywhere in a line; 0 where others serve, or too many meet in a set.

    Their lines are written in parts, soon one after the other, while the next lines of the source arrive: so none is
    fetched twice, and few stores cross the end of a line.
    """
    if not begins_within_lines(it):
        return 0
    if likes_many_rows(machine):
        return machine.strip
    most = STRIP if it.size > 1 else BYTE_STRIP
    wanted = ((most, WAYS // 2), (most // 2, WAYS))
    return next((n for n, ways in wanted if n >= it.e and rows_per_set(it.row_strides[1], n) <= ways), 0)


def strip_height(it: Transpose, machine: Machine) -> int:
    """Rows of the source that a tile of such a strip has, a register block or more."""
    if likes_many_rows(machine):
        return max(2 * it.e, HIGH_STRIP)
    two = it.size == 1 or (it.e <= BLOCK // 4 and it.plain.i.size < TILE_LINES * it.line)
    return 2 * it.e if two else it.e


def cached_transpose(it: Transpose, machine: Machine) -> TransposeTiles:
    """Transposes of which a cache holds much, so that ordinary stores serve."""
    move, plain, line, e, size = it.move, it.plain, it.line, it.e, it.size
    run_i, run_j = plain.i, plain.j
    strip = strip_rows(it, machine)
    if strip:
        tile = replace(plain, ti=min(strip_height(it, machine), run_i.size), tj=tile_extent(run_j.size, strip, e))
        return replace(tile, order=result_order(move, tile))
    if begins_within_lines(it) and run_i.size >= COLLECTED_ROWS:
        collected = replace(plain, ti=tile_extent(run_i.size, COLLECTED_ROWS, e), tj=e, stage=True)
        return replace(collected, order=result_order(move, collected))
    halves = size == 1 and machine.vector >= LINE
    if it.row == LINE and (e <= BLOCK // 4 or halves) and it.plane_is_contiguous and run_i.single and not move.boxed:
        # A register block has whole lines of the result, which leave from end to end; half of them where rows of the
        # source meet in a set that holds half of them, and of bytes. Measured.
        halves = halves or rows_per_set(abs(it.row_strides[0]), line) >= 2 * (machine.first // PERIOD)
        ti, tj = (line // 2, min(HALVED, run_j.size)) if halves else (run_i.size, e)
        block = replace(plain, ti=ti, tj=tj, stage=True)
        return replace(block, order=result_order(move, block))
    least, aliased = TILE_LINES if it.row % LINE else 2 * TILE_LINES, any(aliases(step) for step in it.row_strides)
    beyond = 2 * move.points * size > machine.second
    if it.rows_fit(machine) and it.row >= least * LINE and beyond and not aliased and not likes_many_rows(machine):
        # Whole rows are collected, a line of each of the source, and leave from end to end: so their stores are of
        # whole lines wherever they begin, and one after the other.
        rows = replace(plain, ti=run_i.size, tj=min(line, run_j.size), stage=True)
        return replace(rows, order=source_order(move, rows))
    # What far exceeds the caches comes from memory either way: there other tiles pay where rows alias exactly.
    inside = aliased or CACHED_SHARE * move.points * size <= machine.last
    if inside and run_i.size >= TILE_LINES * line and run_j.size >= TILE_LINES * line and not move.boxed:
        aliased = aliased_transpose(move, plain, machine)
        if aliased is not None:
            return replace(aliased, order=source_order(move, aliased))
    # What fits into the second caches of all threads is better written in parts: each finds its own when it reads on.
    parted = plain.threads > 1 and move.points * size <= plain.threads * machine.second
    if machine.narrow and not move.boxed and beyond and it.row == LINE and reads_pieces(move, plain):
        # Lines of the result, in the order of the source. Measured: up to 1.9 times as fast.
        tile = replace(plain, tj=min(line, run_j.size))
        return replace(tile, order=source_order(move, tile))
    if not parted and reads_along(move, machine, plain):
        return replace(plain, order=source_order(move, plain))
    plane = run_i.size * run_j.size * size
    resident = 2 * plane <= machine.second < 2 * move.points * size and sets_reached(it.row_strides[0]) > WAYS // 2
    if not move.boxed and resident and run_j.size > 2 * line:
        # What is read stays in the second cache: the result is written from its beginning to its end.
        wide = tile_extent(run_j.size, line, e) if run_j.size > TILE_LINES * line else run_j.size
        rows = tile_extent(run_i.size, LINES * line // wide * line, e)
        tile = replace(plain, ti=rows, tj=wide)
        if rows > line and move.out.strides[it.j] == run_i.size:
            return replace(tile, order=result_order(move, tile))
    if it.source_in_one_set and not move.boxed and e <= WAYS:
        return replace(plain, order=result_order(move, plain), band=WAYS)
    return replace(plain, order=result_order(move, plain), pack=it.source_in_one_set and not move.boxed)


def aliased_transpose(move: Move, plain: TransposeTiles, machine: Machine) -> TransposeTiles | None:
    """Tiles for rows of which too many meet in a set of the first cache: few of those at a time, each for long."""
    size, line = move.out.size, LINE // move.out.size
    e, i, j, source, result = BLOCK // size, plain.i, plain.j, move.operands[0].strides, move.out.strides
    source_aliases = i.single and rows_per_set(abs(source[i.loops[0]]) * size, line) >= WAYS
    result_aliases = j.single and rows_per_set(result[j.loops[0]] * size, TILE_LINES * line) >= line
    # Such rows of the source are read few at a time or, where a register block has many of them, copied side by side.
    many = source_aliases and e > WAYS // 2
    plain = replace(plain, band=0 if many or not source_aliases else WAYS, pack=many)
    if source_aliases and (not result_aliases or e > WAYS):
        return replace(plain, ti=line, tj=TILE_LINES * line)
    if machine.narrow and result_aliases and e <= BLOCK // 4 and (e == BLOCK // 4 or not source_aliases):
        # Where a line takes several stores, tiles of a line of each row of the result.
        return replace(plain, ti=line, tj=line if source_aliases else TILE_LINES * line, stage=source_aliases)
    if result_aliases and not source_aliases and e <= WAYS:
        return replace(plain, ti=min(2 * TILE_LINES * line, i.size), tj=WAYS)
    return (
        replace(plain, ti=TILE_LINES * line, tj=2 * line if many else TILE_LINES * line, stage=True)
        if result_aliases
        else None
    )


def reads_pieces(move: Move, schedule: TransposeTiles) -> bool:
    """Whether the order of the result reads a piece of each of many runs of the source that follow each other."""
    order = result_order(move, schedule)
    inside = [k for k in order[order.index(TILE_J) :] if k >= 0]
    return schedule.tj < schedule.j.size and any(move.operands[0].strides[k] == schedule.j.size for k in inside)


def reads_along(move: Move, machine: Machine, schedule: TransposeTiles) -> bool:
    """Whether the order of the source is better, for a source that exceeds the second cache.

    A few of its rows are read from end to end, which the hardware prefetches well. But the lines that rows of the
    result share must then stay in the cache until they are whole.
    """
    order, size = source_order(move, schedule), move.out.size
    rows = [k for k in range(len(move.extents)) if k not in schedule.i.loops]
    at = order.index(TILE_I)
    if TILE_J not in order[at:] or schedule.i.size <= schedule.ti or move.boxed:
        return False
    written = schedule.j.size * prod(move.extents[k] for k in order[at:] if k >= 0)
    whole = schedule.ti * size % LINE == 0 and all(move.out.strides[k] * size % LINE == 0 for k in rows)
    exceeds_second = written * schedule.i.size * size > machine.second
    return exceeds_second and (whole or 2 * LINE * written <= machine.second // 4)
