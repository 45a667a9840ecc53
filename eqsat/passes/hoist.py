"""Conditions that a loop does not change, decided before it (a generalised loop unswitching)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Literal

from eqsat.ir.errors import ScheduleError
from eqsat.ir.given import listed, one_of
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import map_terms
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, For, If, Stmt, children, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute
from eqsat.passes.cells import CellAccess, accesses, apart, reads_of, substituted
from eqsat.passes.context import Context
from eqsat.passes.effects import check_term
from eqsat.passes.flow import context_at
from eqsat.passes.fresh import renamed
from eqsat.passes.paths import EMPTY, Path, is_empty, joined, paths, put, tidy, with_body
from eqsat.proving.question import definedness

HoistKind = Literal["if", "where", "boolean"]
ALL: tuple[HoistKind, ...] = ("if", "where", "boolean")
MOST = 16  # each one writes its loop twice, outer loops first: so no copy of a loop holds copies made before


def hoist_expression(func: PrimFunc, kinds: Collection[HoistKind] = ALL) -> PrimFunc:
    """Move conditions out of loops that cannot change them.

    kinds: "if": whole conditions of branches; "where": conditions of `where` in values; "boolean": parts of those that
    are joined by `and`, `or`, `not`. A condition moves if it uses no axis of the loop or of one inside, reads no cell
    that the loop writes, and is defined before the loop.
    ScheduleError where it finds nothing to move.

    rewrite: `for j: if i == 0 and j < 2: X` to `if i == 0: for j: if j < 2: X`.
    """
    what = f"hoist_expression of {func.name}"
    wanted = {one_of(k, ALL, what, ScheduleError) for k in listed(kinds, what, "kinds=['if']", ScheduleError)}
    hoisted = 0
    progress = True
    while progress and hoisted < MOST:
        progress = False
        for path, stmt in paths(func.body):
            if not isinstance(stmt, For):
                continue
            test = _movable(func, path, stmt, frozenset(wanted))
            if test is not None:
                func = with_body(func, put(func.body, path, _decided_before(stmt, test)))
                hoisted, progress = hoisted + 1, True
                break
    if not hoisted:
        problem = "no condition is the same in all iterations of its loop, and defined before it"
        raise ScheduleError(what, problem)
    return func


def _decided_before(loop: For, test: Term) -> Stmt:
    then = replace(loop, body=_with_truth(loop.body, test, t.TRUE))
    orelse = tidy(replace(loop, body=_with_truth(loop.body, test, t.FALSE)))
    return If(test, then, None if is_empty(orelse) else orelse)


def _with_truth(stmt: Stmt, test: Term, truth: Term) -> Stmt:
    """The statement where a condition is decided."""
    return _folded(map_terms(stmt, lambda term: substitute(term, {test: truth})))


def _folded(stmt: Stmt) -> Stmt:
    parts = [_folded(child) for child in children(stmt)]
    if isinstance(stmt, If) and stmt.condition.op == "const":
        return parts[0] if stmt.condition is t.TRUE else (parts[1] if len(parts) > 1 else EMPTY)
    return joined(stmt, parts)


def _movable(func: PrimFunc, path: Path, loop: For, kinds: frozenset[str]) -> Term | None:
    """A condition inside of a loop that can be decided before it. What is known there is asked for only where a
    condition reads memory or may be undefined."""
    bound = {loop.axis, *(s.axis for s in statements(loop.body) if isinstance(s, For))}
    local = {s.buffer.name for s in statements(loop.body) if isinstance(s, (Alloc, Alias))}
    for test in dict.fromkeys(_tests(loop.body, kinds)):
        if any(leaf in bound for leaf in (*nodes_of("axis", test), *nodes_of("var", test))) or test.op == "const":
            continue
        if any(str(load.payload) in local for load in nodes_of("load", test)) or nodes_of("hole", test):
            continue
        if not reads_of(test):
            if definedness([test])[0] is t.TRUE or check_term(test, context_at(func, path)) is None:
                return test
            continue
        if not ((t.int_value(loop.axis.args[0]) or 0) > 0 and _certain(loop.body, test)):
            continue
        context = context_at(func, path)
        writes = (a for a in accesses(loop) if a.changes)
        if all(untouched(test, w, context, loop) for w in writes) and check_term(test, context) is None:
            return test
    return None


def _certain(stmt: Stmt, test: Term) -> bool:
    """Whether a statement surely begins a branch with this condition: then its cells are read anyway."""
    if isinstance(stmt, If):
        first = stmt.condition
        while first is not test and first.op in ("and", "or", "not"):
            first = first.args[0]
        return first is test
    if isinstance(stmt, For) and not (t.int_value(stmt.axis.args[0]) or 0) > 0:
        return False
    return any(_certain(child, test) for child in children(stmt))


def untouched(test: Term, write: CellAccess, context: Context, loop: For) -> bool:
    """Whether no iteration of a loop writes what a condition reads."""
    other = substituted(write, {loop.axis: renamed(loop.axis)})
    for read in reads_of(test):
        if context.root(read.buffer) != context.root(write.buffer):
            continue
        if read.buffer != write.buffer or not apart(read, other, t.logical_and(*context.guard)):
            return False
    return True


def _tests(stmt: Stmt, kinds: frozenset[str]) -> Iterator[Term]:
    """The conditions in a statement, whole ones before their parts."""
    for inner in statements(stmt):
        if isinstance(inner, Assume):
            continue
        whole: list[Term] = []
        if isinstance(inner, If) and kinds & {"if", "boolean"}:
            whole.append(inner.condition)
        if kinds & {"where", "boolean"}:
            whole += [node.args[0] for term in stmt_terms(inner) for node in nodes_of("where", term)]
        for test in whole:
            yield test
            if "boolean" in kinds:
                yield from _parts(test)


def _parts(test: Term) -> Iterator[Term]:
    if test.op in ("and", "or", "not"):
        for part in test.args:
            yield part
            yield from _parts(part)
