"""Loops that run only where their bodies do something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_axis
from eqsat.ir.statements.stmt import Alias, Alloc, For, If, Seq, Stmt, Store, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts, nodes_of
from eqsat.passes.cells import has_loads
from eqsat.passes.context import Context
from eqsat.passes.flow import context_at, enter_loop
from eqsat.passes.paths import EMPTY, Path, changed_while, put, with_body
from eqsat.passes.simplify import simplify_statements


def reduce_loop_extents(func: PrimFunc) -> PrimFunc:
    """Let serial and parallel loops skip the first and last iterations in which no branch of their body is taken, and
    no selection of what is stored selects another value than the cell holds.

    The conditions are simplified in the smaller ranges, and a loop of one iteration is its body.
    ScheduleError where no loop can be smaller.

    rewrite: `for j in 4: if j < 2: A[j] = 0` to `for j in 2: A[j] = 0`.
    """
    smaller = shrunk(func)
    if smaller is func:
        problem = "no condition keeps the first or last iterations of a loop from doing something"
        raise ScheduleError(f"reduce_loop_extents of {func.name}", problem)
    return simplify_statements(smaller)


def shrunk(func: PrimFunc) -> PrimFunc:
    """The function with the loops that can be smaller, or itself; its conditions are left as they are."""
    return changed_while(func, _shrunk_at)


def _shrunk_at(func: PrimFunc, path: Path, stmt: Stmt) -> PrimFunc | None:
    if not isinstance(stmt, For) or stmt.kind not in ("serial", "parallel"):
        return None
    axis = partial(_axis_like, stmt.axis, func)
    new = smaller(stmt, needed(stmt.body), enter_loop(stmt, context_at(func, path)), axis)
    return None if new is None else with_body(func, put(func.body, path, new))


def needed(stmt: Stmt) -> Term:
    """A condition without which a statement does nothing."""
    if isinstance(stmt, If) and stmt.orelse is None:
        return t.logical_and(stmt.condition, needed(stmt.then))
    if isinstance(stmt, Store) and stmt.value.op == "where":
        test, yes, no = stmt.value.args
        own = t.load(stmt.buffer, stmt.index, yes.dtype)
        return test if no is own else t.logical_not(test) if yes is own else t.TRUE
    if isinstance(stmt, Seq):
        return t.logical_or(*map(needed, stmt.parts))
    if isinstance(stmt, (For, Alloc, Alias)):
        return needed(stmt.body)
    return t.TRUE


def smaller(loop: For, condition: Term, inside: Context, named: Callable[[Term], Term]) -> Stmt | None:
    """A loop over the iterations that do something; None where these are all.

    condition: without it, the body does nothing; inside: what is known in the body; named: an axis of an extent.
    """
    if condition is t.TRUE:
        return None
    axis = loop.axis
    extent = t.int_value(axis.args[0])
    if extent is None:
        return _symbolic(loop, condition, inside, named)
    if extent == 0:
        return EMPTY

    def never(part: Term) -> bool:
        return bool(inside.prove(t.logical_not(t.logical_and(part, condition))))

    if not never(axis < 1) and not never(t.compare("eq", axis, extent - 1)):
        return None
    if never(axis < extent):
        return EMPTY
    start = _last(extent, lambda k: never(axis < k))
    stop = extent - _last(extent, lambda k: never(t.index_const(extent - k) <= axis))
    return _over(loop, t.index_const(start), t.index_const(stop - start), named)


def _last(limit: int, holds: Callable[[int], bool]) -> int:
    """The largest number below the limit up to which a falling predicate holds."""
    low, high = 0, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _symbolic(loop: For, condition: Term, context: Context, named: Callable[[Term], Term]) -> Stmt | None:
    """A loop of symbolic extent whose condition has the form axis < size, size over symbols and within the extent."""
    for part in conjuncts(condition):
        if has_loads(part) or part.op not in ("lt", "le"):
            continue
        bound = (part.args[1] if part.op == "lt" else part.args[1] + 1) - (part.args[0] - loop.axis)
        if nodes_of("axis", bound) or nodes_of("var", bound) or bound is loop.axis.args[0]:
            continue
        inside = t.logical_and(t.index_const(0) <= bound, bound <= loop.axis.args[0])
        if context.prove(inside):
            return _over(loop, t.index_const(0), bound, named)
    return None


def _over(loop: For, start: Term, extent: Term, named: Callable[[Term], Term]) -> Stmt:
    """The loop over a part of its range."""
    if t.int_value(extent) == 1:
        return with_axis(loop.body, loop.axis, start)
    axis = named(extent)
    return replace(loop, axis=axis, body=with_axis(loop.body, loop.axis, axis + start))


def _axis_like(axis: Term, func: PrimFunc, extent: Term) -> Term:
    """An axis of another extent, under the name of the first where no loop has that."""
    used = {s.axis for s in statements(func.body) if isinstance(s, For)}
    new = t.make(axis.op, (extent,), axis.payload)
    number = 0
    while new in used:
        payload = (axis.payload[0], number) if axis.op == "axis" else f"{axis.payload}_{number}"
        new, number = t.make(axis.op, (extent,), payload), number + 1
    return new
