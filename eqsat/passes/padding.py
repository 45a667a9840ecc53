"""What padding holds, chosen: a function's own holes are filled so that branches vanish, where that pays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from eqsat.ir.decide import decider
from eqsat.ir.dtypes import is_float
from eqsat.ir.statements.names import cells_of, names_of
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import map_terms
from eqsat.ir.statements.stmt import Alloc, BufferDecl, For, If, Stmt, Store, Transform, seq, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute, symbols
from eqsat.passes.cells import accesses, written
from eqsat.passes.context import Context
from eqsat.passes.cost import cheaper, cost
from eqsat.passes.effects import Difference, check_reads
from eqsat.passes.extents import shrunk
from eqsat.passes.flow import after, context_at, entry
from eqsat.passes.liveness import live_after
from eqsat.passes.overcompute import overcompute
from eqsat.passes.paths import EMPTY, Path, paths, put, with_body
from eqsat.passes.simplify import simplify_statements

MOST = 16


@dataclass(frozen=True, eq=False)
class Filling(Record):
    """A hole and its value: cells of a buffer that nothing else defines hold it from now on."""

    buffer: str
    where: Term
    value: Term

    def __str__(self) -> str:
        return f"{self.buffer} holds {self.value} where {self.where}"


@dataclass(frozen=True, eq=False)
class Planned(Record):
    """The cheapest form of a function that was found, and what was done for it.

    `fillings`: holes that were filled, once, for the whole function; `removed`: conditions of branches that went;
    `reordered`: sums that are the same only in some order; costs as `eqsat.passes.cost.cost` counts them.
    """

    func: PrimFunc
    fillings: tuple[Filling, ...]
    removed: tuple[Term, ...]
    reordered: tuple[str, ...]
    cost_before: Term
    cost_after: Term


def choose_padding(func: PrimFunc) -> Planned:
    """Fill the holes that the function makes itself, drop branches, or shrink loops: whichever is cheapest.

    Holes are stores of undef, and cells of local buffers that no store reaches. Each may be filled once; tried are 0,
    1 and the limits of the type (so the neutral elements of sum, product, max and min), at most 16 of them. What the
    padding of a parameter holds is not the function's to choose: only its assumptions count.
    """
    before = cost(func)
    unfilled = _finished(Planned(func, (), (), (), before, before))
    raw, best, tried = func, unfilled, 0
    for buffer in _buffers(func):
        if not _branches(best.func):  # filling costs stores, and pays by branches that go
            break
        base, done = raw, best.fillings
        for filled, filling in _filled(base, buffer):
            if tried == MOST:
                break
            tried += 1
            candidate = _finished(Planned(filled, (*done, filling), (), (), before, before))
            if cheaper(candidate.cost_after, best.cost_after):
                raw, best = filled, candidate
    if len(best.removed) <= len(unfilled.removed):  # no branch went for it: what stores cost does not pay
        best = unfilled
    done = simplify_statements(_declared(best.func, best.fillings) if best.fillings else best.func)
    return replace(best, func=done, cost_after=cost(done))


def _declared(func: PrimFunc, fillings: Sequence[Filling]) -> PrimFunc:
    """The function whose local buffers say what their padding holds now, where it does so to the end."""
    for path, stmt in paths(func.body):
        values = [f.value for f in fillings if isinstance(stmt, Alloc) and f.buffer == stmt.buffer.name]
        if not isinstance(stmt, Alloc) or not values:
            continue
        known = after(stmt.body, context_at(func, (*path, 0)))
        axes = _cells(func, stmt.buffer)
        steps = tuple(_filled_step(step, stmt.buffer, axes, known, values) for step in stmt.buffer.transforms)
        new = replace(stmt, buffer=replace(stmt.buffer, transforms=steps))
        func = replace(func, body=put(func.body, path, new))
    return func


def _filled_step(
    step: Transform, buffer: BufferDecl, axes: Sequence[Term], known: Context, values: Sequence[Term]
) -> Transform:
    """A step of a layout with the value that its padding holds in place of a hole."""
    if step.pad_value is None or step.pad_value.op != "hole":
        return step
    inside = known.under(substitute(step.predicate, dict(zip(output_axes(buffer.shape), axes, strict=True))))
    cell = t.load(buffer.name, axes, buffer.dtype)
    return next((replace(step, pad_value=v) for v in values if inside.equal(cell, v)), step)


def _finished(plan: Planned) -> Planned:
    """The cheapest of a function, the same with fewer branches, and the same with smaller loops."""
    traded = overcompute(plan.func)
    removed, notes = (*plan.removed, *traded.changed), (*plan.reordered, *traded.reordered)
    fewer = replace(plan, func=traded.func, removed=removed, reordered=notes)
    best = replace(plan, cost_after=cost(plan.func))
    for form in [plan, fewer] if traded.changed else [plan]:
        for func in dict.fromkeys((form.func, shrunk(form.func))):
            found = replace(form, func=func, cost_after=cost(func))
            if cheaper(found.cost_after, best.cost_after):
                best = found
    return best


def _branches(func: PrimFunc) -> bool:
    """Whether something in a function is decided while it runs."""
    stmts = list(statements(func.body))
    return any(isinstance(s, If) or nodes_of("where", *stmt_terms(s)) for s in stmts)


def _buffers(func: PrimFunc) -> list[str]:
    """Buffers with holes of the function's own: those that it frees, and local ones."""
    freed = [s.buffer for s in statements(func.body) if isinstance(s, Store) and s.value.op == "hole"]
    local = [s.buffer.name for s in statements(func.body) if isinstance(s, Alloc) and s.buffer.lanes == 1]
    return list(dict.fromkeys((*freed, *local)))


