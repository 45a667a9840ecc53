"""Single names: every local buffer and every loop of a function gets a name that no other one has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children, with_terms
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, For, Stmt, Store, Transform, children, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import fresh_name, leaf_name
from eqsat.ir.terms.walk import renumber_loads, substitute


def renamed(decl: BufferDecl, name: str) -> BufferDecl:
    """The declaration under another name; pad values that load the buffer itself keep doing so."""
    steps = tuple(
        Transform(
            s.index_map, s.logical_shape, s.predicate,
            None if s.pad_value is None else renumber_loads(s.pad_value, {decl.name: name}),
        )
        for s in decl.transforms
    )  # fmt: skip
    return replace(decl, name=name, transforms=steps)


def to_ssa(func: PrimFunc) -> PrimFunc:
    """The function with every local buffer and every loop named once, also where one stands in several places.

    A copied body, as unrolling makes it, declares the same buffers again; allocations never share memory, so each gets
    a name of its own.

    >>> f = PrimFunc.parse('''func f(x: int8[2])
    ...   alloc a: int8[1]:
    ...     a[0] = int8(1)
    ...     x[0] = a[0]
    ...   alloc a: int8[1]
    ...   a[0] = int8(2)
    ...   x[1] = a[0]''')
    >>> print(to_ssa(f))
    func f(x: int8[2])
      alloc a: int8[1]:
        a[0] = int8(1)
        x[0] = a[0]
      alloc a_1: int8[1]
      a_1[0] = int8(2)
      x[1] = a_1[0]
    """
    return replace(func, body=_Names(set(func.params)).stmt(func.body, {}, {}))


def with_own_names(func: PrimFunc) -> PrimFunc:
    """The function with every local buffer and alias named once, loops as they are; itself where that is so already.

    What is known of a buffer is kept by its name, which has to mean one memory.

    >>> f = PrimFunc.parse('''func f(x: int8[2], y: int8[2])
    ...   alias a: int8[2] = x:
    ...     a[0] = int8(1)
    ...   alias a: int8[2] = y
    ...   a[0] = int8(2)''')
    >>> print(with_own_names(f))
    func f(x: int8[2], y: int8[2])
      alias a: int8[2] = x:
        a[0] = int8(1)
      alias a_1: int8[2] = y
      a_1[0] = int8(2)
    >>> with_own_names(with_own_names(f)) == with_own_names(f)
    True
    """
    names = [s.buffer.name for s in statements(func.body) if isinstance(s, (Alloc, Alias))]
    if len(set(names)) == len(names):
        return func
    return replace(func, body=_Names({*func.params}, loops=False).stmt(func.body, {}, {}))


class _Names:
    def __init__(self, buffers: set[str], loops: bool = True) -> None:
        self.buffers = buffers
        self.loops = loops
        self.axes: set[str] = set()

    def axis(self, axis: Term) -> Term:
        """The axis, or one of the same kind and extent that no loop has yet."""
        new, number = axis, 0
        if not self.loops:
            return axis
        while leaf_name(new) in self.axes:
            number += 1
            if axis.op == "var":
                new = t.var(f"{axis.payload}_{number}", axis.args[0])
            else:
                role, n = axis.payload
                new = (t.ax if role == "ax" else t.red)(n + number, axis.args[0])
        self.axes.add(leaf_name(new))
        return new

    def stmt(self, stmt: Stmt, names: Mapping[str, str], axes: Mapping[Term, Term]) -> Stmt:
        if isinstance(stmt, For):
            axis = self.axis(stmt.axis)
            return replace(stmt, axis=axis, body=self.stmt(stmt.body, names, {**axes, stmt.axis: axis}))
        if isinstance(stmt, (Alloc, Alias)):
            name = fresh_name(stmt.buffer.name, self.buffers)
            self.buffers.add(name)
            decl = stmt.buffer if name == stmt.buffer.name else renamed(stmt.buffer, name)
            body = self.stmt(stmt.body, {**names, stmt.buffer.name: name}, axes)
            if isinstance(stmt, Alloc):
                return Alloc(decl, body)
            return Alias(decl, names.get(stmt.data, stmt.data), body, stmt.offset)
        moved = with_terms(stmt, lambda term: substitute(renumber_loads(term, names), axes))
        if isinstance(moved, Store):
            return replace(moved, buffer=names.get(moved.buffer, moved.buffer))
        return with_children(moved, [self.stmt(part, names, axes) for part in children(moved)])
