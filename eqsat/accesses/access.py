"""The accesses of a statement: each load and store with its loops, the guards that hold there, and its memory.

A *path* is the way from the outermost statement to a place inside of it, a number for each step. Of two accesses in the
same iteration of all their common loops, the one of the smaller path happens first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, BufferDecl, For, If, Seq, Stmt, Store
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import conjuncts, postorder

Path = tuple[int, ...]
Known = TypeVar("Known")


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop around an access: the statement, and its path."""

    stmt: For
    path: Path

    @property
    def name(self) -> str:
        """The name of its axis."""
        return leaf_name(self.stmt.axis)


@dataclass(frozen=True, eq=False)
class Memory:
    """Where a buffer lies: the buffer that owns the memory, the byte at which it starts, the loops around its
    allocation (each iteration of these has memory of its own)."""

    decl: BufferDecl
    root: str
    start: int = 0
    private: int = 0
    local: bool = False

    def address(self, index: Sequence[Term]) -> Term:
        """The first byte of an element, from the start of the owner's memory on."""
        decl, flat = self.decl.in_one_axis, t.index_const(0)
        if decl.strides is not None:
            for i, stride in zip(index, decl.strides, strict=True):
                flat = flat + i * stride
        else:
            for i, extent in zip(index, decl.shape, strict=True):
                flat = flat * extent + i
        return (flat + decl.elem_offset) * decl.element_bytes + self.start


@dataclass(frozen=True, eq=False)
class Access:
    """A load or store: `index` in buffer `memory.decl`, inside of `loops`, where all of `guards` hold.

    `exact` is False where a condition or an index depends on data: then the access may not happen, or may touch any
    cell along the axes whose index is None.
    """

    memory: Memory
    index: tuple[Term | None, ...]
    write: bool
    path: Path
    loops: tuple[Loop, ...]
    guards: tuple[Term, ...]
    exact: bool
    stmt: Stmt

    @property
    def buffer(self) -> str:
        """The name of the buffer."""
        return self.memory.decl.name

    @property
    def axes(self) -> tuple[Term, ...]:
        """The axes of its loops, outer ones first."""
        return tuple(loop.stmt.axis for loop in self.loops)

    def __str__(self) -> str:
        at = ", ".join("?" if i is None else str(i) for i in self.index)
        return f"{'write' if self.write else 'read'} of {self.buffer}[{at}]"


@dataclass(frozen=True, eq=False)
class Context:
    """What is around a statement: declared buffers, loops, guards and the path to it."""

    buffers: Mapping[str, Memory]
    loops: tuple[Loop, ...] = ()
    guards: tuple[Term, ...] = ()
    exact: bool = True
    path: Path = field(default=())

    @staticmethod
    def of(func: PrimFunc) -> Context:
        """The context of a function's body."""
        return Context({name: Memory(decl, name) for name, decl in func.buffer_map.items()})

    def under(self, condition: Term, holds: bool = True) -> Context:
        """The same place where a condition holds, or does not; conditions on data are only noted."""
        if not holds:
            condition = t.logical_not(condition)
        parts = conjuncts(condition)
        known = tuple(p for p in parts if p is not t.TRUE and not _unknown(p))
        exact = self.exact and not any(_unknown(p) for p in parts)
        return Context(self.buffers, self.loops, (*self.guards, *known), exact, self.path)

    def child(self, stmt: Stmt, number: int) -> tuple[Stmt, Context]:
        """A part of a statement, and its context."""
        path = (*self.path, number)
        if isinstance(stmt, Seq):
            return stmt.parts[number], Context(self.buffers, self.loops, self.guards, self.exact, path)
        if isinstance(stmt, For):
            loops = (*self.loops, Loop(stmt, self.path))
            return stmt.body, Context(self.buffers, loops, self.guards, self.exact, path)
        if isinstance(stmt, If):
            branch = stmt.then if number == 1 else stmt.orelse
            assert branch is not None
            inner = self.under(stmt.condition, number == 1)
            return branch, Context(self.buffers, self.loops, inner.guards, inner.exact, path)
        assert isinstance(stmt, (Alloc, Alias))
        buffers = {**self.buffers, stmt.buffer.name: self.declared(stmt)}
        return stmt.body, Context(buffers, self.loops, self.guards, self.exact, path)

    def declared(self, stmt: Alloc | Alias) -> Memory:
        """The memory of a buffer that a statement declares."""
        decl = stmt.buffer
        if isinstance(stmt, Alloc):
            root = f"{decl.name}@{'.'.join(map(str, self.path))}"  # two allocations of one name are not one memory
            return Memory(decl, root, 0, len(self.loops), True)
        base = self.buffers[stmt.data]
        return Memory(decl, base.root, base.start + stmt.offset * decl.element_bytes, base.private, base.local)


