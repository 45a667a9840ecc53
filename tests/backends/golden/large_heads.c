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

#ifdef __clang__
#pragma clang diagnostic ignored "-Wunused-function" /* a processor may need some of these functions only */
#endif

#include <stddef.h>
#include <string.h>
#if defined(__has_builtin) && defined(__GNUC__) && !defined(EQSAT_PLAIN_LOOPS)
#if __has_builtin(__builtin_shufflevector)
#define EQSAT_VECTORS 1 /* vectors of fixed width, wherever they lie in memory */
#endif
#endif

#define NT_BYTES 32
#ifdef EQSAT_VECTORS
typedef long long nt_line __attribute__((vector_size(32)));
typedef long long nt_any __attribute__((vector_size(32), aligned(1), may_alias));
#endif
/* Non-temporal stores go to memory past the caches; FENCE orders them before what follows. */
#if defined(EQSAT_VECTORS) && defined(__clang__)
#define NT_STORE(d, v) __builtin_nontemporal_store((v), (nt_line *)(void *)(d))
#elif defined(EQSAT_VECTORS) && defined(__AVX512F__) && NT_BYTES == 64
#define NT_STORE(d, v) __builtin_ia32_movntdq512((long long __attribute__((vector_size(64))) *)(void *)(d), (v))
#elif defined(EQSAT_VECTORS) && defined(__AVX__) && NT_BYTES == 32
#define NT_STORE(d, v) __builtin_ia32_movntdq256((long long __attribute__((vector_size(32))) *)(void *)(d), (v))
#elif defined(EQSAT_VECTORS) && defined(__SSE2__) && NT_BYTES == 16
#define NT_STORE(d, v) __builtin_ia32_movntdq((long long __attribute__((vector_size(16))) *)(void *)(d), (v))
#endif
#if defined(NT_STORE) && defined(__SSE2__)
#define FENCE() __builtin_ia32_sfence()
#else
#define FENCE() ((void)0)
#endif
#ifdef NT_STORE
#define NT_STORE_LINE(d, s) do { const nt_line v0 = *(const nt_any *)((s) + 0), v32 = *(const nt_any *)((s) + 32); \
    NT_STORE((d) + 0, v0); NT_STORE((d) + 32, v32); } while (0)
#else
#define NT_STORE_LINE(d, s) memcpy((d), (s), 64)
#endif

/* A run of n >= 64 bytes to d, behind runs that `line` remembers the end of unless it is the first.
   Lines leave whole: one that two runs share is put together in `line`, which has 64 bytes to spare on both sides. */
static inline void nt_append(char *restrict d, const char *restrict s, ptrdiff_t n, char *restrict line, int first)
{
    const ptrdiff_t shared = (ptrdiff_t)((uintptr_t)d & 63);
    if (shared != 0) {
        const ptrdiff_t rest = 64 - shared;
        if (first) {
            memcpy(d, s, (size_t)rest);
        } else {
            memcpy(line + shared, s, 64);
            NT_STORE_LINE(d - shared, line);
        }
        d += rest, s += rest, n -= rest;
    }
    for (; n >= 64; n -= 64, d += 64, s += 64) NT_STORE_LINE(d, s);
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
                char line[192] __attribute__((aligned(256)));
                for (ptrdiff_t i2 = 0; i2 < 49; ++i2)
                    {
                        __builtin_prefetch(s + 9408 * i0 + 64 * i1 + 192 * i2 + 64);
                        nt_append(start + 64 * i2, s + 9408 * i0 + 64 * i1 + 192 * i2, 64, line + 64, i2 == 0);
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
