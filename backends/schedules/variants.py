"""The few other schedules of a move that are worth measuring: tile shapes, loop orders, packing, prefetching."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from eqsat.backends.lowering.moves import Move
from eqsat.backends.machine import LINE, Machine
from eqsat.backends.schedules.choose import choose
from eqsat.backends.schedules.choose_turn import by_result, by_source
from eqsat.backends.schedules.schedule import Plan, Run, Shear, Turn, Zip


def _turns(move: Move, plan: Turn) -> Iterator[Plan]:
    if plan.dense:
        row = plan.ti * move.out.size
        wide = (w for w in (plan.tj // 2, 2 * plan.tj) if 16 // move.out.size <= w <= plan.j.size)
        yield from (replace(plan, tj=w) for w in wide if plan.j.size % w * row >= LINE or plan.j.size % w == 0)
        yield replace(plan, fetch=0 if plan.fetch else 2 * LINE)
        if plan.next is not None:
            yield replace(plan, next=None)
        return
    if move.boxed:
        return
    line = LINE // move.out.size
    for high, wide in ((1, 1), (2, 2), (4, 4), (1, 4), (4, 1)):
        tile = replace(plan, ti=min(high * line, plan.i.size), tj=min(wide * line, plan.j.size))
        if tile.ti * tile.tj * move.out.size <= 1 << 15:
            yield replace(tile, order=by_result(move, tile))
            yield replace(tile, order=by_source(move, tile))
    yield replace(plan, pack=not plan.pack, band=0)


def _shears(move: Move, plan: Shear) -> Iterator[Plan]:
    line = LINE // move.out.size
    for lines in (1, 2, 4, 6, 8):
        if lines * line <= plan.i.size and lines != plan.lines:
            yield replace(plan, lines=lines, fetch=max(1, plan.fetch * plan.lines // lines))
    for fetch in (0, plan.fetch // 2, 2 * plan.fetch):
        yield replace(plan, fetch=fetch)
    yield replace(plan, tj=2 * line)
    yield replace(plan, pack=not plan.pack)


def _runs(move: Move, plan: Run) -> Iterator[Plan]:
    if plan.tiled is not None:
        wide = (w for w in (plan.tile // 2, 2 * plan.tile) if 2 <= w < move.extents[plan.tiled])
        yield from (replace(plan, tile=w) for w in wide)
        return
    outer = plan.order[: len(plan.order) - plan.chunk]
    if not move.operands or not outer:
        return
    rest = plan.order[len(outer) :]
    step = abs(move.operands[0].strides[outer[-1]]) * move.out.size
    for fetch in (0, step, 4 * step):
        yield replace(plan, fetch=fetch, group=0)
    yield replace(plan, order=(*sorted(outer), *rest), fetch=0, group=0)


def _zips(move: Move, plan: Zip) -> Iterator[Plan]:
    source = move.operands[0]
    yield replace(plan, order=tuple(sorted(plan.order)))
    yield replace(plan, order=tuple(sorted(plan.order, key=lambda k: -abs(source.strides[k]))))
    if plan.braid:
        yield replace(plan, braid=False)
    long = move.extents[plan.long]
    yield from (replace(plan, block=min(block, long)) for block in (256, 4096) if plan.block < long or block < long)


def candidates(move: Move, machine: Machine, threads: int = 1) -> tuple[Plan, ...]:
    """A few schedules, the chosen one first. Whether to stream is not among the questions: rules decide that better."""
    first = choose(move, machine, threads)
    if first is None:
        return ()
    found: dict[Plan, None] = {first: None}
    if isinstance(first, Turn):
        found |= dict.fromkeys(_turns(move, first))
    elif isinstance(first, Shear):
        found |= dict.fromkeys(_shears(move, first))
    elif isinstance(first, Run):
        found |= dict.fromkeys(_runs(move, first))
    elif isinstance(first, Zip):
        found |= dict.fromkeys(_zips(move, first))
    return tuple(found)
