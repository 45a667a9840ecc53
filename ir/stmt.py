"""Statements: the one IR that backends accept. Loop nests over axis terms, with scalar terms as bodies.

A `PrimFunc` has parameters and local allocations, all of them declared buffers; a load in a term names its buffer
(`load("x", [i], "float32")`), and a loop binds an axis term, so extents are part of the terms. The numpy meaning is
`eqsat.ir.stmt_run.run_primfunc`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal

from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.errors import ShapeError, TypeMismatch
from eqsat.ir.term import Term, int_value
from eqsat.ir.text import format_term, leaf_name
from eqsat.ir.walk import postorder

LoopKind = Literal["serial", "parallel", "vectorized", "unrolled"]


@dataclass(frozen=True)
class BufferDecl:
    """A typed block of memory: physical shape (one index per axis) and dtype; `note` tells readers what it holds."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    note: str = ""

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class For:
    """Run the body for axis = 0, 1, ..., extent - 1; the extent is the axis term's own."""

    axis: Term
    body: Stmt
    kind: LoopKind = "serial"

    @property
    def extent(self) -> int:
        """The number of iterations."""
        number = int_value(self.axis.args[0])
        if number is None:
            problem = f"extent {self.axis.args[0]} is not a number"
            raise ShapeError(f"loop over {self.axis}", problem, "give the symbols a value")
        return number


@dataclass(frozen=True)
class If:
    """Run `then` where the condition holds, else `orelse`."""

    condition: Term
    then: Stmt
    orelse: Stmt | None = None


@dataclass(frozen=True)
class Store:
    """buffer[index] = value."""

    buffer: str
    index: tuple[Term, ...]
    value: Term


@dataclass(frozen=True)
class Alloc:
    """A local buffer, undefined at first, that lives for the body."""

    buffer: BufferDecl
    body: Stmt


@dataclass(frozen=True)
class Assume:
    """A promise that the condition holds here; a backend may use or ignore it, the interpreter checks it."""

    condition: Term


@dataclass(frozen=True)
class Seq:
    """Statements one after the other."""

    parts: tuple[Stmt, ...]


Stmt = For | If | Store | Alloc | Assume | Seq


@dataclass(frozen=True)
class PrimFunc:
    """A function over buffers: `params` in order, `buffer_map` declares each of them, `body` is what it does.

    >>> from eqsat.ir.term import ax, load
    >>> i = ax(0, 4)
    >>> double = Store("y", (i,), load("x", [i], "int32") + load("x", [i], "int32"))
    >>> buffers = {n: BufferDecl(n, (4,), "int32") for n in ("x", "y")}
    >>> print(PrimFunc("twice", ("x", "y"), buffers, For(i, double)))
    func twice(x: int32[4], y: int32[4])
      for i0 in 4:
        y[i0] = x[i0] + x[i0]
    """

    name: str
    params: tuple[str, ...]
    buffer_map: Mapping[str, BufferDecl]
    body: Stmt
    note: str = field(default="")

    def __post_init__(self) -> None:
        check_primfunc(self)

    def __str__(self) -> str:
        header = ", ".join(str(self.buffer_map[p]) for p in self.params)
        return "\n".join([f"func {self.name}({header})", *format_stmt(self.body, 1)])


