"""Tensors put together and cut apart, under their numpy names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.ir.errors import ShapeError
from eqsat.ir.tensors import reductions, views
from eqsat.ir.tensors.arrays.shapes import atleast_1d, atleast_2d, atleast_3d, ravel
from eqsat.ir.tensors.arrays.types import as_tensor, common, refuse
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.terms.shape import format_shape, normalize_axis, require_static


def concatenate(
    arrays: Sequence[Any], axis: int | None = 0, out: None = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Tensor:
    """Tensors joined along an axis (None: all elements in a row), in their common type, as numpy.concatenate.

    >>> import eqsat as eq
    >>> eq.concatenate([eq.input("x", (2, 3), "int8"), eq.input("y", (4, 3), "float32")]).shape
    (6, 3)
    """
    refuse("concatenate", "out", out, "use what it returns")
    refuse(
        "concatenate", "casting", None if casting in ("same_kind", "unsafe") else casting, "x.astype(dtype) converts"
    )
    tensors = common("concatenate", *arrays, dtype=dtype) if len(arrays) else []
    if axis is None:
        return reductions.concat([ravel(x) for x in tensors], 0)
    return reductions.concat(tensors, axis)


def concat(xs: Sequence[Any], axis: int | None = 0) -> Tensor:
    """Tensors joined along an axis: the array API's name of concatenate.

    >>> import eqsat as eq
    >>> eq.concat([eq.input("x", (2, 3), "int8"), eq.input("y", (2, 1), "int8")], 1).shape
    (2, 4)
    """
    return concatenate(xs, axis)


def stack(
    arrays: Sequence[Any], axis: int = 0, out: None = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Tensor:
    """Tensors of one shape joined along a new axis, as numpy.stack.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "int8")
    >>> eq.stack([x, -x], axis=-1).shape
    (2, 3, 2)
    """
    tensors = [as_tensor(a, "stack") for a in arrays]
    if not tensors:
        raise ShapeError("stack", "no tensors")
    place = normalize_axis(axis, tensors[0].rank + 1, f"stack of {format_shape(tensors[0].shape)}")
    joined = [views.expand_dims(x, place) if place <= x.rank else x for x in tensors]
    return concatenate(joined, place, out, dtype=dtype, casting=casting)


def _listed(made: Any) -> list[Tensor]:
    return [made] if isinstance(made, Tensor) else list(made)


def hstack(tup: Sequence[Any], *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    """Tensors joined along axis 1, rows along axis 0, as numpy.hstack.

    >>> import eqsat as eq
    >>> eq.hstack([eq.input("x", (2, 3), "int8"), eq.input("y", (2, 1), "int8")]).shape
    (2, 4)
    """
    tensors = _listed(atleast_1d(*tup))
    return concatenate(tensors, 0 if tensors[0].rank == 1 else 1, dtype=dtype, casting=casting)


def vstack(tup: Sequence[Any], *, dtype: Any = None, casting: str = "same_kind") -> Tensor:
    """Tensors joined along axis 0, rows as matrices of one row, as numpy.vstack.

    >>> import eqsat as eq
    >>> eq.vstack([eq.input("x", (3,), "int8"), [1, 2, 3]]).shape
    (2, 3)
    """
    return concatenate(_listed(atleast_2d(*tup)), 0, dtype=dtype, casting=casting)


def dstack(tup: Sequence[Any]) -> Tensor:
    """Tensors joined along axis 2, as numpy.dstack.

    >>> import eqsat as eq
    >>> eq.dstack([eq.input("x", (2, 3), "int8"), eq.input("y", (2, 3), "int8")]).shape
    (2, 3, 2)
    """
    return concatenate(_listed(atleast_3d(*tup)), 2)


def column_stack(tup: Sequence[Any]) -> Tensor:
    """Rows as the columns of a matrix, beside matrices, as numpy.column_stack.

    >>> import eqsat as eq
    >>> eq.column_stack([eq.input("x", (3,), "int8"), eq.input("y", (3, 2), "int8")]).shape
    (3, 3)
    """
    tensors = [as_tensor(a, "column_stack") for a in tup]
    return concatenate([x if x.rank > 1 else views.reshape(ravel(x), (-1, 1)) for x in tensors], 1)


def append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    """Values behind those of a tensor, as numpy.append.

    >>> import eqsat as eq
    >>> eq.append(eq.input("x", (2, 3), "int8"), [1, 2]).shape
    (8,)
    """
    return concatenate([as_tensor(arr, "append"), as_tensor(values, "append")], axis)


def split(x: Any, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """A tensor cut along an axis into equal sections, or before the given positions, as numpy.split.

    >>> import eqsat as eq
    >>> [p.shape for p in eq.split(eq.input("x", (2, 5), "float32"), [1, 3], 1)]
    [(2, 1), (2, 2), (2, 2)]
    """
    if isinstance(indices_or_sections, (int, np.integer)):
        return reductions.split(as_tensor(x, "split"), int(indices_or_sections), axis)
    return array_split(x, indices_or_sections, axis)


def array_split(x: Any, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """As split, but sections may differ by one, as numpy.array_split.

    >>> import eqsat as eq
    >>> [p.shape for p in eq.array_split(eq.input("x", (5,), "float32"), 2)]
    [(3,), (2,)]
    """
    y = as_tensor(x, "array_split")
    what = f"array_split of {format_shape(y.shape)}"
    n = normalize_axis(axis, y.rank, what)
    extent = require_static((y.shape[n],), what)[0]
    try:
        parts = np.array_split(np.arange(extent), indices_or_sections)
    except (TypeError, ValueError) as error:
        raise ShapeError(what, str(error)) from error
    lead = (slice(None),) * n
    return [y[(*lead, slice(int(p[0]), int(p[-1]) + 1) if p.size else slice(0, 0))] for p in parts]


def hsplit(x: Any, indices_or_sections: int | Sequence[int]) -> list[Tensor]:
    """split along axis 1, of a row along axis 0, as numpy.hsplit.

    >>> import eqsat as eq
    >>> [p.shape for p in eq.hsplit(eq.input("x", (2, 4), "int8"), 2)]
    [(2, 2), (2, 2)]
    """
    y = as_tensor(x, "hsplit")
    return split(y, indices_or_sections, 1 if y.rank > 1 else 0)


def vsplit(x: Any, indices_or_sections: int | Sequence[int]) -> list[Tensor]:
    """split along axis 0, as numpy.vsplit.

    >>> import eqsat as eq
    >>> [p.shape for p in eq.vsplit(eq.input("x", (2, 4), "int8"), 2)]
    [(1, 4), (1, 4)]
    """
    return split(x, indices_or_sections, 0)


def dsplit(x: Any, indices_or_sections: int | Sequence[int]) -> list[Tensor]:
    """split along axis 2, as numpy.dsplit.

    >>> import eqsat as eq
    >>> [p.shape for p in eq.dsplit(eq.input("x", (2, 1, 4), "int8"), 2)]
    [(2, 1, 2), (2, 1, 2)]
    """
    return split(x, indices_or_sections, 2)


def unstack(x: Any, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The sub-tensors at each position of an axis, as numpy.unstack.

    >>> import eqsat as eq
    >>> [p.shape for p in eq.unstack(eq.input("x", (2, 3), "int8"), axis=1)]
    [(2,), (2,), (2,)]
    """
    y = as_tensor(x, "unstack")
    n = normalize_axis(axis, y.rank, f"unstack of {format_shape(y.shape)}")
    extent = require_static((y.shape[n],), "unstack")[0]
    return tuple(as_tensor(y[(*(slice(None),) * n, k)], "unstack") for k in range(extent))
