"""What a View costs in time, and how it is written: as the operator that it came from, or in the quickest steps."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from eqsat.backends.targets import TARGETS
from eqsat.ir.dtypes import itemsize
from eqsat.ir.flat.formula import TABLE_POINTS
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.size_samples import sampled
from eqsat.ir.flat.size_terms import as_size
from eqsat.ir.flat.split import maps_of_view
from eqsat.ir.flat.steps import Shape, Spelling, Step, is_free, moved_cells, shape_after
from eqsat.ir.flat.table import Map
from eqsat.ir.tensors.tensor import View
from eqsat.ir.terms.shape import same_dim
from eqsat.operators.interned import Reindex
from eqsat.pricing.steps import chained, fewest_bytes, quickest, step_price, steps_price
from eqsat.pricing.table import Table


def kind_of_move(operator: str) -> str | None:
    """How an operator of a format that is one view moves bytes, where it has a kernel of its own.

    >>> kind_of_move("onnx:DepthToSpace")
    'depth_to_space'
    """
    return next((target.views[operator] for target in TARGETS.values() if operator in target.views), None)


def map_price(reindex: Reindex, table: Table) -> tuple[int, int]:
    """The picoseconds of a view whose shapes are not known yet, reshapes left out, and the bytes that it moves."""
    m, size = reindex.map, itemsize(reindex.dtype)
    if m.is_identity:
        return round(table.operators["reshape"]), 0
    found = quickest(m, (m.n_in,), (m.n_out,), size, table, False)
    if found is None:  # cells gathered at computed positions
        cells = sampled(m.n_out)
        return table.moved("gather", cells, 1, size) + round(table.operators["node"]), 2 * cells * size
    moved = sum(sampled(cells) for cells in moved_cells(Spelling((m.n_in,), found[0])))
    return found[1] or round(table.operators["reshape"]), moved * size


def timed_steps(node: View, table: Table) -> list[Step] | None:
    """The steps that make a View in the least time; None where no steps describe it."""
    source, shape = (tuple(as_size(d) for d in dims) for dims in (node.source.shape, node.outputs[0][0]))
    size = itemsize(node.source.dtype)

    def spelled(m: Map, src: Shape, dst: Shape) -> Sequence[Step] | None:
        found = quickest(m, src, dst, size, table)
        return None if found is None else found[0]

    ways = [chained(maps, source, shape, spelled) for maps in _chains(node)]
    known = [way for way in ways if way is not None]
    return min(known, key=lambda way: steps_price(way, source, size, table), default=None)


def _chains(node: View) -> list[Sequence[Map]]:
    """The maps of a view, applied one after another; the same as one map, where that is one."""
    maps = maps_of_view(node)
    if maps is None:
        return []
    if len(maps) == 1:
        return [maps]
    whole: Map | None = maps[0]
    for m in maps[1:]:
        whole = None if whole is None else compose(whole, m, TABLE_POINTS)
    return [maps] if whole is None else [maps, (whole,)]


def written_price(node: View, table: Table) -> int | None:
    """The picoseconds of a View as the operator of a format that it came from; None where it came from none."""
    if node.tag is None or ":" not in node.tag.name:
        return None
    shape, dtype = node.outputs[0]
    extents = [sampled(as_size(d)) for d in shape]
    kind, run = kind_of_move(node.tag.name), 1
    if kind == "gather":
        return gather_price(node, node.tag.get("axis", 0), table)
    if kind in ("split", "concat", "tile"):  # runs of a part, from the axis on along which it is one
        whole = len(shape) == len(node.source.shape)
        part = shape if kind == "split" else node.source.shape
        run = prod(sampled(as_size(d)) for d in part[_cut_axis(node) :]) if whole else 1
        kind = kind if whole else None
    if kind is not None:
        return table.moved(kind, prod(extents), run, itemsize(dtype)) + round(table.operators["node"])
    maps = maps_of_view(node)
    source = tuple(as_size(d) for d in node.source.shape)
    spelled = None if maps is None else chained(maps, source, tuple(map(as_size, shape)), fewest_bytes)
    if spelled is None:
        return None
    price, moving = 0, False
    reached: Shape = source
    for step in spelled:
        price += step_price(step, reached, itemsize(dtype), table)
        moving = moving or not is_free(step, reached)
        reached = shape_after(step, reached)
    return price + round(table.operators["node" if moving else "reshape"])


def gather_price(node: View, axis: int, table: Table) -> int:
    """The picoseconds of a View as positions that are picked along an axis of its source."""
    (shape, dtype), size = node.outputs[0], node.source.shape
    run = prod(sampled(as_size(d)) for d in size[axis % len(size) + 1 :])
    cells = prod(sampled(as_size(d)) for d in shape)
    return table.moved("gather", cells, run, itemsize(dtype)) + round(table.operators["node"])


def view_price(node: View, table: Table, stands: bool = False) -> int:
    """The picoseconds of a View, written in the cheaper way; stands: as the operator that it came from, if it did."""
    own = written_price(node, table)
    steps = None if stands and own is not None else steps_of(node, table)
    prices = [price for price in (own, steps) if price is not None]
    if own is not None and _is_joined(node):
        prices = [own]
    size = itemsize(node.source.dtype)
    cells = prod(sampled(as_size(d)) for d in node.outputs[0][0])
    return min(prices) if prices else table.moved("gather", cells, 1, size) + round(table.operators["node"])


def is_quick(node: View, operator: str, table: Table) -> bool:
    """Whether a View takes no more time as one operator of a format than in steps."""
    shape, dtype = node.outputs[0]
    cells, steps = prod(sampled(as_size(d)) for d in shape), steps_of(node, table)
    kind = kind_of_move(operator)
    whole = None if kind is None else table.moved(kind, cells, 1, itemsize(dtype)) + round(table.operators["node"])
    return steps is None or (whole is not None and whole <= steps)


def steps_of(node: View, table: Table) -> int | None:
    """The picoseconds of a View in its quickest steps."""
    found = timed_steps(node, table)
    source = tuple(as_size(d) for d in node.source.shape)
    return None if found is None else steps_price(found, source, itemsize(node.source.dtype), table)


def is_reshape(node: View) -> bool:
    """Whether a View only has another shape than its source."""
    maps = maps_of_view(node)
    return maps is not None and all(m.is_identity for m in maps)


def _cut_axis(node: View) -> int:
    """The last axis in which a View is shorter or longer than its source."""
    axes = enumerate(zip(node.source.shape, node.outputs[0][0], strict=True))
    return max((n for n, (a, b) in axes if not same_dim(a, b)), default=0)


def in_steps(node: View, table: Table, beside: int) -> bool:
    """Whether the steps of a View take less time than the operator that it came from; beside: what else they take."""
    own, steps = written_price(node, table), steps_of(node, table)
    return own is not None and steps is not None and steps + beside < own and not _is_joined(node)


def _is_joined(node: View) -> bool:
    """Whether a View is a tensor joined to itself, where it was: one operator is not exchanged for another."""
    return node.tag is not None and kind_of_move(node.tag.name) == "concat"
