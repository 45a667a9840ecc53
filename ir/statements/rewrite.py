"""Rebuilding statements: with other parts, other terms, other names of buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import is_

from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, For, If, Seq, Stmt, Store, children
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import renumber_loads, substitute


def with_children(stmt: Stmt, parts: Sequence[Stmt]) -> Stmt:
    """The statement around other statements, in the order of `stmt.children`; itself around its own."""
    if all(map(is_, parts, own := children(stmt))) and len(parts) == len(own):
        return stmt
    if isinstance(stmt, (For, Alloc, Alias)):
        return replace(stmt, body=parts[0])
    if isinstance(stmt, If):
        return If(stmt.condition, parts[0], parts[1] if len(parts) > 1 else None)
    return Seq(tuple(parts)) if isinstance(stmt, Seq) else stmt


def with_terms(stmt: Stmt, change: Callable[[Term], Term]) -> Stmt:
    """The statement with the terms changed that it evaluates itself."""
    if isinstance(stmt, Store):
        return with_access(stmt, [change(i) for i in stmt.index], change(stmt.value))
    if isinstance(stmt, (If, Assume)):
        condition = change(stmt.condition)
        return stmt if condition is stmt.condition else replace(stmt, condition=condition)
    return stmt


def with_access(stmt: Store, index: Sequence[Term], value: Term) -> Store:
    """The store of another value, or elsewhere; itself where both are its own."""
    same = value is stmt.value and all(map(is_, index, stmt.index))
    return stmt if same else replace(stmt, index=tuple(index), value=value)


def map_terms(stmt: Stmt, change: Callable[[Term], Term]) -> Stmt:
    """The same statements over other terms; axes of loops inside stay."""
    stmt = with_terms(stmt, change)
    return with_children(stmt, [map_terms(part, change) for part in children(stmt)])


def with_axis(stmt: Stmt, old: Term, new: Term) -> Stmt:
    """The statement where an axis of an outer loop has another value."""
    return map_terms(stmt, lambda term: substitute(term, {old: new}))


def with_names(func: PrimFunc, names: Mapping[str, str]) -> PrimFunc:
    """The function over parameters of other names, which no buffer inside has."""

    def stored(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Store):
            return replace(stmt, buffer=names.get(stmt.buffer, stmt.buffer))
        return with_children(stmt, [stored(part) for part in children(stmt)])

    body = stored(map_terms(func.body, lambda term: renumber_loads(term, names)))
    params = tuple(names.get(p, p) for p in func.params)
    decls = {names.get(p, p): replace(d, name=names.get(p, p)) for p, d in func.buffer_map.items()}
    return replace(func, params=params, buffer_map=decls, body=body)
