"""The choice of a schedule for a move: rules over strides and sizes; `candidates` lists variants to measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

from eqsat.backends.c_row import has_halves
from eqsat.backends.c_weave import interleavable, separable
from eqsat.backends.machine import LINE, Machine
from eqsat.backends.moves import Access, Move, normalise, without_border
from eqsat.backends.schedule import TILE_I, TILE_J, Blend, Chain, Cross, Plan, Run, Shear, Shuffle, Strip, Turn, Zip

SMALL = 16
"""A zip has at most so many statements."""
CHUNK = 1 << 10
"""Bytes collected before they leave by streaming stores."""
HELD_ROWS = 1024
"""Rows of the result of which a shear keeps the unfinished line."""
DENSE = 512
"""Rows of the result of at most so many bytes, one behind the other, are streamed as one stretch of memory."""
LONGEST = 4 << 10
"""So are rows of at most so many bytes, where the plane that they are turned from fits into the second cache."""
COLLECT = 1 << 10
"""Bytes of such a stretch that are collected at a time."""
PAGE_LINES = 2
"""Lines that leave at a time of rows that meet in few places, or of which several share a page."""
AHEAD = 8 << 10
"""Bytes of the source between the tile that is turned and the one that is asked for."""
FAR_AHEAD = 24 << 10
"""So many where several lines leave at a time."""
LINES = 16
"""Lines of a row of the result that are written one after the other, where the source is near."""
PLACES = 16
"""So many places of the source are followed by the processor at a time."""
WAYS = 8
"""Rows which share a set of the first cache and fit into it together."""
SPAN = 4 << 10
"""Places so many bytes apart share a set of the first cache."""
SHORT = 512
"""Runs of fewer bytes are copied in pieces that read so many bytes of the source one after the other."""
LONG = 512
"""Rows of the source of so many bytes are fetched along the row."""
GROUPED = 4 << 10
"""Runs that lie side by side are asked for together, at most so many bytes of them."""
BLEND = 64
"""Elements of a row of the tiles in which a body is computed."""
STRIP = 64
"""So are so many of a row along which all operands lie: few enough for loops over them to be unrolled."""
NEAR = 4
"""Elements of operands at most so far apart are read along a row of a body."""
INLINE = 1024
"""Padding is written together with what it surrounds, where the steps of its loop are shorter than so many bytes."""
STRETCH = 32 << 10
"""Bytes of the result with padding in it that are written, and perhaps collected, as one stretch."""
PARALLEL = 1 << 17
"""Fewer bytes than this are not worth waking threads for."""


def unit(access: Access) -> int | None:
    """The loop along which an access is contiguous."""
    return next((k for k, s in enumerate(access.strides) if s == 1), None)


def along(access: Access, i: int | None) -> bool:
    """Whether an access walks one element at a time along a loop, forwards or backwards."""
    return i is not None and access.strides[i] in (1, -1)


def chain(move: Move, access: Access, first: int, taken: Sequence[int], enough: int, most: int) -> Chain:
    """The contiguous run of an access that starts with a loop: `enough` elements or more, but at most `most`."""
    loops, size = [first], move.extents[first]
    boxed = move.boxed
    while size < enough and first not in boxed:
        more = [k for k, s in enumerate(access.strides) if s == size and k not in taken and k not in loops]
        more = [k for k in more if k not in boxed]
        if not more or size * move.extents[more[0]] > most:
            break
        loops.append(more[0])
        size *= move.extents[more[0]]
    return Chain(tuple(loops), size)


def streams(move: Move, machine: Machine) -> bool:
    """Whether source and result are far larger than the last cache, so that a reader will not find the result there."""
    return 4 * move.points * move.out.size >= 3 * machine.last


def passes(move: Move, machine: Machine, i: int, j: int) -> bool:
    """Whether source and result together fill the last cache, and rows of a transpose would leave much of it unused."""
    size = move.out.size
    crowded = crowds(move.operands[0].strides[i] * size) or crowds(move.out.strides[j] * size)
    return crowded and 2 * move.points * size >= machine.last


def tile_extent(size: int, whole: int, e: int) -> int:
    """A tile of about `whole` elements (a multiple of lines) along a run of `size`, with little overlap at its end."""
    if size <= whole + whole // 2:
        return size

    def work(tile: int) -> float:
        # Tiles of whole lines are worth a little overlap.
        return -(-size // tile) * tile / size + (0.05 if tile != whole else 0) + (0.05 if tile % (4 * e) else 0)

    return min(range(whole // 2 // e * e, whole + whole // 2 + 1, e), key=lambda t: (work(t), -t))


def dense_tile(extent: int, row: int, e: int) -> int:
    """The rows of the result of a dense tile: about a kilobyte, and never less than a line for the last tile."""
    best = max(e, COLLECT // row // e * e)
    if extent <= best + best // 2:
        return extent
    fitting = [w for w in range(best, e - 1, -e) if extent % w * row >= LINE or extent % w == 0]
    return fitting[0] if fitting else extent


def shear_lines(row: int) -> int:
    """Lines that leave at a time of a row of so many bytes in a crowd: several, such that little is left at its end."""
    return min((k for k in range(8, 1, -1) if k * LINE <= row), key=lambda k: row % (k * LINE) // LINE, default=1)


def crowds(stride: int) -> bool:
    """Whether places that many bytes apart are in few sets of the caches, and in few banks of the memory."""
    return stride % 2048 == 0


def sharing(stride: int, rows: int) -> int:
    """The most of so many rows that meet in one set of the first cache, where they are that many bytes apart.

    >>> sharing(4096, 16), sharing(4092, 16), sharing(2048, 16), sharing(2800, 64)
    (16, 15, 8, 2)
    """
    places = Counter(row * stride % SPAN // LINE for row in range(rows))
    return max(places.values())


def beside(stride: int) -> bool:
    """Whether many places that many bytes apart are in few sets of the caches, though each a little further.

    >>> beside(16380), beside(16000), beside(21504)
    (True, False, True)
    """
    return min(stride % 1024, -stride % 1024) <= 16


def ahead(move: Move, j: Chain, order: Sequence[int]) -> int:
    """How many bytes ahead a source is asked for: along a long row, else where the innermost loop goes next."""
    source = move.operands[0]
    inner = [k for k in order if k >= 0]
    if j.size * source.size >= LONG or not inner:
        return 2 * LINE
    return abs(source.strides[inner[-1]]) * source.size


def by_source(move: Move, plan: Turn) -> tuple[int, ...]:
    """The loop order that reads the source from its beginning to its end."""
    strides = move.operands[0].strides
    keys = {TILE_I: abs(strides[plan.i.loops[0]]) * plan.ti, TILE_J: plan.tj}
    return tuple(sorted(plan.order, key=lambda k: -(keys[k] if k < 0 else abs(strides[k]))))


def by_result(move: Move, plan: Turn) -> tuple[int, ...]:
    """The loop order that writes the result from its beginning to its end."""
    strides = move.out.strides
    keys = {TILE_I: plan.ti, TILE_J: strides[plan.j.loops[0]] * plan.tj}
    return tuple(sorted(plan.order, key=lambda k: -(keys[k] if k < 0 else strides[k])))


def plan_turn(move: Move, machine: Machine, threads: int, i: int, j: int) -> Turn | Shear | None:
    """Register transposes, where both runs are long enough for them."""
    size = move.out.size
    e = 16 // size
    source = move.operands[0]
    stream = streams(move, machine) or passes(move, machine, i, j)
    line = LINE // size
    enough = (10 if stream else 4) * line
    # Lines that rows share are written once if a row goes on: far, where the result is streamed.
    most = (80 if stream else 4) * enough
    # One loop of whole lines has its rows of the source at one stride: no table of them is needed.
    lines_only = all(n == 1 or n % line == 0 for n in (move.extents[i], *move.out.strides))
    run_i = chain(move, move.out, i, [j], line if lines_only and not stream else enough, most)
    run_j = chain(move, source, j, run_i.loops, enough, most)
    if run_i.size < e or run_j.size < e:
        return None
    ti = run_i.size if move.boxed else tile_extent(run_i.size, line, e)
    tj = tile_extent(run_j.size, line if stream else 4 * line, e)
    used = {*run_i.loops, *run_j.loops}
    loops = tuple(k for k in range(len(move.extents)) if k not in used)
    plain = Turn(run_i, run_j, ti, tj, (*loops, TILE_I, TILE_J), threads=threads)
    order = by_source(move, plain)
    thrash = run_i.plain and source.strides[i] * size % 4096 == 0
    fetch = ahead(move, run_j, order) if stream else 0
    row = move.extents[i] * size
    near = row <= LONGEST and move.extents[i] * move.extents[j] * size <= machine.second
    alone = min(move.extents[i], move.extents[j]) >= e and move.out.strides[j] == move.extents[i]
    if stream and alone and (row <= DENSE or near):
        others = [k for k in range(len(move.extents)) if k not in (i, j)]
        others.sort(key=lambda k: -abs(source.strides[k]))
        plane = move.extents[i] * move.extents[j] * size
        # Where a small block has more rows than the processor follows, all of the next one is asked for.
        many = move.extents[i] > PLACES and 8 * plane <= machine.second
        following = others[-1] if others and many else None
        # Lines that would not stay in the first cache until the next tile are read in wider pieces.
        lost = following is not None and sharing(abs(source.strides[i]) * size, move.extents[i]) > WAYS
        wide = dense_tile(move.extents[j], row, 2 * e if lost and move.extents[j] >= 4 * e else e)
        return replace(
            plain, i=Chain((i,), row // size), j=Chain((j,), move.extents[j]), ti=row // size,
            tj=wide, order=(*others, TILE_J), pack=thrash, stage=True, stream=True,
            dense=True, fetch=LINE, next=following,
        )  # fmt: skip
    if stream and not move.boxed and run_i.size >= 2 * line:
        outer = tuple(k for k in order if k >= 0)
        turns = prod(move.extents[k] for k in outer)
        blocks = max(-(-run_j.size // HELD_ROWS), -(-4 * threads // turns) if threads > 1 else 1)
        blocks = min(blocks, max(run_j.size // (4 * line), 1))
        # Where rows crowd together, fewer of them at a time, and more of each.
        apart = source.strides[i] * size, move.out.strides[j] * size
        paged = alone and row <= LONGEST
        lines, far = 1, AHEAD
        if any(crowds(step) for step in apart) or (run_j.plain and beside(apart[1]) and not paged):
            lines, far = shear_lines(run_i.size * size), 0
        elif paged or any(step % 512 == 0 for step in apart):
            lines, far = PAGE_LINES, FAR_AHEAD
        fetch = max(1, far // (lines * LINE * line))
        pack = thrash or (run_i.plain and e > WAYS // 2 and sharing(abs(apart[0]), line) >= WAYS)
        return Shear(run_i, run_j, line, blocks, (*outer, TILE_J), lines, pack=pack, fetch=fetch, threads=threads)
    if stream:
        return replace(plain, order=order, pack=thrash, stage=True, stream=True)
    # Far more than the caches hold comes from memory either way: there the detour pays where all rows meet exactly.
    exact = crowds(source.strides[i] * size) or crowds(move.out.strides[j] * size)
    inside = exact or 6 * move.points * size <= machine.last
    if inside and run_i.size >= 4 * line and run_j.size >= 4 * line and not move.boxed:
        crowd = plan_crowd(move, plain)
        if crowd is not None:
            return replace(crowd, order=by_source(move, crowd))
    if sweeps(move, machine, plain):
        return replace(plain, order=order)
    plane = run_i.size * run_j.size * size
    resident = 2 * plane <= machine.second < 2 * move.points * size and source.strides[i] * size % 1024
    if not move.boxed and resident and run_j.size > 2 * line:
        # What is read stays in the second cache: the result is written from its beginning to its end.
        wide = tile_extent(run_j.size, line, e) if run_j.size > 4 * line else run_j.size
        rows = tile_extent(run_i.size, LINES * line // wide * line, e)
        tile = replace(plain, ti=rows, tj=wide)
        if rows > line and move.out.strides[j] == run_i.size:
            return replace(tile, order=by_result(move, tile))
    if thrash and not move.boxed and e <= WAYS:
        return replace(plain, order=by_result(move, plain), band=WAYS)
    return replace(plain, order=by_result(move, plain), pack=thrash and not move.boxed)


def plan_crowd(move: Move, plain: Turn) -> Turn | None:
    """Tiles for rows of which too many meet in a set of the first cache: few of those at a time, each for long."""
    size, line = move.out.size, LINE // move.out.size
    e, i, j, source, result = 16 // size, plain.i, plain.j, move.operands[0].strides, move.out.strides
    crossed = i.plain and sharing(abs(source[i.loops[0]]) * size, line) >= WAYS
    crowded = j.plain and sharing(result[j.loops[0]] * size, 4 * line) >= line
    # Such rows of the source are read few at a time or, where a register tile has many of them, copied side by side.
    many = crossed and e > WAYS // 2
    plain = replace(plain, band=0 if many or not crossed else WAYS, pack=many)
    if crossed and (not crowded or e > WAYS):
        return replace(plain, ti=line, tj=4 * line)
    if crowded and not crossed and e <= WAYS:
        return replace(plain, ti=min(8 * line, i.size), tj=WAYS)
    return replace(plain, ti=4 * line, tj=2 * line if many else 4 * line, stage=True) if crowded else None


def sweeps(move: Move, machine: Machine, plan: Turn) -> bool:
    """Whether a few rows of a source beyond the second cache are read along, past all of what the result has of them.

    The processor follows few rows; but lines that rows of the result share have to stay in the cache until they are
    whole.
    """
    order, size = by_source(move, plan), move.out.size
    rows = [k for k in range(len(move.extents)) if k not in plan.i.loops]
    at = order.index(TILE_I)
    if TILE_J not in order[at:] or plan.i.size <= plan.ti or move.boxed:
        return False
    places = plan.j.size * prod(move.extents[k] for k in order[at:] if k >= 0)
    whole = plan.ti * size % LINE == 0 and all(move.out.strides[k] * size % LINE == 0 for k in rows)
    far = places * plan.i.size * size > machine.second
    return far and (whole or 2 * LINE * places <= machine.second // 4)


def plan_run(move: Move, machine: Machine, threads: int) -> Run:
    """Contiguous copies: the source is read from its beginning to its end, stretches of the result are collected."""
    order = list(range(len(move.extents)))
    stream, size, boxed = bool(move.operands) and streams(move, machine), move.out.size, move.boxed
    chunk = len(order) - boxed[0] if boxed else 1
    if stream:
        while chunk < len(order) and _dense(move, order[-chunk - 1]):
            if prod(move.extents[-chunk:]) * size >= CHUNK:
                break
            chunk += 1
    outer, inner = order[: len(order) - chunk], order[len(order) - chunk :]
    fetch = 0
    if move.operands:
        strides = move.operands[0].strides
        outer.sort(key=lambda k: -abs(strides[k]))
        fetch = abs(strides[outer[-1]]) * size if outer and stream else 0
    if move.operands and move.operands[0].strides[-1] == -1:
        # Such rows are turned round in a local buffer before they leave.
        stream = stream and (len(move.extents) == 1 or prod(move.extents[-chunk:]) * size <= STRETCH)
    plain = Run((*outer, *inner), stream, chunk, fetch, threads)
    if stream and chunk == 2 and outer and not boxed:
        plain = replace(plain, group=group_of(move, machine, outer[-1], inner[0]))
    return tiled_run(move, plain) if move.operands and chunk == 1 and not (stream or boxed) else plain


def group_of(move: Move, machine: Machine, step: int, row: int) -> int:
    """How many runs of each row are asked for at once, where those that follow each other lie side by side."""
    run = move.extents[-1]
    beside = move.operands[0].strides[step] == run
    if not beside or move.extents[row] <= PLACES or not LINE < run * move.out.size < GROUPED:
        return 0
    most = min(GROUPED // (run * move.out.size), machine.second // (2 * move.extents[row] * run * move.out.size))
    return max((n for n in range(1, most + 1) if move.extents[step] % n == 0), default=0)


def tiled_run(move: Move, plan: Run) -> Run:
    """Short runs in pieces: the source is read and the result written in longer stretches, few of them at a time."""
    *outer, inner = plan.order
    run = move.extents[inner]
    tile = SHORT // (run * move.out.size)
    n, k = (next((k for k in outer if a.strides[k] == run), None) for a in (move.operands[0], move.out))
    if n is None or k is None or n == k or tile < 2 or move.extents[n] < 2 * tile:
        return plan
    others = [m for m in outer if m not in (n, k)]
    return replace(plan, order=(*others, TILE_I, k, n, inner), tiled=n, tile=tile)


def plan_zip(move: Move, machine: Machine, threads: int, i: int, j: int) -> Zip | None:
    """A few elements interleaved or separated."""
    source = move.operands[0]
    if move.boxed:
        return None
    small, long = (i, j) if move.extents[i] < move.extents[j] else (j, i)
    if move.extents[small] > SMALL or move.extents[long] < 4:
        return None
    others = [k for k in range(len(move.extents)) if k not in (i, j)]
    # Short rows of the source are read one after the other where they share lines, or where they would be read in too
    # many places by turns.
    row = move.extents[long]
    after = next((n for n, k in enumerate(others) if source.strides[k] == row), None)
    places = 1 if after is None else prod(move.extents[k] for k in others[after + 1 :]) * move.extents[small]
    if row * source.size < LINE or (row * source.size <= 4 * LINE and places > PLACES):
        others.sort(key=lambda k: -abs(source.strides[k]))
    order = tuple(others)
    block = min(move.extents[long], 512)
    # What is collected before it leaves is contiguous: rows along the long loop, or all of a block.
    dense = move.out.strides[long] in (1, move.extents[small])
    size, count = move.out.size, move.extents[small]
    together = move.out.strides[long] == count and source.strides[long] == 1 and interleavable(count, size)
    apart = source.strides[long] == count and move.out.strides[long] == 1 and separable(count)
    braid = block * size >= 16 and (together if small == i else apart)
    return Zip(long, (small,), block, order, braid, dense and streams(move, machine), threads)


def plan_shuffle(move: Move, threads: int) -> Shuffle | None:
    """Blocks of 16 bytes that hold the same elements before and after, in another order."""
    whole, acc = 16 // move.out.size, 1
    inside: list[tuple[int, int]] = []
    source = move.operands[0]
    if move.boxed or whole < 2:
        return None
    while acc < whole:
        k = next((k for k, s in enumerate(move.out.strides) if s == acc), None)
        if k is None:
            return None
        take = min(move.extents[k], whole // acc)
        if move.extents[k] % take or whole % (acc * take):
            return None
        inside.append((k, take))
        acc *= take
    steps = product(*(range(take) for _, take in reversed(inside)))
    strides = [source.strides[k] for k, _ in reversed(inside)]
    offsets = [sum(p * s for p, s in zip(at, strides, strict=True)) for at in steps]
    first = min(offsets)
    places = tuple(at - first for at in offsets)
    if sorted(places) != list(range(whole)) or places == tuple(range(whole)):
        return None
    taken = dict(inside)
    order = tuple(k for k in range(len(move.extents)) if move.extents[k] > taken.get(k, 1))
    return Shuffle(tuple(inside), places, first, order, threads)


def plan_blend(move: Move, threads: int, i: int) -> Blend | None:
    """Tiles of a body of which some operands are contiguous along one other loop, all else along the result's."""
    across = [a for a in move.operands if a.strides[i] not in (0, 1)]
    loops = {unit(a) for a in across}
    j = loops.pop() if len(loops) == 1 else None
    if j is None or move.boxed or any(min(move.extents[i], move.extents[j]) * a.size < 16 for a in across):
        return None
    wide = 2 * BLEND if move.out.size <= 2 else BLEND
    ti, tj = tile_extent(move.extents[i], wide, 1), tile_extent(move.extents[j], wide // 2, 1)
    others = [k for k in range(len(move.extents)) if k not in (i, j)]
    return Blend(i, j, ti, tj, (*others, TILE_J, TILE_I), threads)


def cross_loop(move: Move) -> int | None:
    """The loop along which a body with binary16 numbers is computed, before its rows are turned into the result."""
    i = unit(move.out)
    if i is None or move.is_copy or not has_halves(move.body) or move.out.size > 2:
        return None
    j = next((k for k, s in enumerate(move.out.strides) if s == move.extents[i]), None)
    e = 16 // move.out.size
    if j is None or move.box[j][1] - move.box[j][0] < BLEND // 2 or NEAR < move.extents[i] < e:
        return None
    near = all(0 <= a.strides[j] <= NEAR for a in move.operands)
    turned = any(a.strides[j] == 1 for a in move.operands) or i in move.boxed
    return j if near and turned and (i not in move.boxed or e <= move.extents[i] <= BLEND) else None


def plan_cross(move: Move, threads: int, i: int) -> Cross | None:
    """Tiles of such a body."""
    j = cross_loop(move)
    if j is None or move.boxed not in ((), (i,)):
        return None
    ti = move.extents[i] if move.boxed else tile_extent(move.extents[i], BLEND, 1)
    tj = tile_extent(move.extents[j], BLEND, 1)
    others = [k for k in range(len(move.extents)) if k not in (i, j)]
    return Cross(i, j, ti, tj, (*others, TILE_J, TILE_I), threads)


def plan_strip(move: Move, threads: int, i: int) -> Strip | None:
    """Pieces of rows of a body with binary16 numbers, all of whose operands lie along the result."""
    if move.boxed or move.extents[i] < BLEND // 2 or not has_halves(move.body):
        return None
    if not all(0 <= a.strides[i] <= NEAR for a in move.operands):
        return None
    ti = tile_extent(move.extents[i], STRIP, 1)
    others = [k for k in range(len(move.extents)) if k != i]
    # What lies between the elements of a row is taken before the next piece.
    among = [k for k in others if any(0 < a.strides[k] < a.strides[i] for a in move.operands)]
    return Strip(i, ti, (*(k for k in others if k not in among), TILE_I, *among), threads)


def choose(move: Move, machine: Machine, threads: int = 1) -> Plan | None:
    """The schedule of a move; None leaves it to the general loop nest."""
    i = unit(move.out)
    if move.points * move.out.size < PARALLEL:
        threads = 1
    if i is None:
        return None
    if move.is_fill:
        return plan_run(move, machine, threads)
    if not move.is_copy:
        return plan_strip(move, threads, i) or plan_blend(move, threads, i) or plan_cross(move, threads, i)
    j = unit(move.operands[0])
    short = move.extents[i] * move.out.size
    shuffled = plan_shuffle(move, threads) if short < 16 or (short < 32 and move.operands[0].strides[i] != 1) else None
    if shuffled is not None:
        return shuffled
    if along(move.operands[0], i):
        return plan_run(move, machine, threads)
    if j is None or move.boxed not in ((), (i,)):
        return None
    if move.boxed and move.extents[i] * move.out.size > 256:
        return None
    if separable(move.extents[i]) and move.extents[i] * move.out.size > 16:
        # Fewer rows than two register tiles have: they would do much of the work twice.
        woven = plan_zip(move, machine, threads, i, j)
        if woven is not None and woven.braid:
            return woven
    return plan_turn(move, machine, threads, i, j) or plan_zip(move, machine, threads, i, j)


def _dense(move: Move, k: int) -> bool:
    """Whether one step of a loop writes one contiguous piece."""
    return move.out.strides[k] == prod(move.extents[k + 1 :])


def prepared(move: Move) -> tuple[Move, ...]:
    """The move without the parts of its border that its schedule would not write on its way."""
    if not move.boxed or not move.operands:
        return (move,)
    i = unit(move.out)
    size = move.out.size
    if not move.is_copy:
        keep = [k for k in move.boxed if k == i and cross_loop(move) is not None]
    elif along(move.operands[0], i):
        step = {k: move.out.strides[k] * size for k in move.boxed}
        keep = [k for k in move.boxed if _dense(move, k) and step[k] < INLINE and step[k] * move.extents[k] <= STRETCH]
    else:
        keep = [k for k in move.boxed if k == i and move.extents[k] * size <= 4 * LINE]
    inside, borders = without_border(move, [k for k in move.boxed if k not in keep])
    return (normalise(inside), *borders)


def schedule(moves: Sequence[Move], machine: Machine, threads: int) -> list[tuple[Move, Plan]] | None:
    """Every move of a kernel with its schedule; None where the general loop nest has to do it."""
    chosen: list[tuple[Move, Plan]] = []
    for move in moves:
        for part in prepared(move):
            plan = choose(part, machine, threads)
            if plan is None:
                return None
            chosen.append((part, plan))
    return chosen