def parts(stmt: Stmt) -> tuple[int, ...]:
    """The numbers of the statements inside, as they stand in paths; 0 of an `If` is its condition."""
    if isinstance(stmt, Seq):
        return tuple(range(len(stmt.parts)))
    if isinstance(stmt, If):
        return (1,) if stmt.orelse is None else (1, 2)
    return (0,) if isinstance(stmt, (For, Alloc, Alias)) else ()


def _unknown(condition: Term) -> bool:
    """Whether a condition is not one of axes and symbols only, or one for each lane."""
    return condition.lanes > 1 or depends_on_data(condition)


def depends_on_data(term: Term) -> bool:
    """Whether a term reads a buffer or a hole."""
    return any(n.op == "hole" or (n.op == "load" and not isinstance(n.payload, Table)) for n in postorder(term))


def accesses(stmt: Stmt, context: Context) -> list[Access]:
    """Every load and store of a statement and those inside, in the order of their paths.

    >>> from eqsat.ir.terms.term import ax, load
    >>> i = ax(0, 14)
    >>> copy = For(i, If(i < 12, Store("y", (i,), load("x", [i], "int8"))))
    >>> decls = {n: BufferDecl(n, (14,), "int8") for n in ("x", "y")}
    >>> [str(a) for a in accesses(copy, Context({n: Memory(d, n) for n, d in decls.items()}))]
    ['read of x[i0]', 'write of y[i0]']
    """
    found: list[Access] = []
    stack: list[tuple[Stmt, Context]] = [(stmt, context)]
    while stack:
        top, here = stack.pop()
        if isinstance(top, Store):
            for term in (*top.index, top.value):
                found.extend(_loads(term, here, top))
            found.extend(_accesses(here, top.buffer, top.index, (True, 1), top))
        elif isinstance(top, (If, Assume)):
            found.extend(_loads(top.condition, here, top))
        stack.extend(here.child(top, number) for number in reversed(parts(top)))
    return found


def _accesses(
    context: Context, buffer: str, index: tuple[Term, ...], kind: tuple[bool, int], stmt: Stmt
) -> Iterator[Access]:
    """The access; a vector one is an access for each lane."""
    write, step = kind
    lanes = index[-1].lanes if index else 1
    for lane in range(lanes):
        at = (*index[:-1], _lane(index[-1], lane)) if lanes > 1 else index
        known = tuple(None if i is None or depends_on_data(i) else i for i in at)
        yield Access(
            context.buffers[buffer], known, write, (*context.path, step), context.loops, context.guards,
            context.exact and all(i is not None for i in known), stmt,
        )  # fmt: skip


def _lane(index: Term, lane: int) -> Term | None:
    return index.args[0] + index.args[1] * lane if index.op == "ramp" else None


def _loads(term: Term, context: Context, stmt: Stmt) -> Iterator[Access]:
    """The loads of a term, each under the conditions of the lazy operations around it."""
    for load, here in guarded_loads(term, context, Context.under, lambda c: tuple(g.serial for g in c.guards)):
        yield from _accesses(here, str(load.payload), load.args, (False, 0), stmt)


def guarded_loads(
    term: Term, here: Known, under: Callable[[Known, Term, bool], Known], key: Callable[[Known], Hashable]
) -> Iterator[tuple[Term, Known]]:
    """The loads of buffers in a term, each with what is known where it is evaluated: `where`, `and`, `or` are lazy.

    here: what is known of the whole; `under` adds that a condition holds, or not; `key` tells what is known apart.
    """
    seen: set[tuple[int, Hashable]] = set()
    stack = [(term, here)]
    while stack:
        node, known = stack.pop()
        place = node.serial, key(known)
        if place in seen or (not node.args and node.op != "load"):
            continue
        seen.add(place)
        if node.op == "load" and isinstance(node.payload, str):
            yield node, known
        if node.op == "where":
            condition, yes, no = node.args
            stack += [(condition, known), (yes, under(known, condition, True)), (no, under(known, condition, False))]
        elif node.op in ("and", "or"):
            for part in node.args:
                stack.append((part, known))
                known = under(known, part, node.op == "and")
        else:
            stack.extend((a, known) for a in node.args)
