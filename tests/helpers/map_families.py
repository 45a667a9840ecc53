"""Random index maps of every family, and brute force to compare them with."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from eqsat.ir.layouts.index_map import IndexMap
from eqsat.testing.maps import OPERATIONS, Building


@st.composite
def maps(draw: st.DrawFn) -> tuple[IndexMap, tuple[int, ...]]:
    """A map of up to five operations, and a small box."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12, 14, 16]), min_size=1, max_size=3)))
    building = Building(shape)
    small = st.integers(0, 11)
    for operation in draw(st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=5)):
        before = list(building.terms), list(building.extents)
        building.apply(operation, draw(small), draw(small))
        if prod(building.extents) > 20_000:
            building.terms, building.extents = before
    return building.result()


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
