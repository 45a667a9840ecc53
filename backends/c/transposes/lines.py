"""Prints transposes that read whole lines of the source and write whole lines of the result, each of them once.

    before:  for j: for i: d[j, i] = s[i, j]
    after:   for each part of j, i0 = 0:I:lines * LINE:
                 for j0 in the part by LINE:
                     for each 8 bytes' worth of rows of s[i0:, j0:j0 + LINE], R of them:
                         words[now] = their elements interleaved: R elements of a column side by side, 8 bytes
                         prefetch the rows of a later tile
                         for some columns j of the tile before: x[0:8] = 8 lines of words[before]; d[j, i0:] <-nt- x

Three rounds interleave bytes to words of 8 bytes, two rounds elements of 2 bytes, one those of 4; three more turn eight
lines of words, one for each R rows, into eight lines of the result (two rounds four lines into parts of lines, where
vectors have 32 bytes). Two arrays of words take turns: each non-temporal store takes some cycles to leave its buffer,
and where that is full nothing else goes on; so the lines of a tile leave between the shuffles of the next.

Rows of the source of a half or a quarter of a line are read as `pieces` of one: of the rows of as many strips.

Rows of the result are all as far from a line (`lead`). Where they begin and end within one, a line's worth there is
written by plain stores, wherever it lies, over what its neighbours write too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from eqsat.backends.c.copy_fill import define_nt_copy
from eqsat.backends.c.nest import PAGE, Level, SchedulePrinter, Text, address, nest, product, tile_start
from eqsat.backends.c.transposes.tiles import define_offsets
from eqsat.backends.c.vector import define_interleave, define_type, vector_type
from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import BLOCK, LINE, Machine
from eqsat.backends.schedules.schedule import TILE_I, TILE_J, LineTiles, LineTranspose

WORD = 8
"""Bytes of a word."""
WORDS = LINE // WORD
"""Words of a line: as many lines of words become as many lines of the result."""

ALIGNED = 8
"""Lines of rows of the source from which on tiles begin at a line, which makes one tile more. Measured."""


def define_put(width: int) -> str:
    """PUT: a vector of u64 that leaves by a non-temporal store, where there is one."""
    vector = vector_type(width, WORD)
    lines = [
        "#ifdef NT_STORE",
        "#define PUT(d, v) NT_STORE(d, (nt_line)(v))",
        "#else",
        f"#define PUT(d, v) (*({vector} *)(d) = (v))",
        "#endif",
    ]
    return "\n".join(lines)


def halves(name: str, places: Sequence[int]) -> str:
    """A macro that takes 16 bytes each from two vectors: from places of the first, then of the second."""
    words = [f"{2 * p + k}" for p in places for k in (0, 1)]
    return f"#define {name}(a, b) __builtin_shufflevector(a, b, {', '.join(words)})"


def lines_of_words(width: int) -> str:
    """The function that transposes words: as many lines at p as a vector has words, of each the words of one vector."""
    vector, count = vector_type(width, WORD), width // WORD
    lines = [
        f"/* The first {count} words of {count} lines at p become x: the first word of all lines, the second, ... */",
        f"static inline void lines_of_words(const char *restrict p, {vector} *restrict x)",
        "{",
        f"    {vector} y[{count}];",
        f"    for (int g = 0; g < {count}; ++g) x[g] = *(const {vector} *)(p + {LINE} * g);",
        f"    for (int g = 0; g < {count // 2}; ++g) {{",
        f"        y[g] = LOW_{vector}(x[2 * g], x[2 * g + 1]);",
        f"        y[{count // 2} + g] = HIGH_{vector}(x[2 * g], x[2 * g + 1]);",
        "    }",
    ]
    if width == LINE:
        macros = [("FRONTS", (0, 1, 4, 5)), ("BACKS", (2, 3, 6, 7)), ("EVENS", (0, 2, 4, 6)), ("ODDS", (1, 3, 5, 7))]
        lines += [
            "    for (int h = 0; h < 2; ++h) {",
            f"        const {vector} *z = y + 4 * h;",
            f"        const {vector} a = FRONTS(z[0], z[1]), b = BACKS(z[0], z[1]);",
            f"        const {vector} c = FRONTS(z[2], z[3]), e = BACKS(z[2], z[3]);",
            "        x[h] = EVENS(a, c), x[2 + h] = ODDS(a, c), x[4 + h] = EVENS(b, e), x[6 + h] = ODDS(b, e);",
            "    }",
        ]
    else:
        macros = [("FRONTS", (0, 2)), ("BACKS", (1, 3))]
        lines.append(
            "    for (int h = 0; h < 2; ++h) x[h] = FRONTS(y[2 * h], y[2 * h + 1]), "
            "x[2 + h] = BACKS(y[2 * h], y[2 * h + 1]);"
        )
    return "\n".join(["#ifdef EQSAT_VECTORS", *(halves(*macro) for macro in macros), *lines, "}", "#endif"])


def words_of_rows(size: int, width: int, table: bool, pieces: int) -> str:
    """The function that interleaves a line of each of R rows, of elements of `size` bytes, to R lines of words.

    A line may be put together of pieces, as far apart as the function is told.
    """
    rows, vector = WORD // size, vector_type(width, size)
    row = "s + row[m]" if table else "s + row * m"
    kind = "const ptrdiff_t *restrict row" if table else "ptrdiff_t row"
    params = ["const char *restrict s", kind, "char *restrict words", "int apart"]
    params += ["ptrdiff_t piece"] if pieces > 1 else []
    lines = [
        f"/* A line of each of {rows} rows at s becomes {rows} lines of words, of {rows} elements of a column each. */",
        f"static inline void {words_name(size, table, pieces)}({', '.join(params)})",
        "{",
        f"    {vector} x[{rows}]{f', y[{rows}]' if rows > 1 else ''};",
    ]
    long = min(width, LINE // pieces)
    for part in range(0, LINE, width):
        loads: list[str] = []
        for at in range(part, part + width, long):
            piece, within = divmod(at, LINE // pieces)
            far = f"{f' + {piece} * piece' if piece else ''}{f' + {within}' if within else ''}"
            loads.append(f"*(const {vector_type(long, size)} *)({row}{far})")
        lines.append(f"    for (int m = 0; m < {rows}; ++m) x[m] = {joined(loads, long // size)};")
        now, after, half = "x", "y", rows // 2
        for _ in range(rows.bit_length() - 1):
            pair = f"{now}[m], {now}[m + {half}]"
            body = f"{after}[2 * m] = LOW_{vector}({pair}), {after}[2 * m + 1] = HIGH_{vector}({pair});"
            lines.append(f"    for (int m = 0; m < {half}; ++m) {body}")
            now, after = after, now
        to = f"words + apart * m{f' + {part}' if part else ''}"
        lines.append(f"    for (int m = 0; m < {rows}; ++m) *({vector} *)({to}) = {now}[m];")
    return "\n".join(["#ifdef EQSAT_VECTORS", *lines, "}", "#endif"])


def joined(parts: Sequence[str], count: int) -> str:
    """Vectors of so many elements side by side, a power of two of them.

    >>> joined(["a", "b"], 2)
    '__builtin_shufflevector(a, b, 0, 1, 2, 3)'
    """
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    sides = ", ".join(joined(x, count) for x in (parts[:half], parts[half:]))
    return f"__builtin_shufflevector({sides}, {', '.join(map(str, range(len(parts) * count)))})"


def words_name(size: int, table: bool, pieces: int) -> str:
    """The name of that function."""
    return f"words_of{'' if pieces == 1 else f'_{pieces}th'}_rows{'r' if table else ''}_u{8 * size}"


S = TypeVar("S", LineTranspose, LineTiles)


class LinesPrinter(SchedulePrinter[S]):
    """What prints transposes of lines to lines has in common."""

    def __init__(
        self, text: Text, move: Move, schedule: S, machine: Machine, name: str, buffers: Mapping[str, str]
    ) -> None:
        super().__init__(text, move, schedule, machine, name, buffers)
        self.pieces: int = max(1, LINE // (schedule.j.size * self.size))
        """Rows of the source that make a line together."""
        assert self.size <= WORD and schedule.j.size * self.size * self.pieces >= LINE
        self.width = min(self.vector, LINE)
        """Bytes of the vectors, two or four times 16."""
        self.line = LINE // self.size
        """Elements of a line: columns of a tile."""
        self.rows = WORD // self.size
        """Rows that are interleaved to words: R."""
        self.row = str(move.operands[0].strides[schedule.i.loops[0]] * self.size) if schedule.i.single else "row"
        self.column = str(move.out.strides[schedule.j.loops[0]] * self.size) if schedule.j.single else "column"

    def define_offsets(self) -> None:
        """The tables of the rows of the source and of the result, where they have no common stride."""
        if not self.schedule.i.single:
            define_offsets(self.text, self.move, self.schedule.i, self.move.operands[0], "row")
        if not self.schedule.j.single:
            define_offsets(self.text, self.move, self.schedule.j, self.move.out, "column")

    def offset(self, at: str) -> str:
        """The offset of row `at`, where rows have one stride."""
        return f" + {product(self.row, at)}" if self.schedule.i.single and at != "0" else ""

    def tables(self, name: str, at: str) -> list[str]:
        """The argument for the table of rows from `at` on, where there is one."""
        return [] if self.schedule.i.single else [f"{name} + {at}"]

    @property
    def column_params(self) -> list[str]:
        """The parameter for the table of columns, where there is one."""
        return [] if self.schedule.j.single else ["const ptrdiff_t *restrict column"]

    def column_at(self, c: str) -> str:
        """The offset of row `c` of the result."""
        return f"{self.column} * {c}" if self.schedule.j.single else f"column[{c}]"

    def row_at(self, r: str, table: str) -> str:
        """The offset of row `r` of the source."""
        return f"{self.row} * {r}" if self.schedule.i.single else f"{table}[{r}]"

    def rows_from(self, rows: int, apart: int) -> str:
        """The arguments for group g of so many rows, from column c on."""
        at = f"s + {self.size} * c"
        source = (
            f"{at} + {self.row} * ({rows} * g), {self.row}" if self.schedule.i.single else f"{at}, row + {rows} * g"
        )
        return f"{source}, now + {LINE} * g, {apart}"

    def define_lines(self) -> None:
        """The types, and the functions that make words of rows and lines of words."""
        pieces, table = self.text.pieces, not self.schedule.i.single
        small = min(self.width, LINE // self.pieces)
        pieces.setdefault(f"type {small} {self.size}", define_type(small, self.size))
        for size in dict.fromkeys((self.size, WORD)):
            pieces.setdefault(f"type {self.width} {size}", define_type(self.width, size))
            pieces.setdefault(f"interleave {self.width} {size}", define_interleave(self.width, size))
        pieces.setdefault("lines_of_words", lines_of_words(self.width))
        fold = words_of_rows(self.size, self.width, table, self.pieces)
        pieces.setdefault(words_name(self.size, table, self.pieces), fold)

    @property
    def plain_store(self) -> str:
        """The statement that stores vector n of column c, where it lies."""
        return f"*({vector_type(self.width, WORD)} *)(to + {{0}}) = x[{{1}}][n];"

    def each(self, lines: int, store: str) -> list[str]:
        """Such a statement for each vector of some lines of a column."""
        return [store.format(self.width * n, n) for n in range(lines * LINE // self.width)]

    def put(self, lines: int, stores: Sequence[str], name: str, extra: Sequence[str]) -> None:
        """The function that writes a line or more of each of eight columns, from words: of each by `stores`."""
        inner, width, words = self.text.function(), self.width, self.width // WORD
        vectors = lines * LINE // width
        inner.add(f"{vector_type(width, WORD)} x[{vectors}][{words}];")
        for part in range(LINE // width):
            at = f" + {width * part}" if part else ""
            for n in range(vectors):
                inner.add(f"lines_of_words(words + {LINE * words * n}{at}, x[{n}]);")
            with inner.block(f"for (int n = 0; n < {words}; ++n)"):
                lane = f"{width // BLOCK * part} + n / 2" if part else "n / 2"
                inner.add(f"const ptrdiff_t c = {BLOCK // self.size} * ({lane}) + 2 * k + n % 2;")
                if self.pieces == 1:
                    inner.add(f"char *const to = d + {self.column_at('c')};")
                else:
                    columns, beside = self.schedule.j.size, 0 if name else LINE * lines
                    inner.add(
                        f"char *const to = d + {self.column_at(f'(c % {columns})')} + {beside} * (c / {columns});"
                    )
                for store in stores:
                    inner.add(store)
        params = ["const char *restrict words", "int k", "char *restrict d", *self.column_params, *extra]
        note = f"/* Columns 2 k, 2 k + 1 of each {BLOCK // self.size} of a tile: words become lines of the result. */"
        head = f"static inline void {self.name}_{name}put({', '.join(params)})"
        body = [note, head, "{", *inner.lines, "}"]
        self.text.pieces[f"{self.name}_{name}put"] = "\n".join(["#ifdef EQSAT_VECTORS", *body, "#endif"])


def half_a_page_apart(nbytes: int) -> int:
    """At least so many bytes, such that what follows lies half a page further on within its page.

    A processor takes a load for one of what was just stored as far from the beginning of another page, and waits.

    >>> half_a_page_apart(2048), half_a_page_apart(4224), half_a_page_apart(6144)
    (2048, 6144, 6144)
    """
    return nbytes + (PAGE // 2 - nbytes) % PAGE


class LineTransposePrinter(LinesPrinter[LineTranspose]):
    """Prints one LineTranspose."""

    strip_kind = "static inline"
    """How the functions that make strips are declared."""

    @property
    def columns(self) -> int:
        """Columns of the source that a strip goes along: all, or those of a part."""
        return self.schedule.part or self.schedule.j.size

    def print(self) -> None:
        """Loops over planes and strips of lines of the result; a strip goes along the rows of the source."""
        schedule, text, size, line, lines = self.schedule, self.text, self.size, self.line, self.schedule.lines
        self.define_offsets()
        self.define_functions()
        total = schedule.i.size
        high = lines * self.pieces
        counts = {TILE_I: -(-(total // line) // high), TILE_J: -(-schedule.j.size // self.columns)}
        strips = counts[TILE_I]
        names = {n: text.name("i") for n in schedule.order}
        levels = [Level(names[n], counts[n] if n < 0 else self.move.extents[n]) for n in schedule.order]
        with nest(text, levels, schedule.threads):
            loops = self.begin(names, counts[TILE_J])
            text.add(f"const ptrdiff_t lead = (ptrdiff_t)(-(uintptr_t)db & {LINE - 1}) / {size};")
            text.add(f"const ptrdiff_t lines = ({total} - lead) / {line}, t = {names[TILE_I] if strips > 1 else '0'};")
            text.add(f"const ptrdiff_t first = lead + {high * line} * t;")
            with text.block(f"if ({high} * (t + 1) <= lines)"):
                self.call("strip", "first", self.following(high, loops))
            with text.block("else"):
                head = f"for (ptrdiff_t k = {high} * t; k < {high} * (t + 1) && k < lines; ++k)"
                with text.block(head):
                    text.add(f"const ptrdiff_t at = lead + {line} * k;")
                    self.call("edge", "at", ["1"])
            with text.block("if (t == 0 && lead != 0)"):
                self.call("edge", "0", ["0"])
            with text.block(f"if (t == {strips - 1} && lead + {line} * lines < {total})"):
                self.call("edge", str(total - line), ["0"])

    def begin(self, names: Mapping[int, str], parts: int) -> list[int]:
        """Say where the rows of a plane begin, or of a part of one, on either side; the loops over planes."""
        schedule, text, size = self.schedule, self.text, self.size
        source, out = self.move.operands[0], self.move.out
        loops = [n for n in schedule.order if n >= 0]
        start = address("s", [(names[n], source.strides[n] * size) for n in loops], source.offset * size)
        end = address("d", [(names[n], out.strides[n] * size) for n in loops], out.offset * size)
        if parts > 1:
            at = tile_start(f"{names[TILE_J]} * {self.columns}", schedule.j.size, self.columns)
            text.add(f"const ptrdiff_t from = {at};")
            start += f" + {size} * from"
            end += f" + {product(self.column, 'from')}" if schedule.j.single else ""
        text.add(f"const char *const sb = {start};")
        text.add(f"char *const db = {end};")
        return loops

    def following(self, high: int, loops: Sequence[int]) -> list[str]:
        """Where the next strip of so many lines begins, here or in the next plane: what is prefetched."""
        if not self.schedule.prefetch_tiles:
            return []
        self.text.add(
            f"const ptrdiff_t more = {high} * (t + 2) <= lines, after = more ? first + {high * self.line} : lead;"
        )
        return [f"sb + (more ? 0 : {self.beside(loops)}){self.offset('after')}", *self.tables("row", "after")]

    def beside(self, loops: Sequence[int]) -> int:
        """Bytes between the columns of a part and those of the next one, in the last part those of the next plane."""
        # The next strip but those of the last part is that of the next part.
        if self.columns < self.schedule.j.size:
            return self.columns * self.size
        return self.move.operands[0].strides[loops[-1]] * self.size if loops else 0

    def call(self, what: str, at: str, rest: Sequence[str]) -> None:
        """A call for the lines of the result that begin at row `at` of the source."""
        table = "column" if self.columns == self.schedule.j.size else "column + from"
        column = [] if self.schedule.j.single else [table]
        start = f"sb{self.offset(at)}"
        arguments = [start, *self.tables("row", at), f"db + {self.size} * {at}", *column, *rest]
        self.text.add(f"{self.name}_{what}({', '.join(arguments)});")

    # -- the functions

    def define_functions(self) -> None:
        """Strips of some lines by non-temporal stores; edges of one line, by either kind."""
        table, plain, past = not self.schedule.i.single, self.plain_store, "PUT(to + {0}, x[{1}][n]);"
        define_nt_copy(self.text, self.vector)
        self.text.pieces.setdefault("put", define_put(self.width))
        self.define_lines()
        past = past if self.schedule.nontemporal else plain
        self.put(self.schedule.lines, self.each(self.schedule.lines, past), "", [])
        self.put(1, self.each(1, f"if (whole) {past} else {plain}"), "edge_", ["int whole"])
        next_params = ["const char *next", *(["const ptrdiff_t *next_row"] if table else [])]
        self.strip("strip", self.schedule.lines, "", next_params if self.schedule.prefetch_tiles else [])
        self.strip("edge", 1, "edge_", ["int whole"], ", whole")

    def strip(self, what: str, lines: int, name: str, extra: Sequence[str], passed: str = "") -> None:
        """The function that makes some lines of all rows of the result, tile by tile along the rows of the source.

        `passed` are arguments for `put`, which may use `was`: the first column of the tile.
        """
        inner, size, line, rows = self.text.function(), self.size, self.line, self.rows
        total, groups = max(line, self.columns), WORDS * lines
        apart = LINE * (groups + 1)
        ahead = bool(self.schedule.prefetch_tiles) and not name
        inner.add("#ifdef EQSAT_VECTORS")
        inner.add(f"char words[2][{half_a_page_apart(rows * apart)}] __attribute__((aligned({LINE})));")
        lead = f"(ptrdiff_t)(-(uintptr_t)s & {LINE - 1}) / {size}" if self.begins_at_lines() else "0"
        inner.add(f"const ptrdiff_t lead = {lead}, behind = lead ? lead - {line} : 0;")
        inner.add(f"const ptrdiff_t tiles = ({total + line - 1} - behind) / {line};")
        inner.add("ptrdiff_t was = 0;")
        to = f"d + {product(self.column, 'was')}" if self.schedule.j.single else "d, column + was"
        fold = words_name(size, not self.schedule.i.single, self.pieces)
        piece = "" if self.pieces == 1 else ", 0" if name else f", {product(self.row, lines * line)}"
        put = f"{self.name}_{name}put({{}} + {apart} * n, n, {to}{passed});"
        with inner.block("for (ptrdiff_t k = 0; k < tiles; ++k)"):
            inner.add(f"const ptrdiff_t c = {self.tile_start('k')};")
            inner.add("char *const now = words[k & 1];")
            if ahead:
                self.ahead(inner)
            with inner.block(f"for (int n = 0; n < {rows}; ++n)"):
                share = groups // rows
                with inner.block(f"for (ptrdiff_t g = {share} * n; g < {share} * (n + 1); ++g)"):
                    if ahead:
                        there = self.row_at(f"({rows} * g + m)", "ahead_row")
                        inner.add(f"for (ptrdiff_t m = 0; m < {rows}; ++m) __builtin_prefetch(ahead + {there}, 0, 2);")
                    inner.add(f"{fold}({self.rows_from(rows, apart)}{piece});")
                inner.add(f"if (k != 0) {put.format('words[~k & 1]')}")
            inner.add("was = c;")
        inner.add(f"for (int n = 0; n < {rows}; ++n) {put.format('words[~tiles & 1]')}")
        inner.add("#else")
        inner.add("".join(f"(void){parameter.rpartition(' ')[2].lstrip('*')}; " for parameter in extra).strip())
        inner.add(f"for (ptrdiff_t c = 0; c < {self.columns}; ++c)")
        inner.add(f"    for (ptrdiff_t r = 0; r < {lines * line * (1 if name else self.pieces)}; ++r)")
        move = f"d + {self.column_at('c')} + {size} * r, s + {self.row_at('r', 'row')} + {size} * c"
        inner.add(f"        memcpy({move}, {size});")
        inner.add("#endif")
        table = [] if self.schedule.i.single else ["const ptrdiff_t *restrict row"]
        params = ["const char *restrict s", *table, "char *restrict d", *self.column_params, *extra]
        head = f"{self.strip_kind} void {self.name}_{what}({', '.join(params)})"
        note = f"/* {lines} line{'s' if lines > 1 else ''} of each row of the result. */"
        self.text.pieces[f"{self.name}_{what}"] = "\n".join([note, head, "{", *inner.lines, "}"])

    def tile_start(self, k: str) -> str:
        """Where tile k begins: at a line, if the first one ends there; the last one ends where the rows do."""
        if self.columns <= self.line:
            return "0"
        at, last = f"{self.line} * {k} + behind", self.columns - self.line
        return f"{at} < 0 ? 0 : {at} > {last} ? {last} : {at}"

    def begins_at_lines(self) -> bool:
        """Whether all rows of the source are as far from a line, and long: tiles then begin at one."""
        strides = self.move.operands[0].strides
        together = all(strides[k] * self.size % LINE == 0 for k in self.schedule.i.loops)
        return together and self.columns >= ALIGNED * self.line

    def ahead(self, inner: Text) -> None:
        """Where the tile that is prefetched begins: further on in this strip, or at the beginning of the next."""
        # Where a row starts within a line, the previous tile has read that line.
        shift = "" if self.begins_at_lines() else f" + {LINE - 1}"
        over = "1" if self.columns <= self.line else "over"
        if over == "over":
            inner.add(
                f"const ptrdiff_t u = k + {self.schedule.prefetch_tiles}, over = u >= tiles, v = u - over * tiles;"
            )
        inner.add(f"const char *const ahead = ({over} ? next : s) + {self.size} * ({self.tile_start('v')}){shift};")
        if not self.schedule.i.single:
            inner.add(f"const ptrdiff_t *const ahead_row = {over} ? next_row : row;")
