"""What a trace may name: the primitives by their names. They are not public: `Schedule` checks what they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from eqsat.scheduling import cache, layout, loops, order, rewrites
from eqsat.scheduling.block_layout import transform_block_layout, transform_loops
from eqsat.scheduling.by_buffer import reorder_by_buffer
from eqsat.scheduling.change import Change

Primitive = Callable[..., Change]

PRIMITIVES: Mapping[str, Primitive] = {
    "split": loops.split,
    "fuse": loops.fuse,
    "rename_loop": loops.rename_loop,
    "reorder": order.reorder,
    "fission": order.fission,
    "unroll": loops.unroll,
    "vectorize": loops.vectorize,
    "parallel": loops.parallel,
    "transform_block_layout": transform_block_layout,
    "transform_loops": transform_loops,
    "reorder_by_buffer": reorder_by_buffer,
    "transform_layout": layout.transform_layout,
    "set_axis_separators": layout.set_axis_separators,
    "cache_read": cache.cache_read,
    "cache_write": cache.cache_write,
    "assume": cache.assume,
    "simplify_statements": rewrites.simplify_statements,
    "hoist_expression": rewrites.hoist_expression,
    "reduce_loop_extents": rewrites.reduce_loop_extents,
    "merge_adjacent_loops": rewrites.merge_adjacent_loops,
    "remove_no_op": rewrites.remove_no_op,
    "remove_branching_through_overcompute": rewrites.remove_branching_through_overcompute,
    "remove_overcompute_through_branching": rewrites.remove_overcompute_through_branching,
    "choose_padding": rewrites.choose_padding,
    "optimize_statements": rewrites.optimize_statements,
    "flatten_buffers": rewrites.flatten_buffers,
    "vectorize_buffers": rewrites.vectorize_buffers,
    "compact_buffer": rewrites.compact_buffer,
    "remove_assume": rewrites.remove_assume,
    "remove_store_undef": rewrites.remove_store_undef,
}
"""What a trace may name: each takes a function and arguments, and answers the change or raises ScheduleError."""
