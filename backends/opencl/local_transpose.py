"""Prints transposes for a GPU: tiles go through local memory, so that both loads and stores are coalesced.

before:  for j: for i: d[j, i] = f(s[i, j])                       # neighbouring i lie far apart in s
after:   each group of work-items, for its tile:
             tile[i, j] = f(s[i, j])                              # neighbours along j, which is contiguous in s
             barrier
             d[j, i] = tile[i, j]                                 # neighbours along i, which is contiguous in d

How large a tile is, and where the cell of a row and a column lies in local memory, an index map, say `local_tiles`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from eqsat.backends.c.expr import Scope
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.moves import Move
from eqsat.backends.opencl.code import Launch, digits
from eqsat.backends.opencl.local_tiles import cells, layout, shape
from eqsat.backends.opencl.move_nests import address, transposed_loop
from eqsat.backends.opencl.move_printer import MovePrinter
from eqsat.backends.opencl.profile import Profile
from eqsat.backends.opencl.wide import WORD, aligned, at, indented, vector
from eqsat.ir.dtypes import itemsize
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

GROUP = 256
"""Work-items that do a tile together: as many as all devices allow that are GPUs."""
SHORTEST = 8
"""Runs of the result of so many elements are worth tiles; those of shorter ones lie close together in the source."""


@dataclass(frozen=True)
class Tile:
    """How a move is cut into tiles of rows, along the last loop, and columns, along the one that the source lies in."""

    along: int
    rows: int
    columns: int
    layout: IndexMap
    words: tuple[int, int]
    """How many neighbours are read, along a row, and written, along a column, at once."""

    @property
    def cells(self) -> int:
        """The cells of local memory that it takes."""
        return cells(self.layout, self.rows, self.columns)


def tile_of(move: Move, profile: Profile) -> Tile | None:
    """The tiles of a move that is worth them, where the device has room."""
    along = transposed_loop(move)
    # Every operand is read in the order of the first one: none may be contiguous along the result alone.
    if along is None or profile.group < GROUP or any(abs(a.strides[-1]) == 1 for a in move.operands):
        return None
    size = itemsize(move.out.dtype)
    rows, columns = shape(move.extents[-1], move.extents[along], size)
    found = Tile(
        along, rows, columns, layout(profile.tile, rows, columns, size), _words(move, along, rows, columns, profile)
    )
    small = move.extents[-1] < SHORTEST or rows * columns < 2 * GROUP
    return None if small or found.cells * size > profile.local_bytes else found


def _words(move: Move, along: int, rows: int, columns: int, profile: Profile) -> tuple[int, int]:
    """How many elements of less than a word are read and written at once: a word of them, or one."""
    lanes, last = WORD // itemsize(move.out.dtype), len(move.extents) - 1
    if lanes < 2 or not profile.whole_vectors:
        return 1, 1
    # Swizzled rows do not keep the words of their columns together.
    reads = move.is_copy and not move.boxed and profile.tile != "swizzled" and columns % lanes == 0
    reads = reads and aligned(move.operands[0], along, move.extents[along], lanes)
    writes = rows % lanes == 0 and aligned(move.out, last, move.extents[last], lanes)
    return (lanes if reads else 1), (lanes if writes else 1)


class LocalTransposePrinter(MovePrinter):
    """One move as a kernel in which every group of work-items transposes a tile."""

    def __init__(self, func: PrimFunc, move: Move, tile: Tile, simplifier: IndexSimplifier, profile: Profile) -> None:
        super().__init__(func, move, simplifier, profile)
        self.tile = tile
        self.sides = {tile.along: tile.columns, len(move.extents) - 1: tile.rows}
        self.counts = [-(-n // self.sides.get(k, 1)) for k, n in enumerate(move.extents)]

    @property
    def launch(self) -> Launch:
        """How the kernel is started."""
        return Launch(self.func.name, self.func.params, prod(self.counts) * GROUP, GROUP)

    def lines(self) -> list[str]:
        """The kernel."""
        index = self.index
        reads, writes = self.tile.words
        in_words = f" __attribute__((aligned({WORD})))" if reads > 1 else ""
        body = [
            f"__local {self.element} tile[{self.tile.cells}]{in_words};",
            f"const {index} group = ({index})get_group_id(0);",
        ]
        for k, position in enumerate(digits("group", self.counts)):
            scale = f" * {self.sides[k]}" if k in self.sides and position != "0" else ""
            body.append(f"const {index} {'start' if k in self.sides else 'i'}{k} = {position}{scale};")
        body += self.sweep("row", "column", self.tile.columns, reads, self.read(reads))
        body.append("barrier(CLK_LOCAL_MEM_FENCE);")
        body += self.sweep("column", "row", self.tile.rows, writes, self.write(writes))
        return self.kernel(indented(body))

    def read(self, lanes: int) -> list[str]:
        """What brings the cell of a row and a column, and neighbours along the row, into the tile."""
        if lanes == 1:
            return self.moved(lambda term: self.assigned("tile", term, self.place()))
        (source,) = self.move.operands
        cell, place = self.expressions.print_terms([address(source, self.axes), self.place()], scope := Scope())
        read = at("__global const", self.element, lanes, f"{self.names[source.buffer]} + {cell}")
        return [*scope.lines, f"{at('__local', self.element, lanes, f'tile + {place}')} = {read};"]

    def write(self, lanes: int) -> list[str]:
        """What brings the cell of a row and a column, and neighbours along the column, out of the tile."""
        places = [self.place(k) for k in range(lanes)]
        cell, *texts = self.expressions.print_terms([address(self.move.out, self.axes), *places], scope := Scope())
        target, found = self.names[self.move.out.buffer], [f"tile[{place}]" for place in texts]
        if lanes == 1:
            return [*scope.lines, f"{target}[{cell}] = {found[0]};"]
        whole = f"({vector(self.element, lanes)})({', '.join(found)})"
        return [*scope.lines, f"{at('__global', self.element, lanes, f'{target} + {cell}')} = {whole};"]

    def place(self, below: int = 0) -> Term:
        """Where the cell of `row` and `column`, or one so many rows below, lies in local memory."""
        rank = len(self.move.extents)
        row, column = t.ax(rank, self.tile.rows), t.ax(rank + 1, self.tile.columns)
        self.expressions.axes.update({row: "row", column: "column"})
        (found,) = self.tile.layout.map_indices((row + below, column))
        return found

    def sweep(self, outer: str, inner: str, length: int, lanes: int, lines: Sequence[str]) -> list[str]:
        """A loop in which the group visits every cell of the tile that the move has, neighbours along `inner`, or the
        first of so many neighbours."""
        index, extents, last = self.index, self.move.extents, len(self.move.extents) - 1
        names = {self.tile.along: "column", last: "row"}
        wide = f" * {lanes}" if lanes > 1 else ""
        body = [f"const {index} {outer} = n / {length // lanes}, {inner} = n % {length // lanes}{wide};"]
        body += [f"const {index} i{k} = start{k} + {name};" for k, name in names.items()]
        guard = " && ".join(f"i{k} < {extents[k]}" for k in names if extents[k] % self.sides[k])
        body += [f"if ({guard}) {{", *indented(lines), "}"] if guard else lines
        count = self.tile.rows * self.tile.columns // lanes
        return [f"for ({index} n = ({index})get_local_id(0); n < {count}; n += {GROUP}) {{", *indented(body), "}"]
