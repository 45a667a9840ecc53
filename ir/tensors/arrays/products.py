"""Products and sums of products under their numpy names: each is one contraction by labels."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np

from eqsat.ir.dtypes import BOOL
from eqsat.ir.errors import ParseError, ShapeError
from eqsat.ir.given import told, whole
from eqsat.ir.tensors import pointwise, reductions, views
from eqsat.ir.tensors.arrays.einsum_text import Contraction, read
from eqsat.ir.tensors.arrays.shapes import moveaxis, ravel
from eqsat.ir.tensors.arrays.types import as_tensor, common, refuse
from eqsat.ir.tensors.tensor import Tag, Tensor, from_body
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import (
    Dim,
    as_dim,
    format_shape,
    normalize_axes,
    normalize_axis,
    output_axes,
    reduce_axes,
    require_static,
    same_dim,
)  # fmt: skip
from eqsat.ir.terms.term import Term

OUT = "use what it returns; a kernel writes to out="
LETTERS = string.ascii_uppercase + string.ascii_lowercase
"""The labels that stand for axis numbers: in their order the numbers are sorted as letters, too."""


def matmul(x1: Any, x2: Any, /, out: None = None, *, dtype: Any = None) -> Tensor:
    """The matrix product over the last two axes in the operands' common type, as numpy.matmul.

    >>> import eqsat as eq
    >>> eq.matmul(eq.input("a", (5, 2, 3), "float32"), eq.input("b", (3, 4), "float32")).shape
    (5, 2, 4)
    """
    refuse("matmul", "out", out, OUT)
    a, b = common("matmul", x1, x2, dtype=dtype)
    if a.dtype == BOOL:
        return _any_both(a, b)
    return reductions.matmul(a, b)


def _any_both(a: Tensor, b: Tensor) -> Tensor:
    """The matrix product of bools: whether any two meet."""
    counts = reductions.matmul(pointwise.cast(a, "int64"), pointwise.cast(b, "int64"))
    return pointwise.pointwise("not_equal", lambda v: t.compare("ne", v, 0), counts)


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    dtype: Any = None,
    order: str = "K",
    casting: str = "safe",
    optimize: Any = False,
) -> Tensor:
    """Einstein's sum of products, by labels or by lists of axis numbers, as numpy.einsum; two operands at a time.

    >>> import eqsat as eq
    >>> a, b = eq.input("a", (5, 2, 3), "float32"), eq.input("b", (5, 3, 4), "float32")
    >>> eq.einsum("bij,bjk->bik", a, b).shape, eq.einsum("...ii", eq.input("c", (2, 3, 3), "int8")).shape
    ((5, 2, 4), (2,))

    `order`, `casting` and `optimize` say nothing here: a tensor has no memory, and the optimiser chooses.
    """
    refuse("einsum", "out", out, OUT)
    if not isinstance(subscripts, str):
        subscripts, operands = _lettered((subscripts, *operands))
    tensors = common("einsum", *operands, dtype=dtype) if operands else []
    what = f"einsum {subscripts!r}"
    plan = read(subscripts, [x.rank for x in tensors], what)
    if tensors[0].dtype == BOOL:
        counts = _contracted(plan, [pointwise.cast(x, "int64") for x in tensors], what)
        return pointwise.pointwise("not_equal", lambda v: t.compare("ne", v, 0), counts)
    return _contracted(plan, tensors, what)


def _lettered(given: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Subscripts as text from numpy's other form: operand, axes, operand, axes, ..., and the result's axes."""
    what = "einsum of lists of axes"
    if len(given) < 2:
        raise ParseError(what, "there is no list behind the operand", "eq.einsum(x, [0, 1], [1, 0])")

    def letter(axis: Any) -> str:
        number = whole(axis, what, "axis")
        if not 0 <= number < len(LETTERS):
            raise ParseError(what, f"axis {number} is not in 0..{len(LETTERS) - 1}")
        return LETTERS[number]

    def text(axes: Any) -> str:
        if not isinstance(axes, (Sequence, np.ndarray)):
            raise ParseError(what, f"{told(axes)} is no list of axis numbers")
        return "".join("..." if a is Ellipsis else letter(a) for a in cast("Sequence[Any]", axes))

    pairs = len(given) // 2
    left = ",".join(text(given[2 * k + 1]) for k in range(pairs))
    return (f"{left}->{text(given[-1])}" if len(given) % 2 else left), tuple(given[: 2 * pairs : 2])


def _contracted(plan: Contraction, tensors: Sequence[Tensor], what: str) -> Tensor:
    """All operands, the first two at a time; a label stays as long as another operand or the result has it."""
    labels, rest = list(plan.operands), list(tensors)
    while len(rest) > 2:
        needed = set("".join(labels[2:]) + plan.result)
        kept = "".join(c for c in dict.fromkeys(labels[0] + labels[1]) if c in needed)
        rest[:2] = [_product(labels[:2], rest[:2], kept, what)]
        labels[:2] = [kept]
    return _product(labels, rest, plan.result, what)


