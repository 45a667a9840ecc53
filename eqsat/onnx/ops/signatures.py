"""ONNX operators that are one node with a signature: which axes are one axis, and what may be done to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.ir.tensors.signature import Dims, Signature
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.terms.shape import Dim, Shape, normalize_axes, normalize_axis, same_dim
from eqsat.onnx.call import Call, Declined, ints, reduced_axes
from eqsat.onnx.declare import POOLING, REDUCTION, RESIZING, WINDOW
from eqsat.onnx.ops.table import define, merged, opaque

Outputs = tuple[Tensor, ...]


def axes_of(x: Tensor) -> Dims:
    """One label per axis: a0, a1, ..."""
    return tuple((f"a{n}",) for n in range(x.rank))


def roles(dims: Dims, special: Sequence[int], role: str) -> dict[str, str]:
    """`map` for all axes but the special ones."""
    return {d[0]: role if n in special else "map" for n, d in enumerate(dims) if role != "fixed" or n not in special}


def _fresh(prefix: str, count: int) -> Dims:
    return tuple((f"{prefix}{n}",) for n in range(count))


@define("Softmax LogSoftmax Hardmax", "input", "axis")
def softmax(c: Call) -> Outputs:
    x = c.one()
    axis = normalize_axis(int(c.get("axis", -1 if c.opset >= 13 else 1)), x.rank, c.op)
    dims = axes_of(x)
    special = [axis] if c.opset >= 13 else list(range(axis, x.rank))
    role = "fixed" if c.op == "Hardmax" else "equivariant"
    signature = Signature((dims,), (dims,), roles(dims, special, role))
    return opaque(merged(c, axis=axis), signature, [(x.shape, x.dtype)], tied=() if c.opset >= 13 else ("axis",))


@define("CumSum", "x axis", "exclusive=0|1 reverse=0|1", "axis")
def cum_sum(c: Call) -> Outputs:
    x = c.one()
    axis = normalize_axis(int(c.get("axis", -1)), x.rank, c.op)
    dims = axes_of(x)
    return opaque(merged(c, axis=axis), Signature((dims,), (dims,), roles(dims, [axis], "fixed")), [(x.shape, x.dtype)])


@define("LpNormalization", "input", "axis p=1|2")
def lp_normalization(c: Call) -> Outputs:
    x = c.one()
    dims = axes_of(x)
    axis = normalize_axis(int(c.get("axis", -1)), x.rank, c.op)
    signature = Signature((dims,), (dims,), roles(dims, [axis], "equivariant"))
    return opaque(merged(c, axis=axis), signature, [(x.shape, x.dtype)])


@define("MeanVarianceNormalization", "x", "axes")
def mean_variance_normalization(c: Call) -> Outputs:
    x = c.one()
    dims = axes_of(x)
    axes = normalize_axes(ints(c.get("axes", (0, 2, 3)), c.op), x.rank, c.op)
    return opaque(c, Signature((dims,), (dims,), roles(dims, axes, "equivariant")), [(x.shape, x.dtype)])


@define("ArgMax ArgMin", "data", "axis keepdims=0|1 select_last_index=0|1")
def arg_extreme(c: Call) -> Outputs:
    x = c.one()
    axis, keep = normalize_axis(int(c.get("axis", 0)), x.rank, c.op), bool(c.get("keepdims", 1))
    dims = axes_of(x)
    out: Dims = tuple(() if n == axis else d for n, d in enumerate(dims) if keep or n != axis)
    shape: Shape = tuple(1 if n == axis else d for n, d in enumerate(x.shape) if keep or n != axis)
    return opaque(merged(c, axis=axis), Signature((dims,), (out,), roles(dims, [axis], "fixed")), [(shape, "int64")])


@define("TopK", "x k", "axis k largest=0|1 sorted=0|1", "k[]")
def top_k(c: Call) -> Outputs:
    x = c.one()
    axis, numbers = normalize_axis(int(c.get("axis", -1)), x.rank, c.op), ints(c.get("k"), c.op)
    if len(numbers) != 1:
        raise Declined(c.op, "k is not one number")
    (count,) = numbers
    dims = axes_of(x)
    out: Dims = tuple(("k",) if n == axis else d for n, d in enumerate(dims))
    shape: Shape = tuple(count if n == axis else d for n, d in enumerate(x.shape))
    return opaque(
        merged(c, axis=axis),
        Signature((dims,), (out, out), roles(dims, [axis], "fixed")),
        [(shape, x.dtype), (shape, "int64")],
    )


@define("ReduceL2 ReduceLogSum ReduceLogSumExp", "data axes?", REDUCTION, "axes[]")
def reduce_opaque(c: Call) -> Outputs:
    x = c.one()
    axes, keep = reduced_axes(c, x), bool(c.get("keepdims", 1))
    if not axes:
        raise Declined(c.op, "nothing is reduced")
    dims = axes_of(x)
    out: Dims = tuple(() if n in axes else d for n, d in enumerate(dims) if keep or n not in axes)
    shape: Shape = tuple(1 if n in axes else d for n, d in enumerate(x.shape) if keep or n not in axes)
    return opaque(c, Signature((dims,), (out,), roles(dims, axes, "reduce")), [(shape, x.dtype)])


@define("LayerNormalization", "x scale b?", "axis epsilon stash_type")
def layer_normalization(c: Call) -> Outputs:
    x, *parameters = c.tensors
    axis = normalize_axis(int(c.get("axis", -1)), x.rank, c.op)
    dims = axes_of(x)
    own = dims[axis:]
    if c.count > 1 or any(p.rank != len(own) for p in parameters):
        raise Declined(c.op, "statistics are used, or the scale is broadcast")
    special = list(range(axis, x.rank))
    return opaque(
        c,
        Signature((dims, *(own for _ in parameters)), (dims,), roles(dims, special, "equivariant")),
        [(x.shape, x.dtype)],
    )


@define(
    "BatchNormalization",
    "x scale b input_mean input_var",
    "epsilon momentum spatial=0|1 is_test=0|1 training_mode=0|1 consumed_inputs",
)
def batch_normalization(c: Call) -> Outputs:
    x, *parameters = c.tensors
    if c.count > 1 or c.get("training_mode", 0) or not c.get("spatial", 1) or (c.opset < 7 and not c.get("is_test", 0)):
        raise Declined(c.op, "training")
    dims = axes_of(x)
    channel: Dims = (dims[1],) if x.rank > 1 else ((),)
    return opaque(
        c, Signature((dims, *(channel for _ in parameters)), (dims,), roles(dims, [], "map")), [(x.shape, x.dtype)]
    )


@define("InstanceNormalization", "input scale b", "epsilon consumed_inputs")
def instance_normalization(c: Call) -> Outputs:
    x, *parameters = c.tensors
    dims = axes_of(x)
    special = list(range(2, x.rank))
    return opaque(
        c,
        Signature((dims, *((dims[1],) for _ in parameters)), (dims,), roles(dims, special, "equivariant")),
        [(x.shape, x.dtype)],
    )


@define("GroupNormalization", "x scale bias", "epsilon num_groups stash_type")
def group_normalization(c: Call) -> Outputs:
    if c.opset < 21:
        raise Declined(c.op, "is deprecated")
    x, *parameters = c.tensors
    dims = axes_of(x)
    own = [_fresh(f"p{k}_", p.rank) for k, p in enumerate(parameters)]
    special = {d[0]: "equivariant" for d in dims[2:]}
    return opaque(c, Signature((dims, *own), (dims,), {"a0": "map", **special}), [(x.shape, x.dtype)])


@define("LRN", "x", "alpha beta bias size")
def lrn(c: Call) -> Outputs:
    x = c.one()
    dims = axes_of(x)
    return opaque(c, Signature((dims,), (dims,), roles(dims, [1], "fixed")), [(x.shape, x.dtype)])


@define("MaxPool", "x", f"{POOLING} storage_order=0|1")
@define("AveragePool", "x", f"{POOLING} count_include_pad=0|1")
@define("LpPool", "x", f"{POOLING} p")
def pool(c: Call) -> Outputs:
    if c.count > 1:
        raise Declined(c.op, "positions are used")
    return _windowed(c, c.one())


@define("GlobalLpPool", "x", "p")
def global_lp_pool(c: Call) -> Outputs:
    x = c.one()
    dims = axes_of(x)
    out: Dims = tuple(() if n > 1 else d for n, d in enumerate(dims))
    shape: Shape = tuple(1 if n > 1 else d for n, d in enumerate(x.shape))
    return opaque(c, Signature((dims,), (out,), roles(dims, range(2, x.rank), "reduce")), [(shape, x.dtype)])


def _windowed(c: Call, x: Tensor) -> Outputs:
    head: Dims = (("n",), ("c",))
    inside, outside = _fresh("x", x.rank - 2), _fresh("y", x.rank - 2)
    return opaque(c, Signature(((*head, *inside),), ((*head, *outside),), {"n": "map", "c": "map"}))


@define("Conv", "x w b?", f"{WINDOW} group")
def conv(c: Call) -> Outputs:
    x, w, *bias = c.tensors
    groups, kernel = int(c.get("group", 1)), _fresh("k", w.rank - 2)
    inside, outside = _fresh("x", x.rank - 2), _fresh("y", x.rank - 2)
    group = ("g",) if groups > 1 else ()
    data: Dims = (("n",), (*group, "c"), *inside)
    weights: Dims = ((*group, "o"), ("c",), *kernel)
    result: Dims = (("n",), (*group, "o"), *outside)
    return _grouped(
        c,
        groups,
        w.shape[0],
        Signature((data, weights, *(((*group, "o"),) for _ in bias)), (result,), _conv_roles(group)),
    )


@define("ConvTranspose", "x w b?", f"{WINDOW} group output_padding output_shape")
def conv_transpose(c: Call) -> Outputs:
    x, w, *bias = c.tensors
    groups, kernel = int(c.get("group", 1)), _fresh("k", w.rank - 2)
    inside, outside = _fresh("x", x.rank - 2), _fresh("y", x.rank - 2)
    # In groups the number of groups is in no shape, so the channels stay as they are.
    channels = ("o",) if groups == 1 else ("go",)
    signature = Signature(
        ((("n",), ("c",), *inside), (("c",), ("o",), *kernel), *((channels,) for _ in bias)),
        ((("n",), channels, *outside),),
        _conv_roles(()) if groups == 1 else {"n": "map"},
    )
    return opaque(c, signature)


def _conv_roles(group: tuple[str, ...]) -> dict[str, str]:
    return {"n": "map", "o": "map", "c": "reduce", **{g: "map" for g in group}}


def _grouped(c: Call, groups: int, channels: Dim, signature: Signature) -> Outputs:
    """Refuse a signature whose group label would get another extent than the node's groups."""
    made = opaque(c, signature)
    if groups > 1:
        extents = signature.check([x.shape for x in c.tensors], [made[0].shape], c.op)
        if not same_dim(extents["g"], groups):
            raise Declined(c.op, f"{channels} channels in {groups} groups")
    return made


