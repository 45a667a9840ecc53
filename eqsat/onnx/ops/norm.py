"""Normalisations of ONNX: two passes for the statistics, then one multiplication and one addition per element."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.ir.tensors.pointwise import pointwise
from eqsat.ir.tensors.reductions import mean, reduce
from eqsat.ir.tensors.tensor import Tensor, from_body
from eqsat.ir.tensors.views import reshape
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, normalize_axes, normalize_axis, output_axes, reduce_axes
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined, ints, single
from eqsat.onnx.ops.conv import along_channels
from eqsat.onnx.ops.nodes import node


def variance(x: Tensor, middle: Tensor, axes: Sequence[int]) -> Tensor:
    """The mean of (x - middle)^2 along axes, which keep extent 1."""
    squares = pointwise("Square", lambda a, m: (a - m) * (a - m), x, middle)
    return mean(squares, axes, True)


def _reciprocal_root(v: Tensor, epsilon: float) -> Tensor:
    return pointwise("Rsqrt", lambda a: 1.0 / t.unary("sqrt", a + epsilon), v)


def normalised(
    x: Tensor, axes: Sequence[int], epsilon: float, scale: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, the mean, and the reciprocal of the root."""
    middle = mean(x, axes, True)
    root = _reciprocal_root(variance(x, middle, axes), epsilon)
    factors = [y for y in (scale, bias) if y is not None]

    def body(a: Term, m: Term, r: Term, *rest: Term) -> Term:
        value = (a - m) * r if scale is None else (a - m) * r * rest[0]
        return value if bias is None else value + rest[-1]

    return pointwise("Normalize", body, x, middle, root, *factors), middle, root


@node("LayerNormalization", "x scale b?", "axis epsilon stash_type")
def layer_normalization(c: Call) -> tuple[Tensor, Tensor, Tensor]:
    x, *factors = c.tensors
    axis = normalize_axis(int(c.get("axis", -1)), x.rank, c.op)
    scale, bias = (*factors, None, None)[:2]
    return normalised(x, range(axis, x.rank), float(c.parameter("epsilon")), scale, bias)


@node("RMSNormalization", "x scale", "axis epsilon stash_type")
def rms_normalization(c: Call) -> Tensor:
    """x / sqrt(mean of squares + epsilon) * scale."""
    x, scale = c.tensors
    axis = normalize_axis(int(c.get("axis", -1)), x.rank, c.op)
    squares = mean(pointwise("Square", lambda a: a * a, x), range(axis, x.rank), True)
    epsilon = float(c.parameter("epsilon"))

    def body(a: Term, m: Term, s: Term) -> Term:
        return a / t.unary("sqrt", m + epsilon) * s

    return pointwise("Normalize", body, x, squares, scale)


@node("InstanceNormalization", "input scale b", "epsilon consumed_inputs")
def instance_normalization(c: Call) -> Tensor:
    x, scale, bias = c.tensors
    factors = along_channels(scale, x.shape), along_channels(bias, x.shape)
    return normalised(x, range(2, x.rank), float(c.parameter("epsilon")), *factors)[0]


@node("GroupNormalization", "x scale bias", "epsilon num_groups stash_type")
def group_normalization(c: Call) -> Tensor:
    """Channels as (group, member); scale and bias have one number per channel."""
    x, scale, bias = c.tensors
    if c.opset < 21 or x.rank < 2:
        raise Declined(c.op, "is deprecated" if c.opset < 21 else f"an operand of rank {x.rank}")
    groups, channels = ints(c.get("num_groups", 0), c.op)[0], x.shape[1]
    if not isinstance(channels, int) or groups < 1 or channels % groups:
        raise Declined(c.op, f"{channels} channels in {groups} groups")
    split: Shape = (x.shape[0], groups, channels // groups, *x.shape[2:])
    factor: Shape = (groups, channels // groups, *(1,) * (x.rank - 2))
    factors = reshape(scale, factor), reshape(bias, factor)
    y = normalised(reshape(x, split), range(2, len(split)), float(c.parameter("epsilon")), *factors)[0]
    return reshape(y, x.shape)


@node(
    "BatchNormalization",
    "x scale b input_mean input_var",
    "epsilon momentum spatial=1 is_test=0|1 training_mode=0 consumed_inputs",
)
def batch_normalization(c: Call) -> Tensor:
    """One factor and one summand per channel, computed once."""
    x, scale, bias, middle, spread = c.tensors
    if c.opset < 7 and not c.get("is_test", 0):
        raise Declined(c.op, "training")
    epsilon = float(c.parameter("epsilon"))

    def rest(b: Term, m: Term, f: Term) -> Term:
        return b - m * f

    def scaled(a: Term, f: Term, b: Term) -> Term:
        return a * f + b

    factor = pointwise("Div", lambda s, v: s / t.unary("sqrt", v + epsilon), scale, spread)
    summand = pointwise("Sub", rest, bias, middle, factor)
    parts = [along_channels(p, x.shape) if x.rank > 1 else p for p in (factor, summand)]
    return pointwise("MulAdd", scaled, x, *parts)


@node("MeanVarianceNormalization", "x", "axes")
def mean_variance_normalization(c: Call) -> Tensor:
    """(x - mean) / (sqrt(variance) + 1e-9): equal numbers are 0, and small ones grow as large ones do."""
    x = c.one()
    axes = normalize_axes(ints(c.get("axes", (0, 2, 3)), c.op), x.rank, c.op)
    middle = mean(x, axes, True)

    def body(a: Term, m: Term, v: Term) -> Term:
        return (a - m) / (t.unary("sqrt", v) + single(1e-9))

    return pointwise("Normalize", body, x, middle, variance(x, middle, axes))


@node("LpNormalization", "input", "axis p=1|2", along=1)
def lp_normalization(c: Call) -> Tensor:
    x, p = c.one(), ints(c.get("p", 2), c.op)[0]
    axis = int(c.attrs["axis"])
    powers = pointwise("Power", lambda a: t.absolute(a) if p == 1 else a * a, x)
    total = reduce(powers, "sum", axis, True)
    norm = total if p == 1 else pointwise("Sqrt", lambda a: t.unary("sqrt", a), total)
    zero = t.const(0, x.dtype)
    return pointwise("Div", lambda a, n: t.where(t.compare("eq", n, 0), zero, a / n), x, norm)


@node("LRN", "x", "alpha beta bias size")
def lrn(c: Call) -> Tensor:
    """x / (bias + alpha / size * sum of squares of the `size` channels around)^beta."""
    x, size = c.one(), ints(c.get("size", 0), c.op)[0]
    if x.rank < 2 or size % 2 != 1:
        raise Declined(c.op, f"{size} channels at rank {x.rank}: runtimes take odd sizes")
    axes = output_axes(x.shape)
    near = axes[1] + reduce_axes((size,))[0] - size // 2
    cell = x[(axes[0], near, *axes[2:])]
    inside = t.logical_and(t.compare("le", 0, near), t.compare("lt", near, t.as_index(x.shape[1])))
    body = t.where(inside, cell * cell, t.const(0, x.dtype))
    squares = Tensor(from_body(body, x.shape, (size,), "sum"))
    share, beta, bias = float(c.parameter("alpha")) / size, float(c.parameter("beta")), float(c.parameter("bias"))
    return pointwise("LRN", lambda a, s: a / t.binary("pow", s * share + bias, beta), x, squares)
