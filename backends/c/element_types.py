"""Types of elements that C lacks: binary16 and bfloat16 by their bits, complex numbers as pairs.

Conversions have no branches, so that compilers turn them into vectors. Rounding is to nearest, ties to even; subnormal
numbers, infinities and the upper bits of a NaN are kept; a NaN that becomes a bfloat16 is the usual one of its sign. A
double goes to binary16 through a float rounded to odd, from which rounding again gives what rounding once would; to
bfloat16 through a float, as ml_dtypes does it.
"""

from __future__ import annotations

from collections.abc import Collection

HALF_TYPE = """#ifndef EQSAT_HALF
#define EQSAT_HALF
typedef uint16_t eqsat_half; /* the bits of an IEEE 754 binary16 number */
#endif"""

BFLOAT16_TYPE = """#ifndef EQSAT_BFLOAT16
#define EQSAT_BFLOAT16
typedef uint16_t eqsat_bfloat16; /* the upper half of the bits of an IEEE 754 binary32 number */
#endif"""


def _complex_type(bits: int, part: str) -> str:
    name = f"EQSAT_COMPLEX{bits}"
    return f"#ifndef {name}\n#define {name}\ntypedef struct {{\n    {part} re, im;\n}} {name.lower()};\n#endif"


TYPES = {
    "float16": HALF_TYPE,
    "bfloat16": BFLOAT16_TYPE,
    "complex64": _complex_type(64, "float"),
    "complex128": _complex_type(128, "double"),
}
"""The definitions of the types, by dtype; each in a guard, for headers have them too."""
TYPE_NAMES = frozenset(f"eqsat_{n}" for n in ("half", "halves", "floats", "bfloat16", "complex64", "complex128"))
"""The names of types that a unit may define, which no function of it can have."""

BITS = r"""#include <string.h>
#ifdef __GNUC__
#define EQSAT_UNUSED __attribute__((unused)) /* of these functions a program may need some only */
#else
#define EQSAT_UNUSED
#endif
EQSAT_UNUSED static inline uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}
EQSAT_UNUSED static inline float bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
"""

BFLOAT16 = (
    BFLOAT16_TYPE
    + r"""
EQSAT_UNUSED static inline float bfloat16_to_float(eqsat_bfloat16 b)
{
    return bits_float((uint32_t)b << 16);
}
EQSAT_UNUSED static inline eqsat_bfloat16 float_to_bfloat16(float x)
{
    const uint32_t all = float_bits(x), usual = (all + 0x7fffu + (all >> 16 & 1u)) >> 16;
    return (eqsat_bfloat16)((all & 0x7fffffffu) > 0x7f800000u ? (all >> 16 & 0x8000u) | 0x7fc0u : usual);
}
"""
)

HALF = (
    HALF_TYPE
    + r"""
EQSAT_UNUSED static inline float half_to_float(eqsat_half h)
{
    const uint32_t places = (uint32_t)(h & 0x7fff) << 13, exponent = places & 0x0f800000u;
    const uint32_t shifted = places + 0x38000000u + (exponent == 0x0f800000u ? 0x38000000u : 0u);
    const uint32_t least = float_bits(bits_float(shifted + 0x00800000u) - 0x1p-14f); /* zero or subnormal */
    return bits_float((exponent == 0 ? least : shifted) | (uint32_t)(h & 0x8000) << 16);
}
EQSAT_UNUSED static inline eqsat_half float_to_half(float x)
{
    const uint32_t all = float_bits(x), a = all & 0x7fffffffu;
    const uint32_t usual = (a - 0x38000000u + 0x0fffu + (a >> 13 & 1u)) >> 13;
    const uint32_t least = float_bits(bits_float(a) + 0.5f) - 0x3f000000u; /* the sum is rounded at 2^-24 */
    const uint32_t beyond = a > 0x7f800000u ? 0x7e00u | (a >> 13 & 0x03ffu) : 0x7c00u;
    const uint32_t finite = a < 0x38800000u ? least : usual;
    return (eqsat_half)((a >= 0x47800000u ? beyond : finite) | (all >> 16 & 0x8000u));
}
EQSAT_UNUSED static inline float double_to_odd(double x)
{
    const float near = (float)x;
    const uint32_t bits = float_bits(near), odd = (fabs((double)near) > fabs(x) ? bits - 1u : bits) | 1u;
    return bits_float((double)near != x ? odd : bits);
}
EQSAT_UNUSED static inline eqsat_half double_to_half(double x)
{
    return float_to_half(double_to_odd(x));
}
"""
)

