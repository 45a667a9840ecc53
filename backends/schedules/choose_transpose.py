"""Schedules of transposes: the source is contiguous along one loop and the result along another.

Six cases, by size and shape:

1. The result exceeds a part of the last cache, its rows are whole lines apart, and registers hold half a line or one:
   `line_transpose`.
2. The result exceeds most of the last cache (`streamed_from`), and a plane of both loops is small and contiguous in it:
   `contiguous_transpose`.
3. The result exceeds half of the last cache or more (`streamed_from`), and its rows are long: `streaming_transpose`.
4. The result exceeds the last cache otherwise: tiles that are collected, and written by non-temporal stores.
5. A cache holds it, but rows meet in few sets of the first one: `line_tiles`.
6. The caches hold much of it: `cached_transpose`, whose tile shapes and loop orders follow from what stays where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from eqsat.backends.cache_sets import (
    FEW_SETS,
    PERIOD,
    WAYS,
    aliases,
    nearly_aliases,
    rows_per_set,
    sets_reached,
)
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import BLOCK, LINE, Machine
from eqsat.backends.schedules.contiguity import PREFETCH_STREAMS, contiguous_loops, exceeds_cache, tile_extent
from eqsat.backends.schedules.schedule import (
    TILE_I,
    TILE_J,
    ContiguousLoops,
    LineTiles,
    LineTranspose,
    StreamingTranspose,
    TransposeTiles,
)

HELD_BYTES = 128 << 10
"""Bytes, of a second cache, in which a streaming transpose holds the unfinished lines of rows of the result."""
STREAMED, STREAMED_PLANES, STREAMED_STRIPS, STREAMED_BLOCKS = 2, 3, 3, 4
"""Quarters of the last cache from which on results are written past it: those in long rows as a rule; planes that are
one stretch of memory; where strips of rows are the alternative; where the source is read line by line, from its
beginning to its end. Measured."""
SHORT_ROW = 512
"""Bytes of rows of the result up to which a plane of them is written as one stretch of memory. Measured."""
WHOLE_LINES = 4
"""Rows of so many lines, and nothing else, are written one by one as well: none of their lines is shared. Measured."""
LONG_ROW = PERIOD
"""Rows longer than a page are written one by one, also where the second cache holds the plane that they are read from:
the first cache's sets repeat within them."""
LARGEST_PLANE = 512 << 10
"""Larger planes of such rows are written row by row as well, whatever the second cache holds. Measured."""
COLLECTED = 1 << 10
"""Bytes of such a stretch that are collected at a time. Measured, as the next three."""
WRITTEN_LINES = 2
"""Lines of a row of the result that a streaming transpose writes at a time, each by one store: two are written at the
speed of a stream, one at half of that; more make its stages larger. Measured."""
PREFETCHED_TILES = 2
"""Tiles between the one that a streaming transpose reads and the one that is prefetched. Measured."""
MOST_LINES = 8
"""Lines that are written at a time at most where each takes several stores, and rows alias. Measured, as the rest."""
PAGE_LINES = 2
"""So many where several rows share a page, or lie in WAYS sets or fewer; else one."""
PREFETCHED, PREFETCHED_FAR = 8 << 10, 24 << 10
"""Bytes of the source between the tile that is transposed and the one that is prefetched then: where one line is
written at a time, where several are."""
LINEWISE = 1
"""Quarters of the last cache from which on a result is written past it, line by line. Measured, as the next."""
LINEWISE_SECOND = 8
"""Times the second cache that such a result has at least."""
LEAST_LINES = 12
"""Lines of a row of such a result, at least: where rows begin and end within one, two more are half done. Measured."""
PREFETCHED_LINES = 3
"""Tiles between the one that is transposed line by line and the one that is prefetched, where there are so many in a
row of the source; else as below. Measured."""
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
PREFETCHED_BLOCKS = 8
"""The same where a tile is all of a part of the source that is read from its beginning to its end. Measured."""
ALONG_ROW = 512
"""Rows of the source of so many bytes are prefetched along the row; shorter ones, where the next loop goes."""
LINES = 16
"""Lines of a row of the result that are written one after the other, where the second cache holds the source."""
BLOCKS_PER_THREAD = 4
"""Parts of the work for each thread, so that all end at about the same time."""
CACHED_LINES, STREAMED_LINES = 4, 10
"""Lines that make a run long enough, where a cache holds the result, and where none does. Measured."""
CACHED_RUNS, STREAMED_RUNS = 4, 80
"""A run may become so many times as long as that, where whole loops are left: its lines are then written once."""
PLANES = 8
"""Planes of the source that the second cache must hold for the next one to be prefetched whole. Measured."""
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
TILE_LINES = 4
"""Lines of a row of a tile, where it is read from a cache or written to one: loops over its blocks are unrolled."""


