"""Several steps, one kernel: a loop over rows around the loops that each step has for one row."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from eqsat.backends.lowering.access import Claim
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.kernel import KernelBuilder, kernel_function
from eqsat.backends.lowering.order import merge_axes
from eqsat.backends.lowering.rows import ROW, Group, loads_of
from eqsat.backends.lowering.split import Roots
from eqsat.backends.lowering.values import Value
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import NDArray
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alloc, BufferDecl, For, Stmt, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.walk import substitute


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
    for reader, stored in group.beside.items():
        builders[reader].beside = _along(builders.pop(stored), builders[reader].value, group, simplifier)
    outer = tuple(t.ax(n, d) for n, d in enumerate(group.values[0].shape[: group.rows.axes]))
    roots: Roots = ()
    ends = [0]
    for builder in builders.values():
        roots += builder.roots()
        ends.append(len(roots))
    outer, roots = merge_axes(outer, roots, len(roots), simplifier)
    parts = [b.statements(roots[i:j]) for b, i, j in zip(builders.values(), ends, ends[1:], strict=False)]
    body: Stmt = seq(parts)
    for value in reversed(group.values):
        if value.name in group.rows.local:
            cells = prod(value.shape[group.rows.axes :])
            body = Alloc(BufferDecl(value.name, (cells,), value.dtype, ROW), body)
    for axis in reversed(outer):
        body = For(axis, body)
    func, tables = kernel_function(name, body, group.values, shapes, dtypes, simplifier)
    return func, None, tables


def _along(stored: KernelBuilder, reader: Value, group: Group, simplifier: IndexSimplifier) -> KernelBuilder:
    """The builder of an element-wise value over the axes with which a reduction reads it."""
    (node,) = (n for n in loads_of(reader) if n.payload == stored.value.name)
    k = group.rows.axes
    axes = dict(zip(stored.axes[k:], node.args[k:], strict=True))
    stored.flat, stored.store = simplifier.simplify_all(substitute(x, axes) for x in (stored.flat, stored.store))
    claims: list[Claim] = []
    for claim in stored.claims:
        guard, form = simplifier.simplify_all(substitute(x, axes) for x in (claim.guard, claim.form))
        claims.append(Claim(guard, form, claim.access))
    stored.claims = claims
    return stored
