"""Shape arithmetic on symbolic sizes: what Shape, Gather, Concat, ... of tiny tensors compute, as index terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eqsat.ir.errors import EqsatError
from eqsat.ir.flat.size_terms import as_extent, as_size
from eqsat.ir.flat.sizes import div
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import as_dim
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined
from eqsat.onnx.slice import taken

Sizes = np.ndarray[Any, np.dtype[np.object_]]


def size_array(items: Sequence[Any]) -> Sizes:
    """A vector of numbers and index terms."""
    result = np.empty(len(items), object)
    result[:] = list(items)
    return result


def sizes_of(call: Call, values: Mapping[int, Sizes]) -> Sizes | None:
    """The value of a node over symbolic sizes; `values` are the known operands by slot. None: not shape arithmetic."""
    try:
        return _value(call, values)
    except (EqsatError, ValueError, IndexError, TypeError):
        return None  # not a value that shape arithmetic has; the node then stays a barrier


def _value(call: Call, values: Mapping[int, Sizes]) -> Sizes | None:
    x, op = values.get(0), call.op
    if op == "Shape" and call.operands and call.operands[0] is not None:
        return size_array(call.operands[0].shape[slice(call.get("start", 0), call.get("end"))])
    if len(values) != len(call.tensors) or x is None:
        return None
    if op in ("Identity", "Cast"):
        return x if op == "Identity" or call.get("to") in (6, 7) else None
    if op == "Concat":
        return np.concatenate([np.atleast_1d(v) for v in values.values()])
    if op == "Gather":
        picked = values[1].astype(np.int64)
        return size_array([x[int(k)] for k in picked.reshape(-1)]).reshape(picked.shape) if x.ndim == 1 else None
    if op == "Squeeze":
        return x.reshape(()) if x.size == 1 else None
    if op == "Unsqueeze" or (op == "Reshape" and len(call.get("shape", ())) == 1):
        return x.reshape(-1)
    if op == "Slice":
        starts, ends, steps = (call.get(k, (1,) if k == "steps" else ()) for k in ("starts", "ends", "steps"))
        if x.ndim != 1 or not len(starts) == len(ends) == len(steps) == 1 or steps[0] == 0:
            return None
        if not all(isinstance(bound, int) for bound in (starts[0], ends[0])):
            return None
        first, count = taken(x.size, int(starts[0]), int(ends[0]), int(steps[0]))
        return x[first + int(steps[0]) * np.arange(count)]
    if op == "ReduceProd":
        total = size_array([t.product([t.as_index(v) for v in x.reshape(-1)])])
        return total if call.get("keepdims", 1) else total.reshape(())
    if op in ("Add", "Sub", "Mul", "Div") and len(values) == 2:
        function = {"Add": t.add, "Sub": t.sub, "Mul": t.mul, "Div": _quotient}[op]
        left, right = np.broadcast_arrays(x, values[1])
        pairs = zip(left.reshape(-1), right.reshape(-1), strict=True)
        return size_array([function(t.as_index(a), t.as_index(b)) for a, b in pairs]).reshape(left.shape)
    return None


def _quotient(a: Term, b: Term) -> Term:
    """An exact quotient; where there is a rest, rounding would have to be known."""
    quotient = div(as_size(as_dim(a)), as_size(as_dim(b)))
    if quotient is None:
        raise Declined("Div", f"{a} does not divide by {b}")
    return t.as_index(as_extent(quotient))


def _plain(v: Any) -> Any:
    number = t.int_value(v) if isinstance(v, Term) else int(v)
    return v if number is None else number


def as_parameter(value: Sizes) -> Any:
    """Sizes as a parameter of a call: numbers where they are numbers."""
    return _plain(value.reshape(-1)[0]) if value.ndim == 0 else tuple(_plain(v) for v in value)
