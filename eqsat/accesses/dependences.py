"""Dependences that a change of order would break: loops that change places, iterations that run at once, bodies that
are pulled apart.

A float accumulation may run in another order only along loops marked `reduce`; what is allowed so is answered, because
it is recorded with the result. Integer accumulations give the same bits in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from eqsat.accesses.access import Access
from eqsat.accesses.accumulate import combine
from eqsat.accesses.conflict import Conflict, Places, common_loops, conflict
from eqsat.ir.statements.stmt import Stmt
from eqsat.ir.terms.term import Term


def pairs(first: Sequence[Access], second: Sequence[Access]) -> Iterator[tuple[Access, Access]]:
    """Pairs of accesses of one memory, one of them writing."""
    for a, b in product(first, second):
        if a.memory.root == b.memory.root and (a.write or b.write):
            yield a, b


def carried(found: Sequence[Access], depth: int) -> Conflict | None:
    """A conflict of different iterations of the loop at this depth, all loops around it in the same iteration.

    >>> from eqsat.accesses.access import Context, Memory, accesses
    >>> from eqsat.ir.statements.stmt import BufferDecl, For, Store
    >>> from eqsat.ir.terms import term as t
    >>> i = t.ax(0, 14)
    >>> body = For(i, Store("x", (i // 2,), t.const(1, "int8")))
    >>> print(carried(accesses(body, Context({"x": Memory(BufferDecl("x", (7,), "int8"), "x")})), 0))
    the write of x[i0 // 2] at i0 = 0 and the write of x[i0 // 2] at i0 = 1 meet in x[0]
    """
    return next(all_carried(found, depth), None)


def all_carried(found: Sequence[Access], depth: int) -> Iterator[Conflict]:
    """The same, one for each two accesses that have one."""
    same = [(k, k) for k in range(depth)]
    for a, b in pairs(found, found):
        met = conflict(a, b, same, less=[(depth, depth)])
        if met is not None:
            yield met


def permuted(found: Sequence[Access], depth: int, order: Sequence[int]) -> tuple[Conflict | None, list[Stmt]]:
    """A conflict whose order turns around when the loops from `depth` on are run in another order, outer ones first;
    and the stores whose float reductions are reordered.

    order: the new sequence of these loops, as their numbers from 0.
    """
    reordered: list[Stmt] = []
    for a, b in pairs(found, found):
        for k in range(len(order)):
            for m in order[: order.index(k)]:
                if m < k:
                    continue
                before = {*range(depth + k), *(depth + n for n in order[: order.index(m)])}
                same = [(n, n) for n in sorted(before)]
                here = (depth + k, depth + k), (depth + m, depth + m)
                met = _broken(a, b, Order(same, [here[0]], [here[1]]), reordered)
                if met is not None:
                    return met, reordered
    return None, reordered


def pulled_apart(first: Sequence[Access], second: Sequence[Access], depth: int) -> tuple[Conflict | None, list[Stmt]]:
    """A conflict that forbids to run all iterations of the loop at `depth` of the first part before all of the second:
    the second part, in an iteration, meets the first part in a later one."""
    reordered: list[Stmt] = []
    same = [(k, k) for k in range(depth)]
    for a, b in pairs(second, first):
        met = _broken(a, b, Order(same, [(depth, depth)]), reordered)
        if met is not None:
            return met, reordered
    return None, reordered


def mapped(found: Sequence[Access], loops: range, outputs: Sequence[Term]) -> tuple[Conflict | None, list[Stmt]]:
    """A conflict whose order turns around when loops are run in the order of the values of terms over their axes.

    loops: the depths of the loops; outputs: the new order, the first one first.
    """
    reordered: list[Stmt] = []
    for a, b in pairs(found, found):
        for k in loops:
            same = [(n, n) for n in range(k)]
            for m, output in enumerate(outputs):
                related = [("eq", x, x) for x in outputs[:m]]
                turned = Order(same, [(k, k)], [], (*related, ("gt", output, output)))
                met = _broken(a, b, turned, reordered)
                if met is not None:
                    return met, reordered
    return None, reordered


def flows(found: Sequence[Access], buffer: str) -> Conflict | None:
    """A read of a buffer that comes after a write of its cell; loops that run at once or are marked `reduce` have no
    order.

    >>> from eqsat.accesses.access import Context, Memory, accesses
    >>> from eqsat.ir.statements.stmt import BufferDecl, For, Store
    >>> from eqsat.ir.terms import term as t
    >>> i = t.ax(0, 14)
    >>> x = Context({"x": Memory(BufferDecl("x", (15,), "int8"), "x")})
    >>> print(flows(accesses(For(i, Store("x", (i + 1,), t.load("x", [i], "int8"))), x), "x"))
    the write of x[i0 + 1] at i0 = 0 and the read of x[i0] at i0 = 1 meet in x[1]
    >>> flows(accesses(For(i, Store("x", (i,), t.load("x", [i + 1], "int8"))), x), "x") is None
    True
    """
    own = [a for a in found if a.buffer == buffer]
    for write, read in product([a for a in own if a.write], [a for a in own if not a.write]):
        depth = common_loops(write, read)
        orders = [Order([(k, k) for k in range(depth)])] if write.path < read.path else []
        for n in range(depth):
            same, loop = [(k, k) for k in range(n)], write.loops[n].stmt
            orders.append(Order(same, less=[(n, n)]))
            if loop.kind in ("parallel", "vectorized") or loop.reduce:
                orders.append(Order(same, greater=[(n, n)]))
        for order in orders:
            met = order.conflict(write, read)
            if met is not None:
                return met
    return None


@dataclass(frozen=True)
class Order:
    """How the loops of two iterations compare; see `conflict`."""

    same: Places = ()
    less: Places = ()
    greater: Places = ()
    related: Sequence[tuple[str, Term, Term]] = ()

    def conflict(self, a: Access, b: Access) -> Conflict | None:
        """The conflict of iterations that compare so."""
        return conflict(a, b, self.same, self.less, self.greater, self.related)


def _broken(a: Access, b: Access, order: Order, reordered: list[Stmt]) -> Conflict | None:
    """A conflict that is not the free order of an accumulation."""
    combined = combine(a, b)
    if combined is not None and combined.exact:
        return None
    met = order.conflict(a, b)
    if met is None or combined is None:
        return met
    kept = {n for n in range(common_loops(a, b)) if not a.loops[n].stmt.reduce}
    if kept & {p for p, _ in (*order.less, *order.greater)}:
        return met
    for n in sorted(kept - {p for p, q in order.same if p == q}):
        for less, greater in (([(n, n)], []), ([], [(n, n)])):
            other = replace(order, less=(*order.less, *less), greater=(*order.greater, *greater)).conflict(a, b)
            if other is not None:
                return other
    if not any(s is a.stmt for s in reordered):
        reordered.append(a.stmt)
    return None
