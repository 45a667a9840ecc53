"""Which inputs and outputs have more than one physical axis: declared by buffers, or by the map that makes a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eqsat.ir.errors import BackendError
from eqsat.ir.tensors.tensor import Program, Tensor, View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import format_shape

if TYPE_CHECKING:
    from eqsat.ir.layouts.buffer import Buffer


def _buffer_type() -> type[Buffer]:
    """eq.Buffer; imported where a caller declares one, which few do."""
    from eqsat.ir.layouts.buffer import Buffer

    return Buffer


def separators(program: Program, buffers: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The axis separators of inputs and outputs by name, where there are any."""
    ends = {**{x.name: x for x in program.inputs}, **program.outputs}
    found: dict[str, tuple[int, ...]] = {}
    for name, x in program.outputs.items():
        found[name] = _mapped(x)
    for name, layout in buffers.items():
        what = f"buffers[{name!r}]"
        if name not in ends:
            raise BackendError(what, "is no input and no output", f"one of {', '.join(ends)}")
        if not isinstance(layout, _buffer_type()):
            raise BackendError(what, f"is {type(layout).__name__}, not an eq.Buffer")
        x = ends[name]
        fixed = all(isinstance(d, int) for d in (*x.shape, *layout.shape))
        if layout.dtype != x.dtype or layout.rank != x.rank or (fixed and layout.shape != x.shape):
            problem = f"{layout.dtype}{format_shape(layout.shape)} is not {x.dtype}{format_shape(x.shape)}"
            raise BackendError(what, problem, "declare the shape and type of the tensor")
        if layout.strides is not None or layout.elem_offset is not t.index_const(0) or layout.data is not None:
            raise BackendError(what, "has strides, an offset or an alias", "pass dense arrays")
        found[name] = layout.axis_separators
    return {name: places for name, places in found.items() if places}


def _mapped(x: Tensor) -> tuple[int, ...]:
    """The separators of the layout map that makes a tensor."""
    tag = x.node.tag if isinstance(x.node, View) else None
    text = dict(tag.attrs).get("map") if tag is not None and tag.name == "layout_transform" else None
    if not isinstance(text, str) or "AXIS_SEPARATOR" not in text:
        return ()
    from eqsat.ir.layouts.index_map import IndexMap

    return IndexMap.parse(text).axis_separators
