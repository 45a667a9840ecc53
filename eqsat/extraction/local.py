"""A choice made better value by value: all stays as it is but for a few neighbouring values, which are chosen anew in
every way that there is, with the views that lead to and from them. What lies further away is not looked at, so that a
step's effort does not grow with the program."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence

from eqsat.extraction.beams import Chosen, follow
from eqsat.extraction.budget import Budget
from eqsat.extraction.extract import InsertView
from eqsat.extraction.needless import Bounds
from eqsat.extraction.rows import Row
from eqsat.extraction.values import Value

Sweeps = Sequence[tuple[int, int, int]]
"""How far from a value, how many of them at most, and how many choices are followed."""
QUICK: Sweeps = ((1, 12, 25),)
THOROUGH: Sweeps = ((1, 12, 50), (2, 12, 100))

Region = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Which of its places are needed from outside, the worth of each, and for each the number of its rows, and their costs
and needs: equal regions have equal answers."""
Answers = dict[tuple[int, Region], tuple[float, tuple[tuple[int, int], ...] | None]]
"""What was found in regions, by how many choices were followed: the work, and the number of the row at each place that
is needed. The blocks of a network have equal regions, and so have choices from several starts."""


class Search:
    """A part with the choice so far."""

    def __init__(self, bounds: Bounds, known: Chosen, prices: Sequence[int], answers: Answers | None = None) -> None:
        self.answers: Answers = {} if answers is None else answers
        self._views: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
        self.bounds, self.rows, self.prices, self.known = bounds, bounds.rows, prices, known
        self.value_at = bounds.value_at
        self.places: dict[Value, list[int]] = {}
        for n, v in enumerate(self.value_at):
            self.places.setdefault(v, []).append(n)
        self.next = self._neighbours()
        self.settled: set[tuple[int, Region]] = set()

    def _neighbours(self) -> Mapping[Value, Sequence[Value]]:
        """The values that each value needs or is needed by."""
        found: dict[Value, set[Value]] = {}
        for n, users in enumerate(self.bounds.users):
            v = self.value_at[n]
            for user in {self.value_at[x] for x in users} - {v}:
                found.setdefault(v, set()).add(user)
                found.setdefault(user, set()).add(v)
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

    def around(self, free: set[Value]) -> set[Value]:
        """Some values, and all next to them."""
        return free.union(*(self.next.get(a, ()) for a in free))

    def better(self, free: set[Value], width: int, budget: Budget) -> bool:
        """Choose these values anew; whether all together costs less then."""
        region = sorted(n for v in self.around(free) for n in self.places[v])
        local = {n: k for k, n in enumerate(region)}
        table = [self._local(n, local, self._allowed(n, free)) for n in region]
        start = self._wanted(local)
        prices = [self.prices[n] for n in region]
        flat: list[int] = []
        for ways in table:
            flat.append(len(ways))
            for cost, needs, _ in ways:
                flat += (cost, needs)
        key = start, tuple(prices), tuple(flat)
        if not budget.spend(sum(map(len, table))) or (width, key) in self.settled:
            return False
        found = self._followed(table, key, width, budget)
        if found is not None:
            kept = {n: row for n, row in self.known.rows.items() if n not in local}
            made = {region[k]: self._whole(region[k], row) for k, row in found.rows.items()}
            whole = self.known if self.is_chosen(made) else self.reachable({**kept, **made})
            if whole.cost < self.known.cost:
                self.known = whole
                return True
        self.settled.add((width, key))
        return False

    def _followed(self, table: Sequence[Sequence[Row]], region: Region, width: int, budget: Budget) -> Chosen | None:
        """As `follow`; what is known of an equal region costs the same work, so that answers do not depend on it."""
        start, prices, _ = region
        known = self.answers.get((width, region))
        if known is None:
            before = budget.work
            found = follow(table, start, prices, width, budget)
            if not budget.over:
                numbers = None if found is None else tuple((k, _number(table[k], r)) for k, r in found.rows.items())
                self.answers[width, region] = before - budget.work, numbers
            return found
        work, numbers = known
        if not budget.spend(work) or numbers is None:
            return None
        rows = {k: table[k][number] for k, number in numbers}
        return Chosen(rows, sum(row[0] for row in rows.values()))

    def _allowed(self, n: int, free: set[Value]) -> Iterable[int]:
        """The rows of a place: all of the values that are free; of others those chosen, and views of what is chosen."""
        ways, v = self.rows.table[n], self.value_at[n]
        if v in free:
            return range(len(ways))
        rows = self.known.rows
        found = [k for k, needs in self._views_of(n) if all(x in rows for x in needs)]
        if n in rows:
            k = _number(ways, rows[n])
            if k not in found:
                insort(found, k)
        return found

    def _views_of(self, n: int) -> list[tuple[int, tuple[int, ...]]]:
        """The numbers and needs of the rows of a place that are views of the same value."""
        if n not in self._views:
            v, needs = self.value_at[n], self.bounds.needs[n]
            self._views[n] = [
                (k, needs[k])
                for k, row in enumerate(self.rows.table[n])
                if passes(row) and all(self.value_at[x] == v for x in needs[k])
            ]
        return self._views[n]

    def _local(self, n: int, local: Mapping[int, int], allowed: Iterable[int]) -> list[Row]:
        """Rows with their needs as places of a region; what lies outside is there as long as the choice needs it."""
        found: list[Row] = []
        ways, every, first = self.rows.table[n], self.bounds.needs[n], local[n] + 1
        for k in allowed:
            mask = 0
            for x in every[k]:
                place = local.get(x)
                if place is not None:
                    mask |= 1 << (place - first)
            found.append((ways[k][0], mask, ways[k][2]))
        return found

    def _wanted(self, local: Mapping[int, int]) -> int:
        """The places of a region that are needed whatever is chosen in it."""
        wanted, start, rows = 0, self.rows.start, self.known.rows
        for n, k in local.items():
            outside = (x for x in self.bounds.users[n] if x not in local and x in rows)
            if start >> n & 1 or any(rows[x][1] >> n - x - 1 & 1 for x in outside):
                wanted |= 1 << k
        return wanted

    def _whole(self, n: int, row: Row) -> Row:
        return next(r for r in self.rows.table[n] if r[2] is row[2])

    def is_chosen(self, made: Mapping[int, Row]) -> bool:
        """Whether rows are those of the choice so far: what is reachable through them is that choice."""
        rows = self.known.rows
        return all(n in rows and rows[n][2] is row[2] for n, row in made.items())

    def reachable(self, chosen: Mapping[int, Row]) -> Chosen:
        """What of a choice is needed."""
        mask, kept = self.rows.start, dict[int, Row]()
        for n in range(len(self.rows.table)):
            if mask & 1:
                kept[n] = chosen[n]
                mask |= chosen[n][1] << 1
            mask >>= 1
        return Chosen(kept, sum(row[0] for row in kept.values()))