def _filled(func: PrimFunc, buffer: str) -> Iterator[tuple[PrimFunc, Filling]]:
    """The function with the holes of a buffer filled, in every way and with every value that is tried."""
    decls = entry(func).decls
    if buffer not in decls:  # what was filled before left nothing that needs it
        return
    places = list(paths(func.body))
    unwritten = {path: _unwritten(func, s) for path, s in places if isinstance(s, Alloc) and s.buffer.name == buffer}
    plain = cache(partial(simplify_statements, func))
    for value in neutral_elements(decls[buffer].dtype):
        for path, stmt in places:
            if isinstance(stmt, Store) and stmt.buffer == buffer and stmt.value.op == "hole":
                yield _instead_of_hole(func, path, stmt, value)
            elif isinstance(stmt, If) and stmt.orelse is None and _stores_to(stmt.then, buffer):
                found = _in_else(func, path, stmt, value)
                if found is not None:
                    yield found
            elif isinstance(stmt, Alloc) and (left := unwritten.get(path)) is not None:
                found = _at_allocation(func, path, stmt, value, left)
                if found[0] != plain():
                    yield found


def neutral_elements(dtype: str) -> list[Term]:
    """Values that some reductions ignore: of sum, product, max and min."""
    if is_float(dtype):
        return [t.const(v, dtype) for v in (0.0, 1.0, -np.inf, np.inf, -0.0)]
    if dtype == "bool":
        return [t.const(False, dtype), t.const(True, dtype)]
    info = np.iinfo(dtype)
    return [t.const(v, dtype) for v in dict.fromkeys((0, 1, int(info.min), int(info.max)))]


def _stores_to(stmt: Stmt, buffer: str) -> bool:
    return isinstance(stmt, Store) and stmt.buffer == buffer and stmt.value.op != "hole"


def _instead_of_hole(func: PrimFunc, path: Path, stmt: Store, value: Term) -> tuple[PrimFunc, Filling]:
    """A hole has one value wherever it occurs."""
    number = stmt.value.payload

    def change(term: Term) -> Term:
        return substitute(term, {h: value for h in nodes_of("hole", term) if h.payload == number})

    around = [at for at in _conditions(func.body, path)]
    return replace(func, body=map_terms(func.body, change)), Filling(stmt.buffer, t.logical_and(*around), value)


def _in_else(func: PrimFunc, path: Path, stmt: If, value: Term) -> tuple[PrimFunc, Filling] | None:
    """A store where a branch does not store, of cells that nobody reads before they are written."""
    assert isinstance(stmt.then, Store)
    fails = t.logical_not(stmt.condition)
    changed = accesses(stmt.then, fails)[-1]
    if live_after(func.body, path, changed, entry(func).roots) is not None:
        return None
    fill = Store(stmt.then.buffer, stmt.then.index, value)
    if isinstance(check_reads(replace(func, body=put(func.body, path, fill)), path, stmt.condition), Difference):
        return None
    new = If(stmt.condition, stmt.then, fill)
    return replace(func, body=put(func.body, path, new)), Filling(fill.buffer, fails, value)


def _cells(func: PrimFunc, buffer: BufferDecl) -> tuple[Term, ...]:
    return cells_of(buffer.name, buffer.shape, names_of(func))


def _unwritten(func: PrimFunc, stmt: Alloc) -> Term | None:
    """Which cells of a local buffer no store surely writes, but for padding that must not be accessed; None where there
    is none, or where that takes a table of constants, which statements lack, to say."""
    axes = _cells(func, stmt.buffer)
    reached = [written(a, axes) for a in accesses(stmt.body) if a.changes and a.buffer == stmt.buffer.name]
    table = dict(zip(output_axes(stmt.buffer.shape), axes, strict=True))
    closed = [substitute(step.where, table) for step in stmt.buffer.padding_steps if step.value is None]
    done = t.logical_or(*closed, *(r for r in reached if r is not None))
    extents = {axis: t.int_value(axis.args[0]) for axis in axes}
    numbers = {axis: (0, extent) for axis, extent in extents.items() if extent is not None}
    whole = len(numbers) == len(extents) and not symbols(done) and decider().prove(done, numbers)
    if whole or nodes_of("load", *closed):
        return None
    plain = [r for r in reached if r is not None and not nodes_of("load", r)]
    return t.logical_not(t.logical_or(*closed, *plain))  # of what is filled in vain, all is written again


def _at_allocation(func: PrimFunc, path: Path, stmt: Alloc, value: Term, left: Term) -> tuple[PrimFunc, Filling]:
    """Stores at the beginning, where a local buffer holds nothing, to the cells that no store surely writes."""
    axes = _cells(func, stmt.buffer)
    fill: Stmt = Store(stmt.buffer.name, axes, value)
    if left is not t.TRUE:
        fill = If(left, fill)
    for axis in reversed(axes):
        fill = For(axis, fill)
    body = replace(stmt, body=seq([fill, stmt.body]))
    filled = simplify_statements(with_body(func, put(func.body, path, body)))
    return filled, Filling(stmt.buffer.name, left, value)


def _conditions(body: Stmt, path: Path) -> list[Term]:
    """The conditions of the branches around a path."""
    found: list[Term] = []
    stmt = body
    for number in path:
        if isinstance(stmt, If):
            found.append(stmt.condition if number == 0 else t.logical_not(stmt.condition))
        parts = [p for p in paths(stmt) if p[0] == (number,)]
        stmt = parts[0][1] if parts else EMPTY
    return found
