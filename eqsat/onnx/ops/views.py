"""ONNX's layout operators as index formulas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.ir.errors import ShapeError
from eqsat.ir.flat.size_terms import as_extent, as_size
from eqsat.ir.flat.sizes import div, leaves_room
from eqsat.ir.tensors import pointwise, reductions, views
from eqsat.ir.tensors.arrays.indexing import sliced
from eqsat.ir.tensors.tensor import Compute, Tensor, constant, from_body
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import (
    Dim,
    as_dim,
    normalize_axes,
    normalize_axis,
    output_axes,
    size,
    size_term,
    static_shape,
)
from eqsat.ir.terms.term import Term, TermLike
from eqsat.onnx.call import Call, Declined, TensorAttr, ints, items_of
from eqsat.onnx.ops.signatures import named
from eqsat.onnx.ops.table import SMALL, define, merged, opaque
from eqsat.onnx.slice import open_slice, taken

EXACT = 1 << 24
"""Whole numbers up to here are exact in float32."""
RANGE_TYPES = ("int16", "int32", "int64", "float32", "float64")


def need(c: Call, name: str) -> Any:
    """A parameter that must be there as a constant."""
    if name not in c.attrs:
        raise Declined(c.op, f"{name} is not a constant")
    return c.attrs[name]


def extents(value: Any) -> list[Dim]:
    """A shape parameter: numbers (-1 and 0 have their own meaning) and symbolic sizes."""
    return [v if isinstance(v, Term) else int(v) for v in items_of(value)]


@define("Transpose", "data", "perm")
def transpose(c: Call) -> Tensor:
    x = c.one()
    return views.permute_dims(x, c.get("perm", tuple(reversed(range(x.rank)))))


def divide(whole: Term, part: Term, op: str) -> Dim:
    """The exact quotient of two sizes."""
    if whole is part and t.int_value(part) != 0:
        return 1
    quotient = div(as_size(as_dim(whole)), as_size(as_dim(part)))
    if quotient is None:
        raise Declined(op, f"{whole} elements do not divide by {part}")
    return as_extent(quotient)


@define("Reshape", "data shape", "allowzero=0|1 shape", "shape[]")
def reshape(c: Call) -> Tensor:
    x, wanted = c.one(), extents(need(c, "shape"))
    if not c.get("allowzero", 0):
        if any(isinstance(d, int) and d == 0 for d in wanted[x.rank :]):
            raise Declined(c.op, "copies an axis that the operand has not")
        wanted = [x.shape[n] if isinstance(d, int) and d == 0 else d for n, d in enumerate(wanted)]
    unknown = [n for n, d in enumerate(wanted) if isinstance(d, int) and d == -1]
    if unknown:
        rest = size_term(tuple(d for n, d in enumerate(wanted) if n not in unknown))
        wanted[unknown[0]] = divide(size_term(x.shape), rest, c.op)
    return views.reshape(x, wanted)


@define("Flatten", "input", "axis")
def flatten(c: Call) -> Tensor:
    x = c.one()
    axis = int(c.get("axis", 1))
    axis = axis + x.rank if axis < 0 else axis
    if not 0 <= axis <= x.rank:
        raise Declined(c.op, f"axis {axis} of rank {x.rank}")
    return views.reshape(x, (as_dim(size_term(x.shape[:axis])), as_dim(size_term(x.shape[axis:]))))


@define("Squeeze", "data axes?", "axes", "axes[]")
def squeeze(c: Call) -> Tensor:
    x, axes = c.one(), c.get("axes")
    if axes is None and static_shape(x.shape) is None:
        raise Declined(c.op, "whether a symbolic axis has extent 1 is known when the model runs")
    return views.squeeze(x, None if axes is None else ints(axes, c.op))


@define("Unsqueeze", "data axes", "axes", "axes[]")
def unsqueeze(c: Call) -> Tensor:
    return views.expand_dims(c.one(), ints(need(c, "axes"), c.op))


@define("Expand", "input shape", "", "shape[]")
def expand(c: Call) -> Tensor:
    x = c.one()
    wanted = tuple(extents(need(c, "shape")))
    return views.broadcast_to(x, pointwise.broadcast_shapes(x.shape, wanted))


@define("Tile", "input repeats", "", "repeats[]")
def tile(c: Call) -> Tensor:
    return views.tile(c.one(), ints(need(c, "repeats"), c.op))


@define(
    "Pad",
    "data pads? constant_value? axes?",
    "pads paddings value mode=constant|reflect|edge|wrap",
    "pads[] constant_value axes[]",
)
def pad(c: Call) -> Tensor:
    x, widths = c.one(), ints(c.attrs["paddings"] if "paddings" in c.attrs else need(c, "pads"), c.op)
    given = c.get("axes")
    axes = list(range(x.rank)) if given is None else list(normalize_axes(ints(given, c.op), x.rank, c.op))
    if len(widths) != 2 * len(axes):
        raise Declined(c.op, f"{len(widths)} widths for {len(axes)} axes")
    before, after = [0] * x.rank, [0] * x.rank
    for k, axis in enumerate(axes):
        before[axis], after[axis] = widths[k], widths[k + len(axes)]
    mode = c.get("mode", "constant")
    if mode != "constant":
        return views.pad(x, list(zip(before, after, strict=True)), mode=mode)
    value = c.get("constant_value", c.get("value", 0))
    return padded(x, before, after, items_of(value)[0])


def padded(x: Tensor, before: Sequence[int], after: Sequence[int], value: Any) -> Tensor:
    """Constant padding; negative widths cut cells away."""
    shape = tuple(as_dim(t.as_index(d) + (a + b)) for d, a, b in zip(x.shape, before, after, strict=True))
    axes = output_axes(shape)
    inner = [i - a for i, a in zip(axes, before, strict=True)]
    checks: list[Term] = []
    for i, d, a, b in zip(inner, x.shape, before, after, strict=True):
        checks += [t.compare("le", 0, i)] if a > 0 else []
        checks += [t.compare("lt", i, t.as_index(d))] if b > 0 else []
        if (a < 0 or b < 0) and not isinstance(d, int):
            raise Declined("Pad", "cuts cells off a symbolic axis")
    fill = t.const(value, x.dtype) if checks else None
    return views.view(x, shape, inner, t.logical_and(*checks), fill)


@define("Slice", "data starts ends axes? steps?", "starts ends axes", "starts[] ends[] axes[] steps[]")
def slice_(c: Call) -> Tensor:
    x = c.one()
    starts, ends = (extents(need(c, name)) for name in ("starts", "ends"))
    axes = normalize_axes(ints(c.get("axes", tuple(range(len(starts)))), c.op), x.rank, c.op)
    steps = ints(c.get("steps", (1,) * len(starts)), c.op)
    first: list[TermLike] = [0] * x.rank
    sizes, by = list(x.shape), [1] * x.rank
    for axis, low, high, step in zip(axes, starts, ends, steps, strict=True):
        extent = x.shape[axis]
        if step == 0:
            raise Declined(c.op, "a step is 0")
        by[axis] = step
        if isinstance(extent, int) and isinstance(low, int) and isinstance(high, int):
            first[axis], sizes[axis] = taken(extent, low, high, step)
            continue
        if not all(isinstance(bound, int) or leaves_room(0, as_size(bound)) for bound in (low, high)):
            raise Declined(c.op, "a bound may be below 0, and counted from the end then")
        try:
            along = sliced(open_slice(low, high, step), extent, c.op)
        except ShapeError as error:
            raise Declined(c.op, "takes a part of a symbolic axis backwards") from error
        first[axis], sizes[axis] = along.start, along.extent
    return views.slice_(x, first, sizes, by)


@define("Split", "input split?", "axis split num_outputs", "split[]")
def split(c: Call) -> Sequence[Tensor]:
    x = c.one()
    axis = normalize_axis(int(c.get("axis", 0)), x.rank, c.op)
    extent, count = x.shape[axis], int(c.get("num_outputs", c.listed))
    if not isinstance(extent, int):
        return _parts(c, x, axis)
    step = -(-extent // count)
    sizes = ints(c.attrs["split"], c.op) if "split" in c.attrs else [min(step, extent - k * step) for k in range(count)]
    if sum(sizes) != extent or min(sizes) < 0:
        raise Declined(c.op, f"{sizes} do not add up to {extent}")
    starts = np.cumsum([0, *sizes])
    return [
        views.slice_(
            x,
            [int(low) if n == axis else 0 for n in range(x.rank)],
            [size if n == axis else d for n, d in enumerate(x.shape)],
        )
        for low, size in zip(starts, sizes, strict=False)
    ]


def _parts(c: Call, x: Tensor, axis: int) -> Sequence[Tensor]:
    """The parts of an axis of unknown size, as one node that cuts every row along the axis alike."""
    known = [k for k in c.types[: c.count] if k is not None]
    if len(known) < c.count:
        raise Declined(c.op, "the shapes of its parts are not known")
    read = [f"a{n}" for n in range(x.rank)]
    written = [[f"part{k}" if n == axis else a for n, a in enumerate(read)] for k in range(c.count)]
    free = {a: "map" for n, a in enumerate(read) if n != axis}
    signature = named([read], written, [x.shape], [shape for shape, _ in known], free)
    return opaque(merged(c, axis=axis), signature, known)


@define("Concat", "inputs*", "axis")
def concat(c: Call) -> Tensor:
    first, axis = c.tensors[0], int(c.get("axis", 1))
    if len(c.tensors) > 1 and all(x == first for x in c.tensors) and -first.rank <= axis < first.rank:
        return views.tile(first, [len(c.tensors) if n == axis % first.rank else 1 for n in range(first.rank)])
    return reductions.concat(c.tensors, axis)


def _block(c: Call) -> int:
    if not c.get("blocksize"):
        raise Declined(c.op, "no size of blocks is given")
    return int(c.attrs["blocksize"])


@define("DepthToSpace", "input", "blocksize mode=DCR|CRD")
def depth_to_space(c: Call) -> Tensor:
    x, s = c.one(), _block(c)
    n, channels, h, w = x.shape
    if not isinstance(channels, int) or channels % (s * s):
        raise Declined(c.op, f"{channels} channels in blocks of {s}")
    depth = channels // (s * s)
    shape = (n, depth, as_dim(t.as_index(h) * s), as_dim(t.as_index(w) * s))
    b, ch, y, z = output_axes(shape)
    block = y % s * s + z % s
    source = block * depth + ch if c.get("mode", "DCR") == "DCR" else ch * (s * s) + block
    return views.view(x, shape, [b, source, y // s, z // s])


@define("SpaceToDepth", "input", "blocksize mode=DCR|CRD")
def space_to_depth(c: Call) -> Tensor:
    x, s = c.one(), _block(c)
    n, channels, h, w = x.shape
    if not (isinstance(channels, int) and isinstance(h, int) and isinstance(w, int)) or h % s or w % s:
        raise Declined(c.op, f"{h} x {w} in blocks of {s}")
    shape = (n, channels * s * s, h // s, w // s)
    b, k, y, z = output_axes(shape)
    if c.get("mode", "DCR") == "DCR":
        block, channel = k // channels, k % channels
    else:
        block, channel = k % (s * s), k // (s * s)
    return views.view(x, shape, [b, channel, y * s + block // s, z * s + block % s])


@define("Trilu", "input k?", "upper=0|1", "k")
def trilu(c: Call) -> Tensor | tuple[Tensor, ...]:
    x, *computed = c.tensors
    if computed:  # a diagonal that is known when the model runs
        names = [f"a{n}" for n in range(x.rank)]
        sides = [names, ["k"] * computed[0].rank]
        signature = named(sides, [names], [x.shape, computed[0].shape], [x.shape], dict.fromkeys(names[:-2], "map"))
        return opaque(c, signature, [(x.shape, x.dtype)])
    k = int(c.get("k", 0))
    if x.rank < 2:
        raise Declined(c.op, f"an operand of rank {x.rank}")
    axes = output_axes(x.shape)
    row, column = axes[-2], axes[-1]
    keep = row + k <= column if c.get("upper", 1) else column <= row + k
    body = t.where(keep, x[tuple(axes)], t.const(0, x.dtype))
    node = from_body(body, x.shape)
    return Tensor(Compute(node.operands, x.shape, node.body))


@define("ConstantOfShape", "input", "value", "input[]")
def constant_of_shape(c: Call) -> Tensor:
    if c.tensors:
        raise Declined(c.op, "the shape is not constant")
    given = c.get("value", TensorAttr("float32", (1,), np.zeros(1, "float32").tobytes()))
    value = given.array.reshape(())
    shape = tuple(as_dim(d) for d in extents(need(c, "input")))
    numbers = static_shape(shape)
    if numbers is not None and size(numbers) <= SMALL:
        return constant(np.broadcast_to(value, numbers))
    return views.broadcast_to(constant(value), shape)


@define("Constant", "", "value value_int value_ints value_float value_floats")
def literal(c: Call) -> Tensor:
    for name, dtype in (
        ("value_int", "int64"),
        ("value_ints", "int64"),
        ("value_float", "float32"),
        ("value_floats", "float32"),
    ):
        if name in c.attrs:
            return constant(np.array(c.attrs[name], dtype))
    if isinstance(c.get("value"), TensorAttr):
        return constant(c.attrs["value"].array)
    raise Declined(c.op, "the value is not modelled")


@define("Shape", "data", "start end")
def shape_of(c: Call) -> Tensor:
    x = c.one()
    if not all(isinstance(d, int) for d in x.shape):
        raise Declined(c.op, "a size is symbolic")
    return constant(np.array(x.shape[slice(c.get("start", 0), c.get("end"))], "int64"))


@define("Size", "data")
def size_of(c: Call) -> Tensor:
    total = t.int_value(size_term(c.one().shape))
    if total is None:
        raise Declined(c.op, "a size is symbolic")
    return constant(np.array(total, "int64"))


@define("Range", "start limit delta", "", "start limit delta")
def range_(c: Call) -> Tensor:
    """Whole numbers that the type has exactly: of others, runtimes add up steps or multiply them."""
    if c.tensors or any(not isinstance(c.get(n), (int, float)) for n in ("start", "limit", "delta")):
        raise Declined(c.op, "an end is not constant")
    dtype = c.types[0][1] if c.types and c.types[0] else "int64"
    ends = [c.attrs[n] for n in ("start", "limit", "delta")]
    if not all(isinstance(v, int) or (abs(v) <= EXACT and v == int(v)) for v in ends):
        raise Declined(c.op, "not a range of whole numbers")
    start, limit, delta = map(int, ends)
    if dtype not in RANGE_TYPES or delta == 0 or (limit - start) / delta > SMALL:
        raise Declined(c.op, "not a short range of numbers")
    return constant(np.arange(start, limit, delta), dtype)
