"""Inner loops of the general nest whose index is no sum of strides, and what is printed for them.

1. wrap-around    for k < n: d[k] = s[(k + e) % m]        # e the same in all steps, n <= m: wraps at most once
   is split:      for k < cut: d[k] = s[k + e % m]        # both contiguous
                  for cut <= k < n: d[k] = s[k + e % m - m]
2. xor swizzle    for k < n: d[k] = s[k ^ e]              # blocks of 16 bytes change places, their bytes all alike
   is shuffles:   for blocks of 16 bytes: d[block] = shuffle(s[block ^ e], e)
3. gather         for k < n: d[k] = s[table[k]]           # stays a loop, which compilers must not vectorise:
                                                          # their gather instructions are slower than loads
4. guarded loads  for k < 3: d[3*i + k] = s[3*i + k] if g[3*i + k] else e
                                                          # unrolled, GCC 11 to 13 makes one vector statement of the
                                                          # copies, and may give a load the mask of another step
                                                          # (in part PR tree-optimization/114375): cells read 0. No
                                                          # masks there; long loops of one step keep theirs
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.positions import POSITIONS
from eqsat.backends.machine import BLOCK
from eqsat.ir.dtypes import INDEX, itemsize
from eqsat.ir.statements.stmt import Alloc, For, If, Seq, Stmt, Store, statements, stmt_terms
from eqsat.ir.terms.term import Term, int_value, linear_parts
from eqsat.ir.terms.walk import free_variables, nodes_of, postorder

SHORTEST = 8
"""A loop of fewer steps than this is not split."""
MOST_STORES = 4
"""Nor is one around more stores than this, which would be printed twice."""

SHORT = 16
"""Loops of so few steps are unrolled by compilers, which must not do that around a tile of registers either."""
GUARDS = """#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 14
#define EQSAT_GUARDS __attribute__((optimize("no-tree-loop-if-convert"))) /* else guards of loads may get mixed up */
#else
#define EQSAT_GUARDS
#endif"""

SCALAR = """#if defined(__GNUC__) && !defined(__clang__)
#define EQSAT_SCALAR __attribute__((optimize("no-tree-vectorize", "unroll-loops"))) /* loads beat gathers */
#else
#define EQSAT_SCALAR
#endif"""

SWIZZLE = """/* Byte k of d is byte k ^ mask of s: in blocks of 16 bytes, whose bytes all change places alike. */
static inline void swizzle_bytes(char *restrict d, const char *restrict s, ptrdiff_t n, ptrdiff_t mask)
{
    ptrdiff_t k = 0;
#if defined(EQSAT_VECTORS) && (defined(__SSSE3__) || !defined(__clang__))
    typedef char bytes __attribute__((vector_size(16)));
    typedef char any_bytes __attribute__((vector_size(16), aligned(1), may_alias));
    const bytes places = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, order = places ^ (char)(mask & 15);
    const ptrdiff_t block = mask & ~(ptrdiff_t)15;
    for (; k <= n - 16; k += 16) {
        const bytes x = *(const any_bytes *)(s + (k ^ block));
#ifdef __SSSE3__
        *(any_bytes *)(d + k) = __builtin_ia32_pshufb128(x, order);
#else
        *(any_bytes *)(d + k) = __builtin_shuffle(x, order);
#endif
    }
#endif
    for (; k < n; ++k) d[k] = s[k ^ mask];
}"""


@dataclass(frozen=True, eq=False)
class WrapAround:
    """The term `node` in a loop, (sign * axis + shift) % modulus, where `shift` is the same in all steps."""

    node: Term
    shift: Term
    sign: int
    modulus: int

    def values(self, loop: For, start: Term) -> tuple[Term, Term]:
        """What it is before and after it wraps round, where it is `start` in the first step."""
        before = start + self.sign * loop.axis
        return before, before - self.sign * self.modulus


@dataclass(frozen=True, eq=False)
class Swizzle:
    """A copy of `nbytes` from element `source` of `operand` to element `index` of `buffer`: byte k is byte k ^ mask.

    mask: in units of `unit` bytes.
    """

    buffer: str
    index: Term
    operand: str
    source: Term
    mask: Term
    unit: int
    nbytes: int


def _inside(loop: For) -> set[Term]:
    return {loop.axis, *(s.axis for s in statements(loop.body) if isinstance(s, For))}


def _outside(term: Term, inside: set[Term]) -> bool:
    """Whether a term is the same in every step of a loop, and safe to evaluate before it."""
    return not inside & set(free_variables(term)) and not nodes_of("load", term)


