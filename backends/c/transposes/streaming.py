"""Prints transposes that write each row of the result in whole cache lines, by non-temporal stores.

    before:  for j: for i: d[j, i] = s[i, j]
    after:   for i0 = 0:I:step:                                       # step: `lines` cache lines' worth of elements
                 for j0 by tj: stage[j, LINE:] = transpose s[i0:i0 + step, j0:j0 + tj], block by block, after each:
                     for some j of the tile before: prefetch rows of a later tile
                         whole lines of d[j] <-nt- held[j], its stage[j]; held[j] = what is left of its stage[j]

A row of the result is written from its start to its end. Unless it starts at a line, its lines straddle two steps over
i: `held` keeps the end of the previous step for each row, less than a line.

Interleaved, two stages take turns: the lines of a tile leave while the next one is transposed. Each of these stores
takes several cycles to leave its buffer, and where that is full nothing else goes on: so they are spread between the
shuffles. Otherwise a tile leaves once it is transposed; and if that is a line of each row, it is transposed to where
rows are held, side by side with what is left of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.backends.c.copy_fill import define_nt_copy, emit_copy
from eqsat.backends.c.nest import Level, SchedulePrinter, Text, address, nest, product
from eqsat.backends.c.transposes.block import Block
from eqsat.backends.c.transposes.tiles import cover, define_offsets, padded_rows
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import BLOCK, LINE, Machine
from eqsat.backends.schedules.schedule import TILE_J, StreamingTranspose
from eqsat.backends.schedules.transpose import BLOCKS_PER_THREAD

NOT_INLINE = """#ifdef __GNUC__
#define NOT_INLINE __attribute__((noinline))
#else
#define NOT_INLINE
#endif"""


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
        self.in_place = schedule.lines == 1 and not schedule.interleaved
        """Whether rows are transposed to where they are held."""
        self.wide = 2 * LINE if self.in_place else padded_rows((1 + schedule.lines) * LINE)
        """Bytes between rows of a stage, each of which has a line to spare in front."""
        self.held_row = self.wide if self.in_place else LINE
        # Rows before the first of a stage are those that a narrow last tile transposes once more.
        self.first_row = self.e * self.wide
        self.stage_bytes = self.first_row + schedule.tj * self.wide
        i, j = schedule.i.loops[0], schedule.j.loops[0]
        self.row = str(move.operands[0].strides[i] * self.size) if schedule.i.single else "row"
        self.column = str(move.out.strides[j] * self.size) if schedule.j.single else "column"
        self.steps, self.rest = divmod(schedule.i.size, self.step)
        """Whole steps along the rows of the result, and source rows behind the last one."""
        self.next_params = ["const char *next"] if schedule.prefetch_tiles else []
        if schedule.prefetch_tiles and not schedule.i.single:
            self.next_params.append("const ptrdiff_t *next_row")

    # -- the loops

    def print(self) -> None:
        """Loops, blocks of j, and in them steps along i over all columns of the block."""
        schedule, text, size = self.schedule, self.text, self.size
        source, out = self.move.operands[0], self.move.out
        if not schedule.i.single:
            define_offsets(text, self.move, schedule.i, source, "row")
        if not schedule.j.single:
            define_offsets(text, self.move, schedule.j, out, "column")
        self.define_functions()
        widest = -(-schedule.j.size // schedule.blocks) + self.e
        text.add(f"char held[{widest * self.held_row}] __attribute__((aligned({LINE})));")
        if not self.in_place:
            turns = 2 if self.steps and schedule.interleaved else 1
            text.add(f"char stages[{turns * self.stage_bytes}] __attribute__((aligned({LINE})));")
        names = {n: text.name("i") for n in schedule.order}
        levels = [Level(names[n], schedule.blocks if n == TILE_J else self.move.extents[n]) for n in schedule.order]
        with nest(text, levels, schedule.threads, BLOCKS_PER_THREAD):
            loops = [n for n in schedule.order if n != TILE_J]
            start = address("s", [(names[n], source.strides[n] * size) for n in loops], source.offset * size)
            end = address("d", [(names[n], out.strides[n] * size) for n in loops], out.offset * size)
            first, width = "0", str(schedule.j.size)
            if schedule.blocks > 1:
                first, width = self.part(names[TILE_J])
            shift = "" if first == "0" else f" + {size} * first"
            text.add(f"const char *const sb = {start}{shift};")
            down = "" if first == "0" or not schedule.j.single else f" + {self.column} * first"
            text.add(f"char *const db = {end}{down};")
            self.walk(first, width, loops)

    def part(self, b: str) -> tuple[str, str]:
        """The first column and the width of part b of j: all but the last a multiple of e."""
        total, blocks = self.schedule.j.size, self.schedule.blocks
        part = f"/ {blocks}" if total % self.e else f"* {total // self.e} / {blocks} * {self.e}"
        part = f"* {total} {part}" if total % self.e else part
        self.text.add(f"const ptrdiff_t first = {b} {part};")
        self.text.add(f"const ptrdiff_t width = ({b} + 1) {part} - first;")
        return "first", "width"

    def walk(self, first: str, width: str, loops: list[int]) -> None:
        """The steps over i, each of them tile by tile along j; then the ends of all rows."""
        schedule, text = self.schedule, self.text
        columns = f"for (ptrdiff_t c = 0; c < {width}; c += {schedule.tj})"
        count = f"const ptrdiff_t n = {width} - c < {schedule.tj} ? {width} - c : {schedule.tj};"
        begin = f".stage = stages + {self.first_row}"
        text.add(f"{self.tile} now{'' if self.in_place else f' = {{{begin}}}'};")
        if self.steps:
            if schedule.interleaved:
                text.add(f"{self.tile} was = {{{begin} + {self.stage_bytes}}};")
            with text.loop("t", self.steps), text.block(columns):
                text.add(count)
                following = self.next(width, loops)
                self.place(first, f"{LINE * schedule.lines} * t")
                self.call("lines", "t", ["&now", *(["&was"] if schedule.interleaved else []), *following])
                if schedule.interleaved:
                    text.add("char *const free = was.stage;")
                    text.add("was = now, now.stage = free;")
            if schedule.interleaved:
                again = ["sb", *(["row"] if len(self.next_params) > 1 else [])] if self.next_params else []
                text.add(f"{self.name}_rest({', '.join(['&was', '0', *again])});")
        with text.block(columns):
            text.add(count)
            self.place(first, str(LINE * schedule.lines * self.steps))
            self.call("ends", str(self.steps), ["&now"])

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

    def place(self, first: str, done: str) -> None:
        """Say where the tile at column c goes, of whose rows so many bytes are done."""
        to = f"db + {self.column} * c" if self.schedule.j.single else "db"
        where = f"now.{'stage' if self.in_place else 'held'} = held + {self.held_row} * c"
        parts = [f"now.d = {to}", where, "now.n = n", f"now.done = {done}"]
        if not self.schedule.j.single:
            parts.append(f"now.column = column + {'c' if first == '0' else f'{first} + c'}")
        self.text.add(f"{', '.join(parts)};")

    def call(self, what: str, t: str, rest: list[str]) -> None:
        """A call for some columns of one step."""
        down = f" + {product(self.row, self.step, t)}" if self.schedule.i.single else ""
        rows = [] if self.schedule.i.single else [f"row + {product(self.step, t)}"]
        self.text.add(f"{self.name}_{what}({', '.join([f'sb{down} + {self.size} * c', *rows, *rest])});")

    # -- the functions

    @property
    def tile(self) -> str:
        """The type of a tile."""
        return f"struct {self.name}_tile"

    def define_functions(self) -> None:
        """What a tile is, and the functions that fill its stage, empty it, and write the ends of the rows."""
        column = [] if self.schedule.j.single else ["const ptrdiff_t *column;"]
        buffers = "char *stage;" if self.in_place else "char *stage, *held;"
        members = " ".join(["char *d;", *column, buffers, "ptrdiff_t n, done;"])
        self.text.pieces[f"{self.name}_tile"] = (
            "/* Rows of the result from d on, their part in a stage, the ends of what is done of them. */\n"
            f"{self.tile} {{ {members} }};"
        )
        define_nt_copy(self.text, self.vector)
        rows = [] if self.schedule.i.single else ["const ptrdiff_t *restrict row"]
        source = ["const char *restrict s", *rows]
        if self.steps:
            inner = self.begin("tile")
            if not self.in_place:
                inner.add("char *const held = tile->held;")
            with inner.block("for (ptrdiff_t c = first; c < last && c < tile->n; ++c)"):
                self.addresses(inner, "tile")
                self.prefetch(inner)
                self.lines(inner)
            params = [f"const {self.tile} *tile", "ptrdiff_t first", "ptrdiff_t last", *self.next_params]
            self.function("put", "Whole lines of some rows of a tile leave.", params, inner)
            if self.schedule.interleaved:
                self.define_rest()
            inner = self.filling()
            was, note = [], "Some lines of each row."
            if self.schedule.interleaved:
                was, note = [f"{self.tile} *was"], "Some lines of each row, while those of the tile before leave."
            self.function("lines", note, [*source, f"const {self.tile} *now", *was, *self.next_params], inner)
        inner = self.begin("now")
        if self.rest or not self.in_place:
            inner.add("char *const stage = now->stage;")
        inner.add("const ptrdiff_t n = now->n;")
        if self.steps:
            self.from_held(inner)
        if self.rest:
            self.transposes(inner, self.rest)
        else:
            inner.add("(void)s;" if self.schedule.i.single else "(void)s, (void)row;")
        with inner.block("for (ptrdiff_t c = 0; c < n; ++c)"):
            self.addresses(inner, "now")
            self.ends(inner)
        self.function("ends", "The ends of the rows.", [*source, f"const {self.tile} *now"], inner)

    def define_rest(self) -> None:
        """`put` as a call, for all places but the one between blocks: compilers need not make as many copies of it."""
        self.text.pieces["NOT_INLINE"] = NOT_INLINE
        inner = self.text.function()
        inner.add(f"{self.name}_put(tile, first, tile->n{self.passed});")
        params = [f"const {self.tile} *tile", "ptrdiff_t first", *self.next_params]
        self.function("rest", "All rows of a tile leave, from one on.", params, inner, "NOT_INLINE static")

    def function(self, what: str, note: str, params: Sequence[str], inner: Text, kind: str = "static inline") -> None:
        """Add a function, of which `inner` has the lines."""
        head = f"{kind} void {self.name}_{what}({', '.join(params)})"
        self.text.pieces[f"{self.name}_{what}"] = "\n".join([f"/* {note} */", head, "{", *inner.lines, "}"])

    @property
    def passed(self) -> str:
        """The arguments for `next_params`, in a function that has parameters of these names."""
        return "".join(f", {param.rpartition(' ')[2].lstrip('*')}" for param in self.next_params)

    def begin(self, tile: str) -> Text:
        """The lines of a function that begins with names for the members of a tile."""
        inner = self.text.function()
        inner.add(f"char *const d = {tile}->d;")
        if self.steps:
            inner.add(f"const ptrdiff_t done = {tile}->done;")
        if not self.schedule.j.single:
            inner.add(f"const ptrdiff_t *const column = {tile}->column;")
        return inner

    def addresses(self, inner: Text, tile: str) -> None:
        """Where row c of a tile goes, where it is, and how far behind the start of a line it goes."""
        to = f"d + {self.column} * c" if self.schedule.j.single else "d + column[c]"
        inner.add(f"char *to = {to}, *have = {tile}->stage + {self.wide} * c;")
        if self.steps:
            inner.add(f"const ptrdiff_t off = (ptrdiff_t)((uintptr_t)to & {LINE - 1});")

    def filling(self) -> Text:
        """The lines of the function that fills the stage of one tile, and empties it or that of the one before."""
        schedule, inner, passed = self.schedule, self.text.function(), self.passed
        if schedule.interleaved:
            # The same rows once more: what is left of them must be in `held` first.
            inner.add(f"if (was->held == now->held) {self.name}_rest(was, 0{passed}), was->n = 0;")
        inner.add("char *const stage = now->stage;")
        inner.add("const ptrdiff_t n = now->n;")
        self.from_held(inner)
        if not schedule.interleaved:
            self.transposes(inner, self.step)
            inner.add(f"{self.name}_put(now, 0, n{passed});")
            return inner
        inner.add("ptrdiff_t put = 0;")
        blocks = sum(many for _, many, _ in self.bands(self.step)) * -(-schedule.tj // self.e)
        share = -(-schedule.tj // blocks)
        self.transposes(inner, self.step, f"{self.name}_put(was, put, put + {share}{passed}), put += {share};")
        inner.add(f"{self.name}_rest(was, put{passed});")
        return inner

    def from_held(self, inner: Text) -> None:
        """The end of the step before in front of each row of the stage, unless all rows begin at a line: long before it
        is read again, for a load of what is still in the store buffer, in parts, would wait."""
        if self.in_place:
            return
        together = self.schedule.j.single and int(self.column) % LINE == 0
        some = f"now->done != 0 && ((uintptr_t)now->d & {LINE - 1}) != 0" if together else "now->done != 0"
        each = f"memcpy(stage + {self.wide} * c, now->held + {LINE} * c, {LINE});"
        inner.add(f"if ({some}) for (ptrdiff_t c = 0; c < n; ++c) {each}")

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
            left = "have" if self.in_place else f"held + {LINE} * c"
            inner.add(f"memcpy({left}, have + {LINE * many}, {LINE});")

    def ends(self, inner: Text) -> None:
        """Stores of what is left at the end of a row."""
        rest = self.rest * self.size
        if not self.steps:
            inner.add(f"nt_copy(to, have + {LINE}, {rest});")
            return
        inner.add(f"nt_copy(to + done - off, have + {LINE} - off, {f'{rest} + ' if rest else ''}off);")

    def prefetch(self, inner: Text) -> None:
        """Prefetch a later tile, some of its rows beside each row of a tile that leaves."""
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
                # Where a row starts within a line, the previous tile has read that line. Rows that alias would not stay
                # in the first cache.
                for at in range(LINE - 1, max(schedule.tj * self.size, LINE), LINE):
                    inner.add(f"__builtin_prefetch(at + {at}, 0, {2 if schedule.interleaved else 3});")

    def bands(self, rows: int) -> list[tuple[int, int, int]]:
        """(first row, how many, lanes) of the bands that so many rows of a tile are transposed in."""
        lanes = min(self.vector // BLOCK, max(1, rows // self.e))
        return equal_blocks(cover(rows, self.e, lanes), self.e)

    def transposes(self, inner: Text, rows: int, after: str = "") -> None:
        """The transposes of a step, into the stage: a band of rows after the other; `after` follows each block."""
        schedule, e, size = self.schedule, self.e, self.size
        run = schedule.tj * size
        for first, many, width in self.bands(rows):
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
                    if after:
                        inner.add(after)


def equal_blocks(parts: list[tuple[int, int]], e: int) -> list[tuple[int, int, int]]:
    """(first row, how many, lanes): blocks of one width that follow each other, as one loop."""
    found: list[tuple[int, int, int]] = []
    for at, lanes in parts:
        if found and found[-1][2] == lanes and at == found[-1][0] + found[-1][1] * lanes * e:
            found[-1] = (found[-1][0], found[-1][1] + 1, lanes)
        else:
            found.append((at, 1, lanes))
    return found
