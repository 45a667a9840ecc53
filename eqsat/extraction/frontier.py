"""The cheapest choice in a part, class by class from the roots down. What was chosen so far matters only by which of
the classes below it needs (the frontier), so of all choices with one frontier the cheapest is kept. Blocks in a row
have narrow frontiers: the effort grows with their number. Where frontiers become too many, there is no answer here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eqsat.extraction.beams import Chosen, chosen_of
from eqsat.extraction.budget import Budget
from eqsat.extraction.rows import Row, Rows

MANY, WIDTH = 60, 400
"""How many frontiers are looked through for those that cannot win, and how many are followed at most."""

DEPTH = 2
"""How many steps are looked down for what adding a node costs."""

Trail = tuple["Trail | None", int, Row]
States = dict[int, tuple[int, Trail | None]]
"""For each frontier (bits from the next place on) the least cost so far, and the trail of choices that leads there."""


def cheapest_in(rows: Rows, budget: Budget) -> Chosen | None:
    """The cheapest choice; None where frontiers become too many, or there is none that is not circular."""
    table, most = rows.table, _at_most(rows.table, rows.start)
    states: States = {rows.start: (0, None)}
    for n, ways in enumerate(table):
        after: States = {}
        for mask, (cost, trail) in states.items():
            below = mask >> 1
            if not mask & 1:
                known = after.get(below)
                if known is None or cost < known[0]:
                    after[below] = cost, trail
                continue
            for row in ways:
                total, key = cost + row[0], below | row[1]
                known = after.get(key)
                if known is None or total < known[0]:
                    after[key] = total, (trail, n, row)
        if not budget.spend(len(states) * len(ways)) or not after:
            return None
        if len(after) > MANY:
            kept = _promising(after, Given(table, rows.start, most, n + 1), budget)
            if kept is None:
                return None
            after = kept
        states = after
    return chosen_of(min(states.values(), key=lambda x: x[0])[1])


def _at_most(table: Sequence[Sequence[Row]], start: int) -> list[int | None]:
    """What adding a node to a program costs at most, where the roots behind it are there; None: it cannot be had."""
    most: list[int | None] = [None] * len(table)
    for n in range(len(table) - 1, -1, -1):
        for price, needs, _ in table[n]:
            total: int | None = price
            for at in _bits(needs & ~(start >> n + 1)):
                more = most[n + 1 + at]
                total = None if total is None or more is None else total + more
            known = most[n]
            if total is not None and (known is None or total < known):
                most[n] = total
    return most


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(frozen=True)
class Given:
    """What adding a node costs at most where some nodes are there already; bits are counted from `base` on."""

    table: Sequence[Sequence[Row]]
    start: int
    most: Sequence[int | None]
    base: int

    def added(self, at: int, mask: int, depth: int = DEPTH) -> int | None:
        """The cost of one node beside those of a mask: most often it is a view of one of them."""
        n = self.base + at
        least = self.most[n]
        for price, needs, _ in self.table[n] if depth else ():
            total: int | None = price
            for below in _bits(needs & ~(self.start >> n + 1) & ~(mask >> at + 1)):
                if least is not None and total is not None and total >= least:
                    break
                more = self.added(at + 1 + below, mask, depth - 1)
                total = None if total is None or more is None else total + more
            if total is not None and (least is None or total < least):
                least = total
        return least


def _promising(states: States, given: Given, budget: Budget) -> States | None:
    """The states, cheapest first, without those beside which another is no dearer even when all that only it needs is
    added to the program; None where they are too many."""
    ranked = sorted(states.items(), key=lambda item: (item[1][0], item[0].bit_count()))
    kept: States = {}
    for mask, state in ranked:
        known: dict[int, int | None] = {}
        for other, (cost, _) in kept.items():
            room = state[0] - cost
            for at in _bits(other & ~mask):
                if at not in known:
                    known[at] = given.added(at, mask)
                more = known[at]
                room = -1 if more is None else room - more
                if room < 0:
                    break
            if room >= 0:
                break
        else:
            kept[mask] = state
        if len(kept) > WIDTH or not budget.spend(len(kept) + 8 * len(known)):
            return None
    return kept
