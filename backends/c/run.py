"""Runs: contiguous pieces copied whole, rows with their padding written in one pass, boxes filled with a value."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from eqsat.backends.c.copy import bits_of, emit_copy, emit_fill, emit_reverse
from eqsat.backends.c.nest import Level, Text, address, nest
from eqsat.backends.c.vector import STREAM_NEXT, STREAM_OUT, stream_pieces
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import LINE, Machine
from eqsat.backends.schedules.schedule import TILE_I, Run

PIECE = 16 << 10
"""Longer runs are cut into pieces of so many bytes."""

FETCHED = 8 * LINE
"""Of a run to come, at most so many bytes are asked for; the processor finds the rest by itself."""

Terms = list[tuple[str, int]]


class RunPrinter:
    """Prints one run. The names s and d are the source and the result as bytes."""

    def __init__(self, text: Text, move: Move, plan: Run, machine: Machine) -> None:
        self.text = text
        self.move = move
        self.plan = plan
        self.vector = machine.vector
        self.size = move.out.size
        self.source = None if move.is_fill else move.operands[0]
        self.backward = False

    def offsets(self, names: dict[int, str], strides: tuple[int, ...]) -> Terms:
        return [(name, strides[n] * self.size) for n, name in names.items() if n >= 0]

    def count(self, n: int) -> int:
        """How often an outer loop runs; one that is cut takes a piece of its steps."""
        plan, extents = self.plan, self.move.extents
        if n == TILE_I:
            assert plan.tiled is not None
            return -(-extents[plan.tiled] // plan.tile)
        return plan.tile if n == plan.tiled else extents[n]

    def place(self, names: dict[int, str]) -> None:
        """The position of the loop that is cut; its last piece overlaps the one before."""
        plan = self.plan
        if plan.tiled is None:
            return
        last, block, inner = self.move.extents[plan.tiled] - plan.tile, names[TILE_I], names[plan.tiled]
        start = f"{block} * {plan.tile}"
        if self.move.extents[plan.tiled] % plan.tile:
            start = f"({start} > {last} ? {last} : {start})"
        names[plan.tiled] = self.text.name("i")
        self.text.add(f"const ptrdiff_t {names[plan.tiled]} = {start} + {inner};")

    def print(self) -> None:
        """Outer loops in the order of the plan, then the collected ones in the order of the result."""
        plan, move, text = self.plan, self.move, self.text
        inner = sorted(plan.order[len(plan.order) - plan.chunk :], key=lambda n: -move.out.strides[n])
        outer = plan.order[: len(plan.order) - plan.chunk]
        names = {n: text.name("i") for n in outer}
        levels = [Level(names[n], self.count(n)) for n in outer]
        run = move.extents[inner[-1]] if inner else 1
        piece = PIECE // self.size
        self.backward = bool(inner) and self.source is not None and self.source.strides[inner[-1]] == -1
        cut = len(inner) == 1 and run > 2 * piece and not move.boxed
        if cut:
            levels.append(Level("piece", -(-run // piece)))
        with nest(text, levels, plan.threads, 8):
            self.place(names)
            source: Terms = [] if self.source is None else self.offsets(names, self.source.strides)
            target = self.offsets(names, move.out.strides)
            if cut:
                last = run - piece
                at = f"piece * {piece} > {last} ? {last} : piece * {piece}"
                text.add(f"const ptrdiff_t at = {at if run % piece else f'piece * {piece}'};")
                source = [*source, ("at", -self.size if self.backward else self.size)]
                target = [*target, ("at", self.size)]
            start = None if self.source is None else address("s", source, self.source.offset * self.size)
            end = address("d", target, move.out.offset * self.size)
            assert start is not None or not plan.stream
            if plan.stream:
                text.pieces["stream"] = stream_pieces(self.vector)
            straight = not move.boxed and not self.backward
            if plan.stream and start is not None and len(inner) > 1 and straight and run * self.size >= LINE:
                self.append(inner, start, end, names)
            elif cut and plan.stream and self.backward:
                self.collected(end, piece * self.size, lambda: self.piece("stage", start, piece))
            elif plan.stream and (len(inner) > 1 or not straight):
                self.collect(inner, start, end)
            elif plan.stream:
                text.pieces["stream_out"] = STREAM_OUT
                text.add(f"stream_out({end}, {start}, {(piece if cut else run) * self.size});")
            elif cut:
                self.piece(end, start, piece)
            else:
                if start is not None and len(inner) == 1 and not self.backward:
                    self.fetch(start, run * self.size)
                self.rows(inner, start, end)

    def piece(self, d: str, s: str | None, count: int) -> None:
        if s is None:
            emit_fill(self.text, d, count, self.size, bits_of(self.move.body))
        elif self.backward:
            emit_reverse(self.text, d, f"{s} - {self.size * (count - 1)}", count, self.size, self.vector)
        else:
            emit_copy(self.text, d, s, count * self.size, self.vector)

    def append(self, inner: list[int], start: str, end: str, outer: dict[int, str]) -> None:
        """Runs that follow each other in the result: only the lines that two of them share are put together first."""
        move, text, size = self.move, self.text, self.size
        assert self.source is not None
        text.pieces["stream_next"] = STREAM_NEXT
        names = {n: text.name("i") for n in inner[:-1]}
        run = move.extents[inner[-1]] * size
        text.add(f"char *const start = {end};")
        text.add(f"char line[192] __attribute__((aligned({LINE})));")
        for n, name in names.items():
            text.add(f"for (ptrdiff_t {name} = 0; {name} < {move.extents[n]}; ++{name})")
            text.depth += 1
        target = address("start", [(name, move.out.strides[n] * size) for n, name in names.items()])
        source = address(start, [(name, self.source.strides[n] * size) for n, name in names.items()])
        first = " && ".join(f"{name} == 0" for name in names.values())
        with text.block(""):
            if self.plan.group:
                self.fetch_group(inner, start, [*outer.values()][-1], names[inner[0]])
            else:
                self.fetch(source, run)
            text.add(f"stream_next({target}, {source}, {run}, line + {LINE}, {first});")
        text.depth -= len(names)
        total = prod(move.extents[n] for n in inner) * size
        text.add(f"const size_t held = (size_t)((uintptr_t)(start + {total}) & {LINE - 1});")
        text.add(f"if (held != 0) memcpy(start + {total} - held, line + {LINE}, held);")

    def fetch(self, source: str, nbytes: int) -> None:
        """Ask for the lines of a run to come."""
        if self.plan.fetch:
            for at in range(0, min(nbytes, FETCHED), LINE):
                self.text.add(f"__builtin_prefetch({source} + {self.plan.fetch + at});")

    def fetch_group(self, inner: list[int], start: str, step: str, row: str) -> None:
        """Ask for some lines of the group of runs to come: row after row, for memory is read best in long pieces."""
        assert self.source is not None and len(inner) == 2
        text, group = self.text, self.plan.group
        rows, run = self.move.extents[inner[0]], self.move.extents[inner[1]] * self.size
        each, lines = -(-run // LINE), -(-group * run // LINE)
        text.add(f"const ptrdiff_t done = (({step} % {group}) * {rows} + {row}) * {each};")
        text.add(f"ptrdiff_t r = done / {lines}, n = done % {lines};")
        with text.block(f"for (int k = 0; k < {each}; ++k)"):
            place = address(start, [("r", self.source.strides[inner[0]] * self.size), ("n", LINE)])
            text.add(f"__builtin_prefetch({place} + {run} * ({group} - {step} % {group}), 0, 2);")
            text.add(f"if (++n == {lines}) n = 0, ++r;")

    def collect(self, inner: list[int], start: str | None, end: str) -> None:
        """The collected loops go to a local buffer, which leaves by streaming stores."""
        nbytes = prod(self.move.extents[n] for n in inner) * self.size
        self.collected(end, nbytes, lambda: self.rows(inner, start, "stage"))

    def collected(self, end: str, nbytes: int, fill: Callable[[], None]) -> None:
        """A local buffer of known size, what fills it, and its way out."""
        self.text.pieces["stream_out"] = STREAM_OUT
        self.text.add(f"char stage[{nbytes}] __attribute__((aligned({LINE})));")
        fill()
        self.text.add(f"stream_out({end}, stage, {nbytes});")

    def rows(self, inner: list[int], start: str | None, end: str) -> None:
        """What lies in the collected loops: before the box, the box itself, after the box."""
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
