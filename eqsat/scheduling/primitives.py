"""What a trace may name: the primitives by their names. They are not public: `Schedule` checks what they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.lane_loops import to_lane_loops, with_vectors
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import For, statements
from eqsat.ir.terms.text import leaf_name
from eqsat.scheduling import cache, layout, loops, order, rewrites
from eqsat.scheduling.block_layout import transform_block_layout, transform_loops
from eqsat.scheduling.by_buffer import reorder_by_buffer
from eqsat.scheduling.change import Change
from eqsat.scheduling.excerpt import excerpt
from eqsat.scheduling.memory import holds_vectors

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

OF_SCALARS = frozenset((
    "transform_layout", "cache_read", "cache_write", "simplify_statements", "hoist_expression", "reduce_loop_extents",
    "merge_adjacent_loops", "remove_no_op", "remove_branching_through_overcompute",
    "remove_overcompute_through_branching", "choose_padding", "optimize_statements",
))  # fmt: skip
"""Those that know accesses of single elements: stores of vectors are loops over their lanes for them."""


def take(name: str, func: PrimFunc, given: Mapping[str, Any]) -> Change:
    """The change by a primitive. Vectors that it leaves as they were stay vectors; the trace names the loops of others.

    Raises ScheduleError with the program, with those loops where the primitive saw them.
    """
    primitive = PRIMITIVES[name]
    whole = name not in OF_SCALARS or ("buffer" in given and holds_vectors(func, given["buffer"]))
    made = None if whole else to_lane_loops(func)
    seen = func if made is None else made.func
    try:
        change = primitive(seen, **given)
    except ScheduleError as error:
        error.program = excerpt(seen, given, error.witness)
        raise
    if made is None:
        return change
    after = with_vectors(made, change.func, change.made)
    loops = {leaf_name(s.axis) for s in statements(after.body) if isinstance(s, For)}
    left = [n for n in made.names if n in loops]
    steps = (f"loops over lanes: {', '.join(left)}", *change.steps) if left else change.steps
    return replace(change, func=after, steps=steps)
