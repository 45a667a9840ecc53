"""Padding that an operator of ONNX does itself: its parameter `pads`, along the axes behind batch and channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsat.ir.dtypes import is_float, lowest
from eqsat.ir.tensors.tensor import Constant, Tensor
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined, ints


def zero(dtype: str) -> Any:
    """The number in padded cells of what is summed."""
    return 0


def least(dtype: str) -> Any:
    """The number in padded cells of a maximum of integers; onnxruntime tells other cells of a float window from padded
    ones: a window of -inf alone has the least finite maximum, and a NaN counts by its place."""
    return None if is_float(dtype) else lowest(dtype)


def _has_no_number(x: Tensor | None) -> bool:
    """Whether a constant holds a NaN or an infinity."""
    node = None if x is None else x.node
    return isinstance(node, Constant) and is_float(node.array.dtype.name) and not bool(np.isfinite(node.array).all())


@dataclass(frozen=True)
class Slot:
    """What `pads` puts around the first operand: cells that hold `fill`, a number of its type.

    counted: the parameter that says whether such cells are counted, as the others are. short: fewer than the window is
    long, and only where windows do not depend on whose cells they reach into.
    """

    fill: Callable[[str], Any]
    counted: str = ""
    short: bool = False

    def padded(self, call: Call, pads: Sequence[tuple[int, int]], fill: Term | None) -> Call:
        """The call with cells around its first operand as its own padding; Declined where it has no such."""
        x = call.tensors[0]
        count = len(pads) - 2
        value = self.fill(x.dtype)
        if value is None or fill is not t.const(value, x.dtype) or count < 1 or any(map(any, pads[:2])):
            raise Declined(call.op, "does not pad like this")
        if call.get("auto_pad", "NOTSET") not in ("NOTSET", "") or call.get("ceil_mode", 0):
            raise Declined(call.op, "its windows follow the operand's extents")
        if any(_has_no_number(y) for y in call.tensors[1:]):
            raise Declined(call.op, "its own padding is not multiplied by infinite weights")
        own = ints(call.get("pads", ()), call.op) or [0] * (2 * count)
        attrs = dict(call.attrs)
        if self.counted and not attrs.get(self.counted, 0):
            if any(own):
                raise Declined(call.op, "does not count its own padding")
            attrs[self.counted] = 1
        total = [n + p[side] for side in (0, 1) for n, p in zip(own[side * count :], pads[2:], strict=False)]
        taps = ints(call.get("kernel_shape", ()), call.op)
        if self.short and any(n >= k for n, k in zip(total, (*taps, *taps), strict=True)):
            raise Declined(call.op, "a window would lie in its padding")
        return replace(call, attrs={**attrs, "pads": tuple(total)})
