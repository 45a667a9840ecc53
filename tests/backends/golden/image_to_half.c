#include <math.h>
#include <stdint.h>

#ifndef EQSAT_HALF
#define EQSAT_HALF
#if defined(__FLT16_MANT_DIG__) && !defined(EQSAT_SOFT_HALF) && !defined(__cplusplus)
typedef _Float16 eqsat_half;
#else
typedef uint16_t eqsat_half;
#endif
#endif
#if defined(__FLT16_MANT_DIG__) && !defined(EQSAT_SOFT_HALF)
#define HALF(value, bits) value
static inline float half_to_float(eqsat_half h) { return (float)h; }
static inline eqsat_half double_to_half(double x) { return (eqsat_half)x; }
static inline eqsat_half float_to_half(float x) { return (eqsat_half)x; }
#else /* binary16 in software, rounding to nearest, ties to even */
#define HALF(value, bits) bits
static inline float half_to_float(eqsat_half h)
{
    const int exponent = (h >> 10) & 31, mantissa = h & 1023;
    const float sign = (h >> 15) != 0 ? -1.0f : 1.0f;
    if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexpf((float)mantissa, -24);
    return sign * ldexpf((float)(mantissa + 1024), exponent - 25);
}
static inline eqsat_half double_to_half(double x)
{
    const unsigned sign = signbit(x) != 0 ? 0x8000u : 0u;
    double a = fabs(x);
    int exponent;
    if (isnan(x)) return (eqsat_half)0x7e00u;
    if (a >= 65520.0) return (eqsat_half)(sign | 0x7c00u);
    if (a < 0x1p-14) return (eqsat_half)(sign | (unsigned)rint(a * 0x1p24));
    a = frexp(a, &exponent);
    return (eqsat_half)(sign | (unsigned)((int)rint(a * 2048.0) - 1024 + (exponent + 14) * 1024));
}
static inline eqsat_half float_to_half(float x) { return double_to_half((double)x); }
#endif


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
