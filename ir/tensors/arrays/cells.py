"""Elements turned round, shifted, repeated and picked, under their numpy names: each function is one view or a few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from eqsat.ir.errors import ShapeError
from eqsat.ir.tensors import views
from eqsat.ir.tensors.arrays.shapes import Axes, ravel, swapaxes
from eqsat.ir.tensors.arrays.types import array_of, as_tensor, refuse
from eqsat.ir.tensors.tensor import Tag, Tensor
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, as_dim, format_shape, normalize_axes, normalize_axis, output_axes, require_static
from eqsat.ir.terms.term import Term


def flip(x: Any, axis: Axes | None = None) -> Tensor:
    """The order of elements reversed along axes (None: all), as numpy.flip.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.flip([1, 2, 3]))
    array([3, 2, 1])
    """
    return views.flip(as_tensor(x, "flip"), axis)


def fliplr(x: Any) -> Tensor:
    """The order reversed along axis 1, as numpy.fliplr.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.fliplr([[1, 2, 3]]))
    array([[3, 2, 1]])
    """
    return flip(x, 1)


def flipud(x: Any) -> Tensor:
    """The order reversed along axis 0, as numpy.flipud.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.flipud([1, 2, 3]))
    array([3, 2, 1])
    """
    return flip(x, 0)


def rot90(x: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """Turned by k quarters in the plane of two axes, from the first to the second, as numpy.rot90.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.rot90([[1, 2], [3, 4]]))
    array([[2, 4],
           [1, 3]])
    """
    y = as_tensor(x, "rot90")
    plane = normalize_axes(axes, y.rank, f"rot90 of {format_shape(y.shape)}")
    if len(plane) != 2:
        raise ShapeError("rot90", f"axes {tuple(axes)} are not two")
    quarters = k % 4
    if quarters == 2:
        return views.flip(y, plane)
    if quarters == 1:
        return swapaxes(views.flip(y, plane[1]), *plane)
    return views.flip(swapaxes(y, *plane), plane[1]) if quarters == 3 else y


def roll(x: Any, shift: Axes, axis: Axes | None = None) -> Tensor:
    """Elements shifted along axes, wrapping around; without an axis all as one row, as numpy.roll.

    >>> import eqsat as eq, numpy as np
    >>> eq.evaluate(eq.roll(np.arange(6).reshape(2, 3), (1, 1), axis=(0, 1)))
    array([[5, 3, 4],
           [2, 0, 1]])
    """
    y = as_tensor(x, "roll")
    what = f"roll of {format_shape(y.shape)} by {shift}"
    if axis is None:
        total = int(array_of(shift, what).sum())
        return views.reshape(views.roll(ravel(y), total, 0), y.shape)
    try:
        pairs = np.broadcast(array_of(shift, what), array_of(axis, what))
    except ValueError as error:
        raise ShapeError(what, f"axis {axis}: not one for each shift") from error
    if pairs.ndim > 1:
        raise ShapeError(what, "shift and axis are not one number or one row each")
    total_by_axis: dict[int, int] = {}
    for step, place in cast("Any", pairs):
        n = normalize_axis(int(place), y.rank, what)
        total_by_axis[n] = total_by_axis.get(n, 0) + int(step)
    for n, step in total_by_axis.items():
        y = views.roll(y, step, n)
    return y


def tile(x: Any, reps: Axes) -> Tensor:
    """The tensor repeated as a whole along each axis, as numpy.tile.

    >>> import eqsat as eq
    >>> eq.tile(eq.input("x", (2, 3), "int8"), (2, 1, 2)).shape
    (2, 2, 6)
    """
    y = as_tensor(x, "tile")
    counts = [int(r) for r in np.atleast_1d(array_of(reps, "tile"))]
    counts = [1] * (y.rank - len(counts)) + counts
    return views.tile(views.reshape(y, (*(1,) * (len(counts) - y.rank), *y.shape)), counts)


def repeat(x: Any, repeats: Any, axis: int | None = None) -> Tensor:
    """Each element repeated in its place, a number of times or one number for each, as numpy.repeat.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.repeat([1, 2, 3], [2, 0, 1]))
    array([1, 1, 3])
    """
    y = as_tensor(x, "repeat")
    if axis is None:
        y, axis = ravel(y), 0
    what = f"repeat of {format_shape(y.shape)} by {repeats}"
    n, counts = normalize_axis(axis, y.rank, what), array_of(repeats, what)
    if counts.size and counts.min() < 0:
        raise ShapeError(what, "a count is negative")
    if counts.size != 1:
        extent = require_static((y.shape[n],), what)[0]
        if counts.shape != (extent,):
            raise ShapeError(what, f"{counts.size} counts for extent {extent}")
        return views.take(y, np.repeat(np.arange(extent), counts), n)
    count = int(counts.flat[0])
    shape = (*y.shape[:n], as_dim(t.as_index(y.shape[n]) * count), *y.shape[n + 1 :])
    gather: list[Term] = list(output_axes(shape))
    gather[n] = t.binary("floordiv", gather[n], count) if count > 1 else gather[n]
    return views.view(y, shape, gather, tag=Tag("repeat"))


def take(x: Any, indices: Any, axis: int | None = None, *, out: None = None, mode: str = "raise") -> Tensor:
    """The elements at positions of an axis (None: of all in a row): constants, or a tensor of integers.

    >>> import eqsat as eq
    >>> eq.take(eq.input("x", (4, 5), "int8"), [[0, 1], [2, -1]], axis=1).shape
    (4, 2, 2)

    A constant position outside of the axis is refused; one in a tensor means the nearest cell, as `mode` "clip" does.
    `mode` "wrap" counts round the axis.
    """
    refuse("take", "out", out, "use what it returns")
    y = as_tensor(x, "take")
    if axis is None:
        y, axis = ravel(y), 0
    n = normalize_axis(axis, y.rank, f"take of {format_shape(y.shape)}")
    if mode not in ("raise", "wrap", "clip"):
        raise ShapeError("take", f"mode {mode!r}", "'raise', 'wrap' or 'clip'")
    places: Any = indices if isinstance(indices, Tensor) else array_of(indices, "take")
    if mode != "raise":
        if isinstance(places, Tensor):
            raise ShapeError("take", f"mode {mode!r} for a tensor of positions", "eq.mod(i, n) or eq.clip(i, 0, n - 1)")
        extent = require_static((y.shape[n],), "take")[0]
        places = np.mod(places, extent) if mode == "wrap" else np.clip(places, 0, extent - 1)
    return y[(*(slice(None),) * n, places)]


def sliding_window_view(x: Any, window_shape: Axes, axis: Axes | None = None) -> Tensor:
    """All windows of a shape, their axes last, as numpy.lib.stride_tricks.sliding_window_view; `[::step]` takes some.

    >>> import eqsat as eq
    >>> eq.sliding_window_view(eq.input("x", (2, 10), "int8"), 4, axis=1)[:, ::2].shape
    (2, 4, 4)
    """
    y = as_tensor(x, "sliding_window_view")
    what = f"sliding_window_view of {format_shape(y.shape)} by {window_shape}"
    sizes = [int(s) for s in np.atleast_1d(array_of(window_shape, what))]
    given = range(y.rank) if axis is None else [axis] if isinstance(axis, (int, np.integer)) else axis
    places = [normalize_axis(a, y.rank, what) for a in given]
    if len(places) != len(sizes) or any(s < 0 for s in sizes):
        raise ShapeError(what, f"{len(sizes)} windows for {len(places)} axes")
    left: list[Dim] = list(y.shape)
    for n, size in zip(places, sizes, strict=True):
        left[n] = as_dim(t.as_index(left[n]) + (1 - size))
    shape = (*left, *sizes)
    axes = output_axes(shape)
    gather: list[Term] = list(axes[: y.rank])
    for k, n in enumerate(places):
        gather[n] = gather[n] + axes[y.rank + k]
    return views.view(y, shape, gather, tag=Tag("sliding_window_view"))
