"""Strides that put many places into few sets of the caches, and into few banks of the memory."""

from __future__ import annotations

from collections import Counter

from eqsat.backends.machine import LINE

WAYS = 8
"""Rows which share a set of the first cache and fit into it together."""
SPAN = 4 << 10
"""Places so many bytes apart share a set of the first cache."""


def crowds(stride: int) -> bool:
    """Whether places that many bytes apart are in few sets of the caches, and in few banks of the memory."""
    return stride % 2048 == 0


def sharing(stride: int, rows: int) -> int:
    """The most of so many rows that meet in one set of the first cache, where they are that many bytes apart.

    >>> sharing(4096, 16), sharing(4092, 16), sharing(2048, 16), sharing(2800, 64)
    (16, 15, 8, 2)
    """
    places = Counter(row * stride % SPAN // LINE for row in range(rows))
    return max(places.values())


def beside(stride: int) -> bool:
    """Whether many places that many bytes apart are in few sets of the caches, though each a little further.

    >>> beside(16380), beside(16000), beside(21504)
    (True, False, True)
    """
    return min(stride % 1024, -stride % 1024) <= 16
