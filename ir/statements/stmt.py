"""Statements: the one IR that backends accept. Loop nests over axis terms, with scalar terms as bodies.

A `PrimFunc` has parameters, local allocations and aliases, all of them declared buffers; a load in a term names its
buffer (`load("x", [i], "float32")`), and a loop binds an axis term, so extents are part of the terms. A ramp in the
last index makes an access of several lanes. The rules are in `eqsat.ir.statements.check`, the numpy meaning is
`eqsat.ir.statements.run.run_primfunc`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from eqsat.ir.errors import ShapeError
from eqsat.ir.given import whole
from eqsat.ir.statements.decl import BufferDecl as BufferDecl
from eqsat.ir.statements.decl import Transform as Transform
from eqsat.ir.statements.structure import Structural
from eqsat.ir.terms.term import Term, int_value
from eqsat.ir.terms.walk import nodes_of

LoopKind = Literal["serial", "parallel", "vectorized", "unrolled"]


@dataclass(frozen=True, eq=False)
class For(Structural):
    """Run the body for axis = 0, 1, ..., extent - 1; the extent is the axis term's own, a number or a term of symbols.

    `reduce` marks a loop that accumulates and whose iterations may all the same be run in any order. That, `parallel`
    and `vectorized` are promises of who writes the loop; a `Schedule` marks loops for which it has proved them.
    """

    axis: Term
    body: Stmt
    kind: LoopKind = "serial"
    reduce: bool = False

    @property
    def extent_term(self) -> Term:
        """The number of iterations as a term."""
        return self.axis.args[0]

    @property
    def extent(self) -> int:
        """The number of iterations; ShapeError where it has symbols."""
        number = int_value(self.axis.args[0])
        if number is None:
            problem = f"extent {self.axis.args[0]} is not a number"
            raise ShapeError(f"loop over {self.axis}", problem, "give the symbols a value")
        return number


@dataclass(frozen=True, eq=False)
class If(Structural):
    """Run `then` where the condition holds, else `orelse`."""

    condition: Term
    then: Stmt
    orelse: Stmt | None = None


@dataclass(frozen=True, eq=False)
class Store(Structural):
    """buffer[index] = value. A value that is a hole frees the cell: what reads it later gets some value, unknown."""

    buffer: str
    index: tuple[Term, ...]
    value: Term


@dataclass(frozen=True, eq=False)
class Alloc(Structural):
    """A local buffer, undefined at first, that lives for the body."""

    buffer: BufferDecl
    body: Stmt


@dataclass(frozen=True, eq=False)
class Alias(Structural):
    """Another shape or dtype of the memory of a declared buffer, from element `offset` (of its own type) on.

    The interface of a function stays as it is declared; a flattened or vector view of a parameter is an alias.
    """

    buffer: BufferDecl
    data: str
    body: Stmt
    offset: int = 0

    def __post_init__(self) -> None:
        if type(self.offset) is not int:
            object.__setattr__(self, "offset", whole(self.offset, f"alias {self.buffer}", "offset"))


@dataclass(frozen=True, eq=False)
class Assume(Structural):
    """A promise that the condition holds here, in every lane where it is a vector; a backend may use or ignore it, the
    interpreter checks it."""

    condition: Term


@dataclass(frozen=True, eq=False)
class Seq(Structural):
    """Statements one after the other."""

    parts: tuple[Stmt, ...]


Stmt = For | If | Store | Alloc | Alias | Assume | Seq


def seq(parts: Sequence[Stmt]) -> Stmt:
    """Statements in order; one statement is itself."""
    flat: list[Stmt] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Seq) else (part,))
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def children(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements inside of a statement."""
    if isinstance(stmt, (For, Alloc, Alias)):
        return (stmt.body,)
    if isinstance(stmt, If):
        return (stmt.then,) if stmt.orelse is None else (stmt.then, stmt.orelse)
    return stmt.parts if isinstance(stmt, Seq) else ()


def statements(stmt: Stmt) -> Iterator[Stmt]:
    """Every statement, outer ones first, in order."""
    stack = [stmt]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(children(top)))


def stmt_terms(stmt: Stmt) -> tuple[Term, ...]:
    """The terms that a statement itself evaluates (not those of the statements inside)."""
    if isinstance(stmt, Store):
        return (*stmt.index, stmt.value)
    return (stmt.condition,) if isinstance(stmt, (If, Assume)) else ()


def has(stmt: Stmt, kind: type[Stmt]) -> bool:
    """Whether a statement of a kind is among a statement and those inside."""
    return any(isinstance(inner, kind) for inner in statements(stmt))


def own_accesses(stmt: Stmt) -> Iterator[tuple[str, tuple[Term, ...]]]:
    """The buffers that a statement itself reads, and writes at last, each with the index as it is written there.

    >>> from eqsat.ir.terms.term import ax, load
    >>> i = ax(0, 4)
    >>> [(name, str(*index)) for name, index in own_accesses(Store("y", (i,), load("x", [i + 1], "int8")))]
    [('x', 'i0 + 1'), ('y', 'i0')]
    """
    for load in nodes_of("load", *stmt_terms(stmt)):
        if isinstance(load.payload, str):
            yield load.payload, load.args
    if isinstance(stmt, Store):
        yield stmt.buffer, stmt.index


def with_kind(loop: For, kind: LoopKind) -> For:
    """The same loop, run another way."""
    return replace(loop, kind=kind)
