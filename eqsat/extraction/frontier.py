"""The cheapest choice in a part, class by class from the roots down. What was chosen so far matters only by which of
the classes below it needs (the frontier), so of all choices with one frontier the cheapest is kept. Blocks in a row
have narrow frontiers: the effort grows with their number. Where frontiers become too many, there is no answer here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.extraction.beams import Chosen, chosen_of
from eqsat.extraction.budget import Budget
from eqsat.extraction.needless import Bounds
from eqsat.extraction.rows import Row, places_of
from eqsat.extraction.subsets import TOGETHER, bits_of, numbers_of

MANY, MOST = 60, 16_000
"""From how many frontiers on those are looked for that cannot win, and how many are followed at most."""
WIDTH, WIDEST = 400, 2_000
"""So many are looked through at each node; so many at most, and only where that has paid, for it takes their square."""
LOOKED = 10
"""So many that are looked through take the time of one that is followed."""
PAYS, REST, PAUSE = 0.8, 2, 8
"""What is left of them then, at most; where it did not pay, that many nodes are passed before it is tried again, more
where there are many."""

Trail = tuple["Trail | None", int, Row]
States = dict[int, tuple[int, Trail | None]]
"""For each frontier (bits from the next place on) the least cost so far, and the trail of choices that leads there."""

Views = dict[int, tuple[tuple[int, int], ...]]
"""For each bit what its node costs beside that of another one, by its place, the least first; then alone (-1)."""
Answered = dict[object, list[int] | None]


def cheapest_in(bounds: Bounds, budget: Budget) -> Chosen | None:
    """The cheapest choice; None where frontiers become too many, or there is none that is not circular."""
    rows = bounds.rows
    states: States = {rows.start: (0, None)}
    answered: Answered = {}
    rest = pause = 0
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
        if len(after) > MOST or not budget.spend(len(states) * len(ways)) or not after:
            return None
        rest, pause = rest - 1, pause - 1
        if rest < 0 and MANY < len(after) <= (WIDTH if pause >= 0 else WIDEST):
            kept = _promising(after, bounds, n + 1, answered, budget)
            if kept is None:
                return None
            if len(kept) > PAYS * len(after):
                rest, pause = REST, PAUSE
            after = kept
        states = after
    return chosen_of(min(states.values(), key=lambda x: x[0])[1])


def _promising(states: States, bounds: Bounds, base: int, answered: Answered, budget: Budget) -> States | None:
    """The states, cheapest first, without those beside which another is no dearer even when all that only it needs is
    added to the program; None where they are too many. Bits are counted from the place `base` on.

    `answered` has the answers for states with the same differences and the same nodes: those of equal blocks.
    """
    ranked = sorted(states.items(), key=lambda item: (item[1][0], item[0].bit_count()))
    least, every, roots = ranked[0][1][0], 0, bounds.rows.start >> base
    for mask in states:
        every |= mask & ~roots
    much = ranked[-1][1][0] - least + 1  # more than can be saved
    views: Views = {}
    for n in places_of(every, base):
        near = [(cost, x - base) for cost, x in bounds.near[n] if cost < much and x >= base and every >> x - base & 1]
        alone = bounds.most[n]
        views[1 << n - base] = (*near, (much if alone is None else min(alone, much), -1))
    costs = [(mask & ~roots, cost - least) for mask, (cost, _) in ranked]
    key = tuple(costs), tuple(views.items())
    if key not in answered:
        answered[key] = _kept(costs, views, budget)
    kept = answered[key]
    return None if kept is None or budget.over else {mask | roots: states[mask | roots] for mask in kept}


def _kept(costs: Sequence[tuple[int, int]], views: Views, budget: Budget) -> list[int] | None:
    """The masks that are kept of those given with their costs, the cheapest first.

    Which of those kept so far make a mask needless is asked for some masks at once: what adding the bits of the one to
    the other costs is a product of matrices.
    """
    masks, prices = [mask for mask, _ in costs], np.array([cost for _, cost in costs])
    bits = bits_of(masks, max((place.bit_length() for place in views), default=1))
    columns = [place.bit_length() - 1 for place in views]
    exact = np.float64 if (costs[-1][1] + 1) * bits.shape[1] < 1 << 53 else object
    adding = np.zeros((len(masks), len(columns)), exact)
    for n, options in enumerate(views.values()):
        price = np.full(len(masks), options[-1][0], exact)
        for cost, other in reversed(options[:-1]):
            price[bits[:, other]] = cost
        adding[:, n] = np.where(bits[:, columns[n]], 0, price)
    has, kept = np.ascontiguousarray(bits[:, columns]).astype(exact), list[int]()
    for first in range(0, len(masks), TOGETHER):
        some = range(first, min(first + TOGETHER, len(masks)))
        if not budget.spend(len(some) * (len(kept) + bits.shape[1]) / LOOKED):
            return None
        beside, here = np.array([*kept, *some]), slice(some.start, some.stop)
        # Not by a product of matrices as numpy has it, whose threads wait for each other where others are at work.
        more = np.einsum("ib,jb->ij", has[beside], adding[here])
        enough = more <= prices[here] - prices[beside][:, None]
        needless, old, fresh = enough[: len(kept)].any(axis=0).tolist(), len(kept), 0
        by = numbers_of(enough[old:].T)
        for k in range(len(some)):
            if not needless[k] and not by[k] & fresh:
                fresh |= 1 << k
                kept.append(some[k])
    return [masks[n] for n in kept]
