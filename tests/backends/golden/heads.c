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


#include <stddef.h>
#include <string.h>
#if defined(__has_builtin) && defined(__GNUC__) && !defined(EQSAT_PLAIN_LOOPS)
#if __has_builtin(__builtin_shufflevector)
#define EQSAT_VECTORS 1 /* vectors of fixed width, wherever they lie in memory */
#endif
#endif

#ifdef EQSAT_VECTORS
typedef long long block16 __attribute__((vector_size(16), aligned(1), may_alias));
#define C16(d, s) (*(block16 *)(d) = *(const block16 *)(s))
typedef long long block32 __attribute__((vector_size(32), aligned(1), may_alias));
#define C32(d, s) (*(block32 *)(d) = *(const block32 *)(s))
#else
#define C16(d, s) memcpy(d, s, 16)
#define C32(d, s) memcpy(d, s, 32)
#endif

static inline void copy_64(char *restrict d, const char *restrict s)
{
    C32(d + 0, s + 0); C32(d + 32, s + 32);
}

/* permute_dims */
static void kernel_0(const eqsat_half *restrict in0, eqsat_half *restrict out0)
{
    {
        const char *s = (const char *)in0;
        char *d = (char *)out0;
        for (ptrdiff_t i0 = 0; i0 < 2; ++i0) {
            for (ptrdiff_t i1 = 0; i1 < 49; ++i1) {
                for (ptrdiff_t i2 = 0; i2 < 3; ++i2) {
                    copy_64(d + 9408 * i0 + 64 * i1 + 3136 * i2, s + 9408 * i0 + 192 * i1 + 64 * i2);
                }
            }
        }
    }
}

static int overlap(const void *a, uintptr_t bytes, const void *b, uintptr_t size)
{
    return (uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + bytes;
}

int eqsat_program(const eqsat_half *in_h, eqsat_half *out_out, void *workspace)
{
    (void)workspace;
    if (!in_h || !out_out) return 1;
    if (((uintptr_t)in_h | (uintptr_t)out_out) % 2) return 2;
    if (overlap(out_out, 18816, in_h, 18816)) return 3;
    kernel_0(in_h, out_out);
    return 0;
}
