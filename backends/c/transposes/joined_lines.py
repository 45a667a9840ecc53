"""Prints transposes by lines whose rows of the result begin anywhere in a line.

    before:  for j: for i: d[j, i] = s[i, j]
    after:   for each part of j, i0 = 0:I:lines * LINE:
                 for j0 in the part by LINE: words = s[i0:, j0:j0 + LINE], interleaved; meanwhile, of the tile before:
                     for some of its columns j: x[0:lines] = lines of words, off = how far d[j] is behind a line
                         d[j, i0 - off:] <-nt- held[j] with x[0], x[0] with x[1], ...: each LINE - off, then off bytes
                         left[j] = the last x
                 held, left = left, held

Each line leaves once and whole, but the first and the last of a row, which others share. Strips of one row follow each
other, so threads share parts and planes only. A processor that cannot take elements of two vectors at places that are
known when it runs puts both into memory and loads from between.
"""

from __future__ import annotations

from eqsat.backends.c.copy_fill import define_nt_copy
from eqsat.backends.c.nest import Level, nest
from eqsat.backends.c.transposes.lines import WORD, LineTransposePrinter, define_put
from eqsat.backends.c.transposes.streaming import NOT_INLINE
from eqsat.backends.c.vector import vector_type
from eqsat.backends.machine import LINE
from eqsat.backends.schedules.schedule import TILE_J, JoinedLines
from eqsat.backends.schedules.transpose import BLOCKS_PER_THREAD

FEATURE = {1: "__AVX512VBMI__", 2: "__AVX512BW__", 4: "__AVX512F__", 8: "__AVX512F__"}
"""What a processor must have to take elements of so many bytes from two vectors."""
PERMUTE = {1: "vpermi2varqi512", 2: "vpermi2varhi512", 4: "vpermi2vard512", 8: "vpermi2varq512"}
"""What clang calls it, by bytes of an element."""
SIGNED = {1: "char", 2: "short", 4: "int", 8: "long long"}
"""The elements of the vectors that it takes."""
LINE_OF_WORDS = vector_type(LINE, WORD)


PUT_PART = f"""/* The first `count` < {LINE} bytes of a line, stored. */
#ifdef EQSAT_VECTORS
#ifdef __AVX512BW__
typedef char line_of_bytes __attribute__((vector_size({LINE})));
#define PUT_PART(d, v, count) \\
    __builtin_ia32_storedquqi512_mask((void *)(d), (line_of_bytes)(v), ((uint64_t)1 << (count)) - 1)
#else
#define PUT_PART(d, v, count) memcpy((d), (const {LINE_OF_WORDS}[1]){{(v)}}, (size_t)(count))
#endif
#endif"""


def define_join(size: int) -> str:
    """JOIN: the last `off` bytes of a, then b, as a line.

    A macro: functions that return vectors which a processor has not are an error to some compilers.
    """
    bits, count, vector = 8 * size, LINE // size, vector_type(LINE, size)
    numbers = ", ".join(map(str, range(2 * count)))
    where = f"*(const {vector} *)(lanes_{bits} + {count} - (off){f' / {size}' if size > 1 else ''})"
    return f"""/* The last `off` bytes of a, then b, as a line. */
#ifdef EQSAT_VECTORS
#ifdef {FEATURE[size]}
static const uint{bits}_t lanes_{bits}[{2 * count}] = {{
    {numbers}
}};
#ifdef __clang__
typedef {SIGNED[size]} line_of_{bits} __attribute__((vector_size({LINE})));
#define JOIN_{bits}(a, b, off) (({LINE_OF_WORDS})__builtin_ia32_{PERMUTE[size]}( \\
    (line_of_{bits})(a), (line_of_{bits}){where}, (line_of_{bits})(b)))
#else
#define JOIN_{bits}(a, b, off) (({LINE_OF_WORDS})__builtin_shuffle(({vector})(a), ({vector})(b), {where}))
#endif
#else
#define JOIN_{bits}(a, b, off) \\
    (*(const {LINE_OF_WORDS} *)((const char *)(const {LINE_OF_WORDS}[2]){{(a), (b)}} + {LINE} - (off)))
#endif
#endif"""


