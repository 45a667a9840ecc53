#include <math.h>
#include <stdint.h>

static inline float maxn_float32(float a, float b)
{
    return a > b ? a : b;
}

static inline float maxe_float32(float a, float b)
{
    return a >= b ? a : b;
}

/* pad, relu, reshape, permute_dims */
static void kernel_0(const float *restrict in0, float *restrict out0)
{
    for (int32_t i0 = 0; i0 < 2; ++i0) {
        for (int32_t i1 = 0; i1 < 9; ++i1) {
            for (int32_t i2 = 0; i2 < 16; ++i2) {
                out0[1152 * i0 + 16 * i1 + i2] = maxn_float32(0.0f, 0.0f);
            }
        }
        for (int32_t i1 = 0; i1 < 6; ++i1) {
            for (int32_t i2 = 0; i2 < 16; ++i2) {
                out0[1152 * i0 + 144 * i1 + i2 + 144] = maxn_float32(0.0f, 0.0f);
            }
            for (int32_t i2 = 0; i2 < 7; ++i2) {
                for (int32_t i3 = 0; i3 < 16; ++i3) {
                    out0[1152 * i0 + 144 * i1 + 16 * i2 + i3 + 160] = maxe_float32(0.0f, in0[672 * i0 + 42 * i3 + 7 * i1 + i2]);
                }
            }
            for (int32_t i2 = 0; i2 < 16; ++i2) {
                out0[1152 * i0 + 144 * i1 + i2 + 272] = maxn_float32(0.0f, 0.0f);
            }
        }
        for (int32_t i1 = 0; i1 < 9; ++i1) {
            for (int32_t i2 = 0; i2 < 16; ++i2) {
                out0[1152 * i0 + 16 * i1 + i2 + 1008] = maxn_float32(0.0f, 0.0f);
            }
        }
    }
}

int eqsat_program(const float *v0, float *v4, void *workspace)
{
    (void)workspace;
    if (!v0 || !v4) return 1;
    kernel_0(v0, v4);
    return 0;
}
