"""The steps in which a target materialises a flat map: reshape, slice, transpose, expand, tile, pad, gather, mask,
fill."""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.ir.flat.border import Mode
from eqsat.ir.flat.sizes import Size, product, total
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
    """Cells before and after every axis: of the fill, or of the axis itself, reflected at its ends or those there."""

    before: Shape
    after: Shape
    mode: Mode = "constant"


@dataclass(frozen=True, slots=True)
class Expand:
    """Axes of extent 1 repeated."""

    shape: Shape


@dataclass(frozen=True, slots=True)
class Tile:
    """Every axis, whole, so many times one after another."""

    repeats: Shape


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


Step = Reshape | Transpose | Slice | Pad | Expand | Tile | Gather | Mask | Fill


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
        case Tile():
            return tuple(product(pair) for pair in zip(step.repeats, shape, strict=True))
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

    Transposes, slices, gathers and masks read and write their output; pads, expands and tiles read their input and
    write their output; the rest is free.

    >>> moved_cells(Spelling((2, 3), (Transpose((1, 0)), Pad((0, 1), (0, 1)))))
    (6, 6, 6, 12)
    """
    cells: list[Size] = []
    shape = spelling.src_shape
    for step in spelling.steps:
        result = shape_after(step, shape)
        if not is_free(step, shape):
            cells += [product(shape if isinstance(step, Pad | Expand | Tile) else result), product(result)]
        shape = result
    return tuple(cells)
