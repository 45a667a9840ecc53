#include <math.h>
#include <stdint.h>

#include <stddef.h>
#include <string.h>
#if defined(__has_builtin) && defined(__GNUC__) && !defined(EQSAT_PLAIN_LOOPS)
#if __has_builtin(__builtin_shufflevector)
#define EQSAT_VECTORS 1 /* vectors of fixed width, wherever they lie in memory */
#endif
#endif

typedef uint8_t v16u8 __attribute__((vector_size(16), aligned(1), may_alias));

/* 3 rows of 16 bytes at s, element by element. */
static inline void braid_3_u8(char *restrict d, const char *restrict s, ptrdiff_t row)
{
#ifdef EQSAT_VECTORS
    v16u8 x[3], y[3];
    for (int m = 0; m < 3; ++m) x[m] = *(const v16u8 *)(s + row * m);
    y[0] = __builtin_shufflevector(x[0], x[0], 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10, 5);
    y[1] = __builtin_shufflevector(x[1], x[1], 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15, 10);
    y[2] = __builtin_shufflevector(x[2], x[2], 10, 5, 0, 11, 6, 1, 12, 7, 2, 13, 8, 3, 14, 9, 4, 15);
    x[0] = __builtin_shufflevector(y[0], y[1], 0, 17, 2, 3, 20, 5, 6, 23, 8, 9, 26, 11, 12, 29, 14, 15);
    x[0] = __builtin_shufflevector(x[0], y[2], 0, 1, 18, 3, 4, 21, 6, 7, 24, 9, 10, 27, 12, 13, 30, 15);
    x[1] = __builtin_shufflevector(y[0], y[1], 16, 1, 2, 19, 4, 5, 22, 7, 8, 25, 10, 11, 28, 13, 14, 31);
    x[1] = __builtin_shufflevector(x[1], y[2], 0, 17, 2, 3, 20, 5, 6, 23, 8, 9, 26, 11, 12, 29, 14, 15);
    x[2] = __builtin_shufflevector(y[0], y[1], 0, 1, 18, 3, 4, 21, 6, 7, 24, 9, 10, 27, 12, 13, 30, 15);
    x[2] = __builtin_shufflevector(x[2], y[2], 16, 1, 2, 19, 4, 5, 22, 7, 8, 25, 10, 11, 28, 13, 14, 31);
    for (int m = 0; m < 3; ++m) *(v16u8 *)(d + 16 * m) = x[m];
#else
    for (int k = 0; k < 16; ++k)
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
            for (ptrdiff_t k = 0; k < 80; k += 16) {
                braid_3_u8((char *)o + 3 * k, (const char *)a + k, 80);
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
