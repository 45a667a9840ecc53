"""Loop order: neighbouring axes that are one walk through memory are merged, transposes and reductions are tiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.split import Axes, Roots, extent_of
from eqsat.ir.dtypes import INDEX, itemsize
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, int_value
from eqsat.ir.terms.walk import free_variables, nodes_of, postorder, substitute

LINE = 64
"""Bytes of a cache line: the width of a transposing tile along the source."""
ROWS = 32
"""Source lines that a transposing tile keeps in use at a time."""


@dataclass(frozen=True)
class Order:
    """Loop order of the spatial and the reduced axes, and the deferred inner digit of each tiled axis."""

    spatial: Axes
    reduced: Axes
    roots: Roots
    tiles: dict[Term, int]


def divisions(roots: Roots) -> int:
    """How many index divisions the roots hold."""
    return sum(n.dtype == INDEX and n.op in ("floordiv", "mod", "truncdiv", "truncmod") for n in postorder(*roots))


def merge_axes(axes: Axes, roots: Roots, watched: int, simplifier: IndexSimplifier) -> tuple[Axes, Roots]:
    """Neighbouring axes as one, where the first `watched` roots need no division for it."""
    merged: list[Term] = []
    for axis in axes:
        if extent_of(axis) == 1:
            roots = simplifier.simplify_all(substitute(r, {axis: t.index_const(0)}) for r in roots)
            continue
        if merged:
            outer = merged[-1]
            role, number = outer.payload
            inner_extent = extent_of(axis)
            both = t.make("axis", (t.index_const(extent_of(outer) * inner_extent),), (role, number + 100))
            digits = {
                outer: t.make("floordiv", (both, t.index_const(inner_extent))),
                axis: t.make("mod", (both, t.index_const(inner_extent))),
            }
            new = _within(divisions(roots[:watched]), tuple(substitute(r, digits) for r in roots[:watched]), simplifier)
            if new is not None:
                rest = simplifier.simplify_all(substitute(r, digits) for r in roots[watched:])
                merged[-1], roots = both, (*new, *rest)
                continue
        merged.append(axis)
    return tuple(merged), roots


def _within(most: int, roots: Roots, simplifier: IndexSimplifier) -> Roots | None:
    """The roots in simple form; None where they hold more divisions than so many."""
    result: list[Term] = []
    for root in roots:
        result.append(simplifier.simplify(root))
        if divisions(tuple(result)) > most:
            return None
    return tuple(result)


def stride(address: Term, axis: Term) -> int | None:
    """How far the address moves on the first step of an axis; None where it depends on data."""
    start = {a: t.index_const(0) for a in free_variables(address)}
    moved = substitute(address, {**start, axis: t.index_const(1)})
    first, second = int_value(substitute(address, start)), int_value(moved)
    return None if first is None or second is None else second - first


def data_loads(body: Term) -> list[Term]:
    """The loads of data, not of index tables."""
    return [n for n in nodes_of("load", body) if n.dtype != INDEX]


def tile_transpose(axes: Axes, body: Term) -> dict[Term, int]:
    """Tiles for a load that is contiguous along another axis than the store: lines are used while they are in cache."""
    if len(axes) < 2:
        return {}
    last = axes[-1]
    for node in data_loads(body):
        address = node.args[0]
        across = stride(address, last)
        if across is None or abs(across) <= 1:
            continue
        along = next((a for a in axes[:-1] if stride(address, a) in (1, -1)), None)
        if along is not None:
            size = itemsize(node.dtype)
            if (across * size) % 4096:
                return {along: LINE // size, last: ROWS}
            # Lines 4 KiB apart share one cache set: fewer of them, each used further.
            return {along: 4 * LINE // size, last: 8}
    return {}


def loop_order(
    spatial: Sequence[Term], reduced: Sequence[Term], roots: Roots, simplifier: IndexSimplifier, watched: int = 2
) -> Order:
    """Merged axes in row-major order of the output; the `watched` first roots are the body and what is stored."""
    out, roots = merge_axes(tuple(spatial), roots, watched, simplifier)
    inner, roots = merge_axes(tuple(reduced), roots, watched, simplifier)
    return Order(out, inner, roots, {})
