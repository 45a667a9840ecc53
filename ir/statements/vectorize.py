"""Buffers of vectors: where every access of a buffer is a whole aligned vector, the buffer is declared as vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from eqsat.ir.errors import EqsatError
from eqsat.ir.layouts.buffer import Buffer, join_lanes
from eqsat.ir.layouts.buffer_layout import vector_alias, vector_index
from eqsat.ir.statements.flatten import is_flat
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children, with_terms
from eqsat.ir.statements.ssa import to_ssa
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, Stmt, Store, children, own_accesses, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import fresh_name
from eqsat.ir.terms.walk import map_loads


@dataclass(frozen=True)
class _Vector:
    """A buffer that becomes vectors: its name then, and the two eq.Buffers that find the index of an access."""

    name: str
    scalar: Buffer
    vector: Buffer
    lanes: int

    def index(self, index: Sequence[Term]) -> tuple[Term, ...]:
        return vector_index(self.scalar, tuple(index), self.vector)


def vectorize_buffers(func: PrimFunc) -> PrimFunc:
    """The function with buffers of vectors, for machines that have no casts between pointers.

    A parameter keeps its declaration and gets an alias of vectors; a local buffer is declared anew. All or nothing:
    one access that is not exactly one aligned vector, or an alias of the memory, leaves the buffer as it is.

    >>> f = PrimFunc.parse('''func f(B: float32[64])
    ...   for i in 16:
    ...     B[ramp(4*i, 1, 4)] = B[ramp(4*i, 1, 4)] + float32(1.0)''')
    >>> print(vectorize_buffers(f))
    func f(B: float32[64])
      alias B_x4: float32x4[16] = B
      for i in 16:
        B_x4[i] = B_x4[i] + float32(1.0)
    """
    once = to_ssa(func)
    aliased = {s.data for s in statements(once.body) if isinstance(s, Alias)}
    local = {s.buffer.name: s.buffer for s in statements(once.body) if isinstance(s, Alloc)}
    taken = {*func.params, *(s.buffer.name for s in statements(once.body) if isinstance(s, (Alloc, Alias)))}
    found: dict[str, _Vector] = {}
    for name, decl in {**func.buffer_map, **local}.items():
        if name not in aliased and is_flat(decl) and not decl.axis_separators and decl.lanes == 1:
            made = _vector(once.body, decl, name in local, taken)
            if made is not None:
                found[name] = made
                taken.add(made.name)
    if not found:
        return func
    body = _rewritten(once.body, found)
    for name in reversed(func.params):
        if name in found:
            body = Alias(_decl(func.buffer_map[name], found[name]), name, body)
    return replace(func, body=body)


def _vector(body: Stmt, decl: BufferDecl, local: bool, taken: set[str]) -> _Vector | None:
    """How a buffer becomes vectors; None where an access is no whole vector."""
    accesses = [index for stmt in statements(body) for name, index in own_accesses(stmt) if name == decl.name]
    lanes = {index[-1].lanes for index in accesses}
    if len(lanes) != 1 or lanes == {1}:
        return None
    (width,) = lanes
    try:
        scalar = replace(decl, transforms=()).as_buffer()
        vector = vector_alias(scalar, width)
        name = decl.name if local else fresh_name(vector.name, taken)
        made = _Vector(name, scalar, vector, width)
        for index in accesses:
            made.index(index)
    except EqsatError:  # not aligned, or not neighbours: the error names the access, which stays as it is
        return None
    return made


def _decl(decl: BufferDecl, made: _Vector) -> BufferDecl:
    return BufferDecl(made.name, made.vector.shape, join_lanes(decl.dtype, made.lanes), decl.note)


def _rewritten(stmt: Stmt, found: Mapping[str, _Vector]) -> Stmt:
    def change(load: Term) -> Term:
        made = found.get(load.payload)
        if made is None:
            return load
        return t.make("load", made.index(load.args), made.name, load.dtype, made.lanes)

    stmt = with_terms(stmt, lambda term: map_loads(term, change))
    if isinstance(stmt, Store) and stmt.buffer in found:
        made = found[stmt.buffer]
        return Store(made.name, made.index(stmt.index), stmt.value)
    if isinstance(stmt, Alloc) and stmt.buffer.name in found:
        stmt = replace(stmt, buffer=_decl(stmt.buffer, found[stmt.buffer.name]))
    return with_children(stmt, [_rewritten(part, found) for part in children(stmt)])
