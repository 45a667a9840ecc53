"""The layout operators as Views: each is only an index formula."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from eqsat.ir.dtypes import BOOL, NDArray
from eqsat.ir.errors import ShapeError, TypeMismatch
from eqsat.ir.given import told, whole
from eqsat.ir.ranges.bounds import bounds
from eqsat.ir.tensors.tensor import Node, Tag, Tensor, View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import (
    Dim,
    Shape,
    as_dim,
    as_shape,
    format_shape,
    format_shapes,
    normalize_axes,
    normalize_axis,
    one_symbol,
    output_axes,
    require_static,
    same_dim,
    same_shape,
    same_size,
    shape_names,
    size_term,
    static_shape,
)  # fmt: skip
from eqsat.ir.terms.term import Term, TermLike
from eqsat.ir.terms.text import format_term
from eqsat.ir.terms.walk import substitute


def view(
    x: Tensor, shape: Any, gather: Sequence[Term], valid: Any = True, fill: Term | None = None, tag: Tag | None = None
) -> Tensor:
    """The View node itself: out[i] = x[gather(i)] where valid(i), else fill(i)."""
    return Tensor(View(x, as_shape(shape), gather, t.as_bool(valid), fill, tag))


def permute_dims(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Axis k of the result is axis axes[k] of x, as numpy.transpose."""
    order = normalize_axes(axes, x.rank, f"permute_dims of shape {format_shape(x.shape)} by {tuple(axes)}")
    if len(order) != x.rank:
        raise ShapeError(f"permute_dims by {tuple(axes)}", f"{len(order)} axes for rank {x.rank}")
    shape = tuple(x.shape[a] for a in order)
    axes_out = output_axes(shape)
    gather = [axes_out[order.index(a)] for a in range(x.rank)]
    return view(x, shape, gather, tag=Tag("permute_dims", (("axes", order),)))


def unflatten(flat: Term, shape: Shape) -> list[Term]:
    """The row-major coordinates of a flat index that lies in the shape; axes of extent 1 are at 0.

    >>> unflatten(t.var("k"), (2, 1, 4))
    [k // 4, 0, k % 4]
    """
    result: list[Term] = []
    leading = True
    for n in range(len(shape)):
        if same_dim(shape[n], 1):
            result.append(t.index_const(0))
            continue
        inner = size_term(shape[n + 1 :])
        part = flat if t.is_const(inner, 1) else t.binary("floordiv", flat, inner)
        result.append(part if leading else t.binary("mod", part, t.as_index(shape[n])))
        leading = False
    return result


def flatten(index: Sequence[Term], shape: Shape) -> Term:
    """The row-major flat index of coordinates; axes of extent 1 count nothing.

    >>> flatten([t.var("i"), t.var("j")], (2, 4))
    4*i + j
    """
    total = t.index_const(0)
    for i, extent in zip(index, shape, strict=True):
        if not same_dim(extent, 1):
            total = total * t.as_index(extent) + i
    return total


