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

static inline void fill_32(char *d, ptrdiff_t n, uint32_t value)
{
    for (ptrdiff_t k = 0; k < n; ++k) memcpy(d + 4 * k, &value, 4);
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

static inline void copy_28(char *restrict d, const char *restrict s)
{
    C16(d + 0, s + 0); C16(d + 12, s + 12);
}

/* pad */
static void kernel_0(const float *restrict in0, float *restrict out0)
{
    {
        const char *s = (const char *)in0;
        char *d = (char *)out0;
        for (ptrdiff_t i0 = 0; i0 < 128; ++i0) {
            fill_32(d + 288 * i0, 9, 0x3f800000u);
            for (ptrdiff_t i1 = 1; i1 < 7; ++i1) {
                fill_32(d + 288 * i0 + 36 * i1, 1, 0x3f800000u);
                copy_28(d + 288 * i0 + 36 * i1 + 4, s + 168 * i0 - 32 + 28 * i1 + 4);
                fill_32(d + 288 * i0 + 36 * i1 + 32, 1, 0x3f800000u);
            }
            fill_32(d + 288 * i0 + 252, 9, 0x3f800000u);
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
    if (overlap(out_out, 36864, in_x, 21504)) return 3;
    kernel_0(in_x, out_out);
    return 0;
}
