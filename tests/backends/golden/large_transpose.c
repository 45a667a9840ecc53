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

/* Rows of the result from d on, their part in a stage, the ends of what is done of them. */
struct kernel_0_tile { char *d; char *stage, *held; ptrdiff_t n, done; };

#define NT_BYTES 32
#ifdef EQSAT_VECTORS
typedef long long nt_line __attribute__((vector_size(32)));
typedef long long nt_any __attribute__((vector_size(32), aligned(1), may_alias));
#endif
/* Non-temporal stores go to memory past the caches; FENCE orders them before what follows. */
#if defined(EQSAT_VECTORS) && defined(__clang__)
#define NT_STORE(d, v) __builtin_nontemporal_store((v), (nt_line *)(void *)(d))
#elif defined(EQSAT_VECTORS) && defined(__AVX512F__) && NT_BYTES == 64
#define NT_STORE(d, v) __builtin_ia32_movntdq512((long long __attribute__((vector_size(64))) *)(void *)(d), (v))
#elif defined(EQSAT_VECTORS) && defined(__AVX__) && NT_BYTES == 32
#define NT_STORE(d, v) __builtin_ia32_movntdq256((long long __attribute__((vector_size(32))) *)(void *)(d), (v))
#elif defined(EQSAT_VECTORS) && defined(__SSE2__) && NT_BYTES == 16
#define NT_STORE(d, v) __builtin_ia32_movntdq((long long __attribute__((vector_size(16))) *)(void *)(d), (v))
#endif
#if defined(NT_STORE) && defined(__SSE2__)
#define FENCE() __builtin_ia32_sfence()
#else
#define FENCE() ((void)0)
#endif
#ifdef NT_STORE
#define NT_STORE_LINE(d, s) do { const nt_line v0 = *(const nt_any *)((s) + 0), v32 = *(const nt_any *)((s) + 32); \
    NT_STORE((d) + 0, v0); NT_STORE((d) + 32, v32); } while (0)
#else
#define NT_STORE_LINE(d, s) memcpy((d), (s), 64)
#endif

/* n bytes to d: whole lines by non-temporal stores, the ends plainly. */
static inline void nt_copy(char *restrict d, const char *restrict s, ptrdiff_t n)
{
    const ptrdiff_t head = (ptrdiff_t)(-(uintptr_t)d & 63);
    if (n >= head + 64) {
        if (head != 0) memcpy(d, s, (size_t)head);
        d += head, s += head, n -= head;
        for (; n >= 64; n -= 64, d += 64, s += 64) NT_STORE_LINE(d, s);
    }
    if (n > 0) memcpy(d, s, (size_t)n);
}

/* Whole lines of some rows of a tile leave. */
static inline void kernel_0_put(const struct kernel_0_tile *tile, ptrdiff_t first, ptrdiff_t last, const char *next)
{
    char *const d = tile->d;
    const ptrdiff_t done = tile->done;
    char *const held = tile->held;
    for (ptrdiff_t c = first; c < last && c < tile->n; ++c) {
        char *to = d + 640 * c, *have = tile->stage + 192 * c;
        const ptrdiff_t off = (ptrdiff_t)((uintptr_t)to & 63);
        if (2 * c + 0 < 32) {
            const char *at = next + 384 * (2 * c + 0);
            __builtin_prefetch(at + 63, 0, 3);
        }
        if (2 * c + 1 < 32) {
            const char *at = next + 384 * (2 * c + 1);
            __builtin_prefetch(at + 63, 0, 3);
        }
        if (off == 0) {
            NT_STORE_LINE(to + done + 0, have + 64);
            NT_STORE_LINE(to + done + 64, have + 128);
        }
        else {
            if (done != 0) NT_STORE_LINE(to + done - off, have + 64 - off);
            else memcpy(to, have + 64, (size_t)(64 - off));
            NT_STORE_LINE(to + done + 64 - off, have + 128 - off);
            memcpy(held + 64 * c, have + 128, 64);
        }
    }
}

typedef uint32_t v16u32 __attribute__((vector_size(16), aligned(1), may_alias));

typedef uint32_t v32u32 __attribute__((vector_size(32), aligned(1), may_alias));

#define LOW_v32u32(a, b) __builtin_shufflevector(a, b, \
    0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH_v32u32(a, b) __builtin_shufflevector(a, b, \
    2, 10, 3, 11, 6, 14, 7, 15)

#if defined(__AVX__) && !defined(__clang__)
typedef int any_int4 __attribute__((vector_size(16), aligned(1), may_alias));
typedef int int4 __attribute__((vector_size(16)));
#define INT4(p) ((int4)*(const any_int4 *)(p))
#ifdef __AVX512F__
typedef int int4x4 __attribute__((vector_size(64)));
#define NO_INTS ((int4x4){0})
#endif
#endif

#if defined(__AVX__) && !defined(__clang__)
#define JOIN_v32u32(a, b) ((v32u32)( \
    __builtin_ia32_vinsertf128_si256(__builtin_ia32_si256_si(INT4(a)), INT4(b), 1)))
#else
#define JOIN_v32u32(a, b) __builtin_shufflevector(*(const v16u32 *)(a), *(const v16u32 *)(b), \
    0, 1, 2, 3, 4, 5, 6, 7)