def improved(
    bounds: Bounds,
    known: Chosen,
    prices: Sequence[int],
    least: int,
    budget: Budget,
    sweeps: Sweeps = THOROUGH,
    answers: Answers | None = None,
) -> Chosen:
    """A choice that no neighbourhood betters, or that the budget allows, or that costs the least that any can; answers:
    what is known of regions, to which what is found is added."""
    search = Search(bounds, known, prices, answers)
    every = list(dict.fromkeys(search.value_at))
    for steps, most, width in sweeps:
        free = {v: search.near(v, steps, most) for v in every}
        stale = dict.fromkeys(every)  # whose neighbourhoods have changed since they were looked at
        while stale:
            later: set[Value] = set()
            for v in stale:
                if budget.over or search.known.cost <= least:
                    return search.known
                later.discard(v)
                if any(n in search.known.rows for n in search.places[v]) and search.better(free[v], width, budget):
                    changed = search.around(free[v])
                    later |= {x for x in every if not changed.isdisjoint(free[x])}
            stale = dict.fromkeys(v for v in every if v in later)
    return search.known


def _number(ways: Sequence[Row], chosen: Row) -> int:
    return next(k for k, row in enumerate(ways) if row is chosen)


def passes(row: Row) -> bool:
    """Whether a row makes nothing: it is a view, or stands for another row."""
    way = row[2].way
    return way is None or isinstance(way.choice, InsertView)
