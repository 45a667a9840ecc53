"""Primitives on loops: split, fuse, rename, unroll, vectorize, parallel. They keep the order of iterations, or
refuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from eqsat.accesses.access import Context, accesses
from eqsat.accesses.dependences import all_carried, carried
from eqsat.ir.decide import decider
from eqsat.ir.errors import ScheduleError
from eqsat.ir.ranges.map_bounds import ceil_div
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import For
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import substitute
from eqsat.scheduling.change import Change, refuse
from eqsat.scheduling.excerpt import excerpt
from eqsat.scheduling.nest import find_loop, guarded, loops, map_terms, new_names, replaced, substituted

AtOnce = Literal["parallel", "vectorized"]


def split(func: PrimFunc, loop: str, factors: Sequence[int | None], names: Sequence[str] | None = None) -> Change:
    """One loop as several, outer ones first: `i` as `i_0*f + i_1`, in the same order.

    factors: the extents of the new loops; one may be None, which is then what is needed. Where the product is more than
    the extent, the body is guarded.
    rewrite: `for i in 14: S(i)` -> `for i_0 in 4: for i_1 in 4: if 4*i_0 + i_1 < 14: S(4*i_0 + i_1)`
    """
    what = f"split of loop {loop} by {list(factors)}"
    stmt, context = find_loop(func, loop, what)
    extents = _extents(what, stmt.axis.args[0], factors)
    if stmt.kind in ("vectorized", "unrolled") and len(extents) > 1:
        raise ScheduleError(what, f"the loop is {stmt.kind}", "split it before")
    name = leaf_name(stmt.axis)
    made = new_names(func, what, names, [f"{name}_{n}" for n in range(len(extents))])
    axes = [t.var(n, e) for n, e in zip(made, extents, strict=True)]
    index = t.index_const(0)
    for axis in axes:
        index = index * axis.args[0] + axis
    body = substituted(stmt.body, {stmt.axis: index})
    inside = t.compare("lt", index, stmt.axis.args[0])
    if not _holds(inside):
        body = guarded(inside, body)
    for n, axis in reversed(list(enumerate(axes))):
        body = replace(stmt, axis=axis, body=body, kind=stmt.kind if n == 0 else "serial")
    return Change(replaced(func, context.path, body), tuple(made))


def _extents(what: str, extent: Term, factors: Sequence[int | None]) -> list[Term]:
    if not factors or sum(f is None for f in factors) > 1 or any(f is not None and f < 1 for f in factors):
        raise ScheduleError(what, "the factors are not positive numbers, one of them perhaps None", "as in [None, 4]")
    rest = 1
    for f in factors:
        rest *= 1 if f is None else f
    found = [ceil_div(extent, t.index_const(rest)) if f is None else t.index_const(f) for f in factors]
    if None not in factors and not _holds(t.compare("le", extent, t.index_const(rest))):
        left_out = {"iteration": rest} if t.int_value(extent) is not None else {}
        problem = f"{rest} iterations for an extent of {extent}"
        raise ScheduleError(what, problem, "use None for one of the factors", left_out)
    return found


def _holds(claim: Term) -> bool:
    return claim is t.TRUE or bool(decider().prove(claim, {}))


def fuse(func: PrimFunc, outer: str, inner: str, name: str | None = None) -> Change:
    """Two loops, one directly inside of the other, as one in the same order.

    rewrite: `for i in 4: for j in 3: S(i, j)` -> `for i_j in 12: S(i_j // 3, i_j % 3)`
    """
    what = f"fusion of loops {outer} and {inner}"
    first, context = find_loop(func, outer, what)
    second, _ = find_loop(func, inner, what)
    if first.body is not second:
        raise ScheduleError(what, f"{inner} is not all that is inside of {outer}", "reorder or split off the rest")
    if first.kind != second.kind:
        raise ScheduleError(what, f"{outer} is {first.kind}, {inner} is {second.kind}", "fuse loops of one kind")
    m, n = first.axis.args[0], second.axis.args[0]
    wanted = f"{leaf_name(first.axis)}_{leaf_name(second.axis)}"
    (made,) = new_names(func, what, None if name is None else [name], [wanted])
    axis = t.var(made, m * n)
    if t.int_value(n) == 0:  # nothing runs, whatever the indices are
        table = {first.axis: axis, second.axis: axis}
    else:
        table = {first.axis: axis // n, second.axis: axis % n}
    body = substituted(second.body, table)
    new = replace(first, axis=axis, body=body, reduce=first.reduce and second.reduce)
    return Change(replaced(func, context.path, new), (made,))


def rename_loop(func: PrimFunc, loop: str, name: str) -> Change:
    """A loop with a name that nothing else has.

    rewrite: `for i in 4: S(i)` -> `for x in 4: S(x)`
    """
    what = f"renaming of loop {loop}"
    stmt, context = find_loop(func, loop, what)
    (made,) = new_names(func, what, [name], [name])
    axis = t.var(made, stmt.axis.args[0])

    def renamed(terms: Sequence[Term]) -> Sequence[Term]:
        return [substitute(x, {stmt.axis: axis}) for x in terms]

    new = replace(stmt, axis=axis, body=map_terms(stmt.body, renamed))
    return Change(replaced(func, context.path, new), (made,))


def unroll(func: PrimFunc, loop: str) -> Change:
    """A loop marked to be unrolled; its extent is a number.

    rewrite: `for i in 4: S` -> `for i in 4: S  # unrolled`
    """
    what = f"unrolling of loop {loop}"
    stmt, context = find_loop(func, loop, what)
    if t.int_value(stmt.axis.args[0]) is None:
        raise ScheduleError(what, f"its extent {stmt.axis.args[0]} is not a number", "split off a loop of few steps")
    return Change(replaced(func, context.path, replace(stmt, kind="unrolled")))


def vectorize(func: PrimFunc, loop: str) -> Change:
    """A loop in vectors; see `at_once`."""
    return at_once(func, loop, "vectorized")


def parallel(func: PrimFunc, loop: str) -> Change:
    """A loop in threads; see `at_once`."""
    return at_once(func, loop, "parallel")


def at_once(func: PrimFunc, loop: str, kind: AtOnce) -> Change:
    """A loop whose iterations run at the same time: none of two conflict.

    rewrite: `for i in 4: S` -> `for i in 4: S  # parallel`
    """
    what = f"{'vectorizing' if kind == 'vectorized' else 'parallel run'} of loop {loop}"
    stmt, context = find_loop(func, loop, what)
    require_independent(stmt, context, what)
    return Change(replaced(func, context.path, replace(stmt, kind=kind)))


def require_independent(stmt: For, context: Context, what: str) -> None:
    """Refuse a loop of which two iterations conflict."""
    met = carried(accesses(stmt, context), len(context.loops))
    if met is not None:
        advice = "leave it serial, or give each iteration memory of its own"
        raise refuse(what, met, advice)


def check_loops(func: PrimFunc) -> tuple[str, ...]:
    """The loops that run at once, `parallel` or `vectorized`, of which two iterations may conflict for all that can be
    told; ScheduleError for one of which two do.

    >>> check_loops(PrimFunc.parse("func f(x: int8[4])\\n  parallel for i in 3:\\n    x[i + 1] = x[i]"))
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.ScheduleError: parallel loop i: the write of x[i + 1] at i = 0 and the read of x[i] ...
    """
    promised: list[str] = []
    for name, place in loops(func).items():
        stmt, context = place.stmt, place.context
        if not isinstance(stmt, For) or stmt.kind not in ("parallel", "vectorized"):
            continue
        conflicts = list(all_carried(accesses(stmt, context), len(context.loops)))
        met = next((c for c in conflicts if c.exact), None)
        if met is not None:
            error = refuse(f"{stmt.kind} loop {name}", met, "make it serial")
            error.program = excerpt(func, {"loop": name}, error.witness)
            raise error
        if conflicts:
            promised.append(name)
    return tuple(promised)
