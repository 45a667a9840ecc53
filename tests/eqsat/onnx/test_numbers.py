"""The numbers of ONNX operators over float64: attributes, their defaults, and what the functions of ONNX hold.

All of them are float32, whatever the data is. Opset 18 is the one for which onnxruntime has most of these operators in
float64: it takes the functions by which ONNX defines them.
"""

# feature: I1
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import AttributeProto
from onnx_cases import Use

from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Opaque, Program, Tensor
from eqsat.models.package import run_session, session
from eqsat.onnx.call import Call, Declined, schema
from eqsat.onnx.read import read
from eqsat.onnx.write import write

pytestmark = pytest.mark.onnx

Shapes = list[tuple[int, ...]]
ELEMENTS: Shapes = [(3, 40)]
OPERATORS: dict[str, tuple[int, Shapes, dict[str, Any]]] = {
    "LeakyRelu": (18, ELEMENTS, {}),
    "ThresholdedRelu": (18, ELEMENTS, {}),
    "Elu": (18, ELEMENTS, {}),
    "Selu": (18, ELEMENTS, {}),
    "HardSigmoid": (18, ELEMENTS, {}),
    "HardSwish": (18, ELEMENTS, {}),
    "Softplus": (18, ELEMENTS, {}),
    "Softsign": (18, ELEMENTS, {}),
    "Mish": (18, ELEMENTS, {}),
    "Sigmoid": (18, ELEMENTS, {}),
    "Gelu": (20, ELEMENTS, {"approximate": "tanh"}),
    "Swish": (24, ELEMENTS, {}),
    "LayerNormalization": (17, [(3, 4), (4,), (4,)], {}),
    "GroupNormalization": (21, [(2, 4, 3), (4,), (4,)], {"num_groups": 2, "stash_type": 11}),
    "BatchNormalization": (15, [(2, 3, 4), (3,), (3,), (3,), (3,)], {}),
    "Gemm": (13, [(2, 3), (3, 4), (2, 4)], {}),
}
"""An opset in which onnxruntime has the operator in float64, operands, and attributes that it needs."""


def use_of(op: str, given: bool) -> Use:
    """The operator with its float attributes left out, or given numbers that are not float32."""
    opset, shapes, attrs = OPERATORS[op]
    table = schema(op, opset).attributes.items()
    floats = {k: 0.3 for k, a in table if int(a.type) == AttributeProto.FLOAT and k != "momentum"}
    r = np.random.default_rng(0)
    operands: list[Any] = [3 * r.standard_normal(s) for s in shapes]
    if op.endswith("Normalization"):  # variances near to epsilon
        operands[0] *= 1e-3
        operands[-1] = np.abs(operands[-1]) * 1e-5
    return Use(op, operands, {**attrs, **(floats if given else {})}, opset)


def spelled(y: Tensor) -> Tensor:
    """The formula of an operator that is one node."""
    while isinstance(y.node, Opaque):
        assert y.node.definition is not None
        made = y.node.definition(*y.node.operands)
        y = made if isinstance(made, Tensor) else next(iter(made))
    return y


@pytest.mark.parametrize("given", (False, True))
@pytest.mark.parametrize("op", OPERATORS)
def test_numbers_are_float32(op: str, given: bool) -> None:
    use = use_of(op, given)
    model, feeds = use.model(), use.feeds("x")
    (want,) = run_session(session(model), feeds)
    program = read(model)
    formula = Program(program.inputs, {"y": spelled(program.outputs["y"])})
    for p in (program, formula):
        got = evaluate_outputs(p, feeds)["y"]
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-15)
    (again,) = run_session(session(write(program)), feeds)
    np.testing.assert_allclose(again, want, rtol=1e-13, atol=1e-15)


def test_defaults_are_those_of_the_opset() -> None:
    """Selu had other numbers before opset 6; what no schema knows has none."""
    assert [Call("Selu", (), opset=k).parameter("gamma") for k in (5, 6)] == [
        np.float32(1.0507),
        np.float32(1.05070102214813),
    ]
    with pytest.raises(Declined):
        Call("Swish", (), opset=23).parameter("alpha")
