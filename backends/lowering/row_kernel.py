"""Several steps, one kernel: a loop over rows around the loops that each step has for one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from math import prod

from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.kernel import KernelBuilder, kernel_function
from eqsat.backends.lowering.order import merge_axes
from eqsat.backends.lowering.row_behind import Behind, chunk_of, find_behind
from eqsat.backends.lowering.rows import ROW, Group, loads_of
from eqsat.backends.lowering.split import Axes, Roots, extent_of
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import NDArray
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alloc, BufferDecl, For, Stmt, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute

CHUNKS = 7000
"""The numbers of the axes over chunks of rows, and over the rows of one, which no other axis has."""


def row_kernel(
    name: str,
    group: Group,
    shapes: Mapping[str, tuple[int, ...]],
    dtypes: Mapping[str, str],
    simplifier: IndexSimplifier,
    machine: Machine | None,
) -> tuple[PrimFunc, None, dict[str, NDArray]]:
    """The function of a group, no moves, and its index tables."""
    builders = {v.name: KernelBuilder(v, shapes, simplifier, machine, group.rows) for v in group.values}
    rows = _Rows(group, builders, simplifier)
    behind = find_behind(group, simplifier)
    size = chunk_of(extent_of(rows.outer[-1])) if behind is not None and rows.outer else 0
    body = rows.chunks(behind, size) if behind is not None and size else rows.loops()
    func, tables = kernel_function(name, body, group.values, shapes, dtypes, simplifier)
    return func, None, tables


class _Rows:
    """The statements of rows of a group. `outer` are the loops over rows, few where they are one walk."""

    def __init__(self, group: Group, builders: Mapping[str, KernelBuilder], simplifier: IndexSimplifier) -> None:
        self.group, self.builders, self.simplifier = group, builders, simplifier
        outer: Axes = tuple(t.ax(n, d) for n, d in enumerate(group.values[0].shape[: group.rows.axes]))
        roots: Roots = tuple(root for builder in builders.values() for root in builder.roots())
        self.outer, roots = merge_axes(outer, roots, len(roots), simplifier)
        for builder in builders.values():
            roots = builder.take(roots)

    def loops(self) -> Stmt:
        """One row after the other, all steps of each."""
        return self.around(self.outer, self.local(self.row({})))

    def chunks(self, behind: Behind, size: int) -> Stmt:
        """Chunks of so many rows; in each, the last step is one row behind, and its last row by itself."""
        *around, outer = self.outer
        chunk, row = t.ax(CHUNKS, extent_of(outer) // size), t.ax(CHUNKS + 1, size - 1)
        first = size * chunk
        last = self.builder(behind.value.name, {outer: first + (size - 1)})
        parts = [
            self.row({outer: first}, without=behind),
            For(row, self.row({outer: first + row + 1}, {outer: first + row}, behind)),
            last.statements(),
        ]
        return self.around([*around, chunk], self.local(seq(parts)))

    def around(self, axes: Sequence[Term], body: Stmt) -> Stmt:
        """Loops around a body."""
        for axis in reversed(axes):
            body = For(axis, body)
        return body

    def row(
        self, at: Mapping[Term, Term], before: Mapping[Term, Term] | None = None, without: Behind | None = None
    ) -> Stmt:
        """One row; where one before is given, with a step that is behind at that one, else without that step."""
        k = self.group.rows.axes
        builders = {name: self.builder(name, at) for name in self.builders}
        for reader, stored in self.group.beside.items():
            (node,) = (n for n in loads_of(builders[reader].value) if n.payload == stored)
            inner = builders.pop(stored)
            axes = zip(inner.axes[k:], node.args[k:], strict=True)
            builders[reader].beside = (self.builder(stored, {**at, **dict(axes)}),)
        if without is not None:
            del builders[without.value.name]
            if before is not None:
                reader = builders[without.reader.name]
                reader.beside = (self.builder(without.value.name, {**before, **without.axes}), *reader.beside)
        return seq([builder.statements() for builder in builders.values()])

    def builder(self, name: str, places: Mapping[Term, Term]) -> KernelBuilder:
        """The builder of a value with other terms for some axes."""
        builder = copy(self.builders[name])
        if places:
            builder.take(self.simplifier.simplify_all(substitute(x, places) for x in builder.roots()))
        return builder

    def local(self, body: Stmt) -> Stmt:
        """The rows that are local, around what uses them."""
        for value in reversed(self.group.values):
            if value.name in self.group.rows.local:
                cells = prod(value.shape[self.group.rows.axes :])
                body = Alloc(BufferDecl(value.name, (cells,), value.dtype, ROW), body)
        return body
