"""The interleave of a block in registers: 16 bytes of each of a few rows, element by element, or back.

    before:  for k < E: for r < c: d[c * k + r] = s[r, k]             # E elements in 16 bytes, c rows; or the reverse
    after:   x[r] = s[r, 0:E]; shuffles of each x[r], and blends of them; d[0:c * E] = x[0:c]

Element k of row r of c rows comes to place c * k + r. For an odd c the places of one row differ modulo E, so one
shuffle puts all its elements where they belong in some of the c results, and blends pick for each result the row that
it has at a place. A power of two is done by rounds of interleaving two vectors. Vectors of 32 bytes hold two such
blocks: the same is done in both halves, which come from and go to different places. Of vectors of 64 bytes, each result
is put together by permutations of two vectors, where the processor has them for bytes; else halves are done by turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eqsat.backends.c.nest import Text
from eqsat.backends.c.vector import define_interleave, define_type, vector_type
from eqsat.backends.machine import BLOCK, LINE
from eqsat.backends.schedules.choose_interleave import separable


def block_width(count: int, nbytes: int, vector: int) -> int:
    """How many bytes of each of `count` rows of `nbytes` are interleaved at a time, with vectors of `vector` bytes."""
    return 2 * BLOCK if separable(count) and min(nbytes, vector) >= 2 * BLOCK else BLOCK


@dataclass(frozen=True)
class InterleaveBlock:
    """The function that interleaves `count` rows of `width` bytes with elements of `size` bytes, or separates them."""

    count: int
    size: int
    separate: bool
    width: int

    @property
    def name(self) -> str:
        """The name of the function."""
        verb = "separate" if self.separate else "interleave"
        return f"{verb}_{self.count}_u{8 * self.size}{'' if self.width == BLOCK else f'_{self.width}'}"

    def define(self, text: Text) -> None:
        """Add the function, and what it needs before it, where they are not there yet."""
        pieces = text.pieces
        if self.width == LINE:
            replace(self, width=LINE // 2).define(text)
        pieces.setdefault(f"type {self.width} {self.size}", define_type(self.width, self.size))
        if self.count % 2 == 0:
            pieces.setdefault(f"interleave {BLOCK} {self.size}", define_interleave(BLOCK, self.size))
        pieces.setdefault(self.name, self.text())

    def text(self) -> str:
        """The function; `row` is the stride of the rows in bytes."""
        count, size, width, separate = self.count, self.size, self.width, self.separate
        if count % 2 == 0:
            body, made = _rounds(count, size)
        elif width == LINE:
            body, made = _permuted(count, size, separate), "y"
        else:
            body, made = (_separated if separate else _interleaved)(count, size, width)
        vector, e = vector_type(width, size), width // size
        rows, mixed = ("d", "s") if separate else ("s", "d")
        what = f"{count} rows separated." if separate else f"{count} rows of {width} bytes at s, element by element."
        inside = f"{mixed} + {size} * ({count} * k + m)", f"{rows} + row * m + {size} * k"
        to, from_ = inside[::-1] if separate else inside
        load, store = (str(width), "row") if separate else ("row", str(width))
        guard, without = "#ifdef EQSAT_VECTORS", list[str]()
        if width == LINE:
            half, guard = replace(self, width=LINE // 2), "#if defined(EQSAT_VECTORS) && defined(__AVX512VBMI__)"
            at = (count * half.width, half.width)
            there, here = at[::-1] if separate else at
            without = [
                "#elif defined(EQSAT_VECTORS)",
                f"    {half.name}(d, s, row);",
                f"    {half.name}(d + {there}, s + {here}, row);",
            ]
        return "\n".join(
            [
                f"/* {what} */",
                f"static inline void {self.name}(char *restrict d, const char *restrict s, ptrdiff_t row)",
                "{",
                guard,
                f"    {vector} x[{count}], y[{count}];",
                # No loops: gcc takes one over adjacent vectors for a copy of memory, and puts them there before.
                *(f"    x[{m}] = *(const {vector} *)(s + {load} * {m});" for m in range(count)),
                *body,
                *(f"    *({vector} *)(d + {store} * {m}) = {made}[{m}];" for m in range(count)),
                *without,
                "#else",
                f"    for (int k = 0; k < {e}; ++k)",
                f"        for (int m = 0; m < {count}; ++m)",
                f"            memcpy({to}, {from_}, {size});",
                "#endif",
                "}",
            ]
        )


def _shuffle(into: str, first: str, second: str, indices: Sequence[int]) -> str:
    return f"    {into} = __builtin_shufflevector({first}, {second}, {', '.join(map(str, indices))});"


def _both(indices: Sequence[int], e: int, halves: int) -> list[int]:
    """What a shuffle of 16 bytes takes, in each half of wider vectors; numbers from e on are of the second vector."""
    return [p % e + e * (p // e * halves + h) for h in range(halves) for p in indices]


def _blends(into: str, sources: Sequence[tuple[str, Sequence[int]]], e: int, halves: int) -> list[str]:
    """The elements of several vectors, each at its own places, as one vector."""
    name, places = sources[0]
    lines = [f"    {into} = {name};"] if len(sources) == 1 else []
    last = name
    for other, at in sources[1:]:
        taken = [e + p if p in at else p for p in range(e)]
        lines.append(_shuffle(into, last, other, _both(taken, e, halves)))
        last = into
    assert places
    return lines


def _regrouped(into: str, name: str, count: int, e: int, gather: bool) -> list[str]:
    """Halves of wide vectors from the order in memory, all of the first block and all of the second, or back to it."""
    lines: list[str] = []
    for n in range(count):
        # The halves of a vector, as numbers in the other order: half h of vector q.
        halves = [(n, 0), (n + count, 0)] if gather else [divmod(2 * n, count)[::-1], divmod(2 * n + 1, count)[::-1]]
        pairs = [divmod(k, 2) for k, _ in halves] if gather else halves
        (a, low), (b, high) = pairs
        taken = [*range(low * e, (low + 1) * e), *range((2 + high) * e, (3 + high) * e)]
        lines.append(_shuffle(f"{into}[{n}]", f"{name}[{a}]", f"{name}[{b}]", taken))
    return lines


def _interleaved(count: int, size: int, width: int) -> tuple[list[str], str]:
    """Interleaving of an odd number of rows, and the name of the results."""
    e, halves = BLOCK // size, width // BLOCK
    lines: list[str] = []
    for r in range(count):
        at = {(count * k + r) % e: k for k in range(e)}
        lines.append(_shuffle(f"y[{r}]", f"x[{r}]", f"x[{r}]", _both([at[p] for p in range(e)], e, halves)))
    for q in range(count):
        rows = {r: [p for p in range(e) if (q * e + p) % count == r] for r in range(count)}
        lines += _blends(f"x[{q}]", [(f"y[{r}]", places) for r, places in rows.items() if places], e, halves)
    return (lines, "x") if halves == 1 else ([*lines, *_regrouped("y", "x", count, e, gather=False)], "y")


def _separated(count: int, size: int, width: int) -> tuple[list[str], str]:
    """Separation of an odd number of rows: the blends first, then the shuffles. And the name of the results."""
    e, halves = BLOCK // size, width // BLOCK
    lines, x, y = ([], "x", "y") if halves == 1 else (_regrouped("y", "x", count, e, gather=True), "y", "x")
    for r in range(count):
        held = {q: [(count * k + r) % e for k in range(e) if (count * k + r) // e == q] for q in range(count)}
        lines += _blends(f"{y}[{r}]", [(f"{x}[{q}]", places) for q, places in held.items() if places], e, halves)
    for r in range(count):
        taken = _both([(count * k + r) % e for k in range(e)], e, halves)
        lines.append(_shuffle(f"{x}[{r}]", f"{y}[{r}]", f"{y}[{r}]", taken))
    return lines, x


def _permuted(count: int, size: int, separate: bool) -> list[str]:
    """Interleaving or separation of rows of a line each: what a result has of each source, one after the other."""
    e = LINE // size
    lines: list[str] = []
    for q in range(count):
        # Where each element of result q comes from: a vector, and the place in it.
        whence = [divmod(count * p + q, e) if separate else divmod(q * e + p, count)[::-1] for p in range(e)]
        first, *others = sorted({r for r, _ in whence})
        last, places = f"x[{first}]", [k for _, k in whence]
        for r in others:
            taken = [e + k if source == r else place for (source, k), place in zip(whence, places, strict=True)]
            lines.append(_shuffle(f"y[{q}]", last, f"x[{r}]", taken))
            last, places = f"y[{q}]", list(range(e))
    return lines


def _rounds(count: int, size: int) -> tuple[list[str], str]:
    """Interleaving of a power of two: each round moves one bit of the row number into the place in the vector.

    And the name of the results.
    """
    vector = vector_type(BLOCK, size)
    now, after, step, half = "x", "y", 1, count // 2
    lines: list[str] = []
    while step < count:
        for m in range(half):
            pair = f"{now}[{m}], {now}[{m + half}]"
            low, high = f"{after}[{2 * m}] = LOW_{vector}({pair})", f"{after}[{2 * m + 1}] = HIGH_{vector}({pair})"
            lines.append(f"    {low}, {high};")
        now, after, step = after, now, 2 * step
    return lines, now
