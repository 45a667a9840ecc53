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

typedef uint8_t v16u8 __attribute__((vector_size(16), aligned(1), may_alias));

#define LOW_v16u8(a, b) __builtin_shufflevector(a, b, \
    0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_v16u8(a, b) __builtin_shufflevector(a, b, \
    8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)

/* 16 rows of 16 elements at s become 16 rows of 16 at d. */
static inline void transpose_u8_16x16_0to3or0(const char *restrict s, ptrdiff_t row, char *restrict d, ptrdiff_t column)
{
#ifdef EQSAT_VECTORS
    v16u8 x[16], y[16];
    static const v16u8 fill = {0x0u, 0x0u, 0x0u, 0x0u, 0x0u, 0x0u, 0x0u, 0x0u, 0x0u, 0x0u, 0x0u, 0x0u, 0x0u, 0x0u, 0x0u, 0x0u};
    x[0] = *(const v16u8 *)(s + row * (0));
    x[1] = *(const v16u8 *)(s + row * (1));
    x[2] = *(const v16u8 *)(s + row * (2));
    x[3] = *(const v16u8 *)&fill;
    x[4] = *(const v16u8 *)&fill;
    x[5] = *(const v16u8 *)&fill;
    x[6] = *(const v16u8 *)&fill;
    x[7] = *(const v16u8 *)&fill;
    x[8] = *(const v16u8 *)&fill;
    x[9] = *(const v16u8 *)&fill;
    x[10] = *(const v16u8 *)&fill;
    x[11] = *(const v16u8 *)&fill;
    x[12] = *(const v16u8 *)&fill;
    x[13] = *(const v16u8 *)&fill;
    x[14] = *(const v16u8 *)&fill;
    x[15] = *(const v16u8 *)&fill;
    for (int m = 0; m < 8; ++m) y[2 * m] = LOW_v16u8(x[m], x[m + 8]), y[2 * m + 1] = HIGH_v16u8(x[m], x[m + 8]);
    for (int m = 0; m < 8; ++m) x[2 * m] = LOW_v16u8(y[m], y[m + 8]), x[2 * m + 1] = HIGH_v16u8(y[m], y[m + 8]);
    for (int m = 0; m < 8; ++m) y[2 * m] = LOW_v16u8(x[m], x[m + 8]), y[2 * m + 1] = HIGH_v16u8(x[m], x[m + 8]);
    for (int m = 0; m < 8; ++m) x[2 * m] = LOW_v16u8(y[m], y[m + 8]), x[2 * m + 1] = HIGH_v16u8(y[m], y[m + 8]);
    *(v16u8 *)(d + column * (0)) = x[0];
    *(v16u8 *)(d + column * (1)) = x[1];
    *(v16u8 *)(d + column * (2)) = x[2];
    *(v16u8 *)(d + column * (3)) = x[3];
    *(v16u8 *)(d + column * (4)) = x[4];
    *(v16u8 *)(d + column * (5)) = x[5];
    *(v16u8 *)(d + column * (6)) = x[6];
    *(v16u8 *)(d + column * (7)) = x[7];
    *(v16u8 *)(d + column * (8)) = x[8];
    *(v16u8 *)(d + column * (9)) = x[9];
    *(v16u8 *)(d + column * (10)) = x[10];
    *(v16u8 *)(d + column * (11)) = x[11];
    *(v16u8 *)(d + column * (12)) = x[12];
    *(v16u8 *)(d + column * (13)) = x[13];
    *(v16u8 *)(d + column * (14)) = x[14];
    *(v16u8 *)(d + column * (15)) = x[15];
#else
    const uint8_t fill = 0x0u;
    for (int c = 0; c < 16; ++c)
        for (int r = 0; r < 16; ++r)
            if (r >= 0 && r < 3) memcpy(d + column * (c) + 1 * r, s + row * (r) + 1 * c, 1);
            else memcpy(d + column * (c) + 1 * r, &fill, 1);
#endif
}

/* 16 x 80 elements of 1 bytes. */
static inline void kernel_0_tile(const char *restrict s, char *restrict d)
{
    for (ptrdiff_t c = 0; c < 5; ++c) {
        transpose_u8_16x16_0to3or0(s + 16 * c, 80, d + 16 * (16 * c), 16);
    }
}

/* pad, reshape, permute_dims */
static void kernel_0(const uint8_t *restrict in0, uint8_t *restrict out0)
{
    {
        const char *s = (const char *)in0;
        char *d = (char *)out0;
        for (ptrdiff_t i0 = 0; i0 < 2; ++i0) {
            const ptrdiff_t ti = 0;
            const ptrdiff_t tj = 0;
            kernel_0_tile(s + 240 * i0 + tj + 80 * ti, d + 1280 * i0 + ti + 16 * tj);
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
    if (overlap(out_out, 2560, in_image, 480)) return 3;
    kernel_0(in_image, out_out);
    return 0;
}
