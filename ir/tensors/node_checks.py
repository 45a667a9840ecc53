"""What a body, a gather or a predicate may contain: checked once, where a node of a program is made; what no program
is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import cast

import numpy as np

from eqsat.ir.dtypes import INDEX, NDArray
from eqsat.ir.errors import ShapeError, TypeMismatch
from eqsat.ir.terms.shape import Shape, format_shape, same_dim
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder

OperandType = tuple[Shape, str]


def check_terms(what: str, roots: Sequence[Term], shape: Shape, reduce: Shape, operands: Sequence[OperandType]) -> None:
    """Refuse terms that use an axis, an operand or a name that the node does not have, or index by a hole.

    >>> from eqsat.ir.terms.term import ax, load
    >>> check_terms("compute", [load(0, [ax(0, 3)], "float32")], (3,), (), [((3, 4), "float32")])
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.ShapeError: compute: $0[i0] has 1 indices, operand 0 has shape (3, 4)
    """
    unknown: set[Term] = set()
    for node in postorder(*roots):
        if node.op == "axis":
            _check_axis(what, node, shape, reduce)
        elif node.op == "var":
            raise ShapeError(what, f"{node} is not an axis of the result", "use the axes that eq.compute hands over")
        elif node.op == "load":
            _check_load(what, node, operands)
        elif node.lanes > 1:
            raise TypeMismatch(what, f"{node} is a vector", "vectors belong to statements")
        if node.op == "hole" or any(a in unknown for a in node.args):
            if node.dtype == INDEX:
                raise TypeMismatch(what, f"the index {node} depends on a hole", "a hole has no known value")
            unknown.add(node)


check_once = lru_cache(maxsize=4096)(check_terms)
"""As `check_terms`, of tuples: nodes that look alike are looked at once, as those of equal blocks and rebuilt ones."""


def check_index_terms(what: str, roots: Sequence[Term]) -> None:
    """Refuse gathers and predicates that read data: only numbers, axes, symbols and constant tables may decide them."""
    for node in postorder(*roots):
        if node.op == "hole" or (node.op == "load" and not isinstance(node.payload, Table)):
            raise TypeMismatch(what, f"{node} decides where to read", "use eq.compute and x[eq.cast(i, 'index')]")


def _check_axis(what: str, node: Term, shape: Shape, reduce: Shape) -> None:
    role, number = node.payload
    n, box = int(number), shape if role == "ax" else reduce
    if n >= len(box) or not same_dim(box[n], node.args[0]):
        kind = "an axis" if role == "ax" else "a reduce axis"
        raise ShapeError(what, f"{node} of extent {node.args[0]} is not {kind} of {format_shape(box)}")


def _check_load(what: str, node: Term, operands: Sequence[OperandType]) -> None:
    source = node.payload
    if isinstance(source, Table):
        return
    if not isinstance(source, int) or not 0 <= source < len(operands):
        raise ShapeError(what, f"load {node} with {len(operands)} operands")
    shape, dtype = operands[source]
    if len(node.args) != len(shape):
        raise ShapeError(what, f"{node} has {len(node.args)} indices, operand {source} has shape {format_shape(shape)}")
    if node.dtype != dtype:
        raise TypeMismatch(what, f"{node} is {node.dtype}, operand {source} is {dtype}")


def no_program(given: object) -> TypeMismatch:
    """What to say of anything else that is taken for a program."""
    if isinstance(given, (str, os.PathLike)):
        fix = "eq.onnx.optimize(path) optimises a model, eq.onnx.load(path) reads its program"
        return TypeMismatch(f"{os.fspath(given)!r}", "is a path, not a program or a tensor", fix)
    if isinstance(given, np.ndarray):
        array = cast("NDArray", given)
        what = f"an array {array.dtype}{array.shape}"
        return TypeMismatch(what, "is not a program or a tensor", "eq.input(name, shape, dtype), or eq.constant(array)")
    if type(given).__name__ == "ModelProto":
        return TypeMismatch("a ModelProto", "is not a program or a tensor", "eq.onnx.optimize(model) takes models")
    text = repr(given)
    return TypeMismatch(text if len(text) < 80 else f"a {type(given).__name__}", "is not a program or a tensor")
