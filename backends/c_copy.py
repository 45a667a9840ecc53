"""Copies and fills of a known length, as statements."""

from __future__ import annotations

from eqsat.backends.c_nest import Text
from eqsat.backends.c_vector import copy_name, define_block_copies, define_copy
from eqsat.ir.dtypes import to_bits
from eqsat.ir.term import Term, const_value

STRAIGHT = 512
"""Copies of at most so many bytes are straight lines of vector moves."""


def bits_of(value: Term) -> int:
    """The bits of a constant."""
    return to_bits(const_value(value), value.dtype)


def emit_copy(text: Text, d: str, s: str, nbytes: int, vector: int) -> None:
    """A copy of a known number of bytes."""
    if nbytes > STRAIGHT:
        text.add(f"memcpy({d}, {s}, {nbytes});")
        return
    text.pieces["blocks"] = define_block_copies(vector)
    text.pieces[copy_name(nbytes)] = define_copy(nbytes, vector)
    text.add(f"{copy_name(nbytes)}({d}, {s});")


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
