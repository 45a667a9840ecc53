"""Which constants of two programs are the same, looking at their numbers only where two could be."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from eqsat.ir.dtypes import NDArray, is_float

SMALL = 16
"""Constants of fewer elements keep their numbers when a region is run: they may matter to it."""


@dataclass
class Constants:
    """Constants seen so far, by type and size, those of the first side as they stand."""

    known: dict[tuple[str, int], list[tuple[NDArray, int]]] = field(
        default_factory=dict[tuple[str, int], list[tuple[NDArray, int]]]
    )
    digests: dict[int, bytes] = field(default_factory=dict[int, bytes])

    def keys(self, array: NDArray, number: int, second: bool) -> tuple[Hashable, Hashable]:
        """A key for the constant, and one for its numbers in row-major order (None: they matter where it is used)."""
        kind = array.dtype.name, array.size
        like = self.known.setdefault(kind, [])
        content = number
        if array.size < SMALL:
            content = self._digest(array, number)
        elif not any(known == number for _, known in like):
            twin = next((n for other, n in like if self._same(array, number, other, n)), None) if second else None
            content = number if twin is None else twin
            like.append((array, content))
        exact = "constant", array.dtype.name, array.shape, content
        return exact, content if array.size >= SMALL and is_float(array.dtype.name) else None

    def _same(self, a: NDArray, number: int, b: NDArray, other: int) -> bool:
        return a is b or self._digest(a, number) == self._digest(b, other)

    def _digest(self, array: NDArray, number: int) -> bytes:
        if number not in self.digests:
            flat = np.ascontiguousarray(array).reshape(-1)
            self.digests[number] = hashlib.blake2b(flat.view(np.uint8).data, digest_size=16).digest()
        return self.digests[number]
