#include <math.h>
#include <stdint.h>
#include <string.h>
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
#ifndef EQSAT_HALF
#define EQSAT_HALF
typedef uint16_t eqsat_half; /* the bits of an IEEE 754 binary16 number */
#endif
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

/* cast, sub, div, permute_dims, cast */
static void kernel_0(const uint8_t *restrict in0, eqsat_half *restrict out0)
{
    for (int32_t i0 = 0; i0 < 3; ++i0) {
        for (int32_t i1 = 0; i1 < 24; ++i1) {
            out0[24 * i0 + i1] = float_to_half(((float)in0[3 * i1 + i0] - 127.5f) / 255.0f);
        }
    }
}

static int overlap(const void *a, uintptr_t bytes, const void *b, uintptr_t size)
{
    return (uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + bytes;
}

int eqsat_program(const uint8_t *in_image, eqsat_half *out_y, void *workspace)
{
    (void)workspace;
    if (!in_image || !out_y) return 1;
    if ((uintptr_t)out_y % 2) return 2;
    if (overlap(out_y, 144, in_image, 72)) return 3;
    kernel_0(in_image, out_y);
    return 0;
}
