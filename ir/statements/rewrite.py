"""Rebuilding statements: with other parts, other terms, other names of buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from eqsat.ir.statements.stmt import Alias, Alloc, Assume, For, If, Seq, Stmt, Store
from eqsat.ir.terms.term import Term


def with_children(stmt: Stmt, parts: Sequence[Stmt]) -> Stmt:
    """The statement around other statements, in the order of `stmt.children`."""
    if isinstance(stmt, (For, Alloc, Alias)):
        return replace(stmt, body=parts[0])
    if isinstance(stmt, If):
        return If(stmt.condition, parts[0], parts[1] if len(parts) > 1 else None)
    return Seq(tuple(parts)) if isinstance(stmt, Seq) else stmt


def with_terms(stmt: Stmt, change: Callable[[Term], Term]) -> Stmt:
    """The statement with the terms changed that it evaluates itself."""
    if isinstance(stmt, Store):
        return Store(stmt.buffer, tuple(change(i) for i in stmt.index), change(stmt.value))
    if isinstance(stmt, If):
        return replace(stmt, condition=change(stmt.condition))
    return Assume(change(stmt.condition)) if isinstance(stmt, Assume) else stmt