def _product(labels: Sequence[str], tensors: Sequence[Tensor], result: str, what: str) -> Tensor:
    """One sum of products; axes of extent 1 meet any extent, as in numpy."""
    extents: dict[str, Dim] = {}
    for own, x in zip(labels, tensors, strict=True):
        _diagonal_fits(own, x, what)
        for label, d in zip(own, x.shape, strict=True):
            known = extents.setdefault(label, d)
            if same_dim(known, 1):
                extents[label] = d
            elif not same_dim(d, 1) and not same_dim(known, d):
                raise ShapeError(what, f"label {label} is both {known} and {d}")
    summed = [c for c in dict.fromkeys("".join(labels)) if c not in result]
    shape, reduced = tuple(extents[c] for c in result), tuple(extents[c] for c in summed)
    axes: dict[str, Term] = dict(zip(result, output_axes(shape), strict=True))
    axes.update(zip(summed, reduce_axes(reduced), strict=True))
    body: Term | None = None
    for own, x in zip(labels, tensors, strict=True):
        at = [t.index_const(0) if same_dim(d, 1) else axes[c] for c, d in zip(own, x.shape, strict=True)]
        value = t.load(x, at, x.dtype)
        body = value if body is None else body * value
    assert body is not None
    return Tensor(from_body(body, shape, reduced, "sum" if reduced else None, Tag("einsum")))


def _diagonal_fits(labels: str, x: Tensor, what: str) -> None:
    """Refuse a label twice in one operand for axes of two extents, of which also 1 is one."""
    extents: dict[str, Dim] = {}
    for label, d in zip(labels, x.shape, strict=True):
        if not same_dim(extents.setdefault(label, d), d):
            raise ShapeError(what, f"label {label} is both {extents[label]} and {d} in one operand")


def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    """The sum of products over axes of both, or over the last of one and the first of the other, as numpy.tensordot.

    >>> import eqsat as eq
    >>> a, b = eq.input("a", (2, 3, 4), "float32"), eq.input("b", (4, 3, 5), "float32")
    >>> eq.tensordot(a, b, axes=([1, 2], [1, 0])).shape
    (2, 5)
    """
    x, y = common("tensordot", a, b)
    if isinstance(axes, (int, np.integer)):
        count = int(cast(Any, axes))
        left, right = tuple(range(x.rank - count, x.rank)), tuple(range(count))
    elif not isinstance(axes, Iterable) or len(axes := list(cast("Iterable[Any]", axes))) != 2:
        raise ShapeError("tensordot", f"axes {told(axes)} are neither a number nor two lists")
    else:
        left, right = (normalize_axes(v, z.rank, "tensordot") for v, z in zip(axes, (x, y), strict=True))
    if len(left) != len(right) or len(left) > min(x.rank, y.rank):
        raise ShapeError("tensordot", f"axes {axes} for shapes {format_shape(x.shape)} and {format_shape(y.shape)}")
    for p, q in zip(left, right, strict=True):
        if not same_dim(x.shape[p], y.shape[q]):
            raise ShapeError("tensordot", f"axis {p} is {x.shape[p]}, axis {q} is {y.shape[q]}")
    first = [chr(ord("a") + n) for n in range(x.rank)]
    second = [chr(ord("A") + n) for n in range(y.rank)]
    for p, q in zip(left, right, strict=True):
        second[q] = first[p]
    result = [c for n, c in enumerate(first) if n not in left] + [c for n, c in enumerate(second) if n not in right]
    return einsum(f"{''.join(first)},{''.join(second)}->{''.join(result)}", x, y)


def dot(a: Any, b: Any, out: None = None) -> Tensor:
    """The sum of products over the last axis of a and the last but one of b, as numpy.dot.

    >>> import eqsat as eq
    >>> eq.dot(eq.input("a", (2, 3), "float32"), eq.input("b", (5, 3, 4), "float32")).shape
    (2, 5, 4)
    """
    refuse("dot", "out", out, OUT)
    x, y = common("dot", a, b)
    if not x.rank or not y.rank:
        return pointwise.operator("mul", x, y)
    return tensordot(x, y, axes=((-1,), (-2 if y.rank > 1 else -1,)))


