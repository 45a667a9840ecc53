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

typedef uint8_t v32u8 __attribute__((vector_size(32), aligned(1), may_alias));

/* 3 rows of 32 bytes at s, element by element. */
static inline void interleave_3_u8_32(char *restrict d, const char *restrict s, ptrdiff_t row)
{
#ifdef EQSAT_VECTORS
    v32u8 x[3], y[3];
    x[0] = *(const v32u8 *)(s + row * 0);
    x[1] = *(const v32u8 *)(s + row * 1);
    x[2] = *(const v32u8 *)(s + row * 2);
    y[0] = __builtin_shufflevector(x[0], x[0], 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5, 16, 27, 22, 17, 28, 23, 18, 29, 24, 19, 30, 25, 20, 31, 26, 21);
    y[1] = __builtin_shufflevector(x[1], x[1], 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 21, 16, 27, 22, 17, 28, 23, 18, 29, 24, 19, 30, 25, 20, 31, 26);
    y[2] = __builtin_shufflevector(x[2], x[2], 10, 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 26, 21, 16, 27, 22, 17, 28, 23, 18, 29, 24, 19, 30, 25, 20, 31);
    x[0] = __builtin_shufflevector(y[0], y[1], 0, 33, 2, 3, 36, 5, 6, 39, 8, 9, 42, 11, 12, 45, 14, 15, 16, 49, 18, 19, 52, 21, 22, 55, 24, 25, 58, 27, 28, 61, 30, 31);
    x[0] = __builtin_shufflevector(x[0], y[2], 0, 1, 34, 3, 4, 37, 6, 7, 40, 9, 10, 43, 12, 13, 46, 15, 16, 17, 50, 19, 20, 53, 22, 23, 56, 25, 26, 59, 28, 29, 62, 31);
    x[1] = __builtin_shufflevector(y[0], y[1], 32, 1, 2, 35, 4, 5, 38, 7, 8, 41, 10, 11, 44, 13, 14, 47, 48, 17, 18, 51, 20, 21, 54, 23, 24, 57, 26, 27, 60, 29, 30, 63);
    x[1] = __builtin_shufflevector(x[1], y[2], 0, 33, 2, 3, 36, 5, 6, 39, 8, 9, 42, 11, 12, 45, 14, 15, 16, 49, 18, 19, 52, 21, 22, 55, 24, 25, 58, 27, 28, 61, 30, 31);
    x[2] = __builtin_shufflevector(y[0], y[1], 0, 1, 34, 3, 4, 37, 6, 7, 40, 9, 10, 43, 12, 13, 46, 15, 16, 17, 50, 19, 20, 53, 22, 23, 56, 25, 26, 59, 28, 29, 62, 31);
    x[2] = __builtin_shufflevector(x[2], y[2], 32, 1, 2, 35, 4, 5, 38, 7, 8, 41, 10, 11, 44, 13, 14, 47, 48, 17, 18, 51, 20, 21, 54, 23, 24, 57, 26, 27, 60, 29, 30, 63);
    y[0] = __builtin_shufflevector(x[0], x[1], 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47);
    y[1] = __builtin_shufflevector(x[2], x[0], 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63);
    y[2] = __builtin_shufflevector(x[1], x[2], 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63);
    *(v32u8 *)(d + 32 * 0) = y[0];
    *(v32u8 *)(d + 32 * 1) = y[1];
    *(v32u8 *)(d + 32 * 2) = y[2];
#else
    for (int k = 0; k < 32; ++k)
        for (int m = 0; m < 3; ++m)
            memcpy(d + 1 * (3 * k + m), s + row * m + 1 * k, 1);
#endif
}

/* permute_dims */
static void kernel_0(const uint8_t *restrict in0, uint8_t *restrict out0)
{
    {
        const char *s = (const char *)in0;
        char *d = (char *)out0;
        for (ptrdiff_t i0 = 0; i0 < 2; ++i0) {
            const uint8_t *a = (const uint8_t *)(const void *)(s + 240 * i0);
            uint8_t *restrict o = (uint8_t *)(void *)(d + 240 * i0);
            for (ptrdiff_t k = 0; k < 80; k += 32) {
                const ptrdiff_t from = k > 48 ? 48 : k;
                interleave_3_u8_32((char *)o + 3 * from, (const char *)a + from, 80);
            }
        }
    }
}

static int overlap(const void *a, uintptr_t bytes, const void *b, uintptr_t size)
{
    return (uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + bytes;
}

int eqsat_program(const uint8_t *in_image, uint8_t *out_out, void *workspace)
{
    (void)workspace;
    if (!in_image || !out_out) return 1;
    if (overlap(out_out, 480, in_image, 480)) return 3;
    kernel_0(in_image, out_out);
    return 0;
}
