"""Reductions and contractions as Computes, and the operators composed of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from eqsat.ir import dtypes
from eqsat.ir.errors import ShapeError, TypeMismatch
from eqsat.ir.tensors.pointwise import broadcast_shapes, cast, pointwise
from eqsat.ir.tensors.tensor import Tag, Tensor, from_body
from eqsat.ir.tensors.views import crop
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import (
    Dim,
    Shape,
    format_dims,
    format_shape,
    format_shapes,
    normalize_axes,
    normalize_axis,
    one_symbol,
    output_axes,
    reduce_axes,
    require_static,
    same_dim,
    size_term,
)
from eqsat.ir.terms.term import Term


def reduce(
    x: Tensor,
    combiner: str,
    axis: int | Sequence[int] | None,
    keepdims: bool = False,
    name: str = "",
    empty: bool = False,
) -> Tensor:
    """Combine the elements along axes (None: all) with sum, prod, max or min, in the element type.

    empty: whether the extreme of no elements is the one that any other replaces, and no error.

    >>> import eqsat as eq, numpy as np
    >>> eq.evaluate(reduce(eq.constant(np.arange(6).reshape(2, 3)), "max", 1))
    array([2, 5])
    """
    what = f"{name or combiner} of {format_shape(x.shape)}"
    axes = tuple(sorted(normalize_axes(axis, x.rank, what)))
    if not axes:
        return x
    if combiner in ("max", "min") and not empty and any(same_dim(x.shape[a], 0) for a in axes):
        raise ShapeError(what, "the reduced axes have no elements")
    reduced: Shape = tuple(x.shape[a] for a in axes)
    shape: Shape = tuple(1 if n in axes else d for n, d in enumerate(x.shape) if keepdims or n not in axes)
    kept = iter(output_axes(shape) if not keepdims else [i for n, i in enumerate(output_axes(shape)) if n not in axes])
    inner = iter(reduce_axes(reduced))
    index = [next(inner) if n in axes else next(kept) for n in range(x.rank)]
    tag = Tag(f"reduce_{combiner}", (("axes", axes), ("keepdims", keepdims)))
    return Tensor(from_body(x[tuple(index)], shape, reduced, combiner, tag))


def count(x: Tensor, axis: int | Sequence[int] | None, dtype: str) -> t.Term:
    """How many elements there are along axes (None: all), in a float type."""
    found = size_term(tuple(x.shape[a] for a in normalize_axes(axis, x.rank, "mean")))
    number = t.int_value(found)
    return t.cast_to(found, dtype) if number is None else t.const(float(number), dtype)


def mean(x: Tensor, axis: int | Sequence[int] | None, keepdims: bool = False) -> Tensor:
    """The sum divided by the logical number of elements; float16 is summed and divided in float32, as by numpy.

    >>> import eqsat as eq, numpy as np
    >>> eq.evaluate(mean(eq.constant(np.arange(4.0)), None))
    array(1.5)
    """
    if x.dtype == "float16":
        return cast(mean(cast(x, "float32"), axis, keepdims), "float16")
    if not dtypes.is_float(x.dtype):
        raise TypeMismatch(f"mean of {x!r}", f"needs a float type, not {x.dtype}", "x.cast('float32')")
    axes = normalize_axes(axis, x.rank, "mean")
    divisor = count(x, axes, x.dtype)
    total = reduce(x, "sum", axes, keepdims, "mean")
    return pointwise("div", lambda a: a / divisor, total)


def contract(spec: str, a: Tensor, b: Tensor, tag: Tag) -> Tensor:
    """The einsum of two operands, `ij,jk->ik`: labels absent from the result are summed."""
    left, result = spec.split("->")
    first, second = left.split(",")
    if a.dtype != b.dtype:
        raise TypeMismatch(f"{tag.name} of {a!r} and {b!r}", "dtypes differ", "use x.cast(dtype)")
    extents: dict[str, Dim] = {}
    for labels, x in ((first, a), (second, b)):
        if len(labels) != x.rank:
            raise ShapeError(f"{tag.name} {spec}", f"{labels} does not fit shape {format_shape(x.shape)}")
        for label, d in zip(labels, x.shape, strict=True):
            if not same_dim(extents.setdefault(label, d), d):
                what = f"{tag.name} of {' and '.join(format_shapes(a.shape, b.shape))}"
                one, other = format_dims(a.shape, b.shape, dims=(extents[label], d))
                raise ShapeError(what, f"{one} does not match {other}", one_symbol(a.shape, b.shape))
    summed = [x for x in dict.fromkeys(first + second) if x not in result]
    shape, reduced = tuple(extents[x] for x in result), tuple(extents[x] for x in summed)
    axes: dict[str, Term] = dict(zip(result, output_axes(shape), strict=True))
    axes.update(zip(summed, reduce_axes(reduced), strict=True))
    body = a[tuple(axes[x] for x in first)] * b[tuple(axes[x] for x in second)]
    return Tensor(from_body(body, shape, reduced, "sum" if reduced else None, tag))


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product over the last two axes, as numpy.matmul.

    >>> import eqsat as eq
    >>> eq.matmul(eq.input("a", (5, 2, 3), "float32"), eq.input("b", (3, 4), "float32")).shape
    (5, 2, 4)
    """
    what = f"matmul of {' and '.join(format_shapes(a.shape, b.shape))}"
    if a.dtype != b.dtype:
        raise TypeMismatch(what, f"dtypes {a.dtype} and {b.dtype} differ", "use x.cast(dtype)")
    if not a.rank or not b.rank:
        raise ShapeError(what, "a rank-0 operand", "use * for scalars")
    rows, columns = a.rank > 1, b.rank > 1
    inner = a.shape[-1]
    if not same_dim(inner, b.shape[-2] if columns else b.shape[0]):
        raise ShapeError(what, f"{inner} does not match {b.shape[-2] if columns else b.shape[0]}")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*batch, *((a.shape[-2],) if rows else ()), *((b.shape[-1],) if columns else ()))
    axes = output_axes(shape)
    k = t.red(0, inner)

    def batch_index(x: Tensor) -> list[Term]:
        own = x.shape[:-2]
        part = axes[len(batch) - len(own) : len(batch)]
        return [t.index_const(0) if same_dim(d, 1) else i for d, i in zip(own, part, strict=True)]

    left = a[tuple([*batch_index(a), axes[len(batch)], k] if rows else [k])]
    right = b[tuple([*batch_index(b), k, axes[-1]] if columns else [k])]
    return Tensor(from_body(left * right, shape, (inner,), "sum", Tag("matmul")))


