"""A good choice in a part where not all frontiers can be followed: choices from several starts, each made better
quickly, after each the cheapest that is put together of what they chose, and the best of all made better thoroughly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from eqsat.extraction.beams import Chosen, follow
from eqsat.extraction.budget import Budget
from eqsat.extraction.frontier import cheapest_in
from eqsat.extraction.local import QUICK, THOROUGH, Answers, Sweeps, improved, passes
from eqsat.extraction.needless import Bounds
from eqsat.extraction.rows import Node, Row, Rows, Step

RUNS = ((0, True, 50), (1, False, 100), (0, True, 100), (1, True, 50))
"""The choices to begin with: in which order of the part, whether by prices or by costs alone, and how many are followed
at a time; then by prices that are changed a little, at will but always alike."""
MOST = 12
"""How many starts there are."""
IDLE = 4
"""After so many starts that brought nothing it is enough."""
STARTS, SHARE = 0.6, 0.4
"""Of the work, for all starts; of what is left of that, for one."""
CLOSE = 1e-6
"""Of the cost, what is no time: what breaks ties between ways that are equal otherwise."""
JOINED = 4
"""Of so many choices, the best, one is put together; so many are made better thoroughly."""

Steps = dict[Node, Step]
"""A choice: the step of each node that it needs."""


def good_choice(
    every: Sequence[Bounds], worth: Mapping[Node, int], least: int, budget: Budget, known: Steps | None = None
) -> Steps | None:
    """The best choice of a part that is found by so much work, or one that costs the least that any can; None where
    none is found. `every`: the part in some orders; worth: what having each node is worth; known: a choice to start
    from.
    """
    search = _Several(every[0], worth, least)
    share = budget.share(STARTS)
    if known is not None:
        search.add(search.whole, _placed(search.whole.rows, known), QUICK, share)
    for bounds, prices, width in _starts(every, worth):
        if share.over or search.enough:
            break
        start = follow(bounds.rows.table, bounds.rows.start, prices, width, share)
        if start is not None:
            search.add(bounds, start, QUICK, share)
    budget.work += max(0.0, share.work)  # what it did not need is for the next
    for _, steps in sorted(search.found, key=lambda x: x[0])[:JOINED]:
        if not budget.over and not search.near:
            search.add(search.whole, _placed(search.whole.rows, steps), THOROUGH, budget)
    return min(search.found, key=lambda x: x[0])[1] if search.found else None


class _Several:
    """The choices that were found, with their costs."""

    def __init__(self, whole: Bounds, worth: Mapping[Node, int], least: int) -> None:
        self.whole, self.worth, self.least = whole, worth, least
        self.found: list[tuple[int, Steps]] = []
        self.answers: Answers = {}
        self.idle = 0
        """How many starts in a row brought nothing."""

    @property
    def best(self) -> int:
        return min(cost for cost, _ in self.found)

    @property
    def enough(self) -> bool:
        return self.idle == IDLE or self._ends

    @property
    def _ends(self) -> bool:
        return bool(self.found) and (self.best <= self.least or (len(self.found) >= len(RUNS) and self.near))

    @property
    def near(self) -> bool:
        """Whether nothing that takes any time can be saved."""
        return self.best <= self.least * (1 + CLOSE)

    def add(self, bounds: Bounds, start: Chosen, sweeps: Sweeps, budget: Budget) -> None:
        """A choice made better, and what is put together of it and the best so far, made better."""
        best = self.best if self.found else None
        self._better(bounds, start, sweeps, budget)
        both = self._joined(budget)
        if both is not None and both.cost < self.best:
            self._better(self.whole, both, sweeps, budget)
        self.idle = 0 if best is None or self.best < best else self.idle + 1

    def _better(self, bounds: Bounds, start: Chosen, sweeps: Sweeps, budget: Budget) -> None:
        share = budget.share(SHARE)
        better = improved(bounds, start, _priced(bounds, self.worth), self.least, share, sweeps, self.answers)
        budget.work += max(0.0, share.work)
        self.found.append((better.cost, steps_at(bounds.rows, better)))

    def _joined(self, budget: Budget) -> Chosen | None:
        """The cheapest choice that is put together of the last and the best of those before."""
        if len(self.found) == 1:
            return None
        *before, last = self.found
        some = [steps for _, steps in (*sorted(before, key=lambda x: x[0])[:JOINED], last)]
        rows = replace(self.whole.rows, table=_among(self.whole.rows, some))
        both = cheapest_in(Bounds(rows, self.whole.values), budget)
        return None if both is None else _placed(self.whole.rows, steps_at(self.whole.rows, both))


def _starts(every: Sequence[Bounds], worth: Mapping[Node, int]) -> Iterator[tuple[Bounds, list[int], int]]:
    """What to start from: an order of the part, prices of its nodes, and how many choices are followed."""
    for order, priced, width in RUNS:
        bounds = every[order % len(every)]
        yield bounds, _priced(bounds, worth) if priced else [0] * len(bounds.rows.order), width
    for k in range(len(RUNS), MOST):
        bounds = every[k % len(every)]
        yield bounds, [price * _around(n, k) >> 8 for n, price in enumerate(_priced(bounds, worth))], RUNS[0][2]


def _around(n: int, k: int) -> int:
    """A factor from 0.3 to 1.7, in units of 1/256."""
    return 77 + (n * 2_654_435_761 + k * 2_246_822_519 >> 7) % 359


def _priced(bounds: Bounds, worth: Mapping[Node, int]) -> list[int]:
    return [worth.get(node, 0) for node in bounds.rows.order]


def steps_at(rows: Rows, chosen: Chosen) -> Steps:
    """What is chosen, by nodes."""
    return {rows.order[at]: step for at, (_, _, step) in chosen.rows.items()}


def _placed(rows: Rows, steps: Steps) -> Chosen:
    """A choice by the places of its nodes."""
    found = {
        n: next(row for row in rows.table[n] if row[2] is steps[node])
        for n, node in enumerate(rows.order)
        if node in steps
    }
    return Chosen(found, sum(row[0] for row in found.values()))


def _among(rows: Rows, choices: Sequence[Steps]) -> list[list[Row]]:
    """The rows that some choice has, and the views between what they have."""
    there = {node for steps in choices for node in steps}
    taken = {(node, id(step)) for steps in choices for node, step in steps.items()}

    def kept(node: Node, row: Row) -> bool:
        step = row[2]
        return (node, id(step)) in taken or (node in there and passes(row) and all(x in there for x in step.needs))

    return [[row for row in rows.table[n] if kept(node, row)] for n, node in enumerate(rows.order)]
