"""Values with many layouts, each of which is a view of each other one: the ways to have them are not the square of
that, and where they are too many, the choice is among fewer and says what it may have missed."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import eqsat as eq
from eqsat.extraction.cheapest import Extraction, cheapest, fewer_ways, too_many
from eqsat.extraction.extract import Alternative, InsertView, UseLeaf, Views
from eqsat.extraction.parts import settled
from eqsat.graph.nodes import ClassId, UseForm

Table = dict[ClassId, list[Alternative]]


def network(values: int, layouts: int, rng: Random) -> Table:
    """Values made of the one before, in one or two of its layouts; all layouts of a value are views of each other, at a
    price that is that of the layout; class 0 is a leaf."""
    table: Table = {0: [Alternative(UseLeaf(0), 0, ())]}
    below = [0] * layouts
    for _ in range(values):
        own = [len(table) + k for k in range(layouts)]
        for c, x in zip(own, below, strict=True):
            both = tuple(dict.fromkeys((x, rng.choice(below))))
            price = rng.randint(1, 9)
            views = [Alternative(InsertView(d, 0), price, (d,)) for d in own if d != c]
            table[c] = [*views, Alternative(UseForm(c, 0, both), rng.randint(1, 30), both)]
        below = own
    return table


def fewer(table: Table) -> list[int]:
    """How many ways of each class are looked at where they are too many."""
    assert too_many(table)
    built = settled({c: [(way.cost, way.needs) for way in ways] for c, ways in table.items()})
    return [len(ways) for ways in fewer_ways(table, built).values()]


def cheapest_of(table: Table, roots: list[ClassId]) -> Extraction:
    found = cheapest(table, roots, 20.0)
    assert found is not None
    return found


def test_a_class_has_one_view_of_each_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rolls with an operator behind each: all layouts of a value are views of each other, also as views of views."""
    tables: list[Table] = []

    def kept(table: Table, roots: list[ClassId], seconds: float, work: float) -> Extraction | None:
        tables.append(table)
        return cheapest(table, roots, seconds, work)

    monkeypatch.setattr("eqsat.engine.cheapest", kept)
    x = eq.input("x", (16, 8), "float32")
    for k in range(8):
        x = eq.roll(x, k % 5 + 1, axis=k % 2).relu()
    assert eq.optimize(x).layout_ops == 1
    views = [Counter(w.choice.source for w in ways if isinstance(w.choice, InsertView)) for ways in tables[0].values()]
    assert max(map(len, views)) >= 8 and {count for some in views for count in some.values()} == {1}


def test_it_is_the_cheapest_view_the_first_of_equal_ones() -> None:
    """A view of a constant is computed ahead, and costs the same whatever it is."""
    views = Views(constants={3})
    for source, view in [
        (1, (7, None, 5)), (2, (8, None, 4)), (1, (9, 6, 3)), (1, (5, None, 3)), (2, (4, None, 9)), (2, None),
        (3, (1, None, 8)), (3, (2, None, 6)), (4, None),
    ]:  # fmt: skip
        views.add(source, view)
    assert views.cheapest() == [
        Alternative(InsertView(2, 8), 4, (2,)),
        Alternative(InsertView(1, 9, 6), 3, (1,)),
        Alternative(InsertView(3, 1), 1, (3,)),
    ]


def test_fewer_ways_say_what_they_may_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out may be cheaper; the bound holds for it all the same, and each root can be built."""
    missed = gaps = 0
    for seed in range(40):
        table = network(4, 5, Random(seed))
        roots = [len(table) - 2, len(table) - 1]
        least = cheapest_of(table, roots)
        assert least.gap == 0.0 and not too_many(table)
        with monkeypatch.context() as few:
            for name, value in (("WAYS", 0), ("MANY_EACH", 1), ("KEPT_EACH", 1)):
                few.setattr(f"eqsat.extraction.cheapest.{name}", value)
            assert max(fewer(table)) <= 2
            found = cheapest_of(table, roots)
        assert found.bound <= least.cost <= found.cost
        missed, gaps = missed + (found.cost > least.cost), gaps + (found.gap > 0)
    assert 5 < missed <= gaps


def test_ways_that_are_the_square_of_the_layouts_come_to_an_end() -> None:
    """270,000 ways of 900 classes, of which most are views: half a minute, for the first pass has no limit."""
    table = network(3, 300, Random(0))
    assert sum(fewer(table)) <= 17 * len(table) < sum(map(len, table.values())) / 10
    found = cheapest_of(table, [len(table) - 1])
    assert 0 < found.bound <= found.cost <= 70
