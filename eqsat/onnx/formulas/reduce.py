"""Reductions with the meaning of numpy: integers wrap, NaN is never lost, an empty box gives the neutral element.

onnxruntime's ReduceSum and ReduceProd of integers stop at the end of the type, its MatMul and Mul wrap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, helper

from eqsat.ir.dtypes import BOOL, is_float
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.tensors.run import neutral
from eqsat.ir.terms.shape import Shape, as_dim, size_term, static_shape
from eqsat.models.package import element_type
from eqsat.onnx.formulas.run_op import cast_name, run_op
from eqsat.onnx.kernels import via
from eqsat.onnx.size_names import size_vector
from eqsat.onnx.writer import Writer

OPERATORS = {"sum": "ReduceSum", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}
PAIRS = {"sum": "Add", "prod": "Mul"}
TOP = 1 << 63


@dataclass(frozen=True)
class Reduction:
    """What is reduced: a tensor, its axes `places` of the extents `reduce`, and the shape that is left."""

    name: str
    dtype: str
    kept: Shape
    reduce: Shape
    places: tuple[int, ...]
    combiner: str
    ordered: bool = False

    @property
    def may_be_empty(self) -> bool:
        low = Bounds().of(size_term(self.reduce))[0]
        return low is None or low < 1


def reduced(w: Writer, r: Reduction) -> str:
    """The name of the reduction; a program that came from a model has it as its runtime computes it."""
    if r.ordered and r.combiner in PAIRS and is_float(r.dtype):
        return _in_order(w, r)
    if not w.exact and (is_float(r.dtype) or r.dtype in ("int32", "int64")):
        return w.step(OPERATORS[r.combiner], [r.name], {"axes": r.places, "keepdims": 0}, r.dtype)
    if r.combiner in ("max", "min"):
        return _extreme(w, r)
    if is_float(r.dtype) or (r.combiner == "sum" and r.dtype not in ("int64", "uint64")):
        return run_op(w, OPERATORS[r.combiner], [r.name], r.dtype, {"axes": r.places, "keepdims": 0})
    if r.combiner == "sum":
        count = size_vector(w, (as_dim(size_term(r.reduce)),))
        ones = w.step("Expand", [w.constant(np.ones((1,), r.dtype)), count])
        return run_op(w, "MatMul", [_flat(w, r), ones], r.dtype)
    return _product(w, r)


def _extreme(w: Writer, r: Reduction) -> str:
    op, dtype = OPERATORS[r.combiner], r.dtype
    attrs = {"axes": r.places, "keepdims": 0}
    if dtype == "uint64":  # the order of int64 is that of uint64 with the first bit turned
        turn = w.constant(np.asarray(TOP, np.uint64))
        signed = cast_name(w, w.step("Add", [r.name, turn], {}, dtype), dtype, "int64")
        found = w.step(op, [signed], attrs, "int64")
        return w.step("Add", [cast_name(w, found, "int64", dtype), turn], {}, dtype)
    inner = via(op, dtype)
    found = w.step(op, [cast_name(w, r.name, dtype, inner)], attrs, inner)
    if inner not in (dtype, "uint8") and r.may_be_empty:
        end = w.constant(np.asarray(neutral(r.combiner, dtype), inner))
        found = w.step("Max" if r.combiner == "max" else "Min", [found, end], {}, inner)
    found = cast_name(w, found, inner, dtype)
    if not is_float(dtype):
        return found
    unknown = cast_name(w, w.step("IsNaN", [r.name], {}, dtype), BOOL, "uint8")
    some = cast_name(w, w.step("ReduceMax", [unknown], attrs, "uint8"), "uint8", BOOL)
    return run_op(w, "Where", [some, w.constant(np.asarray(np.nan, dtype)), found], dtype)


def _flat(w: Writer, r: Reduction) -> str:
    """The tensor with what is reduced as its one last axis, in the order of the reduce axes."""
    rank = len(r.kept) + len(r.places)
    perm = (*(n for n in range(rank) if n not in set(r.places)), *r.places)
    name = r.name if perm == tuple(range(rank)) else w.step("Transpose", [r.name], {"perm": perm}, r.dtype)
    if len(r.places) == 1:
        return name
    wanted = size_vector(w, (*r.kept, as_dim(size_term(r.reduce))))
    return w.step("Reshape", [name, wanted], {"allowzero": 1} if w.opset >= 14 else {})


def _product(w: Writer, r: Reduction) -> str:
    """A product of integers: halves are multiplied until one is left."""
    shape = static_shape(r.reduce)
    if shape is None:
        return _in_order(w, r)
    name, count, axis = _flat(w, r), int(np.prod(shape)), len(r.kept)

    def cut(start: int, end: int) -> str:
        return w.step("Slice", [name], {"starts": (start,), "ends": (end,), "axes": (axis,)}, r.dtype)

    while count > 1:
        half = count // 2
        parts = w.step("Mul", [cut(0, half), cut(half, 2 * half)], {}, r.dtype)
        if count % 2:
            parts = w.step("Concat", [parts, cut(2 * half, count)], {"axis": axis}, r.dtype)
        name, count = parts, half + count % 2
    return w.step("Squeeze", [name], {"axes": (axis,)}, r.dtype)


def _in_order(w: Writer, r: Reduction) -> str:
    """One element after another, in the order of the reduce axes: a Scan."""
    start = w.constant(np.asarray(neutral(r.combiner, r.dtype), r.dtype))
    state = w.step("Expand", [start, size_vector(w, r.kept)]) if r.kept else start
    names = {k: w.fresh(f"scan_{k}") for k in ("state", "cell", "next", "wide_state", "wide_cell", "wide_next")}
    element, inner = element_type(r.dtype), via(PAIRS[r.combiner], r.dtype)
    wide = element_type(inner)

    def node(op: str, ins: list[str], out: str, to: int = 0) -> NodeProto:
        made = helper.make_node(op, [names[n] for n in ins], [names[out]])
        made.attribute.extend([helper.make_attribute("to", to)] if to else [])
        return made

    if inner == r.dtype:
        body = [node(PAIRS[r.combiner], ["state", "cell"], "next")]
    else:
        body = [
            node("Cast", ["state"], "wide_state", to=wide),
            node("Cast", ["cell"], "wide_cell", to=wide),
            node(PAIRS[r.combiner], ["wide_state", "wide_cell"], "wide_next"),
            node("Cast", ["wide_next"], "next", to=element),
        ]
    ends = [helper.make_tensor_value_info(names[n], element, None) for n in ("state", "cell", "next")]
    graph = helper.make_graph(body, w.fresh("scan"), ends[:2], ends[2:])
    out, cells = w.fresh("scan"), _flat(w, r)
    if r.may_be_empty:  # onnxruntime does not scan nothing
        least = w.step("Expand", [start, size_vector(w, (*r.kept, 1))])
        cells = w.step("Concat", [least, cells], {"axis": len(r.kept)}, r.dtype)
    w.nodes.append(
        helper.make_node(
            "Scan", [state, cells], [out], w.fresh("Scan"), body=graph, num_scan_inputs=1,
            scan_input_axes=[len(r.kept)],
        )
    )  # fmt: skip
    return out
