"""The steps in which a target materialises a flat map: reshape, slice, transpose, expand, pad, gather, mask, fill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.sizes import Size, number, numbers, product, total
from eqsat.ir.flat.table import IntTable

Shape = tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Reshape:
    """The same buffer under another shape."""

    shape: Shape


@dataclass(frozen=True, slots=True)
class Transpose:
    """Axis ``perm[k]`` becomes axis k."""

    perm: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """Python's ``start:end:step`` on every axis; an end below -extent means "down to the first"."""

    starts: Shape
    ends: Shape
    steps: tuple[int, ...]
    shape: Shape


@dataclass(frozen=True, slots=True)
class Pad:
    """Cells of the fill before and after every axis."""

    before: Shape
    after: Shape


@dataclass(frozen=True, slots=True)
class Expand:
    """Axes of extent 1 repeated."""

    shape: Shape


@dataclass(frozen=True, slots=True)
class Gather:
    """The positions ``indices`` of one axis."""

    axis: int
    indices: IntTable


@dataclass(frozen=True, slots=True)
class Mask:
    """The fill wherever ``valid`` is 0 at the position on one axis."""

    axis: int
    valid: IntTable


@dataclass(frozen=True, slots=True)
class Fill:
    """A constant tensor of the fill; the source is not read."""

    shape: Shape


Step = Reshape | Transpose | Slice | Pad | Expand | Gather | Mask | Fill


@dataclass(frozen=True, slots=True)
class Spelling:
    """A view as a list of steps on a tensor of a given shape."""

    src_shape: Shape
    steps: tuple[Step, ...]

    @property
    def dst_shape(self) -> Shape:
        """The shape after all steps."""
        shape = self.src_shape
        for step in self.steps:
            shape = shape_after(step, shape)
        return shape


def shape_after(step: Step, shape: Shape) -> Shape:
    """The shape that a step makes of a shape.

    >>> shape_after(Pad((1, 0), (1, 2)), (4, 5))
    (6, 7)
    """
    match step:
        case Reshape() | Slice() | Expand() | Fill():
            return step.shape
        case Transpose():
            return tuple(shape[a] for a in step.perm)
        case Pad():
            return tuple(padded(b, e, a) for b, e, a in zip(step.before, shape, step.after, strict=True))
        case Gather():
            return (*shape[: step.axis], len(step.indices), *shape[step.axis + 1 :])
        case Mask():
            return shape


def padded(before: Size, extent: Size, after: Size) -> Size:
    """The extent of a padded axis."""
    return total(total(before, extent), after)


def is_free(step: Step, shape: Shape) -> bool:
    """Whether a step moves no data: reshapes, constants, and transposes that only move axes of extent 1."""
    if isinstance(step, Transpose):
        moved = [a for a in step.perm if shape[a] != 1]
        return moved == sorted(moved)
    return isinstance(step, Reshape | Fill)


def moved_cells(spelling: Spelling) -> tuple[Size, ...]:
    """The cells read and written, one entry per transfer: their sum times the item size is the cost in bytes.

    Transposes, slices, gathers and masks read and write their output; pads and expands read their input and write
    their output; the rest is free.

    >>> moved_cells(Spelling((2, 3), (Transpose((1, 0)), Pad((0, 1), (0, 1)))))
    (6, 6, 6, 12)
    """
    cells: list[Size] = []
    shape = spelling.src_shape
    for step in spelling.steps:
        result = shape_after(step, shape)
        if not is_free(step, shape):
            cells += [product(shape if isinstance(step, Pad | Expand) else result), product(result)]
        shape = result
    return tuple(cells)


def spelled_cost(spelling: Spelling, itemsize: int) -> int:
    """The bytes that a spelling moves; an error where sizes have symbols (sum :func:`moved_cells` yourself then).

    >>> spelled_cost(Spelling((2, 3), (Transpose((1, 0)),)), 4)
    48
    """
    return itemsize * sum(number(cells) for cells in moved_cells(spelling))


def run_steps(spelling: Spelling, array: npt.NDArray[np.generic], fill: object) -> npt.NDArray[np.generic]:
    """What the steps compute, by numpy.

    >>> run_steps(Spelling((2,), (Pad((1,), (0,)),)), np.array([5, 6]), 0).tolist()
    [0, 5, 6]
    """
    x = array.reshape(_ints(spelling.src_shape))
    for step in spelling.steps:
        match step:
            case Reshape():
                x = x.reshape(_ints(step.shape))
            case Transpose():
                x = x.transpose(step.perm)
            case Slice():
                cuts = zip(_ints(step.starts), _ints(step.ends), step.steps, strict=True)
                x = x[tuple(slice(start, end, stride) for start, end, stride in cuts)]
            case Pad():
                widths = list(zip(_ints(step.before), _ints(step.after), strict=True))
                base = np.full([b + e + a for (b, a), e in zip(widths, x.shape, strict=True)], fill, dtype=x.dtype)
                base[tuple(slice(b, b + e) for (b, _), e in zip(widths, x.shape, strict=True))] = x
                x = base
            case Expand():
                x = np.broadcast_to(x, _ints(step.shape))
            case Gather():
                x = np.take(x, step.indices.array, axis=step.axis)
            case Mask():
                valid = step.valid.array.reshape((-1,) + (1,) * (x.ndim - step.axis - 1)) != 0
                x = np.where(valid, x, np.array(fill, dtype=x.dtype))
            case Fill():
                x = np.full(_ints(step.shape), fill, dtype=x.dtype)
    return x


def _ints(sizes: Sequence[Size]) -> list[int]:
    known = numbers(sizes)
    if known is None:
        raise LayoutError(f"shape ({', '.join(map(str, sizes))})", "numbers are needed here")
    return known