class JoinedLinesPrinter(LineTransposePrinter):
    """Prints one JoinedLines."""

    strip_kind = "NOT_INLINE static"

    def print(self) -> None:
        """Loops over planes and parts, and strips of lines one after the other, from the beginnings of rows to their
        ends."""
        schedule, text, line, lines = self.schedule, self.text, self.line, self.schedule.lines
        assert isinstance(schedule, JoinedLines) and self.width == LINE and self.pieces == 1
        self.define_offsets()
        self.define_functions()
        steps, left = divmod(schedule.i.size // line, lines)
        assert steps, "rows are shorter than a strip"
        # What is held of a row is read when that of the next strip is written: tiles overlap at the end of a part.
        text.add(f"char heads[{LINE * self.columns}] __attribute__((aligned({LINE})));")
        text.add(f"char held[2][{LINE * self.columns}] __attribute__((aligned({LINE})));")
        parts = -(-schedule.j.size // self.columns)
        names = {n: text.name("i") for n in schedule.order}
        levels = [Level(names[n], parts if n == TILE_J else self.move.extents[n]) for n in schedule.order]
        with nest(text, levels, schedule.threads, BLOCKS_PER_THREAD):
            loops = self.begin(names, parts)
            with text.loop("t", steps):
                text.add(f"const ptrdiff_t at = {lines * line} * t;")
                following: list[str] = []
                if schedule.prefetch_tiles:
                    text.add(f"const ptrdiff_t more = t + 1 < {steps}, after = more ? at + {lines * line} : 0;")
                    following = [f"sb + (more ? 0 : {self.beside(loops)}){self.offset('after')}"]
                    following += self.tables("row", "after")
                self.call("strip", "at", ["held[t % 2]", "held[(t + 1) % 2]", "t ? NULL : heads", *following])
            for k in range(left):
                now = (steps + k) % 2
                at = (lines * steps + k) * line
                self.call("edge", str(at), [f"held[{now}]", f"held[{1 - now}]", "NULL"])
            at = schedule.i.size - (line if self.rest else 0)
            self.call("ends", str(at), [f"held[{(steps + left) % 2}]", "heads"])

    @property
    def rest(self) -> int:
        """Bytes of a row behind its last strip, less than a line."""
        return self.schedule.i.size % self.line * self.size

    def adjacent(self, c: str, following: str) -> str:
        """Whether row `following` of the result begins where row c ends."""
        row = self.schedule.i.size * self.size
        if self.schedule.j.single:
            return str(int(int(self.column) == row))
        return f"column[{following}] == column[{c}] + {row}"

    # -- the functions

    def define_functions(self) -> None:
        """Strips of some lines, and of one; the ends of rows."""
        schedule, table = self.schedule, not self.schedule.i.single
        define_nt_copy(self.text, self.vector)
        self.text.pieces["NOT_INLINE"] = NOT_INLINE
        self.text.pieces.setdefault("put", define_put(self.width))
        self.define_lines()
        self.text.pieces.setdefault("put part", PUT_PART)
        self.text.pieces.setdefault(f"join {self.size}", define_join(self.size))
        params = ["char *held", "char *left", "char *heads"]
        next_params = ["const char *next", *(["const ptrdiff_t *next_row"] if table else [])]
        passed = f", held + {LINE} * was, left + {LINE} * was, heads ? heads + {LINE} * was : NULL, was"
        edge = [("edge", 1, "edge_")] if schedule.i.size // self.line % schedule.lines else []
        for what, lines, name in (("strip", schedule.lines, ""), *edge):
            self.put(lines, self.joined(lines), name, [*params, "ptrdiff_t was"])
            ahead = next_params if schedule.prefetch_tiles and not name else []
            self.strip(what, lines, name, [*params, *ahead], passed)
        self.define_ends()

    def define_ends(self) -> None:
        """The function that writes the ends of rows: what is held of them and what is left of the source."""
        held = ["const char *held", "const char *heads"]
        if self.rest:
            self.put(1, self.last("x[0][n]"), "ends_", [*held, "ptrdiff_t was"])
            self.strip("ends", 1, "ends_", held, f", held + {LINE} * was, heads + {LINE} * was, was")
            return
        inner = self.text.function()
        inner.add("(void)s;" if self.schedule.i.single else "(void)s, (void)row;")
        inner.add("#ifdef EQSAT_VECTORS")
        inner.add("const ptrdiff_t was = 0;")
        with inner.block(f"for (ptrdiff_t c = 0; c < {self.columns}; ++c)"):
            inner.add(f"char *const to = d + {self.column_at('c')};")
            for statement in self.last("old"):
                inner.add(statement)
        inner.add("#else")
        inner.add("(void)d, (void)held, (void)heads;" + ("" if self.schedule.j.single else " (void)column;"))
        inner.add("#endif")
        table = [] if self.schedule.i.single else ["const ptrdiff_t *restrict row"]
        params = ["const char *restrict s", *table, "char *restrict d", *self.column_params, *held]
        head = f"static inline void {self.name}_ends({', '.join(params)})"
        note = "/* The ends of the rows of the result. */"
        self.text.pieces[f"{self.name}_ends"] = "\n".join([note, head, "{", *inner.lines, "}"])

    @property
    def join(self) -> str:
        """The macro that joins two lines."""
        return f"JOIN_{8 * self.size}"

    def place(self, to: str) -> list[str]:
        """Statements that say how far behind a line a row lies here, and what is held of it."""
        return [
            f"const ptrdiff_t off = (ptrdiff_t)((uintptr_t)({to}) & {LINE - 1});",
            f"char *const at = {to} - off;",
            f"const {LINE_OF_WORDS} old = *(const {LINE_OF_WORDS} *)(held + {LINE} * c);",
        ]

    def joined(self, lines: int) -> list[str]:
        """Statements that write as many lines of column c as there are vectors of it, of which the first is shared:
        at the beginning of a row with the row before, if that ends there."""
        stores = [
            *self.place("to"),
            "if (heads) {",
            f"    *({LINE_OF_WORDS} *)(heads + {LINE} * c) = x[0][n];",
            "    if (off == 0) PUT(at, x[0][n]);",
            f"    else if (!(was + c > 0 && {self.adjacent('c - 1', 'c')})) PUT_PART(to, x[0][n], {LINE} - off);",
            f"}} else PUT(at, {self.join}(old, x[0][n], off));",
        ]
        stores += [f"PUT(at + {LINE * k}, {self.join}(x[{k - 1}][n], x[{k}][n], off));" for k in range(1, lines)]
        return [*stores, f"*({LINE_OF_WORDS} *)(left + {LINE} * c) = x[{lines - 1}][n];"]

    def last(self, x: str) -> list[str]:
        """Statements that write what is left of column c, whose last elements are those of x, and the head of the next
        row, if that begins there."""
        rest, join = self.rest, self.join
        over = f"off - {LINE - rest}"
        if not rest:
            middle = [f"    if (off) PUT(at, {join}(old, head, off));"]
            more = part_of_more = []
        else:
            middle = [f"    PUT(at, {join}(old, {join}({x}, head, {rest}), off));"]
            more = [f"    if (off > {LINE - rest}) PUT(at + {LINE}, {join}({x}, head, {over}));"]
            end = f"{join}({x}, {x}, {over})"
            part_of_more = [f"    if (off > {LINE - rest}) PUT_PART(at + {LINE}, {end}, {over});"]
        return [
            *self.place(f"to + {LINE - rest}" if rest else "to"),
            f"if (was + c < {self.columns - 1} && {self.adjacent('c', 'c + 1')}) {{",
            f"    const {LINE_OF_WORDS} head = *(const {LINE_OF_WORDS} *)(heads + {LINE} * (c + 1));",
            *middle,
            *more,
            "} else {",
            f"    const {LINE_OF_WORDS} end = {join}(old, {join}({x}, {x}, {rest}), off);",
            f"    if (off < {LINE - rest}) PUT_PART(at, end, off + {rest});",
            "    else PUT(at, end);",
            *part_of_more,
            "}",
        ]
