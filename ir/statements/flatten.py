"""Flat buffers: one index for each physical axis, with strides and offsets in the index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from eqsat.ir.layouts.buffer import Buffer
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children, with_terms
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, Stmt, Store, children, own_accesses, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import fresh_name
from eqsat.ir.terms.walk import map_loads


def is_flat(decl: BufferDecl) -> bool:
    """Whether every axis is a physical axis of its own, without strides or offset."""
    return decl.is_dense and len(decl.shape) == len(decl.axis_separators) + 1


def flat_decl(decl: BufferDecl, name: str | None = None) -> BufferDecl:
    """The same memory with one axis for each physical axis. Padding, which is told by logical axes, is not in it.

    >>> print(flat_decl(BufferDecl("x", (3, 5, 7, 8), "int8", axis_separators=(2,))))
    x: int8[15, 56]
    """
    shape = decl.memory_shape
    return BufferDecl(name or decl.name, shape, decl.dtype, decl.note, axis_separators=tuple(range(1, len(shape))))


class _Flat:
    """How the accesses of one buffer are written: the name that they get, and their addresses."""

    def __init__(self, decl: BufferDecl, name: str) -> None:
        self.name = name
        self.buffer: Buffer = replace(decl, transforms=()).as_buffer()

    def index(self, index: tuple[Term, ...]) -> tuple[Term, ...]:
        return tuple(t.as_index(i) for i in self.buffer.address(index))


def flatten_buffers(func: PrimFunc) -> PrimFunc:
    """The function with flat accesses only; its interface stays as it is declared.

    A parameter that is accessed keeps its declaration and gets a flat alias inside; local buffers and aliases are
    declared flat, those that share memory alike. Separated physical axes stay apart. A flat function is returned as it
    is.

    >>> f = PrimFunc.parse('''func f(X: float32[2, 3])
    ...   for i in 2:
    ...     for j in 3:
    ...       X[i, j] = X[i, j] + float32(1.0)''')
    >>> print(flatten_buffers(f))
    func f(X: float32[2, 3])
      alias X_flat: float32[6] = X
      for i in 2:
        for j in 3:
          X_flat[3*i + j] = X_flat[3*i + j] + float32(1.0)
    """
    used = {name for stmt in statements(func.body) for name, _ in own_accesses(stmt)}
    taken = {*func.params, *(s.buffer.name for s in statements(func.body) if isinstance(s, (Alloc, Alias)))}
    flat: dict[str, _Flat] = {}
    made: list[tuple[BufferDecl, str]] = []
    for name in func.params:
        decl = func.buffer_map[name]
        if not is_flat(decl) and name in used:
            other = fresh_name(f"{name}_flat", taken)
            taken.add(other)
            flat[name] = _Flat(decl, other)
            made.append((flat_decl(decl, other), name))
    body = _flattened(func.body, flat)
    for decl, name in reversed(made):
        body = Alias(decl, name, body)
    return func if body == func.body else replace(func, body=body)


def _flattened(stmt: Stmt, flat: Mapping[str, _Flat]) -> Stmt:
    if isinstance(stmt, (Alloc, Alias)):
        decl, inner = stmt.buffer, {n: f for n, f in flat.items() if n != stmt.buffer.name}
        if not is_flat(decl):
            inner[decl.name] = _Flat(decl, decl.name)
            decl = flat_decl(decl)
        return replace(stmt, buffer=decl, body=_flattened(stmt.body, inner))

    def change(load: Term) -> Term:
        way = flat.get(load.payload)
        return load if way is None else t.make("load", way.index(load.args), way.name, load.dtype, load.lanes)

    stmt = with_terms(stmt, lambda term: map_loads(term, change))
    if isinstance(stmt, Store) and stmt.buffer in flat:
        way = flat[stmt.buffer]
        return Store(way.name, way.index(stmt.index), stmt.value)
    return with_children(stmt, [_flattened(part, flat) for part in children(stmt)])
