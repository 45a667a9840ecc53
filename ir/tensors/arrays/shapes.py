"""Axes under their numpy names: each function is one view, or a few that fold into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from eqsat.ir.errors import ShapeError
from eqsat.ir.tensors import views
from eqsat.ir.tensors.arrays.types import as_tensor
from eqsat.ir.tensors.pointwise import broadcast_shapes
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.terms.shape import (
    Dim,
    Shape,
    as_dim,
    format_shape,
    normalize_axes,
    normalize_axis,
    size_term,
)  # fmt: skip

Order = Literal["C", "F", "A", "K"]
Axes = int | Sequence[int]


def transpose(x: Any, axes: Sequence[int] | None = None) -> Tensor:
    """The axes in another order, by default reversed, as numpy.transpose.

    >>> import eqsat as eq
    >>> eq.transpose(eq.input("x", (2, 3, 4), "int8"), (1, 0, 2)).shape
    (3, 2, 4)
    """
    y = as_tensor(x, "transpose")
    return views.permute_dims(y, tuple(range(y.rank))[::-1] if axes is None else axes)


def permute_dims(x: Any, axes: Sequence[int] | None = None) -> Tensor:
    """Axis k of the result is axis axes[k] of x: the array API's name of transpose.

    >>> import eqsat as eq
    >>> eq.permute_dims(eq.input("x", (2, 3, 4), "int8"), (1, 0, 2)).shape
    (3, 2, 4)
    """
    return transpose(x, axes)


def matrix_transpose(x: Any) -> Tensor:
    """The last two axes exchanged, as x.mT.

    >>> import eqsat as eq
    >>> eq.matrix_transpose(eq.input("x", (2, 3, 4), "int8")).shape
    (2, 4, 3)
    """
    y = as_tensor(x, "matrix_transpose")
    if y.rank < 2:
        raise ShapeError("matrix_transpose", f"needs rank 2, got shape {format_shape(y.shape)}", "x[:, None] adds axes")
    return swapaxes(y, -1, -2)


def swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged, as numpy.swapaxes.

    >>> import eqsat as eq
    >>> eq.swapaxes(eq.input("x", (2, 3, 4), "int8"), 0, -1).shape
    (4, 3, 2)
    """
    y = as_tensor(x, "swapaxes")
    a, b = (normalize_axis(n, y.rank, f"swapaxes of {format_shape(y.shape)}") for n in (axis1, axis2))
    order = list(range(y.rank))
    order[a], order[b] = b, a
    return views.permute_dims(y, order)


def moveaxis(x: Any, source: Axes, destination: Axes) -> Tensor:
    """Axes moved to other places, the rest in their order, as numpy.moveaxis.

    >>> import eqsat as eq
    >>> eq.moveaxis(eq.input("x", (2, 3, 4), "int8"), 0, -1).shape
    (3, 4, 2)
    """
    y = as_tensor(x, "moveaxis")
    what = f"moveaxis of {format_shape(y.shape)}"
    left, right = normalize_axes(source, y.rank, what), normalize_axes(destination, y.rank, what)
    if len(left) != len(right):
        raise ShapeError(what, f"{len(left)} axes to {len(right)} places")
    order = [n for n in range(y.rank) if n not in left]
    for place, axis in sorted(zip(right, left, strict=True)):
        order.insert(place, axis)
    return views.permute_dims(y, order)


def reshape(x: Any, shape: Any, order: Order = "C", *, copy: bool | None = None) -> Tensor:
    """The same elements under another shape, in row-major order or, with order="F", in column-major order.

    >>> import eqsat as eq, numpy as np
    >>> eq.evaluate(eq.reshape(np.arange(6).reshape(2, 3), (3, 2), order="F"))
    array([[0, 4],
           [3, 2],
           [1, 5]])

    `copy` says nothing here: a tensor has no memory of its own.
    """
    y = as_tensor(x, "reshape")
    if _order(order, "reshape") != "F":
        return views.reshape(y, shape)
    return transpose(views.reshape(transpose(y), views.wanted_extents(shape)[::-1]))


def _order(order: str, what: str) -> str:
    if order not in ("C", "F", "A", "K"):
        raise ShapeError(what, f"order {order!r}", "'C' or 'F'")
    return order


