"""Where a line repeats, block after block."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from eqsat.repeats.line import Line, Place

SHORTEST, OFTEN = 4, 3
"""Nodes of a block, at least; and how many of the most frequent lengths are tried."""
BUDGET, LEAST = 100, 4
"""So many nodes of blocks are kept, and so many blocks at least: those at the ends may be other than those between."""
WORTH = 200
"""Fewer nodes are not worth leaving out: with all of them, more is found."""


@dataclass(frozen=True)
class Stretch:
    """The nodes of a line from the first on, up to the end, repeat after so many places (`period`); those from `cut`
    on are left out, so many (`gone`, some whole blocks)."""

    first: int
    end: int
    period: int
    cut: int
    gone: int

    @property
    def copies(self) -> int:
        """How many blocks are left out."""
        return self.gone // self.period


def longest(line: Line) -> Stretch | None:
    """The stretch with the most nodes that need not be there, of blocks with inputs or constants of their own; None
    where nothing repeats often enough."""
    if len(line.nodes) < WORTH:
        return None
    alike = line.alike()
    last: dict[int, int] = {}
    apart: Counter[int] = Counter()
    for n, key in enumerate(alike):
        if key in last and n - last[key] >= SHORTEST:
            apart[n - last[key]] += 1
        last[key] = n
    often = [p for p, _ in apart.most_common(OFTEN)]
    found = [_stretch(line, p) for p in dict.fromkeys([*often, *(2 * p for p in often)])]
    return max((x for x in found if x is not None), key=lambda x: x.gone, default=None)


def _stretch(line: Line, period: int) -> Stretch | None:
    run = _run(line, period)
    if run is None:
        return None
    first, end = run
    kept = max(LEAST, BUDGET // period)
    start = first + kept // 2 * period
    gone = ((end - start) // period - (kept - kept // 2)) * period
    if gone < max(WORTH, 2 * period):
        return None
    if not any(line.is_leaf(n) for n in range(start, start + period)):
        return None  # nothing would tell which of a result's nodes are which block's
    cut = _narrowest(line, first, start, period)
    return Stretch(first, end, period, cut, gone) if _can_go(line, first, end, cut, gone) else None


def _run(line: Line, period: int) -> tuple[int, int] | None:
    """From where to where the line repeats, node by node and operand by operand: each is that of the block before, one
    block later, or is one that all blocks share, from before the first."""
    signs, operands, count = line.signs, line.operands, len(line.nodes) - period

    def repeats(n: int) -> bool:
        other = n + period
        return signs[n] == signs[other] and all(
            k == kk and m in (mm, mm - period) for (m, k), (mm, kk) in zip(operands[n], operands[other], strict=True)
        )

    best = run = (0, 0)
    for n in range(count):
        run = (run[0], n + 1) if repeats(n) else (n + 1, n + 1)
        best = max(best, run, key=lambda run: run[1] - run[0])
    first, last = best
    while last - first > period:
        broken = next((n for n in range(last - 1, first - 1, -1) if not _in_step(line, n, first, last, period)), None)
        if broken is None:
            return first, last + period
        first = broken + 1
    return None


def _in_step(line: Line, n: int, first: int, last: int, period: int) -> bool:
    """Whether each operand of a node relates to that of the node one block later as it does there."""
    kinds = _kinds(line.operands[n], line.operands[n + period], first)
    later = n + period
    return kinds is not None and (
        later >= last or kinds == _kinds(line.operands[later], line.operands[later + period], first)
    )


def _kinds(some: tuple[Place, ...], later: tuple[Place, ...], first: int) -> tuple[bool, ...] | None:
    """For each operand whether all blocks share it; None where one is neither shared nor of a block."""
    if any(m == mm and m >= first for (m, _), (mm, _) in zip(some, later, strict=True)):
        return None
    if any(m != mm and mm < first for (m, _), (mm, _) in zip(some, later, strict=True)):
        return None
    return tuple(m == mm for (m, _), (mm, _) in zip(some, later, strict=True))


def _narrowest(line: Line, first: int, start: int, period: int) -> int:
    """The place in a block before which the fewest tensors are made that are read behind it."""
    ends = Counter[int]()
    for m in range(first, start + period):
        ends[m] = m
    for n, some in enumerate(line.operands):
        for m, _ in some:
            if first <= m < start + period:
                ends[m] = n
    open_at = {c: sum(m < c <= end for m, end in ends.items()) for c in range(start, start + period)}
    return min(open_at, key=lambda c: open_at[c])


def _can_go(line: Line, first: int, end: int, cut: int, gone: int) -> bool:
    """Whether what is left reads nothing of what is left out but what a block that is left has, too; and nothing of
    the blocks before."""
    for n in range(cut + gone, len(line.nodes)):
        for m, _ in line.operands[n]:
            if first <= m < cut:
                return False
            if cut <= m < cut + gone and (n >= end or m - gone < first):
                return False
    return True