@define("Resize", "x roi? scales? sizes?", RESIZING)
@define("Upsample", "x scales", "mode=nearest|linear scales")
def resize(c: Call) -> Outputs:
    x = c.operands[0]
    if (
        x is None
        or not c.types
        or c.types[0] is None
        or c.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    ):
        raise Declined(c.op, "the output shape, or a region of interest")
    if c.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Declined(c.op, "keeps an aspect ratio")
    out = c.types[0][0]
    if c.get("axes") is not None or len(out) != x.rank:
        raise Declined(c.op, "resizes named axes")
    from eqsat.ir.tensors.tensor import Constant

    same = [n for n, (p, q) in enumerate(zip(x.shape, out, strict=True)) if n < 2 and same_dim(p, q)]
    scales: list[Any] = [c.attrs["scales"]] if "scales" in c.attrs else []
    scales += [
        p.node.array
        for p in c.tensors[1:]
        if isinstance(p.node, Constant) and p.dtype == "float32" and p.shape == (x.rank,)
    ]
    unit = [n for n in same if all(float(s[n]) == 1.0 for s in scales)]
    rest = [_fresh(f"p{k}_", p.rank) for k, p in enumerate(c.tensors[1:])]
    inside: Dims = tuple((f"a{n}",) if n in unit else (f"x{n}",) for n in range(x.rank))
    outside: Dims = tuple((f"a{n}",) if n in unit else (f"y{n}",) for n in range(x.rank))
    return opaque(c, Signature((inside, *rest), (outside,), {f"a{n}": "map" for n in unit}), [(out, x.dtype)])
