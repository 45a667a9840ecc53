"""Statements that make no difference, removed; and what only compilers are told, removed at lowering."""

from __future__ import annotations

from collections.abc import Callable

from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import (
    Alias,
    Alloc,
    Assume,
    BufferDecl,
    For,
    If,
    Stmt,
    Store,
    children,
    has,
    statements,
    stmt_terms,
)
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import as_dim, same_shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of
from eqsat.passes.cells import loads
from eqsat.passes.effects import Harmless, check_extra
from eqsat.passes.mentioned import names_in
from eqsat.passes.paths import EMPTY, Path, changed_while, joined, paths, put, with_body


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
    func = changed_while(func, _without_idle)
    return with_body(func, without_idle_buffers(func.body))


def _without_idle(func: PrimFunc, path: Path, stmt: Stmt) -> PrimFunc | None:
    """The function without a statement that makes no difference."""
    if has(stmt, Store) and not has(stmt, Assume) and isinstance(check_extra(func, path, t.FALSE), Harmless):
        return with_body(func, put(func.body, path, EMPTY))
    return None


def without_idle_buffers(stmt: Stmt) -> Stmt:
    """Without allocations and aliases that no statement names."""
    parts = [without_idle_buffers(child) for child in children(stmt)]
    new = joined(stmt, parts)
    if isinstance(new, (Alloc, Alias)) and new.buffer.name not in names_in(new.body):
        return new.body
    return new


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

    ScheduleError where one hole is stored by several statements: those cells hold the same value; and where a freed
    cell of a parameter may hold what was computed from memory without a value: then only the store allows that.
    """
    holes: dict[int, Path] = {}
    unknown = _computed_from_nothing(func)
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
            assert isinstance(stmt, Store)
            if stmt.buffer in unknown:
                raise ScheduleError(
                    f"remove_store_undef of {func.name}",
                    f"what {stmt.buffer} holds there may be computed from memory that holds no value",
                    "leave the store, or fill that memory first (choose_padding)",
                    {"buffer": stmt.buffer},
                )
    return with_body(func, _without(func.body, lambda stmt: isinstance(stmt, Store) and stmt.value.op == "hole"))


def _computed_from_nothing(func: PrimFunc) -> set[str]:
    """Names of parameters, and of aliases of these, that may hold what was computed from memory without a value, where
    no declaration says so."""
    decls, roots = dict(func.buffer_map), {name: name for name in func.params}
    stores = [s for s in statements(func.body) if isinstance(s, Store)]
    for stmt in statements(func.body):
        if isinstance(stmt, (Alloc, Alias)):
            decls[stmt.buffer.name] = stmt.buffer
            roots[stmt.buffer.name] = roots[stmt.data] if isinstance(stmt, Alias) else stmt.buffer.name
    steps = {name: [(p.where, p.value) for p in decl.padding_steps] for name, decl in decls.items()}
    declared = {roots[n] for n, those in steps.items() if any(v is not None and v.op == "hole" for _, v in those)}
    open_ = {roots[s.buffer] for s in stores if s.value.op == "hole"} | declared
    local = [d for name, d in decls.items() if roots[name] == name and name not in func.params]
    open_ |= {decl.name for decl in local if not _filled(func, decl)}
    computed: set[str] = set()
    while True:
        more = {
            roots[s.buffer]
            for s in stores
            if any(roots[str(load.payload)] in open_ | computed for load in loads(s.value))
        }
        if more <= computed:
            return {name for name, root in roots.items() if root in computed - declared and root in func.params}
        computed |= more


def _filled(func: PrimFunc, decl: BufferDecl) -> bool:
    """Whether loops over all cells of a local buffer write it."""
    stack: list[tuple[Stmt, tuple[Term, ...]]] = [(func.body, ())]
    while stack:
        here, axes = stack.pop()
        if isinstance(here, Store) and here.buffer == decl.name and here.value.op != "hole":
            used = [i.serial for i in here.index]
            over = len(set(used)) == len(used) and set(used) <= {a.serial for a in axes}
            if over and same_shape(tuple(as_dim(i.args[0]) for i in here.index), decl.shape):
                return True
        inner = (*axes, here.axis) if isinstance(here, For) else () if isinstance(here, Alloc) else axes
        stack += [(child, inner) for child in children(here) if not isinstance(here, If)]
    return False


def _without(stmt: Stmt, dropped: Callable[[Stmt], bool]) -> Stmt:
    if dropped(stmt):
        return EMPTY
    parts = [_without(child, dropped) for child in children(stmt)]
    return joined(stmt, parts)
