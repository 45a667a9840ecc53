"""Padding written in the loops that write a buffer: by a choice in each store, or by the same formula as elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqsat.accesses.access import Context
from eqsat.ir.decide import decider
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.stmt import BufferDecl, For, If, Stmt, Store, Transform
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import nodes_of, substitute
from eqsat.proving.question import definedness
from eqsat.scheduling.memory import forbidden


def select_padding(stmt: Stmt, decl: BufferDecl, step: Transform, what: str) -> Stmt:
    """The stage that stores the pad value where a cell is padding, and what it stored elsewhere.

    rewrite: `for io, ii: if 4*io + ii < 14: B[io, ii] = e` -> `for io, ii: B[io, ii] = where(4*io + ii < 14, e, 0)`
    """
    loops, guard, store = _cells(stmt, decl, what)
    _require_inside(guard, store, decl, step, what)
    value = _at(step.pad_value, decl, store.index)
    if any(n.payload == decl.name for n in nodes_of("load", value)):
        raise ScheduleError(
            what, f"the pad value {value} reads {decl.name}", "use style='after'", {"buffer": decl.name}
        )
    if guard is t.TRUE:
        guard = t.logical_not(_at(step.predicate, decl, store.index))
    return _around(loops, replace(store, value=t.where(guard, store.value, value)))


def compute_padding(stmt: Stmt, context: Context, decl: BufferDecl, step: Transform, what: str) -> Stmt:
    """The stage without its guard, where the formula may be computed in the padding, too; what that holds is open.

    rewrite: `for io, ii: if 4*io + ii < 14: B[io, ii] = f(A[io, ii])` -> `for io, ii: B[io, ii] = f(A[io, ii])`
    """
    if step.pad_value is None or step.pad_value.op != "hole":
        raise ScheduleError(what, "the padding is to hold a value", "give pad_value=eq.UNDEF for style='elementwise'")
    loops, guard, store = _cells(stmt, decl, what)
    _require_inside(guard, store, decl, step, what)
    shapes = {name: memory.decl.shape for name, memory in context.buffers.items()}
    claims = [definedness([store.value], shapes)[0]]
    for load in nodes_of("load", store.value):
        if isinstance(load.payload, str):
            claims.append(t.logical_not(forbidden(context.buffers[load.payload].decl, load.args)))
    for claim in claims:
        proof = decider().prove(claim, {})
        if not proof:
            problem = f"in the padding, {store.value} is not sure to be defined: {claim} is needed"
            raise ScheduleError(what, problem, "pad the operands, too, or use style='after'", proof.witness)
    return _around(loops, store)


def _cells(stmt: Stmt, decl: BufferDecl, what: str) -> tuple[list[For], Term, Store]:
    """A stage that is loops over the cells, perhaps a guard, and a store; else ScheduleError."""
    loops: list[For] = []
    here = stmt
    while isinstance(here, For):
        loops.append(here)
        here = here.body
    guard = t.TRUE
    if isinstance(here, If) and here.orelse is None:
        guard, here = here.condition, here.then
    if isinstance(here, Store) and here.buffer == decl.name:
        found = _widened(loops, guard, here, decl)
        if found is not None:
            return found
    problem = f"{decl.name} is not written by one store in loops over its cells"
    raise ScheduleError(what, problem, "use style='after'", {"buffer": decl.name})


def _widened(loops: Sequence[For], guard: Term, store: Store, decl: BufferDecl) -> tuple[list[For], Term, Store] | None:
    """The loops over all cells, where they are over all or the first ones along each axis; None where they are not."""
    found: list[For] = []
    wider: dict[Term, Term] = {}
    for i, n in zip(store.index, decl.shape, strict=True):
        if isinstance(n, int) and n == 1 and t.int_value(i) == 0:
            continue
        loop = loops[len(found)] if len(found) < len(loops) else None
        if loop is None or loop.axis is not i:
            return None
        extent = t.int_value(loop.extent_term)
        if loop.extent_term is not t.as_index(n):
            if extent is None or not isinstance(n, int) or extent > n:
                return None
            wider[i] = t.var(leaf_name(i), n)
            guard = t.logical_and(t.compare("lt", wider[i], extent), guard)
        found.append(replace(loop, axis=wider.get(i, i)))
    if len(found) < len(loops):
        return None
    value, index = substitute(store.value, wider), tuple(substitute(i, wider) for i in store.index)
    return found, substitute(guard, wider), replace(store, value=value, index=index)


def _require_inside(guard: Term, store: Store, decl: BufferDecl, step: Transform, what: str) -> None:
    """The guard says exactly that a cell is no padding of this step."""
    pads = _at(step.predicate, decl, store.index)
    both = t.logical_or(t.logical_and(guard, t.logical_not(pads)), t.logical_and(t.logical_not(guard), pads))
    proof = decider().prove(both, {})
    if not proof:
        problem = f"the guard {guard} is not the one of the padding {pads}"
        raise ScheduleError(what, problem, "use style='after'", proof.witness)


def _at(term: Term | None, decl: BufferDecl, index: Sequence[Term]) -> Term:
    assert term is not None
    return substitute(term, dict(zip(output_axes(decl.shape), index, strict=True)))


def _around(loops: Sequence[For], stmt: Stmt) -> Stmt:
    for loop in reversed(loops):
        stmt = replace(loop, body=stmt)
    return stmt