def concat(xs: Sequence[Tensor], axis: int) -> Tensor:
    """Join tensors along an axis, as numpy.concatenate.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> concat([x, x.relu()], 0).shape
    (4, 3)
    """
    if not xs:
        raise ShapeError("concat", "no tensors")
    n = normalize_axis(axis, xs[0].rank, f"concat of {format_shape(xs[0].shape)}")
    for x in xs[1:]:
        pairs = enumerate(zip(x.shape, xs[0].shape, strict=False))
        fits = x.rank == xs[0].rank and all(k == n or same_dim(p, q) for k, (p, q) in pairs)
        if not fits or x.dtype != xs[0].dtype:
            first, other = format_shapes(xs[0].shape, x.shape)
            problem = f"{xs[0].name} {xs[0].dtype}{first} and {x.name} {x.dtype}{other} do not fit"
            raise ShapeError(f"concat along axis {n}", problem, one_symbol(xs[0].shape, x.shape))
    total = t.linear(0, [(1, t.as_index(x.shape[n])) for x in xs])
    number = t.int_value(total)
    shape = (*xs[0].shape[:n], total if number is None else number, *xs[0].shape[n + 1 :])
    axes = output_axes(shape)
    start, pieces = t.index_const(0), list[tuple[Term, Term]]()
    for x in xs:
        index = list(axes)
        index[n] = axes[n] - start
        start = start + t.as_index(x.shape[n])
        pieces.append((t.compare("lt", axes[n], start), x[tuple(index)]))
    body = pieces[-1][1]
    for inside, value in reversed(pieces[:-1]):
        body = t.where(inside, value, body)
    return Tensor(from_body(body, shape, tag=Tag("concat", (("axis", n),))))


def split(x: Tensor, indices_or_sections: int | Sequence[int], axis: int) -> list[Tensor]:
    """Cut a tensor along an axis into equal sections, or before the given positions, as numpy.split.

    >>> import eqsat as eq
    >>> [p.shape for p in split(eq.input("x", (2, 5), "float32"), [1, 3], 1)]
    [(2, 1), (2, 2), (2, 2)]
    """
    what = f"split of {format_shape(x.shape)}"
    n = normalize_axis(axis, x.rank, what)
    extent = require_static((x.shape[n],), what)[0]
    if isinstance(indices_or_sections, int):
        if indices_or_sections < 1 or extent % indices_or_sections:
            raise ShapeError(what, f"axis {n} does not divide into {indices_or_sections}")
        step = extent // indices_or_sections
        cuts = [k * step for k in range(1, indices_or_sections)]
    else:
        cuts = [min(max(int(c) + (extent if c < 0 else 0), 0), extent) for c in indices_or_sections]
    edges = [0, *cuts, extent]
    if sorted(edges) != edges:
        raise ShapeError(what, f"positions {cuts} are not increasing")
    parts: list[Tensor] = []
    for low, high in pairwise(edges):
        sizes = [high - low if k == n else d for k, d in enumerate(x.shape)]
        parts.append(crop(x, [low if k == n else 0 for k in range(x.rank)], sizes))
    return parts


def softmax_formula(x: Tensor, axes: Sequence[int]) -> Tensor:
    """exp(x - max) / sum over some axes together, as reductions and element-wise operators."""
    if any(same_dim(x.shape[a], 0) for a in axes):
        return x
    shifted = pointwise("sub", lambda a, b: a - b, x, reduce(x, "max", axes, True))
    e = pointwise("exp", lambda a: t.unary("exp", a), shifted)
    return pointwise("div", lambda a, b: a / b, e, reduce(e, "sum", axes, True))


def softmax(x: Tensor, axis: int) -> Tensor:
    """exp(x - max) / sum along an axis, one operator whose axis is equivariant."""
    from eqsat.ir.tensors.library import operator

    n = normalize_axis(axis, x.rank, f"softmax of {format_shape(x.shape)}")
    return operator("softmax", [x], {"axis": n})[0]
