"""Blends: an element-wise body over operands of any layout, tile by tile.

Operands that lie along another loop than the result are first transposed into a small tile; then one plain loop, which
compilers vectorise, computes a row of the result from rows of all operands.
"""

from __future__ import annotations

from eqsat.backends.c.nest import Text, address
from eqsat.backends.c.row import RowPrinter
from eqsat.backends.c.tile import cover
from eqsat.backends.c.tiled import TiledPrinter
from eqsat.backends.c.turn import Block
from eqsat.backends.c.types import c_type
from eqsat.backends.lowering.moves import Access
from eqsat.backends.machine import LINE
from eqsat.backends.schedules.schedule import Blend

WAYS = 8
"""Rows of an operand which share a set of the first cache and fit into it together."""


class BlendPrinter(TiledPrinter[Blend]):
    """Prints one blend. `buffers` gives the C name of every buffer."""

    def across(self, access: Access) -> bool:
        """Whether an operand is transposed first."""
        return access.strides[self.plan.i] not in (0, 1)

    def tile(self) -> None:
        """The function that computes a tile."""
        move, plan, inner = self.move, self.plan, Text(pieces=self.text.pieces)
        kinds = [c_type(a.dtype, "") for a in (*move.operands, move.out)]
        params = [f"const {kind} *restrict a{k}" for k, kind in enumerate(kinds[:-1])]
        for k, access in enumerate(move.operands):
            if self.across(access):
                inner.add(f"{kinds[k]} t{k}[{plan.tj} * {plan.ti}] __attribute__((aligned({LINE})));")
                self.turns(inner, access, k)
        with inner.loop("c", plan.tj):
            names: dict[int, str] = {}
            for k, access in enumerate(move.operands):
                names[k] = f"p{k}"
                row = f"t{k} + {plan.ti} * c" if self.across(access) else self.row(f"a{k}", access.strides[plan.j])
                inner.add(f"const {kinds[k]} *restrict p{k} = {row};")
            inner.add(f"{kinds[-1]} *restrict q = {self.row('o', move.out.strides[plan.j])};")
            # Transposed operands are rows of a tile, one element behind the other.
            strides = [int(a.strides[plan.i] != 0) for a in move.operands]
            row = RowPrinter(inner, move.body, [a.dtype for a in move.operands], strides)
            row.print(names, "q", plan.ti)
            self.helpers |= row.helpers
        head = f"static inline void {self.name}_tile({', '.join([*params, f'{kinds[-1]} *restrict o'])})"
        note = f"/* {plan.ti} x {plan.tj} elements: operands along the result, then the formula row by row. */"
        self.text.pieces[f"{self.name}_tile"] = "\n".join([note, head, "{", *inner.lines, "}"])

    @staticmethod
    def row(name: str, stride: int) -> str:
        return address(name, [("c", stride)]) if stride else name

    def turns(self, inner: Text, access: Access, number: int) -> None:
        """A tile of one operand, its rows along the result."""
        plan, size = self.plan, access.size
        e = 16 // size
        row, column = access.strides[plan.i] * size, plan.ti * size
        lanes = min(self.machine.vector // 16, max(1, plan.ti // e))
        parts = cover(plan.ti, e, lanes)
        # Rows that share a set of the cache are read to their ends, few at a time; others side by side.
        crowded = row % 4096 == 0
        bands = [[part] for part in cover(plan.ti, e, min(lanes, max(1, WAYS // e)))] if crowded else [parts]
        for band in bands:
            with inner.loop("c", -(-plan.tj // e)):
                last, start = plan.tj - e, f"{e} * c"
                inner.add(f"const ptrdiff_t at = {f'{start} > {last} ? {last} : {start}' if plan.tj % e else start};")
                for first, wide in band:
                    block = Block(size, wide, False, False, 0, wide * e)
                    for name, piece in {**block.pieces, block.name: block.text()}.items():
                        inner.pieces.setdefault(name, piece)
                    s = f"(const char *)a{number} + {size} * at + {row * first}"
                    d = f"(char *)t{number} + {column} * at + {size * first}"
                    inner.add(f"{block.name}({s}, {row}, {d}, {column});")
