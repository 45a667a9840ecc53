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

typedef uint32_t v16u32 __attribute__((vector_size(16), aligned(1), may_alias));

#define LOW_v16u32(a, b) __builtin_shufflevector(a, b, \
    0, 4, 1, 5)
#define HIGH_v16u32(a, b) __builtin_shufflevector(a, b, \
    2, 6, 3, 7)

/* 2 rows of 16 bytes at s, element by element. */
static inline void interleave_2_u32(char *restrict d, const char *restrict s, ptrdiff_t row)
{
#ifdef EQSAT_VECTORS
    v16u32 x[2], y[2];
    x[0] = *(const v16u32 *)(s + row * 0);
    x[1] = *(const v16u32 *)(s + row * 1);
    y[0] = LOW_v16u32(x[0], x[1]), y[1] = HIGH_v16u32(x[0], x[1]);
    *(v16u32 *)(d + 16 * 0) = y[0];
    *(v16u32 *)(d + 16 * 1) = y[1];
#else
    for (int k = 0; k < 4; ++k)
        for (int m = 0; m < 2; ++m)
            memcpy(d + 4 * (2 * k + m), s + row * m + 4 * k, 4);
#endif
}

/* reshape, permute_dims */
static void kernel_0(const float *restrict in0, float *restrict out0)
{
    {
        const char *s = (const char *)in0;
        char *d = (char *)out0;
        for (ptrdiff_t block = 0; block < 15; ++block) {
            const ptrdiff_t at = block * 512;
            const uint32_t *a = (const uint32_t *)(const void *)(s + 4 * at);
            uint32_t *restrict o = (uint32_t *)(void *)(d + 8 * at);
            for (ptrdiff_t k = 0; k < 2048; k += 16) {
                interleave_2_u32((char *)o + 2 * k, (const char *)a + k, 30720);
            }
        }
    }
}

static int overlap(const void *a, uintptr_t bytes, const void *b, uintptr_t size)
{
    return (uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + bytes;
}

int eqsat_program(const float *in_m, float *out_out, void *workspace)
{
    (void)workspace;
    if (!in_m || !out_out) return 1;
    if (((uintptr_t)in_m | (uintptr_t)out_out) % 4) return 2;
    if (overlap(out_out, 61440, in_m, 61440)) return 3;
    kernel_0(in_m, out_out);
    return 0;
}
