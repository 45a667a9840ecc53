"""Random index maps of every family, and brute force to compare them with."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from eqsat.ir import term as t
from eqsat.ir.index_map import IndexMap
from eqsat.ir.term import Term

OPERATIONS = (
    "split", "fuse", "swap", "offset", "reverse", "skew", "xor", "multiply", "rotate", "constant", "scale", "copy",
)  # fmt: skip


@dataclass
class Building:
    """Outputs and their extents while operations are applied."""

    terms: list[Term]
    extents: list[int]
    history: list[str] = field(default_factory=list[str])

    def replace(self, n: int, terms: list[Term], extents: list[int], width: int = 1) -> None:
        self.terms[n : n + width] = terms
        self.extents[n : n + width] = extents

    def apply(self, operation: str, a: int, b: int) -> None:
        n, count = a % len(self.terms), len(self.terms)
        v, e = self.terms[n], self.extents[n]
        m = (n + 1) % count
        if operation == "split":
            c = (2, 3, 4, 8)[b % 4]
            self.replace(n, [v // c, v % c], [-(-e // c), c])
        elif operation == "fuse" and m == n + 1:
            self.replace(n, [v * self.extents[m] + self.terms[m]], [e * self.extents[m]], 2)
        elif operation == "swap":
            self.terms[n], self.terms[m] = self.terms[m], self.terms[n]
            self.extents[n], self.extents[m] = self.extents[m], self.extents[n]
        elif operation == "offset":
            self.replace(n, [v + b % 4], [e + b % 4])
        elif operation == "reverse":
            self.replace(n, [e - 1 - v], [e])
        elif operation == "skew" and m != n:
            self.replace(n, [(v + self.terms[m]) % e], [e])
        elif operation == "xor" and m != n:
            self.replace(n, [v ^ self.terms[m]], [1 << max((x - 1).bit_length() for x in (e, self.extents[m]))])
        elif operation in ("multiply", "rotate"):
            self.replace(n, [(v * (3, 5, 7)[b % 3] if operation == "multiply" else v + b) % e], [e])
        elif operation == "constant":
            self.replace(n, [v, t.index_const(b % 3)], [e, 3])
        elif operation == "scale":
            self.replace(n, [v * 2], [2 * e - 1])
        elif operation == "copy":
            self.replace(n, [v, v], [e, e])


@st.composite
def maps(draw: st.DrawFn) -> tuple[IndexMap, tuple[int, ...]]:
    """A map of up to five operations, and a small box."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12, 14, 16]), min_size=1, max_size=3)))
    names = ("i", "j", "k")[: len(shape)]
    building = Building([t.var(n) for n in names], list(shape))
    small = st.integers(0, 11)
    for operation in draw(st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=5)):
        building.apply(operation, draw(small), draw(small))
        if prod(building.extents) > 20_000:
            break
    return IndexMap(names, tuple(building.terms)), shape


def columns(points: list[tuple[int, ...]], rank: int) -> list[np.ndarray[Any, Any]]:
    table = np.array(points, np.int64).reshape(len(points), rank)
    return [table[:, n] for n in range(rank)]


@dataclass
class BruteForce:
    """What enumeration says about a map on a box."""

    m: IndexMap
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        self.points = list(itertools.product(*map(range, self.shape)))
        arrays = self.m.map_indices(columns(self.points, len(self.shape)))
        self.images: list[tuple[int, ...]] = [tuple(map(int, p)) for p in zip(*arrays, strict=True)]
        self.point_of = dict(zip(self.images, self.points, strict=True))
        self.injective = len(self.point_of) == len(self.points)

    def cells(self, declared: tuple[int, ...]) -> list[tuple[int, ...]]:
        return list(itertools.product(*map(range, declared)))
