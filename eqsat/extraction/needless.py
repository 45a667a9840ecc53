"""Ways that no cheapest choice takes: a node is had for less otherwise, whatever else is chosen. A value that every
program makes is there in some layout, so a view of it costs at most what the view of the worst layout costs."""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from math import inf

from eqsat.extraction.rows import Rows, Step, is_view, places_of
from eqsat.extraction.values import Value, Values
from eqsat.ir.cached import cached_property

Needs = Sequence[Sequence[tuple[int, ...]]]
"""The places that the rows of each place need, roots left out: they are there anyway."""


FARTHEST = 400
"""How many nodes are looked for from one, the nearest first: a chain of operators would be walked from each of them."""
STEPS = 1_200
"""How many steps are taken for that at most: where each layout is viewed as each other one, nodes have hundreds."""


class Bounds:
    """What having the node of a place adds to a program at most, whatever the rest of that is (`most`; None: it cannot
    be had), and beside another node (`near`: for each place these costs, least first, with the other place). What is
    not found until the deadline is left out: then there are fewer bounds, or higher ones. chained: whether views of
    views may be worth it."""

    def __init__(self, rows: Rows, values: Values, deadline: float = inf, chained: bool = False) -> None:
        self.rows, self.values, self.deadline, self.chained = rows, values, deadline, chained
        self.value_at = [values.of[c] for c, _ in rows.order]
        self.needs: Needs = [
            [tuple(places_of(needs & ~(rows.start >> n + 1), n + 1)) for _, needs, _ in ways]
            for n, ways in enumerate(rows.table)
        ]
        self.users: list[set[int]] = [set() for _ in rows.table]
        self.views: list[dict[int, int]] = [{} for _ in rows.table]  # of a node alone, with their costs
        for n, some in enumerate(self.needs):
            for (cost, _, _), places in zip(rows.table[n], some, strict=True):
                for x in places:
                    self.users[x].add(n)
                if len(places) == 1:
                    seen = self.views[places[0]]
                    seen[n] = min(cost, seen.get(n, cost))
        self.most = self._most()

    def _most(self) -> list[int | None]:
        start, table, views = self.rows.start, self.rows.table, self._views_of_needed()
        most: list[int | None] = [0 if start >> n & 1 else views.get(n) for n in range(len(table))]
        for n in range(len(table) - 1, -1, -1):
            for (price, _, _), places in zip(table[n], self.needs[n], strict=True):
                total: int | None = price
                for x in places:
                    more = most[x]
                    total = None if total is None or more is None else total + more
                known = most[n]
                if total is not None and (known is None or total < known):
                    most[n] = total
        return most

    def _views_of_needed(self) -> dict[int, int]:
        """What nodes cost as views of a value that every program makes, from its worst layout."""
        if not self.rows.whole:  # then what makes a value may be left out
            return {}
        places: dict[Value, list[int]] = {}
        for n, v in enumerate(self.value_at):
            if v in self.values.needed and self._is_made(n, v):
                places.setdefault(v, []).append(n)
        found: dict[int, int] = {}
        for v, made in places.items():
            if self._is_late:
                break
            reached: dict[int, list[int]] = {}
            for n in made:
                for x, cost in self._seen_from(n, None).items():
                    reached.setdefault(x, []).append(cost)
            for x, costs in reached.items():
                if self.value_at[x] != v and len(costs) == len(made):
                    found[x] = min(max(costs), found.get(x, max(costs)))
        return found

    def _is_made(self, n: int, v: Value) -> bool:
        """Whether some row of a place makes its value, and not from another layout of it."""
        return any(self._makes(places, v) for places in self.needs[n])

    def _makes(self, places: tuple[int, ...], v: Value) -> bool:
        """Whether a row that needs these makes a value, and does not view it."""
        return not places or any(self.value_at[x] != v for x in places)

    def _seen_from(self, n: int, most: Sequence[int | None] | None) -> dict[int, int]:
        """What the nodes cost that are views of a node, or of such; only those that cost less than `most`."""
        costs, heap = {n: 0}, [(0, n)]
        left, steps = FARTHEST, STEPS
        while heap and left and steps > 0:
            cost, x = heapq.heappop(heap)
            if cost == costs[x]:
                left, steps = left - 1, steps - len(self.views[x])
                for user, price in self.views[x].items():
                    total, limit = cost + price, None if most is None else most[user]
                    if total < costs.get(user, total + 1) and (limit is None or total < limit):
                        costs[user] = total
                        heapq.heappush(heap, (total, user))
        return costs

    @property
    def _is_late(self) -> bool:
        return time.monotonic() >= self.deadline

    @cached_property
    def near(self) -> list[list[tuple[int, int]]]:
        found: list[list[tuple[int, int]]] = [[] for _ in self.rows.table]
        for n in range(len(found)):
            if self._is_late:
                break
            for x, cost in self._seen_from(n, self.most).items():
                found[x].append((cost, n))
        return [sorted(some) for some in found]

    def needless(self) -> list[tuple[int, Step]]:
        """The steps, with their places, that cost more than their nodes do otherwise: with each goes what nothing else
        may need."""
        found: list[tuple[int, Step]] = []
        if not self.rows.whole:
            return found
        own = [0] * len(self.rows.table)  # what goes at least where a node is not needed any more
        for n in range(len(own) - 1, -1, -1):
            most, least = self.most[n], None
            if self.rows.start >> n & 1:
                continue
            for (cost, _, step), places in zip(self.rows.table[n], self.needs[n], strict=True):
                goes = cost
                if not (self.chained and is_view(step)):  # what is viewed may be a view itself, and needed as such
                    goes += sum(own[x] for x in places if len(self.users[x]) == 1)
                if most is not None and goes > most:
                    found.append((n, step))
                else:
                    if self.value_at[n] in self.values.needed and self._makes(places, self.value_at[n]):
                        goes = 0  # it would be made elsewhere
                    least = goes if least is None else min(least, goes)
            own[n] = least or 0
        return found
