"""Blocks of rows that repeat, one behind the other, as the layers of a network do: a choice for a few of them is one
for all, so that its effort does not grow with their number.

    first  b b b b b b b b  last        is chosen as        first  b b b  last
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from eqsat.extraction.parts import Open
from eqsat.extraction.rows import Node, Row, Rows, Step, in_order, places_of
from eqsat.extraction.values import Value, Values
from eqsat.graph.nodes import ClassId

LEAST = 2
"""So many blocks are left out, at least; one before them is kept, and one behind."""
SHORTEST, OFTEN = 20, 2
"""Rows of a block, at least: shorter repetitions are inside of blocks. Of so many lengths, the most frequent, and twice
the first (blocks may take turns), that of the longest stretch is taken."""
BROKEN = 4
"""How many rows that repeat make up for one that does not, while what repeats is looked for."""

Key = tuple[tuple[bool, int, tuple[tuple[bool, int], ...]], ...]
"""For each row of a place whether that is a root, its cost, and its needs: by how far they lie behind, or by their
places, if they lie behind all blocks: what all blocks share."""


@dataclass(frozen=True)
class Repeated:
    """The rows of places from the first one on, up to the end, repeat after so many places (`period`)."""

    first: int
    end: int
    period: int


@dataclass(frozen=True)
class Fewer:
    """Rows with fewer blocks: those of the places from `cut` on are left out, so many (`gone`, some whole blocks)."""

    whole: Rows
    keys: Sequence[Key]
    rows: Rows
    values: Values
    cut: int
    gone: int
    period: int

    def old(self, n: int) -> int:
        """The place in the whole of a place here."""
        return n if n < self.cut else n + self.gone

    def here(self, n: int, source: int) -> int:
        """The place here of one in the whole: of one that was left out, that in the block that begins at `source`."""
        if n < self.cut:
            return n
        return n - self.gone if n >= self.cut + self.gone else source + (n - self.cut) % self.period

    def spread(self, chosen: Mapping[Node, Step]) -> dict[Node, Step] | None:
        """A choice for all rows of one for these: blocks that were left out are as the one before or behind them. None
        where something is needed between them that cannot be had."""
        ways = [self._spread(chosen, source) for source in (self.cut - self.period, self.cut)]
        known = [steps for steps in ways if steps is not None]
        return min(known, key=lambda steps: sum(step.cost for step in steps.values()), default=None)

    def _spread(self, chosen: Mapping[Node, Step], source: int) -> dict[Node, Step] | None:
        table, numbers = self.whole.table, self._numbers(chosen)
        needed = set(places_of(self.whole.start, 0))
        found: dict[Node, Step] = {}
        for n, ways in enumerate(table):
            if n not in needed:
                continue
            own = self.here(n, source)
            row = self._same(n, self.old(own), numbers[own]) if own in numbers else None
            row = row or min(ways, key=lambda row: row[0], default=None)
            if row is None:
                return None
            needed.update(places_of(row[1], n + 1))
            found[self.whole.order[n]] = row[2]
        return found

    def _numbers(self, chosen: Mapping[Node, Step]) -> dict[int, int]:
        """The number of the chosen row at each place here."""
        found: dict[int, int] = {}
        for n, node in enumerate(self.rows.order):
            if node in chosen:
                found[n] = next(k for k, row in enumerate(self.rows.table[n]) if row[2] is chosen[node])
        return found

    def _same(self, n: int, other: int, number: int) -> Row | None:
        """The row of a place that is as a row of another place."""
        wanted = self.keys[other][number]
        return next((row for row, key in zip(self.whole.table[n], self.keys[n], strict=True) if key == wanted), None)

    def worth(self, known: Mapping[Node, int]) -> dict[Node, int]:
        """What having each node is worth, as those here are."""
        places = {n: self.here(n, self.cut - self.period) for n in range(len(self.whole.order))}
        return {self.whole.order[n]: known.get(self.rows.order[own], 0) for n, own in places.items()}


def fewer_blocks(rows: Rows, values: Values) -> Fewer | None:
    """The rows with a few blocks of those that repeat; None where none do."""
    if not rows.whole:
        return None
    needs = [[tuple(places_of(mask, n + 1)) for _, mask, _ in ways] for n, ways in enumerate(rows.table)]
    found = _repeated(rows, needs)
    if found is None:
        return None
    end, period = found.end, found.period
    before = (x for some in needs[: found.first] for places in some for x in places)
    cut = max([found.first + period, *(x + 1 for x in before if x < end)])  # behind what is needed from before
    gone = ((end - cut) // period - 1) * period
    if gone < LEAST * period:
        return None
    order = [*rows.order[:cut], *rows.order[cut + gone :]]
    place = {node: n for n, node in enumerate(rows.order)}

    def renamed(n: int, node: Node) -> Node:
        """What a node before the cut needs instead: of a block that is left out, the same of one that is not."""
        x = place[node]
        return order[x if x < end else x - gone] if n < cut <= x else node

    steps: dict[Node, list[Step]] = {}
    for n, node in [*enumerate(rows.order[:cut]), *enumerate(rows.order[cut + gone :], cut + gone)]:
        steps[node] = [Step(s.way, tuple(renamed(n, x) for x in s.needs)) for _, _, s in rows.table[n]]
    roots = [rows.order[n] for n in places_of(rows.start, 0) if not cut <= n < cut + gone]
    shorter = in_order(steps, roots, order)
    keys = [_keys(n, rows, needs[n], end) for n in range(len(needs))]
    if not shorter.whole or not _in_step(rows, shorter, cut, gone):
        return None
    return Fewer(rows, keys, shorter, _values(rows, values, found, cut, gone), cut, gone, period)


def _in_step(rows: Rows, shorter: Rows, cut: int, gone: int) -> bool:
    """Whether rows stand in the same order here as in the whole: of those that cost the same, needs tell it."""
    for n, ways in enumerate(shorter.table):
        whole = rows.table[n if n < cut else n + gone]
        if any(row[2].way is not other[2].way for row, other in zip(ways, whole, strict=True)):
            return False
    return True


def _repeated(rows: Rows, needs: Sequence[Sequence[tuple[int, ...]]]) -> Repeated | None:
    """The longest stretch of rows that repeat."""
    count = len(rows.table)
    near = [hash(tuple(sorted(_keys(n, rows, needs[n], count)))) for n in range(count)]
    last: dict[int, int] = {}
    apart: Counter[int] = Counter()
    for n, key in enumerate(near):
        if key in last and n - last[key] >= SHORTEST:
            apart[n - last[key]] += 1
        last[key] = n
    often = [p for p, _ in apart.most_common(OFTEN)]
    found = [_run(rows, needs, near, p) for p in dict.fromkeys([*often, *(2 * p for p in often[:1])]) if 2 * p < count]
    return max(found, key=lambda x: x.end - x.first, default=None)


def _run(rows: Rows, needs: Sequence[Sequence[tuple[int, ...]]], near: Sequence[int], period: int) -> Repeated:
    """The longest stretch of rows that repeat after so many places."""
    first, last = _densest([x == y for x, y in _apart(near, period)])
    end = last + period
    keys = [hash(tuple(sorted(_keys(n, rows, needs[n], end)))) for n in range(first, end)]
    best = run = first, first
    for n, (x, y) in enumerate(_apart(keys, period), first):
        run = (run[0], n + 1) if x == y else (n + 1, n + 1)
        best = max(best, run, key=lambda run: run[1] - run[0])
    return Repeated(best[0], best[1] + period, period)


def _apart(some: Sequence[int], apart: int) -> Iterator[tuple[int, int]]:
    """What stands so many places apart."""
    return zip(some, some[apart:], strict=False)


def _densest(same: Sequence[bool]) -> tuple[int, int]:
    """From where to where the most are true, where few are not."""
    best, total, first = (0, 0, 0), 0, 0
    for n, one in enumerate(same):
        total += 1 if one else -BROKEN
        if total <= 0:
            total, first = 0, n + 1
        best = max(best, (total, first, n + 1))
    return best[1], best[2]


def _keys(n: int, rows: Rows, needs: Sequence[tuple[int, ...]], end: int) -> Key:
    root = bool(rows.start >> n & 1)
    return tuple(
        (root, row[0], tuple((x >= end, x if x >= end else x - n) for x in places))
        for row, places in zip(rows.table[n], needs, strict=True)
    )


def _values(rows: Rows, values: Values, found: Repeated, cut: int, gone: int) -> Values:
    """The values of what is left; those across the cut are those behind it."""
    across = {values.of[c] for c, _ in rows.order[:cut]}
    later: dict[Value, Value] = {}
    for x in range(cut, found.end - gone):
        v = values.of[rows.order[x][0]]
        if v in across:
            later[v] = values.of[rows.order[x + gone][0]]
    kept = dict.fromkeys(c for c, _ in (*rows.order[:cut], *rows.order[cut + gone :]))
    of = {c: later.get(values.of[c], values.of[c]) for c in kept}
    made: dict[Value, list[tuple[ClassId, Open]]] = {v: [] for v in of.values()}
    for v, some in values.made.items():
        for c, o in some:
            if c in kept:
                made[later.get(v, v)].append((c, o))
    needed = frozenset(v for v in (later.get(v, v) for v in values.needed) if made.get(v))
    return Values(of, made, needed)