def _hidden_extent(source: Shape, wanted: Sequence[Any], what: str) -> list[Any]:
    """The wanted extents with a -1 computed: equal symbolic extents on both sides cancel, the rest must be numbers."""
    hidden = [n for n, d in enumerate(wanted) if not isinstance(d, Term) and d == -1]
    if not hidden:
        return list(wanted)
    have, rest = list(source), list[Dim]()
    for d in (as_dim(d) for n, d in enumerate(wanted) if n not in hidden):
        match = next((n for n, s in enumerate(have) if isinstance(d, Term) and same_dim(s, d)), None)
        if match is None:
            rest.append(d)
        else:
            have.pop(match)
    constant, parts = t.linear_parts(size_term(tuple(have)))
    count = t.int_value(size_term(tuple(rest)))
    if len(hidden) > 1 or not count or constant % count or any(c % count for c, _ in parts):
        raise ShapeError(what, "the -1 cannot be computed")
    extent = as_dim(t.linear(constant // count, [(c // count, x) for c, x in parts]))
    return [extent if n in hidden else d for n, d in enumerate(wanted)]


def wanted_extents(shape: Any) -> list[Any]:
    """The extents that a reshape asks for: integers, of which -1 is one, and terms."""
    given: list[Any] = [shape]
    if isinstance(shape, np.ndarray):
        given = list(cast(NDArray, shape).ravel())
    elif isinstance(shape, Iterable) and not isinstance(shape, Term):
        given = list(cast("Iterable[Any]", shape))
    what = f"reshape to {told(cast(Any, shape))}"
    return [d if isinstance(d, Term) else whole(d, what, "extent") for d in given]


def reshape(x: Tensor, shape: Any) -> Tensor:
    """The same elements in row-major order under another shape; one extent may be -1.

    >>> import eqsat as eq
    >>> n = eq.symbol("N")
    >>> eq.input("x", (n, 3, 4), "float32").reshape((n, -1)).shape
    (N, 12)
    """
    wanted = wanted_extents(shape)
    names = shape_names(x.shape, tuple(wanted))
    what = f"reshape of {format_shape(x.shape, names)} to {format_shape(tuple(wanted), names)}"
    out = as_shape(_hidden_extent(x.shape, wanted, what))
    if not same_size(out, x.shape):
        sizes = [format_term(size_term(s), names=names) for s in (x.shape, out)]
        raise ShapeError(what, f"{sizes[0]} elements do not fit {sizes[1]}", one_symbol(x.shape, out))
    gather = _aligned(x.shape, out)
    if gather is None:
        gather = unflatten(flatten(output_axes(out), out), x.shape)
    return view(x, out, gather, tag=Tag("reshape"))


def _aligned(source: Shape, out: Shape) -> list[Term] | None:
    """Coordinates of a reshape computed group by group where groups of axes have equal products."""
    axes, gather, m = output_axes(out), list[Term](), 0
    n = 0
    while n < len(source) or m < len(out):
        left, right = [source[n]] if n < len(source) else [], [out[m]] if m < len(out) else []
        a, b = n + len(left), m + len(right)
        while not same_size(tuple(left), tuple(right)):
            p, q = static_shape(tuple(left)), static_shape(tuple(right))
            if p is None or q is None:
                return None
            if prod(p) < prod(q) and a < len(source):
                left.append(source[a])
                a += 1
            elif b < len(out):
                right.append(out[b])
                b += 1
            else:
                return None
        gather.extend(unflatten(flatten(axes[m:b], tuple(right)), tuple(left)))
        n, m = a, b
    return gather


def expand_dims(x: Tensor, axis: int | Sequence[int]) -> Tensor:
    """Insert axes of extent 1, as numpy.expand_dims."""
    count = 1 if isinstance(axis, int) else len(axis)
    places = normalize_axes(axis, x.rank + count, f"expand_dims of {format_shape(x.shape)}")
    rest = iter(x.shape)
    return reshape(x, [1 if n in places else next(rest) for n in range(x.rank + count)])


def squeeze(x: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """Drop axes of extent 1."""
    if axis is None:
        places = tuple(n for n, d in enumerate(x.shape) if same_dim(d, 1))
    else:
        places = normalize_axes(axis, x.rank, f"squeeze of {format_shape(x.shape)}")
    for n in places:
        if not same_dim(x.shape[n], 1):
            raise ShapeError(f"squeeze of {format_shape(x.shape)}", f"axis {n} has extent {x.shape[n]}, not 1")
    return reshape(x, [d for n, d in enumerate(x.shape) if n not in places])


def broadcast_to(x: Tensor, shape: Any) -> Tensor:
    """Repeat x along new leading axes and axes of extent 1, as numpy.broadcast_to."""
    out = as_shape(shape)
    if same_shape(out, x.shape):
        return x
    offset = len(out) - x.rank
    if offset < 0:
        raise ShapeError(f"broadcast of {format_shape(x.shape)} to {format_shape(out)}", "has fewer axes")
    axes, gather = output_axes(out), list[Term]()
    for n, extent in enumerate(x.shape):
        if same_dim(extent, out[offset + n]):
            gather.append(axes[offset + n])
        elif same_dim(extent, 1):
            gather.append(t.index_const(0))
        else:
            what = f"broadcast of {' to '.join(format_shapes(x.shape, out))}"
            raise ShapeError(what, f"axis {n} has extent {extent}", one_symbol(x.shape, out))
    return view(x, out, gather, tag=Tag("broadcast_to"))


def fill_term(x: Tensor, pad_value: Any, axes: Sequence[Term], operation: str) -> Term:
    """A fill from a number, UNDEF, a function of the output index, or a term."""
    from eqsat.ir.terms.holes import UNDEF, new_hole

    if callable(pad_value) and not isinstance(pad_value, Term) and pad_value is not UNDEF:
        pad_value = pad_value(*axes)
    if pad_value is UNDEF:
        return new_hole(x.dtype, axes)
    if x.dtype == BOOL and type(pad_value) is int and pad_value == 0:
        # The default of a pad is the zero of every type.
        pad_value = False
    value = pad_value if isinstance(pad_value, Term) else t.const(pad_value, x.dtype)
    if value.dtype != x.dtype:
        raise TypeMismatch(operation, f"pad value {value} is {value.dtype}, the tensor is {x.dtype}")
    return value


def pad(x: Tensor, pad_width: Any, pad_value: Any = 0, mode: str = "constant") -> Tensor:
    """Add cells before and after each axis, as numpy.pad: pad_width is an int, (before, after) or one pair per axis.

    mode: "constant" (pad_value: a number, eq.UNDEF, a term or a function of the output index), "edge", "reflect",
    "symmetric" or "wrap".

    >>> import eqsat as eq, numpy as np
    >>> eq.evaluate(eq.constant(np.arange(3)).pad(2, mode="reflect"))
    array([2, 1, 0, 1, 2, 1, 0])
    """
    widths = _pad_widths(pad_width, x, f"pad of {format_shape(x.shape)} by {pad_width}")
    shape = tuple(as_dim(d + (a + b)) for d, (a, b) in zip(x.shape, widths, strict=True))
    axes = output_axes(shape)
    inner = [i - a for i, (a, _) in zip(axes, widths, strict=True)]
    if mode != "constant":
        gather = [_mode_index(mode, i, d, w) for i, d, w in zip(inner, x.shape, widths, strict=True)]
        return view(x, shape, gather, tag=Tag("pad", (("mode", mode),)))
    checks: list[Term] = []
    for i, d, (a, b) in zip(inner, x.shape, widths, strict=True):
        if a:
            checks.append(t.compare("le", 0, i))
        if b:
            checks.append(t.compare("lt", i, t.as_index(d)))
    if not checks:
        return view(x, shape, inner, tag=Tag("pad"))
    fill = fill_term(x, pad_value, axes, "pad")
    return view(x, shape, inner, t.logical_and(*checks), fill, Tag("pad"))


def _mode_index(mode: str, i: Term, extent: Dim, width: tuple[int, int]) -> Term:
    """The source index of one axis for an index that may lie outside of it."""
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise ShapeError(f"pad in mode {mode!r}", "unknown mode", "constant, edge, reflect, symmetric or wrap")
    if width == (0, 0):
        return i
    n = t.as_index(extent)
    least = bounds(n)[0]
    if least is None or least < 1:
        raise ShapeError(f"pad in mode {mode}", f"an axis of extent {extent} may have no elements to repeat")
    if mode == "edge":
        return t.binary("max", 0, t.binary("min", i, n - 1))
    if mode == "wrap":
        return t.binary("mod", i, n)
    if mode == "symmetric":
        ahead = t.binary("max", i, -1 - i) if max(width) <= least else t.binary("mod", i, n * 2)
        return t.binary("min", ahead, n * 2 - 1 - ahead)
    if max(width) < least:
        return (n - 1) - t.absolute((n - 1) - t.absolute(i))
    if least < 2 and not same_dim(extent, 1):
        raise ShapeError(f"pad by {width} in mode reflect", f"extent {extent} may be 1", "set its lower bound")
    if same_dim(extent, 1):
        return t.index_const(0)
    return (n - 1) - t.absolute((n - 1) - t.binary("mod", i, (n - 1) * 2))


def _pad_widths(pad_width: Any, x: Tensor, operation: str) -> list[tuple[int, int]]:
    try:
        array: NDArray = np.asarray(pad_width)
        if array.size and array.dtype.kind not in "iu":
            raise ValueError("not integers")
        shape = (x.rank, 2)
        widths = np.broadcast_to(array.astype(np.int64) if array.size or x.rank else np.zeros(shape, np.int64), shape)
    except ValueError as error:
        fix = "an int, a pair, or one pair per axis"
        raise ShapeError(operation, f"pad_width does not fit rank {x.rank}", fix) from error
    result = [(int(a), int(b)) for a, b in widths]
    if any(a < 0 or b < 0 for a, b in result):
        raise ShapeError(operation, "negative pad width", "x.crop(...) removes cells")
    return result


def slice_(x: Tensor, starts: Sequence[TermLike], sizes: Sequence[Any], steps: Sequence[int] | None = None) -> Tensor:
    """sizes[n] elements of each axis from starts[n], every steps[n]-th (steps may be negative; starts may be symbolic).

    >>> import eqsat as eq, numpy as np
    >>> eq.evaluate(eq.constant(np.arange(6)).slice([5], [3], [-2]))
    array([5, 3, 1])
    """
    shape, gather = _slice_gather(x, starts, sizes, steps, "slice")
    return view(x, shape, gather, tag=Tag("slice"))


def _slice_gather(
    x: Tensor, starts: Sequence[TermLike], sizes: Sequence[Any], steps: Sequence[int] | None, name: str
) -> tuple[Shape, list[Term]]:
    """The shape and the gather of a slice, checked where the numbers are known."""
    strides = [1] * x.rank if steps is None else [int(s) for s in steps]
    what = f"{name} of {format_shape(x.shape)} from {tuple(starts)} of {tuple(sizes)} by {tuple(strides)}"
    if not len(starts) == len(sizes) == len(strides) == x.rank:
        raise ShapeError(what, f"needs one start, size and step per axis of rank {x.rank}")
    shape = as_shape(sizes)
    for n, (start, extent, step, source) in enumerate(zip(starts, shape, strides, x.shape, strict=True)):
        limit, count, first = (t.int_value(t.as_index(size)) for size in (source, extent, start))
        if step == 0:
            raise ShapeError(what, f"step of axis {n} is 0")
        if limit is not None and count and first is not None:
            last = first + step * (count - 1)
            if not (0 <= first < limit and 0 <= last < limit):
                raise ShapeError(what, f"axis {n} reads {first}..{last} of 0..{limit - 1}")
    return shape, [
        t.as_index(start) + step * i for start, step, i in zip(starts, strides, output_axes(shape), strict=True)
    ]


def crop(x: Tensor, start_indices: Sequence[TermLike], slice_sizes: Sequence[Any], cropped_value: Any = None) -> Tensor:
    """The box of slice_sizes cells from start_indices.

    `cropped_value` is an assumption of the user about the cells that are cropped away: it is recorded in the tag and
    checked by eq.evaluate. eq.UNDEF states nothing.
    """
    from eqsat.ir.terms.holes import UNDEF

    shape, gather = _slice_gather(x, start_indices, slice_sizes, None, "crop")
    if cropped_value is None or cropped_value is UNDEF:
        return view(x, shape, gather, tag=Tag("crop"))
    value = t.const(cropped_value, x.dtype)
    return view(x, shape, gather, tag=Tag("crop", (("cropped_value", value),)))


def put_back(node: Node) -> View | None:
    """The pad that makes the whole of a part, if the cropped cells hold the value that a crop says they do; None for
    other nodes, and where it is not known how many they are.

    >>> import eqsat as eq, numpy as np
    >>> part = eq.input("x", (5,), "int8").crop((1,), (3,), cropped_value=0)
    >>> eq.evaluate(Tensor(put_back(part.node)), {"x": np.array([0, 1, 2, 3, 0], np.int8)})
    array([0, 1, 2, 3, 0], dtype=int8)
    """
    value = node.tag.get("cropped_value") if isinstance(node, View) and node.tag is not None else None
    if not isinstance(node, View) or value is None:
        return None
    first = dict.fromkeys(output_axes(node.outputs[0][0]), t.index_const(0))
    widths: list[tuple[int, int]] = []
    for start, part, extent in zip(node.gather, node.outputs[0][0], node.source.shape, strict=True):
        before = t.int_value(substitute(start, first))
        after = t.int_value(t.as_index(extent) - t.as_index(part) - (before or 0))
        if before is None or after is None:
            return None
        widths.append((before, after))
    made = pad(Tensor(node), widths, t.const_value(value)).node
    return made if isinstance(made, View) else None


def flip(x: Tensor, axes: int | Sequence[int] | None = None) -> Tensor:
    """Reverse the order of elements along axes, as numpy.flip."""
    places = normalize_axes(axes, x.rank, f"flip of {format_shape(x.shape)}")
    out = output_axes(x.shape)
    gather = [t.as_index(x.shape[n]) - 1 - i if n in places else i for n, i in enumerate(out)]
    return view(x, x.shape, gather, tag=Tag("flip"))


def roll(x: Tensor, shift: int, axis: int) -> Tensor:
    """Shift elements along an axis, wrapping around, as numpy.roll."""
    n = normalize_axis(axis, x.rank, f"roll of {format_shape(x.shape)}")
    out = list(output_axes(x.shape))
    out[n] = t.binary("mod", out[n] - shift, t.as_index(x.shape[n]))
    return view(x, x.shape, out, tag=Tag("roll"))


def tile(x: Tensor, reps: Sequence[int]) -> Tensor:
    """Repeat the tensor reps[n] times along axis n, as numpy.tile for len(reps) == rank."""
    if len(reps) != x.rank or any(r < 0 for r in reps):
        raise ShapeError(f"tile of {format_shape(x.shape)} by {tuple(reps)}", "needs one count >= 0 per axis")
    shape = tuple(as_dim(t.as_index(d) * r) for d, r in zip(x.shape, reps, strict=True))
    gather = [t.binary("mod", i, t.as_index(d)) for i, d in zip(output_axes(shape), x.shape, strict=True)]
    return view(x, shape, gather, tag=Tag("tile"))


def take(x: Tensor, indices: Sequence[int] | NDArray, axis: int) -> Tensor:
    """Positions `indices` (constants) of an axis, as numpy.take: the index formula loads a constant table."""
    from eqsat.ir.terms.tables import table_load

    n = normalize_axis(axis, x.rank, f"take of {format_shape(x.shape)}")
    given: NDArray = np.asarray(indices)
    extent = require_static((x.shape[n],), "take")[0]
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise ShapeError(f"take along axis {axis}", f"positions {indices!r} are not one axis of integers")
    outside = [int(p) for p in given if not -extent <= p < extent]
    if outside:
        raise ShapeError(f"take along axis {axis}", f"position {outside[0]} is not in 0..{extent - 1}")
    positions = np.where(given < 0, given + extent, given).astype(np.int64)
    shape = (*x.shape[:n], int(positions.size), *x.shape[n + 1 :])
    gather: list[Term] = list(output_axes(shape))
    gather[n] = table_load(positions, gather[n])
    return view(x, shape, gather, tag=Tag("take"))
