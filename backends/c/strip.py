"""Strips: an element-wise body over operands that all lie along the result, a few vectors at a time."""

from __future__ import annotations

from eqsat.backends.c.nest import Level, Text, address, nest
from eqsat.backends.c.row import RowPrinter, pointer
from eqsat.backends.lowering.moves import Access, Move
from eqsat.backends.schedules.schedule import TILE_I, Strip


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
        count = -(-move.extents[i] // plan.ti)
        names = {n: text.name("i") for n in plan.order}
        levels = [Level(names[n], count if n == TILE_I else move.extents[n]) for n in plan.order]
        row = RowPrinter(text, move.body, [a.dtype for a in move.operands], [a.strides[i] for a in move.operands])

        def start(access: Access) -> str:
            terms = [(names[n], access.strides[n]) for n in plan.order if n >= 0 and move.extents[n] > 1]
            terms += [("at", access.strides[i])] if count > 1 else []
            return address(self.buffers[access.buffer], terms, access.offset)

        with nest(text, levels, plan.threads, 8):
            if count > 1:
                # The last piece overlaps the one before: all have the same length.
                last, place = move.extents[i] - plan.ti, f"{plan.ti} * {names[TILE_I]}"
                place = f"{place} > {last} ? {last} : {place}" if last % plan.ti else place
                text.add(f"const ptrdiff_t at = {place};")
            for k, access in enumerate(move.operands):
                text.add(pointer(access.dtype, f"p{k}", start(access)))
            text.add(pointer(move.out.dtype, "q", start(move.out), False))
            row.print({k: f"p{k}" for k in range(len(move.operands))}, "q", plan.ti)
        self.helpers |= row.helpers
