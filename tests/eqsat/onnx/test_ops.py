"""Every operator of the table: its formula is what onnxruntime computes, and writing gives the operator back."""

# feature: I1
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import ModelProto, TensorProto, helper, numpy_helper  # noqa: E402

from eqsat.ir.tensors.run import evaluate_outputs  # noqa: E402
from eqsat.ir.tensors.tensor import Opaque  # noqa: E402
from eqsat.models.package import element_type, run_model  # noqa: E402
from eqsat.onnx.check import distance  # noqa: E402
from eqsat.onnx.ops.table import operator_names  # noqa: E402
from eqsat.onnx.read import read  # noqa: E402
from eqsat.onnx.write import write  # noqa: E402

pytestmark = pytest.mark.onnx

F = "float32"


@dataclass
class Case:
    """One node: operand shapes, constant inputs by slot, attributes."""

    op: str
    shapes: list[tuple[int, ...]]
    constants: dict[int, Any] = field(default_factory=dict[int, Any])
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])
    opset: int = 17
    dtype: str | list[str] = F
    outputs: int = 1
    positive: bool = False
    kept: bool = True  # writing gives the same operator back
    gone: bool = False  # reading makes a constant or nothing of it

    def __str__(self) -> str:
        return f"{self.op}-{self.opset}-{len(self.shapes)}"


def C(op: str, *shapes: tuple[int, ...], **more: Any) -> Case:
    return Case(op, list(shapes), **more)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


UNARY = (
    "Exp",
    "Tanh",
    "Erf",
    "Sin",
    "Cos",
    "Tan",
    "Atan",
    "Sinh",
    "Asinh",
    "Floor",
    "Ceil",
    "Round",
    "Neg",
    "Abs",
    "Reciprocal",
    "Relu",
    "Sigmoid",
    "HardSwish",
    "Softplus",
    "Softsign",
    "Sign",
    "LeakyRelu",
    "ThresholdedRelu",
    "Elu",
    "Selu",
    "Celu",
    "HardSigmoid",
    "Shrink",
    "IsNaN",
    "IsInf",
    "Identity",
)
BINARY = (
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Max",
    "Min",
    "Sum",
    "Mean",
    "PRelu",
    "Equal",
    "Less",
    "LessOrEqual",
    "Greater",
    "GreaterOrEqual",
)

NO_RUNTIME = ("CausalConvWithState", "LinearAttention")
"""Neither onnxruntime nor onnx.reference has these."""

