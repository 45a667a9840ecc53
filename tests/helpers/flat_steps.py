"""The steps that spell a flat map at work on arrays, and the bytes that they move."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.sizes import Size, number, numbers
from eqsat.ir.flat.steps import Expand, Fill, Gather, Mask, Pad, Reshape, Slice, Spelling, Tile, Transpose, moved_cells


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
                if step.mode != "constant":
                    around = list(zip(_ints(step.before), _ints(step.after), strict=True))
                    x = np.pad(x, around, step.mode)
                    continue
                widths = list(zip(_ints(step.before), _ints(step.after), strict=True))
                base = np.full([b + e + a for (b, a), e in zip(widths, x.shape, strict=True)], fill, dtype=x.dtype)
                base[tuple(slice(b, b + e) for (b, _), e in zip(widths, x.shape, strict=True))] = x
                x = base
            case Expand():
                x = np.broadcast_to(x, _ints(step.shape))
            case Tile():
                x = np.tile(x, _ints(step.repeats))
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
