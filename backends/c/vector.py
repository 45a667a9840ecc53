"""Vectors in C: types, interleaving, non-temporal stores and copies of known length, each printed where it is used.

GNU vector extensions, which gcc, clang and zig share. Without them (EQSAT_VECTORS undefined) pieces are plain loops.
"""

from __future__ import annotations

from eqsat.backends.machine import BLOCK, LINE

HEADER = """#include <stddef.h>
#include <string.h>
#if defined(__has_builtin) && defined(__GNUC__) && !defined(EQSAT_PLAIN_LOOPS)
#if __has_builtin(__builtin_shufflevector)
#define EQSAT_VECTORS 1 /* vectors of fixed width, wherever they lie in memory */
#endif
#endif"""

NT_STORE = """/* Non-temporal stores go to memory past the caches; FENCE orders them before what follows. */
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
#endif"""

NT_COPY = """/* n bytes to d: whole lines by non-temporal stores, the ends plainly. */
static inline void nt_copy(char *restrict d, const char *restrict s, ptrdiff_t n)
{
    const ptrdiff_t head = (ptrdiff_t)(-(uintptr_t)d & 63);
    if (n >= head + 64) {
        if (head != 0) memcpy(d, s, (size_t)head);
        d += head, s += head, n -= head;
        for (; n >= 64; n -= 64, d += 64, s += 64) NT_STORE_LINE(d, s);
    }
    if (n > 0) memcpy(d, s, (size_t)n);
}"""

NT_APPEND = """/* A run of n >= 64 bytes to d, behind runs that `line` remembers the end of unless it is the first.
   Lines leave whole: one that two runs share is put together in `line`, which has 64 bytes to spare on both sides. */
static inline void nt_append(char *restrict d, const char *restrict s, ptrdiff_t n, char *restrict line, int first)
{
    const ptrdiff_t shared = (ptrdiff_t)((uintptr_t)d & 63);
    if (shared != 0) {
        const ptrdiff_t rest = 64 - shared;
        if (first) {
            memcpy(d, s, (size_t)rest);
        } else {
            memcpy(line + shared, s, 64);
            NT_STORE_LINE(d - shared, line);
        }
        d += rest, s += rest, n -= rest;
    }
    for (; n >= 64; n -= 64, d += 64, s += 64) NT_STORE_LINE(d, s);
    if (n > 0) memcpy(line + n - 64, s + n - 64, 64);
}"""


def define_nontemporal(vector: int) -> str:
    """The definitions that non-temporal stores need, for vectors of so many bytes."""
    steps = range(0, LINE, vector)
    loads = ", ".join(f"v{k} = *(const nt_any *)((s) + {k})" for k in steps)
    stores = " ".join(f"NT_STORE((d) + {k}, v{k});" for k in steps)
    types = [
        f"#define NT_BYTES {vector}",
        "#ifdef EQSAT_VECTORS",
        f"typedef long long nt_line __attribute__((vector_size({vector})));",
        f"typedef long long nt_any __attribute__((vector_size({vector}), aligned(1), may_alias));",
        "#endif",
    ]
    line = [
        "#ifdef NT_STORE",
        f"#define NT_STORE_LINE(d, s) do {{ const nt_line {loads}; \\",
        f"    {stores} }} while (0)",
        "#else",
        "#define NT_STORE_LINE(d, s) memcpy((d), (s), 64)",
        "#endif",
    ]
    return "\n".join([*types, NT_STORE, *line])


def vector_type(width: int, size: int) -> str:
    """The name of a vector of `width` bytes with elements of `size` bytes."""
    return f"v{width}u{8 * size}"


def define_type(width: int, size: int) -> str:
    """The type, as it lies anywhere in memory."""
    attributes = f"vector_size({width}), aligned(1), may_alias"
    return f"typedef uint{8 * size}_t {vector_type(width, size)} __attribute__(({attributes}));"


