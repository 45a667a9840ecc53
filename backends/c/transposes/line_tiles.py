"""Prints transposes in tiles of some lines by some lines: each row of the source and of the result is met for several.

    before:  for j: for i: d[j, i] = s[i, j]
    after:   for i0 = 0:I:high * LINE, j0 = 0:J:wide * LINE:
                 for each 8 bytes' worth of rows of s[i0:, j0:j0 + wide * LINE], R of them:
                     prefetch the same rows of the next tile
                     words = their elements interleaved, line by line: R elements of a column side by side, 8 bytes
                 for some columns j of the tile at a time: x[0:8] = 8 lines of words; d[j, i0:i0 + high * LINE] = x[0:8]

The rounds are those of `lines`. Rows begin anywhere: a vector may lie in two lines, which is met again at once.
"""

from __future__ import annotations

from eqsat.backends.c.nest import Level, address, nest, tile_start
from eqsat.backends.c.transposes.lines import WORDS, LinesPrinter, words_name
from eqsat.backends.machine import LINE
from eqsat.backends.schedules.schedule import TILE_I, TILE_J, LineTiles


class LineTilesPrinter(LinesPrinter[LineTiles]):
    """Prints one LineTiles."""

    def print(self) -> None:
        """Loops over planes and tiles, and in them a call of the tile function."""
        schedule, text, size, source, out = self.schedule, self.text, self.size, self.move.operands[0], self.move.out
        i, j, ti, tj = schedule.i, schedule.j, schedule.high * self.line, schedule.wide * self.line
        assert i.size >= ti and j.size >= tj and not self.move.boxed, "a tile exceeds its runs"
        self.define_offsets()
        self.define_lines()
        self.put(schedule.high, self.each(schedule.high, self.plain_store), "", [])
        self.define_tile()
        counts = {TILE_I: -(-i.size // ti), TILE_J: -(-j.size // tj)}
        names = {n: text.name("i") for n in schedule.order}
        levels = [
            Level(names[n], counts[n] if n < 0 else self.move.extents[n], n == schedule.own) for n in schedule.order
        ]
        with nest(text, levels, schedule.threads):
            places: list[str] = []
            for n, extent, tile in ((TILE_I, i.size, ti), (TILE_J, j.size, tj)):
                name = f"t{'ij'[n == TILE_J]}"
                at = tile_start(f"{names[n]} * {tile}", extent, tile) if counts[n] > 1 else "0"
                text.add(f"const ptrdiff_t {name} = {at};")
                places.append(name)
            loops = [n for n in schedule.order if n >= 0 and self.move.extents[n] > 1]
            start = address("s", [(names[n], source.strides[n] * size) for n in loops], source.offset * size)
            end = address("d", [(names[n], out.strides[n] * size) for n in loops], out.offset * size)
            down = "" if not j.single else f" + {self.column} * tj"
            tables = [*self.tables("row", "ti"), *([] if j.single else ["column + tj"])]
            arguments = [f"{start}{self.offset('ti')} + {size} * tj", f"{end}{down} + {size} * ti", *tables]
            text.add(f"{self.name}_tile({', '.join(arguments)});")

    def define_tile(self) -> None:
        """The function that makes a tile."""
        schedule, inner, rows, size = self.schedule, self.text.function(), self.rows, self.size
        groups, single = WORDS * schedule.high, schedule.i.single
        apart = LINE * (groups + 1)
        inner.add("#ifdef EQSAT_VECTORS")
        inner.add(f"char words[{schedule.wide}][{rows * apart}] __attribute__((aligned({LINE})));")
        with inner.loop("g", groups):
            at = f"{self.row} * ({rows} * g + m)" if single else f"row[{rows} * g + m]"
            ahead = LINE * (schedule.wide + 1) - 1
            with inner.loop("m", rows), inner.loop("t", schedule.wide):
                inner.add(f"__builtin_prefetch(s + {at} + {ahead} + {LINE} * t, 0, 2);")
            with inner.loop("t", schedule.wide):
                source = f"s + {LINE} * t"
                source += f" + {self.row} * ({rows} * g), {self.row}" if single else f", row + {rows} * g"
                inner.add(f"{words_name(size, not single, 1)}({source}, words[t] + {LINE} * g, {apart});")
        with inner.loop("t", schedule.wide), inner.loop("k", rows):
            to = f"d + {self.column} * ({self.line} * t)" if schedule.j.single else f"d, column + {self.line} * t"
            inner.add(f"{self.name}_put(words[t] + {apart} * k, (int)k, {to});")
        inner.add("#else")
        inner.add(f"for (ptrdiff_t c = 0; c < {schedule.wide * self.line}; ++c)")
        inner.add(f"    for (ptrdiff_t r = 0; r < {schedule.high * self.line}; ++r)")
        move = f"d + {self.column_at('c')} + {size} * r, s + {self.row_at('r', 'row')} + {size} * c"
        inner.add(f"        memcpy({move}, {size});")
        inner.add("#endif")
        row = [] if single else ["const ptrdiff_t *restrict row"]
        params = ["const char *restrict s", "char *restrict d", *row, *self.column_params]
        head = f"static inline void {self.name}_tile({', '.join(params)})"
        note = f"/* {schedule.high} lines of each row of the result, from {schedule.wide} of each of the source. */"
        self.text.pieces[f"{self.name}_tile"] = "\n".join([note, head, "{", *inner.lines, "}"])
