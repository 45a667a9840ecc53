"""The flat maps of the tensor views: permute, pad, slice, flip, broadcast, tile, roll, gather.

Each takes the shape of the tensor that is viewed. A reshape needs no map: it is the identity of the buffer.
Errors: arguments that do not fit the shape; a result that is not one term in the symbols of a shape.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eqsat.ir.errors import ShapeError
from eqsat.ir.flat.map import Digit, FlatMap, digit, from_digits
from eqsat.ir.flat.sizes import Size, at_most, leaves_room, mul, number, product, total, where_filled
from eqsat.ir.flat.table import Map
from eqsat.ir.flat.tabled import from_array, widened


def weights(shape: Sequence[Size]) -> list[Size]:
    """The row-major stride of every axis.

    >>> weights((2, 3, 4))
    [12, 4, 1]
    """
    result: list[Size] = []
    weight: Size = 1
    for extent in reversed(shape):
        result.append(weight)
        weight = mul(weight, extent)
    result.reverse()
    return result


def permute(shape: Sequence[Size], axes: Sequence[int]) -> FlatMap:
    """The tensor with its axes in another order.

    >>> print(permute((2, 3, 4), (2, 0, 1)))
    (4:1, 6:4) of 24
    """
    if sorted(axes) != list(range(len(shape))):
        raise ShapeError(f"permute axes {tuple(axes)}", f"not a permutation of {len(shape)} axes")
    strides = weights(shape)
    return from_digits(product(shape), [digit(shape[a], strides[a]) for a in axes])


def pad(shape: Sequence[Size], before: Sequence[Size], after: Sequence[Size]) -> FlatMap:
    """The tensor with padding cells around it.

    >>> print(pad((2, 3), (0, 1), (0, 1)))
    (2:3, 5:1[1,4)) + -1 of 6
    """
    _same_rank("pad", shape, before, after)
    digits: list[Digit] = []
    offset: Size = 0
    for extent, low, high, stride in zip(shape, before, after, weights(shape), strict=True):
        if not (at_most(0, low) and at_most(0, high)):
            raise ShapeError(f"pad by {low}, {high}", "is negative", "crop instead")
        end = total(low, extent)
        digits.append(Digit(total(end, high), stride, low, end))
        offset = total(offset, mul(-1, mul(low, stride)))
    return from_digits(product(shape), digits, offset)


def slice_(shape: Sequence[Size], starts: Sequence[Size], sizes: Sequence[Size], steps: Sequence[int]) -> FlatMap:
    """On every axis ``sizes`` positions from ``starts`` on, ``steps`` apart (negative: downwards).

    >>> print(slice_((4, 6), (1, 4), (2, 2), (1, -2)))
    (2:6, 2:-2) + 10 of 24
    """
    _same_rank("slice", shape, starts, sizes, steps)
    lows = where_filled(sizes)
    digits: list[Digit] = []
    offset: Size = 0
    for extent, start, length, step, stride in zip(shape, starts, sizes, steps, weights(shape), strict=True):
        if length == extent and start == 0 and step == 1:
            digits.append(digit(extent, stride))
            continue
        if length != 0:
            last = total(start, mul(step, total(length, -1)))
            low, high = (start, last) if step >= 0 else (last, start)
            if not (at_most(0, low) and leaves_room(total(high, 1), extent, lows)):
                raise ShapeError(f"slice start {start}, size {length}, step {step}", f"leaves an axis of {extent}")
        digits.append(digit(length, mul(step, stride)))
        offset = total(offset, mul(start, stride))
    return from_digits(product(shape), digits, offset)


def crop(shape: Sequence[Size], starts: Sequence[Size], sizes: Sequence[Size]) -> FlatMap:
    """A box of the tensor.

    >>> print(crop((4, 6), (1, 0), (2, 6)))
    (12:1) + 6 of 24
    """
    return slice_(shape, starts, sizes, (1,) * len(shape))


def flip(shape: Sequence[Size], axes: Sequence[int]) -> FlatMap:
    """The tensor with some axes counted downwards.

    >>> print(flip((2, 3), (1,)))
    (2:3, 3:-1) + 2 of 6
    """
    starts = [total(e, -1) if a in axes and e != 0 else 0 for a, e in enumerate(shape)]
    return slice_(shape, starts, shape, [-1 if a in axes else 1 for a in range(len(shape))])


def broadcast(shape: Sequence[Size], shape_out: Sequence[Size]) -> FlatMap:
    """The tensor repeated by numpy's broadcasting rule.

    >>> print(broadcast((3, 1), (2, 3, 4)))
    (2:0, 3:1, 4:0) of 3
    """
    skip = len(shape_out) - len(shape)
    digits = [digit(extent, 0) for extent in shape_out[: max(skip, 0)]]
    for extent, wanted, stride in zip(shape, shape_out[max(skip, 0) :], weights(shape), strict=False):
        if skip < 0 or extent not in (1, wanted):
            raise ShapeError(f"broadcast {tuple(shape)} to {tuple(shape_out)}", "the shapes do not fit")
        digits.append(digit(wanted, 0 if extent == 1 else stride))
    return from_digits(product(shape), digits)


def tile(shape: Sequence[Size], repeats: Sequence[Size]) -> FlatMap:
    """Copies of the whole tensor side by side (numpy.tile).

    >>> tile((3,), (2,)).to_array().tolist()
    [0, 1, 2, 0, 1, 2]
    """
    _same_rank("tile", shape, repeats)
    digits: list[Digit] = []
    for extent, copies, stride in zip(shape, repeats, weights(shape), strict=True):
        digits += [digit(copies, 0), digit(extent, stride)]
    return from_digits(product(shape), digits)


def repeat(shape: Sequence[Size], repeats: Sequence[Size]) -> FlatMap:
    """Copies of every element next to it (numpy.repeat on every axis).

    >>> repeat((3,), (2,)).to_array().tolist()
    [0, 0, 1, 1, 2, 2]
    """
    _same_rank("repeat", shape, repeats)
    digits: list[Digit] = []
    for extent, copies, stride in zip(shape, repeats, weights(shape), strict=True):
        digits += [digit(extent, stride), digit(copies, 0)]
    return from_digits(product(shape), digits)


def take(shape: Sequence[Size], axis: int, indices: npt.ArrayLike) -> Map:
    """The positions ``indices`` of one axis (negative: padding); the axis has an extent in numbers.

    >>> print(take((2, 3, 4), 1, [2, 0, 1]))
    (2:12, 3:table, 4:1) by table of 1 in steps of 4 of 24
    """
    outer, inner = product(shape[:axis]), product(shape[axis + 1 :])
    core = from_array(indices, number(shape[axis]))
    return widened(outer, core, inner)


def roll(shape: Sequence[Size], axis: int, shift: int) -> Map:
    """One axis moved around by ``shift`` positions (numpy.roll).

    >>> roll((4,), 0, 1).to_array().tolist()
    [3, 0, 1, 2]
    """
    return take(shape, axis, np.roll(np.arange(number(shape[axis]), dtype=np.int64), shift))


def from_gather(shape_in: Sequence[int], indices: Sequence[npt.ArrayLike], valid: npt.ArrayLike | None = None) -> Map:
    """The view whose cell reads ``source[indices]`` where valid; one index array, of the output's shape, per axis.

    >>> i, j = np.indices((3, 2))
    >>> from_gather((2, 3), (j, i)) == permute((2, 3), (1, 0))
    True
    """
    flat = np.zeros((), dtype=np.int64)
    inside = np.ones((), dtype=np.bool_) if valid is None else np.asarray(valid, dtype=np.bool_)
    arrays = [np.asarray(index, dtype=np.int64) for index in indices]
    shape_out = np.broadcast_shapes(inside.shape, *(index.shape for index in arrays))
    for extent, index in zip(shape_in, arrays, strict=True):
        if bool(np.any(inside & ((index < 0) | (index >= extent)))):
            raise ShapeError("gather", f"an index leaves an axis of {extent}")
        flat = flat * extent + index
    return from_array(np.broadcast_to(np.where(inside, flat, -1), shape_out), int(np.prod(shape_in, dtype=np.int64)))


def _same_rank(operation: str, shape: Sequence[Size], *others: Sequence[Size]) -> None:
    if any(len(other) != len(shape) for other in others):
        raise ShapeError(operation, f"{len(shape)} values are needed, one for each axis of {tuple(shape)}")
