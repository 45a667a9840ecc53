"""A choice made better value by value: all stays as it is but for a few neighbouring values, which are chosen anew in
every way that there is, with the views that lead to and from them. What lies further away is not looked at, so that a
step's effort does not grow with the program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from eqsat.extraction.beams import Chosen, follow
from eqsat.extraction.budget import Budget
from eqsat.extraction.extract import InsertView
from eqsat.extraction.rows import Row, Rows
from eqsat.extraction.values import Value, Values

SWEEPS = ((1, 12, 50), (2, 12, 100))
"""How far from a value, how many of them at most, and how many choices are followed."""

Region = tuple[int, tuple[int, ...], tuple[tuple[tuple[int, int], ...], ...]]
"""Which of its places are needed from outside, the worth of each, and the costs and needs of their rows: equal regions
have equal answers."""


class _Search:
    """A part with the choice so far."""

    def __init__(self, rows: Rows, values: Values, known: Chosen, prices: Sequence[int]) -> None:
        self.rows, self.prices, self.known = rows, prices, known
        self.value_at = [values.of[c] for c, _ in rows.order]
        self.places: dict[Value, list[int]] = {}
        for n, v in enumerate(self.value_at):
            self.places.setdefault(v, []).append(n)
        self.needs = cache(self._needs)
        self.next = self._neighbours()
        self.settled: set[tuple[int, Region]] = set()

    def _needs(self, n: int, number: int) -> tuple[int, ...]:
        """The places that a row needs."""
        mask, found = self.rows.table[n][number][1], list[int]()
        while mask:
            low = mask & -mask
            found.append(n + low.bit_length())
            mask ^= low
        return tuple(found)

    def _neighbours(self) -> Mapping[Value, Sequence[Value]]:
        """The values that each value needs or is needed by."""
        found: dict[Value, dict[Value, None]] = {}
        for n, ways in enumerate(self.rows.table):
            v = self.value_at[n]
            for need in {self.value_at[x]: None for k in range(len(ways)) for x in self.needs(n, k)}:
                if need != v:
                    found.setdefault(v, {})[need] = None
                    found.setdefault(need, {})[v] = None
        return {v: sorted(some) for v, some in found.items()}

    def near(self, v: Value, steps: int, most: int) -> set[Value]:
        """A value, and so many values at most that are so many steps away."""
        seen, last = {v}, [v]
        for _ in range(steps):
            reached: list[Value] = []
            for a in last:
                for b in self.next.get(a, ()):
                    if b not in seen and len(seen) < most:
                        seen.add(b)
                        reached.append(b)
            last = reached
        return seen

    def better(self, free: set[Value], width: int, budget: Budget) -> bool:
        """Choose these values anew; whether all together costs less then."""
        around = {b for a in free for b in self.next.get(a, ())} - free
        region = sorted(n for v in (*free, *around) for n in self.places[v])
        local = {n: k for k, n in enumerate(region)}
        table = [self._local(n, local, self._allowed(n, free)) for n in region]
        start = self._wanted(local)
        prices = [self.prices[n] for n in region]
        key = start, tuple(prices), tuple(tuple((cost, needs) for cost, needs, _ in ways) for ways in table)
        if not budget.spend(sum(map(len, table))) or (width, key) in self.settled:
            return False
        found = follow(table, start, prices, width, budget)
        if found is not None:
            kept = {n: row for n, row in self.known.rows.items() if n not in local}
            made = {region[k]: self._whole(region[k], row) for k, row in found.rows.items()}
            whole = self._reachable({**kept, **made})
            if whole.cost < self.known.cost:
                self.known = whole
                return True
        self.settled.add((width, key))
        return False

    def _allowed(self, n: int, free: set[Value]) -> Iterable[int]:
        """The rows of a place: all of the values that are free; of others those chosen, and views of what is chosen."""
        ways, v = self.rows.table[n], self.value_at[n]
        if v in free:
            return range(len(ways))
        chosen = self.known.rows.get(n)
        return [k for k, row in enumerate(ways) if row is chosen or (_passes(row) and self._there(n, k, v))]

    def _there(self, n: int, number: int, v: Value) -> bool:
        """Whether what a row needs is there, of one value."""
        return all(x in self.known.rows and self.value_at[x] == v for x in self.needs(n, number))

    def _local(self, n: int, local: Mapping[int, int], allowed: Iterable[int]) -> list[Row]:
        """Rows with their needs as places of a region; what lies outside is there as long as the choice needs it."""
        found: list[Row] = []
        for k in allowed:
            cost, _, step = self.rows.table[n][k]
            inside = (local[x] for x in self.needs(n, k) if x in local)
            found.append((cost, sum(1 << (x - local[n] - 1) for x in inside), step))
        return found

    def _wanted(self, local: Mapping[int, int]) -> int:
        """The places of a region that are needed whatever is chosen in it."""
        wanted, start, n = 0, self.rows.start, 0
        while start:
            if start & 1 and n in local:
                wanted |= 1 << local[n]
            start, n = start >> 1, n + 1
        for n in self.known.rows:
            if n not in local:
                for x in self._chosen_needs(n, self.known.rows):
                    if x in local:
                        wanted |= 1 << local[x]
        return wanted

    def _chosen_needs(self, n: int, chosen: Mapping[int, Row]) -> tuple[int, ...]:
        return self.needs(n, next(k for k, row in enumerate(self.rows.table[n]) if row is chosen[n]))

    def _whole(self, n: int, row: Row) -> Row:
        return next(r for r in self.rows.table[n] if r[2] is row[2])

    def _reachable(self, chosen: Mapping[int, Row]) -> Chosen:
        """What of a choice is needed."""
        mask, kept = self.rows.start, dict[int, Row]()
        for n in range(len(self.rows.table)):
            if mask & 1:
                kept[n] = chosen[n]
                mask |= chosen[n][1] << 1
            mask >>= 1
        return Chosen(kept, sum(row[0] for row in kept.values()))


def improved(rows: Rows, values: Values, known: Chosen, prices: Sequence[int], least: int, budget: Budget) -> Chosen:
    """A choice that no neighbourhood betters, or that the budget allows, or that costs the least that any can."""
    search = _Search(rows, values, known, prices)
    every = list(dict.fromkeys(search.value_at))
    for steps, most, width in SWEEPS:
        better = True
        while better:
            better = False
            for v in every:
                if budget.over or search.known.cost <= least:
                    return search.known
                if any(n in search.known.rows for n in search.places[v]):
                    better = search.better(search.near(v, steps, most), width, budget) or better
    return search.known


def _passes(row: Row) -> bool:
    """Whether a row makes nothing: it is a view, or stands for another row."""
    way = row[2].way
    return way is None or isinstance(way.choice, InsertView)
