"""Positions of an operator without a formula as those of what it is defined as."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.flat.sizes import value
from eqsat.ir.tensors.tensor import Compute, node_order
from eqsat.ir.terms.term import Term
from eqsat.operators.definitions import Definition
from eqsat.operators.labels import CanonicalOp, Name


@dataclass(frozen=True)
class Places:
    """The places of tensors of a definition, at values of symbols."""

    definition: Definition
    numbers: Mapping[Term, int]

    def work(self, at: Mapping[Name, NDArray]) -> int:
        """How often the largest formula of the definition is evaluated."""
        pairs = [
            (d, at[name].size if n == 0 else 1) for name, x in self.definition.sizes.items() for n, d in enumerate(x)
        ]
        open_ = {d: count for d, count in pairs if isinstance(d, Term)}
        nodes = [x for x in node_order(self.definition.program.outputs.values()) if isinstance(x, Compute)]
        shapes = [(*x.outputs[0][0], *x.reduce) for x in nodes]
        counts = [[d if isinstance(d, int) else open_.get(d, 1) for d in shape] for shape in shapes]
        return max((math.prod(found) for found in counts), default=0)

    def cells(self, operator: CanonicalOp, order: tuple[int, ...], side: int, at: Mapping[Name, NDArray]) -> NDArray:
        """The flat cells of a tensor of an operator at positions of its bundles, in the shape that a definition has;
        side: its place among the operands, or -1."""
        names = [name for name in dict.fromkeys(self.definition.dims[side]) if name]
        found: NDArray = np.zeros((), np.int64)
        digits: dict[int, NDArray] = {}
        for axis, name in enumerate(names):
            place = at[name].reshape([-1 if n == axis else 1 for n in range(len(names))])
            for n in reversed([n for n in order if operator.labels[n].name == name]):
                extent = value(operator.labels[n].extent, self.numbers)
                digits[n], place = place % extent, place // extent
            assert not np.any(place), "a position is outside of its bundle"
        for n in order:
            found = found * value(operator.labels[n].extent, self.numbers) + digits[n]
        return np.broadcast_to(found, [at[name].size for name in names]).reshape(self._shape(side, at))

    def _shape(self, side: int, at: Mapping[Name, NDArray]) -> list[int]:
        shape: list[int] = []
        seen: dict[Name, int] = {}
        for name in self.definition.dims[side]:
            place = seen[name] = seen.get(name, -1) + 1
            extent = self.definition.sizes[name][place] if name else 1
            shape.append(extent if isinstance(extent, int) else at[name].size if place == 0 else 1)
        return shape
