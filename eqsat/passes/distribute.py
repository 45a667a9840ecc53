"""Loops over several statements as a loop for each, where no iteration touches what another one writes."""

from __future__ import annotations

from dataclasses import replace

from eqsat.ir.statements.rewrite import with_children
from eqsat.ir.statements.stmt import Alias, Alloc, For, Seq, Stmt, Store, children, has, own_accesses, seq, statements


def distributed(stmt: Stmt) -> Stmt:
    """The statement with a loop for each of the statements in a loop.

    A loop is divided where each buffer that it writes is accessed by one of the statements only, or has its axis as the
    index in one dimension of all accesses: then what one iteration of a statement writes no other iteration of another
    statement touches, and all iterations of one statement may run before the next statement. Buffers that are declared
    inside keep a loop whole, aliases all loops.

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
    if has(stmt, Alias):
        return stmt  # names do not tell buffers apart
    made = with_children(stmt, [distributed(part) for part in children(stmt)])
    if isinstance(made, Seq):
        return seq(made.parts)
    if not isinstance(made, For) or not isinstance(made.body, Seq) or not _is_apart(made):
        return made
    return seq([replace(made, body=part) for part in made.body.parts])


def _is_apart(loop: For) -> bool:
    """Whether no iteration of a statement in a loop touches what another one of another statement writes."""
    if has(loop.body, Alloc):
        return False
    written = {s.buffer for s in statements(loop.body) if isinstance(s, Store)}
    common: dict[str, set[int]] = {}
    parts: dict[str, set[int]] = {}
    for number, part in enumerate(children(loop.body)):
        for name, index in (access for s in statements(part) for access in own_accesses(s)):
            places = {k for k, i in enumerate(index) if i.serial == loop.axis.serial}
            common[name] = common.get(name, places) & places
            parts.setdefault(name, set()).add(number)
    return all(common[name] or len(parts[name]) == 1 for name in written)
