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
from dataclasses import dataclass, replace
from math import prod

from eqsat.backends.c.expr import Scope
from eqsat.backends.interface import HostCall
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.lowered import Lowered
from eqsat.backends.lowering.moves import Move
from eqsat.backends.opencl.code import KernelPrinter, Launch, digits
from eqsat.backends.opencl.image import Image
from eqsat.backends.opencl.local_tiles import cells, layout, shape
from eqsat.backends.opencl.move_nests import address, as_nests, rectangles, transposed_loop, value
from eqsat.backends.opencl.profile import Profile
from eqsat.ir.dtypes import BOOL, itemsize
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
    found = Tile(along, rows, columns, layout(profile.tile, rows, columns, size))
    small = move.extents[-1] < SHORTEST or rows * columns < 2 * GROUP
    return None if small or found.cells * size > profile.local_bytes else found


class LocalTransposePrinter(KernelPrinter):
    """One move as a kernel in which every group of work-items transposes a tile."""

    def __init__(self, func: PrimFunc, move: Move, tile: Tile, simplifier: IndexSimplifier, profile: Profile) -> None:
        super().__init__(func, simplifier, profile, {})
        self.move = move
        self.tile = tile
        self.sides = {tile.along: tile.columns, len(move.extents) - 1: tile.rows}
        self.counts = [-(-n // self.sides.get(k, 1)) for k, n in enumerate(move.extents)]

    @property
    def launch(self) -> Launch:
        """How the kernel is started."""
        return Launch(self.func.name, self.func.params, prod(self.counts) * GROUP, GROUP)

    def lines(self) -> list[str]:
        """The kernel."""
        index, move = self.index, self.move
        axes = [t.ax(k, n) for k, n in enumerate(move.extents)]
        self.expressions.axes.update({axis: f"i{k}" for k, axis in enumerate(axes)})
        body = [
            f"__local {self.type_of(move.out.dtype)} tile[{self.tile.cells}];",
            f"const {index} group = ({index})get_group_id(0);",
        ]
        for k, position in enumerate(digits("group", self.counts)):
            name, scale = (f"start{k}", f" * {self.sides[k]}") if k in self.sides else (f"i{k}", "")
            body.append(f"const {index} {name} = {position}{scale};")
        scope = Scope()
        read, place = self.expressions.print_terms([value(move, axes), self.place()], scope)
        if move.out.dtype == BOOL:
            read = f"(uint8_t)({read})"
        write = f"tile[{place}] = {self.expressions.narrowed(move.out.dtype, read)};"
        body += self.sweep("row", "column", self.tile.columns, [*scope.lines, write])
        body.append("barrier(CLK_LOCAL_MEM_FENCE);")
        scope = Scope()
        cell, place = self.expressions.print_terms([address(move.out, axes), self.place()], scope)
        write = f"{self.names[move.out.buffer]}[{cell}] = tile[{place}];"
        body += self.sweep("column", "row", self.tile.rows, [*scope.lines, write])
        return self.kernel([f"    {line}" for line in body])

    def place(self) -> Term:
        """Where the cell of `row` and `column` lies in local memory."""
        rank = len(self.move.extents)
        cell = t.ax(rank, self.tile.rows), t.ax(rank + 1, self.tile.columns)
        self.expressions.axes.update(zip(cell, ("row", "column"), strict=True))
        (found,) = self.tile.layout.map_indices(cell)
        return found

    def sweep(self, outer: str, inner: str, length: int, lines: Sequence[str]) -> list[str]:
        """A loop in which the group visits every cell of the tile that the move has, neighbours along `inner`."""
        index, extents, last = self.index, self.move.extents, len(self.move.extents) - 1
        names = {self.tile.along: "column", last: "row"}
        inside = [f"const {index} {outer} = n / {length}, {inner} = n % {length};"]
        inside += [f"const {index} i{k} = start{k} + {name};" for k, name in names.items()]
        guard = " && ".join(f"i{k} < {extents[k]}" for k in names if extents[k] % self.sides[k])
        if guard:
            inside += [f"if ({guard}) {{", *(f"    {line}" for line in lines), "}"]
        else:
            inside += lines
        count = self.tile.rows * self.tile.columns
        head = f"for ({index} n = ({index})get_local_id(0); n < {count}; n += {GROUP}) {{"
        return [head, *(f"    {line}" for line in inside), "}"]


def printers(
    lowered: Lowered, profile: Profile, images: dict[str, Image], simplifier: IndexSimplifier
) -> list[KernelPrinter | HostCall]:
    """The kernels of a program, with its data movement as suits the device."""
    found: list[KernelPrinter | HostCall] = []
    for step in lowered.steps:
        moves = () if isinstance(step, HostCall) else lowered.moves.get(step.name, ())
        if isinstance(step, HostCall):
            found.append(step)
        elif images.keys() & set(step.params) or all(transposed_loop(m) is None for m in moves):
            found.append(KernelPrinter(step, simplifier, profile, images))
        elif profile.kind == "cpu":
            found.append(KernelPrinter(as_nests(step, moves, tile=True), simplifier, profile, images))
        else:
            found += _for_gpu(step, rectangles(moves), simplifier, profile)
    return found


def _for_gpu(
    func: PrimFunc, moves: Sequence[Move], simplifier: IndexSimplifier, profile: Profile
) -> list[KernelPrinter]:
    """A kernel for each move that local memory helps, and one for the others."""
    tiles = [tile_of(move, profile) for move in moves]
    rest = [move for move, tile in zip(moves, tiles, strict=True) if tile is None]
    found: list[KernelPrinter] = []
    if rest:
        found.append(KernelPrinter(as_nests(func, rest, tile=False), simplifier, profile, {}))
    for move, tile in zip(moves, tiles, strict=True):
        if tile is not None:
            part = replace(as_nests(func, [move], tile=False), name=f"{func.name}_tile{len(found) - bool(rest)}")
            found.append(LocalTransposePrinter(part, move, tile, simplifier, profile))
    return found
