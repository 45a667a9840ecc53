"""Prints element-wise bodies over operands that all lie along the result, a few vectors at a time."""

from __future__ import annotations

from eqsat.backends.c.nest import Level, address, nest, tile_start
from eqsat.backends.c.pointwise_loop import PointwiseLoop, pointer
from eqsat.backends.c.printer import SchedulePrinter
from eqsat.backends.lowering.moves import Access
from eqsat.backends.schedules.schedule import TILE_I, PointwiseRows


class PointwiseRowsPrinter(SchedulePrinter[PointwiseRows]):
    """Prints one PointwiseRows."""

    in_bytes = False

    def print(self) -> None:
        """Loops over rows and over pieces of a row, and in them the loops that compute one."""
        move, schedule, text = self.move, self.schedule, self.text
        i = schedule.i
        count = -(-move.extents[i] // schedule.ti)
        names = {n: text.name("i") for n in schedule.order}
        levels = [Level(names[n], count if n == TILE_I else move.extents[n]) for n in schedule.order]
        row = PointwiseLoop(text, move.body, [a.dtype for a in move.operands], [a.strides[i] for a in move.operands])

        def start(access: Access) -> str:
            terms = [(names[n], access.strides[n]) for n in schedule.order if n >= 0 and move.extents[n] > 1]
            terms += [("at", access.strides[i])] if count > 1 else []
            return address(self.buffers[access.buffer], terms, access.offset)

        with nest(text, levels, schedule.threads):
            if count > 1:
                place = tile_start(f"{schedule.ti} * {names[TILE_I]}", move.extents[i], schedule.ti)
                text.add(f"const ptrdiff_t at = {place};")
            for k, access in enumerate(move.operands):
                text.add(pointer(access.dtype, f"p{k}", start(access)))
            text.add(pointer(move.out.dtype, "q", start(move.out), False))
            row.print({k: f"p{k}" for k in range(len(move.operands))}, "q", schedule.ti)
