#include <math.h>
#include <stdint.h>

/* compute */
static void kernel_0(const uint8_t *restrict in0, uint8_t *restrict out0)
{
    for (int32_t i0 = 0; i0 < 40; ++i0) {
        const int32_t start0 = i0 % 64;
        const int32_t cut0 = 64 - start0;
        for (int32_t i1 = 0; i1 < cut0; ++i1) {
            out0[64 * i0 + i1] = (uint8_t)(in0[64 * i0 + i1 + start0]);
        }
        for (int32_t i1 = cut0; i1 < 64; ++i1) {
            out0[64 * i0 + i1] = (uint8_t)(in0[64 * i0 + i1 + start0 - 64]);
        }
    }
}

static int overlap(const void *a, uintptr_t bytes, const void *b, uintptr_t size)
{
    return (uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + bytes;
}

int eqsat_program(const uint8_t *in_bits, uint8_t *out_y, void *workspace)
{
    (void)workspace;
    if (!in_bits || !out_y) return 1;
    if (overlap(out_y, 2560, in_bits, 2560)) return 3;
    kernel_0(in_bits, out_y);
    return 0;
}
