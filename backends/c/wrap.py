"""Inner loops of the general nest whose index is no sum of strides, and what they are instead.

A loop in which (axis + e) % m wraps round once, where `e` is the same for all of it, is two loops in which it does not:
rows that are rotated by a number of their own become contiguous pieces. A loop that reads at axis ^ e copies blocks
of 16 bytes, whose bytes change places in all of them alike. A loop that copies from places in a table is kept from
being made of gathers, which are slower than loads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from eqsat.backends.lowering.affine import Folder
from eqsat.ir.dtypes import INDEX, itemsize
from eqsat.ir.statements.stmt import For, Seq, Stmt, Store, statements, stmt_terms
from eqsat.ir.terms.term import Term, int_value, linear_parts
from eqsat.ir.terms.walk import free_variables, leaves, postorder, substitute

SHORTEST = 8
"""A loop of fewer steps is not worth two."""
MOST_STORES = 4
"""Nor is one around more stores than this."""

SCALAR = """#if defined(__GNUC__) && !defined(__clang__)
#define EQSAT_SCALAR __attribute__((optimize("no-tree-vectorize", "unroll-loops"))) /* loads beat gathers */
#else
#define EQSAT_SCALAR
#endif"""

SWIZZLE = """/* Byte k of d is byte k ^ turn of s: in blocks of 16 bytes, whose bytes all change places alike. */
static inline void swizzle_bytes(char *restrict d, const char *restrict s, ptrdiff_t n, ptrdiff_t turn)
{
    ptrdiff_t k = 0;
#if defined(EQSAT_VECTORS) && (defined(__SSSE3__) || !defined(__clang__))
    typedef char bytes __attribute__((vector_size(16)));
    typedef char any_bytes __attribute__((vector_size(16), aligned(1), may_alias));
    const bytes places = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, order = places ^ (char)(turn & 15);
    const ptrdiff_t block = turn & ~(ptrdiff_t)15;
    for (; k <= n - 16; k += 16) {
        const bytes x = *(const any_bytes *)(s + (k ^ block));
#ifdef __SSSE3__
        *(any_bytes *)(d + k) = __builtin_ia32_pshufb128(x, order);
#else
        *(any_bytes *)(d + k) = __builtin_shuffle(x, order);
#endif
    }
#endif
    for (; k < n; ++k) d[k] = s[k ^ turn];
}"""


@dataclass(frozen=True, eq=False)
class Wrap:
    """The terms (sign * axis + shift) % modulus of a loop."""

    node: Term
    shift: Term
    sign: int
    modulus: int

    def values(self, loop: For, start: Term) -> tuple[Term, Term]:
        """What they are before and after the cut, where they are `start` at the beginning."""
        before = start + self.sign * loop.axis
        return before, before - self.sign * self.modulus


@dataclass(frozen=True, eq=False)
class Swizzle:
    """A row of `nbytes`: what begins at `index` of `buffer` gets the bytes at `source` of `operand`, k at k ^ turn."""

    buffer: str
    index: Term
    operand: str
    source: Term
    turn: Term
    unit: int
    nbytes: int


def _inside(loop: For) -> set[Term]:
    return {loop.axis, *(s.axis for s in statements(loop.body) if isinstance(s, For))}


def _outside(term: Term, inside: set[Term]) -> bool:
    """Whether a term is the same in every step of a loop, and safe to evaluate before it."""
    return not inside & set(free_variables(term)) and not leaves("load", term)


def find_wrap(loop: For) -> Wrap | None:
    """What wraps round once in a loop."""
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
            return Wrap(node, shift, sign, modulus)
    return None


def replaced(stmt: Stmt, old: Term, new: Term) -> Stmt:
    """A statement of loops and stores with another term for one."""
    if isinstance(stmt, For):
        return replace(stmt, body=replaced(stmt.body, old, new))
    if isinstance(stmt, Seq):
        return Seq(tuple(replaced(part, old, new) for part in stmt.parts))
    assert isinstance(stmt, Store)
    return Store(stmt.buffer, tuple(substitute(i, {old: new}) for i in stmt.index), substitute(stmt.value, {old: new}))


def find_swizzle(loop: For, folder: Folder) -> Swizzle | None:
    """A loop, perhaps around one over the elements of a block, that copies from positions axis ^ turn."""
    inner = loop.body if isinstance(loop.body, For) else None
    store = loop.body if inner is None else inner.body
    if not isinstance(store, Store) or store.value.op != "load" or store.value.dtype == INDEX or len(store.index) != 1:
        return None
    run, value = 1 if inner is None else inner.extent, store.value
    size = run * itemsize(value.dtype)
    (index,), (source,) = store.index, value.args
    if size & (size - 1) or loop.extent * size < 16:
        return None
    found = [u for k, u in linear_parts(source)[1] if u.op == "bitxor" and k == run]
    turns = [u for u in found if any(a is loop.axis for a in u.args)]
    if len(turns) != 1:
        return None
    turn = turns[0].args[1 if turns[0].args[0] is loop.axis else 0]
    rest, there = source - run * turns[0], index - run * loop.axis
    if inner is not None:
        rest, there = rest - inner.axis, there - inner.axis
    known = folder.range(turn)
    if known is None or known[0] < 0 or not all(_outside(x, _inside(loop)) for x in (turn, rest, there)):
        return None
    return Swizzle(store.buffer, there, value.payload, rest, turn, size, loop.extent * size)


def is_gather(body: Stmt) -> bool:
    """Whether all loops copy elements from places that a table gives one by one."""
    stores = [s for s in statements(body) if isinstance(s, Store)]
    inner = [s for s in statements(body) if isinstance(s, For) and isinstance(s.body, Store)]
    return len(stores) == len(inner) > 0 and all(_gathers(loop.axis, loop.body) for loop in inner)


def _gathers(axis: Term, store: Stmt) -> bool:
    if not isinstance(store, Store) or store.value.op != "load":
        return False
    return any(axis in set(free_variables(table)) for table in leaves("load", *store.value.args))
