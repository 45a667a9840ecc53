"""Branches traded for computing more (RFC 77): a branch goes where what it kept from running makes no difference.

`remove_branching_through_overcompute` runs the body of a branch always. `remove_overcompute_through_branching` is the
inverse: it runs a body only where it makes a difference. Both are legal for the same reason (`eqsat.passes.effects`);
the first also has to show that what is read in addition lies inside of its buffer and may be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import map_terms
from eqsat.ir.statements.stmt import Assume, For, If, Seq, Stmt, Store, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute
from eqsat.passes.at_once import new_conflict
from eqsat.passes.cells import accesses, guarded_parts, has_loads, loads, written
from eqsat.passes.context import Context
from eqsat.passes.effects import Difference, check_extra, check_reads, check_term, check_values, places, vague_buffers
from eqsat.passes.flow import context_at
from eqsat.passes.paths import Path, at, changed_while, is_empty, paths, put, with_body


@dataclass(frozen=True)
class Traded:
    """A function without some branches (or with more of them), and why.

    `changed`: the conditions that went or came; `refused`: those that stay, each with its reason and witness;
    `reordered`: sums that are the same only in some order, or but for the sign of a zero.
    """

    func: PrimFunc
    changed: tuple[Term, ...] = ()
    refused: tuple[tuple[Term, Difference], ...] = ()
    reordered: tuple[str, ...] = ()


def remove_branching_through_overcompute(func: PrimFunc, condition: Term | None = None) -> PrimFunc:
    """Run what stands under a branch always, where what this adds provably makes no difference.

    condition: the condition of the branch (or of the `where`) to remove; without one, all that can be removed are.
    ScheduleError with a witness where the branch, or no branch at all, can be removed: an added load outside of its
    buffer, a cell that the caller sees, a sum that would change.

    rewrite: `if 4*jo + ji < 14: B[i] = B[i] + A[i, jo, ji]` to `B[i] = B[i] + A[i, jo, ji]`, where the padding of A
    holds 0.0 and B[i] is not -0.0.
    """
    found = overcompute(func, condition)
    if found.refused and not found.changed:
        test, why = found.refused[0]
        raise ScheduleError(
            f"remove_branching_through_overcompute of {func.name}",
            f"if {test}: without the branch, {why.problem}",
            "state with an assume what the padding holds, or keep the branch",
            why.witness,
        )
    return found.func


def overcompute(func: PrimFunc, condition: Term | None = None) -> Traded:
    """`remove_branching_through_overcompute` with its reasons: what went, what stays, and why."""
    changed: list[Term] = []
    reordered: list[str] = []
    refused: dict[Path, list[tuple[Term, Difference]]] = {}

    def without(now: PrimFunc, path: Path, stmt: Stmt) -> PrimFunc | None:
        if not path:
            refused.clear()  # of the last round are those that stay
        here = refused[path] = list[tuple[Term, Difference]]()
        for test, new in _options(stmt):
            if condition is not None and test is not condition:
                continue
            result = _without(now, path, new, test)
            if not isinstance(result, Difference):
                changed.append(test)
                reordered.extend(result[1])
                return result[0]
            here.append((test, result))
        return None

    done = changed_while(func, without)
    return Traded(done, tuple(changed), tuple(x for those in refused.values() for x in those), tuple(reordered))


def _options(stmt: Stmt) -> list[tuple[Term, Stmt | tuple[Stmt, Stmt]]]:
    """The branches of a statement itself, also by one part of a condition: the condition, and what would run instead
    (or one of two)."""
    if isinstance(stmt, If) and stmt.orelse is not None:
        return [(stmt.condition, (stmt.then, stmt.orelse))]
    if isinstance(stmt, If):
        parts = stmt.condition.args if stmt.condition.op == "and" else ()
        rest = [t.logical_and(*(p for p in parts if p is not part)) for part in parts]
        halves = [(part, replace(stmt, condition=others)) for part, others in zip(parts, rest, strict=True)]
        return [(stmt.condition, stmt.then), *halves]
    if isinstance(stmt, Store):
        found: list[tuple[Term, Stmt | tuple[Stmt, Stmt]]] = []
        for node in nodes_of("where", stmt.value):
            found.append((node.args[0], replace(stmt, value=substitute(stmt.value, {node: node.args[1]}))))
            found.append(
                (t.logical_not(node.args[0]), replace(stmt, value=substitute(stmt.value, {node: node.args[2]})))
            )
        return found
    return []


def _without(
    func: PrimFunc, path: Path, new: Stmt | tuple[Stmt, Stmt], test: Term
) -> tuple[PrimFunc, tuple[str, ...]] | Difference:
    """The function without a branch, or why not."""
    stmt = at(func.body, path)
    if isinstance(stmt, Store):
        assert isinstance(new, Store)
        return _without_where(func, path, stmt, new, test)
    if isinstance(new, tuple):
        return _without_else(func, path, new, test)
    candidate = replace(func, body=put(func.body, path, new))
    problem = check_reads(candidate, path, test)
    if problem is not None:
        return problem
    result = check_extra(candidate, path, test, added=True)
    if isinstance(result, Difference):
        return result
    return _met(func, candidate, path) or (with_body(candidate, candidate.body), result.reordered)


def _met(func: PrimFunc, candidate: PrimFunc, path: Path) -> Difference | None:
    """Do iterations that run at once conflict now?"""
    found = new_conflict(func, candidate, path)
    return None if found is None else Difference(f"iterations that run at once conflict: {found}", found.witness)


def _without_else(
    func: PrimFunc, path: Path, arms: tuple[Stmt, Stmt], test: Term
) -> tuple[PrimFunc, tuple[str, ...]] | Difference:
    """One arm of a branch for both, where it does what the other one does."""
    context = context_at(func, path)
    first: Difference | None = None
    for arm, other, fails in (arms[0], arms[1], t.logical_not(test)), (arms[1], arms[0], test):
        known = context.under(fails)
        if _simple(arm, known) != _simple(other, known):
            first = first or Difference("the two arms of the branch do different things", {})
            continue
        candidate = replace(func, body=put(func.body, path, arm))
        problem = check_reads(candidate, path, t.logical_not(fails)) or _check_arm(func, arm, other, known)
        problem = problem or _met(func, candidate, path)
        if problem is None:
            return with_body(candidate, candidate.body), ()
        first = first or problem
    assert first is not None
    return first


def _check_arm(func: PrimFunc, arm: Stmt, other: Stmt, known: Context) -> Difference | None:
    """Does an arm, where it does what the other one does, read only cells that hold a value or that both read?"""
    vague = vague_buffers(func)
    kept = {load for s in statements(_simple(other, known)) for load in loads(*stmt_terms(s))}
    for place in places(arm, known):
        for term in stmt_terms(place.stmt):
            problem = check_values(term, place.context, vague, kept)
            if problem is not None:
                return problem
    return None


def _without_where(
    func: PrimFunc, path: Path, old: Store, new: Store, test: Term
) -> tuple[PrimFunc, tuple[str, ...]] | Difference:
    """One value of a `where` for both."""
    known = context_at(func, path).under(t.logical_not(test))
    problem = check_term(new.value, known)
    before = known.simplify(old.value)
    always = [load for load, guard in guarded_parts(old.value) if guard is t.TRUE]
    problem = problem or check_values(new.value, known, vague_buffers(func), {*loads(before), *always})
    if problem is not None:
        return problem
    if not known.equal(new.value, before):
        return Difference(f"{new.value} is not known to be {before}", {})
    candidate = replace(func, body=put(func.body, path, new))
    return _met(func, candidate, path) or (candidate, ())


def _simple(stmt: Stmt, context: Context) -> Stmt:
    """Stores under what is known before them, for comparing two arms."""
    if isinstance(stmt, Seq) or not isinstance(stmt, Store):
        return stmt
    return map_terms(stmt, context.simplify)


# -- the inverse ------------------------------------------------------------------------------------------------------


def remove_overcompute_through_branching(func: PrimFunc, condition: Term | None = None) -> PrimFunc:
    """Run statements only where they make a difference: the inverse of `remove_branching_through_overcompute`.

    condition: run them only where it holds; without one, the conditions are those under which what is known of the
    padding that they read says that they do nothing, or under which what they write is written again.
    ScheduleError where no statement can have a branch.

    rewrite: `B[i] = B[i] + A[i, jo, ji]` to `if 4*jo + ji < 14: B[i] = B[i] + A[i, jo, ji]`.
    """
    found = branch(func, condition)
    if not found.changed:
        test, why = (
            found.refused[0] if found.refused else (condition, Difference("nothing is known of any padding", {}))
        )
        raise ScheduleError(
            f"remove_overcompute_through_branching of {func.name}",
            f"only if {test}: {why.problem}",
            "state with an assume what the padding holds",
            why.witness,
        )
    return found.func


def branch(func: PrimFunc, condition: Term | None = None) -> Traded:
    """`remove_overcompute_through_branching` with its reasons."""
    changed: list[Term] = []
    refused: list[tuple[Term, Difference]] = []
    reordered: list[str] = []
    skip: set[Path] = set()
    for path, stmt in list(paths(func.body)):
        if any(path[: len(done)] == done for done in skip) or isinstance(stmt, Assume) or is_empty(stmt):
            continue
        for test in _conditions(func, path, stmt) if condition is None else _usable(condition, func, path):
            result = check_extra(func, path, test)
            if isinstance(result, Difference):
                refused.append((test, result))
                continue
            inside = stmt
            if isinstance(stmt, Store) and nodes_of("where", stmt.value):
                inside = _simple(stmt, context_at(func, path).under(test))
            func = replace(func, body=put(func.body, path, If(test, inside)))
            changed.append(test)
            reordered += result.reordered
            skip.add(path)
            break
    return Traded(with_body(func, func.body), tuple(changed), tuple(refused), tuple(reordered))


def _scope(func: PrimFunc, path: Path) -> set[Term]:
    """The axes of the loops around a path."""
    around = [at(func.body, path[:k]) for k in range(len(path))]
    return {stmt.axis for stmt in around if isinstance(stmt, For)}


def _usable(condition: Term, func: PrimFunc, path: Path) -> list[Term]:
    axes = {n for n in nodes_of("axis", condition)} | {n for n in nodes_of("var", condition)}
    return [condition] if axes <= _scope(func, path) else []


def _conditions(func: PrimFunc, path: Path, stmt: Stmt) -> list[Term]:
    """Conditions that keep a statement from running on padding, from what is known of the cells that it reads, and from
    selections by positions: `B[i] = B[i] + where(j < 14, A[i, j], 0)` does nothing from 14 on."""
    if isinstance(stmt, If) or not isinstance(stmt, (Store, Seq, For)):
        return []
    scope = _scope(func, path)
    context = context_at(func, path)
    found: dict[Term, None] = {}
    for place in places(stmt, context):
        if not isinstance(place.stmt, Store) or place.stmt.value.op == "hole":
            continue
        for node in nodes_of("where", place.stmt.value):
            if not has_loads(node.args[0]):
                found |= {context.simplify(x): None for x in (node.args[0], t.logical_not(node.args[0]))}
        for load in loads(place.stmt.value):
            for fact in place.context.facts:
                for where, _ in fact.about(load):
                    found[context.simplify(t.logical_not(where))] = None
    found |= {context.simplify(test): None for test in _written_later(func, path, stmt)}
    return [test for test in found if test.op != "const" and _is_condition(test, scope)]


def _is_condition(test: Term, scope: set[Term]) -> bool:
    """Whether a test may be a branch: of loops around it, without data and without tables, which statements lack."""
    return _axes(test) <= scope and not nodes_of("load", test) and not nodes_of("hole", test)


def _axes(term: Term) -> set[Term]:
    return {*nodes_of("axis", term), *nodes_of("var", term)}


def _written_later(func: PrimFunc, path: Path, stmt: Stmt) -> Sequence[Term]:
    """Conditions under which what a statement writes is not written again by what follows it or a loop around it."""
    own = [a for a in accesses(stmt) if a.changes]
    later: list[Any] = []
    for depth in range(len(path)):
        parent = at(func.body, path[:depth])
        if isinstance(parent, Seq):
            later += [a for part in parent.parts[path[depth] + 1 :] for a in accesses(part) if a.changes]
    found: list[Term] = []
    for mine in own:
        for theirs in later:
            if mine.buffer == theirs.buffer:
                covered = written(theirs, mine.index)
                if covered is not None:
                    found.append(t.logical_not(covered))
    return found
