"""Large transposes past the caches: every row of the result leaves in whole lines, wherever in a line it starts.

A row of the result is filled from left to right, one or a few lines' worth of elements at a time: a tile is turned
into a local buffer, which leaves by streaming stores, while the source rows of a tile to come are asked for. Unless a
row starts at a line, its lines straddle two such steps: `held` keeps the end of the step before, for each row. Where
one line leaves at a time, `held` is the local buffer too, with the step before and the present one side by side.
"""

from __future__ import annotations

from eqsat.backends.c.copy import emit_copy
from eqsat.backends.c.nest import Level, Text, address, nest, product
from eqsat.backends.c.tile import TurnPrinter, cover, padded_rows
from eqsat.backends.c.turn import Block
from eqsat.backends.c.vector import STREAM_OUT, stream_pieces
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import LINE, Machine
from eqsat.backends.schedules.schedule import TILE_J, Shear, Turn


class ShearPrinter:
    """Prints one shear. The names s and d are the source and the result as bytes."""

    def __init__(self, text: Text, move: Move, plan: Shear, machine: Machine, name: str) -> None:
        self.text = text
        self.move = move
        self.plan = plan
        self.machine = machine
        self.name = name
        self.size = move.out.size
        self.e = 16 // self.size
        self.step = plan.lines * LINE // self.size
        self.single = plan.lines == 1
        self.wide = (1 + plan.lines) * LINE if self.single else padded_rows((1 + plan.lines) * LINE)
        """Bytes between rows of the local buffer, each of which has a line to spare in front."""
        self.kept = self.wide if self.single else LINE
        """Bytes of `held` for each row."""
        turn = Turn(plan.i, plan.j, self.step, plan.tj, plan.order)
        self.turn = TurnPrinter(text, move, turn, machine, name)
        i, j = plan.i.loops[0], plan.j.loops[0]
        self.row = str(move.operands[0].strides[i] * self.size) if plan.i.plain else "row"
        self.column = str(move.out.strides[j] * self.size) if plan.j.plain else "column"
        self.steps, self.rest = divmod(plan.i.size, self.step)
        """Whole steps along the rows of the result, and source rows behind the last one."""

    def print(self) -> None:
        """Loops, blocks of j, and in them steps along i over all columns of the block."""
        plan, text, size = self.plan, self.text, self.size
        source, out = self.move.operands[0], self.move.out
        if not plan.i.plain:
            self.turn.table(plan.i, source, "row")
        if not plan.j.plain:
            self.turn.table(plan.j, out, "column")
        widest = -(-plan.j.size // plan.blocks) + self.e
        text.add(f"char held[{widest * self.kept}] __attribute__((aligned({LINE})));")
        self.define_lines()
        names = {n: text.name("i") for n in plan.order}
        levels = [Level(names[n], plan.blocks if n == TILE_J else self.move.extents[n]) for n in plan.order]
        with nest(text, levels, plan.threads, 4):
            loops = [n for n in plan.order if n != TILE_J]
            start = address("s", [(names[n], source.strides[n] * size) for n in loops], source.offset * size)
            end = address("d", [(names[n], out.strides[n] * size) for n in loops], out.offset * size)
            first, width = "0", str(plan.j.size)
            if plan.blocks > 1:
                b, total = names[TILE_J], plan.j.size
                part = f"/ {plan.blocks}" if total % self.e else f"* {total // self.e} / {plan.blocks} * {self.e}"
                part = f"* {total} {part}" if total % self.e else part
                text.add(f"const ptrdiff_t first = {b} {part};")
                text.add(f"const ptrdiff_t width = ({b} + 1) {part} - first;")
                first, width = "first", "width"
            shift = "" if first == "0" else f" + {size} * first"
            text.add(f"const char *const sb = {start}{shift};")
            down = "" if first == "0" or not plan.j.plain else f" + {self.column} * first"
            text.add(f"char *const db = {end}{down};")
            columns = f"for (ptrdiff_t c = 0; c < {width}; c += {plan.tj})"
            count = f"const ptrdiff_t n = {width} - c < {plan.tj} ? {width} - c : {plan.tj};"
            if self.steps:
                with text.loop("t", self.steps), text.block(columns):
                    text.add(count)
                    self.call("lines", "t", first, [*self.next(width, loops), "n", f"{LINE * plan.lines} * t"])
            with text.block(columns):
                text.add(count)
                self.call("ends", str(self.steps), first, ["n", str(LINE * plan.lines * self.steps)])

    def next(self, width: str, loops: list[int]) -> list[str]:
        """Where the tile to come starts: further along, in a step to come, or where the loops around go next."""
        plan, text, size, step = self.plan, self.text, self.size, self.step
        if not plan.fetch:
            return []
        if plan.blocks > 1:
            # The next block lies beside this one.
            tiles, inner = f"(({width} + {plan.tj - 1}) / {plan.tj})", f"{size} * {width}"
        else:
            tiles = str(-(-plan.j.size // plan.tj))
            inner = str(self.move.operands[0].strides[loops[-1]] * size if loops else 0)
        text.add(f"const ptrdiff_t u = c / {plan.tj} + {plan.fetch}, v = t + u / {tiles};")
        text.add(f"const ptrdiff_t beyond = v >= {self.steps};")
        below = f"(beyond ? (v - {self.steps}) % {self.steps} : v) * {step}"
        column = f"{size * plan.tj} * (u % {tiles}) + (beyond ? {inner} : 0)"
        if plan.i.plain:
            text.add(f"const char *const next = sb + {self.row} * ({below}) + {column};")
            return ["next"]
        text.add(f"const char *const next = sb + {column};")
        text.add(f"const ptrdiff_t *const rows = row + {below};")
        return ["next", "rows"]

    def call(self, what: str, t: str, first: str, rest: list[str]) -> None:
        """A call for some columns of one step."""
        plan, size = self.plan, self.size
        down = f" + {product(self.row, self.step, t)}" if plan.i.plain else ""
        arguments = [f"sb{down} + {size} * c"]
        if not plan.i.plain:
            arguments.append(f"row + {product(self.step, t)}")
        arguments.append(f"db + {self.column} * c" if plan.j.plain else "db")
        if not plan.j.plain:
            arguments.append("column + c" if first == "0" else f"column + {first} + c")
        self.text.add(f"{self.name}_{what}({', '.join([*arguments, f'held + {self.kept} * c', *rest])});")

    def define_lines(self) -> None:
        """The function for one step, and the one for what is left at the end of the rows."""
        plan = self.plan
        self.text.pieces["stream"] = stream_pieces(self.machine.vector)
        self.text.pieces["stream_out"] = STREAM_OUT
        to = f"d + {self.column} * c" if plan.j.plain else "d + column[c]"
        for what in ("lines", "ends") if self.steps else ("ends",):
            whole = what == "lines"
            params = ["const char *restrict s"]
            params += [] if plan.i.plain else ["const ptrdiff_t *restrict row"]
            params += ["char *restrict d"]
            params += [] if plan.j.plain else ["const ptrdiff_t *restrict column"]
            params += ["char *restrict held"]
            if whole and plan.fetch:
                params += ["const char *next"]
                params += [] if plan.i.plain else ["const ptrdiff_t *next_row"]
            params += ["ptrdiff_t n", "ptrdiff_t done"]
            inner = Text(pieces=self.text.pieces)
            rows = self.step if whole else self.rest
            self.stage(inner)
            if rows:
                self.turns(inner, rows)
            else:
                inner.add("(void)s;" if plan.i.plain else "(void)s, (void)row;")
            if not self.steps:
                inner.add("(void)held, (void)done;")
            with inner.block("for (ptrdiff_t c = 0; c < n; ++c)"):
                inner.add(f"char *to = {to}, *have = stage + {self.wide} * c;")
                if self.steps:
                    inner.add(f"const ptrdiff_t off = (ptrdiff_t)((uintptr_t)to & {LINE - 1});")
                if whole:
                    self.fetch(inner)
                    self.lines(inner)
                else:
                    self.ends(inner, rows)
            note = "Some lines of each row." if whole else "The ends of the rows."
            head = f"static inline void {self.name}_{what}({', '.join(params)})"
            self.text.pieces[f"{self.name}_{what}"] = "\n".join([f"/* {note} */", head, "{", *inner.lines, "}"])

    def stage(self, inner: Text) -> None:
        """The local buffer, with the end of the step before in front of each row."""
        if self.single:
            inner.add("char *const stage = held;")
            return
        # Columns before the first are those that a narrow last tile turns once more.
        inner.add(f"char local[{(self.plan.tj + self.e) * self.wide}] __attribute__((aligned({LINE})));")
        inner.add(f"char *const stage = local + {self.e * self.wide};")
        if self.steps:
            # Long before it is read again, so that the processor need not put it together from stores in flight.
            held = f"memcpy(stage + {self.wide} * c, held + {LINE} * c, {LINE});"
            inner.add(f"if (done != 0) for (ptrdiff_t c = 0; c < n; ++c) {held}")

    def lines(self, inner: Text) -> None:
        """The way out of a row's part of the stage."""
        many = self.plan.lines
        with inner.block("if (off == 0)"):
            for k in range(many):
                inner.add(f"STREAM_LINE(to + done + {LINE * k}, have + {LINE * (k + 1)});")
        with inner.block("else"):
            inner.add(f"if (done != 0) STREAM_LINE(to + done - off, have + {LINE} - off);")
            inner.add(f"else memcpy(to, have + {LINE}, (size_t)({LINE} - off));")
            for k in range(1, many):
                inner.add(f"STREAM_LINE(to + done + {LINE * k} - off, have + {LINE * (k + 1)} - off);")
            inner.add(f"memcpy({'have' if self.single else f'held + {LINE} * c'}, have + {LINE * many}, {LINE});")

    def ends(self, inner: Text, rows: int) -> None:
        """The way out of what is left at the end of a row."""
        if not self.steps:
            inner.add(f"stream_out(to, have + {LINE}, {rows * self.size});")
            return
        inner.add(f"stream_out(to + done - off, have + {LINE} - off, {f'{rows * self.size} + ' if rows else ''}off);")

    def fetch(self, inner: Text) -> None:
        """Ask for the rows of the next tile, some beside each row of this one that leaves."""
        plan = self.plan
        if not plan.fetch:
            return
        each = -(-self.step // plan.tj)
        for k in range(each):
            r = f"{each} * c + {k}" if each > 1 else "c"
            with inner.block(f"if ({r} < {self.step})"):
                inner.add(f"const char *at = next + {f'{self.row} * ({r})' if plan.i.plain else f'next_row[{r}]'};")
                # Of a row that starts within a line, the tile before has read the first one.
                for at in range(LINE - 1, plan.tj * self.size, LINE):
                    inner.add(f"__builtin_prefetch(at + {at});")

    def turns(self, inner: Text, rows: int) -> None:
        """The transposes of a step, into the stage: a band of rows after the other."""
        plan, e, size = self.plan, self.e, self.size
        run = plan.tj * size
        lanes = min(self.machine.vector // 16, max(1, rows // e))
        for first, many, width in runs_of(cover(rows, e, lanes), e):
            with inner.loop("k", many, 0) if many > 1 else inner.block(""):
                base = f"({first} + {width * e} * k)" if many > 1 else f"({first})"
                source, row = (f"s + {product(self.row, base)}", self.row) if plan.i.plain else ("s", f"row + {base}")
                table = not plan.i.plain
                if plan.pack:
                    padded = padded_rows(run)
                    inner.add(f"char pack[{width * e * padded}] __attribute__((aligned({LINE})));")
                    at = f"{source} + {row} * r" if plan.i.plain else f"s + ({row})[r]"
                    with inner.block(f"if (n == {plan.tj})"), inner.loop("r", width * e):
                        emit_copy(inner, f"pack + {padded} * r", at, run, self.machine.vector)
                    with inner.block("else"), inner.loop("r", width * e):
                        # A narrow tile begins with columns of the one before.
                        low = f"(n < {e} ? {size} * (n - {e}) : 0)"
                        copied = f"(size_t)({size} * (n < {e} ? {e} : n))"
                        inner.add(f"memcpy(pack + {padded} * r, {at} + {low}, {copied});")
                    source, row, table = f"pack + {size} * (n < {e} ? {e} - n : 0)", str(padded), False
                block = Block(size, width, table, False, 0, width * e)
                for name, piece in {**block.pieces, block.name: block.text()}.items():
                    inner.pieces.setdefault(name, piece)
                into = f"stage + {self.wide} * at + {LINE} + {size} * {base}"
                with inner.block(f"for (ptrdiff_t c = 0; c < n; c += {e})"):
                    inner.add(f"const ptrdiff_t at = c > n - {e} ? n - {e} : c;")
                    inner.add(f"{block.name}({source} + {size} * at, {row}, {into}, {self.wide});")


def runs_of(parts: list[tuple[int, int]], e: int) -> list[tuple[int, int, int]]:
    """(first row, how many, lanes): blocks of one width that follow each other, together."""
    found: list[tuple[int, int, int]] = []
    for at, lanes in parts:
        if found and found[-1][2] == lanes and at == found[-1][0] + found[-1][1] * lanes * e:
            found[-1] = (found[-1][0], found[-1][1] + 1, lanes)
        else:
            found.append((at, 1, lanes))
    return found
