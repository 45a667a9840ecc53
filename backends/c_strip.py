"""Strips: an element-wise body over operands that all lie along the result, some hundred elements at a time."""

from __future__ import annotations

from eqsat.backends.c_nest import Level, Text, address, nest
from eqsat.backends.c_row import RowPrinter, pointer
from eqsat.backends.moves import Access, Move
from eqsat.backends.schedule import TILE_I, Strip


class StripPrinter:
    """Prints one strip. `buffers` gives the C name of every buffer."""

    def __init__(self, text: Text, move: Move, plan: Strip, buffers: dict[str, str]) -> None:
        self.text = text
        self.move = move
        self.plan = plan
        self.buffers = buffers
        self.helpers: dict[str, None] = {}

    def print(self) -> None:
        """Loops over rows and over pieces of a row, and in them the loops that compute one."""
        move, plan, text = self.move, self.plan, self.text
        i = plan.i
        size, count = move.extents[i], -(-move.extents[i] // plan.ti)
        names = {n: text.name("i") for n in plan.order}
        levels = [Level(names[n], count if n == TILE_I else move.extents[n]) for n in plan.order]
        row = RowPrinter(text, move.body, [a.dtype for a in move.operands], [not a.strides[i] for a in move.operands])

        def start(access: Access) -> str:
            terms = [(names[n], access.strides[n]) for n in plan.order if n >= 0 and move.extents[n] > 1]
            terms += [(names[TILE_I], plan.ti * access.strides[i])] if count > 1 else []
            return address(self.buffers[access.buffer], terms, access.offset)

        with nest(text, levels, plan.threads, 8):
            for k, access in enumerate(move.operands):
                text.add(pointer(access.dtype, f"p{k}", start(access)))
            text.add(pointer(move.out.dtype, "q", start(move.out), False))
            uneven = size % plan.ti != 0
            if uneven:
                last, at = size % plan.ti, names[TILE_I]
                text.add(f"const int m = {f'{at} == {count - 1} ? {last} : {plan.ti}'};")
            row.print({k: f"p{k}" for k in range(len(move.operands))}, "q", plan.ti, plan.ti if uneven else 0)
        self.helpers |= row.helpers