def inner(a: Any, b: Any) -> Tensor:
    """The sum of products over the last axes, as numpy.inner.

    >>> import eqsat as eq
    >>> eq.inner(eq.input("a", (2, 3), "float32"), eq.input("b", (4, 3), "float32")).shape
    (2, 4)
    """
    x, y = common("inner", a, b)
    return tensordot(x, y, axes=((-1,), (-1,))) if x.rank and y.rank else pointwise.operator("mul", x, y)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The sum of products along an axis, the rest broadcast, as numpy.vecdot.

    >>> import eqsat as eq
    >>> eq.vecdot(eq.input("a", (2, 3), "float32"), eq.input("b", (3,), "float32")).shape
    (2,)
    """
    x, y = common("vecdot", x1, x2)
    return einsum("...a,...a->...", moveaxis(x, axis, -1), moveaxis(y, axis, -1))


def outer(a: Any, b: Any, out: None = None) -> Tensor:
    """All products of an element of one and an element of the other, as numpy.outer.

    >>> import eqsat as eq
    >>> eq.outer(eq.input("a", (3,), "float32"), eq.input("b", (4,), "float32")).shape
    (3, 4)
    """
    refuse("outer", "out", out, OUT)
    x, y = common("outer", a, b)
    return einsum("a,b->ab", ravel(x), ravel(y))


def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The cells where axis2 is `offset` ahead of axis1, along a new last axis, as numpy.diagonal.

    >>> import eqsat as eq
    >>> eq.diagonal(eq.input("x", (2, 3, 4), "int8"), axis1=1, axis2=2).shape
    (2, 3)
    """
    y = as_tensor(x, "diagonal")
    what = f"diagonal of {format_shape(y.shape)}"
    one, two = (normalize_axis(a, y.rank, what) for a in (axis1, axis2))
    if one == two:
        raise ShapeError(what, f"axis1 and axis2 are both {one}")
    rows, columns = require_static((y.shape[one], y.shape[two]), what)
    down, right = max(-offset, 0), max(offset, 0)
    count = max(0, min(rows - down, columns - right))
    kept = [n for n in range(y.rank) if n not in (one, two)]
    out = (*(y.shape[n] for n in kept), count)
    axes = output_axes(out)
    gather: list[Term] = [t.index_const(0)] * y.rank
    for k, n in enumerate(kept):
        gather[n] = axes[k]
    gather[one], gather[two] = axes[-1] + down, axes[-1] + right
    return views.view(y, out, gather, tag=Tag("diagonal"))


def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None) -> Tensor:
    """The sum of a diagonal, as numpy.trace.

    >>> import eqsat as eq
    >>> eq.trace(eq.input("x", (3, 3), "float32")).shape
    ()
    """
    from eqsat.ir.tensors.arrays.reducing import sum as total

    refuse("trace", "out", out, OUT)
    return total(diagonal(x, offset, axis1, axis2), -1, dtype)


def diag(v: Any, k: int = 0) -> Tensor:
    """A diagonal of a matrix, or the matrix with a row on its diagonal, as numpy.diag.

    >>> import eqsat as eq
    >>> eq.diag(eq.input("x", (3,), "float32"), 1).shape
    (4, 4)
    """
    y = as_tensor(v, "diag")
    if y.rank == 2:
        return diagonal(y, k)
    if y.rank != 1:
        raise ShapeError("diag", f"needs rank 1 or 2, got shape {format_shape(y.shape)}", "eq.diagonal")
    side = as_dim(t.as_index(y.shape[0]) + abs(k))
    i, j = output_axes((side, side))
    on = t.compare("eq", j - i, k)
    return views.view(y, (side, side), [i + min(k, 0)], on, views.fill_term(y, 0, (i, j), "diag"), Tag("diag"))


def _triangle(m: Any, k: int, lower: bool) -> Tensor:
    """One side of a diagonal; zeros elsewhere."""
    y = as_tensor(m, "tril" if lower else "triu")
    if y.rank == 1:
        y = views.broadcast_to(y, (y.shape[0], y.shape[0]))
    if y.rank < 2:
        raise ShapeError("triangle", "needs an axis", "eq.atleast_2d(x)")
    axes = output_axes(y.shape)
    ahead = axes[-1] - axes[-2]
    inside = t.compare("le", ahead, k) if lower else t.compare("le", k, ahead)
    fill = views.fill_term(y, 0, axes, "triangle")
    return views.view(y, y.shape, axes, inside, fill, Tag("tril" if lower else "triu"))


def tril(m: Any, k: int = 0) -> Tensor:
    """The matrix on and below a diagonal, 0 above, as numpy.tril.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.tril([[1, 2], [3, 4]]))
    array([[1, 0],
           [3, 4]])
    """
    return _triangle(m, k, True)


def triu(m: Any, k: int = 0) -> Tensor:
    """The matrix on and above a diagonal, 0 below, as numpy.triu.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.triu([[1, 2], [3, 4]]))
    array([[1, 2],
           [0, 4]])
    """
    return _triangle(m, k, False)
