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
