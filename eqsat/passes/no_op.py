"""Statements that make no difference, removed; and what only compilers are told, removed at lowering."""

from __future__ import annotations

from collections.abc import Callable

from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, Stmt, Store, children, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.walk import nodes_of
from eqsat.passes.effects import Harmless, check_extra
from eqsat.passes.paths import EMPTY, Path, paths, put, with_body, with_children


def remove_no_op(func: PrimFunc) -> PrimFunc:
    """Remove statements that make no difference.

    A store that writes what the cell is known to hold; stores whose cells are all written (or freed by a hole) before
    anything reads them; stores to local buffers that nothing reads; loops and branches around nothing; local buffers
    that nothing uses. Assumptions stay.

    >>> from eqsat.ir.statements.stmt import BufferDecl, For, seq
    >>> i = t.ax(0, 16)
    >>> twice = seq([Store("A", (i,), t.const(k, "int32")) for k in (1, 2)])
    >>> print(remove_no_op(PrimFunc("f", ("A",), {"A": BufferDecl("A", (16,), "int32")}, For(i, twice))))
    func f(A: int32[16])
      for i0 in 16:
        A[i0] = int32(2)
    """
    progress = True
    while progress:
        progress = False
        for path, stmt in paths(func.body):
            if _stores(stmt) and not _assumes(stmt) and isinstance(check_extra(func, path, t.FALSE), Harmless):
                func = with_body(func, put(func.body, path, EMPTY))
                progress = True
                break
    return with_body(func, without_idle_buffers(func.body))


def _stores(stmt: Stmt) -> bool:
    return any(isinstance(inner, Store) for inner in statements(stmt))


def _assumes(stmt: Stmt) -> bool:
    return any(isinstance(inner, Assume) for inner in statements(stmt))


def without_idle_buffers(stmt: Stmt) -> Stmt:
    """Without allocations and aliases that no statement names."""
    parts = [without_idle_buffers(child) for child in children(stmt)]
    new = with_children(stmt, parts) if parts else stmt
    if isinstance(new, (Alloc, Alias)) and new.buffer.name not in names_in(new.body):
        return new.body
    return new


def names_in(stmt: Stmt) -> set[str]:
    """The buffers that a statement reads, writes or takes an alias of."""
    found: set[str] = set()
    for inner in statements(stmt):
        found |= {str(load.payload) for load in nodes_of("load", *stmt_terms(inner))}
        if isinstance(inner, Store):
            found.add(inner.buffer)
        elif isinstance(inner, Alias):
            found.add(inner.data)
    return found


def remove_assume(func: PrimFunc) -> PrimFunc:
    """Remove every assumption: the last step before code is made, when nothing is proved any more.

    >>> f = PrimFunc("f", (), {}, Assume(t.FALSE))
    >>> print(remove_assume(f))
    func f()
      pass
    """
    return with_body(func, _without(func.body, lambda stmt: isinstance(stmt, Assume)))


def remove_store_undef(func: PrimFunc) -> PrimFunc:
    """Remove stores of holes: the freed cells keep what they hold, which is a value like any other.

    ScheduleError where one hole is stored by several statements: those cells hold the same value.
    """
    holes: dict[int, Path] = {}
    for path, stmt in paths(func.body):
        for hole in {h.payload for term in stmt_terms(stmt) for h in nodes_of("hole", term)}:
            alone = isinstance(stmt, Store) and stmt.value.op == "hole"
            if hole in holes or not alone:
                raise ScheduleError(
                    f"remove_store_undef of {func.name}",
                    f"hole {hole} is used by more than one store of it alone",
                    "fill it first (choose_padding)",
                    {"hole": hole},
                )
            holes[hole] = path
    return with_body(func, _without(func.body, lambda stmt: isinstance(stmt, Store) and stmt.value.op == "hole"))


def _without(stmt: Stmt, dropped: Callable[[Stmt], bool]) -> Stmt:
    if dropped(stmt):
        return EMPTY
    parts = [_without(child, dropped) for child in children(stmt)]
    return with_children(stmt, parts) if parts else stmt
