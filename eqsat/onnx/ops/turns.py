"""Axes of images that may change places, with the numbers that an operator of ONNX has for each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eqsat.ir.tensors.tensor import input
from eqsat.ir.terms.shape import Shape
from eqsat.onnx.call import Call, Declined, ints

RESULT = -1
"""The place of the result among input slots."""
ALONE = ("kernel_shape", "strides", "dilations", "output_padding", "output_shape")
"""Parameters with a number for each window axis; `pads` has all that stand before, and then all that stand behind."""


@dataclass(frozen=True)
class Windows:
    """The axes behind the first two are those of windows, in the operands of some slots and in the result. Each has its
    own parameters, by place, and is computed by itself, whatever the others are."""

    slots: tuple[int, ...] = (0,)

    def places(self, call: Call) -> Mapping[int, tuple[int, ...]]:
        """The axes of each slot, and of the result, that may change places; none where the call has no two."""
        count = call.tensors[0].rank - 2
        operands = [x for n, x in enumerate(call.operands) if n in self.slots and x is not None]
        types = [kept for kept in call.types if kept is not None]
        if count < 2 or len(operands) != len(self.slots) or len(types) != 1:
            return {}
        if any(len(shape) != count + 2 for shape in (types[0][0], *(x.shape for x in operands))):
            return {}
        axes = tuple(range(2, count + 2))
        return dict.fromkeys((*self.slots, RESULT), axes)

    def turned(self, call: Call, order: Sequence[int]) -> Call:
        """The call over stand-ins for its operands, whose window axes stand in an order; Declined where a parameter is
        not one number for each axis."""
        operands = [
            x if x is None or n not in self.slots else input(f"turned{n}", _moved(x.shape, order), x.dtype)
            for n, x in enumerate(call.operands)
        ]
        types = tuple(None if kept is None else (_moved(kept[0], order), kept[1]) for kept in call.types)
        attrs = {name: self._parameter(call.op, name, value, order) for name, value in call.attrs.items()}
        return replace(call, operands=tuple(operands), attrs=attrs, types=types)

    def _parameter(self, op: str, name: str, value: Any, order: Sequence[int]) -> Any:
        if name not in (*ALONE, "pads"):
            return value
        numbers, count = ints(value, op), len(order)
        if not numbers:
            return value
        if len(numbers) != (2 * count if name == "pads" else count):
            raise Declined(op, f"{name} has {len(numbers)} numbers for {count} axes")
        rows = (numbers[n : n + count] for n in range(0, len(numbers), count))
        return tuple(row[n] for row in rows for n in order)


def _moved(shape: Shape, order: Sequence[int]) -> Shape:
    return (*shape[:2], *(shape[2 + n] for n in order))
