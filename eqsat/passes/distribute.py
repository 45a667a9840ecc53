"""Loops over several statements as a loop for each, where no iteration touches what another one writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from eqsat.ir.statements.rewrite import with_children
from eqsat.ir.statements.stmt import Alias, Alloc, For, Seq, Stmt, Store, children, seq, statements, stmt_terms
from eqsat.ir.terms.term import Term
from eqsat.passes.cells import loads


def distributed(stmt: Stmt) -> Stmt:
    """The statement with a loop for each of the statements in a loop.

    A loop is divided where all accesses of each buffer that it writes have its axis as their index in one dimension:
    then what one iteration writes no other one touches, and all iterations of one statement may run before the next
    statement. Buffers that are declared inside keep a loop whole, aliases all loops.

    >>> import eqsat as eq
    >>> f = eq.PrimFunc.parse('''func f(x: int8[3, 4], y: int8[3])
    ...   for i in 3:
    ...     y[i] = int8(0)
    ...     for k in 4:
    ...       y[i] = y[i] + x[i, k]''')
    >>> print(eq.PrimFunc(f.name, f.params, f.buffer_map, distributed(f.body)))
    func f(x: int8[3, 4], y: int8[3])
      for i in 3:
        y[i] = int8(0)
      for i in 3:
        for k in 4:
          y[i] = y[i] + x[i, k]
    """
    if any(isinstance(s, Alias) for s in statements(stmt)):
        return stmt  # names do not tell buffers apart
    made = with_children(stmt, [distributed(part) for part in children(stmt)])
    if not isinstance(made, For) or not isinstance(made.body, Seq) or not _is_apart(made):
        return made
    return seq([replace(made, body=part) for part in made.body.parts])


def _is_apart(loop: For) -> bool:
    """Whether no iteration of a loop touches what another one writes, as the indices show."""
    inside = list(statements(loop.body))
    if any(isinstance(s, Alloc) for s in inside):
        return False
    written = {s.buffer for s in inside if isinstance(s, Store)}
    common: dict[str, set[int]] = {}
    for name, index in _accesses(inside):
        places = {k for k, i in enumerate(index) if i.serial == loop.axis.serial}
        common[name] = common.get(name, places) & places
    return all(common[name] for name in written)


def _accesses(stmts: Sequence[Stmt]) -> Iterator[tuple[str, Sequence[Term]]]:
    for stmt in stmts:
        if isinstance(stmt, Store):
            yield stmt.buffer, stmt.index
        for load in loads(*stmt_terms(stmt)):
            if isinstance(load.payload, str):
                yield load.payload, load.args
