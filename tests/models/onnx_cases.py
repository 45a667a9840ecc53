"""Random uses of ONNX operators, one family of operators a function: operator, operand arrays, attributes, opset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, helper, numpy_helper

from eqsat.ir.dtypes import NDArray
from eqsat.models.package import element_type

Random = np.random.Generator
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass
class Use:
    """One node: its operands by slot (None where absent), those of `constants` as initialisers."""

    op: str
    operands: list[Any]
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])
    opset: int = 17
    constants: tuple[int, ...] = ()
    outputs: int = 1

    @property
    def names(self) -> list[str]:
        return ["y", *(f"y_{n}" for n in range(1, self.outputs))]

    def feeds(self, prefix: str) -> dict[str, Any]:
        pairs = enumerate(self.operands)
        return {f"{prefix}{n}": a for n, a in pairs if a is not None and n not in self.constants}

    def model(self, prefix: str = "x") -> ModelProto:
        """The node alone in a model with outputs y, y_1, ..."""
        names = ["" if a is None else f"{prefix}{n}" for n, a in enumerate(self.operands)]
        node = helper.make_node(self.op, names, self.names, **self.attrs)
        inputs = [
            helper.make_tensor_value_info(n, element_type(a.dtype.name), a.shape) for n, a in self.feeds(prefix).items()
        ]
        constants = [numpy_helper.from_array(self.operands[n], names[n]) for n in self.constants]
        outputs = [helper.make_empty_tensor_value_info(n) for n in self.names]
        graph = helper.make_graph([node], "one", inputs, outputs, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        output = model.graph.output[0]
        if not output.type.tensor_type.HasField("shape"):  # a function of ONNX, whose result is like its operand
            first = self.operands[0]
            output.CopyFrom(helper.make_tensor_value_info("y", element_type(first.dtype.name), first.shape))
        return model


def floats(r: Random, *shape: int) -> Any:
    return r.standard_normal(shape).astype(np.float32)


def integers(r: Random, low: int, high: int, shape: Sequence[int], dtype: Any) -> Any:
    values: NDArray = r.integers(low, high, tuple(shape))
    return values.astype(dtype)


def whole(r: Random, low: int, high: int) -> int:
    """A number from low to high, both included."""
    return int(r.integers(low, high + 1))


def pick(r: Random, values: Sequence[Any]) -> Any:
    return values[whole(r, 0, len(values) - 1)]


def extents(r: Random, low: int, high: int, count: int) -> list[int]:
    return [whole(r, low, high) for _ in range(count)]


def windows(r: Random, count: int) -> dict[str, Any]:
    """Kernel, strides, dilations and (asymmetric or automatic) pads of some axes."""
    kernel = extents(r, 1, 3, count)
    attrs: dict[str, Any] = {"kernel_shape": kernel}
    if r.random() < 0.7:
        attrs["strides"] = extents(r, 1, 3, count)
    if r.random() < 0.5:
        attrs["dilations"] = extents(r, 1, 2, count)
    mode = pick(r, ("NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    if mode != "NOTSET":
        attrs["auto_pad"] = mode
    elif r.random() < 0.8:
        attrs["pads"] = [whole(r, 0, k - 1) for k in (*kernel, *kernel)]
    return attrs


def convolution(r: Random) -> Use:
    count, groups, inputs, outputs = whole(r, 1, 3), whole(r, 1, 3), whole(r, 1, 3), whole(r, 1, 3)
    attrs: dict[str, Any] = {**windows(r, count), "group": groups}
    x = floats(r, whole(r, 1, 2), inputs * groups, *extents(r, 6, 9, count))
    w = floats(r, outputs * groups, inputs, *attrs["kernel_shape"])
    return Use("Conv", [x, w, *([floats(r, outputs * groups)] if r.random() < 0.5 else [])], attrs)


def transposed(r: Random) -> Use:
    count, groups, inputs, outputs = whole(r, 1, 3), whole(r, 1, 3), whole(r, 1, 3), whole(r, 1, 3)
    attrs: dict[str, Any] = {**windows(r, count), "group": groups}
    kernel = attrs["kernel_shape"]
    x = floats(r, whole(r, 1, 2), inputs * groups, *extents(r, 3, 5, count))
    w = floats(r, inputs * groups, outputs, *kernel)
    steps, apart = attrs.get("strides", [1] * count), attrs.get("dilations", [1] * count)
    if "auto_pad" not in attrs and r.random() < 0.4:
        attrs["output_padding"] = [whole(r, 0, s - 1) for s in steps]
    if groups == 1 and r.random() < 0.3:
        attrs.pop("pads", None)
        rows = zip(x.shape[2:], steps, kernel, apart, strict=True)
        attrs["output_shape"] = [(d - 1) * s + (k - 1) * a + 1 - whole(r, 0, 1) for d, s, k, a in rows]
        attrs.pop("output_padding", None)
    elif attrs.get("auto_pad", "VALID") != "VALID":
        attrs["dilations"] = [1] * count
    return Use("ConvTranspose", [x, w, *([floats(r, outputs * groups)] if r.random() < 0.5 else [])], attrs)


def pooling(r: Random) -> Use:
    op, count = pick(r, ("MaxPool", "AveragePool", "LpPool", "GlobalLpPool")), whole(r, 1, 3)
    x: Any = floats(r, 2, 3, *extents(r, 5, 10, count))
    if op == "GlobalLpPool":
        return Use(op, [x], {"p": whole(r, 1, 3)})
    attrs = windows(r, count)
    if "auto_pad" in attrs:  # runtimes disagree about automatic padding with anything else
        attrs = {k: v for k, v in attrs.items() if k not in ("strides", "dilations")}
    else:
        attrs["ceil_mode"] = whole(r, 0, 1)
    if op == "AveragePool":
        attrs["count_include_pad"] = whole(r, 0, 1)
    elif op == "LpPool":
        attrs["p"] = whole(r, 1, 3)
    elif r.random() < 0.4:
        x = (x * 50).astype(pick(r, (np.int8, np.uint8)))
    else:
        x[r.random(x.shape) < 0.05] = np.inf
        x[r.random(x.shape) < 0.05] = -np.inf
    return Use(op, [x], attrs, 22)


def normalisation(r: Random) -> Use:
    x = floats(r, 2, 6, *extents(r, 2, 5, whole(r, 1, 3)))
    more = {} if r.random() < 0.5 else {"epsilon": 0.1}
    op = pick(r, ("Layer", "RMS", "Instance", "Batch", "Group", "Lp", "MeanVariance", "LRN"))
    if op == "Layer":
        axis = whole(r, -x.ndim, x.ndim - 1)
        own = x.shape[axis:]
        bias = [floats(r, *own)] if r.random() < 0.5 else []
        return Use("LayerNormalization", [x, floats(r, *own), *bias], {"axis": axis, **more}, outputs=whole(r, 1, 3))
    if op == "RMS":
        axis = whole(r, -x.ndim, x.ndim - 1)
        return Use("RMSNormalization", [x, floats(r, *x.shape[axis:])], {"axis": axis, **more}, 23)
    if op == "Instance":
        return Use("InstanceNormalization", [x, floats(r, 6), floats(r, 6)], more)
    if op == "Batch":
        parameters = [floats(r, 6), floats(r, 6), floats(r, 6), np.abs(floats(r, 6))]
        return Use("BatchNormalization", [x, *parameters], more)
    if op == "Group":
        return Use(
            "GroupNormalization", [x, floats(r, 6), floats(r, 6)], {"num_groups": pick(r, (1, 2, 3)), **more}, 21
        )
    if op == "Lp":
        x[0] = 0
        return Use("LpNormalization", [x], {"axis": whole(r, -x.ndim, x.ndim - 1), "p": whole(r, 1, 2)})
    if op == "MeanVariance":
        axes = sorted(int(n) for n in r.choice(4, 2, replace=False))
        return Use("MeanVarianceNormalization", [floats(r, 2, 3, 4, 5)], {} if r.random() < 0.5 else {"axes": axes})
    sizes = {"alpha": 0.3, "beta": 0.6, "bias": 1.5}
    return Use("LRN", [floats(r, 2, 7, 5, 4)], {"size": pick(r, (1, 3, 5)), **sizes})


def along(r: Random) -> Use:
    op = pick(r, ("Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ArgMin", "CumSum", "CumProd"))
    x: Any = floats(r, *extents(r, 1, 7, whole(r, 1, 4)))
    axis, opset = whole(r, -x.ndim, x.ndim - 1), pick(r, (9, 11, 13, 17))
    if op in ("Softmax", "LogSoftmax", "Hardmax"):
        return Use(op, [x], {"axis": axis % x.ndim if opset < 13 else axis}, opset)
    kind = pick(r, (np.float32, np.int32, np.int64))
    if op in ("CumSum", "CumProd"):
        attrs = {"exclusive": whole(r, 0, 1), "reverse": whole(r, 0, 1)}
        x = x if kind is np.float32 else integers(r, -(2**30), 2**30, x.shape, kind)
        return Use(op, [x, np.array(axis)], attrs, 17 if op == "CumSum" else 26, constants=(1,))
    attrs = {"axis": axis, "keepdims": whole(r, 0, 1), "select_last_index": whole(r, 0, 1)}
    return Use(op, [integers(r, 0, 5, x.shape, pick(r, (kind, np.int8, np.uint8)))], attrs)


def reduction(r: Random) -> Use:
    op = pick(r, ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "Gemm"))
    if op == "Gemm":
        (m, k, n), first, second = extents(r, 1, 5, 3), whole(r, 0, 1), whole(r, 0, 1)
        a, b = floats(r, *((k, m) if first else (m, k))), floats(r, *((n, k) if second else (k, n)))
        added = [floats(r, *pick(r, ((m, n), (n,), (1, n), (m, 1), ())))] if r.random() < 0.7 else []
        return Use(op, [a, b, *added], {"transA": first, "transB": second, "alpha": 0.5, "beta": 2.0})
    x = floats(r, *extents(r, 1, 5, whole(r, 2, 4)))
    axes = sorted(int(n) for n in r.choice(x.ndim, whole(r, 1, x.ndim), replace=False))
    return Use(op, [np.abs(x) if op == "ReduceLogSum" else x], {"axes": axes, "keepdims": whole(r, 0, 1)})


def resizing(r: Random) -> Use:
    mode = pick(r, ("nearest", "nearest", "linear", "cubic"))
    count = {"nearest": whole(r, 1, 3), "linear": whole(r, 2, 3), "cubic": 2}[mode]
    x = floats(r, 1, 2, *extents(r, 2, 7, count))
    scales = np.array([1, 1, *(pick(r, (1, 2, 3, 0.5, 1.5, 0.7)) for _ in range(count))], np.float32)
    if r.random() < 0.2 and mode != "cubic":
        op = pick(r, ("Upsample", "Resize"))
        scales = np.maximum(scales, 1) if op == "Upsample" else scales
        return Use(op, [x, scales], {"mode": mode}, 9 if op == "Upsample" else 10, (1,))
    opset = pick(r, (13, 19))
    attrs: dict[str, Any] = {"mode": mode}
    attrs["coordinate_transformation_mode"] = pick(r, COORDINATES) if opset == 19 else pick(r, COORDINATES[2:])
    if mode == "nearest":
        attrs["nearest_mode"] = pick(r, ROUNDINGS)
    elif mode == "cubic":
        attrs |= {"cubic_coeff_a": pick(r, (-0.75, -0.5)), "exclude_outside": whole(r, 0, 1)}
    if r.random() < 0.5:
        return Use("Resize", [x, None, scales], attrs, opset, (2,))
    sizes = np.array([1, 2, *extents(r, 1, 15, count)], np.int64)
    return Use("Resize", [x, None, None, sizes], attrs, opset, (3,))


def quantisation(r: Random) -> Use:
    x, axis = floats(r, 3, 4, 5) * 300, whole(r, -3, 2)
    own = (x.shape[axis],)
    dtype = pick(r, (np.uint8, np.int8))
    scale, zero = np.abs(floats(r, *own)) + np.float32(0.5), integers(r, 0, 50, own, dtype)
    if r.random() < 0.5:
        return Use("QuantizeLinear", [x, scale, zero], {"axis": axis})
    return Use("DequantizeLinear", [integers(r, 0, 100, x.shape, dtype), scale, zero], {"axis": axis})


def attention(r: Random) -> Use:
    """Queries of as many heads as keys or of a multiple, with a mask, a past, a cap, or only what came before."""
    batch, few, share, rows, keys, size, width = extents(r, 1, 4, 7)
    heads, past = few * share, whole(r, 0, 3) if r.random() < 0.4 else 0
    attrs: dict[str, Any] = {"scale": 0.3} if r.random() < 0.4 else {}
    if r.random() < 0.3 and not past:
        attrs["is_causal"], rows = 1, keys
    shapes = [(batch, heads, rows, size), (batch, few, keys, size), (batch, few, keys, width)]
    if r.random() < 0.4:
        shapes = [(b, s, h * d) for b, h, s, d in shapes]
        attrs |= {"q_num_heads": heads, "kv_num_heads": few}
    operands: list[Any] = [floats(r, *s) for s in shapes]
    kind, total = pick(r, ("none", "none", "float", "bool")), keys + past
    if kind != "none":
        shape = pick(r, ((rows, total), (batch, 1, rows, total), (batch, heads, rows, total)))
        mask: Any = floats(r, *shape)
        operands.append(mask if kind == "float" else (mask > 0) | (np.arange(total) == 0))
    elif r.random() < 0.3 and not attrs.get("is_causal"):
        attrs["softcap"] = 1.5
    if past:
        operands += [None] * (4 - len(operands))
        operands += [floats(r, batch, few, past, size), floats(r, batch, few, past, width)]
    return Use("Attention", operands, attrs, 23, outputs=3 if past else 1)


def rotary(r: Random) -> Use:
    batch, heads, rows, half = extents(r, 1, 4, 4)
    part, attrs = 2 * half, {"interleaved": whole(r, 0, 1)}
    size = part + whole(r, 0, 3) if r.random() < 0.4 else part
    if size != part:
        attrs["rotary_embedding_dim"] = part
    x, angles = floats(r, batch, heads, rows, size), [floats(r, batch, rows, half) for _ in range(2)]
    if r.random() < 0.4:
        attrs["num_heads"], x = heads, floats(r, batch, rows, heads * size)
    return Use("RotaryEmbedding", [x, *angles], attrs, 23)


def loss(r: Random) -> Use:
    batch, classes = extents(r, 1, 5, 2)
    inner = extents(r, 1, 3, whole(r, 0, 2))
    target = integers(r, 0, classes, (batch, *inner), pick(r, (np.int32, np.int64)))
    weight = [np.abs(floats(r, classes)) + np.float32(0.5)] if r.random() < 0.5 else []
    attrs: dict[str, Any] = {"reduction": pick(r, ("none", "sum", "mean"))}
    if r.random() < 0.5:  # never all of them, whose mean is no number
        attrs["ignore_index"] = int(pick(r, [k for k in range(-1, classes + 1) if np.any(target != k)]))
    op = pick(r, ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"))
    both = op.startswith("Soft") and r.random() < 0.5
    return Use(op, [floats(r, batch, classes, *inner), target, *weight], attrs, 13, outputs=2 if both else 1)


def whole_numbers(r: Random) -> Use:
    """Products of quantised numbers, exact, and a quantisation by the range of the operand."""
    op = pick(r, ("MatMulInteger", "ConvInteger", "DynamicQuantizeLinear"))
    if op == "DynamicQuantizeLinear":
        return Use(op, [floats(r, *extents(r, 1, 6, whole(r, 1, 3))) * pick(r, (0.1, 3, 100))], {}, 11, outputs=3)
    first, second = pick(r, (np.uint8, np.int8)), pick(r, (np.uint8, np.int8))
    if op == "MatMulInteger":
        m, k, n = extents(r, 1, 5, 3)
        a, b = (
            integers(r, 0, 100, (*extents(r, 1, 3, whole(r, 0, 1)), m, k), first),
            integers(r, 0, 100, (k, n), second),
        )
        zeros = [integers(r, 0, 50, (), first), integers(r, 0, 50, pick(r, ((), (n,))), second)]
        return Use(op, [a, b, *zeros[: whole(r, 0, 2)]], {}, 10)
    use = convolution(r)
    x, w = use.operands[:2]
    first = second = np.uint8
    zeros = [integers(r, 0, 50, (), first), integers(r, 0, 50, (), second)]
    pair = [integers(r, 0, 100, a.shape, np.uint8) for a in (x, w)]
    return Use(op, [*pair, *zeros[: whole(r, 0, 2)]], use.attrs, 10)


def places(r: Random) -> Use:
    """Cells by positions: updates of some cells, the one place of a position, a diagonal, columns of blocks."""
    op = pick(r, ("ScatterND", "OneHot", "EyeLike", "Col2Im"))
    if op == "ScatterND":
        shape = extents(r, 2, 4, whole(r, 1, 3))
        depth = whole(r, 1, len(shape))
        cells = [np.unravel_index(int(k), shape[:depth]) for k in
                 r.permutation(int(np.prod(shape[:depth])))[: whole(r, 1, 4)]]  # fmt: skip
        index = np.array(cells, np.int64)
        index = index - np.where(r.random(index.shape) < 0.3, shape[:depth], 0)
        attrs = {} if r.random() < 0.4 else {"reduction": pick(r, ("none", "add", "mul", "max", "min"))}
        return Use(op, [floats(r, *shape), index, floats(r, len(cells), *shape[depth:])], attrs, 18, (1,))
    if op == "OneHot":
        shape, depth = extents(r, 1, 4, whole(r, 0, 3)), whole(r, 1, 5)
        index = integers(r, -depth - 1, depth + 2, shape, np.int64)
        values = pick(r, (floats(r, 2), integers(r, 0, 9, (2,), np.int64)))
        return Use(op, [index, np.array([depth]), values], {"axis": whole(r, -len(shape) - 1, len(shape))}, 11, (1,))
    if op == "EyeLike":
        attrs = {"k": whole(r, -3, 3), **({"dtype": pick(r, (1, 7, 6, 11))} if r.random() < 0.6 else {})}
        return Use(op, [floats(r, *extents(r, 1, 5, 2))], attrs, 9)
    count = 2
    block, steps, apart = extents(r, 1, 3, count), extents(r, 1, 2, count), extents(r, 1, 2, count)
    pads = [whole(r, 0, 1) for _ in range(2 * count)]
    rows = extents(r, 1, 4, count)
    image = [(n - 1) * s + (k - 1) * a + 1 - pads[i] - pads[count + i]
             for i, (n, s, k, a) in enumerate(zip(rows, steps, block, apart, strict=True))]  # fmt: skip
    if min(image) < 1:
        image = [d + pads[i] + pads[count + i] for i, d in enumerate(image)]
        pads = [0] * 4
    x = floats(r, 2, whole(r, 1, 3) * int(np.prod(block)), int(np.prod(rows)))
    attrs = {"strides": steps, "dilations": apart, "pads": pads}
    return Use(op, [x, np.array(image), np.array(block)], attrs, 18, (1, 2))


FAMILIES: dict[str, Callable[[Random], Use]] = {
    f.__name__: f
    for f in (
        convolution, transposed, pooling, normalisation, along, reduction, resizing, quantisation, attention, rotary,
        loss, whole_numbers, places,
    )
}  # fmt: skip
