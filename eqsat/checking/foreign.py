"""A stand-in for an operator that nobody can run: a random function that is as symmetric as its signature says.

It depends on the operator and its attributes. Along `map` axes it works position by position; of `equivariant` axes it
reads all positions alike, and its own; `reduce` axes it sums over; of `fixed` axes it reads a few positions that depend
on the position asked for. So whatever may cross the operator by its signature leaves the values as they are, and what
may not changes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from eqsat.checking.draws import mixed, seed_of
from eqsat.checking.part import Impossible, distinct
from eqsat.ir.dtypes import BOOL, NDArray, has_floats, is_float
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Opaque

TAPS = 3
"""How many positions of each fixed axis a cell depends on."""


def signature_of(node: Opaque) -> Signature:
    """The signature; without one, every axis is fixed and its own."""
    if node.signature is not None:
        return node.signature

    def own(side: str, ranks: Sequence[int]) -> tuple[tuple[tuple[str, ...], ...], ...]:
        return tuple(tuple((f"{side}{n}_{k}",) for k in range(rank)) for n, rank in enumerate(ranks))

    return Signature(own("i", [x.rank for x in node.operands]), own("o", [len(s) for s, _ in node.outputs]), {})


class Foreign:
    """The random function of one operator over shapes in numbers."""

    def __init__(
        self, node: Opaque, shapes: Sequence[tuple[int, ...]], outputs: Sequence[tuple[int, ...]], label: int
    ) -> None:
        self.node, self.shapes, self.outputs = node, shapes, outputs
        self.signature = signature_of(node)
        known = self.signature.check(shapes, outputs, node.op)
        self.extents = {name: int(d) for name, d in known.items() if isinstance(d, int)}
        places = self._places()
        self.order = {name: k for k, name in enumerate(places)}
        self.seed = seed_of(node.op, *_attributes(node, self.signature), label)
        self.summed = [x for x in self._operand_labels() if self.signature.role(x) in ("reduce", "equivariant")]
        self.inner = TAPS * prod(self.extents[x] for x in self.summed) * max(1, len(shapes))

    def _operand_labels(self) -> list[str]:
        return list(dict.fromkeys(x for dims in self.signature.operands for d in dims for x in d))

    def _places(self) -> list[str]:
        """Labels that are not `map`, in order of appearance: how they are told apart, whatever their names are."""
        every = [x for dims in (*self.signature.operands, *self.signature.outputs) for d in dims for x in d]
        return [x for x in dict.fromkeys(every) if self.signature.role(x) != "map"]

    def _where(self, k: int, points: NDArray) -> dict[str, NDArray]:
        """The position of every label of an output."""
        found: dict[str, NDArray] = {}
        left = points
        for labels, extent in zip(reversed(self.signature.outputs[k]), reversed(self.outputs[k]), strict=True):
            inner = left % max(1, extent)
            left = left // max(1, extent)
            for x in reversed(labels):
                found[x] = inner % max(1, self.extents[x])
                inner = inner // max(1, self.extents[x])
        return found

    def _word(self, k: int, where: Mapping[str, NDArray], count: int) -> NDArray:
        """A random word per point, from the positions on fixed axes."""
        word = mixed(np.full(count, (self.seed + k) % 2**64, np.uint64))
        for x in self.order:
            if x in where and self.signature.role(x) == "fixed":
                word = mixed(word ^ mixed(where[x].astype(np.uint64) + np.uint64(self.order[x] * 1_000_003)))
        return word

    def _index(self, n: int, tap: int, k: int, where: Mapping[str, NDArray], word: NDArray) -> NDArray:
        """Flat positions in an operand: points first, then one axis per summed label."""
        rank = 1 + len(self.summed)
        flat: NDArray = np.zeros((1,) * rank, np.int64)
        for labels in self.signature.operands[n]:
            inside: NDArray = np.zeros((1,) * rank, np.int64)
            for x in labels:
                extent = self.extents[x]
                if x in self.summed:
                    along = [1] * rank
                    along[1 + self.summed.index(x)] = extent
                    place = np.arange(extent, dtype=np.int64).reshape(along)
                elif self.signature.role(x) == "map" and x in where:
                    place = where[x].reshape(-1, *(1,) * (rank - 1))
                else:
                    salt = np.uint64(self.order.get(x, 0) * 7919 + tap * 104_729 + n * 31)
                    drawn = (mixed(word ^ mixed(salt)) % np.uint64(max(1, extent))).astype(np.int64)
                    place = drawn.reshape(-1, *(1,) * (rank - 1))
                inside = inside * extent + place
            size = prod(self.extents[x] for x in labels)
            flat = flat * size + inside
        return flat

    def _own(self, n: int, k: int, where: Mapping[str, NDArray], word: NDArray) -> NDArray | None:
        """Flat positions in an operand where all its summed labels stand at the output's own position."""
        flat: NDArray = np.zeros(word.size, np.int64)
        if not any(self.signature.role(x) == "equivariant" for d in self.signature.operands[n] for x in d):
            return None
        for labels in self.signature.operands[n]:
            inside: NDArray = np.zeros(word.size, np.int64)
            for x in labels:
                if x in where:
                    place = where[x]
                elif self.signature.role(x) == "fixed":
                    salt = np.uint64(self.order.get(x, 0) * 7919 + n * 31 + 17)
                    place = (mixed(word ^ mixed(salt)) % np.uint64(max(1, self.extents[x]))).astype(np.int64)
                else:
                    return None
                inside = inside * self.extents[x] + place
            flat = flat * prod(self.extents[x] for x in labels) + inside
        return flat

    def reads(self, k: int, points: NDArray) -> list[tuple[int, NDArray]]:
        """The operands' positions that some points of output k depend on."""
        where = self._where(k, points)
        word = self._word(k, where, points.size)
        found: list[tuple[int, NDArray]] = []
        for n, shape in enumerate(self.shapes):
            if not prod(shape):
                continue
            found += [(n, distinct(self._index(n, tap, k, where, word), prod(shape))) for tap in range(TAPS)]
            own = self._own(n, k, where, word)
            if own is not None:
                found.append((n, distinct(own, prod(shape))))
        return found

    def values(self, k: int, points: NDArray, cells: Callable[[int, NDArray], NDArray]) -> NDArray:
        """The random function at some points of output k."""
        where = self._where(k, points)
        word = self._word(k, where, points.size)
        total: NDArray = np.zeros((1,) * (1 + len(self.summed)))
        plain: NDArray = np.asarray((word >> np.uint64(11)).astype(np.float64) * 2.0**-53)
        with np.errstate(all="ignore"):
            for n, shape in enumerate(self.shapes):
                if not prod(shape):
                    continue
                for tap in range(TAPS):
                    weight = 1.0 + (seed_of(self.seed, n, tap) % 1000) / 1000
                    flat = self._index(n, tap, k, where, word)
                    if flat.size > 1 << 22:
                        raise Impossible(f"operator {self.node.op}", f"reads {flat.size} cells")
                    total = total + weight * _number(cells(n, flat))
                own = self._own(n, k, where, word)
                if own is not None:
                    plain = plain + np.tanh(_number(cells(n, own)) / 4)
            summed = np.tanh(total / 4)
            wide = (points.size, *(self.extents[x] for x in self.summed))
            summed = np.broadcast_to(summed, wide).sum(axis=tuple(range(1, len(wide))))
        return _typed(plain + summed, self.node.outputs[k][1])


