"""Prints element-wise bodies tile by tile, where operands and result are contiguous along different loops.

A tile is computed row by row, by loops that compilers vectorise. Along the result's loop i, operands that lie across
are transposed into local tiles before. Along the other loop, j, the rows of the result go to a local tile, which is
transposed into place: that is cheap where the result is no wider than what it is made of; rows that it has beyond the
body's, a border of channels, are filled with a constant while the tile is transposed.
"""

from __future__ import annotations

from eqsat.backends.c.copy_fill import bits_of
from eqsat.backends.c.nest import Level, SchedulePrinter, Text, address, local, nest, tile_start
from eqsat.backends.c.pointwise_loop import PointwiseLoop, pointer
from eqsat.backends.c.transposes.block import Block
from eqsat.backends.c.transposes.tiles import cover
from eqsat.backends.c.types import c_type
from eqsat.backends.cache_sets import WAYS, sets_reached
from eqsat.backends.lowering.moves import Access
from eqsat.backends.machine import BLOCK
from eqsat.backends.schedules.schedule import TILE_I, TILE_J, PointwiseTiles


class PointwiseTilesPrinter(SchedulePrinter[PointwiseTiles]):
    """Prints one PointwiseTiles."""

    in_bytes = False

    @property
    def transposes_result(self) -> bool:
        """Whether rows are computed along j, and transposed into the result."""
        return self.schedule.along == self.schedule.j

    def print(self) -> None:
        """The tile loops, and in them a call of the tile function."""
        move, schedule, text = self.move, self.schedule, self.text
        extents = {TILE_I: move.extents[schedule.i], TILE_J: move.extents[schedule.j]}
        tiles = {TILE_I: schedule.ti, TILE_J: schedule.tj}
        names = {n: text.name("i") for n in schedule.order}
        counts = {n: -(-extents[n] // tiles[n]) if n < 0 else move.extents[n] for n in schedule.order}
        self.define_tile()
        with nest(text, [Level(names[n], counts[n], n == schedule.own) for n in schedule.order], schedule.threads):
            for n, label in ((TILE_I, "ti"), (TILE_J, "tj")):
                at = tile_start(f"{names[n]} * {tiles[n]}", extents[n], tiles[n]) if extents[n] > tiles[n] else "0"
                text.add(f"const ptrdiff_t {label} = {at};")
            arguments = [self.start(a, names) for a in (*move.operands, move.out)]
            text.add(f"{self.name}_tile({', '.join(arguments)});")

    def start(self, access: Access, names: dict[int, str]) -> str:
        """Where a tile begins in a buffer."""
        strides = access.strides
        terms = [(names[n], strides[n]) for n in self.schedule.order if n >= 0 and self.move.extents[n] > 1]
        terms += [("ti", strides[self.schedule.i]), ("tj", strides[self.schedule.j])]
        return address(self.buffers[access.buffer], terms, access.offset)

    def across(self, access: Access) -> bool:
        """Whether an operand is transposed before rows are computed."""
        return not self.transposes_result and access.strides[self.schedule.i] not in (0, 1)

    def define_tile(self) -> None:
        """The function that computes a tile."""
        move, schedule, inner = self.move, self.schedule, self.text.function()
        kinds = [c_type(a.dtype, "") for a in (*move.operands, move.out)]
        along, rows, count, other = schedule.along, schedule.tj, schedule.ti, schedule.j
        low, high = 0, rows
        if self.transposes_result:
            rows, count, other = schedule.ti, schedule.tj, schedule.i
            low, high = move.box[other] if move.boxed else (0, rows)
            inner.add(local(f"{kinds[-1]} t[{rows} * {count}]", rows * count * move.out.size))
        for k, access in enumerate(move.operands):
            if self.across(access):
                inner.add(local(f"{kinds[k]} t{k}[{rows} * {count}]", rows * count * access.size))
                self.transpose_operand(inner, access, k)
        with inner.loop("c", high, low):
            for k, access in enumerate(move.operands):
                start = (
                    f"t{k} + {count} * c" if self.across(access) else address(f"a{k}", [("c", access.strides[other])])
                )
                inner.add(pointer(access.dtype, f"p{k}", start))
            result = f"t + {count} * c" if self.transposes_result else address("o", [("c", move.out.strides[other])])
            inner.add(pointer(move.out.dtype, "q", result, False))
            # Transposed operands are rows of a tile, one element behind the other.
            strides = [1 if self.across(a) else a.strides[along] for a in move.operands]
            row = PointwiseLoop(inner, move.body, [a.dtype for a in move.operands], strides)
            row.print({k: f"p{k}" for k in range(len(move.operands))}, "q", count)
        if self.transposes_result:
            self.transpose_result(inner, low, high)
        params = [f"const {kind} *restrict a{k}" for k, kind in enumerate(kinds[:-1])]
        head = f"static inline void {self.name}_tile({', '.join([*params, f'{kinds[-1]} *restrict o'])})"
        how = "the formula along the operands, then its rows in columns"
        how = how if self.transposes_result else "operands along the result, then the formula row by row"
        note = f"/* {schedule.ti} x {schedule.tj} elements: {how}. */"
        self.text.pieces[f"{self.name}_tile"] = "\n".join([note, head, "{", *inner.lines, "}"])

    def transpose_operand(self, inner: Text, access: Access, number: int) -> None:
        """A tile of one operand, its rows along the result."""
        schedule, size = self.schedule, access.size
        e, row = BLOCK // size, access.strides[schedule.i] * size
        lanes = min(self.vector // BLOCK, max(1, schedule.ti // e))
        # Rows that share a set of the cache are read to their ends, few at a time; others side by side.
        aliased = sets_reached(row) == 1
        bands = (
            [[b] for b in cover(schedule.ti, e, min(lanes, max(1, WAYS // e)))]
            if aliased
            else [cover(schedule.ti, e, lanes)]
        )
        for band in bands:
            blocks = [(first, Block(size, wide, False, False, 0, wide * e)) for first, wide in band]
            self.transpose(inner, blocks, (f"(const char *)a{number}", row), (f"(char *)t{number}", schedule.ti * size))

    def transpose_result(self, inner: Text, low: int, high: int) -> None:
        """The tile in its place, its rows along the result; the body gave the rows in [low, high) of it."""
        move, schedule, size = self.move, self.schedule, self.move.out.size
        e = BLOCK // size
        if schedule.ti < e:
            with inner.block(f"for (int r = 0; r < {schedule.tj}; ++r)"):
                for c in range(schedule.ti):
                    inner.add(f"o[{schedule.ti} * r + {c}] = t[{schedule.tj * c} + r];")
            return
        fill = 0 if move.fill is None else bits_of(move.fill)
        lanes = min(self.vector // BLOCK, max(1, schedule.ti // e))
        blocks: list[tuple[int, Block]] = []
        for first, wide in cover(schedule.ti, e, lanes):
            start, stop = (min(max(end - first, 0), wide * e) for end in (low, high))
            full = stop - start == wide * e
            blocks.append((first, Block(size, wide, False, False, start, stop, 0 if full else fill)))
        column = move.out.strides[schedule.j] * size
        self.transpose(inner, blocks, ("(const char *)t", size * schedule.tj), ("(char *)o", column))

    def transpose(
        self, inner: Text, blocks: list[tuple[int, Block]], source: tuple[str, int], target: tuple[str, int]
    ) -> None:
        """All columns of blocks that begin at given rows, between two addresses with the strides of their rows."""
        (s, row), (d, column), size = source, target, blocks[0][1].size
        e, tj = blocks[0][1].columns, self.schedule.tj
        with inner.loop("c", -(-tj // e)):
            inner.add(f"const ptrdiff_t at = {tile_start(f'{e} * c', tj, e)};")
            for first, block in blocks:
                block.define(inner)
                from_, to = f"{s} + {size} * at + {row * first}", f"{d} + {column} * at + {size * first}"
                inner.add(f"{block.name}({from_}, {row}, {to}, {column});")
