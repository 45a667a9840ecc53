"""A part in stages: the nodes of one value stand together, and a stage has ways through it, from what is needed of its
value to what is needed behind it. Each stage pays for what it needs behind it by the prices of a linear program, so
that stages in a row (a section) are a question of their own: what any choice costs there at least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eqsat.extraction.bound import Least, made_once
from eqsat.extraction.parts import cycles
from eqsat.extraction.rows import Node, Row, Rows, in_order
from eqsat.extraction.values import Values

COMPARED = 50
"""With so many of the cheapest ways through a stage each other one is compared."""

Local = tuple["Local | None", int, Row]
Through = tuple[int, int, tuple[tuple[int, Row], ...]]
"""A way through a stage: what it needs, as bits from its end on, its cost, and the rows at their places."""


@dataclass
class Stage:
    """Its places; the values in it that every program makes: the bits of the nodes of each, and those that make it;
    what making them is worth, at least; and what it pays once for each place that it needs: behind it, and all of them,
    counted from its first one, from its start (-1) or one of its places on."""

    first: int
    end: int
    made: list[tuple[int, list[int]]] = field(default_factory=list[tuple[int, list[int]]])
    worth: int = 0
    pays: dict[int, int] = field(default_factory=dict[int, int])
    paid: dict[int, dict[int, int]] = field(default_factory=dict[int, dict[int, int]])

    def pay(self, at: int, place: int, price: int) -> None:
        """Pay from a place on (counted from the first) for another one."""
        if place >= self.end:
            self.pays[place] = self.pays.get(place, 0) + price
        some = self.paid.setdefault(at, {})
        some[place - self.first] = some.get(place - self.first, 0) + price


@dataclass(frozen=True)
class Stages:
    """The stages, what each root is worth by its place, and what the prices may claim too much."""

    rows: Rows
    stages: Sequence[Stage]
    roots: Mapping[int, int]
    slack: int


def stages_of(rows: Rows, values: Values, roots: Sequence[Node], least: Least) -> Stages | None:
    """The stages of a part in which nothing goes round in circles; None where something does."""
    together = _together(rows, values)
    ordered = in_order(rows.steps, roots, [node for some in together for node in some])
    if not ordered.whole:
        return None
    place = {node: n for n, node in enumerate(ordered.order)}
    stages: list[Stage] = []
    stage_at: list[Stage] = []
    for some in together:
        stage = Stage(len(stage_at), len(stage_at) + len(some))
        stages.append(stage)
        stage_at += [stage] * len(some)
    at_value: dict[int, Stage] = {}
    for v, keys in made_once(rows, values).items():
        places = sorted({place[node] for node, _ in keys})
        at_value[v] = stage = stage_at[places[0]]
        nodes = ordered.order[stage.first : stage.end]
        own = sum(1 << n for n, (c, _) in enumerate(nodes) if values.of[c] == v)
        stage.made.append((own, [1 << n - stage.first for n in places]))
        stage.worth += least.made.get(v, 0)
    worth: dict[int, int] = {}
    for (user, need), price in least.paid.items():
        if user is None:
            worth[place[need]] = price
        elif isinstance(user, int):
            at_value[user].pay(-1, place[need], price)
        else:
            stage = stage_at[place[user]]
            stage.pay(place[user] - stage.first, place[need], price)
    return Stages(ordered, stages, worth, least.slack)


def _together(rows: Rows, values: Values) -> list[list[Node]]:
    """The nodes by values, users before what they need, each as late as that allows; values in a circle are one."""
    of = {node: values.of[node[0]] for node in rows.order}
    below: dict[int, set[int]] = {v: set() for v in of.values()}
    for node, v in of.items():
        below[v].update(of[x] for step in rows.steps[node] for x in step.needs if of[x] != v)
    circle = cycles({v: [frozenset(some)] for v, some in below.items()})
    group = {v: (v in circle, circle.get(v, v)) for v in below}
    nodes: dict[tuple[bool, int], list[Node]] = {}
    last: dict[tuple[bool, int], int] = {}
    for n, node in enumerate(rows.order):
        nodes.setdefault(group[of[node]], []).append(node)
        last[group[of[node]]] = n
    needs = {g: set[tuple[bool, int]]() for g in nodes}
    for v, some in below.items():
        needs[group[v]].update(group[x] for x in some if group[x] != group[v])
    waits = dict.fromkeys(nodes, 0)
    for some in needs.values():
        for x in some:
            waits[x] += 1
    ready, found = [g for g, count in waits.items() if not count], list[list[Node]]()
    while ready:
        g = min(ready, key=last.__getitem__)
        ready.remove(g)
        found.append(nodes[g])
        for x in needs[g]:
            waits[x] -= 1
            if not waits[x]:
                ready.append(x)
    return found


class Crossing:
    """The ways through a stage where what is needed behind a section may be paid for, and what is needed from before it
    brings in what was paid for it (`gains`, by place).

    priced: what is paid for each place of the stage from inside of the section; room: what a way may cost beyond the
    prices; most: how many choices are followed at most.
    """

    def __init__(
        self, stages: Stages, stage: Stage, priced: Sequence[int], gains: Mapping[int, int], room: int, most: int
    ) -> None:
        self.stage, self.table, self.gains, self.most = stage, stages.rows.table, gains, most
        self.priced = dict(enumerate(priced))
        self.room = room + stage.worth + stages.slack
        self.known: dict[int, list[Through] | None] = {}
        self.work = 0

    def ways(self, needed: int) -> list[Through] | None:
        """The ways from what is needed of the stage, the cheapest first; None where too many are to be followed."""
        if needed not in self.known:
            self.known[needed] = self._ways(needed)
        return self.known[needed]

    def _ways(self, needed: int) -> list[Through] | None:
        stage, priced = self.stage, dict(self.priced)
        known = sum(price for n, price in priced.items() if needed >> n & 1)
        room = self.room + known
        states: dict[int, tuple[int, int, Local | None]] = {}
        for mask in self._made(needed):
            states[mask] = 0, sum(price for n, price in priced.items() if mask >> n & 1), None
        for n, price in stage.paid.get(-1, {}).items():
            priced[n] = priced.get(n, 0) + price
            states = {m: (cost, h + price if m >> n & 1 else h, trail) for m, (cost, h, trail) in states.items()}
        for n in range(stage.end - stage.first):
            states = self._next(states, n, priced, room)
            self.work += len(states)
            if len(states) > self.most:
                return None
        kept: list[Through] = []
        best: list[int] = []
        for mask, (cost, _, trail) in sorted(states.items(), key=lambda x: (x[1][0], x[0].bit_count())):
            if not any(other & ~mask == 0 for other in best):
                if len(best) < COMPARED:
                    best.append(mask)
                kept.append((mask, cost, _rows_of(trail)))
        return kept

    def _made(self, needed: int) -> list[int]:
        """What is needed, with one of the nodes of each value that every program makes."""
        found = [needed]
        for own, makes in self.stage.made:
            found = [mask | more for mask in found for more in ([0] if mask & own else makes)]
        return list(dict.fromkeys(found))

    def _next(
        self, states: Mapping[int, tuple[int, int, Local | None]], n: int, priced: dict[int, int], room: int
    ) -> dict[int, tuple[int, int, Local | None]]:
        """The states behind a place of the stage: cost, what else is paid for what they need, trail."""
        stage, place, first = self.stage, self.stage.first + n, n + 1
        gain, price, paid = self.gains.get(place, 0), priced[n], stage.paid.get(n, {})
        for x, more in paid.items():
            priced[x] = priced.get(x, 0) + more
        after: dict[int, tuple[int, int, Local | None]] = {}
        for mask, (cost, h, trail) in states.items():
            below = mask >> 1
            for x, more in paid.items():
                if below >> x - first & 1:
                    h += more
            if mask & 1:
                h -= price
            elif cost + h < room and (below not in after or cost < after[below][0]):
                after[below] = cost, h, trail
            if not mask & 1 and not gain:
                continue
            for row in self.table[place]:
                key, total = below | row[1], cost + row[0] - gain
                if key in after and after[key][0] <= total:
                    continue
                paying, added = h, row[1] & ~below
                while added:
                    low = added & -added
                    x = n + low.bit_length()
                    paying += priced.get(x, 0)
                    added ^= low
                if total + paying < room:
                    after[key] = total, paying, (trail, place, row)
        return after


def _rows_of(trail: Local | None) -> tuple[tuple[int, Row], ...]:
    found: list[tuple[int, Row]] = []
    while trail is not None:
        trail, n, row = trail
        found.append((n, row))
    return tuple(found)
