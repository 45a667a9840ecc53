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

typedef uint32_t v32u32 __attribute__((vector_size(32), aligned(1), may_alias));

#define LOW_v32u32(a, b) __builtin_shufflevector(a, b, \
    0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH_v32u32(a, b) __builtin_shufflevector(a, b, \
    2, 10, 3, 11, 6, 14, 7, 15)

#if defined(__AVX__) && !defined(__clang__)
typedef int any_int4 __attribute__((vector_size(16), aligned(1), may_alias));
typedef int int4 __attribute__((vector_size(16)));
#define INT4(p) ((int4)*(const any_int4 *)(p))
#ifdef __AVX512F__
typedef int int4x4 __attribute__((vector_size(64)));
#define NO_INTS ((int4x4){0})
#endif
#endif

#if defined(__AVX__) && !defined(__clang__)
#define JOIN_v32u32(a, b) ((v32u32)( \
    __builtin_ia32_vinsertf128_si256(__builtin_ia32_si256_si(INT4(a)), INT4(b), 1)))
#else
#define JOIN_v32u32(a, b) __builtin_shufflevector(*(const v16u32 *)(a), *(const v16u32 *)(b), \
    0, 1, 2, 3, 4, 5, 6, 7)
#endif

/* 8 rows of 4 elements at s become 4 rows of 8 at d. */
static inline void transpose_u32_8x4(const char *restrict s, ptrdiff_t row, char *restrict d, ptrdiff_t column)
{
#ifdef EQSAT_VECTORS
    v32u32 x[4], y[4];
    x[0] = JOIN_v32u32(s + row * (0), s + row * (4));
    x[1] = JOIN_v32u32(s + row * (1), s + row * (5));
    x[2] = JOIN_v32u32(s + row * (2), s + row * (6));
    x[3] = JOIN_v32u32(s + row * (3), s + row * (7));
    for (int m = 0; m < 2; ++m) y[2 * m] = LOW_v32u32(x[m], x[m + 2]), y[2 * m + 1] = HIGH_v32u32(x[m], x[m + 2]);
    for (int m = 0; m < 2; ++m) x[2 * m] = LOW_v32u32(y[m], y[m + 2]), x[2 * m + 1] = HIGH_v32u32(y[m], y[m + 2]);
    *(v32u32 *)(d + column * (0)) = x[0];
    *(v32u32 *)(d + column * (1)) = x[1];
    *(v32u32 *)(d + column * (2)) = x[2];
    *(v32u32 *)(d + column * (3)) = x[3];
#else
    for (int c = 0; c < 4; ++c)
        for (int r = 0; r < 8; ++r)
            memcpy(d + column * (c) + 4 * r, s + row * (r) + 4 * c, 4);
#endif
}

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

/* 16 x 4 elements of 4 bytes. */
static inline void kernel_0_tile(const char *restrict s, char *restrict d)
{
    char stage[4 * 64] __attribute__((aligned(256)));
    {
        const ptrdiff_t c = 0;
        transpose_u32_8x4(s + 16 * c, 168, stage + 64 * (4 * c), 64);
        transpose_u32_8x4(s + 16 * c + 168 * 8, 168, stage + 64 * (4 * c) + 32, 64);
    }
    for (ptrdiff_t c = 0; c < 4; ++c) {
        copy_64(d + 64 * c, stage + 64 * c);
    }
}

/* reshape, permute_dims */
static void kernel_0(const float *restrict in0, float *restrict out0)
{
    {
        const char *s = (const char *)in0;
        char *d = (char *)out0;
        for (ptrdiff_t i0 = 0; i0 < 8; ++i0) {
            for (ptrdiff_t i1 = 0; i1 < 11; ++i1) {
                const ptrdiff_t ti = 0;
                const ptrdiff_t tj = i1 * 4 > 38 ? 38 : i1 * 4;
                kernel_0_tile(s + 2688 * i0 + 4 * tj + 168 * ti, d + 2688 * i0 + 4 * ti + 64 * tj);
            }
        }
    }
}

static int overlap(const void *a, uintptr_t bytes, const void *b, uintptr_t size)
{
    return (uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + bytes;
}

int eqsat_program(const float *in_x, float *out_out, void *workspace)
{
    (void)workspace;
    if (!in_x || !out_out) return 1;
    if (((uintptr_t)in_x | (uintptr_t)out_out) % 4) return 2;
    if (overlap(out_out, 21504, in_x, 21504)) return 3;
    kernel_0(in_x, out_out);
    return 0;
}
