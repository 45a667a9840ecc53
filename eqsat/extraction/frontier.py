"""The cheapest choice in a part, class by class from the roots down. What was chosen so far matters only by which of
the classes below it needs (the frontier), so of all choices with one frontier the cheapest is kept. Blocks in a row
have narrow frontiers: the effort grows with their number. Where frontiers become too many, there is no answer here."""

from __future__ import annotations

from eqsat.extraction.beams import Chosen, chosen_of
from eqsat.extraction.budget import Budget
from eqsat.extraction.needless import Bounds
from eqsat.extraction.rows import Row

MANY, WIDTH = 60, 400
"""How many frontiers are looked through for those that cannot win, and how many are followed at most."""

Trail = tuple["Trail | None", int, Row]
States = dict[int, tuple[int, Trail | None]]
"""For each frontier (bits from the next place on) the least cost so far, and the trail of choices that leads there."""


def cheapest_in(bounds: Bounds, budget: Budget) -> Chosen | None:
    """The cheapest choice; None where frontiers become too many, or there is none that is not circular."""
    rows = bounds.rows
    states: States = {rows.start: (0, None)}
    for n, ways in enumerate(rows.table):
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
            kept = _promising(after, bounds, n + 1, budget)
            if kept is None:
                return None
            after = kept
        states = after
    return chosen_of(min(states.values(), key=lambda x: x[0])[1])


def _promising(states: States, bounds: Bounds, base: int, budget: Budget) -> States | None:
    """The states, cheapest first, without those beside which another is no dearer even when all that only it needs is
    added to the program; None where they are too many. Bits are counted from the place `base` on."""
    ranked = sorted(states.items(), key=lambda item: (item[1][0], item[0].bit_count()))
    kept: States = {}
    none = ranked[-1][1][0] + 1  # more than can be saved
    for mask, state in ranked:
        added: dict[int, int] = {}
        for other, (cost, _) in kept.items():
            room, more = state[0] - cost, other & ~mask
            while more and room >= 0:
                low = more & -more
                if low not in added:
                    added[low] = _added(bounds, base, base + low.bit_length() - 1, mask, none)
                room -= added[low]
                more ^= low
            if room >= 0:
                break
        else:
            kept[mask] = state
        if len(kept) > WIDTH or not budget.spend(len(kept) + len(added)):
            return None
    return kept


def _added(bounds: Bounds, base: int, n: int, mask: int, none: int) -> int:
    """What a node costs at most beside those of a mask, whose bits are counted from a place on."""
    for cost, x in bounds.near[n]:
        if x >= base and mask >> x - base & 1:
            return cost
    alone = bounds.most[n]
    return none if alone is None else alone