def _number(values: NDArray) -> NDArray:
    """Values as floats; whole numbers stay within the range in which tanh tells them apart."""
    if has_floats(values):
        return values.astype(np.float64)
    return np.asarray(mixed(values.astype(np.int64).astype(np.uint64)) >> np.uint64(11), np.float64) * 2.0**-52 - 1.0


def _typed(values: NDArray, dtype: str) -> NDArray:
    if is_float(dtype):
        return values.astype(dtype)
    safe = np.nan_to_num(values, nan=0.0, posinf=1.0, neginf=-1.0)
    if dtype == BOOL:
        return np.asarray(np.floor(safe * 1e3) % 2 == 1)
    return np.asarray(np.floor(safe * 1e3) % 100).astype(dtype)


def _attributes(node: Opaque, signature: Signature) -> list[Any]:
    """The attributes; `axis` counts among the axes that are tied, so that it means the same in every layout."""
    found: list[Any] = []
    for name, value in sorted(node.attrs.items()):
        if name == "axis" and isinstance(value, int) and signature.operands:
            dims = signature.operands[0]
            tied = [n for n, d in enumerate(dims) if any(signature.role(x) != "map" for x in d)]
            n = value % len(dims) if dims else value
            value = ("tied", tied.index(n)) if n in tied else ("map", len(dims)) if tied else "free"
        found.append((name, cast(NDArray, value).tobytes() if isinstance(value, np.ndarray) else value))
    return found
