"""Rows of positions that are a whole axis with more of its own cells around it: what a Pad of another mode says."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from eqsat.ir.flat.map import IntArray

Mode = Literal["constant", "reflect", "edge"]


class Border(NamedTuple):
    """So many cells before and after an axis."""

    before: int
    after: int
    mode: Mode


def as_border(positions: IntArray, extent: int) -> Border | None:
    """The border that gathering some positions of an axis puts around it; None where it does not.

    >>> as_border(np.array([2, 1, 0, 1, 2, 1]), 3)
    Border(before=2, after=1, mode='reflect')
    >>> as_border(np.array([0, 0, 1, 1]), 2), as_border(np.array([0, 2, 1]), 3)
    (Border(before=1, after=1, mode='edge'), None)
    """
    more = len(positions) - extent
    if extent < 2 or more < 1:
        return None
    whole = np.arange(extent)
    firsts: tuple[tuple[Mode, int], ...] = (("reflect", int(positions[0])), ("edge", int((positions == 0).sum()) - 1))
    for mode, before in firsts:
        after = more - before
        if before < 0 or after < 0 or (mode == "reflect" and max(before, after) >= extent):
            continue
        if np.array_equal(np.pad(whole, (before, after), mode), positions):  # pyright: ignore[reportCallIssue, reportArgumentType]
            return Border(before, after, mode)
    return None
