"""ONNX operators on images that are no convolution: cropping or padding around the middle, columns put back."""

from __future__ import annotations

from eqsat.ir.tensors.tensor import Tensor, from_body
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, as_dim, normalize_axes, output_axes, reduce_axes, require_static
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined, ints
from eqsat.onnx.ops.conv import numbers
from eqsat.onnx.ops.nodes import node
from eqsat.onnx.ops.table import define
from eqsat.onnx.ops.views import need, padded


@define("CenterCropPad", "input_data shape", "axes", "shape[]")
def center_crop_pad(c: Call) -> Tensor:
    """Half of the difference, rounded down, goes before."""
    x, wanted = c.one(), ints(need(c, "shape"), c.op)
    axes = normalize_axes(ints(c.get("axes", tuple(range(x.rank))), c.op), x.rank, c.op)
    if len(axes) != len(wanted) or min(wanted, default=0) < 0:
        raise Declined(c.op, f"{len(wanted)} extents for {len(axes)} axes")
    before, after = [0] * x.rank, [0] * x.rank
    extents = require_static(tuple(x.shape[a] for a in axes), c.op)
    for axis, extent, size in zip(axes, extents, wanted, strict=True):
        more = abs(size - extent)
        sign = 1 if size > extent else -1
        before[axis], after[axis] = sign * (more // 2), sign * (more - more // 2)
    return padded(x, before, after, False if x.dtype == "bool" else 0)


@node("Col2Im", "input image_shape block_shape", "dilations pads strides", "image_shape[] block_shape[]")
def columns_to_image(c: Call) -> Tensor:
    """Every cell is the sum of those cells of blocks that lie on it."""
    x, image, block = c.one(), ints(need(c, "image_shape"), c.op), ints(need(c, "block_shape"), c.op)
    count = len(image)
    strides, apart, pads = (numbers(c, n, k, d) for n, k, d in (
        ("strides", count, 1), ("dilations", count, 1), ("pads", 2 * count, 0)))  # fmt: skip
    (width,) = require_static(x.shape[1:2], c.op)
    cells = 1
    for k in block:
        cells *= k
    rows = [(i + pads[n] + pads[count + n] - (k - 1) * a - 1) // s + 1
            for n, (i, k, a, s) in enumerate(zip(image, block, apart, strides, strict=True))]  # fmt: skip
    if len(block) != count or cells < 1 or width % cells or min(rows, default=0) < 1:
        raise Declined(c.op, f"blocks {block} for image {image}")
    shape: Shape = (x.shape[0], as_dim(width // cells), *image)
    n, channel, *places = output_axes(shape)
    taps = reduce_axes(tuple(block))
    checks: list[Term] = []
    inner, column = t.index_const(0), t.index_const(0)
    for place, tap, k, a, s, p, r in zip(places, taps, block, apart, strides, pads, rows, strict=False):
        from_start = place + p - tap * a
        at = from_start // s
        checks += [t.compare("le", 0, from_start), t.compare("lt", at, r)]
        checks += [t.compare("eq", from_start % s, 0)] if s > 1 else []
        inner, column = inner * k + tap, column * r + at
    load = x[(n, channel * cells + inner, column)]
    body = t.where(t.logical_and(*checks), load, t.const(0, x.dtype))
    return Tensor(from_body(body, shape, tuple(block), "sum"))