def seq(parts: Sequence[Stmt]) -> Stmt:
    """Statements in order; one statement is itself."""
    flat: list[Stmt] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Seq) else (part,))
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def children(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements inside of a statement."""
    if isinstance(stmt, (For, Alloc)):
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


def with_kind(loop: For, kind: LoopKind) -> For:
    """The same loop, run another way."""
    return replace(loop, kind=kind)


# -- well-formedness --------------------------------------------------------------------------------------------------


def check_primfunc(func: PrimFunc) -> None:
    """Refuse a function that uses an undeclared buffer, a free axis, or an index or value of the wrong type."""
    what = f"function {func.name}"
    if len(set(func.params)) != len(func.params) or set(func.params) != set(func.buffer_map):
        raise ShapeError(what, f"parameters {func.params} are not the declared buffers {tuple(func.buffer_map)}")
    stack: list[tuple[Stmt, Mapping[str, BufferDecl], frozenset[Term]]] = [(func.body, func.buffer_map, frozenset())]
    while stack:
        stmt, buffers, axes = stack.pop()
        if isinstance(stmt, For):
            if stmt.axis.op not in ("axis", "var") or not stmt.axis.args or stmt.axis in axes:
                raise ShapeError(what, f"{stmt.axis} does not name a new loop")
            axes |= {stmt.axis}
        elif isinstance(stmt, Alloc):
            if stmt.buffer.name in buffers:
                raise ShapeError(what, f"buffer {stmt.buffer.name!r} is declared twice")
            buffers = {**buffers, stmt.buffer.name: stmt.buffer}
        elif isinstance(stmt, (If, Assume)):
            if stmt.condition.dtype != BOOL:
                raise TypeMismatch(what, f"condition {stmt.condition} is {stmt.condition.dtype}, not bool")
        elif isinstance(stmt, Store):
            _check_access(what, stmt.buffer, stmt.index, stmt.value.dtype, buffers)
        for term in stmt_terms(stmt):
            _check_term(what, term, buffers, axes)
        stack.extend((child, buffers, axes) for child in children(stmt))


def _check_term(what: str, term: Term, buffers: Mapping[str, BufferDecl], axes: frozenset[Term]) -> None:
    for node in postorder(term):
        if node.op == "load":
            if not isinstance(node.payload, str):
                raise TypeMismatch(what, f"load of {node.payload!r}, which is not the name of a buffer")
            _check_access(what, node.payload, node.args, node.dtype, buffers)
        elif node.op in ("axis", "var") and node not in axes:
            raise ShapeError(what, f"{leaf_name(node)} is used outside of its loop")
        elif node.op == "sym":
            raise ShapeError(what, f"symbol {leaf_name(node)} has no value", "give the symbols a value")


def _check_access(what: str, name: str, index: Sequence[Term], dtype: str, buffers: Mapping[str, BufferDecl]) -> None:
    if name not in buffers:
        raise ShapeError(what, f"buffer {name!r} is not declared")
    decl = buffers[name]
    if len(index) != len(decl.shape):
        raise ShapeError(what, f"{name} has {len(decl.shape)} axes, the access has {len(index)} indices")
    if dtype != decl.dtype:
        raise TypeMismatch(what, f"{name} holds {decl.dtype}, the access is {dtype}")
    for i in index:
        if i.dtype != INDEX:
            raise TypeMismatch(what, f"index {i} of {name} is {i.dtype}")


# -- text -------------------------------------------------------------------------------------------------------------


def format_stmt(stmt: Stmt, depth: int = 0) -> list[str]:
    """The lines of a statement in a Python-like notation."""
    indent = "  " * depth
    if isinstance(stmt, For):
        kind = "" if stmt.kind == "serial" else f"  # {stmt.kind}"
        return [f"{indent}for {leaf_name(stmt.axis)} in {stmt.extent}:{kind}", *format_stmt(stmt.body, depth + 1)]
    if isinstance(stmt, If):
        lines = [f"{indent}if {format_term(stmt.condition)}:", *format_stmt(stmt.then, depth + 1)]
        return lines if stmt.orelse is None else [*lines, f"{indent}else:", *format_stmt(stmt.orelse, depth + 1)]
    if isinstance(stmt, Store):
        return [f"{indent}{stmt.buffer}[{', '.join(map(format_term, stmt.index))}] = {format_term(stmt.value)}"]
    if isinstance(stmt, Alloc):
        return [f"{indent}alloc {stmt.buffer}", *format_stmt(stmt.body, depth)]
    if isinstance(stmt, Assume):
        return [f"{indent}assume {format_term(stmt.condition)}"]
    return [line for part in stmt.parts for line in format_stmt(part, depth)] or [f"{indent}pass"]
