"""Classes that hold one value in several layouts are views of each other: together they are a value. What programs
choose is in which of them a value is made; some values every program makes, which tells what any costs at least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eqsat.extraction.extract import Direct, InsertView
from eqsat.extraction.parts import Component, Open, cycles, needed_by_all
from eqsat.graph.nodes import ClassId

Value = int
"""A value by its number."""


@dataclass(frozen=True)
class Values:
    """The value of each class of a part, the ways to make each otherwise than by views of itself, and the values that
    every program makes."""

    of: Mapping[ClassId, Value]
    made: Mapping[Value, Sequence[tuple[ClassId, Open]]]
    needed: frozenset[Value]

    @property
    def least(self) -> int:
        """What any program costs at least: all that it must make, each in the cheapest way."""
        return sum(min((o.way.cost for _, o in self.made[v]), default=0) for v in self.needed)


def values_of(part: Component) -> Values:
    """The values of a part."""
    views = {
        c: [frozenset(n for o in some if isinstance(o.way.choice, InsertView) for n in o.needs)]
        for c, some in part.ways.items()
    }
    circle = cycles(views)
    names: dict[object, Value] = {}
    known = {c: c.source if isinstance(c, Direct) else c for c in part.ways}
    groups = {c: ("circle", circle[x]) if x in circle else ("class", x) for c, x in known.items()}
    of = {c: names.setdefault(group, len(names)) for c, group in groups.items()}
    made: dict[Value, list[tuple[ClassId, Open]]] = {v: [] for v in names.values()}
    for c, some in part.ways.items():
        for o in some:
            if not (isinstance(o.way.choice, InsertView) and any(of[n] == of[c] for n in o.needs)):
                made[of[c]].append((c, o))
    ways = {v: [{of[n] for n in o.needs} for _, o in some] for v, some in made.items()}
    needed = needed_by_all(ways, [of[root] for root in part.roots])
    return Values(of, made, frozenset(v for v in needed if made[v]))
