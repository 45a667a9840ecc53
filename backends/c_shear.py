"""Large transposes past the caches: every row of the result leaves in whole lines, wherever in a line it starts.

A row of the result is filled from left to right, one line's worth of elements at a time. Unless the row starts at a
line, its lines straddle two such steps: `held` keeps, for each row, the step before and the present one side by side,
and the line is read from there at the offset that the row's address has.
"""

from __future__ import annotations

from eqsat.backends.c_copy import emit_copy
from eqsat.backends.c_nest import Level, Text, address, nest
from eqsat.backends.c_tile import TurnPrinter, cover, padded_rows
from eqsat.backends.c_turn import Block
from eqsat.backends.c_vector import stream_pieces
from eqsat.backends.machine import LINE, Machine
from eqsat.backends.moves import Move
from eqsat.backends.schedule import TILE_J, Shear, Turn


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
        self.held = (1 + plan.lines) * LINE
        turn = Turn(plan.i, plan.j, self.step, plan.tj, plan.order)
        self.turn = TurnPrinter(text, move, turn, machine, name)
        i, j = plan.i.loops[0], plan.j.loops[0]
        self.row = str(move.operands[0].strides[i] * self.size) if plan.i.plain else "row"
        self.column = str(move.out.strides[j] * self.size) if plan.j.plain else "column"
        self.rest = plan.i.size % self.step
        """Rows of the source behind the last whole step."""

    def print(self) -> None:
        """Loops, blocks of j, and in them steps along i over all columns of the block."""
        plan, text, size = self.plan, self.text, self.size
        source, out = self.move.operands[0], self.move.out
        if not plan.i.plain:
            self.turn.table(plan.i, source, "row")
        if not plan.j.plain:
            self.turn.table(plan.j, out, "column")
        widest = -(-plan.j.size // plan.blocks) + self.e
        text.add(f"char held[{widest * self.held}] __attribute__((aligned({LINE}))); /* {self.held} bytes a row */")
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
            steps = plan.i.size // self.step
            if steps:
                columns = text.block(f"for (ptrdiff_t c = 0; c < {width}; c += {plan.tj})")
                with text.loop("t", steps), columns:
                    text.add(f"const ptrdiff_t n = {width} - c < {plan.tj} ? {width} - c : {plan.tj};")
                    self.call("lines", "t", "c", first, f"{LINE * plan.lines} * t")
            with text.block(f"for (ptrdiff_t c = 0; c < {width}; c += {plan.tj})"):
                text.add(f"const ptrdiff_t n = {width} - c < {plan.tj} ? {width} - c : {plan.tj};")
                self.call("ends", str(steps), "c", first, str(LINE * plan.lines * steps))

    def call(self, what: str, t: str, c: str, first: str, done: str) -> None:
        """A call for some columns of one step."""
        plan, size = self.plan, self.size
        down = f" + {self.row} * {self.step} * {t}" if plan.i.plain else ""
        arguments = [f"sb{down} + {size} * {c}"]
        if not plan.i.plain:
            arguments.append(f"row + {self.step} * {t}")
        arguments.append(f"db + {self.column} * {c}" if plan.j.plain else "db")
        if not plan.j.plain:
            arguments.append(f"column + {c}" if first == "0" else f"column + {first} + {c}")
        self.text.add(f"{self.name}_{what}({', '.join([*arguments, f'held + {self.held} * {c}', 'n', done])});")

    def define_lines(self) -> None:
        """The function for one step, and the one for what is left at the end of the rows."""
        plan = self.plan
        self.text.pieces["stream"] = stream_pieces(self.machine.vector)
        params = ["const char *restrict s"]
        params += [] if plan.i.plain else ["const ptrdiff_t *restrict row"]
        params += ["char *restrict d"]
        params += [] if plan.j.plain else ["const ptrdiff_t *restrict column"]
        params += ["char *restrict held", "ptrdiff_t n", "ptrdiff_t done"]
        to = f"d + {self.column} * c" if plan.j.plain else "d + column[c]"
        for what in ("lines", "ends"):
            inner = Text(pieces=self.text.pieces)
            rows = self.step if what == "lines" else self.rest
            if rows:
                self.turns(inner, rows, what == "lines")
            elif plan.i.plain:
                inner.add("(void)s;")
            else:
                inner.add("(void)s, (void)row;")
            with inner.block("for (ptrdiff_t c = 0; c < n; ++c)"):
                inner.add(f"char *to = {to}, *have = held + {self.held} * c;")
                inner.add(f"const ptrdiff_t off = (ptrdiff_t)((uintptr_t)to & {LINE - 1});")
                if what == "lines":
                    inner.add(f"if (done != 0 || off == 0) STREAM_LINE(to + done - off, have + {LINE} - off);")
                    inner.add(f"else memcpy(to, have + {LINE}, (size_t)({LINE} - off));")
                    for k in range(1, plan.lines):
                        at = f"{LINE * k} - off"
                        inner.add(f"STREAM_LINE(to + done + {at}, have + {LINE} + {at});")
                    inner.add(f"if (off != 0) memcpy(have, have + {LINE * plan.lines}, {LINE});")
                else:
                    left = f"{rows * self.size} + off" if rows else "off"
                    inner.add(f"memcpy(to + done - off, have + {LINE} - off, (size_t)({left}));")
            note = "Some lines of each row." if what == "lines" else "The ends of the rows."
            head = f"static inline void {self.name}_{what}({', '.join(params)})"
            self.text.pieces[f"{self.name}_{what}"] = "\n".join([f"/* {note} */", head, "{", *inner.lines, "}"])

    def turns(self, inner: Text, rows: int, whole: bool) -> None:
        """The transposes of a step, into the present half of what is held."""
        plan, e, size = self.plan, self.e, self.size
        source, row = "s", self.row
        run = plan.tj * size
        if plan.fetch and whole:
            at = f"s + {row} * r" if plan.i.plain else "s + row[r]"
            with inner.loop("r", rows):
                inner.add(f"__builtin_prefetch({at} + {plan.fetch});")
        pack = plan.pack and whole and plan.j.size % e == 0
        if pack:
            width = padded_rows(run)
            inner.add(f"char pack[{rows} * {width}] __attribute__((aligned({LINE})));")
            at = f"s + {row} * r" if plan.i.plain else "s + row[r]"
            with inner.loop("r", rows):
                with inner.block(f"if (n == {plan.tj})"):
                    emit_copy(inner, f"pack + {width} * r", at, run, self.machine.vector)
                with inner.block("else"):
                    inner.add(f"memcpy(pack + {width} * r, {at}, (size_t)({size} * n));")
            source, row = "pack", str(width)
        row_table = not plan.i.plain and not pack
        lanes = min(self.machine.vector // 16, max(1, rows // e))
        parts = cover(rows, e, lanes)
        with inner.block(f"for (ptrdiff_t c = 0; c < n; c += {e})"):
            inner.add(f"const ptrdiff_t at = c > n - {e} ? n - {e} : c;")
            for first, width in parts:
                block = Block(size, width, row_table, False, 0, width * e)
                for name, piece in {**block.pieces, block.name: block.text()}.items():
                    inner.pieces.setdefault(name, piece)
                s = f"{source} + {size} * at"
                d = f"held + {self.held} * at + {LINE + size * first}"
                if row_table:
                    inner.add(f"{block.name}({s}, row{signed(first)}, {d}, {self.held});")
                else:
                    moved = f" + {row} * ({first})" if first else ""
                    inner.add(f"{block.name}({s}{moved}, {row}, {d}, {self.held});")


def signed(number: int) -> str:
    """A number as a summand: + n, - n or nothing."""
    return "" if number == 0 else f" {'-' if number < 0 else '+'} {abs(number)}"
