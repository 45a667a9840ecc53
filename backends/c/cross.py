"""Crosses: a body is computed along another loop than the result's, and its rows are then transposed into place.

That is cheap where the result is no wider than what it is made of; rows that the result has beyond the body's, a
border of channels, come from a constant while the tile is transposed.
"""

from __future__ import annotations

from eqsat.backends.c.copy import bits_of
from eqsat.backends.c.nest import Text, address
from eqsat.backends.c.row import RowPrinter, pointer
from eqsat.backends.c.tile import cover
from eqsat.backends.c.tiled import TiledPrinter
from eqsat.backends.c.turn import Block
from eqsat.backends.c.types import c_type
from eqsat.backends.machine import LINE
from eqsat.backends.schedules.schedule import Cross


class CrossPrinter(TiledPrinter[Cross]):
    """Prints one cross. `buffers` gives the C name of every buffer."""

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
