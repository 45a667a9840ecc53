"""Buffers of a function: where they are declared, who aliases them, and their accesses rewritten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from eqsat.accesses.access import Path
from eqsat.ir.errors import ScheduleError
from eqsat.ir.given import text
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, Stmt, Store, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import map_loads, substitute
from eqsat.passes.mentioned import mentioned
from eqsat.scheduling.nest import map_terms, places, replaced, rewritten, simplified

IndexChange = Callable[[Sequence[Term]], Sequence[Term]]


@dataclass(frozen=True, eq=False)
class Declared:
    """A buffer: its declaration, and the path of its Alloc (None: a parameter)."""

    decl: BufferDecl
    path: Path | None

    @property
    def body(self) -> Path:
        """The path of the statement in which it is visible."""
        return () if self.path is None else (*self.path, 0)


def declared(func: PrimFunc, name: str, what: str) -> Declared:
    """The parameter or allocation of a name; ScheduleError where it is an alias, or there is none or several."""
    if text(name, what, ScheduleError) in func.buffer_map:
        return Declared(func.buffer_map[name], None)
    found = [p for p in places(func) if isinstance(p.stmt, (Alloc, Alias)) and p.stmt.buffer.name == name]
    if not found:
        known = [*func.params, *(p.stmt.buffer.name for p in places(func) if isinstance(p.stmt, Alloc))]
        raise ScheduleError(what, f"there is no buffer {name!r}", f"the buffers are {', '.join(known)}")
    if len(found) > 1:
        raise ScheduleError(what, f"{len(found)} buffers are called {name!r}", "give them different names")
    stmt = found[0].stmt
    if isinstance(stmt, Alias):
        fix = f"transform {stmt.data}, and every alias with it"
        raise ScheduleError(what, f"{name} is an alias of {stmt.data}", fix, {"owner": stmt.data})
    assert isinstance(stmt, Alloc)
    return Declared(stmt.buffer, found[0].path)


def with_declaration(func: PrimFunc, old: Declared, new: BufferDecl, body: Stmt) -> PrimFunc:
    """The function with another declaration and another statement in its scope."""
    if old.path is None:
        return replace(func, buffer_map={**func.buffer_map, new.name: new}, body=body)
    return replaced(func, old.path, Alloc(new, body))


def without_aliases(stmt: Stmt, decl: BufferDecl, what: str) -> Stmt:
    """The statement with accesses through aliases of a buffer as accesses of the buffer itself, where they are of whole
    elements of its type, and without aliases that nothing uses; otherwise ScheduleError."""
    names = {decl.name: (decl, t.index_const(0))}
    idle = set[str]()
    for s in statements(stmt):
        if not isinstance(s, Alias) or s.data not in {*names, *idle}:
            continue
        if not any(touches(s.body, family(s.body, s.buffer.name))):
            idle.add(s.buffer.name)
            continue
        alias, base = s.buffer, names[s.data][1]
        if alias.dtype != decl.dtype or not alias.is_dense or not decl.is_dense or decl.axis_separators:
            problem = f"its alias {alias} is not elements of {decl.dtype} in rows"
            raise ScheduleError(what, problem, "remove the alias, or declare it alike", {"alias": alias.name})
        names[alias.name] = alias, base + s.offset

    def move(name: str, index: Sequence[Term]) -> tuple[Term, ...]:
        alias, base = names[name]
        flat = t.index_const(0)
        for i, extent in zip(index, alias.shape, strict=True):
            flat = flat * extent + i
        return _unflattened(flat + base, decl)

    def change(s: Stmt) -> Stmt:
        if isinstance(s, Alias) and s.buffer.name in {*names, *idle}:
            return s.body
        return s

    for name in list(names)[1:]:
        stmt = moved(stmt, name, decl.name, lambda index, name=name: move(name, index), what)
    return rewritten(stmt, change)


def _unflattened(flat: Term, decl: BufferDecl) -> tuple[Term, ...]:
    index: list[Term] = []
    step = t.index_const(1)
    for n, extent in reversed(list(enumerate(decl.shape))):
        digit = flat // step
        index.insert(0, digit % extent if n else digit)
        step = step * extent
    return tuple(index)


def moved(stmt: Stmt, buffer: str, to: str, change: IndexChange, what: str, stores: bool = True) -> Stmt:
    """A statement in which every access of a buffer, or every load of it, is one of another, at a changed index."""

    def load(node: Term) -> Term:
        if node.payload != buffer:
            return node
        if any(i.lanes > 1 for i in node.args):
            raise ScheduleError(what, f"{node} is a vector", "write it in scalars", {"buffer": buffer})
        return t.make("load", [t.as_index(i) for i in change(node.args)], to, node.dtype, node.lanes)

    def terms(found: Sequence[Term]) -> Sequence[Term]:
        new = [map_loads(x, load) for x in found]
        same = all(a is b for a, b in zip(new, found, strict=True))
        return found if same else simplified(new)

    def store(s: Stmt) -> Stmt:
        if not stores or not isinstance(s, Store) or s.buffer != buffer:
            return s
        if any(i.lanes > 1 for i in s.index):
            raise ScheduleError(what, f"a store to {buffer} is a vector", "write it in scalars", {"buffer": buffer})
        index = simplified(list(change(s.index)))
        return replace(s, buffer=to, index=tuple(index))

    return rewritten(map_terms(stmt, terms), store)


def forbidden(decl: BufferDecl, index: Sequence[Term]) -> Term:
    """The condition that a cell is padding that must not be accessed."""
    table = dict(zip(output_axes(decl.shape), index, strict=True))
    return t.logical_or(*(substitute(s.where, table) for s in decl.padding_steps if s.value is None))


def holds_vectors(func: PrimFunc, name: object) -> bool:
    """Whether a parameter or an allocation of this name has elements that are vectors."""
    local = [s.buffer for s in statements(func.body) if isinstance(s, Alloc)]
    return isinstance(name, str) and any(d.name == name and d.lanes > 1 for d in (*func.buffer_map.values(), *local))


def touches(stmt: Stmt, names: set[str]) -> tuple[bool, bool]:
    """Whether a statement reads and writes one of these buffers, by name."""
    found = mentioned(stmt)
    return not names.isdisjoint(found.reads), not names.isdisjoint(found.writes)


def family(stmt: Stmt, name: str) -> set[str]:
    """A buffer's name and those of its aliases inside of a statement."""
    found = {name}
    for s in statements(stmt):
        if isinstance(s, Alias) and s.data in found:
            found.add(s.buffer.name)
    return found
