"""Smaller local buffers: only the box of cells that are accessed, in the buffer and in all of its aliases alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqsat.ir.errors import ScheduleError
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children, with_terms
from eqsat.ir.statements.ssa import to_ssa
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, Stmt, Store, children, own_accesses, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import map_loads


def compact_buffer(func: PrimFunc, name: str) -> PrimFunc:
    """The function whose local buffer `name` holds only the cells that its accesses may reach.

    Separators stay between the same axes. Aliases that show the whole buffer under its own shape and type shrink with
    it; any other alias is an error, since its cells would lie elsewhere. Raises ScheduleError, whose witness names the
    alias, for parameters too.

    >>> f = PrimFunc.parse('''func f(x: int8[4])
    ...   alloc a: int8[16, 8]
    ...   for i in 4:
    ...     a[i + 3, 2] = x[i]
    ...     x[i] = a[i + 3, 2]''')
    >>> print(compact_buffer(f, "a"))
    func f(x: int8[4])
      alloc a: int8[4, 1]
      for i in 4:
        a[i, 0] = x[i]
        x[i] = a[i, 0]
    """
    once = to_ssa(func)
    what = f"compact_buffer {name} of {func.name}"
    owner = next((s.buffer for s in statements(once.body) if isinstance(s, Alloc) and s.buffer.name == name), None)
    if owner is None:
        problem = "it is no local buffer" if name in func.params else "there is no local buffer of that name"
        raise ScheduleError(what, problem, "parameters keep their interface", witness={"buffer": name})
    if not owner.is_dense or owner.transforms:
        problem = "its strides or layout describe memory that would change"
        raise ScheduleError(what, problem, "drop them", witness={"buffer": name})
    names = _alike(once.body, owner, what)
    box = _touched(once.body, names, owner)
    new = tuple(d if b is None else b[1] - b[0] + 1 for d, b in zip(owner.shape, box, strict=True))
    if new == owner.shape:
        return func
    lows = [0 if b is None else b[0] for b in box]
    return replace(func, body=_moved(once.body, names, new, lows))


def _alike(body: Stmt, owner: BufferDecl, what: str) -> set[str]:
    """The buffer and its aliases, all of one shape and type."""
    names = {owner.name}
    for stmt in statements(body):
        if isinstance(stmt, Alias) and stmt.data in names:
            decl = stmt.buffer
            same = replace(decl, name=owner.name, note=owner.note) == owner and not stmt.offset
            if not same:
                problem = f"alias {decl} shows its memory under another shape, type or offset"
                witness = {"buffer": owner.name, "alias": decl.name}
                raise ScheduleError(what, problem, "remove the alias, or rewrite both", witness=witness)
            names.add(decl.name)
    return names


def _touched(body: Stmt, names: set[str], owner: BufferDecl) -> list[tuple[int, int] | None]:
    """The range of indices of every axis; None where it is not known, or nothing is accessed."""
    bounds = Bounds()
    found: list[tuple[int, int] | None] = [None] * len(owner.shape)
    open_ended = [False] * len(owner.shape)
    for stmt in statements(body):
        for index in (index for name, index in own_accesses(stmt) if name in names):
            for n, i in enumerate(index):
                ends = [i] if i.op != "ramp" else [i.args[0], i.args[0] + i.args[1] * (i.payload - 1)]
                for low, high in map(bounds.of, ends):
                    if low is None or high is None:
                        open_ended[n] = True
                        continue
                    a, b = found[n] or (low, high)
                    found[n] = min(a, low), max(b, high)
    return [
        _inside(box, dim) if box is not None and not unknown else None
        for box, dim, unknown in zip(found, owner.shape, open_ended, strict=True)
    ]


def _inside(box: tuple[int, int], dim: Dim) -> tuple[int, int] | None:
    """The part of a range that lies in the buffer: the rest stands behind guards that never let it happen."""
    low, high = max(box[0], 0), box[1]
    if isinstance(dim, int):
        high = min(high, dim - 1)
    return (low, high) if low <= high else None


def _moved(stmt: Stmt, names: set[str], shape: tuple[Dim, ...], lows: Sequence[int]) -> Stmt:
    def at(index: Sequence[Term]) -> tuple[Term, ...]:
        return tuple(
            t.ramp(i.args[0] - low, i.args[1], i.payload) if i.op == "ramp" else i - low
            for i, low in zip(index, lows, strict=True)
        )

    def change(load: Term) -> Term:
        known = load.payload in names
        return t.make("load", at(load.args), load.payload, load.dtype, load.lanes) if known else load

    stmt = with_terms(stmt, lambda term: map_loads(term, change))
    if isinstance(stmt, Store) and stmt.buffer in names:
        return Store(stmt.buffer, at(stmt.index), stmt.value)
    if isinstance(stmt, (Alloc, Alias)) and stmt.buffer.name in names:
        stmt = replace(stmt, buffer=replace(stmt.buffer, shape=shape))
    return with_children(stmt, [_moved(part, names, shape, lows) for part in children(stmt)])
