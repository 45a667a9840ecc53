"""The cheapest choice in a part, stage by stage: of all choices with one frontier the cheapest is kept, and none that
costs, with the prices of what it still needs, as much as a limit; the limit is raised until something is left. Before
the whole its halves are asked, and theirs: what a section costs beyond its prices is known to lie ahead then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eqsat.extraction.beams import Chosen
from eqsat.extraction.budget import Budget
from eqsat.extraction.rows import Row, places_of
from eqsat.extraction.stages import Crossing, Stage, Stages, Through
from eqsat.extraction.subsets import holding_no_other

MOST = 60_000
"""How many frontiers are followed at most."""
MANY, MORE, LOOKED = 300, 2, 100
"""From so many on those are left out that need all that another one needs and cost no less; again when there are so
many times more than were left. So many that are looked through take the time of one that is followed."""
SMALL = 12
"""So many stages are asked without halves."""
MIDDLE = 0.3, 0.7
"""Where a section may be halved: at the place of these over which the fewest nodes are needed."""
UNIT, FIRST, FASTER = 1e-3, 0.05, 1.8
"""How far a limit is raised: at first this share of the whole, or of what the section costs beyond its prices as far as
that is known; then faster and faster."""
GOOD, WIDTH, ROOM = 0.3, 200, 0.03
"""The share of the work for a good choice where there are too many, how many are followed then, and what a way through
a stage may cost then beyond its prices: this share of the whole."""

Trail = tuple["Trail | None", tuple[tuple[int, Row], ...]]
States = dict[int, tuple[int, int, Trail | None]]
"""For each frontier the least cost so far, the prices of what is needed, and the trail."""

_Way = tuple[int, int, int, tuple[tuple[int, Row], ...]]
"""As `Through`, with the prices of what it needs."""


@dataclass(frozen=True)
class _End:
    """What a section costs at least; the choice, if that is what the cheapest one costs."""

    cost: int
    trail: Trail | None


def cheapest_by_stages(stages: Stages, budget: Budget) -> tuple[int, Chosen | None]:
    """What any choice costs at least, and one that costs just that, or, where there are too many to know that, a good
    one, if any was found."""
    count = len(stages.stages)
    sections = _Sections(stages)
    end = sections.answer(0, count, budget.share(1 - GOOD))
    trail = end.trail
    if not sections.exact:
        prices = sections.priced(0, count)
        search = _Search(stages, 0, count, {}, prices + round(ROOM * prices), prices, WIDTH)
        found = search.run(budget)
        trail = None if found is None else found.trail
    rows: dict[int, Row] = {}
    if trail is None:
        return end.cost, None
    while trail is not None:
        trail, some = trail
        rows.update(some)
    return end.cost, Chosen(rows, sum(row[0] for row in rows.values()))


class _Sections:
    """Sections by their first and last stages.

    beyond: for stages in question what the section from there on to its end costs at least beyond the prices; exact:
    whether the last section that was asked was answered, not only bounded.
    """

    def __init__(self, stages: Stages) -> None:
        self.stages = stages
        self.exact = False
        self.beyond: dict[int, int] = {}
        self.unit = max(1, round(UNIT * self.priced(0, len(stages.stages))))
        self.open = self._open()

    def _open(self) -> list[int]:
        """How many nodes may be needed at the start of each stage."""
        stage_at = [k for k, stage in enumerate(self.stages.stages) for _ in range(stage.first, stage.end)]
        user: dict[int, int] = {}
        for n, ways in enumerate(self.stages.rows.table):
            for _, needs, _ in ways:
                for x in places_of(needs, n + 1):
                    user.setdefault(x, stage_at[n])
        found = [0] * len(self.stages.stages)
        for x, k in user.items():
            for between in range(k + 1, stage_at[x] + 1):
                found[between] += 1
        return found

    def priced(self, first: int, last: int) -> int:
        """What a section costs by its prices."""
        some = self.stages.stages[first:last]
        roots = (worth for x, worth in self.stages.roots.items() if some[0].first <= x < some[-1].end)
        return sum(stage.worth for stage in some) + sum(roots)

    def answer(self, first: int, last: int, budget: Budget) -> _End:
        """What a section costs at least, from its halves on."""
        hopeful = True
        if last - first > SMALL:
            size = last - first
            places = range(first + round(MIDDLE[0] * size), first + round(MIDDLE[1] * size) + 1)
            middle = min(places, key=self.open.__getitem__)
            self.answer(middle, last, budget)
            more, second = self.beyond[middle], self.exact
            self.answer(first, middle, budget)
            for k in range(first, middle):
                if k in self.beyond:
                    self.beyond[k] += more
            hopeful = second or self.exact
        prices = self.priced(first, last)
        known = max(-self.stages.slack, self.beyond.get(first, -self.stages.slack))
        end = _End(prices + known, None)
        self.exact, step = False, max(self.unit, round(known * FIRST))
        while hopeful and not budget.over:
            limit = end.cost + step
            found = _Search(self.stages, first, last, self.beyond, limit, prices).run(budget)
            if found is None:
                break
            self.exact = found.cost < limit
            end = found
            if self.exact:
                break
            step = round(step * FASTER)
        self.beyond[first] = end.cost - prices
        return end


class _Search:
    """The choices in a section that cost less than a limit."""

    def __init__(
        self,
        stages: Stages,
        first: int,
        last: int,
        beyond: Mapping[int, int],
        limit: int,
        prices: int,
        width: int | None = None,
    ) -> None:
        self.width = width
        self.stages, self.first, self.last, self.limit = stages, first, last, limit
        some = stages.stages[first:last]
        self.start, self.end = some[0].first, some[-1].end
        self.room = [limit - prices] * (last - first)
        if width is not None:
            self.limit = sum(row[0] for ways in stages.rows.table for row in ways) + 1
        self.gains = self._paid(stages.stages[:first], self.start, self.end)
        self.ahead = [0] * (last - first + 1)  # what the stages behind each cost at least
        extra = worth = 0
        for k in range(last - 1, first - 1, -1):
            self.ahead[k - first + 1] = worth + extra
            self.room[k - first] -= extra
            worth += stages.stages[k].worth
            if k in beyond:
                extra = max(extra, beyond[k])
        self.priced = [0] * (len(stages.rows.order) - self.start)
        for x in places_of(stages.rows.start >> self.start & (1 << self.end - self.start) - 1, 0):
            self.priced[x] = stages.roots.get(self.start + x, 0)

    def _paid(self, some: Sequence[Stage], start: int, end: int) -> dict[int, int]:
        """What some stages pay for places."""
        found: dict[int, int] = {}
        for stage in some:
            for x, price in stage.pays.items():
                if start <= x < end:
                    found[x] = found.get(x, 0) + price
        return found

    def run(self, budget: Budget) -> _End | None:
        """The cheapest choice, or that none costs less than the limit; None where they are too many to be followed."""
        start = self.stages.rows.start >> self.start & (1 << self.end - self.start) - 1
        states: States = {start: (0, sum(self.priced), None)}
        many = MANY
        for k in range(self.first, self.last):
            after = self._next(states, k, budget)
            if after is None:
                return None
            if not after:
                return _End(self.limit, None)
            if len(after) > many:
                after = _least(after, budget)
                many = max(MANY, MORE * len(after))
            if self.width is not None and len(after) > self.width:
                kept = sorted(after.items(), key=lambda x: x[1][0] + x[1][1])[: self.width]
                after = dict(kept)
            states = after
        best = min(states.values(), key=lambda state: state[0] + state[1])
        cost, trail = best[0] + best[1], best[2]  # with what it pays behind the section
        return _End(cost, trail) if cost < self.limit else _End(self.limit, None)

    def _next(self, states: States, k: int, budget: Budget) -> States | None:
        """The states behind a stage; None where they are too many, or the budget is spent."""
        stage = self.stages.stages[k]
        own, priced = slice(stage.first - self.start, stage.end - self.start), self.priced
        crossing = Crossing(self.stages, stage, priced[own], self.gains, self.room[k - self.first], MOST)
        width, base = stage.end - stage.first, stage.end - self.start
        paid = {1 << x - stage.end: price for x, price in stage.pays.items()}
        values = priced[own]
        for x, price in stage.pays.items():
            priced[x - self.start] += price
        marks, full = sum(paid), (1 << width) - 1
        limit = self.limit - self.ahead[k - self.first + 1] + self.stages.slack
        worth: dict[int, int] = {}
        ways_of: dict[int, list[_Way]] = {}
        after, work = dict[int, tuple[int, int, Trail | None]](), 0
        for mask, (cost, h, trail) in states.items():
            needed, below = mask & full, mask >> width
            if needed not in ways_of:
                ways = crossing.ways(needed)
                if ways is None:
                    return None
                ways_of[needed] = [self._way(way, base) for way in ways]
                worth[needed] = sum(values[x] for x in places_of(needed, 0))
            h -= worth[needed]
            more = below & marks
            while more:
                low = more & -more
                h += paid[low]
                more ^= low
            room, ways = limit - h - cost, ways_of[needed]
            work += len(ways)
            for needs, least, prices, rows in ways:
                if least >= room:
                    break
                both = below & needs
                if both:
                    prices -= self._way((both, 0, ()), base)[2]
                if least + prices < room:
                    key, total = below | needs, cost + least
                    old = after.get(key)
                    if old is None or total < old[0]:
                        after[key] = total, h + prices, (trail, rows)
            if len(after) > MOST and self.width is None:
                return None
        return after if budget.spend(work + len(states) + crossing.work) else None

    def _way(self, way: Through, base: int) -> _Way:
        """A way through a stage that ends at a place, with what is paid for what it needs."""
        needs, cost, rows = way
        prices = sum(self.priced[x] for x in places_of(needs, base))
        return needs, cost, prices, rows


def _least(states: States, budget: Budget) -> States:
    """The states without those that need all that a cheaper one needs: whatever goes on from them goes on from that."""
    ranked = sorted(states.items(), key=lambda item: (item[1][0], item[0].bit_count()))
    kept = holding_no_other([mask for mask, _ in ranked])
    budget.spend(len(ranked) * (1 + len(kept) / LOOKED))
    return dict(ranked[n] for n in kept)
