"""A model of the sets of the first cache: how many rows a stride puts into one set, where only WAYS lines can stay.

A first-level data cache takes the set of a line from the address within a page: lines PERIOD bytes apart share a set.
A transpose touches one line of each of many rows, a stride apart: if the stride is a multiple of a large power of two,
the rows alias, and lines are evicted before all of their elements are used. Larger caches and the banks of the memory
use more bits of the address, and suffer from the same strides.
"""

from __future__ import annotations

from collections import Counter
from math import gcd

from eqsat.backends.machine import LINE

PERIOD = 4 << 10
"""Bytes after which the sets of the first cache repeat: 64 sets of 64-byte lines, the size of a page."""
WAYS = 8
"""Lines that a set holds, in a first cache of 32 KiB; one of 48 KiB has the same sets, and 12."""
FEW_SETS = 2
"""Rows alias if they lie in no more sets than this: then 2 * WAYS of them fit."""
DRIFT = 16
"""Rows alias nearly if each lies at most so many bytes further on in its set: several stay in one line of it."""


def sets_reached(stride: int) -> int:
    """In how many sets of the first cache rows lie that are so many bytes apart.

    >>> sets_reached(4096), sets_reached(6144), sets_reached(512), sets_reached(64), sets_reached(12)
    (1, 2, 8, 64, 64)
    """
    return min(PERIOD // gcd(stride, PERIOD), PERIOD // LINE)


def aliases(stride: int) -> bool:
    """Whether rows so many bytes apart lie in few sets.

    >>> aliases(8192), aliases(6144), aliases(1024)
    (True, True, False)
    """
    return sets_reached(stride) <= FEW_SETS


def nearly_aliases(stride: int) -> bool:
    """Whether rows so many bytes apart lie in four sets or fewer, but for a small drift from each to the next.

    >>> nearly_aliases(16380), nearly_aliases(16000), nearly_aliases(21504)
    (True, False, True)
    """
    return min(stride % (PERIOD // 4), -stride % (PERIOD // 4)) <= DRIFT


def rows_per_set(stride: int, rows: int) -> int:
    """The most of so many rows that meet in one set, where they are that many bytes apart.

    >>> rows_per_set(4096, 16), rows_per_set(4092, 16), rows_per_set(2048, 16), rows_per_set(2800, 64)
    (16, 15, 8, 2)
    """
    places = Counter(row * stride % PERIOD // LINE for row in range(rows))
    return max(places.values())


def rows_that_stay(stride: int, rows: int) -> int:
    """How many of so many rows, that many bytes apart, may be read a line of each at a time: no set holds more.

    >>> rows_that_stay(4096, 29), rows_that_stay(2048, 29), rows_that_stay(2000, 29), rows_that_stay(4, 29)
    (8, 16, 29, 29)
    """
    held: Counter[int] = Counter()
    for n, line in enumerate(row * stride // LINE for row in range(rows)):
        if n and line == (n - 1) * stride // LINE:
            continue
        held[line % (PERIOD // LINE)] += 1
        if held[line % (PERIOD // LINE)] > WAYS:
            return n
    return rows