HALF_ROWS = r"""/* Rows of halves and floats, eight at a time where the processor converts them. */
#if defined(__F16C__) && defined(__GNUC__) && !defined(EQSAT_PLAIN_LOOPS)
#define EQSAT_F16C 1
typedef float eqsat_floats __attribute__((vector_size(32), aligned(4), may_alias));
#ifdef __clang__
typedef __fp16 eqsat_halves __attribute__((vector_size(16), aligned(2), may_alias));
#define EQSAT_WIDE(h) __builtin_convertvector(h, eqsat_floats)
#define EQSAT_NARROW(f) __builtin_convertvector(f, eqsat_halves)
#else
typedef short eqsat_halves __attribute__((vector_size(16), aligned(2), may_alias));
#define EQSAT_WIDE(h) __builtin_ia32_vcvtph2ps256(h)
#define EQSAT_NARROW(f) __builtin_ia32_vcvtps2ph256(f, 0)
#endif
#endif
EQSAT_UNUSED static inline void halves_to_floats(float *restrict d, const eqsat_half *restrict s, int n)
{
    int k = 0;
#ifdef EQSAT_F16C
    for (; k <= n - 8; k += 8) *(eqsat_floats *)(d + k) = EQSAT_WIDE(*(const eqsat_halves *)(s + k));
    if (k < n) {
        eqsat_half part[8] = {0};
        memcpy(part, s + k, (size_t)(n - k) * 2);
        const eqsat_floats all = EQSAT_WIDE(*(const eqsat_halves *)part);
        memcpy(d + k, &all, (size_t)(n - k) * 4);
    }
#else
    for (; k < n; ++k) d[k] = half_to_float(s[k]);
#endif
}
EQSAT_UNUSED static inline void floats_to_halves(eqsat_half *restrict d, const float *restrict s, int n)
{
    int k = 0;
#ifdef EQSAT_F16C
    for (; k <= n - 8; k += 8) *(eqsat_halves *)(d + k) = EQSAT_NARROW(*(const eqsat_floats *)(s + k));
    if (k < n) {
        float part[8] = {0};
        memcpy(part, s + k, (size_t)(n - k) * 4);
        const eqsat_halves all = EQSAT_NARROW(*(const eqsat_floats *)part);
        memcpy(d + k, &all, (size_t)(n - k) * 2);
    }
#else
    for (; k < n; ++k) d[k] = float_to_half(s[k]);
#endif
}
EQSAT_UNUSED static inline void round_to_halves(float *d, int n)
{
    int k = 0;
#ifdef EQSAT_F16C
    for (; k <= n - 8; k += 8) *(eqsat_floats *)(d + k) = EQSAT_WIDE(EQSAT_NARROW(*(const eqsat_floats *)(d + k)));
    if (k < n) {
        float part[8] = {0};
        memcpy(part, d + k, (size_t)(n - k) * 4);
        const eqsat_floats all = EQSAT_WIDE(EQSAT_NARROW(*(const eqsat_floats *)part));
        memcpy(d + k, &all, (size_t)(n - k) * 4);
    }
#else
    for (; k < n; ++k) d[k] = half_to_float(float_to_half(d[k]));
#endif
}"""


def definitions(text: str, dtypes: Collection[str]) -> str:
    """What stands before a text of C whose buffers have these types: the types, and functions where it calls them."""
    parts: list[str] = []
    half = "float16" in dtypes or any(word in text for word in ("_half", "half_"))
    brain = "bfloat16" in dtypes or "bfloat16" in text
    if half or brain:
        parts += [
            BITS.rstrip("\n"),
            *([HALF.rstrip("\n")] if half else []),
            *([BFLOAT16.rstrip("\n")] if brain else []),
        ]
    parts += [TYPES[name] for name in ("complex64", "complex128") if name in dtypes]
    return "\n".join(parts)


def declarations(dtypes: Collection[str]) -> list[str]:
    """The definitions of the types among `dtypes` that C lacks, for a header."""
    return [text for name, text in TYPES.items() if name in dtypes]