def contiguous_tile(extent: int, row: int, e: int) -> int:
    """Rows of a tile, of `row` bytes each, whose result is one stretch: about COLLECTED bytes, a multiple of e rows.

    No tile must be less than a line: only whole lines are written by non-temporal stores.
    """
    best = max(e, COLLECTED // row // e * e)
    if extent <= best + best // 2:
        return extent
    fitting = [w for w in range(best, e - 1, -e) if all(n * row >= LINE for n in (w, extent % w or w))]
    return fitting[0] if fitting else extent


def prefetch_distance(move: Move, j: ContiguousLoops, order: Sequence[int]) -> int:
    """Bytes between what is read and what is prefetched: along a long row, else one step of the innermost loop."""
    source = move.operands[0]
    inner = [k for k in order if k >= 0]
    if j.size * source.size >= ALONG_ROW or not inner:
        return 2 * LINE
    return abs(source.strides[inner[-1]]) * source.size


def source_order(move: Move, schedule: TransposeTiles) -> tuple[int, ...]:
    """The loop order that reads the source from its beginning to its end."""
    strides = move.operands[0].strides
    keys = {TILE_I: abs(strides[schedule.i.loops[0]]) * schedule.ti, TILE_J: schedule.tj}
    return tuple(sorted(schedule.order, key=lambda k: -(keys[k] if k < 0 else abs(strides[k]))))


def result_order(move: Move, schedule: TransposeTiles) -> tuple[int, ...]:
    """The loop order that writes the result from its beginning to its end."""
    strides = move.out.strides
    keys = {TILE_I: schedule.ti, TILE_J: strides[schedule.j.loops[0]] * schedule.tj}
    return tuple(sorted(schedule.order, key=lambda k: -(keys[k] if k < 0 else strides[k])))


@dataclass(frozen=True)
class Transpose:
    """A transpose, its contiguous loops i in the result and j in the source, and the schedule to start from."""

    move: Move
    i: int
    j: int
    plain: TransposeTiles

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.move.out.size

    @property
    def line(self) -> int:
        """Elements of a cache line."""
        return LINE // self.size

    @property
    def e(self) -> int:
        """Elements of 16 bytes: the sides of a register block are multiples of it."""
        return BLOCK // self.size

    @property
    def row_strides(self) -> tuple[int, int]:
        """Bytes between rows of the source, and between rows of the result."""
        return self.move.operands[0].strides[self.i] * self.size, self.move.out.strides[self.j] * self.size

    @property
    def row(self) -> int:
        """Bytes of the result along its contiguous loop."""
        return self.move.extents[self.i] * self.size

    @property
    def plane(self) -> int:
        """Bytes of both loops."""
        return self.row * self.move.extents[self.j]

    @property
    def plane_is_contiguous(self) -> bool:
        """Whether the plane of both loops is one stretch of the result, and large enough for register blocks."""
        extents = self.move.extents
        return min(extents[self.i], extents[self.j]) >= self.e and self.move.out.strides[self.j] == extents[self.i]

    def rows_fit(self, machine: Machine) -> bool:
        """Whether the plane is contiguous, and its rows so short that half of the first cache holds a line's worth."""
        whole = self.plain.i.single and not self.move.boxed and self.plane_is_contiguous
        return whole and self.row * self.line <= machine.first // 2

    @property
    def source_in_one_set(self) -> bool:
        """Whether all rows of the source meet in one set of the first cache."""
        return self.plain.i.single and sets_reached(self.row_strides[0]) == 1


def choose_transpose(
    move: Move, machine: Machine, threads: int, i: int, j: int
) -> TransposeTiles | StreamingTranspose | LineTranspose | LineTiles | None:
    """Register transposes, where both runs are long enough for them."""
    far = runs_of(move, threads, i, j, True)
    if far is not None and by_lines(far, machine):
        return line_transpose(far)
    near = runs_of(move, threads, i, j, False)
    if exceeds_cache(move, machine, STREAMED if near is None else streamed_from(near, machine)):
        chosen = None if far is None else streamed_transpose(far, machine)
        if chosen is not None:
            return chosen
    if near is None:
        return None
    return line_tiles(near, machine) if meets_in_sets(near, machine) else cached_transpose(near, machine)


def runs_of(move: Move, threads: int, i: int, j: int, streamed: bool) -> Transpose | None:
    """The transpose with the runs that tiles are cut from; None where they are shorter than a block."""
    size = move.out.size
    e, line = BLOCK // size, LINE // size
    enough = (STREAMED_LINES if streamed else CACHED_LINES) * line
    most = (STREAMED_RUNS if streamed else CACHED_RUNS) * enough
    # One loop of whole lines has its rows of the source at one stride: no table of their offsets is needed.
    lines_only = all(n == 1 or n % line == 0 for n in (move.extents[i], *move.out.strides))
    run_i = contiguous_loops(move, move.out, i, [j], line if lines_only and not streamed else enough, most)
    run_j = contiguous_loops(move, move.operands[0], j, run_i.loops, enough, most)
    if run_i.size < e or run_j.size < e:
        return None
    ti = run_i.size if move.boxed else tile_extent(run_i.size, line, e)
    tj = tile_extent(run_j.size, line if streamed else TILE_LINES * line, e)
    used = {*run_i.loops, *run_j.loops}
    loops = tuple(k for k in range(len(move.extents)) if k not in used)
    return Transpose(move, i, j, TransposeTiles(run_i, run_j, ti, tj, order=(*loops, TILE_I, TILE_J), threads=threads))


def streamed_from(it: Transpose, machine: Machine) -> int:
    """Quarters of the last cache from which on a result in long rows is written past it."""
    if written_as_planes(it, machine):
        return STREAMED_PLANES
    if it.plain.j.size <= it.line:
        return STREAMED_BLOCKS
    return STREAMED_STRIPS if strip_rows(it, machine) else STREAMED


def written_as_planes(it: Transpose, machine: Machine) -> bool:
    """Whether a plane of both loops is one stretch of the result that is better written as such than row by row."""
    near = it.row <= LONG_ROW and it.plane <= min(machine.second, LARGEST_PLANE)
    lines = it.plane_is_contiguous and it.plane >= LINE
    return lines and (it.row <= SHORT_ROW or near) and not written_by_rows(it)


def written_by_rows(it: Transpose) -> bool:
    """Whether rows of the result are some whole lines each, of which none is shared: such are written one by one."""
    long = not it.move.boxed and it.plain.i.size >= 2 * it.line
    return long and it.row % LINE == 0 and it.row >= WHOLE_LINES * LINE


def streamed_transpose(it: Transpose, machine: Machine) -> TransposeTiles | StreamingTranspose | None:
    """Transposes whose result is written past the caches; None where it had better not be.

    Long rows are, from `streamed_from` on: in parts that no cache holds together, ordinary stores wait. Short
    ones are as quick either way, and are found in a cache that holds them all.
    """
    move, plain = it.move, it.plain
    whole = exceeds_cache(move, machine)
    if written_as_planes(it, machine):
        return contiguous_transpose(it, machine) if exceeds_cache(move, machine, STREAMED_PLANES) else None
    if not whole and it.rows_fit(machine) and not written_by_rows(it):
        return None
    order = source_order(move, plain)
    if not move.boxed and plain.i.size >= 2 * it.line:
        return streaming_transpose(it, machine, order, plain.threads)
    if not whole or it.plane < LINE:
        return None
    prefetch = prefetch_distance(move, plain.j, order)
    return replace(plain, order=order, pack=it.source_in_one_set, stage=True, nontemporal=True, prefetch=prefetch)


def by_lines(it: Transpose, machine: Machine) -> bool:
    """Whether the result is large, its rows are as far from a line, both runs have lines, vectors half of one."""
    move, plain = it.move, it.plain
    large = exceeds_cache(move, machine, LINEWISE) and move.points * it.size >= LINEWISE_SECOND * machine.second
    together = all(move.out.strides[k] * it.size % LINE == 0 for k in plain.j.loops)
    # Shorter rows of the source, one behind the other, make a line together.
    wide = plain.j.size >= it.line or (
        it.row_strides[0] == plain.j.size * it.size in PIECES and plain.i.single and plain.j.single
    )
    long = plain.i.size >= LEAST_LINES * it.line and wide
    return large and together and long and not move.boxed and machine.vector >= 2 * BLOCK and it.e > 1


def line_transpose(it: Transpose) -> LineTranspose:
    """Large transposes whose lines of the source become lines of the result in registers."""
    i, j = it.plain.i, it.plain.j
    if i.single and j.size <= it.line and it.row_strides[0] == j.size * it.size:
        # A source that is read from its beginning to its end is prefetched by the hardware.
        lines, ahead = 1, 0
    else:
        lines = lines_at_once(it)
        ahead = PREFETCHED_LINES if j.size >= PREFETCHED_LINES * it.line else PREFETCHED_TILES
    many = i.size // it.line >= STRIPS * lines
    parts = -(-j.size // min(PART // it.size, PART_ROWS)) if many else 1
    part = -(-j.size // (parts * it.line)) * it.line if parts > 1 else 0
    outer = [k for k in source_order(it.move, it.plain) if k >= 0]
    order = (*outer, *([TILE_J] if part else []), TILE_I)
    return LineTranspose(i, j, lines, ahead, part, order=order, threads=it.plain.threads, nontemporal=True)


def lines_at_once(it: Transpose) -> int:
    """How many lines of a row of the result are written one after the other, where whole lines are read."""
    whole = it.plain.i.size // it.line
    few = next(n for n in FEW_LINES if n * it.line <= MOST_ROWS)
    if it.e > BLOCK // 8 and whole % few * LEFT <= whole:
        return few
    return min(LINES_AT_ONCE, key=lambda n: whole % n)


def contiguous_transpose(it: Transpose, machine: Machine) -> TransposeTiles:
    """Planes that are one stretch of the result, which is written in whole lines whatever the length of its rows."""
    move, i, j, e = it.move, it.i, it.j, it.e
    source, height, width = move.operands[0], move.extents[i], move.extents[j]
    others = [k for k in range(len(move.extents)) if k not in (i, j)]
    others.sort(key=lambda k: -abs(source.strides[k]))
    # Where a small plane has more rows than the hardware follows, all of the next plane is prefetched meanwhile.
    many = height > PREFETCH_STREAMS and PLANES * it.plane <= machine.second
    following = others[-1] if others and many else None
    # Lines that would not stay in the first cache until the next tile are read in wider pieces.
    lost = following is not None and rows_per_set(abs(it.row_strides[0]), height) > WAYS
    tj = contiguous_tile(width, it.row, 2 * e if lost and width >= 4 * e else e)
    return replace(
        it.plain, i=ContiguousLoops((i,), height), j=ContiguousLoops((j,), width), ti=height, tj=tj,
        order=(*others, TILE_J), pack=it.source_in_one_set, stage=True, nontemporal=True, contiguous=True,
        prefetch=LINE, prefetch_loop=following,
    )  # fmt: skip


def streaming_transpose(it: Transpose, machine: Machine, order: Sequence[int], threads: int) -> StreamingTranspose:
    """Large transposes whose rows of the result are written in whole lines, by non-temporal stores."""
    move, line, e, (run_i, run_j) = it.move, it.line, it.e, (it.plain.i, it.plain.j)
    outer = tuple(k for k in order if k >= 0)
    turns = prod(move.extents[k] for k in outer)
    # Rows of no more than a line are read whole. Other short ones make two tiles, which overlap.
    short = run_j.size <= line
    most = max(e, -(-run_j.size // (e if short else 2 * e)) * e)
    pack = it.source_in_one_set or (
        run_i.single and e > WAYS // 2 and rows_per_set(abs(it.row_strides[0]), line) >= WAYS
    )
    interleaved = machine.vector >= LINE
    if interleaved:
        # Rows that alias are read two lines at a time: fewer visits to each.
        tj, lines = min(2 * line if pack else line, most), WRITTEN_LINES
        ahead = 1 if pack else PREFETCHED_BLOCKS if short else PREFETCHED_TILES
    else:
        tj, lines = min(line, most), lines_per_step(it)
        far = 0 if lines > PAGE_LINES else PREFETCHED if lines == 1 else PREFETCHED_FAR
        ahead = max(1, far // (lines * LINE * line))
    held = HELD_BYTES // (LINE if interleaved else 2 * LINE)
    blocks = max(-(-run_j.size // held), -(-BLOCKS_PER_THREAD * threads // turns) if threads > 1 else 1)
    blocks = min(blocks, max(run_j.size // (TILE_LINES * line), 1))
    return StreamingTranspose(
        run_i, run_j, tj, blocks, lines, pack, ahead, interleaved,
        order=(*outer, TILE_J), threads=threads, nontemporal=True,
    )  # fmt: skip


def lines_per_step(it: Transpose) -> int:
    """How many lines of a row of the result are written at a time, where each takes several stores.

    One, unless rows alias: then 2 to 8, as divides the row best; more lines at a time mean fewer visits to each of
    those rows, and what is left of a row is written apart.
    """
    row = it.plain.i.size * it.size
    paged = it.plane_is_contiguous and it.row <= LONG_ROW
    drifting = it.plain.j.single and nearly_aliases(it.row_strides[1]) and not paged
    if drifting or any(aliases(step) for step in it.row_strides):
        counts = (k for k in range(MOST_LINES, 1, -1) if k * LINE <= row)
        return min(counts, key=lambda k: row % (k * LINE) // LINE, default=1)
    return PAGE_LINES if paged or any(sets_reached(step) <= WAYS for step in it.row_strides) else 1


def begins_within_lines(it: Transpose) -> bool:
    """Whether rows of the result, of more than half a line, begin anywhere in one, and rows of the source have one."""
    long = 2 * it.plain.i.size > it.line and it.plain.j.size >= it.line
    return long and it.row_strides[1] % LINE != 0 and not it.move.boxed


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
    # A register block of short elements has as many rows of either as a set holds lines.
    both = of_source >= (WAYS // 2 if it.e >= WAYS else WAYS) and of_result >= WAYS
    read = of_source >= WAYS if it.e > WAYS // 2 else of_source >= 2 * WAYS and it.row > LINE
    return both or read or (it.e > WAYS and of_result >= 2 * WAYS)


def line_tiles(it: Transpose, machine: Machine) -> LineTiles:
    """Transposes in a cache whose rows meet in few sets of the first: four lines of those at a time, or two."""
    i, j = it.plain.i, it.plain.j

    def lines(size: int, rows: int, many: int) -> int:
        if it.line // rows <= FEW_SETS:
            fitting = [n for n in LINES_AT_ONCE if n * it.line <= size]
            if fitting:
                return min(fitting, key=lambda n: -(-size // (n * it.line)) * n)
        return 2 if rows >= many and size >= 2 * it.line else 1

    of_source, of_result = meeting(it)
    # A set holds WAYS lines that are read. Those that are written are met by what is read meanwhile.
    high, wide = lines(i.size, of_result, WAYS), lines(j.size, of_source, WAYS + 1)
    if high * wide * it.line * LINE > machine.first:
        wide = max(1, wide // 2)
    tile = replace(it.plain, ti=high * it.line, tj=wide * it.line)
    return LineTiles(i, j, high, wide, order=source_order(it.move, tile), threads=it.plain.threads)


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
        aliased = aliased_transpose(move, plain)
        if aliased is not None:
            return replace(aliased, order=source_order(move, aliased))
    # What fits into the second caches of all threads is better written in parts: each finds its own when it reads on.
    parted = plain.threads > 1 and move.points * size <= plain.threads * machine.second
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


def aliased_transpose(move: Move, plain: TransposeTiles) -> TransposeTiles | None:
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
    if result_aliases and not source_aliases and e <= WAYS:
        return replace(plain, ti=min(2 * TILE_LINES * line, i.size), tj=WAYS)
    return (
        replace(plain, ti=TILE_LINES * line, tj=2 * line if many else TILE_LINES * line, stage=True)
        if result_aliases
        else None
    )


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
