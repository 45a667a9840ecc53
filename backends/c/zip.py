"""Zips: a few elements interleaved or separated by a statement for each of them, which compilers turn into shuffles."""

from __future__ import annotations

from itertools import product
from math import prod

from eqsat.backends.c.nest import Level, Text, address, nest
from eqsat.backends.c.vector import STREAM_OUT, stream_pieces
from eqsat.backends.c.weave import weave_name, weave_pieces, weave_width
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import LINE, Machine
from eqsat.backends.schedules.schedule import Zip


class ZipPrinter:
    """Prints one zip. The names s and d are the source and the result as bytes."""

    def __init__(self, text: Text, move: Move, plan: Zip, machine: Machine) -> None:
        self.text = text
        self.move = move
        self.plan = plan
        self.vector = machine.vector
        self.size = move.out.size

    def print(self) -> None:
        """Outer loops, blocks of the long loop, one pass over a block."""
        move, plan, text, size = self.move, self.plan, self.text, self.size
        source, out = move.operands[0], move.out
        names = {n: text.name("i") for n in plan.order}
        extent, block = move.extents[plan.long], plan.block
        levels = [Level(names[n], move.extents[n]) for n in plan.order]
        blocks = -(-extent // block)
        levels.append(Level("block", blocks))
        kind = f"uint{8 * size}_t"
        with nest(text, levels, plan.threads, 8):
            start = [(names[n], source.strides[n] * size) for n in plan.order]
            end = [(names[n], out.strides[n] * size) for n in plan.order]
            if blocks > 1:
                last = extent - block
                at = f"block * {block} > {last} ? {last} : block * {block}"
                text.add(f"const ptrdiff_t at = {at if extent % block else f'block * {block}'};")
                start.append(("at", source.strides[plan.long] * size))
                end.append(("at", out.strides[plan.long] * size))
            text.add(f"const {kind} *a = (const {kind} *)(const void *)({address('s', start, source.offset * size)});")
            target = address("d", end, out.offset * size)
            if plan.stream:
                self.staged(kind, target)
            else:
                text.add(f"{kind} *restrict o = ({kind} *)(void *)({target});")
                self.loop({n: out.strides[n] for n in (plan.long, *plan.small)})

    def staged(self, kind: str, target: str) -> None:
        """Rows of the result collected in a local buffer; each leaves by streaming stores."""
        move, plan, text, size = self.move, self.plan, self.text, self.size
        text.pieces["stream"] = stream_pieces(self.vector)
        text.pieces["stream_out"] = STREAM_OUT
        many = prod(move.extents[n] for n in plan.small)
        text.add(f"{kind} o[{many * plan.block}] __attribute__((aligned({LINE})));")
        out = move.out
        if out.strides[plan.long] != 1:
            # The small loops lie inside: one contiguous row.
            self.loop({n: out.strides[n] for n in (plan.long, *plan.small)})
            text.add(f"stream_out({target}, (const char *)o, {many * plan.block * size});")
            return
        strides, step = {plan.long: 1}, plan.block
        for n in reversed(plan.small):
            strides[n], step = step, step * move.extents[n]
        self.loop(strides)
        for at in product(*(range(move.extents[n]) for n in plan.small)):
            row = sum(k * strides[n] for k, n in zip(at, plan.small, strict=True)) * size
            place = sum(k * out.strides[n] for k, n in zip(at, plan.small, strict=True)) * size
            text.add(f"stream_out({target} + {place}, (const char *)o + {row}, {plan.block * size});")

    def loop(self, out: dict[int, int]) -> None:
        """One pass of the long loop, a statement for each small position."""
        move, plan, text = self.move, self.plan, self.text
        source = move.operands[0]
        if plan.braid:
            self.braids(out)
            return
        with text.loop("k", plan.block):
            for at in product(*(range(move.extents[n]) for n in plan.small)):
                into = sum(k * out[n] for k, n in zip(at, plan.small, strict=True))
                from_ = sum(k * source.strides[n] for k, n in zip(at, plan.small, strict=True))
                left = address("", [("k", out[plan.long])], into).removeprefix(" + ") or "0"
                right = address("", [("k", source.strides[plan.long])], from_).removeprefix(" + ") or "0"
                text.add(f"o[{left}] = a[{right}];")

    def braids(self, out: dict[int, int]) -> None:
        """The same, 16 bytes of every row at a time; the last ones overlap those before."""
        plan, text, size = self.plan, self.text, self.size
        (small,) = plan.small
        count, nbytes = self.move.extents[small], plan.block * size
        apart = out[plan.long] == 1
        width = weave_width(count, nbytes, self.vector)
        for name, piece in weave_pieces(count, size, apart, width).items():
            text.pieces.setdefault(name, piece)
        row = (out if apart else self.move.operands[0].strides)[small] * size
        with text.block(f"for (ptrdiff_t k = 0; k < {nbytes}; k += {width})"):
            at = "k"
            if nbytes % width:
                text.add(f"const ptrdiff_t from = k > {nbytes - width} ? {nbytes - width} : k;")
                at = "from"
            d, s = (at, f"{count} * {at}") if apart else (f"{count} * {at}", at)
            text.add(f"{weave_name(count, size, apart, width)}((char *)o + {d}, (const char *)a + {s}, {row});")
