"""Models run by onnx.reference, which is numpy, with what onnxruntime adds to the operators of ONNX."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from onnx import ModelProto, helper

from eqsat.ir.dtypes import NDArray


def evaluator(model: ModelProto) -> Any:
    """A model ready to be run by `.run(None, feeds)`."""
    return import_module("onnx.reference").ReferenceEvaluator(model, new_ops=[_fused_matmul()])


def fused_matmul(a: NDArray, b: NDArray, attrs: dict[str, Any]) -> NDArray:
    """The product of batches of matrices: transA exchanges the last two axes of the left operand, transBatchA moves its
    first axis to the last place but one before that; alpha scales the product.

    >>> fused_matmul(np.ones((2, 3, 4)), np.ones((3, 5, 4)), {"transBatchA": 1, "transB": 1}).shape
    (3, 2, 5)
    """

    def placed(x: NDArray, side: str) -> NDArray:
        x = np.moveaxis(x, 0, -2) if attrs.get(f"transBatch{side}") else x
        return np.swapaxes(x, -1, -2) if attrs.get(f"trans{side}") else x

    product = placed(a, "A") @ placed(b, "B")
    return (product * np.asarray(attrs.get("alpha", 1.0), product.dtype)).astype(a.dtype)


@cache
def _fused_matmul() -> Any:
    """The operator, as a class of onnx.reference."""
    base: Any = import_module("onnx.reference.op_run").OpRun

    def run(self: Any, a: NDArray, b: NDArray, **_: Any) -> tuple[NDArray]:
        return (fused_matmul(a, b, {x.name: helper.get_attribute_value(x) for x in self.onnx_node.attribute}),)

    return type("FusedMatMul", (base,), {"op_domain": "com.microsoft", "_run": run})
