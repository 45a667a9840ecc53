"""Operators that onnxruntime adds to those of ONNX, by schemas as onnx would have them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from onnx import helper
from onnx.defs import OpSchema

MICROSOFT = "com.microsoft"
_FLAGS = ("transA", "transB", "transBatchA", "transBatchB")


@lru_cache(maxsize=64)
def added(op: str, domain: str) -> Any:
    """The schema of an operator that is not of ONNX; None where nothing is known of it.

    >>> added("FusedMatMul", MICROSOFT).since_version, added("FusedMatMul", "") is None
    (1, True)
    """
    return _fused_matmul() if (domain, op) == (MICROSOFT, "FusedMatMul") else None


def _fused_matmul() -> Any:
    """A product of operands that may be turned: transA and transB exchange the last two axes, transBatchA and
    transBatchB move the first axis to the last place but one before that."""
    places = [OpSchema.FormalParameter(name, "T") for name in ("A", "B")]
    numbers = [OpSchema.Attribute(name, helper.make_attribute(name, 0)) for name in _FLAGS]
    return OpSchema(
        "FusedMatMul",
        MICROSOFT,
        1,
        inputs=places,
        outputs=[OpSchema.FormalParameter("Y", "T")],
        type_constraints=[("T", ["tensor(float16)", "tensor(float)", "tensor(double)"], "")],
        attributes=[OpSchema.Attribute("alpha", helper.make_attribute("alpha", 1.0)), *numbers],
    )
