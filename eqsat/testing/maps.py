"""Random index maps of every family, seeded and plain: for property tests, sweeps and benchmarks.

>>> from random import Random
>>> m, shape = random_map("rotate", Random(3), 1_000)
>>> len(m.inputs) == len(shape)
True

Every map is defined and not negative on its shape. About one map in ten is not injective, and about half of the
injective ones leave cells of their declared shape without a point.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from random import Random

from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.testing.map_families import FAMILIES, Shape, indices, map_of, some_shape

__all__ = ["MAP_FAMILIES", "OPERATIONS", "Building", "random_map"]

MAP_FAMILIES: tuple[str, ...] = (*FAMILIES, "chain")
"""The names that `random_map` takes; a chain is made of up to five operations of all kinds."""


def random_map(family: str, rng: Random, max_points: int = 4096) -> tuple[IndexMap, Shape]:
    """A map of one family and a shape of at most `max_points` points (their number is about log-uniform).

    family: one of MAP_FAMILIES. The same state of `rng` gives the same map in every process.

    >>> m, shape = random_map("xor", Random(0), 100)
    >>> m == random_map("xor", Random(0), 100)[0]
    True

    Raises KeyError for a family that does not exist.
    """
    return (_chain if family == "chain" else FAMILIES[family])(rng, max(max_points, 1))


OPERATIONS = (
    "split", "fuse", "swap", "offset", "reverse", "skew", "xor", "multiply", "rotate", "constant", "scale", "copy",
    "choose", "smaller",
)  # fmt: skip


class Building:
    """Outputs of a map under construction, with an extent for each; every operation keeps 0 <= output < extent."""

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = tuple(shape)
        self.terms = indices(shape)
        self.extents = list(shape)

    def result(self) -> tuple[IndexMap, Shape]:
        return map_of(self.shape, self.terms)

    def replace(self, n: int, terms: list[Term], extents: list[int], width: int = 1) -> None:
        self.terms[n : n + width] = terms
        self.extents[n : n + width] = extents

    def apply(self, operation: str, a: int, b: int) -> None:
        """One operation on output `a`, with a parameter `b`; one that does not fit there changes nothing."""
        n, count = a % len(self.terms), len(self.terms)
        v, e = self.terms[n], self.extents[n]
        m = (n + 1) % count
        w, f = self.terms[m], self.extents[m]
        if operation == "split":
            c = (2, 3, 4, 8)[b % 4]
            self.replace(n, [v // c, v % c], [-(-e // c), c])
        elif operation == "fuse" and m == n + 1:
            self.replace(n, [v * f + w], [e * f], 2)
        elif operation == "swap":
            self.terms[n], self.terms[m] = w, v
            self.extents[n], self.extents[m] = f, e
        elif operation == "offset":
            self.replace(n, [v + b % 4], [e + b % 4])
        elif operation == "reverse":
            self.replace(n, [e - 1 - v], [e])
        elif operation == "skew" and m != n:
            self.replace(n, [(v + w) % e], [e])
        elif operation == "xor" and m != n:
            self.replace(n, [v ^ w], [1 << max((x - 1).bit_length() for x in (e, f))])
        elif operation in ("multiply", "rotate"):
            self.replace(n, [(v * (3, 5, 7)[b % 3] if operation == "multiply" else v + b) % e], [e])
        elif operation == "constant":
            self.replace(n, [v, t.index_const(b % 3)], [e, 3])
        elif operation == "scale":
            self.replace(n, [v * 2], [2 * e - 1])
        elif operation == "copy":
            self.replace(n, [v, v], [e, e])
        elif operation == "choose":
            k = b % (e + 1)
            self.replace(n, [t.where(v < k, v + (e - k), v - k)], [e])
        elif operation == "smaller" and m != n:
            self.replace(n, [t.binary("min", v, w), t.binary("max", v, w)][: 1 + b % 2], [max(e, f)] * (1 + b % 2))


def _chain(rng: Random, most: int) -> tuple[IndexMap, Shape]:
    """Up to five operations of all kinds, one after the other."""
    building = Building(some_shape(rng, most, rng.randint(1, 3)))
    for _ in range(rng.randint(1, 5)):
        building.apply(rng.choice(OPERATIONS), rng.randrange(12), rng.randrange(12))
        if prod(building.extents) > 4 * max(most, 64):
            break
    return building.result()
