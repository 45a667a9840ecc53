"""A function cut in two at a stage, with what the second part has to know about the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eqsat.ir.decide import decider
from eqsat.ir.dtypes import is_float
from eqsat.ir.errors import ScheduleError
from eqsat.ir.given import whole
from eqsat.ir.statements.lane_loops import to_lane_loops
from eqsat.ir.statements.lanes import has_lanes
from eqsat.ir.statements.names import cells_of, names_of
from eqsat.ir.statements.primfunc import PrimFunc, as_function
from eqsat.ir.statements.ssa import with_own_names
from eqsat.ir.statements.stmt import (
    Alias,
    Alloc,
    Assume,
    BufferDecl,
    For,
    If,
    Seq,
    Stmt,
    Store,
    Transform,
    seq,
    statements,
)
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import new_hole
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute
from eqsat.passes.cells import CellAccess, accesses, certain_writes, has_loads, written
from eqsat.passes.facts import Fact, no_negative_zero
from eqsat.passes.flow import after, entry
from eqsat.passes.holes import numbered
from eqsat.passes.liveness import cell_at
from eqsat.passes.mentioned import names_in
from eqsat.passes.open_cells import cell_axes, may_mean, unknown_cells
from eqsat.passes.paths import tidy
from eqsat.simplifying.simplify import simplify_term


@dataclass(frozen=True)
class _Stages:
    """The statements of a function before and after a cut, and the local buffers around them."""

    locals: tuple[BufferDecl, ...]
    first: tuple[Stmt, ...]
    second: tuple[Stmt, ...]

    @property
    def crossing(self) -> tuple[BufferDecl, ...]:
        """The local buffers that both parts use."""
        used = names_in(Seq(self.first)) & names_in(Seq(self.second))
        return tuple(d for d in self.locals if d.name in used)


def split_function(func: PrimFunc, stage: int) -> tuple[PrimFunc, PrimFunc]:
    """Two functions that do one after the other what a function does: the first `stage` statements, and the others.

    >>> import eqsat as eq
    >>> f = eq.PrimFunc.parse('''func f(B: int8[4])
    ...   alloc L: int8[4]
    ...   for i in 4:
    ...     L[i] = int8(7)
    ...   for j in 4:
    ...     B[j] = L[j]''')
    >>> first, second = eq.split_function(f, 1)
    >>> print(second)
    func f_1(B: int8[4], L: int8[4])
      for L_0 in 4:
        assume L[L_0] == int8(7)
      for j in 4:
        B[j] = L[j]

    Local buffers that both use become parameters of both. At the cut, the first function frees (stores undef to) the
    cells of these that it surely does not write, and the second begins with assumptions: what is known there about the
    cells that it uses, each proved from the first. So a branch that could go before can still go afterwards. Cells that
    may hold what was computed from a hole are freed, too: where the second function reads none of them, and at its end.

    Vectors stay what they are, and their lanes are cells like others; of buffers of vectors nothing is said at the cut.

    Errors: ScheduleError where there is nothing to cut, a buffer that both use has an alias, or the second part reads a
    cell that may hold what the first one computed from a hole. Source: RFC 77 of Apache TVM (row E17).
    """
    func = with_own_names(as_function(func, "split_function"))
    stages = _stages(func, stage)
    taken, used = names_of(func), names_in(Seq(stages.second))
    freed, assumed = list[Stmt](), list[Stmt]()
    left_open: dict[str, _Open] = {}
    scalars, later = (_in_scalars(func, stages, parts) for parts in (stages.first, stages.second))
    if scalars is not None:
        seen, first = scalars
        known = after(first, entry(seen))
        left_open = {decl.name: _left_open(decl, first, taken) for decl in stages.crossing}
        decls = {**func.buffer_map, **{d.name: d for d in stages.crossing}}
        for name, region in unknown_cells(first, seen.buffer_map, stages.locals).items():
            if name in decls:
                where = _unused(func, decls[name], region, later)
                found = left_open.get(name) or _open(decls[name], t.FALSE, taken)
                where = substitute(where, dict(zip(cell_axes(decls[name]), found.axes, strict=True)))
                known = known.after_writes([CellAccess(name, found.axes, where, found.axes, "free")])
                left_open[name] = replace(found, where=simplify_term(t.logical_or(found.where, where), {}))
        freed = [stmt for name, found in left_open.items() for stmt in _freed(decls[name], found)]
        assumed = [stmt for fact in known.facts if (stmt := _assumed(fact, used, taken)) is not None]
    left = [] if later is None else _left_unknown(func, stages, later[1], taken)
    crossing = [_as_left(decl, left_open.get(decl.name)) for decl in stages.crossing]
    return (
        numbered(func, _function(func, f"{func.name}_0", stages, [*stages.first, *freed], crossing)),
        numbered(func, _function(func, f"{func.name}_1", stages, [*assumed, *stages.second, *left], stages.crossing)),
    )


def _left_unknown(func: PrimFunc, stages: _Stages, second: Stmt, taken: set[str]) -> list[Stmt]:
    """Undef stores for what the second part computes from holes in buffers of both, which nobody reads afterwards."""
    known = {**func.buffer_map, **{d.name: d for d in stages.crossing}}
    found = unknown_cells(second, known, [d for d in stages.locals if d.name not in known])
    stmts: list[Stmt] = []
    for decl in stages.crossing:
        opened = _open(decl, t.FALSE, taken)
        where = substitute(found.get(decl.name, t.FALSE), dict(zip(cell_axes(decl), opened.axes, strict=True)))
        stmts += _freed(decl, replace(opened, where=simplify_term(where, {})))
    return stmts


def _stages(func: PrimFunc, stage: int) -> _Stages:
    what = f"split_function of {func.name} at {stage!r}"
    stage = whole(stage, what, "stage", ScheduleError)
    body, found = func.body, list[BufferDecl]()
    while isinstance(body, Alloc):
        found.append(body.buffer)
        body = body.body
    if not isinstance(body, Seq) or not 0 < stage < len(body.parts):
        count = len(body.parts) if isinstance(body, Seq) else 1
        raise ScheduleError(what, f"the function has {count} statements", "a number between two of them")
    for stmt in statements(body):
        if isinstance(stmt, Alias):
            problem, found = f"{stmt.buffer.name} is an alias of {stmt.data}", {"alias": stmt.buffer.name}
            raise ScheduleError(what, problem, "remove the alias first", found)
    return _Stages(tuple(found), body.parts[:stage], body.parts[stage:])


def _in_scalars(func: PrimFunc, stages: _Stages, parts: Sequence[Stmt]) -> tuple[PrimFunc, Stmt] | None:
    """The function with one side of the cut, vectors as loops over lanes, and its statements; None where vectors stay,
    and nothing is said of them."""
    body = seq(parts)
    for decl in reversed(stages.locals):
        body = Alloc(decl, body)
    seen = to_lane_loops(replace(func, body=body)).func
    if has_lanes(seen) or any(isinstance(s, Alias) for s in statements(seen.body)):
        return None
    body = seen.body
    for _ in stages.locals:
        assert isinstance(body, Alloc)
        body = body.body
    return seen, body


def _function(
    func: PrimFunc, name: str, stages: _Stages, parts: Sequence[Stmt], crossing: Sequence[BufferDecl]
) -> PrimFunc:
    body = tidy(seq(parts))
    used = names_in(body)
    decls = {p: func.buffer_map[p] for p in func.params if p in used}
    decls |= {d.name: d for d in crossing}
    for decl in reversed(stages.locals):
        if decl.name in used and decl.name not in decls:
            body = Alloc(decl, body)
    return PrimFunc(name, tuple(decls), decls, body, func.note)


@dataclass(frozen=True, eq=False)
class _Open:
    """Which cells of a buffer surely no store reaches, over these axes, and the hole that they hold."""

    axes: tuple[Term, ...]
    where: Term
    hole: Term


def _open(decl: BufferDecl, where: Term, taken: set[str]) -> _Open:
    axes = cells_of(decl.name, decl.shape, taken)
    return _Open(axes, where, new_hole(decl.dtype, axes))


def _left_open(decl: BufferDecl, first: Stmt, taken: set[str]) -> _Open:
    found = _open(decl, t.FALSE, taken)
    reached: list[Term] = []
    for access in accesses(first):
        if access.changes and access.buffer == decl.name:
            region = written(access, found.axes, exactly=True)
            if region is None:
                return found
            reached.append(region)
    return replace(found, where=simplify_term(t.logical_not(t.logical_or(*reached)), {}))


def _unused(func: PrimFunc, decl: BufferDecl, unknown: Term, later: tuple[PrimFunc, Stmt] | None) -> Term:
    """The cells to free of those that may hold what was computed from a hole. The second part must read none of them;
    of a parameter's, those count that it may write (others hold a value, or the function has no meaning), and it must
    write them all."""
    cells, read, touched, surely = cell_axes(decl), [t.TRUE], [t.TRUE], list[Term]()
    if later is not None:
        own = [a for a in accesses(later[1]) if a.buffer == decl.name]
        read = [may_mean(a, cells) for a in own if not a.changes]
        touched = [may_mean(a, cells) for a in own if a.changes]
        certain = [a for a in certain_writes(later[1]) if a.buffer == decl.name and len(a.index) == len(cells)]
        surely = [region for a in certain if (region := written(a, cells)) is not None]
    harmless = t.logical_not(t.logical_or(*read))
    if decl.name in func.buffer_map:
        unknown, harmless = (
            t.logical_and(unknown, t.logical_or(*touched)),
            t.logical_and(harmless, t.logical_or(*surely)),
        )
    proof = decider().prove(t.logical_or(t.logical_not(unknown), harmless), {})
    if not proof:
        what = f"split_function of {func.name}"
        problem = f"{decl.name} may hold what was computed from a hole, in a cell that the second part reads"
        problem += " or may write" if decl.name in func.buffer_map else ""
        witness = {"buffer": decl.name, "cell": cell_at(cells, proof.witness or {})}
        raise ScheduleError(what, problem, "cut elsewhere, or give the hole a value (choose_padding)", witness)
    return unknown


def _freed(decl: BufferDecl, left: _Open) -> list[Stmt]:
    """Undef stores for the cells that are left open."""
    if left.where is t.FALSE:
        return []
    store: Stmt = Store(decl.name, left.axes, left.hole)
    return [_nest(left.axes, store if left.where is t.TRUE else If(left.where, store))]


def _as_left(decl: BufferDecl, left: _Open | None) -> BufferDecl:
    """The declaration where some cells are left open: padding there does not hold its value yet."""
    if left is None or left.where is t.FALSE:
        return decl
    table = dict(zip(left.axes, output_axes(decl.shape), strict=True))
    where, hole = substitute(left.where, table), substitute(left.hole, table)
    steps: list[Transform] = []
    for step in decl.transforms:
        kept = step.pad_value is None or step.pad_value.op == "hole"
        kept = kept or bool(decider().prove(t.logical_not(t.logical_and(where, step.predicate)), {}))
        steps.append(step if kept else replace(step, pad_value=hole))
    return replace(decl, transforms=tuple(steps))


def _nest(axes: Sequence[Term], body: Stmt) -> Stmt:
    for axis in reversed(axes):
        body = For(axis, body)
    return body


def _assumed(fact: Fact, used: frozenset[str], taken: set[str]) -> Stmt | None:
    """A fact about memory that the second part uses, as a statement; None where it cannot be said."""
    cells = fact.cells
    claim = _claim(fact.claim)
    if claim is None or nodes_of("hole", claim) or not all(str(load.payload) in used for load in cells):
        return None
    axes = cells_of(str(cells[0].payload), [axis.args[0] for axis in fact.axes], taken)
    table = dict(zip(fact.axes, axes, strict=True))
    said = t.logical_or(t.logical_not(fact.condition), claim)
    return _nest(axes, Assume(substitute(said, table)))


def _claim(claim: Term) -> Term | None:
    """A claim with the comparisons that programs have."""
    if claim.op != "same":
        return claim
    cell, value = claim.args
    if cell.op != "load":
        cell, value = value, cell
    if has_loads(value) or not is_float(cell.dtype):
        return None
    if value.op != "const":
        return None
    number = t.const_value(value)
    if np.isnan(number):
        return t.unary("isnan", cell)
    equal = t.compare("eq", cell, value)
    if number != 0:
        return equal
    positive = no_negative_zero(cell)
    return t.logical_and(equal, t.logical_not(positive) if np.signbit(number) else positive)
