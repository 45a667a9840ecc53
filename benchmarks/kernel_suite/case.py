"""One way of moving data: what is read, the zeros around it, the split and the order of the axes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.tensor import Tensor, input

Shape = tuple[int, ...]
Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Case:
    """An input, cropped to half-open ranges, padded with zeros, split by a reshape, transposed, and stored densely.

    >>> pack = Case("pack", "c", "float32", (8, 30), (8, 2, 16), (1, 0, 2), pad=((0, 0), (0, 2)))
    >>> pack.out_shape, pack.moved
    ((2, 8, 16), 1984)
    """

    name: str
    family: str
    dtype: str
    shape: Shape
    reshape: Shape
    transpose: Shape
    crop: Ranges = ()
    pad: Ranges = ()

    @property
    def out_shape(self) -> Shape:
        """The shape of the result."""
        return tuple(self.reshape[axis] for axis in self.transpose)

    @property
    def out_dtype(self) -> str:
        """The element type of the result: that of the input."""
        return self.dtype

    @property
    def ranges(self) -> Ranges:
        """The part of the input that is read, in half-open ranges."""
        return self.crop or tuple((0, n) for n in self.shape)

    @property
    def pads(self) -> Ranges:
        """The zeros before and after each axis of what is read."""
        return self.pad or ((0, 0),) * len(self.shape)

    @property
    def moved(self) -> int:
        """The bytes read and written, each once."""
        read = prod(stop - start for start, stop in self.ranges)
        return (read + prod(self.out_shape)) * np.dtype(self.dtype).itemsize

    @property
    def run(self) -> int:
        """The bytes that lie side by side both in the input and in the result.

        >>> Case("heads", "g", "float32", (8, 197, 12, 64), (8, 197, 12, 64), (0, 2, 1, 3)).run
        256
        """
        size, last = np.dtype(self.dtype).itemsize, len(self.reshape) - 1
        for place, axis in enumerate(reversed(self.transpose)):
            if axis != last - place:
                break
            size *= self.reshape[axis]
        kept = zip(reversed(self.ranges), reversed(self.shape), reversed(self.pads), strict=True)
        whole = np.dtype(self.dtype).itemsize
        for (start, stop), extent, pad in kept:
            whole *= stop - start
            if (start, stop) != (0, extent) or pad != (0, 0):
                return min(size, whole)
        return size

    @property
    def groups(self) -> list[list[int]]:
        """The axes of the reshape that each axis of the padded input is split into."""
        found: list[list[int]] = []
        axis = 0
        for (start, stop), (before, after) in zip(self.ranges, self.pads, strict=True):
            group = [axis]
            axis += 1
            while prod(self.reshape[a] for a in group) < stop - start + before + after:
                group.append(axis)
                axis += 1
            found.append(group)
        found[-1].extend(range(axis, len(self.reshape)))
        return found

    def program(self) -> Tensor:
        """The case as a program of an input x."""
        y = input("x", self.shape, self.dtype)
        if self.crop:
            y = y.crop([start for start, _ in self.crop], [stop - start for start, stop in self.crop])
        if self.pad:
            y = y.pad(self.pad, 0)
        return y.reshape(self.reshape).permute_dims(self.transpose)

    def sample(self, rng: np.random.Generator) -> NDArray:
        """Random numbers of the input's shape."""
        if self.dtype == "int8":
            return rng.integers(-128, 128, self.shape, np.int8)
        return rng.random(self.shape, np.float32 if self.dtype != "float64" else np.float64).astype(self.dtype)

    def reference(self, x: NDArray) -> NDArray:
        """The result, made by numpy one step after the other."""
        y = x[tuple(slice(start, stop) for start, stop in self.ranges)]
        if self.pad:
            y = np.pad(y, self.pad)
        return np.ascontiguousarray(y.reshape(self.reshape).transpose(self.transpose))

    def copies(self, x: NDArray, out: NDArray) -> tuple[list[NDArray], list[tuple[NDArray, NDArray]]]:
        """The case as strided copies: views of `out` to fill with zeros, and pairs (view of `out`, view of `x`)."""
        source = x[tuple(slice(start, stop) for start, stop in self.ranges)]
        if not self.pad:
            return [], [(out, source.reshape(self.reshape).transpose(self.transpose))]
        target = out.transpose(np.argsort(self.transpose).tolist())
        axes = [
            _axis_pieces(n, before, [self.reshape[a] for a in group])
            for n, (before, _), group in zip(source.shape, self.pad, self.groups, strict=True)
        ]
        zeros: list[NDArray] = []
        for group, (_, borders) in zip(self.groups, axes, strict=True):
            for border in borders:
                index = [slice(None)] * len(self.reshape)
                index[group[0] : group[-1] + 1] = border
                zeros.append(target[tuple(index)])
        pairs: list[tuple[NDArray, NDArray]] = []
        for pieces in product(*(pieces for pieces, _ in axes)):
            part = source[tuple(piece.source for piece in pieces)]
            view = target[tuple(s for piece in pieces for s in piece.target)]
            pairs.append((view, part.reshape(view.shape)))
        return zeros, pairs


@dataclass(frozen=True)
class Piece:
    """A range of an axis of the input, and where it goes on the axes that this axis is split into."""

    source: slice
    target: list[slice]


def _axis_pieces(extent: int, before: int, group: list[int]) -> tuple[list[Piece], list[list[slice]]]:
    """How an axis of `extent` lies in `group` behind `before` zeros: its pieces, and the parts that hold zeros."""
    if len(group) == 1:
        borders = [slice(0, before), slice(before + extent, group[0])]
        return [Piece(slice(None), [slice(before, before + extent)])], [[s] for s in borders if s.start < s.stop]
    if extent == prod(group):
        return [Piece(slice(None), [slice(None)] * len(group))], []
    if before or len(group) > 2:
        raise ValueError(f"an axis padded in front and split into {group} is not spelled as strided copies")
    outer, block = group
    full, tail = divmod(extent, block)
    pieces: list[Piece] = []
    rest: list[list[slice]] = []
    if full:
        pieces.append(Piece(slice(0, full * block), [slice(0, full), slice(None)]))
    if tail:
        pieces.append(Piece(slice(full * block, extent), [slice(full, full + 1), slice(0, tail)]))
        rest.append([slice(full, full + 1), slice(tail, block)])
    if full + bool(tail) < outer:
        rest.append([slice(full + bool(tail), outer), slice(None)])
    return pieces, rest