def find_wrap_around(loop: For) -> WrapAround | None:
    """The first term that wraps round at most once in a loop."""
    body = list(statements(loop.body))
    stores = sum(isinstance(s, Store) for s in body)
    if loop.extent < SHORTEST or stores > MOST_STORES or not all(isinstance(s, (For, Seq, Store)) for s in body):
        return None
    inside = _inside(loop)
    for node in postorder(*(term for s in body for term in stmt_terms(s))):
        modulus = int_value(node.args[1]) if node.op == "mod" and node.dtype == INDEX else None
        if modulus is None or modulus < loop.extent:
            continue
        sign = dict((u, k) for k, u in linear_parts(node.args[0])[1]).get(loop.axis, 0)
        shift = node.args[0] - sign * loop.axis
        if sign in (1, -1) and _outside(shift, inside):
            return WrapAround(node, shift, sign, modulus)
    return None


def find_swizzle(loop: For, simplifier: IndexSimplifier) -> Swizzle | None:
    """A loop, perhaps around one over the elements of a block, that copies from positions axis ^ mask."""
    inner = loop.body if isinstance(loop.body, For) else None
    store = loop.body if inner is None else inner.body
    if not isinstance(store, Store) or store.value.op != "load" or store.value.dtype == INDEX or len(store.index) != 1:
        return None
    run, value = 1 if inner is None else inner.extent, store.value
    size = run * itemsize(value.dtype)
    (index,), (source,) = store.index, value.args
    if size & (size - 1) or loop.extent * size < BLOCK:
        return None
    found = [u for k, u in linear_parts(source)[1] if u.op == "bitxor" and k == run]
    places = [u for u in found if any(a is loop.axis for a in u.args)]
    if len(places) != 1:
        return None
    mask = places[0].args[1 if places[0].args[0] is loop.axis else 0]
    rest, there = source - run * places[0], index - run * loop.axis
    if inner is not None:
        rest, there = rest - inner.axis, there - inner.axis
    known = simplifier.range(mask)
    if known is None or known[0] < 0 or not all(_outside(x, _inside(loop)) for x in (mask, rest, there)):
        return None
    return Swizzle(store.buffer, there, value.payload, rest, mask, size, loop.extent * size)


def is_gather(body: Stmt) -> bool:
    """Whether all innermost loops, but those that note positions, copy elements from places that a table gives."""
    notes = {s.buffer.name for s in statements(body) if isinstance(s, Alloc) and s.buffer.note == POSITIONS}
    stores = [s for s in statements(body) if isinstance(s, Store) and s.buffer not in notes]
    inner = [
        s for s in statements(body) if isinstance(s, For) and isinstance(s.body, Store) and s.body.buffer not in notes
    ]
    return len(stores) == len(inner) > 0 and all(_gathers(loop.axis, loop.body) for loop in inner)


def _gathers(axis: Term, store: Stmt) -> bool:
    if not isinstance(store, Store) or store.value.op != "load":
        return False
    return any(axis in set(free_variables(table)) for table in nodes_of("load", *store.value.args))


def guards_loads(*terms: Term) -> bool:
    """Whether a part of some terms is loaded only where a condition holds, and nowhere else in them.

    >>> from eqsat.ir.terms.parse import parse_expr
    >>> texts = "where(x[i] < 0, 0, x[i])", "where(x[i] < 0, 0, x[i + 1])"
    >>> [guards_loads(parse_expr(text, sources={"x": (0, "index")})) for text in texts]
    [False, True]
    """
    always: set[Term] = set()
    waiting = list(terms)
    while waiting:
        node = waiting.pop()
        if node not in always:
            always.add(node)
            waiting += node.args[:1] if node.op in ("where", "and", "or") else node.args
    return any(node not in always for node in nodes_of("load", *terms))


def may_mix_guards(body: Stmt) -> bool:
    """Whether loads behind guards stand in a loop that compilers unroll, or that is unrolled as it is.

    >>> from eqsat.ir.statements.primfunc import PrimFunc
    >>> text = "func f(x: int8[40, 3], y: int8[40, 3])\\n  for i in 40:\\n    for j in 3:\\n      y[i, j] = "
    >>> [may_mix_guards(PrimFunc.parse(text + e).body) for e in ("where(i < j, x[i, j], int8(0))", "x[i, j]")]
    [True, False]
    """
    loops = [s for s in statements(body) if isinstance(s, For)]
    return any(_copied(loop) and _guarded(loop.body) for loop in loops)


def _copied(loop: For) -> bool:
    """Whether several copies of one store stand in a loop, or the compiler makes them."""
    extent = int_value(loop.axis.args[0])
    if extent is not None and extent <= SHORT:
        return extent > 1
    stores = Counter(s.buffer for s in statements(loop.body) if isinstance(s, Store))
    return any(count > 1 for count in stores.values())


def _guarded(body: Stmt) -> bool:
    for stmt in statements(body):
        if guards_loads(*stmt_terms(stmt)):
            return True
        if isinstance(stmt, If) and any(nodes_of("load", *stmt_terms(s)) for s in statements(stmt)):
            return True
    return False
