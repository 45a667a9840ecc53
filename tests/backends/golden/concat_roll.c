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

#ifdef EQSAT_VECTORS
typedef long long block16 __attribute__((vector_size(16), aligned(1), may_alias));
#define C16(d, s) (*(block16 *)(d) = *(const block16 *)(s))
typedef long long block32 __attribute__((vector_size(32), aligned(1), may_alias));
#define C32(d, s) (*(block32 *)(d) = *(const block32 *)(s))
#else
#define C16(d, s) memcpy(d, s, 16)
#define C32(d, s) memcpy(d, s, 32)
#endif

static inline void copy_8(char *restrict d, const char *restrict s)
{
    memcpy(d + 0, s + 0, 8);
}

static inline void copy_20(char *restrict d, const char *restrict s)
{
    C16(d + 0, s + 0); memcpy(d + 16, s + 16, 4);
}

/* roll, flip, concat */
static void kernel_0(const float *restrict in0, float *restrict out0)
{
    {
        const char *s = (const char *)in0;
        char *d = (char *)out0;
        for (ptrdiff_t i0 = 0; i0 < 5; ++i0) {
            copy_8(d + 28 * i0, s + 28 * i0 + 20);
        }
    }
    {
        const char *s = (const char *)in0;
        char *d = (char *)out0;
        for (ptrdiff_t i1 = 0; i1 < 5; ++i1) {
            copy_8(d + 28 * i1 + 140, s - 28 * i1 + 112);
        }
    }
    {
        const char *s = (const char *)in0;
        char *d = (char *)out0;
        for (ptrdiff_t i2 = 0; i2 < 5; ++i2) {
            copy_20(d + 28 * i2 + 8, s + 28 * i2);
        }
    }
    {
        const char *s = (const char *)in0;
        char *d = (char *)out0;
        for (ptrdiff_t i3 = 0; i3 < 5; ++i3) {
            copy_20(d + 28 * i3 + 148, s - 28 * i3 + 120);
        }
    }
}

static int overlap(const void *a, uintptr_t bytes, const void *b, uintptr_t size)
{
    return (uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + bytes;
}

int eqsat_program(const float *in_a, float *out_y, void *workspace)
{
    (void)workspace;
    if (!in_a || !out_y) return 1;
    if (((uintptr_t)in_a | (uintptr_t)out_y) % 4) return 2;
    if (overlap(out_y, 280, in_a, 140)) return 3;
    kernel_0(in_a, out_y);
    return 0;
}
