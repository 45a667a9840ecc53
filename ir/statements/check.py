"""Well-formed statements: every buffer is declared before it is used, every axis is bound, types and ranks fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.ir.dtypes import BOOL, DATA, INDEX, itemsize
from eqsat.ir.errors import BoundsError, ShapeError, TypeMismatch
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
    stmt_terms,
)
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import postorder

_LOOPS = ("serial", "parallel", "vectorized", "unrolled")


def check_function(name: str, params: Sequence[str], buffer_map: Mapping[str, BufferDecl], body: Stmt) -> None:
    """Refuse a function that uses an undeclared buffer, a free axis, or an index or value of the wrong type."""
    what = f"function {name}"
    if len(set(params)) != len(params) or set(params) != set(buffer_map):
        raise ShapeError(
            what, f"parameters {params} are not the declared buffers {tuple(buffer_map)}", "declare each once"
        )
    for key, decl in buffer_map.items():
        _check_decl(what, decl)
        if decl.name != key:
            raise ShapeError(what, f"parameter {key!r} is declared as buffer {decl.name!r}", "use one name")
    stack: list[tuple[Stmt, Mapping[str, BufferDecl], frozenset[Term]]] = [(body, buffer_map, frozenset())]
    while stack:
        stmt, buffers, axes = stack.pop()
        if isinstance(stmt, For):
            if stmt.axis.op not in ("axis", "var") or not stmt.axis.args or stmt.axis in axes:
                raise ShapeError(what, f"{stmt.axis} does not name a new loop", "use an axis with an extent")
            if stmt.extent < 0 or stmt.kind not in _LOOPS:
                raise ShapeError(
                    what,
                    f"loop over {stmt.axis}: extent {stmt.extent}, kind {stmt.kind!r}",
                    f"one of {', '.join(_LOOPS)}",
                )
            axes |= {stmt.axis}
        elif isinstance(stmt, (Alloc, Alias)):
            if stmt.buffer.name in buffers:
                raise ShapeError(what, f"buffer {stmt.buffer.name!r} is declared twice", "rename one")
            _check_decl(what, stmt.buffer)
            if isinstance(stmt, Alias):
                _check_alias(what, stmt, buffers)
            buffers = {**buffers, stmt.buffer.name: stmt.buffer}
        elif isinstance(stmt, (If, Assume)):
            if stmt.condition.dtype != BOOL:
                raise TypeMismatch(what, f"condition {stmt.condition} is {stmt.condition.dtype}, not bool")
        elif isinstance(stmt, Store):
            _check_access(what, stmt.buffer, stmt.index, stmt.value.dtype, buffers)
        for term in stmt_terms(stmt):
            _check_term(what, term, buffers, axes)
        stack.extend((child, buffers, axes) for child in children(stmt))


def element_bytes(decl: BufferDecl) -> int:
    """Bytes of one element."""
    return 8 if decl.dtype == INDEX else itemsize(decl.dtype)


def _check_decl(what: str, decl: BufferDecl) -> None:
    if not decl.name:
        raise ShapeError(what, "a buffer has no name", "give it one")
    if decl.dtype not in (*DATA, INDEX):
        raise TypeMismatch(what, f"buffer {decl} holds {decl.dtype!r}", f"one of {', '.join(DATA)}")
    if any(type(n) is not int or n < 0 for n in decl.shape):
        raise ShapeError(what, f"buffer {decl} has an extent that is no number of elements", "numbers from 0 on")


def _check_alias(what: str, stmt: Alias, buffers: Mapping[str, BufferDecl]) -> None:
    decl = stmt.buffer
    if stmt.data not in buffers:
        raise ShapeError(what, f"alias {decl} of buffer {stmt.data!r}, which is not declared", "declare it around")
    need = element_bytes(decl) * (stmt.offset + decl.size)
    have = element_bytes(buffers[stmt.data]) * buffers[stmt.data].size
    if stmt.offset < 0 or need > have:
        raise BoundsError(what, f"alias {decl} from {stmt.offset} needs {need} bytes, {stmt.data} has {have}")


def _check_term(what: str, term: Term, buffers: Mapping[str, BufferDecl], axes: frozenset[Term]) -> None:
    for node in postorder(term):
        if node.lanes > 1:
            raise TypeMismatch(what, f"{node} is a vector", "statements are scalar: loop over the lanes")
        if node.op == "load":
            if not isinstance(node.payload, str):
                raise TypeMismatch(what, f"load of {node.payload!r}, which is not the name of a buffer")
            _check_access(what, node.payload, node.args, node.dtype, buffers)
        elif node.op in ("axis", "var") and node not in axes:
            raise ShapeError(what, f"{leaf_name(node)} is used outside of its loop", "move it inside")
        elif node.op == "sym":
            raise ShapeError(what, f"symbol {leaf_name(node)} has no value", "give the symbols a value")


def _check_access(what: str, name: str, index: Sequence[Term], dtype: str, buffers: Mapping[str, BufferDecl]) -> None:
    if name not in buffers:
        raise ShapeError(what, f"buffer {name!r} is not declared", "put an Alloc or Alias around")
    decl = buffers[name]
    if len(index) != len(decl.shape):
        raise ShapeError(
            what, f"{name} has {len(decl.shape)} axes, the access has {len(index)} indices", "one per axis"
        )
    if dtype != decl.dtype:
        raise TypeMismatch(what, f"{name} holds {decl.dtype}, the access is {dtype}")
    for i in index:
        if i.dtype != INDEX:
            raise TypeMismatch(what, f"index {i} of {name} is {i.dtype}")
