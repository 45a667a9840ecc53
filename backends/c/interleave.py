"""Prints interleaves of few rows: a statement for each, which compilers make shuffles of, or vectors in registers."""

from __future__ import annotations

from eqsat.backends.c.copy_fill import define_nt_copy, emit_nt_copy
from eqsat.backends.c.interleave_block import InterleaveBlock, block_width
from eqsat.backends.c.nest import Level, SchedulePrinter, address, local, nest, tile_start
from eqsat.backends.machine import LINE
from eqsat.backends.schedules.schedule import Interleave


class InterleavePrinter(SchedulePrinter[Interleave]):
    """Prints one Interleave."""

    def print(self) -> None:
        """Outer loops, blocks of the long loop, one pass over a block."""
        move, schedule, text, size = self.move, self.schedule, self.text, self.size
        source, out = move.operands[0], move.out
        names = {n: text.name("i") for n in schedule.order}
        extent, block = move.extents[schedule.long], schedule.block
        tiles, within = dict(schedule.tiles), {n: text.name("i") for n, _ in schedule.tiles}
        levels = [
            Level(within[n], move.extents[n] // tiles[n], n == schedule.own)
            if outside
            else Level(names[n], tiles.get(n, move.extents[n]), n == schedule.own and n not in tiles)
            for n, outside in schedule.loops
        ]
        blocks = -(-extent // block)
        levels.append(Level("block", blocks))
        kind = f"uint{8 * size}_t"
        with nest(text, levels, schedule.threads):
            start = [(names[n], source.strides[n] * size) for n in schedule.order]
            start += [(within[n], source.strides[n] * size * steps) for n, steps in schedule.tiles]
            end = [(names[n], out.strides[n] * size) for n in schedule.order]
            end += [(within[n], out.strides[n] * size * steps) for n, steps in schedule.tiles]
            if blocks > 1:
                text.add(f"const ptrdiff_t at = {tile_start(f'block * {block}', extent, block)};")
                start.append(("at", source.strides[schedule.long] * size))
                end.append(("at", out.strides[schedule.long] * size))
            text.add(f"const {kind} *a = (const {kind} *)(const void *)({address('s', start, source.offset * size)});")
            target = address("d", end, out.offset * size)
            if schedule.nontemporal:
                self.staged(kind, target)
            else:
                text.add(f"{kind} *restrict o = ({kind} *)(void *)({target});")
                self.loop(out.strides[schedule.long], out.strides[schedule.small])

    def staged(self, kind: str, target: str) -> None:
        """Rows of the result collected in a local buffer, and written by non-temporal stores."""
        move, schedule, text = self.move, self.schedule, self.text
        define_nt_copy(text, self.vector)
        count, out = move.extents[schedule.small], move.out
        nbytes = schedule.block * self.size
        text.add(local(f"{kind} o[{count * schedule.block}]", count * nbytes))
        if out.strides[schedule.long] != 1:
            # The small loop lies inside: one contiguous row.
            self.loop(out.strides[schedule.long], out.strides[schedule.small])
            emit_nt_copy(text, target, "(const char *)o", count * nbytes, self.vector)
            return
        self.loop(1, schedule.block)
        for n in range(count):
            there, here = f"{target} + {n * out.strides[schedule.small] * self.size}", f"(const char *)o + {n * nbytes}"
            if not schedule.apart:
                emit_nt_copy(text, there, here, nbytes, self.vector)
                continue
            with text.block(f"if ((uintptr_t)({there}) % {LINE} == 0)"):
                emit_nt_copy(text, there, here, nbytes, self.vector)
            with text.block("else"):
                text.add(f"memcpy({there}, {here}, {nbytes});")

    def loop(self, long: int, small: int) -> None:
        """One pass of the long loop, a statement for each row; the strides in the result are `long` and `small`."""
        move, schedule, text = self.move, self.schedule, self.text
        source = move.operands[0]
        if schedule.in_registers:
            self.vectors(long, small)
            return
        with text.loop("k", schedule.block):
            for n in range(move.extents[schedule.small]):
                left = address("", [("k", long)], n * small).removeprefix(" + ") or "0"
                right = address("", [("k", source.strides[schedule.long])], n * source.strides[schedule.small])
                text.add(f"o[{left}] = a[{right.removeprefix(' + ') or '0'}];")

    def vectors(self, long: int, small: int) -> None:
        """The same, 16, 32 or 64 bytes of every row at a time; the last ones overlap those before."""
        schedule, text, size = self.schedule, self.text, self.size
        count, nbytes = self.move.extents[schedule.small], schedule.block * size
        separate = long == 1
        width = LINE if schedule.wide else block_width(count, nbytes, self.vector)
        block = InterleaveBlock(count, size, separate, width)
        block.define(text)
        row = (small if separate else self.move.operands[0].strides[schedule.small]) * size
        with text.block(f"for (ptrdiff_t k = 0; k < {nbytes}; k += {width})"):
            at = "k"
            if nbytes % width:
                text.add(f"const ptrdiff_t from = {tile_start('k', nbytes, width)};")
                at = "from"
            d, s = (at, f"{count} * {at}") if separate else (f"{count} * {at}", at)
            text.add(f"{block.name}((char *)o + {d}, (const char *)a + {s}, {row});")
