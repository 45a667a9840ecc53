"""Bodies that are computed in tiles: the loops over the tiles, and the call of the function that computes one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from eqsat.backends.c.nest import Level, Text, address, nest
from eqsat.backends.lowering.moves import Access, Move
from eqsat.backends.machine import Machine
from eqsat.backends.schedules.schedule import TILE_I, TILE_J, Blend, Cross

P = TypeVar("P", Blend, Cross)


class TiledPrinter(ABC, Generic[P]):
    """Prints one such plan. `buffers` gives the C name of every buffer."""

    def __init__(self, text: Text, move: Move, plan: P, machine: Machine, name: str, buffers: dict[str, str]) -> None:
        self.text = text
        self.move = move
        self.plan = plan
        self.machine = machine
        self.name = name
        self.buffers = buffers
        self.helpers: dict[str, None] = {}

    def print(self) -> None:
        """The tile loops, and in them a call of the tile function."""
        move, plan, text = self.move, self.plan, self.text
        extents = {TILE_I: move.extents[plan.i], TILE_J: move.extents[plan.j]}
        tiles = {TILE_I: plan.ti, TILE_J: plan.tj}
        names = {n: text.name("i") for n in plan.order}
        counts = {n: -(-extents[n] // tiles[n]) if n < 0 else move.extents[n] for n in plan.order}
        self.tile()
        with nest(text, [Level(names[n], counts[n]) for n in plan.order], plan.threads, 8):
            for n, label in ((TILE_I, "ti"), (TILE_J, "tj")):
                last, at = extents[n] - tiles[n], f"{names[n]} * {tiles[n]}"
                if last <= 0:
                    at = "0"
                elif extents[n] % tiles[n]:
                    at = f"{at} > {last} ? {last} : {at}"
                text.add(f"const ptrdiff_t {label} = {at};")
            arguments = [self.start(a, names) for a in (*move.operands, move.out)]
            text.add(f"{self.name}_tile({', '.join(arguments)});")

    def start(self, access: Access, names: dict[int, str]) -> str:
        """Where a tile begins in a buffer."""
        strides = access.strides
        terms = [(names[n], strides[n]) for n in self.plan.order if n >= 0 and self.move.extents[n] > 1]
        terms += [("ti", strides[self.plan.i]), ("tj", strides[self.plan.j])]
        return address(self.buffers[access.buffer], terms, access.offset)

    @abstractmethod
    def tile(self) -> None:
        """Add the function that computes a tile."""
