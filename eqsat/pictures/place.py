"""Where the cells of a layout of any rank stand on a page: every other axis goes to the right, the rest down."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.ir.dtypes import NDArray

CELL, GAP = 26, 8
"""The side of a cell, and what is between blocks; between blocks of blocks it is twice that, and so on."""


def along(extents: Sequence[int]) -> tuple[NDArray, int]:
    """The offset of each position of some axes, the outermost first, and the whole length.

    >>> offsets, length = along([2, 3])
    >>> offsets.tolist(), length
    ([[0, 26, 52], [86, 112, 138]], 164)
    """
    offsets: NDArray = np.zeros((), np.int64)
    length, depth = CELL, 0
    for extent in reversed(extents):
        gap = depth * GAP
        steps = np.arange(extent) * (length + gap)
        offsets = steps.reshape(-1, *(1,) * offsets.ndim) + offsets
        length = max(0, extent * (length + gap) - gap)
        depth += extent > 1
    return offsets, length


def places(shape: Sequence[int]) -> tuple[NDArray, NDArray, int, int]:
    """The left and the upper edge of each cell, and the width and height of all of them.

    >>> left, top, width, height = places((2, 2))
    >>> left.tolist(), top.tolist(), width, height
    ([[0, 26], [0, 26]], [[0, 0], [26, 26]], 52, 52)
    """
    axes = [n for n, extent in enumerate(shape) if extent != 1]
    across, down = axes[::-1][0::2][::-1], axes[::-1][1::2][::-1]

    def spread(chosen: Sequence[int]) -> tuple[NDArray, int]:
        offsets, length = along([shape[n] for n in chosen])
        full = [shape[n] if n in chosen else 1 for n in range(len(shape))]
        return np.broadcast_to(offsets.reshape(full), tuple(shape)), length

    (left, width), (top, height) = spread(across), spread(down)
    return left, top, width, height
