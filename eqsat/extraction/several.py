"""A good choice in a part where not all frontiers can be followed: several choices, each made better as far as its
neighbourhoods allow, and then the cheapest that is put together of what they chose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eqsat.extraction.beams import Chosen, follow
from eqsat.extraction.budget import Budget
from eqsat.extraction.frontier import cheapest_in
from eqsat.extraction.local import improved, passes
from eqsat.extraction.needless import Bounds
from eqsat.extraction.rows import Node, Row, Rows, Step

RUNS = ((0, True, 50), (1, False, 100), (0, True, 100), (1, True, 50))
"""The choices to begin with: in which order of the part, whether by prices or by costs alone, and how many are followed
at a time."""

Steps = dict[Node, Step]
"""A choice: the step of each node that it needs."""


def good_choice(every: Sequence[Bounds], worth: Mapping[Node, int], least: int, budget: Budget) -> Steps | None:
    """The best choice of a part that is found by so much work, or one that costs the least that any can; None where
    none is found. `every`: the part in some orders; worth: what having each node is worth."""
    found: list[tuple[int, Steps]] = []
    for order, priced, width in RUNS:
        if budget.over or any(cost <= least for cost, _ in found):
            break
        bounds = every[order % len(every)]
        rows = bounds.rows
        prices = [worth.get(node, 0) for node in rows.order]
        start = follow(rows.table, rows.start, prices if priced else [0] * len(prices), width, budget)
        if start is not None:
            share = budget.share(0.5)
            better = improved(bounds, start, prices, least, share)
            budget.work += max(0.0, share.work)  # what it did not need is for the next
            found.append((better.cost, steps_at(rows, better)))
    if len(found) > 1 and min(found, key=lambda x: x[0])[0] > least:
        whole = every[0]
        rows = replace(whole.rows, table=_among(whole.rows, [steps for _, steps in found]))
        both = cheapest_in(Bounds(rows, whole.values), budget)
        if both is not None:
            found.append((both.cost, steps_at(rows, both)))
    return min(found, key=lambda x: x[0])[1] if found else None


def steps_at(rows: Rows, chosen: Chosen) -> Steps:
    """What is chosen, by nodes."""
    return {rows.order[at]: step for at, (_, _, step) in chosen.rows.items()}


def _among(rows: Rows, choices: Sequence[Steps]) -> list[list[Row]]:
    """The rows that some choice has, and the views between what they have."""
    there = {node for steps in choices for node in steps}
    taken = {(node, id(step)) for steps in choices for node, step in steps.items()}

    def kept(node: Node, row: Row) -> bool:
        step = row[2]
        return (node, id(step)) in taken or (node in there and passes(row) and all(x in there for x in step.needs))

    return [[row for row in rows.table[n] if kept(node, row)] for n, node in enumerate(rows.order)]
