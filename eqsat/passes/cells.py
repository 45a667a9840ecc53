"""Cells that statements read and write: each access with the loops and the condition under which it happens.

A question about two accesses is a claim for the prover: for all iterations, the conditions do not hold together or the
indices differ. What a statement certainly writes is said the other way round, as a predicate of the cell, by solving
its index for the loop axes; the solution is checked by being part of the predicate.

`accesses/access.py` describes accesses for changes of order; this one is for what memory holds, and keeps what that
leaves out: a condition on data is a fact about the data that was read (`frozen`). That has what this one leaves out:
a path, which says what comes first, and an address in memory; here a cell is one of a buffer by its name, and what an
alias shares memory with is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from eqsat.accesses.access import guarded_loads
from eqsat.ir.decide import Proof
from eqsat.ir.errors import EqsatError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.statements.stmt import Alias, Alloc, For, If, Seq, Stmt, Store
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts, free_variables, nodes_of, occurs, substitute
from eqsat.passes.asked import CELLS
from eqsat.passes.fresh import fresh, renamed

MOST_PAIRS = 64
"""Of writes in the two arms of a branch that memory decides."""
Kind = Literal["read", "write", "free"]


@dataclass(frozen=True, eq=False)
class CellAccess(Record):
    """buffer[index], in each iteration of the axes in which the condition holds.

    `axes` are the loops inside of the statement that was asked about. `free` is a write of a hole. Loads in index and
    condition have sources of their own: what they read is unknown.
    """

    buffer: str
    index: tuple[Term, ...]
    condition: Term
    axes: tuple[Term, ...] = ()
    kind: Kind = "read"

    @property
    def changes(self) -> bool:
        """Whether the cell has another value afterwards."""
        return self.kind != "read"


def fresh_axes(access: CellAccess) -> CellAccess:
    """The access over axes of its own, so that two of one statement can stand in one claim."""
    table: dict[Term, Term] = {}
    for axis in access.axes:
        table[axis] = substitute(renamed(axis), table)
    return replace(substituted(access, table), axes=tuple(table.values()))


def substituted(access: CellAccess, table: Mapping[Term, Term]) -> CellAccess:
    """The access where axes have other values."""
    index = tuple(substitute(i, table) for i in access.index)
    return replace(access, index=index, condition=substitute(access.condition, table))


def frozen(term: Term) -> Term:
    """The term where each load is a value of its own, of which nothing else is known: what memory holds at one time."""
    return substitute(term, {load: t.load(f"{load.payload}@{fresh()}", (), load.dtype) for load in loads(term)})


def has_loads(*terms: Term) -> bool:
    """Whether a term reads memory."""
    return any(map(_loads, terms))


def loads(*terms: Term) -> list[Term]:
    """The distinct loads of buffers in terms, inner ones first."""
    if len(terms) == 1:
        return list(_loads(terms[0]))
    return list(dict.fromkeys(load for term in terms for load in _loads(term)))


@lru_cache(maxsize=1 << 14)
def _loads(term: Term) -> tuple[Term, ...]:
    return tuple(node for node in nodes_of("load", term) if isinstance(node.payload, str))


def guarded_parts(term: Term) -> Iterator[tuple[Term, Term]]:
    """The loads of a term, each with the condition under which it is evaluated."""

    def under(condition: Term, test: Term, holds: bool) -> Term:
        return t.logical_and(condition, test if holds else t.logical_not(test))

    return guarded_loads(term, t.TRUE, under, lambda condition: condition.serial)


def reads_of(term: Term, condition: Term = t.TRUE, axes: tuple[Term, ...] = ()) -> list[CellAccess]:
    """The cells that a term reads."""
    return [
        CellAccess(str(load.payload), tuple(map(frozen, load.args)), frozen(t.logical_and(condition, guard)), axes)
        for load, guard in guarded_parts(term)
    ]


def accesses(stmt: Stmt, condition: Term = t.TRUE, axes: tuple[Term, ...] = ()) -> list[CellAccess]:
    """The cells that a statement reads and writes, in the order of the text."""
    if isinstance(stmt, Store):
        found = [a for term in (*stmt.index, stmt.value) for a in reads_of(term, condition, axes)]
        kind: Kind = "free" if stmt.value.op == "hole" else "write"
        return [*found, CellAccess(stmt.buffer, tuple(map(frozen, stmt.index)), frozen(condition), axes, kind)]
    if isinstance(stmt, For):
        return accesses(stmt.body, condition, (*axes, stmt.axis))
    if isinstance(stmt, If):
        found = reads_of(stmt.condition, condition, axes)
        test = frozen(stmt.condition)
        found += accesses(stmt.then, t.logical_and(condition, test), axes)
        if stmt.orelse is not None:
            found += accesses(stmt.orelse, t.logical_and(condition, t.logical_not(test)), axes)
        return found
    if isinstance(stmt, (Alloc, Alias)):
        return accesses(stmt.body, condition, axes)
    if isinstance(stmt, Seq):
        return [a for part in stmt.parts for a in accesses(part, condition, axes)]
    return reads_of(stmt.condition, condition, axes)


def certain_writes(stmt: Stmt, condition: Term = t.TRUE, axes: tuple[Term, ...] = ()) -> list[CellAccess]:
    """The writes that happen whatever memory holds. A branch that memory decides writes what both arms write: its index
    stands twice then, once for each arm, and all parts of it mean one cell.

    >>> from eqsat.ir.statements.stmt import BufferDecl
    >>> i = t.var("i", 4)
    >>> test = t.load("x", [i], "bool")
    >>> arms = [Store("y", (i,), t.const(n, "int8")) for n in (1, 2)]
    >>> [write.index for write in certain_writes(For(i, If(test, *arms)))]
    [(i, i)]
    """
    if isinstance(stmt, Store):
        return [a for a in accesses(stmt, condition, axes) if a.changes]
    if isinstance(stmt, For):
        return certain_writes(stmt.body, condition, (*axes, stmt.axis))
    if isinstance(stmt, (Alloc, Alias)):
        return certain_writes(stmt.body, condition, axes)
    if isinstance(stmt, Seq):
        return [a for part in stmt.parts for a in certain_writes(part, condition, axes)]
    if not isinstance(stmt, If):
        return []
    test, orelse = stmt.condition, Seq(()) if stmt.orelse is None else stmt.orelse
    if not has_loads(test):
        arms = ((test, stmt.then), (t.logical_not(test), orelse))
        return [a for here, arm in arms for a in certain_writes(arm, t.logical_and(condition, here), axes)]
    first, second = certain_writes(stmt.then), certain_writes(orelse)
    if len(first) * len(second) > MOST_PAIRS:
        return []
    return [_both(a, fresh_axes(b), condition, axes) for a in first for b in second if a.buffer == b.buffer]


def _both(a: CellAccess, b: CellAccess, condition: Term, axes: tuple[Term, ...]) -> CellAccess:
    """One of two writes, under a condition and inside of loops."""
    where = t.logical_and(condition, a.condition, b.condition)
    return replace(a, index=(*a.index, *b.index), condition=where, axes=(*axes, *a.axes, *b.axes))


def differ(a: Sequence[Term], b: Sequence[Term]) -> bool:
    """Whether two indices have different numbers somewhere: they never mean one cell, which nobody has to prove.

    >>> i = t.ax(0, 4)
    >>> differ([i, t.index_const(0)], [i, t.index_const(1)]), differ([i], [t.index_const(9)])
    (True, False)
    """
    return any(
        x is not y and x.op == "const" and y.op == "const" and x.dtype == t.INDEX and y.dtype == t.INDEX
        for x, y in zip(a, b, strict=True)
    )


def apart(a: CellAccess, b: CellAccess, assuming: Term = t.TRUE, order: Term = t.TRUE) -> Proof:
    """Do two accesses of one buffer never mean one cell (while `order` holds between their axes)?"""
    meet = [t.compare("eq", x, y) for x, y in zip(a.index, b.index, strict=True)]
    claim = t.logical_not(t.logical_and(order, a.condition, b.condition, *meet))
    return CELLS.prove(claim, None if assuming is t.TRUE else assuming)


# -- what is certainly written ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Solved:
    """Loop axes as terms over a cell; `free` are those that the index does not use: they are 0."""

    values: Mapping[Term, Term]
    free: tuple[Term, ...]


def solve(index: Sequence[Term], axes: Sequence[Term], cell: Sequence[Term]) -> Solved | None:
    """The iteration that accesses a cell, where it can be found; it is right only where the index gives the cell.

    >>> i = t.ax(0, 14)
    >>> solve([i // 4, i % 4], [i], [t.var("a"), t.var("b")]).values[i]
    4*a + b
    """
    values: dict[Term, Term] = {}
    left = list(zip(index, cell, strict=True))
    known = set(axes)
    progress = True
    while progress:
        progress = False
        for number, pair in enumerate(left):
            place, wanted = substitute(pair[0], values), pair[1]
            constant, parts = t.linear_parts(place)
            unknown = [(c, x) for c, x in parts if occurs(axes, x)]
            if len(unknown) == 1 and unknown[0][1] in known and abs(unknown[0][0]) == 1:
                factor, axis = unknown[0]
                rest = t.linear(constant, [(c, x) for c, x in parts if x is not axis])
                values[axis] = (wanted - rest) * factor
                del left[number]
                progress = True
                break
    unsolved = [a for a in axes if a not in values]
    coupled = [(substitute(p, values), w) for p, w in left if occurs(unsolved, substitute(p, values))]
    if coupled:
        used = [a for a in unsolved if occurs([a], *(p for p, _ in coupled))]
        found = _inverse(tuple(p for p, _ in coupled), tuple(used))
        if found is None:
            return None
        names, inverse = found
        table = dict(zip(names, (w for _, w in coupled), strict=True))
        values.update(zip(used, (substitute(v, table) for v in inverse), strict=True))
    free = tuple(a for a in axes if a not in values)
    zero = dict.fromkeys(free, t.index_const(0))
    return Solved({**{a: substitute(v, zero) for a, v in values.items()}, **zero}, free)


@lru_cache(maxsize=1024)
def _inverse(outputs: tuple[Term, ...], axes: tuple[Term, ...]) -> tuple[tuple[Term, ...], tuple[Term, ...]] | None:
    if any(leaf not in set(axes) for leaf in free_variables(*outputs)) or any(
        t.int_value(a.args[0]) is None for a in axes
    ):
        return None
    plain = {axis: t.var(f"v{n}") for n, axis in enumerate(axes)}
    try:
        mapping = IndexMap(tuple(f"v{n}" for n in range(len(axes))), tuple(substitute(o, plain) for o in outputs))
        inverse, _ = mapping.non_surjective_inverse(tuple(t.int_value(a.args[0]) or 0 for a in axes))
    except EqsatError:
        return None
    return tuple(t.var(n) for n in inverse.names), inverse.final_indices


def written(access: CellAccess, cell: Sequence[Term], exactly: bool = False) -> Term | None:
    """A predicate of a cell: it holds only where some iteration of the access means the cell; None: not found.

    `exactly`: it holds at all such cells (conditions on memory are taken to hold).
    """
    solved = solve(access.index, access.axes, cell)
    if solved is None or has_loads(*access.index) or (has_loads(access.condition) and not exactly):
        return None
    condition = access.condition
    if exactly:
        condition = t.logical_and(*(part for part in conjuncts(condition) if not has_loads(part)))
        if has_loads(condition) or occurs(solved.free, condition):
            return None
    inside: list[Term] = []
    for axis in access.axes:
        value = solved.values[axis]
        inside += [t.index_const(0) <= value, value < substitute(axis.args[0], solved.values)]
    meet = [t.compare("eq", substitute(i, solved.values), c) for i, c in zip(access.index, cell, strict=True)]
    return t.logical_and(*inside, *meet, substitute(condition, solved.values))
