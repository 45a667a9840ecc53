#include <math.h>
#include <stdint.h>

/* matmul */
static void kernel_0(const float *restrict in0, const float *restrict in1, float *restrict out0)
{
    float acc0[30];
    for (int32_t i0 = 0; i0 < 30; ++i0) {
        acc0[i0] = 0.0f;
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
}

int eqsat_program(const float *v0, const float *v1, float *v2, void *workspace)
{
    (void)workspace;
    if (!v0 || !v1 || !v2) return 1;
    kernel_0(v0, v1, v2);
    return 0;
}
