"""A function and its schedule compared where parameters changed their layout: arguments there and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.statements.bind import bind_function, by_declared_axes
from eqsat.ir.statements.memory import laid
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import Comparison, compared, copied, difference
from eqsat.ir.statements.sizes import Sizes, numbers
from eqsat.ir.statements.stmt import BufferDecl
from eqsat.ir.terms.bindings import Bindings
from eqsat.ir.terms.evaluate import Mask, evaluate_masked
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of
from eqsat.scheduling.memory import family, touches

CANARY = 77
"""What padding that holds nothing in particular is filled with."""


@dataclass(frozen=True)
class Moved:
    """A parameter in its new layout: `array`, and for each old element where it lies there; None: as it was."""

    array: NDArray
    places: tuple[NDArray, ...] | None

    def back(self, cells: NDArray) -> NDArray:
        """The elements in their old order."""
        return cells if self.places is None else cells[self.places]


def moved_argument(before: BufferDecl, after: BufferDecl, array: NDArray, fills: bool, sizes: Sizes) -> Moved:
    """An argument as the function with a schedule takes it.

    fills: whether padding that has a value holds it already, as the function then assumes; else the function writes it.

    >>> from eqsat.ir.layouts.buffer import Buffer
    >>> b = Buffer("b", (3,), "int32")
    >>> old, new = (BufferDecl.from_buffer(x) for x in (b, b.transform_layout("i -> i//2, i%2", pad_value=0)))
    >>> moved_argument(old, new, np.array([1, 2, 3], "int32"), True, {}).array.tolist()
    [[1, 2], [3, 0]]
    """
    steps = after.transforms[len(before.transforms) :]
    if not steps and (before.strides is None or before.axis_separators == after.axis_separators):
        return Moved(copied(array), None)
    if not steps:  # the same elements, their rows elsewhere in memory
        cells = laid(after, sizes, np.full(prod(numbers(after.memory_shape, sizes)) * after.lanes, CANARY, array.dtype))
        cells[...] = array
        return Moved(cells, None)
    lanes = array.shape[array.ndim - (before.lanes > 1) :]
    places = _indices(array.shape[: array.ndim - len(lanes)])
    elements = places[0].shape if places else ()
    for step in steps:
        if step.index_map.names:
            needed = {s: sizes[s] for s in nodes_of("sym", *step.index_map.final_indices) if s in sizes}
            at = step.index_map.bind(needed).map_indices(places)
            places = tuple(np.broadcast_to(np.asarray(i, np.int64), elements) for i in at)
    shape = numbers(after.shape, sizes)
    cells = np.full((*shape, *lanes), CANARY, array.dtype)
    cells[places] = array
    if fills:
        for where, values in padding(after, cells, sizes):  # each step before the next one is asked for
            cells[where] = values[where]
    return Moved(cells, places)


def padding(decl: BufferDecl, cells: NDArray, sizes: Sizes) -> Iterator[tuple[NDArray, NDArray]]:
    """For each step whose padding has a value, which cells that is, and what they hold; lanes are an axis of both.

    A value may be read from padding of earlier steps, which may be filled before the next step is asked for.
    """
    axes, shape = output_axes(decl.shape), cells.shape[: len(decl.shape)]
    env: dict[Term, NDArray] = dict(zip(axes, _indices(shape), strict=True))
    env |= {s: np.asarray(n) for s, n in sizes.items()}

    def load(_: object, index: Sequence[NDArray]) -> tuple[NDArray, Mask]:
        at = tuple(np.clip(i, 0, n - 1) for i, n in zip(index, shape, strict=True))
        return cells[tuple(i[..., 0] for i in at) if decl.lanes > 1 else at], None

    for step in decl.padding_steps:
        if step.value is None or step.value.op == "hole":
            continue
        where = np.broadcast_to(evaluate_masked([step.where], env)[0][0], shape)
        where = np.broadcast_to(where[..., None] if decl.lanes > 1 else where, cells.shape)
        value = evaluate_masked([step.value], env, load)[0][0]
        yield where, np.broadcast_to(value, cells.shape).astype(cells.dtype)


def _indices(shape: Sequence[int]) -> tuple[NDArray, ...]:
    grid: NDArray = np.indices(tuple(shape), np.int64)
    return tuple(grid[n] for n in range(len(shape)))


def moved_arguments(
    before: PrimFunc, after: PrimFunc, inputs: Mapping[str, NDArray], symbols: Bindings | None = None
) -> dict[str, Moved]:
    """The arguments of a function as its schedule takes them.

    Padding that has a value holds it where the schedule does not write the parameter, which it then assumes.
    """
    inputs = by_declared_axes(before, inputs, symbols)
    sizes = bind_function(before, {n: a.shape for n, a in inputs.items()}, symbols)
    made: dict[str, Moved] = {}
    for name in before.params:
        written = touches(after.body, family(after.body, name))[1]
        made[name] = moved_argument(before.buffer_map[name], after.buffer_map[name], inputs[name], not written, sizes)
    return made


def same_scheduled(
    before: PrimFunc,
    after: PrimFunc,
    inputs: Mapping[str, NDArray],
    symbols: Bindings | None = None,
    *,
    close: float = 0.0,
) -> Comparison:
    """Whether a schedule of a function does what the function does, on these arguments of the function.

    As `same_meaning`, where parameters may have another layout (`interface="free"`): they are moved there and back, and
    padding that the schedule has to write must hold its value at the end.

    >>> import eqsat as eq
    >>> f = eq.PrimFunc.parse("func f(x: int8[3])\\n  for i in 3:\\n    x[i] = -x[i]")
    >>> s = eq.Schedule(f)
    >>> _ = s.transform_layout("x", "i -> i//2, i%2", 0, interface="free")
    >>> bool(same_scheduled(f, s.func, {"x": np.arange(3, dtype="int8")}))
    True
    """
    if before.params != after.params:
        return Comparison(f"parameters {before.params} became {after.params}")
    inputs = by_declared_axes(before, inputs, symbols)
    moved = moved_arguments(before, after, inputs, symbols)
    sizes = told_sizes(before, after, inputs, symbols)
    new = {name: item.array for name, item in moved.items()}
    found = compared((before, inputs, symbols), (after, new, sizes), lambda name, array: moved[name].back(array), close)
    return unwritten_padding(before, after, new, sizes) if found else found


def told_sizes(
    before: PrimFunc, after: PrimFunc, inputs: Mapping[str, NDArray], symbols: Bindings | None = None
) -> dict[Term, int]:
    """The sizes of a schedule's symbols by the arguments of the function: shapes in other layouts may not tell them."""
    sizes = bind_function(before, {n: a.shape for n, a in inputs.items()}, symbols)
    return {symbol: size for symbol, size in sizes.items() if symbol in set(after.symbols)}


def unwritten_padding(
    before: PrimFunc, after: PrimFunc, arrays: Mapping[str, NDArray], symbols: Bindings | None = None
) -> Comparison:
    """Whether padding of parameters that a schedule gave a value holds it, in these arrays."""
    sizes = bind_function(after, {n: a.shape for n, a in arrays.items()}, symbols)
    for name in after.params:
        decl = after.buffer_map[name]
        if len(decl.transforms) == len(before.buffer_map[name].transforms):
            continue
        for where, values in padding(decl, arrays[name], sizes):
            wanted, got = np.where(where, values, 0), np.where(where, arrays[name], 0)
            found = difference(name, (wanted, np.zeros_like(where)), (got, np.zeros_like(where)), 0.0)
            if found:
                return Comparison(f"padding: {found}")
    return Comparison()
