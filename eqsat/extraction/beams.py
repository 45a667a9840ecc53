"""A cheap choice in a part, row by row: of all that was chosen so far, a fixed number is followed: those whose cost,
with the estimated prices of what they still need, is least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqsat.extraction.budget import Budget
from eqsat.extraction.rows import Row, places_of

Trail = tuple["Trail | None", int, Row]
States = dict[int, tuple[int, int, Trail | None]]
"""For each frontier (bits from the next place on) the cost with what it still needs, the cost so far, and the trail of
choices that leads there."""


@dataclass(frozen=True)
class Chosen:
    """The row chosen at each place that is needed, and what they cost together."""

    rows: dict[int, Row]
    cost: int


def chosen_of(trail: Trail | None) -> Chosen:
    """The choice at the end of a trail."""
    rows: dict[int, Row] = {}
    while trail is not None:
        trail, n, row = trail
        rows[n] = row
    return Chosen(rows, sum(row[0] for row in rows.values()))


def follow(
    table: Sequence[Sequence[Row]], start: int, prices: Sequence[int], width: int, budget: Budget
) -> Chosen | None:
    """A choice of rows; prices: what having the node of a place costs, by estimate, where nothing of it is there.

    None where none of those that were followed leads to an end, or the budget is spent.
    """
    states: States = {start: (0, 0, None)}
    for n, ways in enumerate(table):
        after: States = {}
        priced, done = _priced(n, ways, prices), 0
        for mask, (ranked, cost, trail) in states.items():
            below = mask >> 1
            if not mask & 1:
                known = after.get(below)
                if known is None or cost < known[1]:
                    after[below] = ranked, cost, trail
                continue
            done += len(ways)
            for row, price, needs, more in priced:
                key, total = below | needs, cost + price
                known = after.get(key)
                if known is None or total < known[1]:
                    least, there = ranked + more, needs & below
                    while there:  # and is not had anew
                        low = there & -there
                        least -= prices[n + low.bit_length()]
                        there ^= low
                    after[key] = least, total, (trail, n, row)
        if not budget.spend(len(states) + done) or not after:
            return None
        if len(after) > width:
            after = dict(sorted(after.items(), key=lambda item: item[1][0])[:width])
        states = after
    return chosen_of(min(states.values(), key=lambda state: state[1])[2])


def _priced(n: int, ways: Sequence[Row], prices: Sequence[int]) -> list[tuple[Row, int, int, int]]:
    """The rows of a place with their costs and needs, and what each adds to an estimate where it needs all anew."""
    return [
        (row, row[0], row[1], row[0] - prices[n] + sum(prices[x] for x in places_of(row[1], n + 1))) for row in ways
    ]
