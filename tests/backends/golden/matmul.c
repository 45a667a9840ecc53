#include <math.h>
#include <stdint.h>

#if defined(__GNUC__) && !defined(EQSAT_PLAIN_LOOPS)
#define EQSAT_TILES 1 /* sums in vector registers */
#endif
#if defined(EQSAT_TILES) && !defined(__clang__)
#define PRAGMA(text) _Pragma(#text)
#define ROLLED PRAGMA(GCC unroll 1) /* copies of a step would compete for registers */
#define COPIES(n) PRAGMA(GCC unroll n)
#define FRESH(p) __asm__("" : "+r"(p)) /* what it points to is loaded in each step, not kept from the one before */
#else
#define ROLLED
#define COPIES(n)
#define FRESH(p) ((void)0)
#endif

#ifdef EQSAT_TILES
typedef float tile16_float32 __attribute__((vector_size(16), aligned(4), may_alias));
#endif

#if defined(EQSAT_TILES) && defined(__SSE2__)
#define HOLD16(v) __asm__("" : "+x"(v)) /* in a register, not in memory */
#else
#define HOLD16(v) ((void)0)
#endif

/* matmul */
static void kernel_0(const float *restrict in0, const float *restrict in1, float *restrict out0)
{
    {
#ifdef EQSAT_TILES
        tile16_float32 s0 = {0}; tile16_float32 s1 = {0};
        tile16_float32 s2 = {0}; tile16_float32 s3 = {0};
        tile16_float32 s4 = {0}; tile16_float32 s5 = {0};
        tile16_float32 s6 = {0}; tile16_float32 s7 = {0};
        tile16_float32 s8 = {0}; tile16_float32 s9 = {0};
        COPIES(7) for (int32_t i0 = 0; i0 < 7; ++i0) {
            const float *p0 = in0 + i0; FRESH(p0);
            const float x0 = *(p0);
            const float *const p1 = in1 + 6 * i0;
            tile16_float32 v0 = *(const tile16_float32 *)(p1); HOLD16(v0);
            tile16_float32 v1 = *(const tile16_float32 *)(p1 + 2); HOLD16(v1);
            s0 = s0 + x0 * v0; s1 = s1 + x0 * v1;
            const float x1 = *(p0 + 7);
            s2 = s2 + x1 * v0; s3 = s3 + x1 * v1;
            const float x2 = *(p0 + 14);
            s4 = s4 + x2 * v0; s5 = s5 + x2 * v1;
            const float x3 = *(p0 + 21);
            s6 = s6 + x3 * v0; s7 = s7 + x3 * v1;
            const float x4 = *(p0 + 28);
            s8 = s8 + x4 * v0; s9 = s9 + x4 * v1;
        }
        HOLD16(s0); *(tile16_float32 *)(out0) = s0; HOLD16(s1); *(tile16_float32 *)(out0 + 2) = s1;
        HOLD16(s2); *(tile16_float32 *)(out0 + 6) = s2; HOLD16(s3); *(tile16_float32 *)(out0 + 8) = s3;
        HOLD16(s4); *(tile16_float32 *)(out0 + 12) = s4; HOLD16(s5); *(tile16_float32 *)(out0 + 14) = s5;
        HOLD16(s6); *(tile16_float32 *)(out0 + 18) = s6; HOLD16(s7); *(tile16_float32 *)(out0 + 20) = s7;
        HOLD16(s8); *(tile16_float32 *)(out0 + 24) = s8; HOLD16(s9); *(tile16_float32 *)(out0 + 26) = s9;
#else
        float acc0[30] __attribute__((aligned(128)));
        for (int32_t i0 = 0; i0 < 5; ++i0) {
            for (int32_t i1 = 0; i1 < 6; ++i1) {
                acc0[6 * i0 + i1] = 0.0f;
            }
        }
        for (int32_t i0 = 0; i0 < 7; ++i0) {
            for (int32_t i1 = 0; i1 < 5; ++i1) {
                for (int32_t i2 = 0; i2 < 6; ++i2) {
                    acc0[6 * i1 + i2] = acc0[6 * i1 + i2] + in0[7 * i1 + i0] * in1[6 * i0 + i2];
                }
            }
        }
        for (int32_t i0 = 0; i0 < 5; ++i0) {
            for (int32_t i1 = 0; i1 < 6; ++i1) {
                out0[6 * i0 + i1] = acc0[6 * i0 + i1];
            }
        }
#endif
    }
}

static int overlap(const void *a, uintptr_t bytes, const void *b, uintptr_t size)
{
    return (uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + bytes;
}

int eqsat_program(const float *in_a, const float *in_b, float *out_y, void *workspace)
{
    (void)workspace;
    if (!in_a || !in_b || !out_y) return 1;
    if (((uintptr_t)in_a | (uintptr_t)in_b | (uintptr_t)out_y) % 4) return 2;
    if (overlap(out_y, 120, in_a, 140)
        || overlap(out_y, 120, in_b, 168)) return 3;
    kernel_0(in_a, in_b, out_y);
    return 0;
}
