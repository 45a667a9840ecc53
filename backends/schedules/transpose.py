"""A transpose as schedules are chosen for it: its runs, its rows and planes, the orders of its loops."""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.backends.cache_sets import PERIOD, sets_reached
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import BLOCK, LINE, Machine
from eqsat.backends.schedules.contiguity import contiguous_loops, tile_extent
from eqsat.backends.schedules.schedule import TILE_I, TILE_J, TransposeTiles

SHORT_ROW = 512
"""Bytes of rows of the result up to which a plane of them is written as one stretch of memory. Measured."""
WHOLE_LINES = 4
"""Rows of so many lines, and nothing else, are written one by one as well: none of their lines is shared. Measured."""
LONG_ROW = PERIOD
"""Rows longer than a page are written one by one, also where the second cache holds the plane that they are read from:
the first cache's sets repeat within them."""
LARGEST_PLANE = 512 << 10
"""Larger planes of such rows are written row by row as well, whatever the second cache holds. Measured."""
PLANES = 8
"""Planes of the source that the second cache must hold for the next one to be prefetched whole. Measured."""
BLOCKS_PER_THREAD = 4
"""Parts of the work for each thread, so that all end at about the same time."""
CACHED_LINES, STREAMED_LINES = 4, 10
"""Lines that make a run long enough, where a cache holds the result, and where none does. Measured."""
CACHED_RUNS, STREAMED_RUNS = 4, 80
"""A run may become so many times as long as that, where whole loops are left: its lines are then written once."""
TILE_LINES = 4
"""Lines of a row of a tile, where it is read from a cache or written to one: loops over its blocks are unrolled."""


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
    def together(self) -> bool:
        """Whether all rows of the result are as far from a line."""
        return all(self.move.out.strides[k] * self.size % LINE == 0 for k in self.plain.j.loops)

    @property
    def follows(self) -> bool:
        """Whether each row of the result begins where the one before ends."""
        run = self.plain.i.size
        return self.plain.j.single and self.row_strides[1] == run * self.size

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


def written_as_planes(it: Transpose, machine: Machine) -> bool:
    """Whether a plane of both loops is one stretch of the result that is better written as such than row by row."""
    near = it.row <= LONG_ROW and it.plane <= min(machine.second, LARGEST_PLANE)
    lines = it.plane_is_contiguous and it.plane >= LINE
    return lines and (it.row <= SHORT_ROW or near) and not written_by_rows(it, machine)


def written_by_rows(it: Transpose, machine: Machine) -> bool:
    """Whether rows of the result are some whole lines each, of which none is shared: such are written one by one.

    Short ones that follow each other are not, where the second cache holds their planes: a stretch begins anywhere.
    """
    stretch = it.follows and it.row <= SHORT_ROW and PLANES * it.plane <= machine.second
    long = not it.move.boxed and it.plain.i.size >= 2 * it.line and not stretch
    return long and it.row % LINE == 0 and it.row >= WHOLE_LINES * LINE


def begins_within_lines(it: Transpose) -> bool:
    """Whether rows of the result, of more than half a line, begin anywhere in one, and rows of the source have one."""
    long = 2 * it.plain.i.size > it.line and it.plain.j.size >= it.line
    return long and it.row_strides[1] % LINE != 0 and not it.move.boxed
