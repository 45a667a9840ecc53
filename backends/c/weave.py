"""Interleaving a few rows element by element, and separating them again, 16 bytes of every row at a time.

With E = 16 / size elements in 16 bytes, element k of row r of c rows comes to place c * k + r. For an odd c the places
of one row differ modulo E, so one shuffle puts all its elements where they belong in some of the c results, and blends
pick for each result the row that it has at a place. A power of two is done by rounds of interleaving. Vectors of 32
bytes hold two such blocks: the same is done in both halves, which come from and go to different places.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.backends.c.vector import define_interleave, define_type, vector_type
from eqsat.backends.schedules.choose_small import separable


def weave_name(count: int, size: int, apart: bool, width: int = 16) -> str:
    """The name of the function that interleaves a number of rows, or takes them apart."""
    return f"{'part' if apart else 'braid'}_{count}_u{8 * size}{'' if width == 16 else f'_{width}'}"


def weave_width(count: int, nbytes: int, vector: int) -> int:
    """How many bytes of a row are woven at a time."""
    return 32 if separable(count) and min(nbytes, vector) >= 32 else 16


def weave_pieces(count: int, size: int, apart: bool, width: int = 16) -> dict[str, str]:
    """The texts of the function and of what it needs, by name."""
    pieces = {f"type {width} {size}": define_type(width, size)}
    if count % 2:
        body = _apart(count, size, width) if apart else _woven(count, size, width)
    else:
        pieces[f"interleave 16 {size}"] = define_interleave(16, size)
        body = _rounds(count, size)
    vector, e, name = vector_type(width, size), width // size, weave_name(count, size, apart, width)
    rows, mixed = ("d", "s") if apart else ("s", "d")
    what = f"{count} rows of {width} bytes at s, element by element." if not apart else f"{count} rows taken apart."
    inside = f"{mixed} + {size} * ({count} * k + m)", f"{rows} + row * m + {size} * k"
    to, from_ = inside if not apart else inside[::-1]
    step = str(width)
    pieces[name] = "\n".join(
        [
            f"/* {what} */",
            f"static inline void {name}(char *restrict d, const char *restrict s, ptrdiff_t row)",
            "{",
            "#ifdef EQSAT_VECTORS",
            f"    {vector} x[{count}], y[{count}];",
            f"    for (int m = 0; m < {count}; ++m) x[m] = *(const {vector} *)(s + {step if apart else 'row'} * m);",
            *body,
            f"    for (int m = 0; m < {count}; ++m) *({vector} *)(d + {'row' if apart else step} * m) = x[m];",
            "#else",
            f"    for (int k = 0; k < {e}; ++k)",
            f"        for (int m = 0; m < {count}; ++m)",
            f"            memcpy({to}, {from_}, {size});",
            "#endif",
            "}",
        ]
    )
    return pieces


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


def _regrouped(count: int, e: int, gather: bool) -> list[str]:
    """Halves of wide vectors from the order in memory, all of the first block and all of the second, or back to it."""
    lines: list[str] = []
    for n in range(count):
        # The halves of a vector, as numbers in the other order: half h of vector q.
        halves = [(n, 0), (n + count, 0)] if gather else [divmod(2 * n, count)[::-1], divmod(2 * n + 1, count)[::-1]]
        pairs = [divmod(k, 2) for k, _ in halves] if gather else halves
        (a, low), (b, high) = pairs
        taken = [*range(low * e, (low + 1) * e), *range((2 + high) * e, (3 + high) * e)]
        lines.append(_shuffle(f"y[{n}]", f"x[{a}]", f"x[{b}]", taken))
    return [*lines, f"    for (int m = 0; m < {count}; ++m) x[m] = y[m];"]


def _woven(count: int, size: int, width: int) -> list[str]:
    """Interleaving of an odd number of rows."""
    e, halves = 16 // size, width // 16
    lines: list[str] = []
    for r in range(count):
        at = {(count * k + r) % e: k for k in range(e)}
        lines.append(_shuffle(f"y[{r}]", f"x[{r}]", f"x[{r}]", _both([at[p] for p in range(e)], e, halves)))
    for q in range(count):
        rows = {r: [p for p in range(e) if (q * e + p) % count == r] for r in range(count)}
        lines += _blends(f"x[{q}]", [(f"y[{r}]", places) for r, places in rows.items() if places], e, halves)
    return lines if halves == 1 else [*lines, *_regrouped(count, e, gather=False)]


def _apart(count: int, size: int, width: int) -> list[str]:
    """Separation of an odd number of rows: the blends first, then the shuffles."""
    e, halves = 16 // size, width // 16
    lines = [] if halves == 1 else _regrouped(count, e, gather=True)
    for r in range(count):
        held = {q: [(count * k + r) % e for k in range(e) if (count * k + r) // e == q] for q in range(count)}
        lines += _blends(f"y[{r}]", [(f"x[{q}]", places) for q, places in held.items() if places], e, halves)
    for r in range(count):
        taken = _both([(count * k + r) % e for k in range(e)], e, halves)
        lines.append(_shuffle(f"x[{r}]", f"y[{r}]", f"y[{r}]", taken))
    return lines


def _rounds(count: int, size: int) -> list[str]:
    """Interleaving of a power of two: each round moves one bit of the row number into the place in the vector."""
    vector = vector_type(16, size)
    now, after, step, half = "x", "y", 1, count // 2
    lines: list[str] = []
    while step < count:
        for m in range(half):
            pair = f"{now}[{m}], {now}[{m + half}]"
            low, high = f"{after}[{2 * m}] = LOW_{vector}({pair})", f"{after}[{2 * m + 1}] = HIGH_{vector}({pair})"
            lines.append(f"    {low}, {high};")
        now, after, step = after, now, 2 * step
    if now == "y":
        lines.append(f"    for (int m = 0; m < {count}; ++m) x[m] = y[m];")
    return lines
