"""Sizes while the model runs: numbers, extents that a tensor of the model has, and arithmetic on these."""

from __future__ import annotations

import numpy as np

from eqsat.ir.errors import FrontendError
from eqsat.ir.terms.shape import Dim, Shape, as_dim
from eqsat.ir.terms.term import Term
from eqsat.onnx.writer import Writer


def size_scalar(w: Writer, d: Dim) -> str:
    """The name of a size as an int64 of rank 0."""
    if isinstance(d, int):
        return w.constant(np.asarray(d, np.int64))
    if d not in w.sizes:
        found = w.place_of(d)
        if found is not None:
            name, axis = found
            place = w.constant(np.asarray(axis, np.int64))
            w.sizes[d] = w.step("Gather", [w.step("Shape", [name]), place], {"axis": 0})
        elif d.op == "sym":
            raise FrontendError(f"size {d}", "no tensor of the model has it", "give the symbol a value")
        else:
            w.sizes[d] = w.number(d)
    return w.sizes[d]


def size_vector(w: Writer, shape: Shape) -> str:
    """The name of the sizes of a shape as a vector of int64."""
    numbers = [d for d in shape if isinstance(d, int)]
    if len(numbers) == len(shape):
        return w.constant(np.asarray(numbers, np.int64))
    parts = [_vector(w, d) for d in shape]
    return parts[0] if len(parts) == 1 else w.step("Concat", parts, {"axis": 0})


def _vector(w: Writer, d: Dim) -> str:
    """The name of a size as a vector of one int64."""
    if isinstance(d, int):
        return w.constant(np.asarray([d], np.int64))
    if d not in w.vectors:
        w.vectors[d] = _made_vector(w, d)
    return w.vectors[d]


def _made_vector(w: Writer, d: Term) -> str:
    found = w.place_of(d)
    if found is not None:
        name, axis = found
        return w.step("Gather", [w.step("Shape", [name]), w.constant(np.asarray([axis], np.int64))], {"axis": 0})
    if d.op not in ("prod", "sum"):
        return w.step("Reshape", [size_scalar(w, d), w.constant(np.asarray([1], np.int64))])
    constant, coefficients = d.payload if d.op == "sum" else (0, (1,) * len(d.args))
    op = "Mul" if d.op == "prod" else "Add"
    parts = [(c, _vector(w, as_dim(a))) for c, a in zip(coefficients, d.args, strict=True)]
    scaled = [x if c == 1 else w.step("Mul", [x, w.constant(np.asarray([c], np.int64))]) for c, x in parts]
    total = scaled[0]
    for x in [*scaled[1:], *([w.constant(np.asarray([constant], np.int64))] if constant else [])]:
        total = w.step(op, [total, x])
    return total
