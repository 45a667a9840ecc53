#include <math.h>
#include <stdint.h>

#include <stddef.h>
#include <string.h>
#if defined(__has_builtin) && defined(__GNUC__) && !defined(EQSAT_PLAIN_LOOPS)
#if __has_builtin(__builtin_shufflevector)
#define EQSAT_VECTORS 1 /* vectors of fixed width, wherever they lie in memory */
#endif
#endif

#define STREAM_BYTES 32
#ifdef EQSAT_VECTORS
typedef long long stream_line __attribute__((vector_size(32)));
typedef long long stream_any __attribute__((vector_size(32), aligned(1), may_alias));
#endif
/* Streaming stores go to memory past the caches; FENCE orders them before what follows. */
#if defined(EQSAT_VECTORS) && defined(__clang__)
#define STREAM(d, v) __builtin_nontemporal_store((v), (stream_line *)(void *)(d))
#elif defined(EQSAT_VECTORS) && defined(__AVX512F__) && STREAM_BYTES == 64
#define STREAM(d, v) __builtin_ia32_movntdq512((long long __attribute__((vector_size(64))) *)(void *)(d), (v))
#elif defined(EQSAT_VECTORS) && defined(__AVX__) && STREAM_BYTES == 32
#define STREAM(d, v) __builtin_ia32_movntdq256((long long __attribute__((vector_size(32))) *)(void *)(d), (v))
#elif defined(EQSAT_VECTORS) && defined(__SSE2__) && STREAM_BYTES == 16
#define STREAM(d, v) __builtin_ia32_movntdq((long long __attribute__((vector_size(16))) *)(void *)(d), (v))
#endif
#if defined(STREAM) && defined(__SSE2__)
#define FENCE() __builtin_ia32_sfence()
#else
#define FENCE() ((void)0)
#endif
#ifdef STREAM
#define STREAM_LINE(d, s) do { const stream_line v0 = *(const stream_any *)((s) + 0), v32 = *(const stream_any *)((s) + 32); \
    STREAM((d) + 0, v0); STREAM((d) + 32, v32); } while (0)
#else
#define STREAM_LINE(d, s) memcpy((d), (s), 64)
#endif

typedef uint32_t v16u32 __attribute__((vector_size(16), aligned(1), may_alias));

typedef uint32_t v32u32 __attribute__((vector_size(32), aligned(1), may_alias));

#define LOW_v32u32(a, b) __builtin_shufflevector(a, b, \
    0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH_v32u32(a, b) __builtin_shufflevector(a, b, \
    2, 10, 3, 11, 6, 14, 7, 15)

#define JOIN_v32u32(a, b) __builtin_shufflevector(*(const v16u32 *)(a), *(const v16u32 *)(b), \
    0, 1, 2, 3, 4, 5, 6, 7)

/* 8 rows of 4 elements at s become 4 rows of 8 at d. */
static inline void turn_u32_8x4(const char *restrict s, ptrdiff_t row, char *restrict d, ptrdiff_t column)
{
#ifdef EQSAT_VECTORS
    v32u32 x[4], y[4];
    for (int m = 0; m < 4; ++m) x[m] = JOIN_v32u32(s + row * (m), s + row * (m + 4));
    for (int m = 0; m < 2; ++m) y[2 * m] = LOW_v32u32(x[m], x[m + 2]), y[2 * m + 1] = HIGH_v32u32(x[m], x[m + 2]);
    for (int m = 0; m < 2; ++m) x[2 * m] = LOW_v32u32(y[m], y[m + 2]), x[2 * m + 1] = HIGH_v32u32(y[m], y[m + 2]);
    for (int c = 0; c < 4; ++c) *(v32u32 *)(d + column * (c)) = x[c];
#else
    for (int c = 0; c < 4; ++c)
        for (int r = 0; r < 8; ++r)
            memcpy(d + column * (c) + 4 * r, s + row * (r) + 4 * c, 4);
#endif
}

/* Some lines of each row. */
static inline void kernel_0_lines(const char *restrict s, char *restrict d, char *restrict held, ptrdiff_t n, ptrdiff_t done)
{
    for (ptrdiff_t r = 0; r < 16; ++r) {
        __builtin_prefetch(s + 384 * r + 128);
    }
    for (ptrdiff_t c = 0; c < n; c += 4) {
        const ptrdiff_t at = c > n - 4 ? n - 4 : c;
        turn_u32_8x4(s + 4 * at, 384, held + 128 * at + 64, 128);
        turn_u32_8x4(s + 4 * at + 384 * (8), 384, held + 128 * at + 96, 128);
    }
    for (ptrdiff_t c = 0; c < n; ++c) {
        char *to = d + 640 * c, *have = held + 128 * c;
        const ptrdiff_t off = (ptrdiff_t)((uintptr_t)to & 63);
        if (done != 0 || off == 0) STREAM_LINE(to + done - off, have + 64 - off);
        else memcpy(to, have + 64, (size_t)(64 - off));
        if (off != 0) memcpy(have, have + 64, 64);
    }
}

/* The ends of the rows. */
static inline void kernel_0_ends(const char *restrict s, char *restrict d, char *restrict held, ptrdiff_t n, ptrdiff_t done)
{
    (void)s;
    for (ptrdiff_t c = 0; c < n; ++c) {
        char *to = d + 640 * c, *have = held + 128 * c;
        const ptrdiff_t off = (ptrdiff_t)((uintptr_t)to & 63);
        memcpy(to + done - off, have + 64 - off, (size_t)(off));
    }
}

/* permute_dims */
static void kernel_0(const float *restrict in0, float *restrict out0)
{
    {
        const char *s = (const char *)in0;
        char *d = (char *)out0;
        char held[12800] __attribute__((aligned(64))); /* 128 bytes a row */
        {
            const char *const sb = s;
            char *const db = d;
            for (ptrdiff_t t = 0; t < 10; ++t) {
                for (ptrdiff_t c = 0; c < 96; c += 16) {
                    const ptrdiff_t n = 96 - c < 16 ? 96 - c : 16;
                    kernel_0_lines(sb + 384 * 16 * t + 4 * c, db + 640 * c, held + 128 * c, n, 64 * t);
                }
            }
            for (ptrdiff_t c = 0; c < 96; c += 16) {
                const ptrdiff_t n = 96 - c < 16 ? 96 - c : 16;
                kernel_0_ends(sb + 384 * 16 * 10 + 4 * c, db + 640 * c, held + 128 * c, n, 640);
            }
        }
    }
    FENCE();
}

int eqsat_program(const float *v0, float *v1, void *workspace)
{
    (void)workspace;
    if (!v0 || !v1) return 1;
    kernel_0(v0, v1);
    return 0;
}
