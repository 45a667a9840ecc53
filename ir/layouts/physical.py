"""What an index map makes of a tensor or an array: the shape, where each cell reads, and what padding holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.ir.dtypes import NDArray, as_dtype
from eqsat.ir.errors import EvaluationError, LayoutError, TypeMismatch
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.pad_value import Source, called, pad_value_term
from eqsat.ir.layouts.padding import Padding
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked, poison
from eqsat.ir.terms.shape import Shape, format_shape, output_axes, require_static
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute


@dataclass(frozen=True, eq=False)
class Physical:
    """The physical cells, over `axes`: which logical index each holds, which are padding, and what these hold."""

    shape: Shape
    axes: tuple[Term, ...]
    gather: tuple[Term, ...]
    padding: Term
    fill: Term | None


def physical(source: Source, m: IndexMap, pad_value: Any) -> Physical:
    """The cells of a source in the layout of a map; the errors are those of `layout_transform`."""
    shape = m.map_shape(source.shape)
    inverse, padding = m.non_surjective_inverse(source.shape)
    axes = output_axes(shape)
    table = dict(zip(inverse.initial_indices, axes, strict=True))
    gather = tuple(substitute(g, table) for g in inverse.final_indices)
    if padding is t.FALSE:
        return Physical(shape, axes, gather, padding, None)
    operation = f"layout_transform of {format_shape(source.shape)} by {m}"
    pad_value = called(pad_value, axes, operation)
    if pad_value is None:
        cell = m.first_padding(source.shape)
        where = f"the first padded cell is {cell}" if cell is not None else f"cells where {padding} are padding"
        raise LayoutError(operation, f"the map pads: {where}", "give pad_value, or eq.UNDEF")
    marks = substitute(padding, table)
    return Physical(shape, axes, gather, marks, pad_value_term(source, pad_value, axes, shape, marks, operation))


@dataclass(frozen=True)
class _Array:
    name: str
    shape: Shape
    dtype: str
    padding: Padding | None = None


def map_array(m: IndexMap, array: Any, pad_value: Any) -> NDArray:
    """An array in the layout of a map, as `IndexMap.map_ndarray` says."""
    values: NDArray = np.asarray(array)
    dtype = as_dtype(values.dtype)
    if dtype == t.INDEX:
        raise TypeMismatch(f"map {m}", "index is not a data type", "use int64")
    found = physical(_Array("the array", values.shape, dtype), m, pad_value)
    shape = require_static(found.shape, f"map_ndarray by {m}")
    result: NDArray = np.empty(shape, dtype)
    if found.fill is not None:
        env: dict[Term, NDArray] = dict(zip(found.axes, np.indices(shape), strict=True))
        (marks, _), (fill, bad) = evaluate_masked(
            [found.padding, found.fill], env, load_table, lambda number, dtype, index: poison(dtype)
        )
        if bad is not None and bool(np.any(np.logical_and(marks, bad))):
            raise EvaluationError(f"map_ndarray by {m}", f"the pad value {found.fill} is undefined at a padding cell")
        result[...] = fill
    logical: tuple[int, ...] = values.shape
    points: list[NDArray] = list(np.indices(logical))
    result[m.map_indices(points)] = values
    return result
