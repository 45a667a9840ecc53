"""Prints contiguous copies: runs, rows with their padding written in one pass, boxes filled with a constant."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from eqsat.backends.c.copy_fill import (
    APPEND_BUFFER,
    APPEND_LINE,
    append_end,
    bits_of,
    define_nt_copy,
    emit_append,
    emit_copy,
    emit_fill,
    emit_nt_copy,
    emit_reverse,
)
from eqsat.backends.c.nest import Level, SchedulePrinter, address, local, nest, tile_start
from eqsat.backends.lowering.moves import Access
from eqsat.backends.machine import LINE
from eqsat.backends.schedules.schedule import TILE_I, ContiguousCopy

PIECE = 16 << 10
"""Bytes of the pieces that longer runs are cut into, which threads share: half of the first cache."""
PREFETCHED = 8 * LINE
"""Of a later run at most so many bytes are prefetched; the hardware finds the rest by itself."""

Terms = list[tuple[str, int]]


class ContiguousCopyPrinter(SchedulePrinter[ContiguousCopy]):
    """Prints one ContiguousCopy."""

    @property
    def source(self) -> Access | None:
        """What is copied; None where a constant is stored."""
        return None if self.move.is_fill else self.move.operands[0]

    @property
    def backward(self) -> bool:
        """Whether the source is read against the direction of the result."""
        inner = self.inner
        return bool(inner) and self.source is not None and self.source.strides[inner[-1]] == -1

    @property
    def inner(self) -> list[int]:
        """The loops that write one contiguous stretch, outermost first."""
        order = self.schedule.order
        return sorted(order[len(order) - self.schedule.inner :], key=lambda n: -self.move.out.strides[n])

    def offsets(self, names: dict[int, str], strides: tuple[int, ...]) -> Terms:
        """The loops with their strides in bytes."""
        return [(name, strides[n] * self.size) for n, name in names.items() if n >= 0]

    def count(self, n: int) -> int:
        """How often an outer loop runs; one that is cut takes a piece of its steps."""
        schedule, extents = self.schedule, self.move.extents
        if n == TILE_I:
            assert schedule.tiled is not None
            return -(-extents[schedule.tiled] // schedule.tile)
        return schedule.tile if n == schedule.tiled else extents[n]

    def place(self, names: dict[int, str]) -> None:
        """Declare the position of the loop that is tiled; its last tile overlaps the one before."""
        schedule = self.schedule
        if schedule.tiled is None:
            return
        block, inner, extent = names[TILE_I], names[schedule.tiled], self.move.extents[schedule.tiled]
        start = tile_start(f"{block} * {schedule.tile}", extent, schedule.tile)
        start = f"({start})" if extent % schedule.tile else start
        names[schedule.tiled] = self.text.name("i")
        self.text.add(f"const ptrdiff_t {names[schedule.tiled]} = {start} + {inner};")

    def print(self) -> None:
        """Outer loops in the order of the schedule, then the inner ones in the order of the result."""
        schedule, move, text = self.schedule, self.move, self.text
        inner = self.inner
        outer = schedule.order[: len(schedule.order) - schedule.inner]
        names = {n: text.name("i") for n in outer}
        levels = [Level(names[n], self.count(n), n == schedule.own) for n in outer]
        run = move.extents[inner[-1]] if inner else 1
        piece = PIECE // self.size
        cut = len(inner) == 1 and run > 2 * piece and not move.boxed
        if cut:
            levels.append(Level("piece", -(-run // piece)))
        with nest(text, levels, schedule.threads):
            self.place(names)
            source: Terms = [] if self.source is None else self.offsets(names, self.source.strides)
            target = self.offsets(names, move.out.strides)
            if cut:
                text.add(f"const ptrdiff_t at = {tile_start(f'piece * {piece}', run, piece)};")
                source = [*source, ("at", -self.size if self.backward else self.size)]
                target = [*target, ("at", self.size)]
            start = None if self.source is None else address("s", source, self.source.offset * self.size)
            end = address("d", target, move.out.offset * self.size)
            assert start is not None or not schedule.nontemporal
            straight = not move.boxed and not self.backward
            if schedule.nontemporal and start is not None and len(inner) > 1 and straight and run * self.size >= LINE:
                self.append(inner, start, end, names)
            elif cut and schedule.nontemporal and self.backward:
                self.collected(end, piece * self.size, lambda: self.piece("stage", start, piece))
            elif schedule.nontemporal and (len(inner) > 1 or not straight):
                self.collect(inner, start, end)
            elif schedule.nontemporal:
                assert start is not None
                emit_nt_copy(text, end, start, (piece if cut else run) * self.size, self.vector)
            elif cut:
                self.piece(end, start, piece)
            else:
                if start is not None and len(inner) == 1 and not self.backward:
                    self.prefetch(start, run * self.size)
                self.rows(inner, start, end)

    def piece(self, d: str, s: str | None, count: int) -> None:
        if s is None:
            emit_fill(self.text, d, count, self.size, bits_of(self.move.body))
        elif self.backward:
            emit_reverse(self.text, d, f"{s} - {self.size * (count - 1)}", count, self.size, self.vector)
        else:
            emit_copy(self.text, d, s, count * self.size, self.vector)

    def append(self, inner: list[int], start: str, end: str, outer: dict[int, str]) -> None:
        """Runs that follow each other in the result: only cache lines that two of them share are put together first."""
        move, text, size = self.move, self.text, self.size
        assert self.source is not None
        names = {n: text.name("i") for n in inner[:-1]}
        run = move.extents[inner[-1]] * size
        text.add(f"char *const start = {end};")
        text.add(APPEND_BUFFER)
        for n, name in names.items():
            text.add(f"for (ptrdiff_t {name} = 0; {name} < {move.extents[n]}; ++{name})")
            text.depth += 1
        target = address("start", [(name, move.out.strides[n] * size) for n, name in names.items()])
        source = address(start, [(name, self.source.strides[n] * size) for n, name in names.items()])
        first = " && ".join(f"{name} == 0" for name in names.values())
        with text.block(""):
            if self.schedule.prefetch_group:
                self.prefetch_group(inner, start, [*outer.values()][-1], names[inner[0]])
            else:
                self.prefetch(source, run)
            emit_append(text, target, source, run, APPEND_LINE, first, self.vector)
        text.depth -= len(names)
        append_end(text, prod(move.extents[n] for n in inner) * size)

    def prefetch(self, source: str, nbytes: int) -> None:
        """Prefetch the first lines of a later run."""
        if self.schedule.prefetch:
            for at in range(0, min(nbytes, PREFETCHED), LINE):
                self.text.add(f"__builtin_prefetch({source} + {self.schedule.prefetch + at});")

    def prefetch_group(self, inner: list[int], start: str, step: str, row: str) -> None:
        """Prefetch some lines of the next group of runs, row after row: memory is read best in long pieces."""
        assert self.source is not None and len(inner) == 2
        text, group = self.text, self.schedule.prefetch_group
        rows, run = self.move.extents[inner[0]], self.move.extents[inner[1]] * self.size
        each, lines = -(-run // LINE), -(-group * run // LINE)
        text.add(f"const ptrdiff_t done = (({step} % {group}) * {rows} + {row}) * {each};")
        text.add(f"ptrdiff_t r = done / {lines}, n = done % {lines};")
        with text.block(f"for (int k = 0; k < {each}; ++k)"):
            place = address(start, [("r", self.source.strides[inner[0]] * self.size), ("n", LINE)])
            text.add(f"__builtin_prefetch({place} + {run} * ({group} - {step} % {group}), 0, 2);")
            text.add(f"if (++n == {lines}) n = 0, ++r;")

    def collect(self, inner: list[int], start: str | None, end: str) -> None:
        """The inner loops go to a local buffer, which is written by non-temporal stores."""
        nbytes = prod(self.move.extents[n] for n in inner) * self.size
        self.collected(end, nbytes, lambda: self.rows(inner, start, "stage"))

    def collected(self, end: str, nbytes: int, fill: Callable[[], None]) -> None:
        """A local buffer of known size, what fills it, and the copy of it to its place."""
        define_nt_copy(self.text, self.vector)
        self.text.add(local(f"char stage[{nbytes}]", nbytes))
        fill()
        emit_nt_copy(self.text, end, "stage", nbytes, self.vector)

    def rows(self, inner: list[int], start: str | None, end: str) -> None:
        """What lies in the inner loops: before the box, the box itself, after the box."""
        move, text, size = self.move, self.text, self.size
        if not inner:
            self.piece(end, start, 1)
            return
        n, rest = inner[0], inner[1:]
        low, high = move.box[n]
        below = prod(move.extents[k] for k in rest)
        out = move.out.strides[n]
        if low:
            assert move.fill is not None
            emit_fill(text, end, low * below, size, bits_of(move.fill))
        if not rest and out == 1 and (self.source is None or self.source.strides[n] in (1, -1)):
            shift = 0 if self.source is None else low * size * self.source.strides[n]
            from_ = None if start is None else (f"{start} + {shift}" if shift else start)
            self.piece(f"{end} + {low * size}" if low else end, from_, high - low)
        else:
            name = text.name("i")
            with text.block(f"for (ptrdiff_t {name} = {low}; {name} < {high}; ++{name})"):
                from_ = None
                if start is not None and self.source is not None:
                    from_ = address(start, [(name, self.source.strides[n] * size)])
                self.rows(rest, from_, address(end, [(name, out * size)]))
        if high < move.extents[n]:
            assert move.fill is not None
            emit_fill(text, f"{end} + {high * out * size}", (move.extents[n] - high) * below, size, bits_of(move.fill))
