"""Functions that compilers must not mask the loads of.

    for k < 3: d[3*i + k] = s[3*i + k] if g[3*i + k] else e      # loads behind a guard, in a loop that is unrolled

GCC 11 to 13 makes one vector statement of the copies of such a step, and may then give a load the mask of another step:
cells that are guarded read 0. (Some of it is PR tree-optimization/114375.) It masks loads only where it has made
straight lines of branches, which these functions forbid; long loops of one step keep their masks, which are right.
"""

from __future__ import annotations

from collections import Counter

from eqsat.ir.statements.stmt import For, If, Stmt, Store, statements, stmt_terms
from eqsat.ir.terms.term import Term, int_value
from eqsat.ir.terms.walk import nodes_of, postorder

SHORT = 16
"""Loops of so few steps are unrolled by compilers, which must not do that around a tile of registers either."""
DEFINITION = """#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 14
#define EQSAT_GUARDS __attribute__((optimize("no-tree-loop-if-convert"))) /* else guards of loads may get mixed up */
#else
#define EQSAT_GUARDS
#endif"""


def guards_loads(*terms: Term) -> bool:
    """Whether a part of some terms is loaded only where a condition holds."""
    guards = [node for node in postorder(*terms) if node.op in ("where", "and", "or")]
    return any(nodes_of("load", *node.args[1:]) for node in guards)


def may_mix_guards(body: Stmt) -> bool:
    """Whether loads behind guards stand in a loop that compilers unroll, or that is unrolled as it is.

    >>> from eqsat.ir.statements.primfunc import PrimFunc
    >>> text = "func f(x: int8[40, 3], y: int8[40, 3])\\n  for i in 40:\\n    for j in 3:\\n      y[i, j] = "
    >>> [may_mix_guards(PrimFunc.parse(text + e).body) for e in ("where(i < j, x[i, j], 0)", "where(i < j, 1, 0)")]
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
