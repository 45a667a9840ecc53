"""Positions that a loop computes again in each round of the loops around it: computed once, in a row of their own.

    before:  for i: for j: y[i, j] = x[i, max(min(p[j], 9), 0)]
    after:   for j: place[j] = max(min(p[j], 9), 0)
             for i: for j: y[i, j] = x[i, place[j]]

Compilers take what does not change out of a loop, but a row of it has no place where they could put it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.split import extent_of
from eqsat.ir.dtypes import INDEX, highest, lowest
from eqsat.ir.statements.rewrite import map_terms
from eqsat.ir.statements.stmt import Alloc, BufferDecl, For, Seq, Stmt, Store, children, seq, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, load
from eqsat.ir.terms.walk import free_variables, nodes_of, postorder, transform

POSITIONS = "positions"
"""The note of a local buffer that holds positions."""
LEAST, MOST = 8, 8192
"""Elements of a row of positions."""
ROUNDS = 4
"""Times that each of them is used, at least."""
WITHIN = 16
"""Where loops inside use each as often as this, a compiler computes it once for them."""
CHEAP = ("load", "cast", "axis", "const", "sum")
"""Operations that cost no more than a load of what they make."""


def positions_in_rows(body: Stmt, simplifier: IndexSimplifier) -> Stmt:
    """A kernel's statements with rows of positions in front of the loops that use them: of those within int32, whose
    type is then the bound that the address is known to have.

    >>> from eqsat.ir.statements.stmt import statements
    >>> i, j = t.ax(0, 20), t.ax(1, 30)
    >>> place = t.binary("max", t.load("p", [j], INDEX), t.index_const(0)) % 9
    >>> copy = For(i, For(j, Store("y", (30 * i + j,), t.load("x", [9 * i + place], "int8"))))
    >>> [str(s.value) for s in statements(positions_in_rows(copy, IndexSimplifier())) if isinstance(s, Store)]
    ["cast(maximum(p[i1], 0) % 9, 'int32')", "x[9*i0 + cast(positions0[i1], 'index')]"]
    """
    if isinstance(body, Seq):
        return seq([positions_in_rows(part, simplifier) for part in body.parts])
    found = {place: axis for place, axis in _found(body, ()) if _is_narrow(simplifier.range(place))}
    for number, (place, axis) in enumerate(found.items()):
        name = f"{POSITIONS}{number}"

        def read(node: Term, place: Term = place, axis: Term = axis, name: str = name) -> Term | None:
            return t.cast_to(load(name, [axis], "int32"), INDEX) if node is place else None

        body = map_terms(body, lambda term, read=read: transform(term, read))
        fill = For(axis, Store(name, (axis,), t.cast_to(place, "int32")))
        body = Alloc(BufferDecl(name, (extent_of(axis),), "int32", POSITIONS), seq([fill, body]))
    return body


def _is_narrow(bounds: tuple[int, int] | None) -> bool:
    return bounds is not None and int(lowest("int32")) <= bounds[0] and bounds[1] <= int(highest("int32"))


def _is_dear(place: Term) -> bool:
    return any(node.op not in CHEAP for node in postorder(place))


def _found(stmt: Stmt, around: Sequence[Term]) -> Iterator[tuple[Term, Term]]:
    """The positions that are worth a row, each with the loop that it depends on."""
    if isinstance(stmt, For):
        yield from _found(stmt.body, (*around, stmt.axis))
    elif isinstance(stmt, Seq):
        for part in children(stmt):
            yield from _found(part, around)
    elif isinstance(stmt, Store):
        for term in stmt_terms(stmt):
            yield from _in_term(term, around)


def _in_term(term: Term, around: Sequence[Term]) -> Iterator[tuple[Term, Term]]:
    """Those of a term that are computed in any case: a row holds all of them."""
    waiting, seen = [term], set[Term]()
    loops = {axis: n for n, axis in enumerate(around)}
    while waiting:
        node = waiting.pop()
        if node in seen or not nodes_of("load", node):
            continue
        seen.add(node)
        used = [x for x in free_variables(node) if x.op == "axis"]
        if node.dtype == INDEX and len(used) == 1 and used[0] in loops and _is_dear(node):
            n = loops[used[0]]
            outside, inside = (prod(map(extent_of, part)) for part in (around[:n], around[n + 1 :]))
            if LEAST <= extent_of(used[0]) <= MOST and outside >= ROUNDS and inside < WITHIN:
                yield node, used[0]
            continue
        waiting += node.args[:1] if node.op in ("where", "and", "or") else node.args
