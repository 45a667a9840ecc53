"""Laws of bit operations on indices: masks and shifts by numbers are digits, the rest is the algebra of single bits.

An index has infinitely many bits (a negative one ends in ones), so every law holds for all integers; each bit of a
result depends on the same bit of the operands, so the laws that name no number are truth tables.
"""

from __future__ import annotations

from eqsat.ir.rule import Family, Idx, Num

RULES = Family("bit_ops")
rule = RULES.rule

WIDTHS = range(1, 33)


@rule("and-low-bits", tags=["normal"], cases=WIDTHS)
def and_low_bits(x: Idx, bits: int):
    """The low bits are a remainder by a power of two."""
    return x & ((1 << bits) - 1), x % (1 << bits)


@rule("shift-left", tags=["normal"], cases=(0, *WIDTHS))
def shift_left(x: Idx, bits: int):
    """Shifting to the left multiplies by a power of two."""
    return x << bits, (1 << bits) * x


@rule("shift-right", tags=["normal"], cases=(0, *WIDTHS))
def shift_right(x: Idx, bits: int):
    """Shifting to the right divides by a power of two, rounding down."""
    return x >> bits, x // (1 << bits)


@rule("bits-or-zero", tags=["normal"])
def bits_or_zero(x: Idx):
    """Zero adds no bit."""
    return x | 0, x


@rule("bits-xor-zero", tags=["normal"])
def bits_xor_zero(x: Idx):
    """Zero changes no bit."""
    return x ^ 0, x


@rule("bits-and-self", tags=["normal"])
def bits_and_self(x: Idx):
    """Intersection is idempotent."""
    return x & x, x


@rule("bits-or-self", tags=["normal"])
def bits_or_self(x: Idx):
    """Union is idempotent."""
    return x | x, x


@rule("bits-xor-self", tags=["normal"])
def bits_xor_self(x: Idx):
    """The bits of x differ nowhere from those of x."""
    return x ^ x, 0


@rule("bits-xor-cancel", tags=["normal"])
def bits_xor_cancel(x: Idx, y: Idx):
    """Changing the same bits twice changes nothing: an xor swizzle is its own inverse."""
    return (x ^ y) ^ y, x


@rule("bits-and-and", tags=["normal"])
def bits_and_and(x: Idx, a: Num, b: Num):
    """Two masks are one."""
    return (x & a) & b, x & (a & b)


@rule("bits-or-or", tags=["normal"])
def bits_or_or(x: Idx, a: Num, b: Num):
    """Bits set twice are set once."""
    return (x | a) | b, x | (a | b)


@rule("bits-xor-xor", tags=["normal"])
def bits_xor_xor(x: Idx, a: Num, b: Num):
    """Two changes of bits are one."""
    return (x ^ a) ^ b, x ^ (a ^ b)


@rule("bits-and-absorbs", tags=["normal"])
def bits_and_absorbs(x: Idx, y: Idx):
    """Intersection absorbs a union with the same value."""
    return x & (x | y), x


@rule("bits-or-absorbs", tags=["normal"])
def bits_or_absorbs(x: Idx, y: Idx):
    """Union absorbs an intersection with the same value."""
    return x | (x & y), x


@rule("bits-xor-mod", tags=["normal"], cases=WIDTHS)
def bits_xor_mod(x: Idx, y: Idx, bits: int):
    """The low bits of a xor are the xor of the low bits."""
    return (x ^ y) % (1 << bits), (x % (1 << bits)) ^ (y % (1 << bits))


@rule("bits-xor-div", tags=["normal"], cases=WIDTHS)
def bits_xor_div(x: Idx, y: Idx, bits: int):
    """The high bits of a xor are the xor of the high bits."""
    return (x ^ y) // (1 << bits), (x // (1 << bits)) ^ (y // (1 << bits))


@rule("bits-xor-mod-joined", tags=["finish"], cases=WIDTHS)
def bits_xor_mod_joined(x: Idx, y: Idx, bits: int):
    """The xor of low bits is the low bits of the xor."""
    return (x % (1 << bits)) ^ (y % (1 << bits)), (x ^ y) % (1 << bits)


@rule("bits-xor-div-joined", tags=["finish"], cases=WIDTHS)
def bits_xor_div_joined(x: Idx, y: Idx, bits: int):
    """The xor of high bits is the high bits of the xor."""
    return (x // (1 << bits)) ^ (y // (1 << bits)), (x ^ y) // (1 << bits)
