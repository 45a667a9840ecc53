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

#define STREAM_BYTES 32
#ifdef EQSAT_VECTORS
typedef long long stream_line __attribute__((vector_size(32)));
typedef long long stream_any __attribute__((vector_size(32), aligned(1), may_alias));
#endif
/* Streaming stores go to memory past the caches; FENCE orders them before what follows. */
#if defined(EQSAT_VECTORS) && defined(__clang__)
#define STREAM(d, v) __builtin_nontemporal_store((v), (stream_line *)(void *)(d))
#elif defined(EQSAT_VECTORS) && defined(__AVX512F__) && STREAM_BYTES == 64
#define STREAM(d, v) __builtin_ia32_movntdq512((long long __attribute__((vector_size(64))) *)(void *)(d), (v))
#elif defined(EQSAT_VECTORS) && defined(__AVX__) && STREAM_BYTES == 32
#define STREAM(d, v) __builtin_ia32_movntdq256((long long __attribute__((vector_size(32))) *)(void *)(d), (v))
#elif defined(EQSAT_VECTORS) && defined(__SSE2__) && STREAM_BYTES == 16
#define STREAM(d, v) __builtin_ia32_movntdq((long long __attribute__((vector_size(16))) *)(void *)(d), (v))
#endif
#if defined(STREAM) && defined(__SSE2__)
#define FENCE() __builtin_ia32_sfence()
#else
#define FENCE() ((void)0)
#endif
#ifdef STREAM
#define STREAM_LINE(d, s) do { const stream_line v0 = *(const stream_any *)((s) + 0), v32 = *(const stream_any *)((s) + 32); \
    STREAM((d) + 0, v0); STREAM((d) + 32, v32); } while (0)
#else
#define STREAM_LINE(d, s) memcpy((d), (s), 64)
#endif

/* A run of n >= 64 bytes to d, behind runs that `line` remembers the end of unless it is the first.
   Lines leave whole: one that two runs share is put together in `line`, which has 64 bytes to spare on both sides. */
static inline void stream_next(char *restrict d, const char *restrict s, ptrdiff_t n, char *restrict line, int first)
{
    const ptrdiff_t shared = (ptrdiff_t)((uintptr_t)d & 63);
    if (shared != 0) {
        const ptrdiff_t rest = 64 - shared;
        if (first) {
            memcpy(d, s, (size_t)rest);
        } else {
            memcpy(line + shared, s, 64);
            STREAM_LINE(d - shared, line);
        }
        d += rest, s += rest, n -= rest;
    }
    for (; n >= 64; n -= 64, d += 64, s += 64) STREAM_LINE(d, s);
    if (n > 0) memcpy(line + n - 64, s + n - 64, 64);
}

/* permute_dims */
static void kernel_0(const eqsat_half *restrict in0, eqsat_half *restrict out0)
{
    {
        const char *s = (const char *)in0;
        char *d = (char *)out0;
        for (ptrdiff_t i0 = 0; i0 < 2; ++i0) {
            for (ptrdiff_t i1 = 0; i1 < 3; ++i1) {
                char *const start = d + 9408 * i0 + 3136 * i1;
                char line[192] __attribute__((aligned(64)));
                for (ptrdiff_t i2 = 0; i2 < 49; ++i2)
                    {
                        __builtin_prefetch(s + 9408 * i0 + 64 * i1 + 192 * i2 + 64);
                        stream_next(start + 64 * i2, s + 9408 * i0 + 64 * i1 + 192 * i2, 64, line + 64, i2 == 0);
                    }
                const size_t held = (size_t)((uintptr_t)(start + 3136) & 63);
                if (held != 0) memcpy(start + 3136 - held, line + 64, held);
            }
        }
    }
    FENCE();
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
