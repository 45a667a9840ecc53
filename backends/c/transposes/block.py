"""The transpose of a block in registers: rows of 16 bytes, joined to wide vectors, interleaved until they are columns.

    before:  for c < E: for r < lanes * E: d[c, r] = s[r, c]          # E elements in 16 bytes
    after:   x[m] = rows m, E + m, 2E + m, ... of s, 16 bytes of each, in one vector         # for m < E
             log2(E) times: y[2m], y[2m + 1] = LOW(x[m], x[m + E/2]), HIGH(x[m], x[m + E/2]); x, y = y, x
             d[c] = x[c]                                                                      # for c < E

LOW and HIGH interleave the lower and the upper halves of two vectors. Each round moves one bit of the row number into
the place within the vector. Vectors of 32 or 64 bytes hold 2 or 4 such blocks, one above the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.backends.c.nest import Text
from eqsat.backends.c.vector import INSERT, define_interleave, define_join, define_type, vector_type
from eqsat.backends.machine import BLOCK


@dataclass(frozen=True)
class Block:
    """A transpose of `lanes` * E rows by E columns, E elements in 16 bytes.

    size: bytes of an element. lanes: blocks of 16 bytes in a vector.
    row_table, column_table: whether the offsets of the rows of the source, or of the result, come from a table, where
    they have no common stride.
    low, high, fill: rows of the source outside of [low, high) are not read, and hold the bits `fill`.
    """

    size: int
    lanes: int
    row_table: bool
    column_table: bool
    low: int = 0
    high: int = 0
    fill: int = 0

    @property
    def columns(self) -> int:
        """E: columns of the source, rows of the result."""
        return BLOCK // self.size

    @property
    def rows(self) -> int:
        """Rows of the source, columns of the result."""
        return self.lanes * self.columns

    @property
    def full(self) -> bool:
        """Whether all rows are read."""
        return (self.low, self.high) == (0, self.rows)

    @property
    def name(self) -> str:
        """The name of the function."""
        tables = ("r" if self.row_table else "") + ("c" if self.column_table else "")
        part = "" if self.full else f"_{self.low}to{self.high}or{self.fill:x}"
        return f"transpose{tables}_u{8 * self.size}_{self.rows}x{self.columns}{part}"

    def define(self, text: Text) -> None:
        """Add the function, and what it needs before it, where they are not there yet."""
        wide, pieces = BLOCK * self.lanes, text.pieces
        for width in dict.fromkeys((BLOCK, wide)):
            pieces.setdefault(f"type {width} {self.size}", define_type(width, self.size))
        pieces.setdefault(f"interleave {wide} {self.size}", define_interleave(wide, self.size))
        if self.lanes > 1:
            pieces.setdefault("insert", INSERT)
            pieces.setdefault(f"join {wide} {self.size}", define_join(wide, self.size))
        if self.name not in pieces:
            pieces[self.name] = self.text()

    def row(self, r: str) -> str:
        """The address of row r of the source."""
        return f"s + row[{r}]" if self.row_table else f"s + row * ({r})"

    def column(self, c: str) -> str:
        """The address of row c of the result."""
        return f"d + column[{c}]" if self.column_table else f"d + column * ({c})"

    def source(self, m: int, lane: int) -> str:
        """The address of row m of one of the blocks in a vector."""
        return self.row(str(m + lane * self.columns))

    def load(self, vector: str) -> list[str]:
        """Lines that fill x[0:E]."""
        half, e = vector_type(BLOCK, self.size), self.columns
        if self.full:
            if self.lanes == 1:
                return [f"    x[{m}] = *(const {half} *)({self.source(m, 0)});" for m in range(e)]
            rows = (", ".join(self.source(m, k) for k in range(self.lanes)) for m in range(e))
            return [f"    x[{m}] = JOIN_{vector}({row});" for m, row in enumerate(rows)]
        splat = ", ".join([f"{self.fill:#x}u{'ll' if self.size == 8 else ''}"] * e)
        lines = [f"    static const {half} fill = {{{splat}}};"]
        if self.low == self.high:
            lines.append("    (void)s, (void)row;")
        for m in range(e):
            rows = [m + k * e for k in range(self.lanes)]
            parts = [f"({self.row(str(r))})" if self.low <= r < self.high else "&fill" for r in rows]
            value = f"*(const {half} *){parts[0]}" if self.lanes == 1 else f"JOIN_{vector}({', '.join(parts)})"
            lines.append(f"    x[{m}] = {value};")
        return lines

    def text(self) -> str:
        """The function; `row` and `column` are strides in bytes, or tables of offsets."""
        vector, e = vector_type(BLOCK * self.lanes, self.size), self.columns
        params = [
            "const char *restrict s",
            "const ptrdiff_t *restrict row" if self.row_table else "ptrdiff_t row",
            "char *restrict d",
            "const ptrdiff_t *restrict column" if self.column_table else "ptrdiff_t column",
        ]
        lines = [
            f"/* {self.rows} rows of {e} elements at s become {e} rows of {self.rows} at d. */",
            f"static inline void {self.name}({', '.join(params)})",
            "{",
            "#ifdef EQSAT_VECTORS",
            f"    {vector} x[{e}], y[{e}];",
            *self.load(vector),
        ]
        now, after, half, step = "x", "y", e // 2, 1
        while step < e:
            pair = f"{now}[m], {now}[m + {half}]"
            if half == 1:
                lines.append(f"    {after}[0] = LOW_{vector}({now}[0], {now}[1]);")
                lines.append(f"    {after}[1] = HIGH_{vector}({now}[0], {now}[1]);")
            else:
                body = f"{after}[2 * m] = LOW_{vector}({pair}), {after}[2 * m + 1] = HIGH_{vector}({pair});"
                lines.append(f"    for (int m = 0; m < {half}; ++m) {body}")
            now, after, step = after, now, step * 2
        lines += [
            # No loops: gcc takes one over adjacent vectors for a copy of memory, and puts them there before.
            *(f"    *({vector} *)({self.column(str(c))}) = {now}[{c}];" for c in range(e)),
            "#else",
            f"    for (int c = 0; c < {e}; ++c)",
            f"        for (int r = 0; r < {self.rows}; ++r)",
        ]
        copy = f"memcpy({self.column('c')} + {self.size} * r, {self.row('r')} + {self.size} * c, {self.size});"
        clear = f"memcpy({self.column('c')} + {self.size} * r, &fill, {self.size});"
        if self.full:
            lines.append(f"            {copy}")
        else:
            lines.insert(-2, f"    const uint{8 * self.size}_t fill = {self.fill:#x}u{'ll' if self.size == 8 else ''};")
            lines.append(f"            if (r >= {self.low} && r < {self.high}) {copy}")
            lines.append(f"            else {clear}")
        return "\n".join([*lines, "#endif", "}"])
