"""layout_transform: the elements of a tensor in the physical layout of an index map, as one View.

The View gathers through the inverse of the map; cells that no element reaches are filled. The declared shape is
computed here, once, and stored in the View.
"""

from __future__ import annotations

from typing import Any

from eqsat.ir.layouts.as_map import as_map
from eqsat.ir.layouts.physical import physical
from eqsat.ir.tensors.tensor import Tag, Tensor, View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.walk import renumber_loads


def layout_transform(x: Tensor, map_or_src: Any, dst: Any = None, pad_value: Any = None, **sizes: int) -> Tensor:
    """The tensor in another layout: `result[map(i)] = x[i]`.

    >>> import eqsat as eq
    >>> x = eq.input("x", (1, 30, 7, 7), "float32")
    >>> layout_transform(x, "NCHW", "NCHW16c", pad_value=0).shape
    (1, 2, 7, 7, 16)
    >>> layout_transform(x, lambda n, c, h, w: [n, h, w, c]).shape
    (1, 7, 7, 30)

    >>> layout_transform(x, "b c (h p) (w q) -> b h w (p q c)", p=7, q=7).shape
    (1, 1, 1, 1470)

    map_or_src: an IndexMap, its text ("i -> i//4, i%4"), a function of the indices, an einops pattern, with the `sizes`
    that the shape does not give, two layout strings in one ("NCHW -> NHWC"), or one with `dst`.
    pad_value: fills the cells that no element reaches: a number, eq.UNDEF, or a function of the physical index that may
    load from x by its own index (`lambda io, ii: x[(4*io + ii) % 14]` wraps around); None: the map must not pad.
    Raises LayoutError where two elements share a cell (both are named) or, without a pad value, with the first padded
    cell, or where the pad value reads another tensor; TypeMismatch where it has another dtype; BoundsError where it
    reads outside of x.
    """
    found = physical(x, m := as_map(x, map_or_src, dst, sizes), pad_value)
    tag = Tag("layout_transform", (("map", str(m)),))
    if found.fill is None:
        return Tensor(View(x, found.shape, found.gather, t.TRUE, None, tag))
    marks = found.padding
    valid = t.logical_and(*(t.logical_not(c) for c in (marks.args if marks.op == "or" else (marks,))))
    return Tensor(View(x, found.shape, found.gather, valid, renumber_loads(found.fill, {x: 0}), tag))
