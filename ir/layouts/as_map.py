"""What users give as an index map: a map, its text, an einops pattern, a function, or two layout strings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

from eqsat.ir.errors import LayoutError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.layout import Layout
from eqsat.ir.layouts.pattern import is_pattern, pattern_map
from eqsat.ir.terms.shape import Shape

LAYOUTS = re.compile(r"((?:[A-Z]|[0-9]+[a-z])+) *-> *((?:[A-Z]|[0-9]+[a-z])+)")
"""Two layout strings in one text."""


class Shaped(Protocol):
    """What a map is applied to: a tensor or a buffer."""

    @property
    def shape(self) -> Shape: ...


def as_map(x: Shaped, map_or_src: Any, dst: Any, sizes: Mapping[str, int] | None = None) -> IndexMap:
    """The index map that a map, its text, a function, or a pair of layout strings stands for.

    An einops pattern is one, too: `sizes` are those that the shape does not give.

    >>> from eqsat.ir.layouts.buffer import Buffer
    >>> print(as_map(Buffer("b", (1, 8, 4, 4), "int8"), "NCHW -> NHWC", None))
    n, c, h, w -> n, h, w, c
    """
    if isinstance(map_or_src, str) and dst is None and (pair := LAYOUTS.fullmatch(map_or_src.strip())):
        map_or_src, dst = pair.groups()
    if isinstance(map_or_src, str) and dst is None and is_pattern(map_or_src):
        return pattern_map(map_or_src, x.shape, sizes or {})
    if sizes:
        names = ", ".join(sizes)
        raise LayoutError(
            f"layout_transform by {map_or_src!r}", f"sizes {names}, but no einops pattern", "b (h p) -> ..."
        )
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