#endif

/* 8 rows of 4 elements at s become 4 rows of 8 at d. */
static inline void transpose_u32_8x4(const char *restrict s, ptrdiff_t row, char *restrict d, ptrdiff_t column)
{
#ifdef EQSAT_VECTORS
    v32u32 x[4], y[4];
    x[0] = JOIN_v32u32(s + row * (0), s + row * (4));
    x[1] = JOIN_v32u32(s + row * (1), s + row * (5));
    x[2] = JOIN_v32u32(s + row * (2), s + row * (6));
    x[3] = JOIN_v32u32(s + row * (3), s + row * (7));
    for (int m = 0; m < 2; ++m) y[2 * m] = LOW_v32u32(x[m], x[m + 2]), y[2 * m + 1] = HIGH_v32u32(x[m], x[m + 2]);
    for (int m = 0; m < 2; ++m) x[2 * m] = LOW_v32u32(y[m], y[m + 2]), x[2 * m + 1] = HIGH_v32u32(y[m], y[m + 2]);
    *(v32u32 *)(d + column * (0)) = x[0];
    *(v32u32 *)(d + column * (1)) = x[1];
    *(v32u32 *)(d + column * (2)) = x[2];
    *(v32u32 *)(d + column * (3)) = x[3];
#else
    for (int c = 0; c < 4; ++c)
        for (int r = 0; r < 8; ++r)
            memcpy(d + column * (c) + 4 * r, s + row * (r) + 4 * c, 4);
#endif
}

/* Some lines of each row. */
static inline void kernel_0_lines(const char *restrict s, const struct kernel_0_tile *now, const char *next)
{
    char *const stage = now->stage;
    const ptrdiff_t n = now->n;
    if (now->done != 0 && ((uintptr_t)now->d & 63) != 0) for (ptrdiff_t c = 0; c < n; ++c) memcpy(stage + 192 * c, now->held + 64 * c, 64);
    for (ptrdiff_t k = 0; k < 4; ++k) {
        for (ptrdiff_t c = 0; c < n; c += 4) {
            const ptrdiff_t at = c > n - 4 ? n - 4 : c;
            transpose_u32_8x4(s + 384 * (0 + 8 * k) + 4 * at, 384, stage + 192 * at + 64 + 4 * (0 + 8 * k), 192);
        }
    }
    kernel_0_put(now, 0, n, next);
}

/* The ends of the rows. */
static inline void kernel_0_ends(const char *restrict s, const struct kernel_0_tile *now)
{
    char *const d = now->d;
    const ptrdiff_t done = now->done;
    char *const stage = now->stage;
    const ptrdiff_t n = now->n;
    if (now->done != 0 && ((uintptr_t)now->d & 63) != 0) for (ptrdiff_t c = 0; c < n; ++c) memcpy(stage + 192 * c, now->held + 64 * c, 64);
    (void)s;
    for (ptrdiff_t c = 0; c < n; ++c) {
        char *to = d + 640 * c, *have = now->stage + 192 * c;
        const ptrdiff_t off = (ptrdiff_t)((uintptr_t)to & 63);
        nt_copy(to + done - off, have + 64 - off, off);
    }
}

/* permute_dims */
static void kernel_0(const float *restrict in0, float *restrict out0)
{
    {
        const char *s = (const char *)in0;
        char *d = (char *)out0;
        char held[6400] __attribute__((aligned(64)));
        char stages[3840] __attribute__((aligned(64)));
        {
            const char *const sb = s;
            char *const db = d;
            struct kernel_0_tile now = {.stage = stages + 768};
            for (ptrdiff_t t = 0; t < 5; ++t) {
                for (ptrdiff_t c = 0; c < 96; c += 16) {
                    const ptrdiff_t n = 96 - c < 16 ? 96 - c : 16;
                    const ptrdiff_t u = c / 16 + 12, v = t + u / 6;
                    const ptrdiff_t beyond = v >= 5;
                    const char *const next = sb + 384 * ((beyond ? (v - 5) % 5 : v) * 32) + 64 * (u % 6) + (beyond ? 0 : 0);
                    now.d = db + 640 * c, now.held = held + 64 * c, now.n = n, now.done = 128 * t;
                    kernel_0_lines(sb + 384 * 32 * t + 4 * c, &now, next);
                }
            }
            for (ptrdiff_t c = 0; c < 96; c += 16) {
                const ptrdiff_t n = 96 - c < 16 ? 96 - c : 16;
                now.d = db + 640 * c, now.held = held + 64 * c, now.n = n, now.done = 640;
                kernel_0_ends(sb + 384 * 32 * 5 + 4 * c, &now);
            }
        }
    }
    FENCE();
}

static int overlap(const void *a, uintptr_t bytes, const void *b, uintptr_t size)
{
    return (uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + bytes;
}

int eqsat_program(const float *in_m, float *out_out, void *workspace)
{
    (void)workspace;
    if (!in_m || !out_out) return 1;
    if (((uintptr_t)in_m | (uintptr_t)out_out) % 4) return 2;
    if (overlap(out_out, 61440, in_m, 61440)) return 3;
    kernel_0(in_m, out_out);
    return 0;
}
