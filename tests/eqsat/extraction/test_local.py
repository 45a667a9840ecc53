"""Choices made better: neighbourhood by neighbourhood, and by the integer program from the choice that is known."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from eqsat.extraction.beams import Chosen, follow
from eqsat.extraction.budget import Budget
from eqsat.extraction.exact import cost_in, improve
from eqsat.extraction.extract import Alternative, InsertView, UseLeaf
from eqsat.extraction.local import Answers, Search, improved
from eqsat.extraction.needless import Bounds
from eqsat.extraction.parts import Component, take_apart
from eqsat.extraction.rows import Row, Rows, by_class, rows_of
from eqsat.extraction.several import RUNS, good_choice
from eqsat.extraction.values import values_of
from eqsat.graph.nodes import ClassId, UseForm

LAYOUTS = 3


def _chain(blocks: int, seed: int) -> Component:
    """A row of values in some layouts, each a view of each other, and each made of the one before and of the one before
    that: the one part of it that is open."""
    rng = Random(seed)
    table: dict[ClassId, list[Alternative]] = {n: [] for n in range(LAYOUTS)}
    table[0] = [Alternative(UseLeaf(0), 0, ())]
    rows = [list(range(LAYOUTS))]
    for _ in range(blocks):
        below, further, own = rows[-1], rows[max(0, len(rows) - 2)], [len(table) + n for n in range(LAYOUTS)]
        for n, c in enumerate(own):
            needs = (below[n], further[rng.randrange(LAYOUTS)])
            table[c] = [Alternative(UseForm(c, 0, needs), rng.randint(1, 9), needs)]
        rows.append(own)
    for row in rows:
        for c in row:
            table[c] += [Alternative(InsertView(d, 0), rng.randint(3, 9), (d,)) for d in row if d != c]
    found = take_apart(table, [rows[-1][0]])
    assert found is not None
    return max(found.parts, key=lambda part: len(part.ways))


def _hasty(rows: Rows) -> Chosen:
    found = follow(rows.table, rows.start, [0] * len(rows.order), 1, Budget(1e9, float("inf")))
    assert found is not None
    return found


def _is_whole(rows: Rows, chosen: Chosen) -> bool:
    """Whether exactly what is needed is chosen, among the rows that there are, at the cost that is claimed."""
    mask, needed = rows.start, set[int]()
    for n in range(len(rows.table)):
        if mask & 1:
            needed.add(n)
            mask |= chosen.rows[n][1] << 1
        mask >>= 1
    right = all(any(row is way for way in rows.table[n]) for n, row in chosen.rows.items())
    return right and needed == chosen.rows.keys() and chosen.cost == sum(row[0] for row in chosen.rows.values())


def test_neighbourhoods_better_a_choice_and_keep_it_whole() -> None:
    """What is put together of a neighbourhood and of what lies around it is a choice, and never a dearer one."""
    better = 0
    for seed in range(8):  # feature: G12
        part = _chain(10, seed)
        rows = rows_of(part)
        known = _hasty(rows)
        found = improved(Bounds(rows, values_of(part)), known, [0] * len(rows.order), 0, Budget(1e9, float("inf")))
        assert _is_whole(rows, found) and found.cost <= known.cost
        assert cost_in(part, by_class({rows.order[n]: r[2] for n, r in found.rows.items()})) <= found.cost
        better += found.cost < known.cost
    assert better > 2


def test_a_step_looks_at_its_neighbourhood_alone() -> None:
    """Twice as many blocks are twice the work, not four times."""
    work: list[float] = []
    for blocks in (16, 32):  # feature: G12
        part = _chain(blocks, 0)
        rows, budget = rows_of(part), Budget(1e9, float("inf"))
        improved(Bounds(rows, values_of(part)), _hasty(rows), [0] * len(rows.order), 0, budget)
        work.append(1e9 - budget.work)
    assert work[1] < 3 * work[0]


def test_what_is_put_together_of_several_choices_is_no_dearer_than_any() -> None:
    """And of blocks that nothing joins, each is the best that any choice has."""
    gained = 0
    for seed in range(3):  # feature: G12
        part = _chain(14, seed)
        rows = rows_of(part)
        bounds = Bounds(rows, values_of(part))
        budget = Budget(1e9, float("inf"))
        found = good_choice([bounds], {}, 0, Budget(1e7, float("inf")))
        starts = [follow(rows.table, rows.start, [0] * len(rows.order), width, budget) for _, _, width in RUNS]
        single = [improved(bounds, x, [0] * len(rows.order), 0, budget).cost for x in starts if x is not None]
        assert found is not None and cost_in(part, by_class(found)) <= min(single)
        gained += cost_in(part, by_class(found)) < _hasty(rows).cost
    assert gained > 1


def test_the_integer_program_starts_from_what_is_known() -> None:
    """However little it may do, its answer costs no more than the choice that it was given."""
    for seed in range(3):  # feature: G12
        part = _chain(10, seed)
        rows, values = rows_of(part), values_of(part)
        known = improved(Bounds(rows, values), _hasty(rows), [0] * len(rows.order), 0, Budget(1e9, float("inf")))
        ways = by_class({rows.order[n]: row[2] for n, row in known.rows.items()})
        found = improve(part, rows, values, ways, 0.05, 20.0)
        assert found is not None and cost_in(part, found[0]) <= cost_in(part, ways)


def test_what_is_chosen_already_is_not_put_together_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A neighbourhood whose answer is the choice so far leaves the rest of the program alone, with the same result."""
    part = _chain(10, 0)  # feature: G12
    rows = rows_of(part)
    bounds, prices = Bounds(rows, values_of(part)), [0] * len(rows.order)
    found = improved(bounds, _hasty(rows), prices, 0, Budget(1e9, float("inf")))
    calls: list[int] = []
    reachable = Search.reachable

    def counted(search: Search, chosen: Mapping[int, Row]) -> Chosen:
        calls.append(1)
        return reachable(search, chosen)

    def never(_search: Search, _made: Mapping[int, Row]) -> bool:
        return False

    monkeypatch.setattr(Search, "reachable", counted)
    again, few = improved(bounds, found, prices, 0, Budget(1e9, float("inf"))), len(calls)
    monkeypatch.setattr(Search, "is_chosen", never)
    anew = improved(bounds, found, prices, 0, Budget(1e9, float("inf")))
    assert again == anew == found and few < len(calls) - few


def test_what_is_known_of_a_region_is_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same result for the same count of work, so that an answer does not depend on what is known."""
    part = _chain(10, 0)  # feature: G12
    rows = rows_of(part)
    bounds, prices = Bounds(rows, values_of(part)), [0] * len(rows.order)
    alone = Budget(1e9, float("inf"))
    found = improved(bounds, _hasty(rows), prices, 0, alone)
    answers: Answers = {}
    for again in (False, True):
        if again:
            monkeypatch.setattr("eqsat.extraction.local.follow", _refused)
        budget = Budget(1e9, float("inf"))
        same = improved(bounds, _hasty(rows), prices, 0, budget, answers=answers)
        assert same == found and budget.work == alone.work
        assert _is_whole(rows, same)


def _refused(*_given: object) -> None:
    raise AssertionError("a region that is known was followed again")