def ravel(x: Any, order: Order = "C") -> Tensor:
    """All elements along one axis, as numpy.ravel.

    >>> import eqsat as eq
    >>> eq.ravel(eq.input("x", (2, 3), "int8")).shape
    (6,)
    """
    y = as_tensor(x, "ravel")
    return views.reshape(transpose(y) if _order(order, "ravel") == "F" else y, (as_dim(size_term(y.shape)),))


def expand_dims(x: Any, axis: Axes) -> Tensor:
    """Axes of extent 1 inserted, as numpy.expand_dims.

    >>> import eqsat as eq
    >>> eq.expand_dims(eq.input("x", (2, 3), "int8"), (0, -1)).shape
    (1, 2, 3, 1)
    """
    return views.expand_dims(as_tensor(x, "expand_dims"), axis)


def squeeze(x: Any, axis: Axes | None = None) -> Tensor:
    """Axes of extent 1 dropped, as numpy.squeeze.

    >>> import eqsat as eq
    >>> eq.squeeze(eq.input("x", (2, 1, 3, 1), "int8")).shape
    (2, 3)
    """
    return views.squeeze(as_tensor(x, "squeeze"), axis)


def broadcast_to(x: Any, shape: Any) -> Tensor:
    """The elements repeated along new leading axes and axes of extent 1, as numpy.broadcast_to.

    >>> import eqsat as eq
    >>> eq.broadcast_to(eq.input("x", (2, 1), "int8"), (3, 2, 4)).shape
    (3, 2, 4)
    """
    return views.broadcast_to(as_tensor(x, "broadcast_to"), shape)


def broadcast_arrays(*args: Any) -> tuple[Tensor, ...]:
    """All operands in their common shape, as numpy.broadcast_arrays.

    >>> import eqsat as eq
    >>> [y.shape for y in eq.broadcast_arrays(eq.input("x", (2, 1), "int8"), [1, 2, 3])]
    [(2, 3), (2, 3)]
    """
    tensors = [as_tensor(a, "broadcast_arrays") for a in args]
    shape = broadcast_shapes(*(x.shape for x in tensors))
    return tuple(views.broadcast_to(x, shape) for x in tensors)


def _at_least(rank: int, args: Sequence[Any], place: Any) -> Any:
    made = [views.reshape(x, place(x)) if x.rank < rank else x for x in (as_tensor(a, "atleast") for a in args)]
    return made[0] if len(made) == 1 else tuple(made)


def atleast_1d(*args: Any) -> Any:
    """Each operand with at least one axis, as numpy.atleast_1d.

    >>> import eqsat as eq
    >>> eq.atleast_1d(eq.input("x", (), "int8")).shape
    (1,)
    """
    return _at_least(1, args, lambda x: (1,))  # pyright: ignore[reportUnknownLambdaType]


def atleast_2d(*args: Any) -> Any:
    """Each operand with at least two axes, new ones in front, as numpy.atleast_2d.

    >>> import eqsat as eq
    >>> eq.atleast_2d(eq.input("x", (3,), "int8")).shape
    (1, 3)
    """

    def place(x: Tensor) -> Shape:
        return (*(1,) * (2 - x.rank), *x.shape)

    return _at_least(2, args, place)


def atleast_3d(*args: Any) -> Any:
    """Each operand with at least three axes, as numpy.atleast_3d.

    >>> import eqsat as eq
    >>> eq.atleast_3d(eq.input("x", (3,), "int8")).shape
    (1, 3, 1)
    """

    def place(x: Tensor) -> Shape:
        return (*(1,) * (x.rank < 2), *x.shape, *(1,) * (2 if x.rank == 0 else 1))

    return _at_least(3, args, place)


def shape(x: Any) -> Shape:
    """The extents, as x.shape.

    >>> import eqsat as eq
    >>> eq.shape(eq.input("x", (2, 3), "int8"))
    (2, 3)
    """
    return as_tensor(x, "shape").shape


def ndim(x: Any) -> int:
    """The number of axes, as x.ndim.

    >>> import eqsat as eq
    >>> eq.ndim(eq.input("x", (2, 3), "int8"))
    2
    """
    return as_tensor(x, "ndim").rank


def size(x: Any, axis: int | None = None) -> Dim:
    """The number of elements, or the extent of an axis, as numpy.size.

    >>> import eqsat as eq
    >>> eq.size(eq.input("x", (2, 3), "int8"))
    6
    """
    y = as_tensor(x, "size")
    return as_dim(size_term(y.shape)) if axis is None else y.shape[normalize_axis(axis, y.rank, "size")]
