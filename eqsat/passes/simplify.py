"""Terms of statements simplified under what is known where they stand, and branches that are decided or alike."""

from __future__ import annotations

from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_access, with_children
from eqsat.ir.statements.stmt import Assume, For, If, Seq, Stmt, Store, children, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, symbols
from eqsat.passes.cells import accesses, apart, has_loads, reads_of
from eqsat.passes.context import Context
from eqsat.passes.flow import after, before_child, entry
from eqsat.passes.paths import EMPTY, is_empty, joined, tidy, with_body


def simplify_statements(func: PrimFunc) -> PrimFunc:
    """Simplify every index, value and condition in its context, and merge branches.

    What is known: the ranges of loops, the conditions around, assumptions and stores before, until a write may touch
    the cells that they speak of. A branch that is decided loses its other arm, or both where they are alike; adjacent
    branches on equal or opposite conditions become one, where the first does not change what the second asks about.
    ScheduleError where an assumption is provably false.

    >>> from eqsat.ir.statements.stmt import BufferDecl
    >>> i = t.ax(0, 16)
    >>> body = For(i, If(i < 20, Store("A", (i // 16 + i,), t.const(0, "int32"))))
    >>> print(simplify_statements(PrimFunc("f", ("A",), {"A": BufferDecl("A", (16,), "int32")}, body)))
    func f(A: int32[16])
      for i0 in 16:
        A[i0] = int32(0)
    """
    return with_body(func, _simplified(tidy(func.body), entry(func), func.name, True))


def _simplified(stmt: Stmt, context: Context, name: str, sure: bool) -> Stmt:
    """The statement in its context; sure: whether no data decides if it runs."""
    if isinstance(stmt, Store):
        return with_access(stmt, [context.simplify(i) for i in stmt.index], context.simplify(stmt.value))
    if isinstance(stmt, Assume):
        return stmt if stmt.condition.lanes > 1 else _checked(stmt, context, name, sure)
    if isinstance(stmt, If):
        return _branch(stmt, context, name, sure)
    if isinstance(stmt, Seq):
        return _sequence(stmt, context, name, sure)
    if isinstance(stmt, For) and t.int_value(stmt.axis.args[0]) == 0:
        return EMPTY
    inner = [_simplified(child, before_child(stmt, k, context), name, sure) for k, child in enumerate(children(stmt))]
    return joined(stmt, inner)


def _checked(stmt: Assume, context: Context, name: str, sure: bool) -> Stmt:
    never = context.decide(stmt.condition) == "never"
    asked = never or (sure and _of_loops(stmt.condition, context))
    proof = context.prove(stmt.condition) if asked else None
    if proof is not None and (never or proof.verdict == "refuted") and context.reachable():
        problem = f"assume {stmt.condition} is false" + (f" at {dict(proof.witness)}" if proof.witness else "")
        raise ScheduleError(f"simplify_statements of {name}", problem, "remove or correct it", proof.witness)
    return stmt


def _of_loops(condition: Term, context: Context) -> bool:
    """Whether a condition speaks of loops alone, and stands where they say: of sizes and cells it is a promise."""
    return not (has_loads(condition) or nodes_of("hole", condition) or symbols(condition, *context.guard))


def _branch(stmt: If, context: Context, name: str, sure: bool) -> Stmt:
    if stmt.orelse is not None and tidy(stmt.then) == tidy(stmt.orelse):  # before each is simplified where it stands
        return _simplified(stmt.then, context, name, sure)
    test = context.simplify(stmt.condition)
    if test.op != "const":
        decision = context.decide(test)
        test = {"always": t.TRUE, "never": t.FALSE}.get(decision, test)
    if test is t.TRUE:
        return _simplified(stmt.then, context, name, sure)
    if test is t.FALSE:
        return EMPTY if stmt.orelse is None else _simplified(stmt.orelse, context, name, sure)
    sure = sure and not has_loads(test)
    then = _simplified(stmt.then, context.under(test), name, sure)
    orelse = EMPTY if stmt.orelse is None else _simplified(stmt.orelse, context.under(t.logical_not(test)), name, sure)
    if tidy(then) == tidy(orelse):
        return then
    if test is stmt.condition and not is_empty(then) and is_empty(orelse) == (stmt.orelse is None):
        return with_children(stmt, [then] if stmt.orelse is None else [then, orelse])
    return _either(test, then, orelse)


def _either(test: Term, then: Stmt, orelse: Stmt) -> If:
    """A branch; one that only has an `else` is turned around."""
    if is_empty(then) and not is_empty(orelse):
        return If(t.logical_not(test), orelse)
    return If(test, then, None if is_empty(orelse) else orelse)


def _sequence(stmt: Seq, context: Context, name: str, sure: bool) -> Stmt:
    parts: list[Stmt] = []
    before: list[Context] = []
    for part in stmt.parts:
        new = tidy(_simplified(part, context, name, sure))
        if is_empty(new):
            continue
        known, context = context, after(new, context)
        last = parts[-1] if parts else None
        if isinstance(last, If) and isinstance(new, If):
            merged = merged_branches(last, new, before[-1])
            if merged is not None:
                parts[-1] = tidy(_simplified(merged, before[-1], name, sure))
                continue
        parts.append(new)
        before.append(known)
    same = len(parts) == len(stmt.parts) and all(a is b for a, b in zip(parts, stmt.parts, strict=True))
    return stmt if same else seq(parts)


def merged_branches(first: If, second: If, context: Context) -> If | None:
    """Adjacent branches as one, if their conditions are always equal or always opposite.

    Not where the first may write what the second's condition reads.
    """
    equal = alignment(first, second.condition, context)
    if equal is None:
        return None
    then, orelse = (second.then, second.orelse) if equal else (second.orelse, second.then)
    both = [[part for part in arm if part is not None] for arm in ((first.then, then), (first.orelse, orelse))]
    return _either(first.condition, seq(both[0]), seq(both[1]))


def alignment(first: If, second: Term, context: Context) -> bool | None:
    """Whether a condition behind a branch always equals that of the branch (True), or is opposite (False).

    None where neither is so, and where the branch may write what the condition reads.
    """
    writes = [a for a in accesses(first) if a.changes]
    guard = t.logical_and(*context.guard)
    for read in reads_of(second):
        for write in writes:
            if context.root(read.buffer) != context.root(write.buffer):
                continue
            if read.buffer != write.buffer or not apart(read, write, guard):
                return None
    a, b = first.condition, second
    if has_loads(a) != has_loads(b):
        return None
    equal = t.logical_or(t.logical_and(a, b), t.logical_and(t.logical_not(a), t.logical_not(b)))
    if a is b or context.prove(equal):
        return True
    opposite = t.logical_or(t.logical_and(a, t.logical_not(b)), t.logical_and(t.logical_not(a), b))
    return False if context.prove(opposite) else None
