"""Crosses: a body is computed along another loop than the result's, and its rows are then transposed into place.

That is cheap where the result is no wider than what it is made of; rows that the result has beyond the body's, a
border of channels, come from a constant while the tile is transposed.
"""

from __future__ import annotations

from eqsat.backends.c_copy import bits_of
from eqsat.backends.c_nest import Level, Text, address, nest
from eqsat.backends.c_row import RowPrinter, pointer
from eqsat.backends.c_tile import cover
from eqsat.backends.c_turn import Block
from eqsat.backends.c_types import c_type
from eqsat.backends.machine import LINE, Machine
from eqsat.backends.moves import Access, Move
from eqsat.backends.schedule import TILE_I, TILE_J, Cross


class CrossPrinter:
    """Prints one cross. `buffers` gives the C name of every buffer."""

    def __init__(
        self, text: Text, move: Move, plan: Cross, machine: Machine, name: str, buffers: dict[str, str]
    ) -> None:
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

    def tile(self) -> None:
        """The function that computes a tile."""
        move, plan, inner = self.move, self.plan, Text(pieces=self.text.pieces)
        kinds = [c_type(a.dtype, "") for a in (*move.operands, move.out)]
        low, high = move.box[plan.i] if move.boxed else (0, plan.ti)
        inner.add(f"{kinds[-1]} t[{plan.ti} * {plan.tj}] __attribute__((aligned({LINE})));")
        with inner.loop("c", high, low):
            names: dict[int, str] = {}
            for k, access in enumerate(move.operands):
                names[k], stride = f"p{k}", access.strides[plan.i]
                inner.add(pointer(access.dtype, f"p{k}", address(f"a{k}", [("c", stride)] if stride else [])))
            inner.add(pointer(move.out.dtype, "q", f"t + {plan.tj} * c", False))
            row = RowPrinter(
                inner, move.body, [a.dtype for a in move.operands], [a.strides[plan.j] for a in move.operands]
            )
            row.print(names, "q", plan.tj)
            self.helpers |= row.helpers
        self.turns(inner, low, high)
        params = [f"const {kind} *restrict a{k}" for k, kind in enumerate(kinds[:-1])]
        head = f"static inline void {self.name}_tile({', '.join([*params, f'{kinds[-1]} *restrict o'])})"
        note = f"/* {plan.ti} x {plan.tj} elements: the formula along the operands, then its rows in columns. */"
        self.text.pieces[f"{self.name}_tile"] = "\n".join([note, head, "{", *inner.lines, "}"])

    def turns(self, inner: Text, low: int, high: int) -> None:
        """The tile, its rows along the result."""
        move, plan, size = self.move, self.plan, self.move.out.size
        e = 16 // size
        if plan.ti < e:
            with inner.block(f"for (int r = 0; r < {plan.tj}; ++r)"):
                for c in range(plan.ti):
                    inner.add(f"o[{plan.ti} * r + {c}] = t[{plan.tj * c} + r];")
            return
        fill = 0 if move.fill is None else bits_of(move.fill)
        column = move.out.strides[plan.j] * size
        lanes = min(self.machine.vector // 16, max(1, plan.ti // e))
        with inner.loop("c", -(-plan.tj // e)):
            last, place = plan.tj - e, f"{e} * c"
            inner.add(f"const ptrdiff_t at = {f'{place} > {last} ? {last} : {place}' if plan.tj % e else place};")
            for first, wide in cover(plan.ti, e, lanes):
                start, stop = (min(max(end - first, 0), wide * e) for end in (low, high))
                block = Block(size, wide, False, False, start, stop, 0 if stop - start == wide * e else fill)
                for name, piece in {**block.pieces, block.name: block.text()}.items():
                    inner.pieces.setdefault(name, piece)
                s = f"(const char *)t + {size} * at + {size * plan.tj * first}"
                inner.add(f"{block.name}({s}, {size * plan.tj}, (char *)o + {column} * at + {size * first}, {column});")
