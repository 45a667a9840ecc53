#include <math.h>
#include <stdint.h>

/* roll, flip, concat */
static void kernel_0(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 5; ++i0) {
        for (int32_t i1 = 0; i1 < 2; ++i1) {
            out0[7 * i0 + i1] = in0[7 * i0 + i1 + 5];
        }
        for (int32_t i1 = 0; i1 < 5; ++i1) {
            out0[7 * i0 + i1 + 2] = in0[7 * i0 + i1];
        }
    }
    for (int32_t i0 = 0; i0 < 5; ++i0) {
        for (int32_t i1 = 0; i1 < 7; ++i1) {
            out0[7 * i0 + i1 + 35] = in0[i1 - 7 * i0 + 28];
        }
    }
}

int eqsat_program(const float *v0, float *v3, void *workspace)
{
    (void)workspace;
    if (!v0 || !v3) return 1;
    kernel_0(v0, v3);
    return 0;
}
