"""Index maps point by point: quick values of terms, the cells that a map reaches, collisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from eqsat.ir.cached import cached_property
from eqsat.ir.dtypes import NDArray
from eqsat.ir.points import LARGEST_KEY, first_repeated, row_keys
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder

_CHUNK = 1 << 18


def plain_values(
    terms: Sequence[Term], env: Mapping[Term, NDArray], limits: Mapping[Term, int]
) -> list[NDArray] | None:
    """The values of terms at points given by flat arrays, which are below `limits` in magnitude, soon; None where 64
    bits may not hold a step, or an operation is other than linear, a division by a number, or of bits that are not
    negative."""
    done: dict[int, tuple[NDArray | int, int]] = {v.serial: (a, limits[v]) for v, a in env.items()}
    for node in postorder(*terms, done=env):
        op, args = node.op, [done[a.serial] for a in node.args]
        number = node.args[1].payload if len(args) == 2 and node.args[1].op == "const" else None
        if op == "const":
            found = node.payload, abs(node.payload)
        elif op == "sum":
            value, coefficients = node.payload
            size = abs(value) + sum([abs(c) * a[1] for c, a in zip(coefficients, args, strict=True)])
            if size >= LARGEST_KEY:
                return None
            for c, (a, _) in zip(coefficients, args, strict=True):
                value = value + (a if c == 1 else c * a)
            found = value, size
        elif op in _STEPS and number is not None and number > 0:
            found = _STEPS[op](args[0][0], number), (args[0][1] + 1 if op == "floordiv" else number)
        elif op in ("min", "max"):
            found = (np.minimum if op == "min" else np.maximum)(args[0][0], args[1][0]), max(args[0][1], args[1][1])
        elif op == "bitxor":
            found = np.bitwise_xor(args[0][0], args[1][0]), 2 * max(args[0][1], args[1][1]) + 1
        else:
            return None
        done[node.serial] = found
    size = max((len(a) for a in env.values()), default=1)
    return [np.broadcast_to(done[x.serial][0], (size,)) for x in terms]


_STEPS: dict[str, Callable[[NDArray | int, int], NDArray]] = {"floordiv": np.floor_divide, "mod": np.remainder}


@dataclass(frozen=True, eq=False)
class Enumerated:
    """A map with numbers for all extents, at every point of its box: one flat array for each output."""

    extents: tuple[int, ...]
    declared: tuple[int, ...]
    images: list[NDArray]

    @property
    def size(self) -> int:
        return prod(self.extents)

    @cached_property
    def coordinates(self) -> list[NDArray]:
        """The value of each input at every point."""
        return [a.ravel() for a in np.indices(self.extents)] if self.extents else []

    @cached_property
    def cells(self) -> NDArray:
        """A number for each point, equal for points of one cell: the flat physical cell where 64 bits hold it."""
        return row_key(self.images, self.declared)

    @cached_property
    def reached(self) -> NDArray:
        """A mark for each physical cell, in row-major order."""
        mask = np.zeros(prod(self.declared), np.bool_)
        mask[self.cells] = True
        return mask

    def missed(self) -> tuple[int, ...] | None:
        """The first cell that no point of an injective map reaches; None where there is none, or too many to number."""
        if prod(self.declared) >= LARGEST_KEY or self.size == prod(self.declared):
            return None
        if prod(self.declared) <= 16 * self.size + 1024:
            flat = int(np.argmin(self.reached))
        else:
            gaps = np.flatnonzero(np.sort(self.cells) != np.arange(self.size))
            flat = int(gaps[0]) if gaps.size else self.size
        return tuple(int(c) for c in np.unravel_index(flat, self.declared))

    def collision(self) -> tuple[int, int] | None:
        """Two flat points of one cell, or None."""
        return first_repeated(self.cells)


def row_key(rows: Sequence[NDArray], extents: Sequence[int]) -> NDArray:
    """A number for each column of values below the extents, equal where the columns are: their place in row-major order
    where 64 bits hold it."""
    size = len(rows[0]) if rows else 1
    if prod(extents) < LARGEST_KEY:
        key: NDArray = np.zeros(size, np.int64)
        for row, extent in zip(rows, extents, strict=True):
            key = key * extent + row
        return key
    return row_keys(rows, size)


def scan(
    outputs: Sequence[Term], inputs: Sequence[Term], extents: Sequence[int], declared: Sequence[int]
) -> tuple[list[int], list[int]] | None:
    """Two points of one cell, or None, found in blocks with one mark for each cell; for boxes too large to hold."""
    marks = np.zeros(prod(declared), np.bool_)

    def cells_from(start: int) -> tuple[list[NDArray], NDArray]:
        flat = np.arange(start, min(start + _CHUNK, prod(extents)), dtype=np.int64)
        points = [np.asarray(a) for a in np.unravel_index(flat, tuple(extents))]
        cells: NDArray = np.zeros(flat.size, np.int64)
        env = dict(zip(inputs, points, strict=True))
        for (value, _), extent in zip(evaluate_masked(list(outputs), env, load_table), declared, strict=True):
            cells = cells * extent + value
        return points, cells

    for start in range(0, prod(extents), _CHUNK):
        points, cells = cells_from(start)
        pair = first_repeated(cells)
        if pair is not None:
            return [int(a[pair[0]]) for a in points], [int(a[pair[1]]) for a in points]
        again = np.flatnonzero(marks[cells])
        if again.size:
            k = int(again[0])
            for before in range(0, start, _CHUNK):
                earlier, reached = cells_from(before)
                at = np.flatnonzero(reached == cells[k])
                if at.size:
                    return [int(a[at[0]]) for a in earlier], [int(a[k]) for a in points]
        marks[cells] = True
    return None
