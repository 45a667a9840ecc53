"""Places in a statement: a path gives, from the outermost statement on, the number of the child that is meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, For, If, Seq, Stmt, Store, children, seq
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute

Path = tuple[int, ...]
EMPTY = Seq(())


def at(stmt: Stmt, path: Path) -> Stmt:
    """The statement at a path."""
    for number in path:
        stmt = children(stmt)[number]
    return stmt


def with_children(stmt: Stmt, parts: Sequence[Stmt]) -> Stmt:
    """The same statement around others; an empty `else` is none."""
    if isinstance(stmt, (For, Alloc, Alias)):
        return replace(stmt, body=parts[0])
    if isinstance(stmt, If):
        orelse = parts[1] if len(parts) > 1 and not is_empty(parts[1]) else None
        return replace(stmt, then=parts[0], orelse=orelse)
    return seq(parts) if isinstance(stmt, Seq) else stmt


def put(stmt: Stmt, path: Path, new: Stmt) -> Stmt:
    """The statement with another one at a path; the paths of all others stay (see `tidy`)."""
    if not path:
        return new
    parts = list(children(stmt))
    parts[path[0]] = put(parts[path[0]], path[1:], new)
    if isinstance(stmt, If):
        return replace(stmt, then=parts[0], orelse=parts[1] if len(parts) > 1 else None)
    return Seq(tuple(parts)) if isinstance(stmt, Seq) else with_children(stmt, parts)


def paths(stmt: Stmt, path: Path = ()) -> Iterator[tuple[Path, Stmt]]:
    """Every statement with its path, outer ones first."""
    yield path, stmt
    for number, child in enumerate(children(stmt)):
        yield from paths(child, (*path, number))


def is_empty(stmt: Stmt) -> bool:
    """Whether a statement does nothing."""
    return isinstance(stmt, Seq) and all(is_empty(part) for part in stmt.parts)


def tidy(stmt: Stmt) -> Stmt:
    """Without statements that do nothing, and sequences in sequences; a loop or branch around nothing is nothing."""
    parts = [tidy(child) for child in children(stmt)]
    if isinstance(stmt, Seq):
        return seq([part for part in parts if not is_empty(part)])
    if isinstance(stmt, (For, Alloc, Alias)) and is_empty(parts[0]):
        return EMPTY
    if isinstance(stmt, If) and all(is_empty(part) for part in parts):
        return EMPTY
    return with_children(stmt, parts) if parts else stmt


def map_terms(stmt: Stmt, change: Callable[[Term], Term]) -> Stmt:
    """The same statements over other terms; axes of loops inside stay."""
    if isinstance(stmt, Store):
        return replace(stmt, index=tuple(map(change, stmt.index)), value=change(stmt.value))
    parts = [map_terms(child, change) for child in children(stmt)]
    if isinstance(stmt, (For, Alloc, Alias, Seq)):
        return Seq(tuple(parts)) if isinstance(stmt, Seq) else with_children(stmt, parts)
    changed = replace(stmt, condition=change(stmt.condition))
    return with_children(changed, parts) if isinstance(changed, If) else changed


def with_axis(stmt: Stmt, old: Term, new: Term) -> Stmt:
    """The statement where an axis of an outer loop has another value."""
    return map_terms(stmt, lambda term: substitute(term, {old: new}))


def with_body(func: PrimFunc, body: Stmt) -> PrimFunc:
    """The function with another body, tidied."""
    return replace(func, body=tidy(body))
