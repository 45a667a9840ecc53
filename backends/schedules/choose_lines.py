"""Schedules of transposes that read whole lines of the source and write whole lines of the result.

Past the caches, `line_transpose` where rows of the result are whole lines apart, and `joined_lines` where they begin
anywhere in one; `line_tiles` where a cache holds them, but few of its sets.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from eqsat.backends.cache_sets import FEW_SETS, PERIOD, WAYS, nearly_aliases, rows_per_set
from eqsat.backends.machine import BLOCK, LINE, Machine
from eqsat.backends.schedules.contiguity import exceeds_cache
from eqsat.backends.schedules.schedule import TILE_I, TILE_J, JoinedLines, LineTiles, LineTranspose
from eqsat.backends.schedules.transpose import (
    BLOCKS_PER_THREAD,
    Transpose,
    begins_within_lines,
    source_order,
    written_as_planes,
)

LINEWISE = 1
"""Quarters of the last cache from which on a result is written past it, line by line. Measured, as the next."""
LINEWISE_SECOND = 8
"""Times the second cache that such a result has at least."""
LEAST_LINES = 12
"""Lines of a row of such a result, at least: where rows begin and end within one, two more are half done. Measured."""
FEWEST_LINES = 3
"""Lines of a row at least, where all rows begin at a line. Measured, as the next five."""
LEAST_JOINED, LONG_LINES = 4, 64
"""Lines of a row, at least, that are put together of two parts: where rows follow each other, and elsewhere."""
LARGE_PLANE = 192 << 10
"""Bytes of such rows that follow each other, from which on short ones are."""
JOINED_LINES, JOINED_AHEAD = 2, 4
"""Lines of a row that are then written one after the other, and tiles between the one that is transposed and the one
that is prefetched."""
JOINED_PART = 1024
"""Rows of the result, of which a line is held meanwhile, at most."""
PREFETCHED_LINES, PREFETCHED_FEW = 3, 2
"""Tiles between the one that is transposed line by line and the one that is prefetched: where a row of the source has
so many, and elsewhere. Measured."""
PREFETCHED_READ = 4
"""Tiles ahead of one that is read from its beginning to its end. Measured: 1.15 to 1.35 times as fast."""
PIECES = (LINE // 2, LINE // 4)
"""Bytes of rows of the source that make a line together."""
LINES_AT_ONCE = (4, 3)
"""Lines of a row that are then written one after the other: what divides the row better, many before few. Measured."""
FEW_LINES, MOST_ROWS, LEFT = (3, 2), 128, 16
"""Lines that are written so where elements of less than 8 bytes are interleaved before, from at most so many rows of
the source, if the lines that are left are no more than one of so many. Measured."""
PART, PART_ROWS, STRIPS = PERIOD, 2048, 16
"""Bytes of a row of the source, and rows of the result, that are then done for all other rows first, at most: so what
is read stays in a page of each row, and the pages that are written are met again soon: at least so many times.
Measured."""


def by_lines(it: Transpose, machine: Machine) -> bool:
    """Whether the result is large, its rows are as far from a line, both runs have lines, vectors half of one."""
    plain = it.plain
    # Shorter rows of the source, one behind the other, make a line together.
    wide = plain.j.size >= it.line or (
        it.row_strides[0] == plain.j.size * it.size in PIECES and plain.i.single and plain.j.single
    )
    long = plain.i.size >= LEAST_LINES * it.line and wide
    return written_by_lines(it, machine) and it.together and long and machine.vector >= 2 * BLOCK


def by_few_lines(it: Transpose, machine: Machine) -> bool:
    """Whether rows of the result are few whole lines, if it begins at one, and what is read lies side by side.

    Else two more lines of each row are written in part.
    """
    i, j = it.plain.i, it.plain.j
    whole = all(n % it.line == 0 for n in (i.size, *it.move.out.strides) if n > 1)
    apart = not (it.follows and written_as_planes(it, machine))
    wide = i.size >= FEWEST_LINES * it.line and j.size >= it.line
    return written_by_lines(it, machine) and whole and wide and apart and machine.vector >= LINE


def written_by_lines(it: Transpose, machine: Machine) -> bool:
    """Whether a result is so large that it is written past the caches line by line, of elements that words hold."""
    move, nbytes = it.move, it.move.points * it.size
    large = exceeds_cache(move, machine, LINEWISE) and nbytes >= LINEWISE_SECOND * machine.second
    return large and not move.boxed and it.e > 1


def line_transpose(it: Transpose, machine: Machine) -> LineTranspose:
    """Large transposes whose lines of the source become lines of the result in registers."""
    i, j = it.plain.i, it.plain.j
    if i.single and j.size <= it.line and it.row_strides[0] == j.size * it.size:
        # A source that is read from its beginning to its end is prefetched by the hardware, which falls behind where
        # each line that is written takes several stores.
        lines, ahead = 1, PREFETCHED_READ if machine.narrow else 0
    else:
        lines = lines_at_once(it, machine)
        ahead = PREFETCHED_LINES if j.size >= PREFETCHED_LINES * it.line else PREFETCHED_FEW
    many = i.size // it.line >= STRIPS * lines
    parts = -(-j.size // min(PART // it.size, PART_ROWS)) if many else 1
    part = -(-j.size // (parts * it.line)) * it.line if parts > 1 else 0
    outer = [k for k in source_order(it.move, it.plain) if k >= 0]
    order = (*outer, *([TILE_J] if part else []), TILE_I)
    return LineTranspose(i, j, lines, ahead, part, order=order, threads=it.plain.threads, nontemporal=True)


def by_joined_lines(it: Transpose, machine: Machine) -> bool:
    """Whether the result is large, its rows have some lines but begin anywhere in one, and vectors have a whole one.

    Each row has a line at either end that others share. Where rows follow each other, these are put together as well;
    planes that are small are better written as one stretch. Elsewhere they are written in part, so rows must be long.
    """
    i, j = it.plain.i, it.plain.j
    if it.follows:
        enough = i.size >= LEAST_LINES * it.line or i.size * j.size * it.size > LARGE_PLANE
    else:
        enough = i.size >= LONG_LINES * it.line
    wide = i.size >= LEAST_JOINED * it.line and j.size >= it.line
    return written_by_lines(it, machine) and enough and wide and machine.vector >= LINE


def joined_lines(it: Transpose) -> JoinedLines:
    """Large transposes whose lines of the source become lines of the result, each put together of two of a row."""
    i, j, threads = it.plain.i, it.plain.j, it.plain.threads
    outer = [k for k in source_order(it.move, it.plain) if k >= 0]
    turns = prod(it.move.extents[k] for k in outer)
    parts = max(-(-j.size // JOINED_PART), -(-BLOCKS_PER_THREAD * threads // turns) if threads > 1 else 1)
    part = -(-j.size // (parts * it.line)) * it.line
    part = 0 if part >= j.size else part
    # Where rows meet in few sets of the first cache, fewer visits of more lines.
    meet = any(nearly_aliases(stride) for stride in it.row_strides)
    lines = 1 if it.size == 1 and not meet else JOINED_LINES
    order = (*outer, *([TILE_J] if part else []))
    return JoinedLines(i, j, lines, JOINED_AHEAD, part, order=order, threads=threads, nontemporal=True)


def lines_at_once(it: Transpose, machine: Machine) -> int:
    """How many lines of a row of the result are written one after the other, where whole lines are read.

    One where it takes several stores, as a rule: up to 1.6 times as fast. Not where rows of the source alias, and of
    short elements, which have many of them: there each visit of a row is worth more. One of short elements, too, where
    the machine says so.
    """
    if machine.lines == 1 and it.e >= BLOCK // 2:
        return 1
    if machine.narrow and it.e <= BLOCK // 4 and not it.source_in_one_set:
        return 1
    whole = it.plain.i.size // it.line
    few = next(n for n in FEW_LINES if n * it.line <= MOST_ROWS)
    if it.e > BLOCK // 8 and whole % few * LEFT <= whole:
        return few
    return min(LINES_AT_ONCE, key=lambda n: whole % n)


def meeting(it: Transpose) -> tuple[int, int]:
    """How many rows of the source meet in a set of the first cache, of as many as a line of the result has elements;
    and how many of the result, of as many as a line of the source has."""
    runs = zip((it.plain.i, it.plain.j), it.row_strides, strict=True)
    of_source, of_result = (rows_per_set(abs(stride), it.line) if run.single else 1 for run, stride in runs)
    return of_source, of_result


def meets_in_sets(it: Transpose, machine: Machine) -> bool:
    """Whether so many rows meet in a set that they are better read and written for several lines each time.

    Rows of the result count where they begin anywhere in a line, and are written in parts, or where a register block
    has more of them than a set holds; rows of the source unless other tiles read few of them at a time. Measured.
    """
    i, j = it.plain.i, it.plain.j
    lines = min(i.size, j.size) >= it.line and not it.move.boxed and machine.vector >= 2 * BLOCK
    if not lines or it.e < BLOCK // 4:
        return False
    of_source, of_result = meeting(it)
    if begins_within_lines(it):
        return of_result >= WAYS or of_source > 2 * WAYS
    if machine.narrow and it.e <= BLOCK // 4:
        return False  # small tiles of register blocks are 1.2 to 1.6 times as fast
    # A register block of short elements has as many rows of either as a set holds lines.
    both = of_source >= (WAYS // 2 if it.e >= WAYS else WAYS) and of_result >= WAYS
    read = of_source >= WAYS if it.e > WAYS // 2 else of_source >= 2 * WAYS and it.row > LINE
    return both or read or (it.e > WAYS and of_result >= 2 * WAYS)


def line_tiles(it: Transpose, machine: Machine) -> LineTiles:
    """Transposes in a cache whose rows meet in few sets of the first: four lines of those at a time, two or one."""
    i, j = it.plain.i, it.plain.j

    def lines(size: int, rows: int, many: int) -> int:
        if it.line // rows <= FEW_SETS:
            fitting = [n for n in LINES_AT_ONCE if n * it.line <= size]
            if fitting:
                return min(fitting, key=lambda n: -(-size // (n * it.line)) * n)
        return 2 if rows >= many and size >= 2 * it.line else 1

    of_source, of_result = meeting(it)
    # A set holds WAYS lines that are read. Those that are written are met by what is read meanwhile. Where each takes
    # several stores, more of them at a time never paid, and took up to twice the time.
    high, wide = (1, 1) if machine.narrow else (lines(i.size, of_result, WAYS), lines(j.size, of_source, WAYS + 1))
    if high * wide * it.line * LINE > machine.first:
        wide = max(1, wide // 2)
    tile = replace(it.plain, ti=high * it.line, tj=wide * it.line)
    return LineTiles(i, j, high, wide, order=source_order(it.move, tile), threads=it.plain.threads)
