"""A function made ready to print: names once, flat scalar buffers, checked accesses, loops and sizes of known range.

Sizes that are symbols are arguments of the kernel. A limit on them, as high as the index arithmetic allows in 64 bits,
is chosen here and checked when the kernel is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from eqsat.backends.c.expr import index_type
from eqsat.backends.functions.checked import Checked, with_checks
from eqsat.backends.interface import ALIGNMENT
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.ir.dtypes import INDEX
from eqsat.ir.errors import BackendError
from eqsat.ir.ranges.ceilings import Ceilings
from eqsat.ir.ranges.intervals import End
from eqsat.ir.statements.flatten import flatten_buffers
from eqsat.ir.statements.lanes import to_scalars
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children, with_terms
from eqsat.ir.statements.ssa import to_ssa
from eqsat.ir.statements.stmt import (
    Alias,
    Alloc,
    Assume,
    BufferDecl,
    For,
    If,
    Stmt,
    Store,
    children,
    seq,
    statements,
    stmt_terms,
)
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import symbol_names
from eqsat.ir.terms.walk import map_loads, nodes_of, substitute, transform

LIMITS = tuple(1 << bits for bits in (40, 31, 27, 24, 20, 18, 16, 15, 14, 13, 12, 11, 10, 9, 8))
"""The greatest values of a size that has no upper bound of its own, the first one that fits 64 bits is taken."""


@dataclass(frozen=True)
class Prepared:
    """A function to print. `func` is as the user wrote it, `checked` has the extra parameter of failed accesses.

    body: statements with bounded axes. extents: the number of iterations of each such axis. sizes: the bounded symbol
    of each symbol, under a name of its own. simplifier: the ranges of all of them.
    """

    func: PrimFunc
    checked: Checked
    body: Stmt
    extents: Mapping[Term, Term]
    sizes: Mapping[Term, Term]
    names: Mapping[Term, str]
    index: str
    simplifier: IndexSimplifier

    def dim(self, dim: Dim) -> Term:
        """A size over the bounded symbols."""
        return substitute(t.as_index(dim), self.sizes)

    def nbytes(self, decl: BufferDecl) -> Term:
        """The bytes of a buffer's memory, over the bounded symbols."""
        return t.product([t.index_const(decl.element_bytes), *map(self.dim, decl.memory_shape)])


def prepare(func: PrimFunc) -> Prepared:
    """The function ready for a target with flat memory.

    Memory of several physical axes is flat here: its rows lie one after the other. Raises BackendError where no limit
    on sizes makes the index arithmetic fit.
    """
    once = to_ssa(func)
    decls = {name: decl.in_one_axis for name, decl in once.buffer_map.items()}
    once = replace(once, buffer_map=decls, body=_in_one_axis(once.body))
    checked = with_checks(_with_int64(once))
    plain = to_scalars(flatten_buffers(checked.func))
    body = _without_holes(_that_runs(plain.body))
    problem: BackendError | None = None
    for limit in LIMITS:
        sizes = {s: _bounded(s, limit) for s in func.symbols}
        extents: dict[Term, Term] = {}
        made = _Axes(sizes, extents).stmt(body, {})
        memory = list(_memory(func, made, sizes))
        simplifier = IndexSimplifier(ranges=_quotients(made, extents, memory))
        terms = [x for s in statements(made) for x in stmt_terms(s)]
        try:
            index = index_type([*terms, *extents, *extents.values()], simplifier)
            index_type(memory, simplifier)  # which fits 64 bits, too
        except BackendError as error:
            problem = error
            continue
        names = {sizes[s]: f"size_{name}" for s, name in symbol_names(func.symbols).items()}
        return Prepared(func, checked, made, extents, sizes, names, index, simplifier)
    assert problem is not None
    raise problem


def _quotients(body: Stmt, extents: Mapping[Term, Term], sizes: Sequence[Term]) -> dict[Term, tuple[int, int]]:
    """The ranges of quotients by sizes: in statements, by extents of loops and branches around them, and in sizes."""
    found: dict[Term, tuple[int, End]] = {}

    def look(terms: Iterable[Term], ceilings: Ceilings) -> None:
        for node in nodes_of("floordiv", *terms):
            low = ceilings.bounds.span(node)[0]
            if node.dtype == INDEX and t.int_value(node.args[1]) is None and isinstance(low, int):
                before = found[node][1] if node in found else low + 1
                found[node] = (low, max(ceilings.most(node) + 1, before))

    def stmt(part: Stmt, ceilings: Ceilings) -> None:
        look(stmt_terms(part), ceilings)
        if isinstance(part, If):
            stmt(part.then, ceilings.under(part.condition))
            if part.orelse is not None:
                stmt(part.orelse, ceilings.under(t.logical_not(part.condition)))
            return
        for inner in children(part):
            stmt(inner, ceilings)

    stmt(body, Ceilings(extents))
    look([*extents.values(), *sizes], Ceilings({}))
    return {node: (low, high) for node, (low, high) in found.items() if isinstance(high, int)}


