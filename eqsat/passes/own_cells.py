"""Local buffers that each iteration of a loop fills anew, with cells of their own for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children, with_terms
from eqsat.ir.statements.ssa import to_ssa
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, For, Stmt, Store, children, has, own_accesses, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import as_dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import map_loads


@dataclass
class _Use:
    """The loops around all accesses of a buffer, outer ones first, and the indices of these."""

    loops: tuple[For, ...]
    indices: list[tuple[Term, ...]]

    def further(self) -> list[Term]:
        """The axes of these loops that are not in each index."""
        axes = [loop.axis for loop in self.loops]
        return [a for a in axes if not all(any(i.serial == a.serial for i in index) for index in self.indices)]


def with_own_cells(func: PrimFunc) -> PrimFunc:
    """The function with local buffers that have further axes: those of the loops in which all of their accesses stand.

    It does what the function does, unless that reads a cell which the same iteration did not write: here such a cell
    holds nothing. Buffers are declared in front of all loops. Functions with aliases stay as they are.

    >>> f = PrimFunc.parse('''func f(x: int8[3, 4], y: int8[3])
    ...   alloc s: int8[1]
    ...   for i in 3:
    ...     s[0] = int8(0)
    ...     for k in 4:
    ...       s[0] = s[0] + x[i, k]
    ...     y[i] = s[0]''')
    >>> print(with_own_cells(f))
    func f(x: int8[3, 4], y: int8[3])
      alloc s: int8[3, 1]
      for i in 3:
        s[i, 0] = int8(0)
        for k in 4:
          s[i, 0] = s[i, 0] + x[i, k]
        y[i] = s[i, 0]
    """
    if has(func.body, Alias):
        return func
    func = to_ssa(func)
    decls = {s.buffer.name: s.buffer for s in statements(func.body) if isinstance(s, Alloc) and _is_plain(s.buffer)}
    uses: dict[str, _Use] = {}
    for name, index, loops in _accesses(func.body, ()):
        use = uses.setdefault(name, _Use(loops, []))
        use.loops = tuple(a for a, b in zip(use.loops, loops, strict=False) if a is b)
        use.indices.append(index)
    more = {name: uses[name].further() if name in uses else [] for name in decls}
    body = _moved(func.body, more)
    for name, decl in reversed(decls.items()):
        shape = (*(as_dim(axis.args[0]) for axis in more[name]), *decl.shape)
        body = Alloc(replace(decl, shape=shape), body)
    return PrimFunc(func.name, func.params, func.buffer_map, body, func.note)


def _is_plain(decl: BufferDecl) -> bool:
    return decl.is_dense and decl.lanes == 1 and not decl.transforms and not decl.axis_separators


def _accesses(stmt: Stmt, loops: tuple[For, ...]) -> Iterator[tuple[str, tuple[Term, ...], tuple[For, ...]]]:
    """Each access: its buffer, its index, and the loops around it."""
    for name, index in own_accesses(stmt):
        yield name, index, loops
    for part in children(stmt):
        yield from _accesses(part, (*loops, stmt) if isinstance(stmt, For) else loops)


def _moved(stmt: Stmt, more: dict[str, list[Term]]) -> Stmt:
    """The statement over buffers with further axes, which are declared elsewhere."""

    def load(x: Term) -> Term:
        name = x.payload
        return t.load(name, [*more[name], *x.args], x.dtype) if isinstance(name, str) and name in more else x

    if isinstance(stmt, Alloc) and stmt.buffer.name in more:
        return _moved(stmt.body, more)
    made = with_terms(
        with_children(stmt, [_moved(part, more) for part in children(stmt)]), lambda x: map_loads(x, load)
    )
    if isinstance(made, Store):
        return replace(made, index=(*more.get(made.buffer, ()), *made.index))
    return made
