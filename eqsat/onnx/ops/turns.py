"""Axes of images that may change places, with the numbers that an operator of ONNX has for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eqsat.ir.tensors.tensor import input
from eqsat.ir.terms.shape import Shape
from eqsat.onnx.call import Call, Declined, items_of

RESULT = -1
"""The place of the result among input slots."""
ALONE = ("kernel_shape", "strides", "dilations", "output_padding", "output_shape", "scales", "sizes")
"""Parameters with a number for each axis; `pads` has all that stand before, and then all that stand behind."""


@dataclass(frozen=True)
class Windows:
    """The axes of windows, in the operands of some slots and in the result: those behind the first two; or `named`, by
    the parameter `axes`. Each has its own parameters, by place, and is computed by itself, whatever the others are."""

    slots: tuple[int, ...] = (0,)
    named: bool = False

    def places(self, call: Call) -> Mapping[int, tuple[int, ...]]:
        """The axes of each slot, and of the result, that may change places; none where the call has no two."""
        rank = call.tensors[0].rank
        axes = tuple(range(2, rank))
        if self.named:
            axes = tuple(n for n in items_of(call.get("axes", ())) if isinstance(n, int) and 0 <= n < rank)
        operands = [x for n, x in enumerate(call.operands) if n in self.slots and x is not None]
        types = [kept for kept in call.types if kept is not None]
        if len(axes) < 2 or len(operands) != len(self.slots) or len(types) != 1:
            return {}
        if self.named and (len(call.tensors) > 1 or axes != tuple(items_of(call.get("axes", ())))):
            return {}
        if any(len(shape) != rank for shape in (types[0][0], *(x.shape for x in operands))):
            return {}
        return dict.fromkeys((*self.slots, RESULT), axes)

    def turned(self, call: Call, order: Sequence[int]) -> Call:
        """The call over stand-ins for its operands, whose window axes stand in an order; Declined where a parameter is
        not one number for each axis."""
        axes = self.places(call)[RESULT]
        operands = [
            x if x is None or n not in self.slots else input(f"turned{n}", _moved(x.shape, axes, order), x.dtype)
            for n, x in enumerate(call.operands)
        ]
        types = tuple(None if kept is None else (_moved(kept[0], axes, order), kept[1]) for kept in call.types)
        attrs = {name: self._parameter(call.op, name, value, order) for name, value in call.attrs.items()}
        return replace(call, operands=tuple(operands), attrs=attrs, types=types)

    def _parameter(self, op: str, name: str, value: Any, order: Sequence[int]) -> Any:
        if name not in (*ALONE, "pads"):
            return value
        numbers, count = items_of(value), len(order)
        if not numbers:
            return value
        if len(numbers) != (2 * count if name == "pads" else count):
            raise Declined(op, f"{name} has {len(numbers)} numbers for {count} axes")
        rows = (numbers[n : n + count] for n in range(0, len(numbers), count))
        return tuple(row[n] for row in rows for n in order)


def _moved(shape: Shape, axes: Sequence[int], order: Sequence[int]) -> Shape:
    found = list(shape)
    for place, n in zip(axes, order, strict=True):
        found[place] = shape[axes[n]]
    return tuple(found)
