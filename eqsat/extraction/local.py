"""A choice made better value by value: all stays as it is but for a few neighbouring values, which are chosen anew in
every way that there is, with the views that lead to and from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.extraction.beams import Chosen, follow
from eqsat.extraction.budget import Budget
from eqsat.extraction.extract import InsertView
from eqsat.extraction.rows import Node, Row, Rows
from eqsat.extraction.values import Value, Values

SWEEPS = ((1, 12, 50), (2, 12, 100), (2, 30, 100))
"""How far from a value, how many of them at most, and how many choices are followed."""


class Neighbours:
    """The values that a part's values need or are needed by."""

    def __init__(self, rows: Rows, values: Values) -> None:
        self.value_at = [values.of[c] for c, _ in rows.order]
        found: dict[Value, dict[Value, None]] = {}
        for node, some in rows.steps.items():
            v = values.of[node[0]]
            for need in {values.of[x[0]]: None for step in some for x in step.needs if values.of[x[0]] != v}:
                found.setdefault(v, {})[need] = None
                found.setdefault(need, {})[v] = None
        self.next: Mapping[Value, Sequence[Value]] = {v: sorted(some) for v, some in found.items()}

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


def improved(rows: Rows, values: Values, known: Chosen, prices: Sequence[int], budget: Budget) -> Chosen:
    """A choice that no neighbourhood betters, or that the budget allows."""
    neighbours = Neighbours(rows, values)
    every = list(dict.fromkeys(neighbours.value_at))
    for steps, most, width in SWEEPS:
        better = True
        while better:
            better = False
            for v in every:
                if budget.over:
                    return known
                if all(neighbours.value_at[n] != v for n in known.rows):
                    continue
                table = _freed(rows, neighbours, known, neighbours.near(v, steps, most))
                found = follow(table, rows.start, prices, width, budget)
                if found is not None and found.cost < known.cost:
                    known, better = found, True
    return known


def _freed(rows: Rows, neighbours: Neighbours, known: Chosen, free: set[Value]) -> list[Sequence[Row]]:
    """The rows of a part: all of the values that are free; of others those chosen, and views of what is chosen."""
    had = {rows.order[n]: neighbours.value_at[n] for n in known.rows}
    table: list[Sequence[Row]] = []
    for n, ways in enumerate(rows.table):
        v = neighbours.value_at[n]
        if v in free:
            table.append(ways)
        else:
            chosen = known.rows.get(n)
            table.append([row for row in ways if row is chosen or (_passes(row) and _within(row, had, v))])
    return table


def _passes(row: Row) -> bool:
    """Whether a row makes nothing: it is a view, or stands for another row."""
    way = row[2].way
    return way is None or isinstance(way.choice, InsertView)


def _within(row: Row, had: Mapping[Node, Value], v: Value) -> bool:
    """Whether what a row needs is there, of one value."""
    return all(had.get(need) == v for need in row[2].needs)
