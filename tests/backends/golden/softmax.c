#include <math.h>
#include <stdint.h>

static inline float max_float32(float a, float b)
{
    return a > b || isnan(a) ? a : b;
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
            out0[7 * i0 + i1] = expf(in0[7 * i0 + i1] - in1[i0]);
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

int eqsat_program(const float *v0, float *v5, void *workspace)
{
    if (!v0 || !v5 || !workspace) return 1;
    float *v1 = (float *)((char *)workspace + 192);
    float *v3 = (float *)((char *)workspace + 0);
    float *v4 = (float *)((char *)workspace + 192);
    kernel_0(v0, v1);
    kernel_1(v0, v1, v3);
    kernel_2(v3, v4);
    kernel_3(v3, v4, v5);
    return 0;
}
