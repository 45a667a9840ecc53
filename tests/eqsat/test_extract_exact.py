"""Exact extraction against all choices of small random tables, cycles among them, and on programs."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

import eqsat as eq
from eqsat.extract import Alternative, ClassId, Extraction, Spell, Take, greedy
from eqsat.extract_exact import improve

Table = dict[ClassId, list[Alternative]]


def _random_table(rng: Random) -> Table:
    """Classes whose needs may be any other classes; some can always be had."""
    count = rng.randint(3, 7)
    table: Table = {}
    for c in range(count):
        ways = [Alternative(Take(c), rng.randint(20, 60), ())] if c % 2 == 0 else []
        for n in range(rng.randint(1, 3)):
            needs = tuple(rng.sample(range(count), rng.randint(1, 2)))
            ways.append(Alternative(Spell(10 * c + n, 0, needs), rng.randint(0, 9), needs))
        table[c] = ways
    return table


def _cost(table: Table, roots: list[int], picks: dict[int, int]) -> int | None:
    """The cost of what the roots need under these picks; None where that is circular."""
    cost, state = 0, dict[int, bool]()

    def build(c: int) -> bool:
        nonlocal cost
        if c in state:
            return state[c]  # False while it is being built
        state[c] = False
        way = table[c][picks[c]]
        if not all(build(need) for need in way.needs):
            return False
        cost += way.cost
        state[c] = True
        return True

    return cost if all(build(root) for root in roots) else None


def _cost_of(table: Table, roots: list[int], found: Extraction) -> int | None:
    picks = {c: [w.choice for w in table[c]].index(choice) for c, choice in found.choices.items()}
    return _cost(table, roots, picks)


def test_the_cheapest_of_all_choices_is_found() -> None:  # feature: G12
    rng = Random(3)
    better = 0
    for _ in range(60):
        table = _random_table(rng)
        roots = rng.sample(list(table), 2)
        costs = [
            cost
            for picks in product(*(range(len(ways)) for ways in table.values()))
            if (cost := _cost(table, roots, dict(zip(table, picks, strict=True)))) is not None
        ]
        known = greedy(table, roots)
        if known is None:
            assert not costs
            continue
        found = improve(table, roots, known, 20.0)
        assert found is not None and found.gap == 0.0
        assert found.extraction.cost == min(costs) == _cost_of(table, roots, found.extraction)
        better += min(costs) < known.cost
    assert better > 0  # or greedy would do


def test_the_bound_holds_without_time() -> None:
    rng = Random(5)
    for _ in range(20):
        table = _random_table(rng)
        known = greedy(table, [0])
        assert known is not None
        best, hasty = improve(table, [0], known, 20.0), improve(table, [0], known, 1e-9)
        assert best is not None and hasty is not None
        assert hasty.bound <= best.extraction.cost <= hasty.extraction.cost <= known.cost
        assert hasty.gap >= 0.0


def test_too_many_alternatives_are_left_to_greedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eqsat.extract_exact.LARGEST", 1)
    table: Table = {c: [Alternative(Take(c), 5, ())] for c in (1, 2)}
    table[0] = [Alternative(Spell(0, 0, (1, 2)), 1, (1, 2))]
    known = greedy(table, [0])
    assert known is not None and improve(table, [0], known, 5.0) is None


def test_costs_beyond_64_bits_are_left_to_greedy() -> None:
    huge = 1 << 70
    table: Table = {c: [Alternative(Take(c), huge, ())] for c in (1, 2)}
    table[0] = [Alternative(Spell(0, 0, (1, 2)), 1, (1, 2))]
    known = greedy(table, [0])
    assert known is not None and known.cost == 2 * huge + 1 and improve(table, [0], known, 5.0) is None


def test_results_tell_their_gap() -> None:  # feature: G12
    x = eq.input("x", (1, 32, 8, 8), "float32")
    y = x.layout_transform("NCHW", "NHWC").relu().layout_transform("NHWC", "NCHW")
    assert eq.optimize(y).gap == 0.0
    kept = eq.optimize(x.layout_transform("NCHW", "NHWC"))
    assert kept.gap == 0.0 and kept.bytes_moved > 0
