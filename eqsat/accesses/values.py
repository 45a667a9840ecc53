"""Whether two functions leave the same values, by running both on names instead of numbers.

Each cell of a parameter begins as a name; a store makes a term of the values that it reads. Where the terms that the
parameters hold at the end are the same, so are the bits, whatever the arguments are: orders that only change what
nobody sees are told from those that matter. It is for few iterations, whose conditions and indices read no data.
"""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.ir.dtypes import INDEX
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import (
    Alias,
    Alloc,
    BufferDecl,
    For,
    If,
    Seq,
    Stmt,
    Store,
    children,
    statements,
    stmt_terms,
)
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import map_loads, nodes_of, postorder, substitute

MOST_STORES = 1024
_PARTIAL = ("floordiv", "mod", "truncdiv", "truncmod", "shl", "shr", "pow")


def same_values(before: PrimFunc, after: PrimFunc) -> bool:
    """Whether the parameters hold the same at the end, on all arguments; False where that is not shown.

    >>> f, g = (PrimFunc.parse(f'''func f(x: int8[2])
    ...   alloc t: int8[1]
    ...   for i in 2:
    ...     t[0] = x[{i}]
    ...     x[i] = x[i] + int8(1)''') for i in ("i", "1 - i"))
    >>> same_values(f, g)
    True
    """
    names: dict[Term, Term] = {}
    first, second = (_Run(func, names) for func in (before, after))
    try:
        ends = [run.ended() for run in (first, second)]
    except _Unknown:
        return False
    return before.params == after.params and ends[0] == ends[1] and second.assumed.keys() <= first.assumed.keys()


class _Unknown(Exception):
    """It is not told what happens."""


class _Run:
    """One function, run on names: `cells` are the values of memory by buffer and position in it."""

    def __init__(self, func: PrimFunc, names: dict[Term, Term]) -> None:
        self.func = func
        self.names = names
        self.decls: dict[str, BufferDecl] = dict(func.buffer_map)
        self.roots: dict[str, tuple[str, int]] = {name: (name, 0) for name in func.params}
        self.cells: dict[str, dict[int, Term]] = {name: {} for name in func.params}
        self.assumed: dict[int, Term] = {}
        self.axes: dict[Term, Term] = {}

    def ended(self) -> dict[tuple[str, int], int]:
        """What the parameters hold where it was written, but for cells that hold what they began with."""
        stores = _count(self.func.body)
        if (
            stores is None
            or stores > MOST_STORES
            or any(_odd(x) for s in statements(self.func.body) for x in stmt_terms(s))
        ):
            raise _Unknown
        self.run(self.func.body)
        held = {(n, at): v for n in self.func.params for at, v in self.cells[n].items() if v is not self.start(n, at)}
        return {cell: value.serial for cell, value in held.items()}

    def run(self, stmt: Stmt) -> None:
        if isinstance(stmt, Seq):
            for part in stmt.parts:
                self.run(part)
        elif isinstance(stmt, For):
            for n in range(t.int_value(stmt.extent_term) or 0):
                self.axes[stmt.axis] = t.index_const(n)
                self.run(stmt.body)
            self.axes.pop(stmt.axis, None)
        elif isinstance(stmt, If):
            condition = self.value(stmt.condition)
            if condition is not t.TRUE and condition is not t.FALSE:
                raise _Unknown
            branch = stmt.then if condition is t.TRUE else stmt.orelse
            if branch is not None:
                self.run(branch)
        elif isinstance(stmt, Store):
            root, at = self.place(stmt.buffer, [self.value(i) for i in stmt.index])
            self.cells[root][at] = self.named(self.value(stmt.value))
        elif isinstance(stmt, (Alloc, Alias)):
            self.declare(stmt)
        else:
            condition = self.value(stmt.condition)
            self.assumed[condition.serial] = condition

    def declare(self, stmt: Alloc | Alias) -> None:
        """Run what sees a local buffer, new each time, or an alias of elements of the same type."""
        name = stmt.buffer.name
        if name in self.roots:
            raise _Unknown
        self.decls[name] = stmt.buffer
        if isinstance(stmt, Alias):
            root, start = self.roots[stmt.data]
            if stmt.buffer.dtype != self.decls[stmt.data].dtype:
                raise _Unknown
            self.roots[name] = root, start + stmt.offset
        else:
            self.roots[name], self.cells[name] = (name, 0), {}
        self.run(stmt.body)
        del self.roots[name]

    def place(self, name: str, index: Sequence[Term]) -> tuple[str, int]:
        """Where an index lies; unknown outside of the buffer, and where the index or the memory is not plain."""
        decl, flat = self.decls[name], 0
        if not decl.is_dense or decl.lanes > 1:
            raise _Unknown
        for i, extent in zip(index, decl.shape, strict=True):
            n, size = t.int_value(i), t.int_value(t.as_index(extent))
            if n is None or size is None or not 0 <= n < size:
                raise _Unknown
            flat = flat * size + n
        root, start = self.roots[name]
        return root, start + flat

    def start(self, name: str, at: int) -> Term:
        """The name of what a cell of a parameter holds at the beginning."""
        return t.load(name, [t.index_const(at)], self.decls[name].dtype)

    def value(self, term: Term) -> Term:
        """A term over the names of values; a cell that holds nothing has no name."""

        def read(load: Term) -> Term:
            root, at = self.place(str(load.payload), load.args)
            if at in self.cells[root]:
                return self.cells[root][at]
            if root not in self.func.buffer_map:
                raise _Unknown
            return self.start(root, at)

        return map_loads(substitute(term, self.axes), read)

    def named(self, value: Term) -> Term:
        """The value, or a name for it where it is computed: equal ones have one name."""
        if not value.args or (value.op == "load" and not any(a.args for a in value.args)):
            return value
        number = t.index_const(len(self.names))
        return self.names.setdefault(value, t.load("", [number], value.dtype))


def _count(stmt: Stmt) -> int | None:
    """How many stores run at most; None where that is no number, or loops run at once."""
    if isinstance(stmt, For):
        inner, extent = _count(stmt.body), t.int_value(stmt.extent_term)
        at_once = stmt.kind in ("parallel", "vectorized")
        return None if inner is None or extent is None or at_once else inner * extent
    parts = [_count(part) for part in children(stmt)]
    known = [n for n in parts if n is not None]
    return None if len(known) < len(parts) else max(1, sum(known))


def _odd(term: Term) -> bool:
    """Whether a term is a vector, holds a hole, or may be undefined for some data."""
    partial = [n for n in postorder(term) if n.op in _PARTIAL]
    safe = all(n.dtype == INDEX and (t.int_value(n.args[1]) or 0) > 0 for n in partial)
    return not safe or bool(nodes_of("hole", term)) or any(n.lanes > 1 for n in postorder(term))
