"""A part chosen stage by stage: the cheapest of all choices of small random tables, and bounds that hold for each."""

from __future__ import annotations

import time
from functools import cache
from itertools import product
from random import Random

import pytest

from eqsat.extraction import sections, stages
from eqsat.extraction.bound import Least, least_cost, made_once, too_much
from eqsat.extraction.budget import Budget
from eqsat.extraction.extract import Alternative, InsertView, UseLeaf
from eqsat.extraction.parts import Component, take_apart
from eqsat.extraction.rows import Rows, rows_of
from eqsat.extraction.sections import cheapest_by_stages
from eqsat.extraction.stages import Stages, stages_of
from eqsat.extraction.subsets import holding_no_other
from eqsat.extraction.values import Values, values_of
from eqsat.graph.nodes import ClassId, UseForm

Table = dict[ClassId, list[Alternative]]
MOST = 20_000


def _table(rng: Random) -> Table:
    """Values in a few layouts that are views of each other, each made of layouts of one or two values before it."""
    table: Table = {}
    layouts: list[list[ClassId]] = []
    for _ in range(rng.randint(2, 5)):
        own = list(range(len(table), len(table) + rng.randint(1, 3)))
        for c in own:
            views = [d for d in own if d != c]
            ways = [Alternative(InsertView(d, 0), rng.randint(1, 9), (d,)) for d in views if rng.random() < 0.8]
            for n in range(rng.randint(0, 2) if c != own[0] else rng.randint(1, 2)):
                below = rng.sample(layouts, min(len(layouts), rng.randint(1, 2)))
                needs = tuple(rng.choice(some) for some in below)
                price = rng.randint(1, 12)
                ways.append(Alternative(UseForm(10 * c + n, 0, needs) if needs else UseLeaf(10 * c + n), price, needs))
            table[c] = ways
        layouts.append(own)
    return table


def _parts(rng: Random) -> list[Component]:
    table = _table(rng)
    apart = take_apart(table, list(dict.fromkeys([max(table), rng.choice(list(table))])))
    return [] if apart is None else apart.parts


def _least(rows: Rows) -> int | None:
    """The least cost of all choices; None where these are too many."""
    count = 1
    for ways in rows.table:
        count *= max(1, len(ways))
    if count > MOST:
        return None
    costs: list[int] = []
    for picks in product(*rows.table):
        mask, cost = rows.start, 0
        for row in picks:
            if mask & 1:
                cost, mask = cost + row[0], mask | row[1] << 1
            mask >>= 1
        costs.append(cost)
    return min(costs)


@cache
def _questions(seed: int, count: int) -> list[tuple[Component, Rows, Values, int]]:
    rng = Random(seed)
    found: list[tuple[Component, Rows, Values, int]] = []
    while len(found) < count:
        for part in _parts(rng):
            rows = rows_of(part)
            least = _least(rows) if rows.whole and all(rows.table) else None
            if least is not None:
                found.append((part, rows, values_of(part), least))
    return found


def _staged(part: Component, rows: Rows, values: Values, least: Least | None) -> Stages:
    assert least is not None
    found = stages_of(rows, values, [(c, False) for c in part.roots], least)
    assert found is not None
    return found


def _prices(part: Component, rows: Rows, values: Values) -> Least:
    found = least_cost(rows, values, [(c, False) for c in part.roots], 20.0)
    assert found is not None
    return found


@pytest.mark.parametrize("count", [120, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("many", [0, 300])
@pytest.mark.parametrize("small", [1, 2, 12])
def test_the_cheapest_of_all_choices_is_found(
    monkeypatch: pytest.MonkeyPatch, small: int, many: int, count: int
) -> None:
    """In sections of any size, also where what needs more for no less is left out at each stage."""  # feature: G12
    monkeypatch.setattr(sections, "SMALL", small)
    monkeypatch.setattr(sections, "MANY", many)
    monkeypatch.setattr(sections, "MORE", min(many, sections.MORE))
    for part, rows, values, least in _questions(small, count):
        staged = _staged(part, rows, values, _prices(part, rows, values))
        bound, found = cheapest_by_stages(staged, Budget(1e9, time.monotonic() + 60))
        assert found is not None and bound == least == found.cost


@pytest.mark.parametrize("count", [120, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("many", [0, 300])
def test_prices_of_any_kind_bound_all_choices(monkeypatch: pytest.MonkeyPatch, many: int, count: int) -> None:
    """What wrong prices claim too much is counted: the answer stays what it is."""  # feature: G12
    monkeypatch.setattr(sections, "SMALL", 1)
    monkeypatch.setattr(sections, "MANY", many)
    monkeypatch.setattr(sections, "MORE", min(many, sections.MORE))
    rng = Random(7)
    for part, rows, values, least in _questions(5, count):
        right = _prices(part, rows, values)
        assert right.cost <= least
        paid = {key: max(0, price + rng.randint(-3, 3)) for key, price in right.paid.items()}
        made = {v: max(0, price + rng.randint(-3, 3)) for v, price in right.made.items()}
        wrong = Least(paid, made, too_much(rows, made_once(rows, values), paid, made))
        assert wrong.cost <= least
        bound, found = cheapest_by_stages(_staged(part, rows, values, wrong), Budget(1e9, time.monotonic() + 60))
        assert found is not None and bound == least == found.cost


@pytest.mark.parametrize("most", [1, 3, 8])
def test_where_there_are_too_many_a_bound_is_left(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """And a choice, if it is found, costs no less."""  # feature: G12
    monkeypatch.setattr(sections, "SMALL", 1)
    monkeypatch.setattr(sections, "MOST", most)
    monkeypatch.setattr(sections, "WIDTH", 1)
    monkeypatch.setattr(stages, "COMPARED", 1)
    near = 0
    for part, rows, values, least in _questions(most, 120):
        staged = _staged(part, rows, values, _prices(part, rows, values))
        bound, found = cheapest_by_stages(staged, Budget(1e9, time.monotonic() + 60))
        assert bound <= least and (found is None or found.cost >= least)
        hasty, _ = cheapest_by_stages(staged, Budget(most * 10, time.monotonic() + 60))
        assert hasty <= least
        near += bound < least
    assert near > 0 or most > 1


def test_sets_that_hold_one_before_them_are_found() -> None:  # feature: G12
    rng = Random(3)
    for bits, count in ((1, 3), (5, 40), (9, 200), (70, 150), (140, 300)):
        for _ in range(20):
            dense = [rng.getrandbits(bits) & rng.getrandbits(bits) for _ in range(count)]
            masks = dense + [a | b for a, b in zip(dense[:20], rng.sample(dense, len(dense)), strict=False)]
            rng.shuffle(masks)
            kept: list[int] = []
            for n, mask in enumerate(masks):
                if not any(masks[k] & ~mask == 0 for k in kept):
                    kept.append(n)
            assert holding_no_other(masks) == kept
