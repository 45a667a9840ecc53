"""What users give as an index map: a map, its text, a function of the indices, or two layout strings."""

from __future__ import annotations

from typing import Any, Protocol

from eqsat.ir.errors import LayoutError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.layout import Layout
from eqsat.ir.terms.shape import Shape


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
