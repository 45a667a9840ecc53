"""Executions of a statement that make no difference: what may be added to a function, or left out.

`check_extra` compares a function with the one where a statement runs only under a condition. The executions that only
the first has make no difference when each of their stores writes what the cell holds, or a cell that nobody else reads
before it is written again. Facts are those of the function that has the executions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from eqsat.ir.decide import Proof
from eqsat.ir.dtypes import is_float, is_int
from eqsat.ir.statements.primfunc import PrimFunc
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
    statements,
    stmt_terms,
)
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute, transform
from eqsat.passes.cells import accesses, apart, fresh_axes, guarded_parts, loads, substituted
from eqsat.passes.context import Context
from eqsat.passes.facts import fact_of, no_negative_zero
from eqsat.passes.flow import before_child, context_at
from eqsat.passes.fresh import renamed
from eqsat.passes.liveness import Live, cell_at, live_after
from eqsat.passes.paths import EMPTY, Path, at, put
from eqsat.proving.question import definedness

_QUESTIONS = 8


@dataclass(frozen=True)
class Difference:
    """Why executions matter: the store or load, and a witness."""

    problem: str
    witness: Mapping[str, Any]


@dataclass(frozen=True)
class Harmless:
    """The executions make no difference; `reordered` says where only sums in any order make it so."""

    reordered: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Inner(Record):
    """A statement inside of another: its path from there, the loops between, and what is known there."""

    stmt: Stmt
    path: Path
    axes: tuple[Term, ...]
    condition: Term
    context: Context


def places(stmt: Stmt, context: Context) -> Iterator[Inner]:
    """Every statement inside of a statement, and itself."""
    stack = [Inner(stmt, (), (), t.TRUE, context)]
    while stack:
        place = stack.pop()
        yield place
        inside = place.stmt
        for number, child in reversed(list(enumerate(children(inside)))):
            axes = (*place.axes, inside.axis) if isinstance(inside, For) else place.axes
            condition = place.condition
            if isinstance(inside, If):
                test = inside.condition if number == 0 else t.logical_not(inside.condition)
                condition = t.logical_and(condition, test)
            known = before_child(inside, number, place.context)
            stack.append(Inner(child, (*place.path, number), axes, condition, known))


def check_extra(func: PrimFunc, path: Path, condition: Term, added: bool = False) -> Harmless | Difference:
    """Do the executions of the statement at the path in which the condition fails make no difference?

    `func` has all executions of the statement. Where they are `added`, what they compute has to have a value, too: of
    a cell without one nothing is known, not even that its product with 0 is 0.
    """
    stmt = at(func.body, path)
    guarded = EMPTY if condition is t.FALSE else If(condition, stmt)
    fewer = put(func.body, path, guarded)
    context = context_at(func, path).under(t.logical_not(condition))
    race = _race(func, path, condition)
    if race is not None:
        return race
    reordered: list[str] = []
    vague = vague_buffers(func) if added else frozenset[str]()
    for place in places(stmt, context):
        if not isinstance(place.stmt, Store):
            continue
        found = _harmless(fewer, path, place, condition, vague)
        if isinstance(found, Difference):
            return found
        reordered += found.reordered
    return Harmless(tuple(reordered))


def _harmless(fewer: Stmt, path: Path, place: Inner, condition: Term, vague: Collection[str]) -> Harmless | Difference:
    """Whether the extra executions of one store make no difference."""
    store, context = place.stmt, place.context
    assert isinstance(store, Store)
    own = t.load(store.buffer, store.index, store.value.dtype)
    unknown = check_values(store.value, context, vague, {own})
    if unknown is None and store.value.op != "hole" and context.simplify(store.value) is own:
        return Harmless()
    local = _allocated(at(fewer, path), store.buffer)
    guard = t.logical_and(t.logical_not(condition), place.condition)
    changed = accesses(store, guard, place.axes)[-1]
    live = None if local else live_after(fewer, path, changed, context.roots)
    if live is None:
        return Harmless()
    found = same_value(store, own, context, _in_any_order(fewer, path))
    if found is None:
        return Difference(_story(store, live), live.witness)
    return unknown or found


def same_value(store: Store, own: Term, context: Context, in_any_order: bool) -> Harmless | None:
    """Whether a store writes what its cell `own` holds; by any order of a sum where a loop around it allows that."""
    if store.value.op == "hole" or not (own in set(loads(store.value)) or context.values(own)):
        return None
    if context.equal(store.value, own):
        return Harmless()
    if is_float(own.dtype) and in_any_order:
        assumed = context.also([fact_of(no_negative_zero(own))])
        if assumed.equal(store.value, own):
            return Harmless(
                (f"{store.buffer}[{', '.join(map(str, store.index))}]: 0.0 is added, which may make -0.0 0.0",)
            )
    return None


def _in_any_order(body: Stmt, path: Path) -> bool:
    """Whether a loop around a path, or at it, accumulates in any order."""
    around = [at(body, path[:k]) for k in range(len(path) + 1)]
    return any(isinstance(stmt, For) and stmt.reduce for stmt in around)


def _allocated(stmt: Stmt, name: str) -> bool:
    """Whether a statement holds the buffer inside of it."""
    return any(isinstance(inner, Alloc) and inner.buffer.name == name for inner in statements(stmt))


def _story(store: Store, live: Live) -> str:
    cell = live.witness.get("cell")
    place = ", ".join(map(str, store.index if cell is None else cell))
    text = f"{store.buffer}[{', '.join(map(str, store.index))}] = {store.value}"
    return f"{text} is not known to leave {store.buffer}[{place}] as it is, and {live.reason}"


def _race(func: PrimFunc, path: Path, condition: Term) -> Difference | None:
    """A cell that an extra execution writes while another iteration of a parallel loop accesses it."""
    for depth, number in enumerate(path):
        loop = at(func.body, path[:depth])
        if not isinstance(loop, For) or loop.kind in ("serial", "unrolled"):
            continue
        del number
        other = renamed(loop.axis)
        order = t.compare("ne", loop.axis, other)
        extra = [a for a in accesses(at(func.body, path), t.logical_not(condition)) if a.changes]
        for mine in extra:
            for theirs in accesses(loop.body):
                if theirs.buffer != mine.buffer:
                    continue
                theirs = substituted(fresh_axes(theirs), {loop.axis: other})
                proof = apart(fresh_axes(mine), theirs, t.TRUE, order)
                if not proof:
                    return Difference(
                        f"{mine.buffer} is shared by iterations of {loop.kind} loop {loop.axis}",
                        dict(proof.witness or {}),
                    )
    return None


# -- what is read -----------------------------------------------------------------------------------------------------


def check_reads(func: PrimFunc, path: Path, condition: Term) -> Difference | None:
    """Does every access of the statement stay inside its buffer, and may it be read, where the condition fails?"""
    context = context_at(func, path).under(t.logical_not(condition))
    return check_reads_at(at(func.body, path), context, vague_buffers(func))


def check_reads_at(stmt: Stmt, context: Context, vague: Collection[str]) -> Difference | None:
    """Does every access of a statement stay inside its buffer, and may it be read, where it stands in this context?

    vague: the buffers that may have cells without a value; see `vague_buffers`.
    """
    for place in places(stmt, context):
        if isinstance(place.stmt, Assume) and not place.context.prove(place.stmt.condition):
            return Difference(f"assume {place.stmt.condition} is not known to hold there", {})
        decisive = [place.stmt.condition] if isinstance(place.stmt, If) else [i for i in _indices(place.stmt)]
        for load in loads(*decisive):
            if str(load.payload) in vague:
                return Difference(
                    f"{load} decides what is accessed, and may have no value there", {"buffer": load.payload}
                )
        for term in stmt_terms(place.stmt):
            problem = check_term(term, place.context)
            if problem is not None:
                return problem
        if isinstance(place.stmt, Store):
            target = t.load(place.stmt.buffer, place.stmt.index, place.stmt.value.dtype)
            problem = _check_cell(target, t.TRUE, place.context)
            if problem is not None:
                return problem
    return None


def check_values(
    term: Term, context: Context, vague: Collection[str], kept: Set[Term] = frozenset()
) -> Difference | None:
    """Does every load of a term that is not among those `kept` mean a cell that holds a value?

    Where an integer is multiplied by what is known to be 0, it does not matter; nor where nothing is evaluated.
    """

    def product(node: Term) -> Term | None:
        if node.op != "mul" or not is_int(node.dtype):
            return None
        zero = t.const(0, node.dtype)
        return zero if any(context.simplify(a) is zero for a in node.args) else None

    if not any(str(load.payload) in vague and load not in kept for load in loads(term)):
        return None
    for load, guard in guarded_parts(transform(term, product)):
        if str(load.payload) not in vague or load in kept:
            continue
        here = context.under(guard)
        if not here.holds_value(load, vague) and here.reachable():
            return Difference(f"{load} may have no value there", {"buffer": load.payload})
    return None


def vague_buffers(func: PrimFunc) -> set[str]:
    """Buffers with cells that may have no value: local ones, those with freed cells, and aliases."""
    found: set[str] = {name for name, decl in func.buffer_map.items() if decl.padding_steps}
    for stmt in statements(func.body):
        if isinstance(stmt, (Alloc, Alias)):
            found.add(stmt.buffer.name)
        elif isinstance(stmt, Store) and stmt.value.op == "hole":
            found.add(stmt.buffer)
    return found


def _indices(stmt: Stmt) -> list[Term]:
    """The indices of what a statement accesses."""
    inner = [i for load in loads(*stmt_terms(stmt)) for i in load.args]
    return [*inner, *stmt.index] if isinstance(stmt, Store) else inner


def check_term(term: Term, context: Context) -> Difference | None:
    """Is a term defined in a context: loads inside of their buffers, no division by zero?"""
    for load, guard in guarded_parts(term):
        problem = _check_cell(load, guard, context)
        if problem is not None:
            return problem
    defined = definedness([term], {name: decl.shape for name, decl in context.decls.items()})[0]
    proof = context.prove(defined) if defined is not t.TRUE else Proof("proved")
    return None if proof else Difference(f"{term} is not known to be defined", dict(proof.witness or {}))


def _check_cell(load: Term, guard: Term, context: Context) -> Difference | None:
    decl = context.decls[str(load.payload)]
    shape: Sequence[Any] = decl.shape
    inside = [c for i, n in zip(load.args, shape, strict=True) for c in (t.index_const(0) <= i, i < t.as_index(n))]
    known, claim = context.under(guard), t.logical_and(*inside)
    proof = known.prove(claim) if claim is not t.TRUE else Proof("proved")
    if proof:
        return _forbidden(load, decl, known)
    cell = None if proof.witness is None else _farthest(load.args, claim, known, proof.witness)
    place = f"{load.payload}[{', '.join(map(str, cell if cell is not None else load.args))}]"
    extent = ", ".join(map(str, shape))
    return Difference(f"reads {place}, which is outside of ({extent})", {"buffer": load.payload, "cell": cell})


def _forbidden(load: Term, decl: BufferDecl, context: Context) -> Difference | None:
    """Padding that must not be accessed, where a load may mean it."""
    table = dict(zip(output_axes(decl.shape), load.args, strict=True))
    for step in decl.padding_steps:
        if step.value is not None:
            continue
        proof = context.prove(t.logical_not(substitute(step.where, table)))
        if not proof:
            cell = None if proof.witness is None else cell_at(load.args, proof.witness)
            place = ", ".join(map(str, cell if cell is not None else load.args))
            problem = f"reads {decl.name}[{place}], which is padding that must not be accessed"
            return Difference(problem, {"buffer": decl.name, "cell": cell})
    return None


def _farthest(
    index: Sequence[Term], claim: Term, context: Context, witness: Mapping[str, Any]
) -> tuple[int, ...] | None:
    """Of the cells that an index reaches outside of its buffer, the last one that some questions find."""
    cell = cell_at(index, witness)
    for _ in range(_QUESTIONS):
        if cell is None:
            return None
        further = _after(index, cell)
        proof = context.prove(t.logical_or(claim, t.logical_not(further)))
        if proof.verdict != "refuted" or proof.witness is None:
            return cell
        cell = cell_at(index, proof.witness) or cell
    return cell


def _after(index: Sequence[Term], cell: Sequence[int]) -> Term:
    """The predicate that an index is after a cell, in row-major order."""
    found, equal = t.FALSE, t.TRUE
    for i, c in zip(index, cell, strict=True):
        found = t.logical_or(found, t.logical_and(equal, t.index_const(c) < i))
        equal = t.logical_and(equal, t.compare("eq", i, c))
    return found
