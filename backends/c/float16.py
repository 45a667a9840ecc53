"""binary16 numbers in C: their bits, and conversions without branches, which compilers turn into vectors.

Rounding is to nearest, ties to even; subnormal numbers, infinities and the upper bits of a NaN are kept. A double goes
through a float rounded to odd, from which rounding again gives what rounding once would.
"""

from __future__ import annotations

HALF_TYPE = """#ifndef EQSAT_HALF
#define EQSAT_HALF
typedef uint16_t eqsat_half; /* the bits of an IEEE 754 binary16 number */
#endif"""

HALF = (
    "#include <string.h>\n"
    + HALF_TYPE
    + r"""
#ifdef __GNUC__
#define EQSAT_UNUSED __attribute__((unused)) /* of these functions a program may need some only */
#else
#define EQSAT_UNUSED
#endif
static inline uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}
static inline float bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
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
