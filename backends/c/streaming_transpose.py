"""Prints transposes that write each row of the result in whole cache lines, by non-temporal stores.

    before:  for j: for i: d[j, i] = s[i, j]
    after:   for i0 = 0:I:step:                                       # step: `lines` cache lines' worth of elements
                 for j0 by tj: stage[j, LINE:] = transpose s[i0:i0 + step, j0:j0 + tj]; prefetch a later tile's rows
                     for j of the tile: whole lines of d[j] <-nt- held[j], stage[j]; held[j] = what is left of stage[j]

A row of the result is written from its start to its end. Unless it starts at a line, its lines straddle two steps over
i: `held` keeps the end of the previous step for each row, less than a line. Where one line is written at a time, `held`
is the stage too, with the previous step and the present one side by side.
"""

from __future__ import annotations

from collections.abc import Mapping

from eqsat.backends.c.copy_fill import define_nt_copy, emit_copy
from eqsat.backends.c.nest import Level, Text, address, nest, product
from eqsat.backends.c.printer import SchedulePrinter
from eqsat.backends.c.transpose_block import Block
from eqsat.backends.c.transpose_tiles import cover, define_offsets, padded_rows
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import BLOCK, LINE, Machine
from eqsat.backends.schedules.choose_transpose import BLOCKS_PER_THREAD
from eqsat.backends.schedules.schedule import TILE_J, StreamingTranspose


