"""What a trace may name: the primitives by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eqsat.scheduling import cache, layout, loops, order
from eqsat.scheduling.block_layout import transform_block_layout
from eqsat.scheduling.by_buffer import reorder_by_buffer
from eqsat.scheduling.change import Change

Primitive = Callable[..., Change]

PRIMITIVES: Mapping[str, Primitive] = {
    "split": loops.split,
    "fuse": loops.fuse,
    "reorder": order.reorder,
    "fission": order.fission,
    "unroll": loops.unroll,
    "vectorize": loops.vectorize,
    "parallel": loops.parallel,
    "transform_block_layout": transform_block_layout,
    "reorder_by_buffer": reorder_by_buffer,
    "transform_layout": layout.transform_layout,
    "set_axis_separators": layout.set_axis_separators,
    "cache_read": cache.cache_read,
    "cache_write": cache.cache_write,
    "assume": cache.assume,
}
"""What a trace may name: each takes a function and arguments, and answers the change or raises ScheduleError."""