def interleave_indices(width: int, size: int, high: bool) -> list[int]:
    """Which elements of two vectors an interleave takes, within each 16 bytes."""
    lane, count = BLOCK // size, width // size
    indices: list[int] = []
    for start in range(0, count, lane):
        for k in range(lane // 2):
            at = start + k + (lane // 2 if high else 0)
            indices += [at, at + count]
    return indices


def define_interleave(width: int, size: int) -> str:
    """LOW and HIGH: the elements of two vectors alternately, from the lower and the upper half of each 16 bytes."""
    lines: list[str] = []
    for name, high in (("LOW", False), ("HIGH", True)):
        numbers = [str(n) for n in interleave_indices(width, size, high)]
        rows = [", ".join(numbers[k : k + 24]) for k in range(0, len(numbers), 24)]
        body = ", \\\n    ".join(rows)
        lines.append(f"#define {name}_{vector_type(width, size)}(a, b) __builtin_shufflevector(a, b, \\\n    {body})")
    return "\n".join(lines)


def every_lane(size: int) -> str:
    """The mask of a 64-byte vector's lanes, all of them taken: a number that its type holds, or a compiler may warn.

    >>> every_lane(8)
    '0xff'
    """
    return hex((1 << 4 * BLOCK // size) - 1)


def define_join(width: int, size: int) -> str:
    """JOIN: vectors of 16 bytes from memory, side by side.

    Compilers shuffle registers for it, which the transposes keep busy with shuffles. An insertion from memory needs
    none, but gcc only makes it where its builtins say so.
    """
    half, count = vector_type(BLOCK, size), BLOCK // size
    name = vector_type(width, size)
    first, both = (", ".join(map(str, range(k * count))) for k in (2, 4))
    pair = f"__builtin_shufflevector(*(const {half} *)({{}}), *(const {half} *)({{}}), \\\n    {first})"
    if width == 2 * BLOCK:
        feature, params, plain = "__AVX__", "a, b", pair.format("a", "b")
        begin, insert = "__builtin_ia32_si256_si(INT4(a))", "__builtin_ia32_vinsertf128_si256({}, INT4({}), {})"
    else:
        feature, params = "__AVX512F__", "a, b, c, d"
        plain = f"__builtin_shufflevector({pair.format('a', 'b')}, \\\n    {pair.format('c', 'd')}, \\\n    {both})"
        begin = "__builtin_ia32_si512_si(INT4(a))"
        insert = f"__builtin_ia32_inserti32x4_mask({{0}}, INT4({{1}}), {{2}}, NO_INTS, {every_lane(4)})"
    value = begin
    for k, param in enumerate(params.split(", ")[1:], 1):
        value = insert.format(value, param, k)
    return (
        f"#if defined({feature}) && !defined(__clang__)\n"
        f"#define JOIN_{name}({params}) (({name})( \\\n    {value}))\n"
        f"#else\n#define JOIN_{name}({params}) {plain}\n#endif"
    )


INSERT = """#if defined(__AVX__) && !defined(__clang__)
typedef int any_int4 __attribute__((vector_size(16), aligned(1), may_alias));
typedef int int4 __attribute__((vector_size(16)));
#define INT4(p) ((int4)*(const any_int4 *)(p))
#ifdef __AVX512F__
typedef int int4x4 __attribute__((vector_size(64)));
#define NO_INTS ((int4x4){0})
#endif
#endif"""
"""What JOIN needs where it inserts."""


def copy_name(nbytes: int) -> str:
    """The name of the function that copies a known number of bytes."""
    return f"copy_{nbytes}"


def define_copy(nbytes: int, vector: int) -> str:
    """A straight line of vector copies; the last one may overlap the one before."""
    width = vector
    while width > nbytes and width > 1:
        width //= 2
    starts = list(range(0, nbytes - width + 1, width))
    rest = nbytes - (starts[-1] + width)
    steps = [(at, width) for at in starts]
    if rest:
        narrow = width
        while narrow // 2 >= rest:
            narrow //= 2
        steps.append((nbytes - narrow, narrow))
    moves = [f"memcpy(d + {at}, s + {at}, {w});" if w < BLOCK else f"C{w}(d + {at}, s + {at});" for at, w in steps]
    lines = [" ".join(moves[k : k + 4]) for k in range(0, len(moves), 4)]
    body = "\n".join(f"    {line}" for line in lines)
    head = f"static inline void {copy_name(nbytes)}(char *restrict d, const char *restrict s)"
    return f"{head}\n{{\n{body}\n}}"


def define_long_copy(vector: int) -> str:
    """Vector copies, four at a time; the last four may overlap those before."""
    moves = " ".join(f"C{vector}(d + k + {at}, s + k + {at});" for at in range(0, 4 * vector, vector))
    return (
        f"/* n >= {4 * vector} bytes. */\n"
        "static inline void copy_long(char *restrict d, const char *restrict s, ptrdiff_t n)\n{\n"
        f"    for (ptrdiff_t k = 0; k < n; k += {4 * vector}) {{\n"
        f"        if (k > n - {4 * vector}) k = n - {4 * vector};\n"
        f"        {moves}\n    }}\n}}"
    )


def define_block_copies(vector: int) -> str:
    """C16, C32 and C64: one vector from anywhere to anywhere."""
    widths = [w for w in (BLOCK, 2 * BLOCK, 4 * BLOCK) if w <= vector]
    lines = ["#ifdef EQSAT_VECTORS"]
    for w in widths:
        lines.append(f"typedef long long block{w} __attribute__((vector_size({w}), aligned(1), may_alias));")
        lines.append(f"#define C{w}(d, s) (*(block{w} *)(d) = *(const block{w} *)(s))")
    lines.append("#else")
    lines += [f"#define C{w}(d, s) memcpy(d, s, {w})" for w in widths]
    return "\n".join([*lines, "#endif"])
