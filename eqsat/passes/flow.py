"""What is known before and after each statement, in the order in which statements run.

A loop's body knows what held before the loop and no iteration may change. After the loop, what each iteration left
behind holds for all of them, where no later iteration may change it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from eqsat.ir.dtypes import is_float
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.apart import is_apart
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, BufferDecl, For, If, Seq, Stmt, Store, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import occurs
from eqsat.passes.cells import CellAccess, accesses, apart, has_loads, loads, reads_of, substituted
from eqsat.passes.context import Context
from eqsat.passes.facts import Fact, alternatives, excludes_negative_zero, fact_of, is_same, no_negative_zero, over
from eqsat.passes.fresh import renamed, scope
from eqsat.passes.mentioned import mentioned
from eqsat.passes.paths import Path, at


def entry(func: PrimFunc) -> Context:
    """What is known where a function begins. ScheduleError for vectors, and for elements that share their memory."""
    known = _KNOWN.funcs.get(id(func))
    if known is None:
        if len(_KNOWN.funcs) >= _KNOWN.most:
            _KNOWN.funcs.clear()
        known = _KNOWN.funcs[id(func)] = (func, _entry(func))  # which lives as long as its id
    return known[1]


def _entry(func: PrimFunc) -> Context:
    roots: dict[str, str] = {}
    decls = dict(func.buffer_map)
    for stmt in statements(func.body):
        if isinstance(stmt, (Alloc, Alias)):
            decls[stmt.buffer.name] = stmt.buffer
        if isinstance(stmt, Alias):
            roots[stmt.buffer.name] = roots.get(stmt.data, stmt.data)
        for term in stmt_terms(stmt):
            if term.lanes > 1:
                raise ScheduleError(f"passes over {func.name}", f"{term} is a vector", "write it in scalars")
    for decl in decls.values():
        if not is_apart(decl):
            problem = f"buffer {decl} has overlapping strides {decl.strides}"
            raise ScheduleError(f"passes over {func.name}", problem, "on dense buffers")
    return _KNOWN.entry(roots, decls)


class _Known:
    """Answers about statements that were asked about before: passes change little between questions.

    An answer belongs to a statement, by identity, and to all that is known before it of the buffers that it names.
    """

    def __init__(self, most: int = 1 << 13) -> None:
        self.most = most
        self.answers: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self.entries: dict[tuple[Any, ...], Context] = {}
        self.funcs: dict[int, tuple[PrimFunc, Context]] = {}
        self.near: dict[tuple[Any, ...], tuple[Context, Stmt, Context]] = {}

    def entry(self, roots: dict[str, str], decls: dict[str, BufferDecl]) -> Context:
        """The context of a function's beginning, one object for equal declarations."""
        key = (tuple(roots.items()), tuple(decls.items()))
        if len(self.entries) >= self.most:
            self.entries.clear()
        return self.entries.setdefault(key, Context(roots=roots, decls=decls))

    def ask(self, question: Callable[[Any, Context], Context], stmt: Stmt, context: Context) -> Context:
        """What is known after a question, found anew where it is not known."""
        key = (question, id(stmt), id(context))
        known = self.near.get(key)
        if known is None:
            near, far = context.split(mentioned(stmt).names)
            found = self._answer(question, stmt, replace(context, facts=near) if far else context)
            known = self._keep(key, replace(found, facts=(*far, *found.facts)) if far else found, stmt, context)
        return known[0]

    def _keep(
        self, key: tuple[Any, ...], answer: Context, stmt: Stmt, context: Context
    ) -> tuple[Context, Stmt, Context]:
        """Keep an answer to a question about a very statement and context, which live as long as their ids."""
        if len(self.near) >= self.most:
            self.near.clear()
        self.near[key] = found = (answer, stmt, context)
        return found

    def _answer(self, question: Callable[[Any, Context], Context], stmt: Stmt, context: Context) -> Context:
        key = (question, id(stmt), id(context.decls), context.key)
        found = self.answers.get(key)
        if found is None:
            if len(self.answers) >= self.most:
                self.answers.clear()
            with scope("p"):  # no name of an answer comes from here
                answer = question(stmt, context)
            found = self.answers[key] = (answer, stmt, context)  # both live as long as their ids
        return found[0]

    def before_part(self, stmt: Seq, number: int, context: Context) -> Context:
        """What is known before a part of a sequence, found from what was known before the part in front of it."""
        first = number
        while first and (id(stmt), first, id(context)) not in self.near:
            first -= 1
        known = self.near.get((id(stmt), first, id(context)))
        first, found = (0, context) if known is None else (first, known[0])  # another thread may forget meanwhile
        for k in range(first, number):
            found = after(stmt.parts[k], found)
            self._keep((id(stmt), k + 1, id(context)), found, stmt, context)
        return found


_KNOWN = _Known()


def context_at(func: PrimFunc, path: Path) -> Context:
    """What is known before the statement at a path."""
    context, stmt = entry(func), func.body
    for number in path:
        context = before_child(stmt, number, context)
        stmt = at(stmt, (number,))
    return context


def before_child(stmt: Stmt, number: int, context: Context) -> Context:
    """What is known before a child of a statement, from what is known before the statement."""
    if isinstance(stmt, Seq):
        return _KNOWN.before_part(stmt, number, context)
    if isinstance(stmt, If):
        return context.under(stmt.condition if number == 0 else t.logical_not(stmt.condition))
    return enter_loop(stmt, context) if isinstance(stmt, For) else context


def after(stmt: Stmt, context: Context) -> Context:
    """What is known after a statement."""
    return _KNOWN.ask(_after, stmt, context)


