"""What onnxruntime's CPU kernels lack of an operator's types, and a type in which the operator means the same.

Integers wrap, so that a sum or product modulo 2**64 is one modulo 2**8; a choice or an order survives every type that
holds the values. Arithmetic of float16 goes through float32, explicitly: onnxruntime would compute chains of operators
without rounding in between, and 60000 + 60000 - 60000 is infinite in float16.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from eqsat.models.package import element_type
from eqsat.onnx.call import Call

_HALF = {"float16": "float32"}
_SHORT = {"int16": "int32", "uint16": "int32"}
_TRUTH = {"bool": "uint8"}
_SUMS = {**dict.fromkeys(("int8", "uint8", "int16", "uint16", "int32", "uint32"), "int64"), **_HALF}
_ORDER = {**_TRUTH, **_SHORT, "uint32": "int64"}
_CHOICE = {**_TRUTH, **_SHORT, "uint64": "int64"}
ARITHMETIC = (
    "Add", "Sub", "Mul", "Div", "Mod", "Pow", "Exp", "Log", "Sqrt", "Tanh", "Erf", "Sin", "Cos", "Tan", "Asin", "Acos",
    "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "ReduceSum", "ReduceProd",
)  # fmt: skip
VIA: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(ARITHMETIC, _HALF),
    "IsInf": _HALF,
    "ReduceSum": _SUMS,
    **dict.fromkeys(("ReduceMax", "ReduceMin"), _ORDER),
    **dict.fromkeys(("Less", "LessOrEqual"), _TRUTH),
    **dict.fromkeys(("Max", "Min"), _SHORT),
    "Pad": _SHORT,
    "Where": _CHOICE,
    # The kernels for uint32 and uint64 fail where nothing is summed.
    "MatMul": {"int8": "int32", "uint8": "int32", **_SHORT, "uint32": "int64", "uint64": "int64"},
}
_MISSING: Mapping[str, Collection[str]] = {
    **{op: VIA[op] for op in ("Pad", "Where", "Max", "Min")},
    "Clip": _SHORT,
    "Gemm": ("int32", "int64", "uint32", "uint64"),
    "FusedMatMul": ("float16",),
    "Trilu": ("int8", "int16", "uint8", "uint16", "uint32", "uint64"),
    **dict.fromkeys(
        ("DepthToSpace", "SpaceToDepth"), ("bool", "int16", "int32", "int64", "uint16", "uint32", "uint64")
    ),
    **dict.fromkeys(
        (
            "Acos",
            "Acosh",
            "Asin",
            "Asinh",
            "Atan",
            "Atanh",
            "Cosh",
            "Elu",
            "Erf",
            "Gelu",
            "GlobalAveragePool",
            "GlobalMaxPool",
            "HardSigmoid",
            "HardSwish",
            "LeakyRelu",
            "Mean",
            "Mish",
            "Selu",
            "Sinh",
            "Softplus",
            "Softsign",
            "Tan",
            "ThresholdedRelu",
        ),
        ("float64",),
    ),
    "PRelu": ("float64", "int32", "int64", "uint32", "uint64"),
    "Relu": ("int16", "int64"),
    **dict.fromkeys(
        ("ReduceL1", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
        ("uint32", "uint64"),
    ),
}
"""Types that the schema of an operator allows and for which there is no kernel at all."""
_BROADCAST = ("Add", "Sub", "Mul", "Div", "Pow", "PRelu", "And", "Or", "Xor", "Greater", "Less", "Equal")
_LATER: Mapping[str, tuple[int, Collection[str]]] = {
    **dict.fromkeys((*_BROADCAST, "Gemm", "Dropout", "BatchNormalization"), (7, ())),
    **dict.fromkeys(("Max", "Min"), (8, ("float64",))),
    "Erf": (13, ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")),
}
"""The opset from which on operators that are older have kernels for some types; none named: for all."""
_FLOATS = ("float16", "float32", "float64")
_NATIVE: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("MatMul",), ("int32", "int64", *_FLOATS)),
    **dict.fromkeys(("Einsum",), ("int32", "int64", *_FLOATS)),
    **dict.fromkeys(("Gemm", "Softmax"), _FLOATS),
    **dict.fromkeys(("FusedMatMul",), ("float32", "float64")),
    **dict.fromkeys(("Relu",), ("int8", "int32", *_FLOATS)),
    **dict.fromkeys(("Abs", "Neg", "Not", "And", "Or", "Xor", "Floor", "Ceil", "Round", "IsNaN", "Equal"), ()),
}
"""The types of kernels; empty: all that the operator has."""
_COMPOSED = (
    "Sigmoid", "Softplus", "Softsign", "Elu", "Selu", "LeakyRelu", "ThresholdedRelu", "Shrink", "HardSigmoid",
    "HardSwish", "Mish", "Reciprocal", "Sign",
)  # fmt: skip
_SINGLE = ("Celu", "Mean", "ReduceL1", "ReduceSumSquare", "ReduceMean", "PRelu", "Sum", "Gelu", "Swish")
_FUNCTIONS = ("Erf", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh")


def runs(op: str, dtype: str, opset: int) -> bool:
    """Whether onnxruntime has an operator for a data type that the schema allows: no rewrite may bring in another.

    >>> runs("Pad", "int32", 17), runs("Pad", "int16", 17), runs("Mul", "float32", 6)
    (True, False, False)
    """
    first, types = _LATER.get(op, (0, ()))
    late = opset < first and (not types or dtype in types)
    return not late and dtype not in _MISSING.get(op, ())


def means_the_formula(call: Call) -> bool:
    """Whether onnxruntime computes what the formula of a call says: for every value, and with a kernel for its type.

    A maximum over axes loses NaN there, a sum of integers does not wrap, a float outside of the integer type is cast to
    anything, and the least integer divided by -1 ends the process; such formulas are written in several operators.

    >>> from eqsat.ir.tensors.tensor import input
    >>> x, y = input("x", (2,), "int16"), input("y", (2,), "float32")
    >>> [means_the_formula(Call(op, (z,))) for op in ("Relu", "Abs", "ReduceMax") for z in (x, y)]
    [False, True, True, True, False, False]
    """
    if not call.tensors:
        return True
    op, dtype = call.op, call.tensors[-1].dtype
    if op == "Cast":
        return not (dtype in _FLOATS and call.attrs.get("to") not in _float_numbers())
    if op in ("Div", "Mod", "Pow"):
        return dtype in ("float32", "float64")
    if op in ("ReduceSum", "ReduceProd"):
        return dtype in ("float32", "float64")
    if op in ("ReduceMax", "ReduceMin"):
        return dtype not in (*_FLOATS, "uint64") and dtype not in VIA[op]
    if dtype in VIA.get(op, {}):
        return False
    if op in _COMPOSED or op in _SINGLE:
        return dtype == "float32" or (dtype == "float64" and op in _COMPOSED)
    if op in _FUNCTIONS and dtype == "float64":
        return False
    known = _NATIVE.get(op, ())
    return not known or dtype in known


def _float_numbers() -> tuple[int, ...]:
    return tuple(element_type(d) for d in (*_FLOATS, "bool"))


def via(op: str, dtype: str) -> str:
    """The type in which onnxruntime runs an operator on a type.

    >>> via("Where", "bool"), via("Add", "int8"), via("ReduceSum", "int8")
    ('uint8', 'int8', 'int64')
    """
    return VIA.get(op, {}).get(dtype, dtype)