CASES: list[Case] = [
    *(C(op, (2, 3), gone=op == "Identity") for op in UNARY),
    *(C(op, (2, 3), positive=True) for op in ("Log", "Sqrt")),
    *(C(op, (2, 3), (3,)) for op in BINARY),
    *(C(op, (4, 1, 3), (2, 1)) for op in BINARY if op != "PRelu"),
    *(C(op, (2, 3), (3,), dtype="int64") for op in ("Add", "Sub", "Mul", "Max", "Min", "Equal", "Less")),
    C("Div", (6,), (6,), dtype="int32", positive=False),
    C("Mod", (6,), (6,), dtype="int32", attrs={"fmod": 1}),
    C("Mod", (6,), (6,), dtype="int32"),
    C("Mod", (6,), (6,), attrs={"fmod": 1}, positive=True),
    C("Pow", (2, 3), (3,), positive=True),
    C("Pow", (2, 3), (), dtype=[F, "int32"], positive=True),
    *(C(op, (2, 3), attrs={"alpha": 0.3}) for op in ("LeakyRelu", "Elu", "Celu", "ThresholdedRelu")),
    C("HardSigmoid", (2, 3), attrs={"alpha": 0.3, "beta": 0.4}),
    C("Gelu", (2, 3), opset=20),
    C("Gelu", (2, 3), opset=20, attrs={"approximate": "tanh"}),
    *(C(op, (2, 3), (3,), dtype="bool") for op in ("And", "Or", "Xor")),
    C("Not", (2, 3), dtype="bool"),
    *(C(op, (2, 3), (3,), dtype="int32", opset=18) for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
    C("BitwiseNot", (2, 3), dtype="int32", opset=18),
    C("BitShift", (2, 3), (3,), dtype="uint32", attrs={"direction": "LEFT"}),
    *(C(op, (2, 3), positive=True) for op in ("Acosh", "Cosh")),
    C("Mish", (2, 3), opset=18),
    C("Where", (2, 3), (3,), (2, 1), dtype=["bool", F, F]),
    C("Max", (2, 3), (3,), (2, 1)),
    C("Sum", (2, 3), (3,), (2, 3), (1,)),
    C("Clip", (2, 3), constants={1: np.float32(-0.5), 2: np.float32(0.5)}),
    C("Clip", (2, 3), constants={2: np.float32(0.5)}),
    C("Clip", (2, 3), attrs={"min": -0.5, "max": 0.25}, opset=6),
    C("Clip", (2, 3), (), ()),
    *(C("Cast", (2, 3), attrs={"to": k}, positive=True) for k in (2, 6, 9, 10, 11)),
    C("Cast", (2, 3), attrs={"to": 1}, gone=True),
    C("CastLike", (2, 3), (2,), dtype=[F, "int32"], kept=False),
    C("Dropout", (2, 3), opset=9, gone=True),
    C("Dropout", (2, 3), gone=True),
    C("Transpose", (2, 3, 4), attrs={"perm": [2, 0, 1]}),
    C("Transpose", (2, 3, 4)),
    C("Reshape", (2, 3, 4), constants={1: ints(0, -1)}),
    C("Reshape", (2, 3, 4), constants={1: ints(4, 6)}),
    C("Flatten", (2, 3, 4), attrs={"axis": 2}),
    C("Flatten", (2, 3, 4), attrs={"axis": -1}),
    C("Squeeze", (1, 3, 1), constants={1: ints(0)}),
    C("Squeeze", (1, 3, 1), attrs={"axes": [2]}, opset=11),
    C("Unsqueeze", (3, 4), constants={1: ints(0, 3)}),
    C("Unsqueeze", (3, 4), attrs={"axes": [1]}, opset=11),
    C("Expand", (3, 1), constants={1: ints(2, 1, 4)}),
    C("Tile", (2, 3), constants={1: ints(2, 3)}),
    C("Pad", (2, 3), constants={1: ints(1, 0, 0, 2)}),
    C("Pad", (2, 3), constants={1: ints(1, 0, 0, 2), 2: np.float32(2.5)}),
    C("Pad", (2, 3), constants={1: ints(-1, 0, 0, 2)}),
    C("Pad", (4, 5), constants={1: ints(1, 2, 1, 0)}, attrs={"mode": "reflect"}),
    C("Pad", (4, 5), constants={1: ints(1, 2, 1, 0)}, attrs={"mode": "edge"}),
    C("Pad", (4, 5), constants={1: ints(1, 2, 1, 0)}, attrs={"mode": "wrap"}, opset=19),
    C("Pad", (2, 3), constants={1: ints(1, 1), 2: np.float32(0), 3: ints(1)}, opset=18),
    C("Pad", (2, 3), attrs={"pads": [0, 1, 1, 1], "value": 1.5}, opset=9),
    C("Slice", (6, 5), constants={1: ints(1, 4), 2: ints(100, 0), 3: ints(0, 1), 4: ints(2, -2)}),
    C("Slice", (6, 5), constants={1: ints(-3), 2: ints(-1)}),
    C("Slice", (6, 5), constants={1: ints(-1), 2: ints(-(2**62)), 3: ints(1), 4: ints(-1)}),
    C("Slice", (6, 5), constants={1: ints(4), 2: ints(2)}),
    C("Slice", (6, 5), attrs={"starts": [1], "ends": [5], "axes": [0]}, opset=9),
    C("Split", (6, 4), constants={1: ints(1, 3, 2)}, outputs=3),
    C("Split", (6, 4), attrs={"axis": 1}, outputs=2),
    C("Split", (6, 4), attrs={"split": [2, 4]}, outputs=2, opset=11),
    C("Split", (7, 4), attrs={"num_outputs": 3}, outputs=3, opset=18),
    C("Concat", (2, 3), (2, 1), (2, 3), attrs={"axis": 1}),
    C("Concat", (2, 3), attrs={"axis": -2}, kept=False),
    C("Gather", (5, 4), constants={1: ints(3, 0, 0, 4)}),
    C("Gather", (5, 4), constants={1: ints(0, -2, 1)}, attrs={"axis": 1}),
    C("Gather", (5, 4), constants={1: np.array([[0, 2], [1, 3]], np.int32)}, attrs={"axis": 0}),
    C("Gather", (5, 4), constants={1: np.array(2, np.int64)}, attrs={"axis": 1}),
    C("DepthToSpace", (2, 12, 2, 3), attrs={"blocksize": 2}),
    C("DepthToSpace", (2, 12, 2, 3), attrs={"blocksize": 2, "mode": "CRD"}),
    C("SpaceToDepth", (2, 3, 4, 6), attrs={"blocksize": 2}),
    C("Trilu", (3, 4), constants={1: np.array(1, np.int64)}),
    C("Trilu", (2, 3, 4), attrs={"upper": 0}),
    C("ConstantOfShape", constants={0: ints(20, 30)}, attrs={"value": numpy_helper.from_array(np.array([2.5], F))}),
    C("Shape", (2, 3), gone=True),
    C("Size", (2, 3), gone=True),
    C("Range", constants={0: np.array(1), 1: np.array(9), 2: np.array(3)}, gone=True),
    C("Range", constants={0: np.array(6, F), 1: np.array(-1, F), 2: np.array(-2, F)}, gone=True),
    C("Constant", attrs={"value_floats": [1.0, 2.0]}, gone=True),
    *(C(op, (2, 3, 4), attrs={"axes": [0, -1], "keepdims": 0}, positive=True) for op in (
        "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum",
        "ReduceLogSumExp",
    )),
    C("ReduceSum", (2, 3, 4), constants={1: ints(1)}),
    C("ReduceSum", (2, 3, 4)),
    C("ReduceSum", (2, 3, 4), attrs={"axes": [2], "keepdims": 0}, opset=11),
    C("ReduceMean", (2, 3, 4), constants={1: ints(1, 2)}, opset=18),
    C("ReduceMax", (2, 3, 4), dtype="int32", attrs={"axes": [1]}),
    C("GlobalAveragePool", (2, 3, 4, 5)),
    C("GlobalMaxPool", (2, 3, 4, 5)),
    C("MatMul", (2, 3), (3, 4)),
    C("MatMul", (5, 1, 2, 3), (4, 3, 4)),
    C("MatMul", (3,), (3, 4)),
    C("MatMul", (2, 3), (3,)),
    *(C("Gemm", (2, 3)[::-1 if ta else 1], (3, 4)[::-1 if tb else 1], (4,), attrs={"transA": ta, "transB": tb})
      for ta in (0, 1) for tb in (0, 1)),
    C("Gemm", (2, 3), (3, 4)),
    C("Gemm", (2, 3), (3, 4), (2, 1), attrs={"alpha": 0.5, "beta": 2.0}),
    C("Einsum", (2, 3, 4), (4, 3, 5), attrs={"equation": "bij,jik->kb"}),
    C("Einsum", (2, 3), attrs={"equation": "ij->j"}),
    C("Einsum", (2, 3), (3, 2), attrs={"equation": "ij,jk"}),
    C("Softmax", (2, 3, 4), attrs={"axis": 1}),
    C("Softmax", (2, 3, 4), opset=11),
    C("LogSoftmax", (2, 3, 4)),
    C("Hardmax", (2, 3, 4)),
    C("CumSum", (2, 3), constants={1: np.array(1, np.int64)}, attrs={"reverse": 1}),
    C("LpNormalization", (2, 3), attrs={"axis": 1, "p": 2}),
    C("MeanVarianceNormalization", (2, 3, 4, 5)),
    C("ArgMax", (2, 3, 4), attrs={"axis": 1}),
    C("ArgMin", (2, 3, 4), attrs={"axis": -1, "keepdims": 0}),
    C("TopK", (2, 5), constants={1: ints(2)}, outputs=2),
    C("LayerNormalization", (2, 3, 4), (4,), (4,)),
    C("LayerNormalization", (2, 3, 4), (3, 4), attrs={"axis": 1}),
    C("BatchNormalization", (2, 3, 4, 5), (3,), (3,), (3,), (3,), positive=True),
    C("InstanceNormalization", (2, 3, 4, 5), (3,), (3,)),
    C("LRN", (2, 5, 4, 5), attrs={"size": 3}),
    C("MaxPool", (2, 3, 6, 7), attrs={"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 1, 1, 0]}),
    C("AveragePool", (2, 3, 6), attrs={"kernel_shape": [2], "auto_pad": "SAME_UPPER"}),
    C("LpPool", (2, 3, 6, 6), attrs={"kernel_shape": [2, 2]}),
    C("Conv", (2, 4, 7, 6), (6, 4, 3, 2), (6,), attrs={"pads": [1, 0, 1, 1], "strides": [2, 1]}),
    C("Conv", (2, 4, 7), (6, 2, 3), attrs={"group": 2}),
    C("Conv", (2, 4, 7, 7), (4, 1, 3, 3), attrs={"group": 4, "dilations": [2, 2]}),
    C("ConvTranspose", (2, 4, 5, 5), (4, 3, 2, 2), (3,), attrs={"strides": [2, 2]}),
    C("ConvTranspose", (2, 4, 5, 5), (4, 3, 2, 2), attrs={"group": 2}),
    C("GlobalLpPool", (2, 3, 4, 5), attrs={"p": 3}),
    C("GroupNormalization", (2, 6, 3, 4), (6,), (6,), attrs={"num_groups": 3}, opset=21),
    C("Hardmax", (2, 3, 4), attrs={"axis": 1}, opset=11),
    C("Resize", (1, 2, 3, 4), constants={2: np.array([1, 1, 2, 2], F)}, attrs={"mode": "nearest"}),
    C("Upsample", (1, 2, 3, 4), constants={1: np.array([1, 1, 2, 2], F)}, opset=9),
    C("QuantizeLinear", (2, 3), constants={1: np.float32(0.1), 2: np.uint8(3)}),
    C("Gather", (5, 4), (2, 3), attrs={"axis": 1}, dtype=[F, "index"]),
    C("GatherElements", (5, 4), constants={1: ints(3, 0, 0, 4).reshape(2, 2)}),
    C("GatherElements", (2, 4), constants={1: np.array([[3, 2, -3, 0]] * 2)}, attrs={"axis": 1}),
    C("GatherElements", (5, 4), (2, 3), attrs={"axis": 1}, dtype=[F, "index"]),
    C("GatherND", (5, 4, 3), constants={1: ints(3, 0, 0, -3).reshape(2, 2)}),
    C("GatherND", (2, 4, 3), constants={1: ints(3, 0, 1, 2).reshape(2, 2, 1)}, attrs={"batch_dims": 1}),
    C("GatherND", (5, 4, 3), (2, 1), dtype=[F, "index"]),
    C("ScatterND", (5, 4, 3), (2, 3), constants={1: ints(3, 0, 0, -3).reshape(2, 2)}),
    C("ScatterND", (5, 4), (2, 4), constants={1: ints(3, 0).reshape(2, 1)}, attrs={"reduction": "add"}, opset=18),
    C("ScatterND", (5, 4), (2, 1), (2, 4), dtype=[F, "index", F]),
    C("ScatterElements", (5, 4), (5, 1), (5, 1), attrs={"axis": 1}, dtype=[F, "index", F]),
    C("OneHot", (2, 3), (2,), constants={1: np.array(5)}, dtype=["int64", F]),
    C("OneHot", (2, 3), constants={1: ints(4), 2: np.array([0.5, 2.0], F)}, attrs={"axis": 0}, dtype="int64"),
    C("Compress", (5, 4), constants={1: np.array([True, False, True, True])}, attrs={"axis": 0}),
    C("Compress", (5, 4), constants={1: np.array([True, False, True, True])}, kept=False),
    C("ReverseSequence", (4, 3, 2), constants={1: ints(1, 4, 3)}),
    C("ReverseSequence", (4, 3, 2), (3,), dtype=[F, "index"]),
    C("EyeLike", (3, 4), attrs={"k": 1}),
    C("EyeLike", (3, 4), attrs={"k": -1, "dtype": 7}),
    C("CumProd", (2, 5), constants={1: np.array(1, np.int64)}, opset=26),
    C("CenterCropPad", (5, 4, 3), constants={1: ints(2, 7, 3)}, opset=18),
    C("CenterCropPad", (5, 4, 3), constants={1: ints(2, 6)}, attrs={"axes": [-1, 0]}, opset=18),
    C("Col2Im", (2, 12, 10), constants={1: ints(4, 5), 2: ints(3, 2)}, attrs={"pads": [1, 0, 0, 1], "strides": [2, 1]},
      opset=18),
    C("RMSNormalization", (2, 3, 4), (4,), opset=23),
    C("RMSNormalization", (2, 3, 4), (3, 4), opset=23, attrs={"axis": 1, "epsilon": 0.1}),
    C("LayerNormalization", (2, 3, 4), (4,), (4,), outputs=3),
    C("SwiGLU", (2, 3), (2, 3), opset=28),
    C("RotaryEmbedding", (2, 3, 4, 6), (2, 4, 3), (2, 4, 3), opset=23),
    C("RotaryEmbedding", (2, 4, 24), (2, 4, 2), (2, 4, 2), opset=23,
      attrs={"num_heads": 3, "rotary_embedding_dim": 4, "interleaved": 1}),
    C("RotaryEmbedding", (2, 3, 4, 6), (9, 3), (9, 3), (2, 4), opset=23, dtype=[F, F, F, "index"]),
    C("Attention", (2, 3, 4, 6), (2, 3, 5, 6), (2, 3, 5, 7), opset=23),
    C("Attention", (2, 4, 24), (2, 5, 12), (2, 5, 14), opset=23, attrs={"q_num_heads": 4, "kv_num_heads": 2}),
    C("Attention", (2, 3, 4, 6), (2, 3, 5, 6), (2, 3, 5, 7), (4, 5), opset=23, attrs={"softcap": 2.0}),
    C("Attention", (2, 3, 4, 6), (2, 3, 4, 6), (2, 3, 4, 7), opset=23, attrs={"is_causal": 1, "scale": 0.3}),
    C("Attention", (2, 3, 4, 6), (2, 3, 2, 6), (2, 3, 2, 7), (4, 5), (2, 3, 3, 6), (2, 3, 3, 7), opset=23, outputs=3,
      dtype=[F, F, F, "bool", F, F]),
    C("NegativeLogLikelihoodLoss", (4, 5, 3), (4, 3), (5,), dtype=[F, "index", F], attrs={"ignore_index": 1}),
    C("NegativeLogLikelihoodLoss", (4, 5), (4,), dtype=[F, "index"], attrs={"reduction": "none"}),
    C("SoftmaxCrossEntropyLoss", (4, 5, 3), (4, 3), dtype=[F, "index"], outputs=2),
    C("MatMulInteger", (2, 3), (3, 4), (), (4,), dtype=["uint8", "int8", "uint8", "int8"]),
    C("ConvInteger", (1, 2, 5, 6), (3, 2, 2, 2), (), dtype="uint8", attrs={"pads": [1, 0, 1, 1], "strides": [2, 1]}),
    C("DynamicQuantizeLinear", (2, 30), outputs=3),
    C("QLinearMatMul", (2, 3), (3, 4), dtype="uint8", constants={1: np.float32(0.5), 2: np.uint8(3), 4: np.float32(0.5),
      5: np.uint8(3), 6: np.float32(0.5), 7: np.uint8(2)}),
    C("QLinearConv", (1, 2, 5, 6), (3, 2, 2, 2), dtype="uint8", constants={1: np.float32(0.5), 2: np.uint8(3),
      4: np.array([0.5, 1, 2], F), 5: np.array([1, 2, 3], np.uint8), 6: np.float32(0.5), 7: np.uint8(2)}),
    C("Dropout", (2, 3), outputs=2, opset=13, kept=False),
    C("LSTM", (5, 2, 3), (1, 16, 3), (1, 16, 4), (1, 32), outputs=3, attrs={"hidden_size": 4}),
    C("GRU", (5, 2, 3), (2, 12, 3), (2, 12, 4), outputs=2, attrs={"hidden_size": 4, "direction": "bidirectional"}),
    C("RNN", (5, 2, 3), (1, 4, 3), (1, 4, 4), outputs=2, attrs={"hidden_size": 4}),
    C("GridSample", (2, 3, 4, 5), (2, 3, 2, 2), opset=22),
    C("AffineGrid", (2, 2, 3), constants={1: ints(2, 3, 4, 5)}, opset=20),
    C("RoiAlign", (1, 2, 8, 8), (3, 4), constants={2: ints(0, 0, 0)}, positive=True, attrs={"output_height": 2}),
    C("MaxRoiPool", (1, 2, 8, 8), constants={1: np.array([[0, 1, 1, 6, 5]], F)}, attrs={"pooled_shape": [2, 2]}),
    C("Det", (2, 3, 3)),
    C("DFT", (2, 8, 3, 1), constants={2: np.array(1)}, opset=20),
    C("DFT", (2, 8, 3, 2), attrs={"axis": 2}),
    C("STFT", (2, 16, 1), constants={1: np.array(4), 2: np.hanning(8).astype(F)}, attrs={"onesided": 1}),
    C("DeformConv", (1, 2, 4, 4), (3, 2, 2, 2), (1, 8, 3, 3), (3,), opset=22),
    C("TensorScatter", (2, 5, 3), (2, 2, 3), constants={2: ints(1, 3)}, opset=24),
    C("BitCast", (2, 3), attrs={"to": 6}, opset=26),
    C("DequantizeLinear", (2, 3), constants={1: np.array([0.1, 0.2, 0.3], F)}, attrs={"axis": 1}, dtype="int8"),
]  # fmt: skip


def model_of(case: Case) -> tuple[ModelProto, dict[str, Any]]:
    random = np.random.default_rng(3)
    slots: dict[int, str] = {}
    feeds: dict[str, Any] = {}
    inputs: list[Any] = []
    free = iter(n for n in range(20) if n not in case.constants)
    for k, shape in enumerate(case.shapes):
        dtype = case.dtype if isinstance(case.dtype, str) else case.dtype[k]
        name = f"x{k}"
        slots[next(free)] = name
        values = random.standard_normal(shape) * 2
        if dtype == "index":  # positions along axes of at least two cells
            dtype, values = "int64", random.permuted(np.broadcast_to(np.arange(shape[-1]) % 2, shape), axis=-1)
        elif np.dtype(dtype).kind in "iu":
            values = random.integers(1 if dtype[0] == "u" else -7, 8, shape)
            values = np.where(values == 0, 3, values) if k else values
        elif dtype == "bool":
            values = random.integers(0, 2, shape)
        values = np.abs(values) + 1 if case.positive and dtype != "bool" else values
        feeds[name] = np.asarray(values).astype(dtype)
        inputs.append(helper.make_tensor_value_info(name, element_type(dtype), shape))
    initializers: list[TensorProto] = []
    for slot, value in case.constants.items():
        slots[slot] = f"c{slot}"
        initializers.append(numpy_helper.from_array(np.asarray(value), f"c{slot}"))
    names = [slots.get(n, "") for n in range(max(slots, default=-1) + 1)]
    outputs = [f"y{n}" for n in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, **case.attrs)
    graph = helper.make_graph(
        [node], "one", inputs, [helper.make_empty_tensor_value_info(y) for y in outputs], initializers
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for output, value in zip(model.graph.output, run_model(model, feeds), strict=True):
        if not output.type.tensor_type.HasField("shape"):
            output.CopyFrom(helper.make_tensor_value_info(output.name, element_type(value.dtype.name), value.shape))
    return model, feeds


@pytest.mark.parametrize("case", CASES, ids=str)
def test_formula_and_round_trip(case: Case) -> None:
    model, feeds = model_of(case)
    expected = run_model(model, feeds)
    program = read(model)
    values = evaluate_outputs(program, feeds)
    for name, want in zip(values, expected, strict=True):
        assert distance(want, values[name]) <= 1e-5, name
    carried = [n for n in program.nodes() if isinstance(n, Opaque) and n.signature is None]
    assert not carried, "read as a barrier"
    again = write(program)
    onnx.checker.check_model(again)
    for a, b in zip(expected, run_model(again, feeds), strict=True):
        assert distance(a, b) <= 1e-5
    written = [n.op_type for n in again.graph.node]
    if case.gone:
        assert set(written) <= {"Identity"}
    elif case.kept:
        assert written == [case.op]


@pytest.mark.parametrize("op", ["Sign", "Abs", "Neg", "Floor", "Ceil", "Round", "Reciprocal", "Sqrt"])
def test_the_sign_of_a_zero(op: str) -> None:
    x = helper.make_tensor_value_info("x", element_type("float32"), (6,))
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"])], "one", [x], [helper.make_empty_tensor_value_info("y")]
    )
    model = onnx.shape_inference.infer_shapes(helper.make_model(graph, ir_version=8))
    feeds: dict[str, Any] = {"x": np.array([-0.0, 0.0, np.nan, np.inf, -np.inf, -0.25], F)}
    (want,), found = run_model(model, feeds), evaluate_outputs(read(model), feeds)["y"]
    known = ~np.isnan(want)
    assert np.array_equal(found, want, equal_nan=True) and np.array_equal(
        np.signbit(found)[known], np.signbit(want)[known]
    )


def test_every_operator_has_a_case() -> None:
    assert set(operator_names()) - {c.op for c in CASES} <= {"Asin", "Acos", "Atanh", "Swish", *NO_RUNTIME}