def _after(stmt: Stmt, context: Context) -> Context:
    if isinstance(stmt, Store):
        return _after_store(stmt, context)
    if isinstance(stmt, Assume):
        return context if stmt.condition.lanes > 1 else context.under(stmt.condition)
    if isinstance(stmt, Seq):
        return before_child(stmt, len(stmt.parts), context)
    if isinstance(stmt, If):
        return _after_branch(stmt, context)
    if isinstance(stmt, For):
        return _after_loop(stmt, context)
    inner = after(stmt.body, context)
    return inner.without(stmt.buffer.name)


# -- stores and branches ----------------------------------------------------------------------------------------------


def _after_store(stmt: Store, context: Context) -> Context:
    write = accesses(stmt)[-1]
    left = context.after_writes([write])
    if stmt.value.op == "hole" or has_loads(*stmt.index):
        return left
    assuming = t.logical_and(*context.guard)
    own = t.load(stmt.buffer, stmt.index, stmt.value.dtype)
    kept = all(
        context.root(r.buffer) != context.root(write.buffer) or (r.buffer == write.buffer and apart(r, write, assuming))
        for r in reads_of(stmt.value)
    )
    new: list[Fact] = []
    if kept:
        new.append(fact_of(is_same(stmt.buffer, stmt.index, stmt.value)))
    elif context.not_negative_zero(own) and context.not_negative_zero(stmt.value):
        new.append(fact_of(no_negative_zero(own)))
    for where, value in alternatives(stmt.value):  # what padding holds is told by a selection, too
        if value is not stmt.value and value.op != "hole" and not has_loads(value):
            new.append(replace(fact_of(is_same(stmt.buffer, stmt.index, value)), condition=where))
    return left.also(new) if new else left


def _after_branch(stmt: If, context: Context) -> Context:
    writes = [a for a in accesses(stmt) if a.changes]
    left = context.after_writes(writes)
    if has_loads(stmt.condition):
        return left
    new: list[Fact] = []
    arms = ((stmt.condition, stmt.then), (t.logical_not(stmt.condition), stmt.orelse))
    for test, arm in arms:
        if arm is None:
            continue
        known = context.under(test)
        new += [
            replace(fact, condition=t.logical_and(test, fact.condition))
            for fact in after(arm, known).facts
            if fact not in known.facts
        ]
    return left.also(new)


# -- loops ------------------------------------------------------------------------------------------------------------


def _writes(loop: For) -> list[CellAccess]:
    """What any iteration of a loop writes."""
    return [a for a in accesses(loop) if a.changes]


def enter_loop(loop: For, context: Context) -> Context:
    """What is known at the beginning of every iteration."""
    return _KNOWN.ask(_enter_loop, loop, context)


def _enter_loop(loop: For, context: Context) -> Context:
    left = context.after_writes(_writes(loop))
    return left.also(_invariants(loop, context, left))


def _invariants(loop: For, context: Context, left: Context) -> list[Fact]:
    """Cells that no iteration makes -0.0, of those whose facts end with the loop."""
    found: list[Fact] = []
    for fact in context.facts:
        for cell in _subjects(fact.claim):
            weak = replace(fact, claim=no_negative_zero(cell))
            if fact in left.facts or not excludes_negative_zero(cell, fact.claim, weak.claim):
                continue
            body = replace(left, facts=(*left.facts, weak))
            if all(_keeps(store, cell, body) for store in statements(loop.body) if isinstance(store, Store)):
                found.append(weak)
    return found


def _subjects(claim: Term) -> list[Term]:
    """The cells of floats that a claim is about."""
    if claim.op == "same":
        return [a for a in claim.args if a.op == "load" and is_float(a.dtype)]
    cells = loads(claim)
    return [cells[0]] if len(cells) == 1 and is_float(cells[0].dtype) else []


def _keeps(store: Store, cell: Term, context: Context) -> bool:
    """Whether a store leaves the cells of a load's buffer as they are, or writes no -0.0."""
    if context.root(store.buffer) != context.root(cell.payload):
        return True
    if store.buffer != cell.payload or store.value.op == "hole":
        return False
    return context.not_negative_zero(store.value)


def _after_loop(loop: For, context: Context) -> Context:
    inside = enter_loop(loop, context)
    left = replace(inside, guard=context.guard)
    extent = t.int_value(loop.axis.args[0])
    if extent == 0:
        return context
    body = after(loop.body, inside)
    new = [fact for fact in body.facts if fact not in inside.facts]
    if not new:
        return left
    later = _Later(loop)
    known = replace(body, guard=tuple(g for g in body.guard if not occurs([loop.axis], g)))
    return left.also(kept for fact in new for kept in _every_iteration(fact, loop.axis, later, known))


class _Later:
    """What iterations of a loop write after one of them, or beside it."""

    def __init__(self, loop: For) -> None:
        axis, other = loop.axis, renamed(loop.axis)
        self.in_order = loop.kind in ("serial", "unrolled") and not loop.reduce
        self.order = t.logical_and(axis < other) if self.in_order else t.compare("ne", axis, other)
        self.writes = [substituted(a, {axis: other}) for a in accesses(loop.body) if a.changes]


def _every_iteration(fact: Fact, axis: Term, later: _Later, known: Context) -> list[Fact]:
    """What a fact at the end of an iteration says when all have ended."""
    if later.in_order and not occurs([axis], fact.claim, fact.condition):
        return [fact] if (t.int_value(axis.args[0]) or 0) > 0 else []
    if any(known.survives(fact, write, later.order) is not fact for write in later.writes):
        return []
    return [over(fact, axis)]
