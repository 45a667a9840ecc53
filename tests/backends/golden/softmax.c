#include <math.h>
#include <stdint.h>

#ifdef __clang__
#pragma clang diagnostic ignored "-Wunused-function" /* a processor may need some of these functions only */
#endif

static inline float max_float32(float a, float b)
{
    const float m = a > b ? a : b;
    return isnan(a) ? a : m;
}

#include <string.h>
#if defined(FP_FAST_FMAF) || defined(__FMA__)
#define PLUS_TIMES(c, a, b) fmaf(a, b, c)
#else
#define PLUS_TIMES(c, a, b) ((a) * (b) + (c))
#endif
static inline float power_of_two(uint32_t n)
{
    const uint32_t bits = n << 23;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static inline float exp_float32(float x)
{
    const float wide = PLUS_TIMES(12583166.0f, x, 1.44269504f);
    int32_t bits;
    memcpy(&bits, &wide, 4);
    bits = bits < 0x4b400180 ? bits : 0x4b400180; /* n is 130 at most */
    float shifted;
    memcpy(&shifted, &bits, 4);
    const float n = shifted - 12583166.0f;
    const float r = PLUS_TIMES(PLUS_TIMES(x, n, -0.693359375f), n, 2.12194440e-4f), z = r * r;
    const float far = PLUS_TIMES(PLUS_TIMES(0.04166839f, 0.00836871f, r), 0.0013814614f, z);
    const float p = PLUS_TIMES(r, PLUS_TIMES(PLUS_TIMES(0.49999994f, 0.16666521f, r), far, z), z);
    const uint32_t k = (uint32_t)bits, half = k >> 1; /* 2^n in two factors, which need not be in range */
    const float scale = power_of_two(half), y = PLUS_TIMES(scale, p, scale) * power_of_two(k - half);
    return x < -105.0f ? 0.0f : y;
}

/* reduce_max */
static void kernel_0(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 5; ++i0) {
        float acc0[1];
        acc0[0] = (-INFINITY);
        for (int32_t i1 = 0; i1 < 7; ++i1) {
            acc0[0] = max_float32(acc0[0], in0[7 * i0 + i1]);
        }
        out0[i0] = acc0[0];
    }
}

/* sub, exp */
static void kernel_1(const float *restrict in0, const float *restrict in1, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 5; ++i0) {
        for (int32_t i1 = 0; i1 < 7; ++i1) {
            out0[7 * i0 + i1] = exp_float32(in0[7 * i0 + i1] - in1[i0]);
        }
    }
}

/* reduce_sum */
static void kernel_2(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 5; ++i0) {
        float acc0[1];
        acc0[0] = 0.0f;
        for (int32_t i1 = 0; i1 < 7; ++i1) {
            acc0[0] = acc0[0] + in0[7 * i0 + i1];
        }
        out0[i0] = acc0[0];
    }
}

/* div */
static void kernel_3(const float *restrict in0, const float *restrict in1, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 5; ++i0) {
        for (int32_t i1 = 0; i1 < 7; ++i1) {
            out0[7 * i0 + i1] = in0[7 * i0 + i1] / in1[i0];
        }
    }
}

static int overlap(const void *a, uintptr_t bytes, const void *b, uintptr_t size)
{
    return (uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + bytes;
}

int eqsat_program(const float *in_a, float *out_y, void *workspace)
{
    if (!in_a || !out_y || !workspace) return 1;
    if (((uintptr_t)in_a | (uintptr_t)out_y) % 4 || (uintptr_t)workspace % 64) return 2;
    if (overlap(out_y, 140, in_a, 140)
        || overlap(workspace, 256, in_a, 140)
        || overlap(workspace, 256, out_y, 140)) return 3;
    float *v1 = (float *)(void *)((char *)workspace + 192);
    float *v3 = (float *)(void *)((char *)workspace + 0);
    float *v4 = (float *)(void *)((char *)workspace + 192);
    kernel_0(in_a, v1);
    kernel_1(in_a, v1, v3);
    kernel_2(v3, v4);
    kernel_3(v3, v4, out_y);
    return 0;
}
