"""Primitives that change the order of iterations: reorder, fission and the transformation of a nest by an index map.

Each asks whether two accesses of the same memory, one of them writing, would change places. Float accumulations may do
so along loops marked `reduce`, which is recorded; integer ones give the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eqsat.accesses.access import Access, Context, accesses
from eqsat.accesses.conflict import conflict
from eqsat.accesses.dependences import permuted, pulled_apart
from eqsat.accesses.flow import Named, same_flow
from eqsat.accesses.values import same_values
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.names import names_of
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import For, If, Seq, Stmt, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import fresh_name, leaf_name
from eqsat.scheduling.change import Change, refuse, shown
from eqsat.scheduling.loops import require_independent
from eqsat.scheduling.nest import find_loop, guarded, places, replaced, substituted

Chain = list[For | If]
REDUCTIONS = ", or mark a reduction's loops reduce"
"""What may be done where an order matters, unless it is done already."""


def chain(what: str, outermost: For, innermost: For) -> Chain:
    """The loops and guards from one loop to another inside of it, with nothing beside them."""
    found: Chain = []
    here: Stmt = outermost
    while True:
        if isinstance(here, For):
            found.append(here)
            if here is innermost:
                return found
            here = here.body
        elif isinstance(here, If) and here.orelse is None:
            found.append(here)
            here = here.then
        else:
            name = leaf_name(innermost.axis)
            problem = f"between {leaf_name(outermost.axis)} and {name} stands more than loops and guards"
            raise ScheduleError(what, problem, "split it off with fission")


def require_stable(what: str, found: Chain, known: Sequence[Access], depth: int) -> list[Access]:
    """The accesses but those of the guards; refuses guards that read cells which the nest writes, for inside of more
    loops they would read something else.

    known: the accesses of the nest, which has `depth` loops around it.
    """
    around = [(n, n) for n in range(depth)]
    inner: list[Access] = []
    for access in known:
        guard = next((s for s in found if s is access.stmt), None)
        if not isinstance(guard, If):
            inner.append(access)
            continue
        for write in (a for a in known if a.write):
            met = conflict(access, write, around)
            if met is not None:
                problem = f"the guard {guard.condition} reads {access.buffer}, which is written inside: {met}"
                raise ScheduleError(what, problem, "split it off with fission", met.witness)
    return inner


def reorder(func: PrimFunc, loops: Sequence[str]) -> Change:
    """Loops of one nest in another order, outer ones first; loops between that are not named stay where they are.

    rewrite: `for i: for j: S` -> `for j: for i: S`
    """
    what = f"reorder of loops to {', '.join(loops)}"
    found = [find_loop(func, name, what) for name in loops]
    if len({id(stmt) for stmt, _ in found}) < max(2, len(loops)):
        raise ScheduleError(what, "a loop is named twice, or there is only one", "name each loop once")
    by_depth = sorted(found, key=lambda item: len(item[1].path))
    (first, context), (last, inner) = by_depth[0], by_depth[-1]
    if inner.path[: len(context.path)] != context.path:
        raise ScheduleError(what, "the loops are not in one nest", "reorder loops that stand one inside of the other")
    nest = chain(what, first, last)
    members = [s for s in nest if isinstance(s, For)]
    wanted = [stmt for stmt, _ in found]
    if any(all(w is not m for m in members) for w in wanted):
        raise ScheduleError(what, "the loops are not in one nest", "reorder loops that stand one inside of the other")
    known = accesses(first, context)
    moved = require_stable(what, nest, known, len(context.loops))
    queue = iter(wanted)
    order = [next(queue) if any(m is w for w in wanted) else m for m in members]
    numbers = [next(n for n, m in enumerate(members) if m is x) for x in order]
    met, free = permuted(moved, len(context.loops), numbers)
    body = last.body
    for stmt in reversed(nest):
        body = guarded(stmt.condition, body) if isinstance(stmt, If) else body
    for stmt in reversed(order):
        body = replace(stmt, body=body)
    result = replaced(func, context.path, body)
    if met is not None:
        if not unchanged(known, accesses(body, context), context, {}) and not same_values(func, result):
            fix = f"leave the order of these two{REDUCTIONS if not all(s.reduce for s in members) else ''}"
            raise refuse(what, met, fix)
        free = []
    recheck(result, [leaf_name(m.axis) for m in members], context, what)
    return Change(result, (), shown(free))


def unchanged(before: Sequence[Access], after: Sequence[Access], context: Context, table: Mapping[Term, Term]) -> bool:
    """Whether conflicts that turn around make no difference, because each read sees the same write, and each cell keeps
    the same one. `table` gives old axes as terms over those that they have become."""
    if len(before) != len(after):
        return False
    old = [Named(a, a.axes) for a in before]
    new = [Named(b, tuple(_now(x, b, table) for x in a.axes)) for a, b in zip(before, after, strict=True)]
    return same_flow(old, new, len(context.loops))


def _now(axis: Term, access: Access, table: Mapping[Term, Term]) -> Term:
    """An axis of the accesses before over those of one after."""
    return axis if axis in set(access.axes) else table.get(axis, axis)


def recheck(func: PrimFunc, names: Sequence[str], around: Context, what: str) -> None:
    """Loops that run at once must still be independent, now that other loops are around or inside of them."""
    for place in places(func):
        stmt, here = place.stmt, place.context
        if here.path[: len(around.path)] != around.path or not isinstance(stmt, For):
            continue
        if stmt.kind in ("parallel", "vectorized") and leaf_name(stmt.axis) in names:
            require_independent(stmt, here, what)


def fission(func: PrimFunc, loop: str, at: int) -> Change:
    """A loop over a sequence as two loops, cut before part number `at`.

    rewrite: `for i: { S; T }` -> `for i: S` `for i: T`
    """
    what = f"fission of loop {loop} before part {at}"
    stmt, context = find_loop(func, loop, what)
    guards, body = peel(stmt.body)
    if not isinstance(body, Seq) or not 0 < at < len(body.parts):
        count = len(body.parts) if isinstance(body, Seq) else 1
        raise ScheduleError(what, f"its body has {count} parts", "cut between two of them")
    known = accesses(stmt, context)
    require_stable(what, guards, known, len(context.loops))
    first, second = seq(body.parts[:at]), seq(body.parts[at:])
    here = (*context.path, 0, *(1 for _ in guards))
    met, free = pulled_apart(
        _within(known, here, range(at)), _within(known, here, range(at, 1 << 30)), len(context.loops)
    )
    name = fresh_name(leaf_name(stmt.axis), names_of(func))
    axis = t.var(name, stmt.axis.args[0])
    two = replace(stmt, axis=axis, body=substituted(wrapped(guards, second), {stmt.axis: axis}))
    both = seq([replace(stmt, body=wrapped(guards, first)), two])
    result = replaced(func, context.path, both)
    if met is not None:
        same = unchanged(known, accesses(both, context), context, {stmt.axis: axis})
        if not same and not same_values(func, result):
            raise refuse(what, met, "the first part needs what the second one has done; leave them together")
        free = []
    return Change(result, (leaf_name(stmt.axis), name), shown(free))


def peel(stmt: Stmt) -> tuple[Chain, Stmt]:
    """The guards around a statement, and the statement."""
    found: Chain = []
    while isinstance(stmt, If) and stmt.orelse is None:
        found.append(stmt)
        stmt = stmt.then
    return found, stmt


def wrapped(guards: Chain, stmt: Stmt) -> Stmt:
    """The statement inside of the guards again."""
    for guard in reversed(guards):
        assert isinstance(guard, If)
        stmt = replace(guard, then=stmt)
    return stmt


def _within(found: Sequence[Access], path: tuple[int, ...], numbers: range) -> list[Access]:
    size = len(path)
    return [a for a in found if a.path[:size] == path and len(a.path) > size and a.path[size] in numbers]
