#include <math.h>
#include <stdint.h>

#ifdef __clang__
#pragma clang diagnostic ignored "-Wunused-function" /* a processor may need some of these functions only */
#endif

static inline float maxe_float32(float a, float b)
{
    return a >= b ? a : b;
}

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

/* 16 x 7 elements: operands along the result, then the formula row by row. */
static inline void kernel_0_tile(const float *restrict a0, float *restrict o)
{
    float t0[7 * 16] __attribute__((aligned(512)));
    for (ptrdiff_t c = 0; c < 2; ++c) {
        const ptrdiff_t at = 4 * c > 3 ? 3 : 4 * c;
        transpose_u32_8x4((const char *)a0 + 4 * at + 0, 168, (char *)t0 + 64 * at + 0, 64);
        transpose_u32_8x4((const char *)a0 + 4 * at + 1344, 168, (char *)t0 + 64 * at + 32, 64);
    }
    for (ptrdiff_t c = 0; c < 7; ++c) {
        const float *restrict p0 = t0 + 16 * c;
        float *restrict q = o + 16 * c;
        for (int r = 0; r < 16; ++r) {
            q[r] = maxe_float32(0.0f, p0[r]);
        }
    }
}

/* pad, relu, reshape, permute_dims */
static void kernel_0(const float *restrict in0, float *restrict out0)
{
    {
        for (ptrdiff_t i0 = 0; i0 < 2; ++i0) {
            for (ptrdiff_t i1 = 0; i1 < 6; ++i1) {
                const ptrdiff_t ti = 0;
                const ptrdiff_t tj = 0;
                kernel_0_tile(in0 + 672 * i0 + 7 * i1 + 42 * ti + tj, out0 + 1152 * i0 + 144 * i1 + ti + 16 * tj + 160);
            }
        }
    }
    {
        char *d = (char *)out0;
        for (ptrdiff_t i4 = 0; i4 < 2; ++i4) {
            memset(d + 4608 * i4, 0, 576);
        }
    }
    {
        char *d = (char *)out0;
        for (ptrdiff_t i5 = 0; i5 < 2; ++i5) {
            memset(d + 4608 * i5 + 4032, 0, 576);
        }
    }
    {
        char *d = (char *)out0;
        for (ptrdiff_t i6 = 0; i6 < 2; ++i6) {
            for (ptrdiff_t i7 = 0; i7 < 6; ++i7) {
                memset(d + 4608 * i6 + 576 * i7 + 576, 0, 64);
            }
        }
    }
    {
        char *d = (char *)out0;
        for (ptrdiff_t i8 = 0; i8 < 2; ++i8) {
            for (ptrdiff_t i9 = 0; i9 < 6; ++i9) {
                memset(d + 4608 * i8 + 576 * i9 + 1088, 0, 64);
            }
        }
    }
}

static int overlap(const void *a, uintptr_t bytes, const void *b, uintptr_t size)
{
    return (uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + bytes;
}

int eqsat_program(const float *in_x, float *out_y, void *workspace)
{
    (void)workspace;
    if (!in_x || !out_y) return 1;
    if (((uintptr_t)in_x | (uintptr_t)out_y) % 4) return 2;
    if (overlap(out_y, 9216, in_x, 5376)) return 3;
    kernel_0(in_x, out_y);
    return 0;
}