class StreamingTransposePrinter(SchedulePrinter[StreamingTranspose]):
    """Prints one StreamingTranspose."""

    def __init__(
        self,
        text: Text,
        move: Move,
        schedule: StreamingTranspose,
        machine: Machine,
        name: str,
        buffers: Mapping[str, str],
    ) -> None:
        super().__init__(text, move, schedule, machine, name, buffers)
        self.step = schedule.lines * LINE // self.size
        self.single = schedule.lines == 1
        self.wide = (1 + schedule.lines) * LINE if self.single else padded_rows((1 + schedule.lines) * LINE)
        """Bytes between rows of the stage, each of which has a line to spare in front."""
        self.kept = self.wide if self.single else LINE
        """Bytes of `held` for each row."""
        i, j = schedule.i.loops[0], schedule.j.loops[0]
        self.row = str(move.operands[0].strides[i] * self.size) if schedule.i.single else "row"
        self.column = str(move.out.strides[j] * self.size) if schedule.j.single else "column"
        self.steps, self.rest = divmod(schedule.i.size, self.step)
        """Whole steps along the rows of the result, and source rows behind the last one."""

    def print(self) -> None:
        """Loops, blocks of j, and in them steps along i over all columns of the block."""
        schedule, text, size = self.schedule, self.text, self.size
        source, out = self.move.operands[0], self.move.out
        if not schedule.i.single:
            define_offsets(text, self.move, schedule.i, source, "row")
        if not schedule.j.single:
            define_offsets(text, self.move, schedule.j, out, "column")
        widest = -(-schedule.j.size // schedule.blocks) + self.e
        text.add(f"char held[{widest * self.kept}] __attribute__((aligned({LINE})));")
        self.define_lines()
        names = {n: text.name("i") for n in schedule.order}
        levels = [Level(names[n], schedule.blocks if n == TILE_J else self.move.extents[n]) for n in schedule.order]
        with nest(text, levels, schedule.threads, BLOCKS_PER_THREAD):
            loops = [n for n in schedule.order if n != TILE_J]
            start = address("s", [(names[n], source.strides[n] * size) for n in loops], source.offset * size)
            end = address("d", [(names[n], out.strides[n] * size) for n in loops], out.offset * size)
            first, width = "0", str(schedule.j.size)
            if schedule.blocks > 1:
                b, total = names[TILE_J], schedule.j.size
                part = (
                    f"/ {schedule.blocks}" if total % self.e else f"* {total // self.e} / {schedule.blocks} * {self.e}"
                )
                part = f"* {total} {part}" if total % self.e else part
                text.add(f"const ptrdiff_t first = {b} {part};")
                text.add(f"const ptrdiff_t width = ({b} + 1) {part} - first;")
                first, width = "first", "width"
            shift = "" if first == "0" else f" + {size} * first"
            text.add(f"const char *const sb = {start}{shift};")
            down = "" if first == "0" or not schedule.j.single else f" + {self.column} * first"
            text.add(f"char *const db = {end}{down};")
            columns = f"for (ptrdiff_t c = 0; c < {width}; c += {schedule.tj})"
            count = f"const ptrdiff_t n = {width} - c < {schedule.tj} ? {width} - c : {schedule.tj};"
            if self.steps:
                with text.loop("t", self.steps), text.block(columns):
                    text.add(count)
                    self.call("lines", "t", first, [*self.next(width, loops), "n", f"{LINE * schedule.lines} * t"])
            with text.block(columns):
                text.add(count)
                self.call("ends", str(self.steps), first, ["n", str(LINE * schedule.lines * self.steps)])

    def next(self, width: str, loops: list[int]) -> list[str]:
        """Where the tile that is prefetched starts: further along j, in a later step over i, or in the next plane."""
        schedule, text, size, step = self.schedule, self.text, self.size, self.step
        if not schedule.prefetch_tiles:
            return []
        if schedule.blocks > 1:
            # The next block lies beside this one.
            tiles, inner = f"(({width} + {schedule.tj - 1}) / {schedule.tj})", f"{size} * {width}"
        else:
            tiles = str(-(-schedule.j.size // schedule.tj))
            inner = str(self.move.operands[0].strides[loops[-1]] * size if loops else 0)
        text.add(f"const ptrdiff_t u = c / {schedule.tj} + {schedule.prefetch_tiles}, v = t + u / {tiles};")
        text.add(f"const ptrdiff_t beyond = v >= {self.steps};")
        below = f"(beyond ? (v - {self.steps}) % {self.steps} : v) * {step}"
        column = f"{size * schedule.tj} * (u % {tiles}) + (beyond ? {inner} : 0)"
        if schedule.i.single:
            text.add(f"const char *const next = sb + {self.row} * ({below}) + {column};")
            return ["next"]
        text.add(f"const char *const next = sb + {column};")
        text.add(f"const ptrdiff_t *const rows = row + {below};")
        return ["next", "rows"]

    def call(self, what: str, t: str, first: str, rest: list[str]) -> None:
        """A call for some columns of one step."""
        schedule, size = self.schedule, self.size
        down = f" + {product(self.row, self.step, t)}" if schedule.i.single else ""
        arguments = [f"sb{down} + {size} * c"]
        if not schedule.i.single:
            arguments.append(f"row + {product(self.step, t)}")
        arguments.append(f"db + {self.column} * c" if schedule.j.single else "db")
        if not schedule.j.single:
            arguments.append("column + c" if first == "0" else f"column + {first} + c")
        self.text.add(f"{self.name}_{what}({', '.join([*arguments, f'held + {self.kept} * c', *rest])});")

    def define_lines(self) -> None:
        """The function for one step, and the one for what is left at the end of the rows."""
        schedule = self.schedule
        define_nt_copy(self.text, self.vector)
        to = f"d + {self.column} * c" if schedule.j.single else "d + column[c]"
        for what in ("lines", "ends") if self.steps else ("ends",):
            whole = what == "lines"
            params = ["const char *restrict s"]
            params += [] if schedule.i.single else ["const ptrdiff_t *restrict row"]
            params += ["char *restrict d"]
            params += [] if schedule.j.single else ["const ptrdiff_t *restrict column"]
            params += ["char *restrict held"]
            if whole and schedule.prefetch_tiles:
                params += ["const char *next"]
                params += [] if schedule.i.single else ["const ptrdiff_t *next_row"]
            params += ["ptrdiff_t n", "ptrdiff_t done"]
            inner = self.text.function()
            rows = self.step if whole else self.rest
            self.stage(inner)
            if rows:
                self.transposes(inner, rows)
            else:
                inner.add("(void)s;" if schedule.i.single else "(void)s, (void)row;")
            if not self.steps:
                inner.add("(void)held, (void)done;")
            with inner.block("for (ptrdiff_t c = 0; c < n; ++c)"):
                inner.add(f"char *to = {to}, *have = stage + {self.wide} * c;")
                if self.steps:
                    inner.add(f"const ptrdiff_t off = (ptrdiff_t)((uintptr_t)to & {LINE - 1});")
                if whole:
                    self.prefetch(inner)
                    self.lines(inner)
                else:
                    self.ends(inner, rows)
            note = "Some lines of each row." if whole else "The ends of the rows."
            head = f"static inline void {self.name}_{what}({', '.join(params)})"
            self.text.pieces[f"{self.name}_{what}"] = "\n".join([f"/* {note} */", head, "{", *inner.lines, "}"])

    def stage(self, inner: Text) -> None:
        """The stage, with the end of the previous step in front of each row."""
        if self.single:
            inner.add("char *const stage = held;")
            return
        # Columns before the first are those that a narrow last tile transposes once more.
        inner.add(f"char local[{(self.schedule.tj + self.e) * self.wide}] __attribute__((aligned({LINE})));")
        inner.add(f"char *const stage = local + {self.e * self.wide};")
        if self.steps:
            # Long before it is read again: a load of what is still in the store buffer, in parts, would wait.
            held = f"memcpy(stage + {self.wide} * c, held + {LINE} * c, {LINE});"
            inner.add(f"if (done != 0) for (ptrdiff_t c = 0; c < n; ++c) {held}")

    def lines(self, inner: Text) -> None:
        """Stores of the whole lines of a row of the stage, and what is left of it into `held`."""
        many = self.schedule.lines
        with inner.block("if (off == 0)"):
            for k in range(many):
                inner.add(f"NT_STORE_LINE(to + done + {LINE * k}, have + {LINE * (k + 1)});")
        with inner.block("else"):
            inner.add(f"if (done != 0) NT_STORE_LINE(to + done - off, have + {LINE} - off);")
            inner.add(f"else memcpy(to, have + {LINE}, (size_t)({LINE} - off));")
            for k in range(1, many):
                inner.add(f"NT_STORE_LINE(to + done + {LINE * k} - off, have + {LINE * (k + 1)} - off);")
            inner.add(f"memcpy({'have' if self.single else f'held + {LINE} * c'}, have + {LINE * many}, {LINE});")

    def ends(self, inner: Text, rows: int) -> None:
        """Stores of what is left at the end of a row."""
        if not self.steps:
            inner.add(f"nt_copy(to, have + {LINE}, {rows * self.size});")
            return
        inner.add(f"nt_copy(to + done - off, have + {LINE} - off, {f'{rows * self.size} + ' if rows else ''}off);")

    def prefetch(self, inner: Text) -> None:
        """Prefetch a later tile, some of its rows beside each row of this one that is written."""
        schedule = self.schedule
        if not schedule.prefetch_tiles:
            return
        each = -(-self.step // schedule.tj)
        for k in range(each):
            r = f"{each} * c + {k}" if each > 1 else "c"
            with inner.block(f"if ({r} < {self.step})"):
                inner.add(
                    f"const char *at = next + {f'{self.row} * ({r})' if schedule.i.single else f'next_row[{r}]'};"
                )
                # Where a row starts within a line, the previous tile has read that line.
                for at in range(LINE - 1, schedule.tj * self.size, LINE):
                    inner.add(f"__builtin_prefetch(at + {at});")

    def transposes(self, inner: Text, rows: int) -> None:
        """The transposes of a step, into the stage: a band of rows after the other."""
        schedule, e, size = self.schedule, self.e, self.size
        run = schedule.tj * size
        lanes = min(self.vector // BLOCK, max(1, rows // e))
        for first, many, width in equal_blocks(cover(rows, e, lanes), e):
            with inner.loop("k", many, 0) if many > 1 else inner.block(""):
                base = f"({first} + {width * e} * k)" if many > 1 else f"({first})"
                source, row = (
                    (f"s + {product(self.row, base)}", self.row) if schedule.i.single else ("s", f"row + {base}")
                )
                table = not schedule.i.single
                if schedule.pack:
                    padded = padded_rows(run)
                    inner.add(f"char pack[{width * e * padded}] __attribute__((aligned({LINE})));")
                    at = f"{source} + {row} * r" if schedule.i.single else f"s + ({row})[r]"
                    with inner.block(f"if (n == {schedule.tj})"), inner.loop("r", width * e):
                        emit_copy(inner, f"pack + {padded} * r", at, run, self.vector)
                    with inner.block("else"), inner.loop("r", width * e):
                        # A narrow tile begins with columns of the previous one.
                        low = f"(n < {e} ? {size} * (n - {e}) : 0)"
                        copied = f"(size_t)({size} * (n < {e} ? {e} : n))"
                        inner.add(f"memcpy(pack + {padded} * r, {at} + {low}, {copied});")
                    source, row, table = f"pack + {size} * (n < {e} ? {e} - n : 0)", str(padded), False
                block = Block(size, width, table, False, 0, width * e)
                block.define(inner)
                into = f"stage + {self.wide} * at + {LINE} + {size} * {base}"
                with inner.block(f"for (ptrdiff_t c = 0; c < n; c += {e})"):
                    inner.add(f"const ptrdiff_t at = c > n - {e} ? n - {e} : c;")
                    inner.add(f"{block.name}({source} + {size} * at, {row}, {into}, {self.wide});")


def equal_blocks(parts: list[tuple[int, int]], e: int) -> list[tuple[int, int, int]]:
    """(first row, how many, lanes): blocks of one width that follow each other, as one loop."""
    found: list[tuple[int, int, int]] = []
    for at, lanes in parts:
        if found and found[-1][2] == lanes and at == found[-1][0] + found[-1][1] * lanes * e:
            found[-1] = (found[-1][0], found[-1][1] + 1, lanes)
        else:
            found.append((at, 1, lanes))
    return found
