"""Copies and fills as statements: by ordinary stores, by non-temporal stores, backwards."""

from __future__ import annotations

from eqsat.backends.c.nest import Text, local
from eqsat.backends.c.vector import (
    NT_APPEND,
    NT_COPY,
    copy_name,
    define_block_copies,
    define_copy,
    define_long_copy,
    define_nontemporal,
    define_type,
    vector_type,
)
from eqsat.backends.machine import BLOCK, LINE
from eqsat.ir.dtypes import to_bits
from eqsat.ir.terms.term import Term, const_value

STRAIGHT = 512
"""Copies of at most so many bytes are straight lines of vector moves: 16 of 32 bytes."""
LOOP = 16 << 10
"""Copies of at most so many bytes are loops of vector moves; memcpy takes longer to start. Measured."""
APPEND_BUFFER = local(f"char line[{3 * LINE}]", 3 * LINE)
"""Declares the line that nt_append puts together, with a line to spare on both sides: it begins at APPEND_LINE."""
APPEND_LINE = f"line + {LINE}"


def bits_of(value: Term) -> int:
    """The bits of a constant."""
    return to_bits(const_value(value), value.dtype)


def emit_copy(text: Text, d: str, s: str, nbytes: int, vector: int) -> None:
    """A copy of a known number of bytes."""
    if nbytes > LOOP:
        text.add(f"memcpy({d}, {s}, {nbytes});")
        return
    if nbytes > STRAIGHT:
        text.pieces["blocks"] = define_block_copies(vector)
        text.pieces["copy_long"] = define_long_copy(vector)
        text.add(f"copy_long({d}, {s}, {nbytes});")
        return
    text.pieces["blocks"] = define_block_copies(vector)
    text.pieces[copy_name(nbytes)] = define_copy(nbytes, vector)
    text.add(f"{copy_name(nbytes)}({d}, {s});")


def define_nt_copy(text: Text, vector: int) -> None:
    """Add the function nt_copy, which writes whole cache lines by non-temporal stores, and what it needs before it."""
    text.pieces["nontemporal"] = define_nontemporal(vector)
    text.pieces["nt_copy"] = NT_COPY


def emit_nt_copy(text: Text, d: str, s: str, nbytes: int, vector: int) -> None:
    """A copy of a known number of bytes by that function."""
    define_nt_copy(text, vector)
    text.add(f"nt_copy({d}, {s}, {nbytes});")


def emit_append(text: Text, d: str, s: str, nbytes: int | str, line: str, first: str, vector: int) -> None:
    """The same to d, behind other copies, the end of which `line` holds unless this is the `first`."""
    text.pieces["nontemporal"] = define_nontemporal(vector)
    text.pieces["nt_append"] = NT_APPEND
    text.add(f"nt_append({d}, {s}, {nbytes}, {line}, {first});")


def append_end(text: Text, total: int) -> None:
    """What is left of `total` bytes from `start` on, less than a line, after the last of such copies."""
    text.add(f"const size_t held = (size_t)((uintptr_t)(start + {total}) & {LINE - 1});")
    text.add(f"if (held != 0) memcpy(start + {total} - held, {APPEND_LINE}, held);")


def emit_reverse(text: Text, d: str, s: str, count: int, size: int, vector: int) -> None:
    """A copy of `count` elements that begin at s, the last one first."""
    width = vector
    while width > BLOCK and width > count * size:
        width //= 2
    lanes, kind = width // size, vector_type(width, size)
    name = f"reverse_u{8 * size}_{width}"
    order = ", ".join(str(k) for k in range(lanes - 1, -1, -1))
    text.pieces[f"type {width} {size}"] = define_type(width, size)
    text.pieces[name] = (
        f"#define REVERSED_{kind}(x) __builtin_shufflevector(x, x, {order})\n"
        f"static inline void {name}(char *restrict d, const char *restrict s, ptrdiff_t n)\n{{\n"
        "    ptrdiff_t k = 0;\n"
        "#ifdef EQSAT_VECTORS\n"
        f"    for (; k + {lanes} <= n; k += {lanes})\n"
        f"        *({kind} *)(d + {size} * k) = REVERSED_{kind}(*(const {kind} *)(s + {size} * (n - {lanes} - k)));\n"
        f"    if (k < n && n >= {lanes})\n"
        f"        *({kind} *)(d + {size} * (n - {lanes})) = REVERSED_{kind}(*(const {kind} *)s), k = n;\n"
        "#endif\n"
        f"    for (; k < n; ++k) memcpy(d + {size} * k, s + {size} * (n - 1 - k), {size});\n}}"
    )
    text.add(f"{name}({d}, {s}, {count});")


def emit_fill(text: Text, d: str, count: int, size: int, bits: int) -> None:
    """`count` elements of one value, given by its bits."""
    pattern = bits.to_bytes(size, "little")
    if len(set(pattern)) == 1:
        text.add(f"memset({d}, {pattern[0]}, {count * size});")
        return
    name, kind = f"fill_{8 * size}", f"uint{8 * size}_t"
    text.pieces[name] = (
        f"static inline void {name}(char *d, ptrdiff_t n, {kind} value)\n{{\n"
        f"    for (ptrdiff_t k = 0; k < n; ++k) memcpy(d + {size} * k, &value, {size});\n}}"
    )
    text.add(f"{name}({d}, {count}, {bits:#x}u{'ll' if size == 8 else ''});")
