"""What the steps of a view cost in time, and the steps that cost the least.

A transpose that tears runs apart in several places is dear; two that each keep long runs, or move one axis, may be
cheaper, with a reshape between them that makes neighbours one axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from math import prod

from eqsat.ir.flat.map import FlatMap
from eqsat.ir.flat.refine import refine
from eqsat.ir.flat.size_samples import sampled
from eqsat.ir.flat.sizes import product
from eqsat.ir.flat.spell import spell, spellings
from eqsat.ir.flat.steps import (
    Expand,
    Fill,
    Gather,
    Mask,
    Pad,
    Reshape,
    Shape,
    Slice,
    Spelling,
    Step,
    Tile,
    Transpose,
    is_free,
    shape_after,
)
from eqsat.ir.flat.table import Map
from eqsat.ir.flat.tile import tiled
from eqsat.pricing.table import Table

MOST_AXES = 8
"""Transposes of more axes are not taken apart."""

Dims = tuple[int, ...]


def step_price(step: Step, shape: Shape, itemsize: int, table: Table) -> int:
    """The picoseconds of one step on a tensor of a shape, without those of an operator."""
    extents, result = _sampled(shape), _sampled(shape_after(step, shape))
    cells = prod(result)
    if is_free(step, shape) and not isinstance(step, Fill):
        return 0
    match step:
        case Transpose():
            return transpose_price(extents, step.perm, itemsize, table)
        case Slice():
            return _slice_price(step, extents, result, itemsize, table)
        case Pad():
            grown = [n for n, (a, b) in enumerate(zip(extents, result, strict=True)) if a != b]
            return table.moved("pad", cells, prod(extents[max(grown, default=0) :]), itemsize)
        case Expand():
            grown = max((n for n, (a, b) in enumerate(zip(extents, result, strict=True)) if a != b), default=0)
            first = next((n + 1 for n in reversed(range(grown)) if extents[n] != 1), 0)  # axes side by side are one
            return table.moved("expand", cells, prod(result[first:]), itemsize)
        case Tile():
            return tile_price(extents, result, itemsize, table)
        case Gather():
            return table.moved("gather", cells, prod(extents[step.axis + 1 :]), itemsize)
        case Mask():
            return table.moved("mask", cells, prod(extents[step.axis + 1 :]), itemsize)
        case _:  # a constant, repeated
            return table.moved("expand", cells, cells, itemsize)


def _sampled(shape: Shape) -> Dims:
    return tuple(sampled(d) for d in shape)


def tile_price(extents: Dims, result: Dims, itemsize: int, table: Table) -> int:
    """The picoseconds of a tensor whose axes are repeated whole: in runs from the last of these axes on."""
    grown = [n for n, (a, b) in enumerate(zip(extents, result, strict=True)) if a != b]
    return table.moved("tile", prod(result), prod(extents[max(grown, default=0) :]), itemsize)


def _slice_price(step: Slice, extents: Dims, result: Dims, itemsize: int, table: Table) -> int:
    cut = [n for n, (a, b) in enumerate(zip(extents, result, strict=True)) if a != b or step.steps[n] != 1]
    last = max(cut, default=0)
    if not cut or all(d == 1 for d in result[:last]):
        last = 0 if all(step.steps[n] == 1 for n in cut) else last
    inner = prod(result[last + 1 :])
    if cut and step.steps[last] != 1:
        strided = table.moved("stride", prod(result), inner, itemsize)
        rows = table.moved("slice", prod(result), prod(result[last:]), itemsize)
        return strided + rows if inner == 1 else table.moved("slice", prod(result), inner, itemsize)
    return table.moved("slice", prod(result), prod(result[last:]), itemsize)


# -- transposes -------------------------------------------------------------------------------------------------------


def merged_axes(shape: Dims, perm: Sequence[int]) -> list[list[int]]:
    """The axes in groups that stay together, in the order of the source; axes of extent 1 are left out.

    >>> merged_axes((1, 3, 4, 5), (0, 2, 3, 1))
    [[1], [2, 3]]
    """
    groups: list[list[int]] = []
    for axis in perm:
        if shape[axis] == 1:
            continue
        between = range(groups[-1][-1] + 1, axis) if groups else ()
        if groups and axis > groups[-1][-1] and all(shape[a] == 1 for a in between):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return sorted(groups)


def transpose_price(shape: Dims, perm: Sequence[int], itemsize: int, table: Table) -> int:
    """The picoseconds of a transpose, as one operator."""
    groups = merged_axes(shape, perm)
    extents = [prod(shape[a] for a in group) for group in groups]
    places = [perm.index(group[0]) for group in groups]
    order = sorted(range(len(groups)), key=places.__getitem__)
    if order == sorted(order):
        return 0
    run = extents[-1] if order[-1] == len(order) - 1 else 1
    kind = "axis" if run == 1 and _moves_one(order) else "transpose"
    return table.moved(kind, prod(extents), run, itemsize)


def _moves_one(order: Sequence[int]) -> bool:
    """Whether all axes but one keep their order."""
    return any([x for x in order if x != moved] == [n for n in range(len(order)) if n != moved] for moved in order)


def _two_transposes(extents: Dims, order: Dims) -> Iterator[tuple[Dims, Dims]]:
    """The ways to make an order of axes in two transposes, each as the order of the axes before it, where neighbours
    of the first are one axis for the second."""
    count = len(order)
    for moved in range(count):
        for place in range(count):
            rest = [n for n in range(count) if n != moved]
            first = (*rest[:place], moved, *rest[place:])
            if list(first) == sorted(first) or first == order:
                continue
            second = tuple(first.index(axis) for axis in order)
            between = tuple(extents[axis] for axis in first)
            if len(merged_axes(between, second)) < count:
                yield first, second


def taken_apart(step: Transpose, shape: Shape, itemsize: int, table: Table) -> list[Step]:
    """A transpose, or the steps that do the same in less time: two transposes around a reshape, and one after them."""
    extents = tuple(d if isinstance(d, int) else max(sampled(d), 2) for d in shape)
    groups = merged_axes(extents, step.perm)
    if not 2 < len(groups) <= MOST_AXES or 0 in extents:
        return [step]
    dims = tuple(prod(extents[a] for a in group) for group in groups)
    order = tuple(sorted(range(len(groups)), key=lambda n: step.perm.index(groups[n][0])))
    found = _cheapest_pair(dims, order, itemsize, table)
    if found is None:
        return [step]
    first, second = found
    sizes = [product(shape[a] for a in group) for group in groups]
    units = [a for a, d in enumerate(extents) if d == 1]
    turned = Transpose((*units, *(a for n in first for a in groups[n])))
    joined = merged_axes(tuple(dims[n] for n in first), second)
    between = tuple(product(sizes[first[k]] for k in group) for group in joined)
    places = sorted(range(len(joined)), key=lambda n: second.index(joined[n][0]))
    result = shape_after(step, shape)
    return [turned, Reshape(between), Transpose(tuple(places)), Reshape(result)]


@lru_cache(maxsize=1 << 12)
def _cheapest_pair(dims: Dims, order: Dims, itemsize: int, table: Table) -> tuple[Dims, Dims] | None:
    """Two transposes that cost less than one, with their operators."""
    best, least = None, transpose_price(dims, order, itemsize, table)
    more = round(table.operators["node"] + 2 * table.operators["reshape"])
    for first, second in _two_transposes(dims, order):
        between = tuple(dims[n] for n in first)
        price = more + transpose_price(dims, first, itemsize, table) + transpose_price(between, second, itemsize, table)
        if price < least:
            best, least = (first, second), price
    return best


# -- the steps of a map -----------------------------------------------------------------------------------------------


def refined_steps(spelling: Spelling, itemsize: int, table: Table) -> list[Step]:
    """The steps with dear transposes taken apart, no reshape after a reshape, and axes repeated in the cheaper way."""
    steps: list[Step] = []
    shape = spelling.src_shape
    for step in spelling.steps:
        steps += taken_apart(step, shape, itemsize, table) if isinstance(step, Transpose) else [step]
        shape = shape_after(step, shape)
    kept: list[Step] = []
    shape = spelling.src_shape
    for n, step in enumerate(steps):
        again = isinstance(step, Reshape) and n + 1 < len(steps) and isinstance(steps[n + 1], Reshape)
        if again or (isinstance(step, Reshape) and step.shape == shape):
            continue
        kept.append(step)
        shape = shape_after(step, shape)
    return _copied(kept, spelling.src_shape, itemsize, table)


def _copied(steps: list[Step], shape: Shape, itemsize: int, table: Table) -> list[Step]:
    """The steps, or the same with tiles, if these cost less or spare the runtime sizes that it has to compute."""
    other = tiled(steps, shape)
    if other == steps:
        return steps
    fewer = _computed(steps) - _computed(other)
    cheaper = steps_price(other, shape, itemsize, table) < steps_price(steps, shape, itemsize, table)
    return other if fewer > 0 or (fewer == 0 and cheaper) else steps


def _computed(steps: Sequence[Step]) -> int:
    """How many steps have a shape whose sizes are not all known."""
    return sum(isinstance(s, Reshape | Expand) and not all(isinstance(d, int) for d in s.shape) for s in steps)


def steps_price(steps: Sequence[Step], shape: Shape, itemsize: int, table: Table, reshapes: bool = True) -> int:
    """The picoseconds of steps, each an operator; a transpose that moves nothing is a reshape to the runtime."""
    price = 0.0
    for step in steps:
        price += step_price(step, shape, itemsize, table)
        if not is_free(step, shape):
            price += table.operators["node"]
        elif reshapes:
            price += table.operators["reshape"]
        shape = shape_after(step, shape)
    return round(price)


@lru_cache(maxsize=1 << 13)
def quickest(
    m: Map, src: Shape, dst: Shape, itemsize: int, table: Table, reshapes: bool = True
) -> tuple[tuple[Step, ...], int] | None:
    """The steps of a map that take the least time, and their picoseconds; None where no steps describe it.

    Of steps that take the same, those that move an axis among more others: a runtime that keeps images in blocks moves
    their channels as it fills these, if an operator moves them that has the dimensions of an image.

    >>> from eqsat.ir.flat.map import digit, from_digits
    >>> from eqsat.pricing.table import shipped
    >>> quickest(from_digits(192, [digit(3, 1), digit(64, 3)]), (64, 3), (1, 3, 8, 8), 4, shipped())[0]
    (Reshape(shape=(1, 8, 8, 3)), Transpose(perm=(0, 3, 1, 2)))
    """
    best: tuple[tuple[Step, ...], int] | None = None
    most = 0
    for spelling in spellings(m, src, dst):
        steps = tuple(refined_steps(spelling, itemsize, table))
        price, axes = steps_price(steps, src, itemsize, table, reshapes), _axes_around(steps, src)
        if best is None or price < best[1] or (price == best[1] and axes > most):
            best, most = (steps, price), axes
    return best


def _axes_around(steps: Sequence[Step], shape: Shape) -> int:
    """Among how many axes a transpose moves one, if that is the only transpose."""
    turned: list[int] = []
    for step in steps:
        if isinstance(step, Transpose) and not is_free(step, shape):
            extents = _sampled(shape)
            groups = merged_axes(extents, step.perm)
            order = sorted(range(len(groups)), key=lambda n, groups=groups, perm=step.perm: perm.index(groups[n][0]))
            turned.append(len(shape) if _moves_one(order) else 0)
        shape = shape_after(step, shape)
    return turned[0] if len(turned) == 1 else 0


def chained(
    maps: Sequence[Map], source: Shape, shape: Shape, spelled: Callable[[Map, Shape, Shape], Sequence[Step] | None]
) -> list[Step] | None:
    """The steps of maps applied one after another; between them, a shape in which the next map's digits are axes."""
    found: list[Step] = []
    for n, m in enumerate(maps):
        target = shape
        if n + 1 < len(maps):
            parts = refine(m.digits, m.offset, source) if isinstance(m, FlatMap) else None
            target = (m.n_out,) if parts is None else tuple(p.extent for p in parts[0])
        steps = spelled(m, source, target)
        if steps is None:
            return None
        found += steps
        source = target
    return found


def fewest_bytes(m: Map, src: Shape, dst: Shape) -> Sequence[Step] | None:
    """The steps of a map that move the fewest bytes."""
    found = spell(m, src, dst)
    return None if found is None else tiled(found.steps, src)