def _that_runs(stmt: Stmt) -> Stmt:
    """A statement without assumptions, loops of nothing, and the loops of no iteration: what they compute is of no
    extent, so it may have no value."""
    if isinstance(stmt, Assume) or (isinstance(stmt, For) and t.int_value(stmt.axis.args[0]) == 0):
        return seq([])
    made = with_children(stmt, [_that_runs(part) for part in children(stmt)])
    return seq([]) if isinstance(made, For) and made.body == seq([]) else made


def _in_one_axis(stmt: Stmt) -> Stmt:
    """A statement whose local buffers and aliases have one physical axis."""
    if isinstance(stmt, (Alloc, Alias)):
        stmt = replace(stmt, buffer=stmt.buffer.in_one_axis)
    return with_children(stmt, [_in_one_axis(part) for part in children(stmt)])


def _with_int64(func: PrimFunc) -> PrimFunc:
    """Indices in memory are 64-bit numbers like any other data, of which no range is known."""
    local = [s.buffer for s in statements(func.body) if isinstance(s, (Alloc, Alias))]
    names = {d.name for d in (*func.buffer_map.values(), *local) if d.dtype == INDEX}
    if not names:
        return func

    def change(load: Term) -> Term:
        read = t.make("load", load.args, load.payload, "int64", load.lanes)
        return t.cast_to(read, INDEX) if load.payload in names else load

    def stmt(old: Stmt) -> Stmt:
        new = with_terms(old, lambda term: map_loads(term, change))
        if isinstance(new, Store) and new.buffer in names:
            return replace(new, value=t.cast_to(new.value, "int64"))
        if isinstance(new, (Alloc, Alias)) and new.buffer.name in names:
            new = replace(new, buffer=replace(new.buffer, dtype="int64"))
        return with_children(new, [stmt(part) for part in children(new)])

    decls = {n: replace(d, dtype="int64") if n in names else d for n, d in func.buffer_map.items()}
    return replace(func, buffer_map=decls, body=stmt(func.body))


def _memory(func: PrimFunc, body: Stmt, sizes: Mapping[Term, Term]) -> Iterator[Term]:
    """The bytes of every buffer and of all local ones."""
    total = t.index_const(0)
    local = [s.buffer for s in statements(body) if isinstance(s, Alloc)]
    for decl in (*func.buffer_map.values(), *local):
        cells = t.product([t.index_const(decl.element_bytes), *map(t.as_index, decl.memory_shape)])
        yield substitute(cells, sizes)
    for decl in local:
        total = (
            total + substitute(t.product([t.as_index(d) for d in decl.shape]), sizes) * decl.element_bytes + ALIGNMENT
        )
    yield total


def _bounded(symbol: Term, limit: int) -> Term:
    """The symbol with an upper bound."""
    name, lower, upper, multiple, _ = t.symbol_facts(symbol)
    most = max(limit if upper is None else min(upper, limit), multiple, 0 if lower is None else lower)
    return t.sym(name, -limit if lower is None else lower, most, multiple)


def _without_holes(stmt: Stmt) -> Stmt:
    """Stores of holes are nothing; a hole inside of a value is zero, as in every kernel. Compilers warn of `i <= i`."""
    if isinstance(stmt, Store) and stmt.value.op == "hole":
        return seq([])

    def filled(node: Term) -> Term | None:
        if node.op in t.COMPARE and node.args[0] is node.args[1] and node.args[0].dtype == t.INDEX:
            return t.bool_const(node.op in ("le", "eq"))
        if node.op != "hole":
            return None
        return t.FALSE if node.dtype == t.BOOL else t.const(0, node.dtype)

    stmt = with_terms(stmt, lambda term: transform(term, filled))
    return with_children(stmt, [_without_holes(part) for part in children(stmt)])


class _Axes:
    """Loops over axes whose extent is a number, the most that there can be: so every index has a known range."""

    def __init__(self, sizes: Mapping[Term, Term], extents: dict[Term, Term]) -> None:
        self.sizes = sizes
        self.extents = extents
        self.ceilings = Ceilings({})

    def stmt(self, stmt: Stmt, axes: Mapping[Term, Term]) -> Stmt:
        if isinstance(stmt, For):
            extent = substitute(stmt.extent_term, self.sizes)
            most = self.ceilings.most(extent)
            if not isinstance(most, int):
                raise BackendError(f"extent {stmt.extent_term}", "has no known bound", "give its symbols one")
            axis = t.ax(len(self.extents), max(most, 1))
            self.extents[axis] = extent
            return replace(stmt, axis=axis, body=self.stmt(stmt.body, {**axes, stmt.axis: axis}))
        moved = with_terms(stmt, lambda term: substitute(term, {**self.sizes, **axes}))
        return with_children(moved, [self.stmt(part, axes) for part in children(moved)])
