#include <math.h>
#include <stdint.h>

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

/* Byte k of d is byte k ^ mask of s: in blocks of 16 bytes, whose bytes all change places alike. */
static inline void swizzle_bytes(char *restrict d, const char *restrict s, ptrdiff_t n, ptrdiff_t mask)
{
    ptrdiff_t k = 0;
#if defined(EQSAT_VECTORS) && (defined(__SSSE3__) || !defined(__clang__))
    typedef char bytes __attribute__((vector_size(16)));
    typedef char any_bytes __attribute__((vector_size(16), aligned(1), may_alias));
    const bytes places = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, order = places ^ (char)(mask & 15);
    const ptrdiff_t block = mask & ~(ptrdiff_t)15;
    for (; k <= n - 16; k += 16) {
        const bytes x = *(const any_bytes *)(s + (k ^ block));
#ifdef __SSSE3__
        *(any_bytes *)(d + k) = __builtin_ia32_pshufb128(x, order);
#else
        *(any_bytes *)(d + k) = __builtin_shuffle(x, order);
#endif
    }
#endif
    for (; k < n; ++k) d[k] = s[k ^ mask];
}

/* compute */
static void kernel_0(const uint8_t *restrict in0, uint8_t *restrict out0)
{
    for (int32_t i0 = 0; i0 < 32; ++i0) {
        swizzle_bytes((char *)(out0 + 64 * i0), (const char *)(in0 + 64 * i0), 64, i0);
    }
    for (int32_t i0 = 0; i0 < 8; ++i0) {
        swizzle_bytes((char *)(out0 + 64 * i0 + 2048), (const char *)(in0 + 64 * i0 + 2048), 64, i0);
    }
}

static int overlap(const void *a, uintptr_t bytes, const void *b, uintptr_t size)
{
    return (uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + bytes;
}

int eqsat_program(const uint8_t *in_bits, uint8_t *out_y, void *workspace)
{
    (void)workspace;
    if (!in_bits || !out_y) return 1;
    if (overlap(out_y, 2560, in_bits, 2560)) return 3;
    kernel_0(in_bits, out_y);
    return 0;
}
