"""layout_transform: the elements of a tensor in the physical layout of an index map, as one View.

The View gathers through the inverse of the map; cells that no element reaches are filled. The declared shape is
computed here, once, and stored in the View.
"""

from __future__ import annotations

from typing import Any, Protocol

from eqsat.ir.errors import LayoutError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.layout import Layout
from eqsat.ir.tensors.pad_value import called, pad_value_term
from eqsat.ir.tensors.shape import Shape, format_shape
from eqsat.ir.tensors.tensor import Tag, Tensor, View, output_axes
from eqsat.ir.terms import term as t
from eqsat.ir.terms.walk import renumber_loads, substitute


def layout_transform(x: Tensor, map_or_src: Any, dst: Any = None, pad_value: Any = None) -> Tensor:
    """The tensor in another layout: `result[map(i)] = x[i]`.

    >>> import eqsat as eq
    >>> x = eq.input("x", (1, 30, 7, 7), "float32")
    >>> layout_transform(x, "NCHW", "NCHW16c", pad_value=0).shape
    (1, 2, 7, 7, 16)
    >>> layout_transform(x, lambda n, c, h, w: [n, h, w, c]).shape
    (1, 7, 7, 30)

    map_or_src: an IndexMap, its text ("i -> i//4, i%4"), a function of the indices, or a layout string with `dst`.
    pad_value: fills the cells that no element reaches: a number, eq.UNDEF, or a function of the physical index that may
    load from x by its own index (`lambda io, ii: x[(4*io + ii) % 14]` wraps around); None: the map must not pad.
    Raises LayoutError where two elements share a cell (both are named) or, without a pad value, with the first padded
    cell, or where the pad value reads another tensor; TypeMismatch where it has another dtype; BoundsError where it
    reads outside of x.
    """
    m = as_map(x, map_or_src, dst)
    shape = m.map_shape(x.shape)
    inverse, padding = m.non_surjective_inverse(x.shape)
    axes = output_axes(shape)
    table = dict(zip(inverse.initial_indices, axes, strict=True))
    gather = [substitute(g, table) for g in inverse.final_indices]
    tag = Tag("layout_transform", (("map", str(m)),))
    if padding is t.FALSE:
        return Tensor(View(x, shape, gather, t.TRUE, None, tag))
    operation = f"layout_transform of {format_shape(x.shape)} by {m}"
    pad_value = called(pad_value, axes, operation)
    if pad_value is None:
        cell = m.first_padding(x.shape)
        where = f"the first padded cell is {cell}" if cell is not None else f"cells where {padding} are padding"
        raise LayoutError(operation, f"the map pads: {where}", "give pad_value, or eq.UNDEF")
    marks = substitute(padding, table)
    valid = t.logical_and(*(t.logical_not(c) for c in (marks.args if marks.op == "or" else (marks,))))
    fill = pad_value_term(x, pad_value, axes, shape, marks, operation)
    return Tensor(View(x, shape, gather, valid, renumber_loads(fill, {x: 0}), tag))


class Shaped(Protocol):
    """What a map is applied to: a tensor or a buffer."""

    @property
    def shape(self) -> Shape: ...


def as_map(x: Shaped, map_or_src: Any, dst: Any) -> IndexMap:
    """The index map that a map, its text, a function, or a pair of layout strings stands for."""
    if dst is not None:
        return Layout(map_or_src).to(dst).checked_map(x.shape)
    if isinstance(map_or_src, IndexMap):
        return map_or_src
    if isinstance(map_or_src, str):
        if "->" not in map_or_src:
            raise LayoutError(f"layout_transform by {map_or_src!r}", "a layout string needs the other side", "give dst")
        return IndexMap.parse(map_or_src)
    if callable(map_or_src):
        return IndexMap.from_func(map_or_src, len(x.shape))
    raise LayoutError(f"layout_transform by {map_or_src!r}", "not an index map, a function or a layout")
