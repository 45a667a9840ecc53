"""Prints transposes for a GPU: tiles go through local memory, so that both loads and stores are coalesced.

before:  for j: for i: d[j, i] = f(s[i, j])                       # neighbouring i lie far apart in s
after:   each group of work-items, for its tile of 32 x 32:
             tile[row, lane] = f(s[i, j])                         # lanes along j, which is contiguous in s
             barrier
             d[j, i] = tile[lane, row]                            # lanes along i, which is contiguous in d

Where the cell of a row and a column lies in local memory is an index map (`local_tiles`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from eqsat.backends.c.expr import Scope
from eqsat.backends.interface import HostCall
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.lowered import Lowered
from eqsat.backends.lowering.moves import Move
from eqsat.backends.opencl.code import KernelPrinter, Launch, digits
from eqsat.backends.opencl.image import Image
from eqsat.backends.opencl.local_tiles import TILES, cells
from eqsat.backends.opencl.move_nests import address, as_nests, rectangles, transposed_loop, value
from eqsat.backends.opencl.profile import Profile
from eqsat.ir.dtypes import BOOL, itemsize
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

SIDE = 32
"""Rows and columns of a tile: as many as work-items run in step on common GPUs, or half as many."""
ROWS = 8
"""Rows of a tile that a group of work-items does at a time: 256 work-items, which all devices allow that are GPUs."""


def fits(move: Move, profile: Profile) -> bool:
    """Whether a move is worth tiles in local memory, and the device has room for them."""
    along = transposed_loop(move)
    if along is None or profile.group < SIDE * ROWS:
        return False
    small = min(move.extents[along], move.extents[-1]) < SIDE // 2
    room = cells(TILES[profile.tile], SIDE) * itemsize(move.out.dtype) <= profile.local_bytes
    # Every operand is read in the order of the first one: none may be contiguous along the result alone.
    return room and not small and all(abs(a.strides[-1]) != 1 for a in move.operands)


class LocalTransposePrinter(KernelPrinter):
    """One move as a kernel in which every group of work-items transposes a tile."""

    def __init__(self, func: PrimFunc, move: Move, simplifier: IndexSimplifier, profile: Profile) -> None:
        super().__init__(func, simplifier, profile, {})
        self.move = move
        self.tile = TILES[profile.tile]
        along = transposed_loop(move)
        assert along is not None
        self.along, self.last = along, len(move.extents) - 1
        self.counts = [-(-n // SIDE) if k in (along, self.last) else n for k, n in enumerate(move.extents)]

    @property
    def launch(self) -> Launch:
        """How the kernel is started."""
        size = SIDE * ROWS
        return Launch(self.func.name, self.func.params, prod(self.counts) * size, size)

    def lines(self) -> list[str]:
        """The kernel."""
        index, move, tile = self.index, self.move, (self.along, self.last)
        axes = [t.ax(k, n) for k, n in enumerate(move.extents)]
        self.expressions.axes.update({axis: f"i{k}" for k, axis in enumerate(axes)})
        body = [
            f"__local {self.type_of(move.out.dtype)} tile[{cells(self.tile, SIDE)}];",
            f"const {index} group = ({index})get_group_id(0);",
            f"const {index} lane = ({index})get_local_id(0) % {SIDE}, row = ({index})get_local_id(0) / {SIDE};",
        ]
        for k, position in enumerate(digits("group", self.counts)):
            name, scale = (f"start{k}", f" * {SIDE}") if k in tile else (f"i{k}", "")
            body.append(f"const {index} {name} = {position}{scale};")
        scope = Scope()
        read, place = self.expressions.print_terms([value(move, axes), self.place("k", "lane")], scope)
        if move.out.dtype == BOOL:
            read = f"(uint8_t)({read})"
        body += self.sweep(
            {self.along: "lane", self.last: "k"},
            [*scope.lines, f"tile[{place}] = {self.expressions.narrowed(move.out.dtype, read)};"],
        )
        body.append("barrier(CLK_LOCAL_MEM_FENCE);")
        scope = Scope()
        cell, place = self.expressions.print_terms([address(move.out, axes), self.place("lane", "k")], scope)
        body += self.sweep(
            {self.along: "k", self.last: "lane"},
            [*scope.lines, f"{self.names[move.out.buffer]}[{cell}] = tile[{place}];"],
        )
        return self.kernel([f"    {line}" for line in body])

    def place(self, row: str, column: str) -> Term:
        """Where a cell of the tile lies in local memory, for the names of its row and column."""
        rank = len(self.move.extents)
        cell = t.ax(rank, SIDE), t.ax(rank + 1, SIDE)
        self.expressions.axes.update(zip(cell, (row, column), strict=True))
        (found,) = self.tile.map_indices(cell)
        return found

    def sweep(self, position: dict[int, str], lines: Sequence[str]) -> list[str]:
        """A loop in which the group visits every cell of the tile that the move has."""
        inside = [f"const {self.index} i{k} = start{k} + {name};" for k, name in position.items()]
        guard = " && ".join(f"i{k} < {self.move.extents[k]}" for k in position if self.move.extents[k] % SIDE)
        if guard:
            inside += [f"if ({guard}) {{", *(f"    {line}" for line in lines), "}"]
        else:
            inside += lines
        head = f"for ({self.index} k = row; k < {SIDE}; k += {ROWS}) {{"
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
    through = [m for m in moves if fits(m, profile)]
    rest = [m for m in moves if not fits(m, profile)]
    found: list[KernelPrinter] = []
    if rest:
        found.append(KernelPrinter(as_nests(func, rest, tile=False), simplifier, profile, {}))
    for n, move in enumerate(through):
        part = replace(as_nests(func, [move], tile=False), name=f"{func.name}_tile{n}")
        found.append(LocalTransposePrinter(part, move, simplifier, profile))
    return found
