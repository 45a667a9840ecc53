"""Cells that may hold what was computed from a hole: nobody may see that value, and no store of a hole says so.

A cell without a value is free (a hole was stored there, or nothing) or unknown (something was computed from such a
cell). Both are followed through a statement as predicates of the cell, each too wide rather than too narrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from eqsat.ir.statements.stmt import Assume, BufferDecl, For, If, Seq, Stmt, Store
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute
from eqsat.passes.asked import CELLS
from eqsat.passes.cells import CellAccess, certain_writes, frozen, guarded_parts, has_loads, written
from eqsat.passes.fresh import renamed

Kind = Literal["free", "unknown"]
_KINDS: tuple[Kind, Kind] = ("free", "unknown")
Opened = tuple[Kind, CellAccess]
Regions = Mapping[tuple[str, Kind], Term]


def unknown_cells(stmt: Stmt, params: Mapping[str, BufferDecl], local: Sequence[BufferDecl]) -> dict[str, Term]:
    """For each buffer, over `cell_axes` of it, the cells that may hold something computed from a hole after a statement
    without aliases and vectors; buffers without such cells are left out. All cells of local buffers are free before.

    >>> from eqsat.ir.statements.primfunc import PrimFunc
    >>> f = PrimFunc.parse('''func f(A: int8[4])
    ...   for i in 4:
    ...     A[i] = where(i < 3, int8(1), hole(1, 'int8'))
    ...   A[0] = A[3]''')
    >>> {name: str(region) for name, region in unknown_cells(f.body, f.buffer_map, []).items()}
    {'A': '0 == A_0'}
    """
    found = _Flow({**params, **{d.name: d for d in local}})
    before: Regions = {(d.name, "free"): t.TRUE for d in local}
    after, _ = found.run(stmt, before, t.TRUE)
    return {name: region for (name, kind), region in after.items() if kind == "unknown" and region is not t.FALSE}


def cell_axes(decl: BufferDecl) -> tuple[Term, ...]:
    """The variables that a region of a buffer is about."""
    return tuple(t.var(f"{decl.name}_{n}", axis.args[0]) for n, axis in enumerate(output_axes(decl.shape)))


def may_mean(access: CellAccess, cells: Sequence[Term]) -> Term:
    """Where an access may mean a cell: everywhere, if that is not known."""
    region = written(access, cells, exactly=True)
    return t.TRUE if region is None else region


class _Flow:
    def __init__(self, decls: Mapping[str, BufferDecl]) -> None:
        self.decls = dict(decls)
        self.wide = False  # whether a store counts as a whole, not only in the iterations that read a hole

    def run(self, stmt: Stmt, before: Regions, guard: Term) -> tuple[Regions, list[Opened]]:
        """The regions after a statement, and the stores in it that may leave a cell without a value."""
        if isinstance(stmt, Assume):
            return before, []
        if isinstance(stmt, Seq):
            opened: list[Opened] = []
            for part in stmt.parts:
                before, more = self.run(part, before, guard)
                opened += more
            return before, opened
        if isinstance(stmt, Store):
            opened = self.store(stmt, before, guard)
        elif isinstance(stmt, For):
            opened = self.loop(stmt, before, guard)
        elif isinstance(stmt, If):
            opened = self.branch(stmt, before, guard)
        else:
            name = stmt.buffer.name
            self.decls[name] = stmt.buffer
            after, opened = self.run(stmt.body, {**before, (name, "free"): t.TRUE}, guard)
            own = {key: region for key, region in after.items() if key[0] != name}
            return own, [x for x in opened if x[1].buffer != name]
        return self.after(stmt, before, opened), opened

    def loop(self, stmt: For, before: Regions, guard: Term) -> list[Opened]:
        """What iterations leave, where each may read what others have left."""

        def once(opened: Sequence[Opened]) -> list[Opened]:
            other: list[Opened] = [(kind, _moved(access, stmt.axis)) for kind, access in opened]
            _, inside = self.run(stmt.body, self.also(before, other), guard)
            return [(kind, replace(access, axes=(stmt.axis, *access.axes))) for kind, access in inside]

        first = once([])
        found = once(first) if first else first
        if [_key(x) for x in first] == [_key(x) for x in found]:
            return found
        outside, self.wide = self.wide, True
        found, count = once(found), -1
        while len(found) != count:  # more stores each time
            found, count = once(found), len(found)
        self.wide = outside
        return found

    def branch(self, stmt: If, before: Regions, guard: Term) -> list[Opened]:
        opened: list[Opened] = []
        test = t.TRUE if has_loads(stmt.condition) else stmt.condition
        arms = ((test, stmt.then), (test if test is t.TRUE else t.logical_not(test), stmt.orelse))
        for here, arm in arms:
            if arm is not None:
                for kind, access in self.run(arm, before, t.logical_and(guard, here))[1]:
                    opened.append((kind, replace(access, condition=t.logical_and(here, access.condition))))
        return opened

    def store(self, stmt: Store, before: Regions, guard: Term) -> list[Opened]:
        index = tuple(map(frozen, stmt.index))
        return [
            (kind, CellAccess(stmt.buffer, index, where, (), "write"))
            for where, kind in self.kinds(stmt.value, t.TRUE, before, guard)
        ]

    def kinds(self, value: Term, where: Term, before: Regions, guard: Term) -> list[tuple[Term, Kind]]:
        """Where a value may be none, and of which kind."""
        if value.op == "hole":
            return [(where, "free")]
        if value.op == "where" and self.unknown(value.args[0], t.logical_and(guard, where), before) is t.FALSE:
            test = t.TRUE if has_loads(value.args[0]) else value.args[0]
            other = test if test is t.TRUE else t.logical_not(test)
            arms = ((test, value.args[1]), (other, value.args[2]))
            return [x for here, arm in arms for x in self.kinds(arm, t.logical_and(where, here), before, guard)]
        found = self.unknown(value, t.logical_and(guard, where), before)
        return [] if found is t.FALSE else [(t.logical_and(where, found), "unknown")]

    def unknown(self, term: Term, guard: Term, before: Regions) -> Term:
        """Where a term may read a hole."""
        if nodes_of("hole", term):
            return t.TRUE
        found: list[Term] = []
        for load, reach in guarded_parts(term):
            cells = cell_axes(self.decls[str(load.payload)])
            here = dict(zip(cells, map(frozen, load.args), strict=True))
            region = t.logical_or(*(before.get((str(load.payload), kind), t.FALSE) for kind in _KINDS))
            reads = substitute(region, here)
            if reads is not t.FALSE and not CELLS.prove(t.logical_not(reads), t.logical_and(guard, frozen(reach))):
                found.append(t.TRUE if self.wide or has_loads(reads) else reads)
        return t.logical_or(*found)

    def also(self, before: Regions, opened: Sequence[Opened]) -> Regions:
        """The regions with the cells that these stores may leave without a value."""
        after = dict(before)
        for kind, access in opened:
            key = (access.buffer, kind)
            region = may_mean(access, cell_axes(self.decls[access.buffer]))
            after[key] = t.logical_or(after.get(key, t.FALSE), region)
        return after

    def after(self, stmt: Stmt, before: Regions, opened: Sequence[Opened]) -> Regions:
        """The regions after a statement: what it surely writes is what its stores leave."""
        left = dict(before)
        for access in certain_writes(stmt):
            if access.buffer not in self.decls:
                continue
            cells = cell_axes(self.decls[access.buffer])
            region = written(access, cells) if len(access.index) == len(cells) else None
            if region is not None:
                for kind in _KINDS:
                    old = left.get((access.buffer, kind), t.FALSE)
                    left[access.buffer, kind] = t.logical_and(old, t.logical_not(region))
        return self.also(left, opened)


def _key(opened: Opened) -> tuple[Kind, str, tuple[int, ...]]:
    kind, access = opened
    return kind, access.buffer, tuple(x.serial for x in (*access.index, access.condition))


def _moved(access: CellAccess, axis: Term) -> CellAccess:
    """The access of another iteration of a loop around it."""
    other = renamed(axis)
    table = {axis: other}
    index = tuple(substitute(i, table) for i in access.index)
    axes = tuple(other if a is axis else a for a in access.axes)
    return replace(access, index=index, condition=substitute(access.condition, table), axes=axes)
