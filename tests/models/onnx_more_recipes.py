"""How a random model uses operators that pick cells by position, attend, quantise, recur or sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx_random import FLOATS, Builder, Rejected, Value
from onnx_recipes import ANY, PLAIN, RECIPES, axis_of, digits_of, image, recipe, windows

from eqsat.models.package import element_type

__all__ = ["RECIPES"]


def positions(b: Builder, shape: Sequence[int], extent: int, negative: bool = True) -> Value:
    """Positions along an axis: constants, or computed ones."""
    if extent < 1:
        raise Rejected("nothing to pick")
    low = -extent if negative and b.opset >= 11 else 0
    if b.chance(0.6):
        return b.constant(np.asarray(b.random.integers(low, extent, tuple(shape)), np.int64))
    if b.opset < 10:
        raise Rejected("no Mod")
    x = b.input("int64", list(shape))
    return b.add("Mod", [x, b.constant(np.array(extent, np.int64))])[0]


def shortest(v: Value, axis: int) -> int:
    if len({a.ndim for a in v.arrays}) > 1:
        raise Rejected("its rank depends on data")
    return min(a.shape[axis] for a in v.arrays)


@recipe("GatherElements")
def gather_elements(b: Builder, op: str) -> None:
    v = b.value(ANY, least=1)
    axis = axis_of(b, v)
    shape = [shortest(v, n) for n in range(v.rank)]
    for n, d in enumerate(shape):
        if d and (n in v.dynamic or b.chance(0.4)):
            shape[n] = b.whole(0 if b.chance(0.1) else 1, d)
    shape[axis] = b.whole(1, 4)
    b.add(op, [v, positions(b, shape, shortest(v, axis))], {"axis": axis}, digits=v.digits, positive=v.positive)


@recipe("GatherND")
def gather_nd(b: Builder, op: str) -> None:
    v = b.value(PLAIN if b.chance(0.8) else ("bool", "int8", "uint8"), least=1)
    batch = b.whole(0, min(1, v.rank - 1)) if b.opset >= 12 and 0 not in v.dynamic else 0
    depth = b.whole(1, v.rank - batch)
    extents = [shortest(v, batch + n) for n in range(depth)]
    outer = [*v.shape[:batch], *(b.whole(1, 3) for _ in range(b.whole(0 if not batch else 1, 2)))]
    index = positions(b, [*outer, depth], min(extents), negative=not v.dynamic)
    b.add(op, [v, index], {"batch_dims": batch} if batch else {}, digits=v.digits, positive=v.positive)


def reductions(b: Builder) -> dict[str, Any]:
    if b.opset < 16 or b.chance(0.4):
        return {}
    return {"reduction": b.pick(("none", "add", "mul", *(("max", "min") if b.opset >= 18 else ())))}


@recipe("ScatterND")
def scatter_nd(b: Builder, op: str) -> None:
    """Cells that are named once: the result does not depend on an order."""
    v = b.value(("float32", "float64", "int32", "int64"), least=1)
    depth = b.whole(1, v.rank)
    extents = [shortest(v, n) for n in range(depth)]
    if 0 in extents or any(n in v.dynamic for n in range(depth, v.rank)):
        raise Rejected("nothing to name")
    cells = b.random.permutation(int(np.prod(extents)))[: b.whole(1, 4)]
    index = np.stack(np.unravel_index(cells, extents), axis=-1).astype(np.int64)
    shape = [len(cells), *v.shape[depth:]]
    if len(cells) == 4 and b.chance(0.5):
        index, shape = index.reshape(2, 2, depth), [2, 2, *v.shape[depth:]]
    update = b.constant(b.numbers(v.dtype, shape)) if b.chance(0.4) else b.input(v.dtype, shape)
    attrs = reductions(b)
    digits = digits_of((v, update), sum if attrs.get("reduction") == "mul" else max)
    b.add(op, [v, b.constant(index), update], attrs, digits=digits)


@recipe("ScatterElements")
def scatter_elements(b: Builder, op: str) -> None:
    v = b.value(("float32", "float64", "int32", "int64"), least=1)
    axis = axis_of(b, v)
    n = axis % v.rank
    extent, count = shortest(v, n), b.whole(1, 3)
    if v.dynamic - {n} or count > extent:
        raise Rejected("extents differ")
    shape = [count if k == n else d if b.chance(0.7) or not d else b.whole(1, d) for k, d in enumerate(v.shape)]
    along = np.arange(extent).reshape([-1 if k == n else 1 for k in range(v.rank)])
    whole = np.broadcast_to(along, [extent if k == n else d for k, d in enumerate(shape)])
    rows = b.random.permuted(whole, axis=n)
    index = b.constant(np.ascontiguousarray(rows.take(range(count), n)).astype(np.int64))
    update = b.constant(b.numbers(v.dtype, shape)) if b.chance(0.4) else b.input(v.dtype, shape)
    attrs = reductions(b)
    digits = digits_of((v, update), sum if attrs.get("reduction") == "mul" else max)
    b.add(op, [v, index, update], {"axis": axis, **attrs}, digits=digits)


@recipe("OneHot")
def one_hot(b: Builder, op: str) -> None:
    v = b.value(("int64", "int32", "float32"), most=4, exact=True)
    if v.dtype == "int32" or (v.dtype == "float32" and v.digits):
        raise Rejected("onnxruntime lacks the type, or positions are no whole numbers")
    values = b.numbers(b.pick(("float32", "int64") if v.dtype == "int64" else ("float32",)), (2,))
    depth = np.array(b.whole(1, 6), np.int64)
    given = b.constant(values) if b.chance(0.7) else b.input(str(values.dtype.name), (2,))
    axis = b.whole(-v.rank - 1, v.rank)
    b.add(op, [v, b.constant(depth.reshape(1) if b.chance(0.3) else depth), given], {"axis": axis}, digits=2)


@recipe("Compress")
def compress(b: Builder, op: str) -> None:
    v = b.value(PLAIN, least=1)
    if b.chance(0.3):
        size = min(a.size for a in v.arrays)
        condition = b.numbers("bool", (min(size, b.whole(0, 12)),))
        b.add(op, [v, b.constant(condition)], digits=v.digits)
        return
    axis = axis_of(b, v)
    condition = b.numbers("bool", (b.whole(0, shortest(v, axis)),))
    given = b.constant(condition) if b.chance(0.8) else b.input("bool", condition.shape)
    b.add(op, [v, given], {"axis": axis}, digits=v.digits, positive=v.positive)


@recipe("ReverseSequence")
def reverse_sequence(b: Builder, op: str) -> None:
    v = b.value(("float32", "int64", "int32"), least=2)
    batch = b.whole(0, 1)
    if batch in v.dynamic:
        raise Rejected("lengths of a symbolic batch")
    longest = shortest(v, 1 - batch)
    if longest < 1:
        raise Rejected("no time")
    lengths = b.constant(b.random.integers(1, longest + 1, (v.shape[batch],)).astype(np.int64))
    b.add(op, [v, lengths], {"batch_axis": batch, "time_axis": 1 - batch}, digits=v.digits, positive=v.positive)


@recipe("EyeLike")
def eye_like(b: Builder, op: str) -> None:
    v = b.value(("float32", "float64", "int32", "int64"), least=2, most=2)
    attrs: dict[str, Any] = {"k": b.whole(-2, 2)} if b.chance(0.6) else {}
    if b.chance(0.5):
        attrs["dtype"] = element_type(b.pick(("float32", "int64", "float64", "int32")))
    b.add(op, [v], attrs, digits=0)


@recipe("CumProd")
def cum_prod(b: Builder, op: str) -> None:
    v = b.value(("float32", "float64", "int32", "int64"), least=1)
    attrs = {p: b.whole(0, 1) for p in ("exclusive", "reverse") if b.chance(0.6)}
    b.add(op, [v, b.constant(np.array(axis_of(b, v), np.int64))], attrs)


@recipe("CenterCropPad")
def center_crop_pad(b: Builder, op: str) -> None:
    v = b.value(PLAIN, least=1)
    axes = [n for n in range(v.rank) if n not in v.dynamic and b.chance(0.7)]
    if not axes:
        raise Rejected("no axes")
    attrs = {"axes": axes} if len(axes) < v.rank or b.chance(0.5) else {}
    b.add(op, [v, b.ints(*(b.whole(1, 7) for _ in axes))], attrs, digits=v.digits)


@recipe("Col2Im")
def columns(b: Builder, op: str) -> None:
    block, rows = [b.whole(1, 2) for _ in range(2)], [b.whole(1, 4) for _ in range(2)]
    batch: Any = "N" if b.symbolic and b.chance(0.5) else b.whole(1, 2)
    v = b.input("float32", [batch, b.whole(1, 3) * int(np.prod(block)), int(np.prod(rows))])
    steps = [b.whole(1, 2) for _ in range(2)]
    edge = [(n - 1) * s + k for n, s, k in zip(rows, steps, block, strict=True)]
    b.add(op, [v, b.ints(*edge), b.ints(*block)], {"strides": steps}, digits=v.digits)


# -- attention, normalisation, loss ----------------------------------------------------------------------------------


@recipe("SwiGLU")
def gated(b: Builder, op: str) -> None:
    v = b.value(FLOATS)
    b.add(op, [v, v], {"alpha": 1.5} if b.chance(0.4) else {})


@recipe("RMSNormalization")
def rms_normalization(b: Builder, op: str) -> None:
    v = b.value(("float32", "float64"), least=1, most=4)
    axis = b.whole(0, v.rank - 1)
    if any(n in v.dynamic for n in range(axis, v.rank)):
        raise Rejected("the scale would be symbolic")
    attrs: dict[str, Any] = {"axis": axis - v.rank if b.chance(0.5) else axis}
    b.add(op, [v, b.constant(b.numbers(v.dtype, v.shape[axis:]))], attrs)


@recipe("Attention")
def attention(b: Builder, op: str) -> None:
    batch: Any = "N" if b.symbolic and b.chance(0.5) else b.whole(1, 2)
    few, share, rows, keys, size, width = (b.whole(1, 3) for _ in range(6))
    heads, attrs = few * share, {"scale": 0.25} if b.chance(0.4) else {}
    if b.chance(0.3):
        attrs["is_causal"], rows = 1, keys
    shapes = [(batch, heads, rows, size), (batch, few, keys, size), (batch, few, keys, width)]
    if b.chance(0.4):
        shapes = [(n, s, h * d) for n, h, s, d in shapes]
        attrs |= {"q_num_heads": heads, "kv_num_heads": few}
    same = [v for v in b.values if v.dtype == "float32" and v.shape == shapes[0] and not v.dynamic]
    operands: list[Value | None] = [b.input("float32", s) for s in shapes]
    if same:
        operands[0] = b.pick(same)
    if b.chance(0.3):
        operands.append(b.constant(b.numbers("float32", (rows, keys))))
    b.add(op, operands, attrs)


@recipe("RotaryEmbedding")
def rotary(b: Builder, op: str) -> None:
    batch, heads, rows, half = (b.whole(1, 3) for _ in range(4))
    attrs: dict[str, Any] = {"interleaved": b.whole(0, 1)}
    shape = [batch, heads, rows, 2 * half]
    if b.chance(0.3):
        attrs["num_heads"], shape = heads, [batch, rows, heads * 2 * half]
    same = [v for v in b.values if v.dtype == "float32" and list(v.shape) == shape and not v.dynamic]
    v = b.pick(same) if same else b.input("float32", shape)
    if b.chance(0.5):
        tables = [b.constant(b.numbers("float32", (batch, rows, half))) for _ in range(2)]
        b.add(op, [v, *tables], attrs)
        return
    tables = [b.constant(b.numbers("float32", (5, half))) for _ in range(2)]
    b.add(op, [v, *tables, positions(b, (batch, rows), 5, negative=False)], attrs)


@recipe("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss")
def loss(b: Builder, op: str) -> None:
    v = b.value(("float32",), least=2, most=4)
    if v.dynamic or 0 in v.shape:
        raise Rejected("labels of symbolic extents")
    target = positions(b, [v.shape[0], *v.shape[2:]], v.shape[1], negative=False)
    weight = [b.constant(b.numbers("float32", (v.shape[1],), True))] if b.chance(0.4) else []
    attrs = {"reduction": b.pick(("none", "sum", "mean"))} if b.chance(0.7) else {}
    both = op.startswith("Soft") and b.chance(0.4)
    b.add(op, [v, target, *weight], attrs, 2 if both else 1)


# -- quantised numbers -----------------------------------------------------------------------------------------------


@recipe("MatMulInteger QLinearMatMul")
def whole_product(b: Builder, op: str) -> None:
    v = b.value(("uint8", "int8"), least=2, most=4)
    if v.rank - 1 in v.dynamic or 0 in v.shape:
        raise Rejected("the summed axis is symbolic")
    columns = b.whole(1, 4)
    w = b.constant(b.numbers(v.dtype, (v.shape[-1], columns)))
    zeros = [b.constant(b.numbers(v.dtype, ())) for _ in range(3)]
    if op == "MatMulInteger":
        b.add(op, [v, w, *zeros[: b.whole(0, 2)]])
        return
    one, two, three = (b.constant(np.array(b.pick((0.25, 0.5, 1)), np.float32)) for _ in range(3))
    b.add(op, [v, one, zeros[0], w, two, zeros[1], three, zeros[2]])


@recipe("ConvInteger QLinearConv")
def whole_convolution(b: Builder, op: str) -> None:
    batch: Any = "N" if b.symbolic and b.chance(0.5) else b.whole(1, 2)
    v = b.input("uint8", [batch, b.pick((1, 2)), *(b.whole(3, 5) for _ in range(2))])
    attrs, out = windows(b, v), b.whole(1, 3)
    w = b.constant(b.numbers("uint8", (out, v.shape[1], *attrs["kernel_shape"])))
    zeros = [b.constant(b.numbers("uint8", ())) for _ in range(3)]
    if op == "ConvInteger":
        b.add(op, [v, w, *zeros[: b.whole(0, 2)]], attrs)
        return
    one, two, three = (b.constant(np.array(b.pick((0.25, 0.5, 1)), np.float32)) for _ in range(3))
    b.add(op, [v, one, zeros[0], w, two, zeros[1], three, zeros[2]], attrs)


@recipe("DynamicQuantizeLinear")
def dynamic_quantisation(b: Builder, op: str) -> None:
    v = b.value(("float32",), least=1, exact=True)
    if any(a.size == 0 for a in v.arrays):
        raise Rejected("no range")
    b.add(op, [v], {}, 3)


@recipe("BitCast")
def bit_cast(b: Builder, op: str) -> None:
    v = b.value(("int32", "int64", "uint8"), exact=True)
    b.add(op, [v], {"to": element_type({"int32": "uint32", "int64": "uint64", "uint8": "int8"}[v.dtype])})


# -- what has a signature --------------------------------------------------------------------------------------------


@recipe("LSTM GRU RNN")
def recurrent(b: Builder, op: str) -> None:
    fits = [v for v in b.values if v.dtype == "float32" and v.rank == 3 and not v.dynamic and 0 not in v.shape]
    v = b.pick(fits) if fits and b.chance(0.7) else b.input("float32", [b.whole(1, 3) for _ in range(3)])
    gates, hidden, ways = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], b.whole(1, 3), b.whole(1, 2)
    shapes = [(ways, gates * hidden, v.shape[2]), (ways, gates * hidden, hidden), (ways, 2 * gates * hidden)]
    operands = [b.constant(b.numbers("float32", s)) for s in shapes]
    attrs: dict[str, Any] = {"hidden_size": hidden, "direction": "bidirectional" if ways == 2 else "forward"}
    b.add(op, [v, *operands[: b.whole(2, 3)]], attrs, b.whole(1, 2))


@recipe("GridSample")
def grid_sample(b: Builder, op: str) -> None:
    v = image(b, 2, 2)
    if v.dynamic or 0 in v.shape:
        raise Rejected("a grid of a symbolic batch")
    grid = b.input("float32", [v.shape[0], b.whole(1, 3), b.whole(1, 3), 2])
    small = b.add("Mul", [grid, b.constant(np.array(0.25, np.float32))], digits=4)[0]
    b.add(op, [v, small], {"align_corners": b.whole(0, 1)})


@recipe("AffineGrid")
def affine_grid(b: Builder, op: str) -> None:
    theta = b.input("float32", [b.whole(1, 2), 2, 3])
    b.add(op, [theta, b.ints(theta.shape[0], 2, b.whole(1, 4), b.whole(1, 4))])


@recipe("RoiAlign MaxRoiPool")
def regions(b: Builder, op: str) -> None:
    v = image(b, 2, 2)
    if v.dynamic or 0 in v.shape:
        raise Rejected("regions of a symbolic image")
    corners = np.sort(b.random.integers(0, 4, (b.whole(1, 3), 2, 2)), axis=1).reshape(-1, 4)
    of = b.random.integers(0, v.shape[0], len(corners))
    if op == "RoiAlign":
        boxes = b.constant(corners.astype(np.float32))
        b.add(op, [v, boxes, b.constant(of.astype(np.int64))], {"output_height": 2, "output_width": b.whole(1, 2)})
        return
    boxes = b.constant(np.concatenate([of[:, None], corners], axis=1).astype(np.float32))
    b.add(op, [v, boxes], {"pooled_shape": [2, b.whole(1, 2)]})


@recipe("Det")
def determinant(b: Builder, op: str) -> None:
    fits = [v for v in b.values if v.dtype == "float32" and v.rank > 1 and v.shape[-1] == v.shape[-2] and not v.dynamic]
    size = b.whole(1, 3)
    v = b.pick(fits) if fits else b.input("float32", [*(b.whole(1, 3) for _ in range(b.whole(1, 2))), size, size])
    b.add(op, [v])


@recipe("DFT")
def fourier(b: Builder, op: str) -> None:
    rank = b.whole(2, 3)
    v = b.input("float32", [*(b.whole(1, 4) for _ in range(rank)), b.whole(1, 2)])
    axis = b.whole(1, rank - 1)
    if b.opset < 20:
        b.add(op, [v], {"axis": axis})
    else:
        b.add(op, [v, None, b.constant(np.array(axis, np.int64))])


@recipe("STFT")
def short_fourier(b: Builder, op: str) -> None:
    v = b.input("float32", [b.whole(1, 2), b.whole(8, 12), 1])
    window = b.constant(b.numbers("float32", (4,), True))
    attrs = {"onesided": b.whole(0, 1)} if b.chance(0.6) else {}
    b.add(op, [v, b.constant(np.array(b.whole(1, 3), np.int64)), window], attrs)


@recipe("DeformConv")
def deformable(b: Builder, op: str) -> None:
    v = b.input("float32", [b.whole(1, 2), 2, 4, 4])
    offset = b.constant(b.numbers("float32", (v.shape[0], 8, 3, 3)) / 4)
    b.add(op, [v, b.constant(b.numbers("float32", (b.whole(1, 3), 2, 2, 2))), offset])


@recipe("TensorScatter")
def tensor_scatter(b: Builder, op: str) -> None:
    v = b.value(("float32",), least=2, most=4)
    if v.dynamic or 0 in v.shape:
        raise Rejected("a symbolic cache")
    axis = b.whole(1, v.rank - 1)
    count = b.whole(1, v.shape[axis])
    update = b.input("float32", [count if n == axis else d for n, d in enumerate(v.shape)])
    starts = b.random.integers(0, v.shape[axis] - count + 1, (v.shape[0],)).astype(np.int64)
    b.add(op, [v, update, b.constant(starts)], {"axis": axis - v.rank if b.chance(0.5) else axis}, digits=v.digits)
