"""Numbers of the holes that a step makes: they follow from the function and the steps, whatever ran before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children, with_terms
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, Stmt, children, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import reserve_holes
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute


def numbered(before: PrimFunc, after: PrimFunc) -> PrimFunc:
    """The function after a step, its new holes with the next numbers that the function before does not have.

    So a schedule that is replayed, or a step that is taken back and taken again, makes the same function.

    >>> text = "func f(x: int8[2])\\n  x[0] = hole({}, 'int8')\\n  x[1] = hole({}, 'int8')"
    >>> print(numbered(PrimFunc.parse(text.format(3, 3)), PrimFunc.parse(text.format(7, 3))))
    func f(x: int8[2])
      x[0] = hole(4, 'int8')
      x[1] = hole(3, 'int8')
    """
    known = dict.fromkeys(_numbers(before))
    new = [n for n in dict.fromkeys(_numbers(after)) if n not in known]
    first = max(known, default=0) + 1
    table = {number: first + k for k, number in enumerate(new)}
    if all(a == b for a, b in table.items()):
        return after
    reserve_holes(max(table.values()))

    def term(x: Term) -> Term:
        holes = [h for h in nodes_of("hole", x) if h.payload in table]
        return substitute(x, {h: t.hole(table[h.payload], h.dtype, h.args) for h in holes}) if holes else x

    buffers = {name: _with_terms(decl, term) for name, decl in after.buffer_map.items()}
    return replace(after, buffer_map=buffers, body=_renumbered(after.body, term))


def _numbers(func: PrimFunc) -> Iterator[int]:
    """The numbers of holes in a function, in their order."""
    decls = [*func.buffer_map.values(), *(s.buffer for s in statements(func.body) if isinstance(s, Alloc | Alias))]
    values = [step.pad_value for decl in decls for step in decl.transforms if step.pad_value is not None]
    terms = [x for stmt in statements(func.body) for x in stmt_terms(stmt)]
    for x in (*values, *terms):
        yield from (hole.payload for hole in nodes_of("hole", x))


def _with_terms(decl: BufferDecl, change: Callable[[Term], Term]) -> BufferDecl:
    steps = tuple(
        s if s.pad_value is None else replace(s, pad_value=change(s.pad_value)) for s in decl.transforms
    )  # fmt: skip
    return replace(decl, transforms=steps) if decl.transforms else decl


def _renumbered(stmt: Stmt, change: Callable[[Term], Term]) -> Stmt:
    made = with_terms(with_children(stmt, [_renumbered(part, change) for part in children(stmt)]), change)
    return replace(made, buffer=_with_terms(made.buffer, change)) if isinstance(made, Alloc | Alias) else made
