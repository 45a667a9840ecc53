"""Extraction against all choices of small random tables, cycles among them; long rows of blocks; and programs."""

from __future__ import annotations

import time
from itertools import product
from random import Random
from typing import Any

import pytest
from seeds import some_of

import eqsat as eq
from eqsat.extraction.beams import Chosen
from eqsat.extraction.budget import Budget
from eqsat.extraction.cheapest import Extraction, cheapest
from eqsat.extraction.extract import Alternative, InsertView, UseLeaf
from eqsat.extraction.frontier import cheapest_in
from eqsat.extraction.needless import Bounds
from eqsat.graph.nodes import ClassId, UseForm

Table = dict[ClassId, list[Alternative]]


def _random_table(rng: Random) -> Table:
    """Classes whose needs may be any other classes; some can always be had."""
    count = rng.randint(3, 7)
    table: Table = {}
    for c in range(count):
        ways = [Alternative(UseLeaf(c), rng.randint(20, 60), ())] if c % 2 == 0 else []
        for n in range(rng.randint(1, 3)):
            needs = tuple(rng.sample(range(count), rng.randint(1, 2)))
            ways.append(Alternative(UseForm(10 * c + n, 0, needs), rng.randint(0, 9), needs))
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


def _least(table: Table, roots: list[int]) -> int | None:
    costs = [
        cost
        for picks in product(*(range(len(ways)) for ways in table.values()))
        if (cost := _cost(table, roots, dict(zip(table, picks, strict=True)))) is not None
    ]
    return min(costs, default=None)


@pytest.mark.parametrize("count", [24, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("integer_program", [False, True])
def test_the_cheapest_of_all_choices_is_found(
    monkeypatch: pytest.MonkeyPatch, integer_program: bool, count: int
) -> None:
    """Along the frontier, or, where only one is followed, and no stages are, by the integer program."""  # feature: G12
    if integer_program:
        monkeypatch.setattr("eqsat.extraction.cheapest.STAGED", 0.0)
        monkeypatch.setattr("eqsat.extraction.frontier.MANY", 1)
        monkeypatch.setattr("eqsat.extraction.frontier.WIDTH", 1)
        monkeypatch.setattr("eqsat.extraction.several.RUNS", ((0, True, 1),))
    rng = Random(3)
    hard = 0
    for _ in range(count):
        table = _random_table(rng)
        roots = rng.sample(list(table), 2)
        least, found = _least(table, roots), cheapest(table, roots, 20.0)
        if found is None:
            assert least is None
            continue
        assert found.gap == 0.0 and found.cost == least == _cost_of(table, roots, found)
        hasty = cheapest(table, roots, 0.0)
        assert hasty is not None and hasty.bound <= found.cost <= hasty.cost == _cost_of(table, roots, hasty)
        hard += hasty.gap > 0
    assert hard > 0 or not integer_program  # or the first choice would do


def _block(table: Table, rng: Random, below: dict[str, int], price: int) -> dict[str, int]:
    """A value in three layouts over those of the value before it, each a view of each other, and a branch."""
    names = {layout: len(table) + n for n, layout in enumerate("abc")}
    branch = {layout: len(table) + 3 + n for n, layout in enumerate("abc")}
    for layout, c in branch.items():
        table[c] = [Alternative(InsertView(below["a"], 0), 0 if layout == "a" else price, (below["a"],))]
    for layout, c in names.items():
        needs = (below[layout], branch[layout])
        table[c] = [Alternative(UseForm(c, 0, needs), rng.randint(1, 3), needs)]
        table[c] += [Alternative(InsertView(d, 0), price, (d,)) for other, d in names.items() if other != layout]
    return names


def _row(blocks: int, seed: int = 0) -> tuple[Table, list[int]]:
    rng = Random(seed)
    table: Table = {0: [Alternative(UseLeaf(0), 0, ())]}
    below = dict.fromkeys("abc", 0)
    for _ in range(blocks):
        below = _block(table, rng, below, rng.choice([4, 6]))
    return table, [below["b"]]


def test_rows_of_blocks_are_solved_exactly() -> None:  # feature: G12
    for seed in range(6):
        table, roots = _row(1, seed)
        found = cheapest(table, roots, 5.0)
        assert found is not None and found.gap == 0.0 and found.cost == _least(table, roots)
    for blocks in (10, 1000):
        table, roots = _row(blocks)
        start = time.monotonic()
        found = cheapest(table, roots, 60.0)
        assert found is not None and found.gap == 0.0
        assert found.cost == sum(next(w.cost for w in table[c] if w.choice == x) for c, x in found.choices.items())
        assert time.monotonic() - start < 30.0


def _wide(blocks: int, layouts: int, seed: int) -> tuple[Table, list[int], int]:
    """Blocks of three branches and their sum, each in many layouts that are views of each other at different prices;
    and what it costs where all have the first layout."""
    rng = Random(seed)
    table: Table = {0: [Alternative(UseLeaf(0), 0, ())]}
    plain = 0

    def value(operands: list[list[int]]) -> list[int]:
        nonlocal plain
        classes = list(range(len(table), len(table) + layouts))
        for n, c in enumerate(classes):
            needs = tuple(x[(n * rng.randint(1, 3)) % len(x)] if n else x[0] for x in operands)
            own = Alternative(UseForm(c, 0, needs), rng.randint(40, 60) if n else 60, needs)
            table[c] = [own, *(Alternative(InsertView(d, 0), rng.randint(5, 30), (d,)) for d in classes if d != c)]
        plain += 60
        return classes

    last = [0]
    for _ in range(blocks):
        branches = [value([last]) for _ in range(3)]
        inner = value(branches[:2])
        last = value([inner, branches[2], last])
    return table, [last[0]], plain


@pytest.mark.parametrize("seed", some_of(range(2), 1))
def test_many_layouts_of_many_values_are_chosen_well(seed: int) -> None:
    """No dearer than one layout for all, and what every program makes keeps the bound near; views of views are worth it
    in chains of any length here."""  # feature: G12
    table, roots, plain = _wide(6, 8, seed)
    found = cheapest(table, roots, 1000.0)
    assert found is not None and found.cost < 0.86 * plain and found.gap < 0.07
    assert found.cost == _cost_of(table, roots, found)


def test_what_is_chosen_does_not_depend_on_the_time() -> None:
    """Work is counted: an answer is the same on a busy machine."""  # feature: G12
    table, roots, _ = _wide(3, 6, 5)
    answers = [cheapest(table, roots, seconds, 300_000) for seconds in (500.0, 1000.0)]
    assert answers[0] is not None and answers[0] == answers[1]


def test_equal_parts_are_answered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from eqsat.extraction import cheapest as extract_cheapest

    asked: list[Bounds] = []

    def counted(bounds: Bounds, budget: Budget) -> Chosen | None:
        asked.append(bounds)
        return cheapest_in(bounds, budget)

    monkeypatch.setattr(extract_cheapest, "cheapest_in", counted)
    table: Table = {0: [Alternative(UseLeaf(0), 0, ())]}
    last = 0
    for n in range(50):
        a, b, top = 10 * n + 1, 10 * n + 2, 10 * n + 3
        table[a] = [Alternative(UseForm(a, 0, (last,)), 3, (last,)), Alternative(UseForm(b, 0, (b,)), 1, (b,))]
        table[b] = [Alternative(UseForm(b, 1, (last,)), 1, (last,))]
        table[top] = [
            Alternative(UseForm(top, 0, (a, b)), 5, (a, b)),
            Alternative(UseForm(top, 1, (a,)), 5 + n % 2, (a,)),
        ]
        last = top
    found = cheapest(table, [last], 5.0)
    assert found is not None and found.gap == 0.0 and found.cost == 50 * 7
    assert len(asked) <= 2


def test_costs_beyond_64_bits_are_added_exactly() -> None:
    huge = 1 << 70
    table: Table = {c: [Alternative(UseLeaf(c), huge, ())] for c in (1, 2)}
    table[0] = [Alternative(UseForm(0, 0, (1, 2)), 1, (1, 2))]
    found = cheapest(table, [0], 5.0)
    assert found is not None and found.cost == found.bound == 2 * huge + 1


def test_results_tell_their_gap() -> None:  # feature: G12
    x = eq.input("x", (1, 32, 8, 8), "float32")
    y = x.layout_transform("NCHW", "NHWC").relu().layout_transform("NHWC", "NCHW")
    assert eq.optimize(y).gap == 0.0
    kept = eq.optimize(x.layout_transform("NCHW", "NHWC"))
    assert kept.gap == 0.0 and kept.bytes_moved > 0


def test_every_part_has_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One part that takes all the time it is given leaves some to the others."""
    table: Table = {}
    for part in range(3):  # unequal parts, each with a choice
        first = 4 * part
        table[first] = [Alternative(UseForm(first, 0, (first + 1,)), 1 + part, (first + 1,))]
        table[first].append(Alternative(UseForm(first + 1, 0, (first + 2,)), 5, (first + 2,)))
        table[first + 1] = [Alternative(UseLeaf(first), 9, ())]
        table[first + 2] = [Alternative(UseLeaf(first + 1), 2, ())]
    left: list[float] = []

    def slow(bounds: Bounds, budget: Budget) -> Chosen | None:
        left.append(budget.deadline - time.monotonic())
        while not budget.over:
            pass
        return None

    monkeypatch.setattr("eqsat.extraction.cheapest.cheapest_in", slow)
    found = cheapest(table, [0, 4, 8], 1.0)
    assert found is not None and found.cost == _least(table, [0, 4, 8])
    assert len(left) == 3 and min(left) > 0.005


def test_the_frontiers_of_equal_blocks_are_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the blocks hang together: what many blocks take is what some take, and what they cost is exact."""
    from eqsat.extraction import frontier

    asked: list[int] = []
    kept = frontier._kept  # pyright: ignore[reportPrivateUsage]

    def counted(*arguments: Any) -> list[int] | None:
        asked.append(len(arguments[0]))
        return kept(*arguments)

    monkeypatch.setattr(frontier, "_kept", counted)
    monkeypatch.setattr(frontier, "MANY", 2)
    costs: list[int] = []  # feature: G12
    for blocks in (5, 40, 80):
        table: Table = {0: [Alternative(UseLeaf(0), 0, ())]}
        below = dict.fromkeys("abc", 0)
        for _ in range(blocks):
            below = _block(table, Random(1), below, 4)
        asked.clear()
        found = cheapest(table, [below["b"]], 60.0)
        assert found is not None and found.gap == 0.0
        costs += [found.cost, len(asked)]
    assert 0 < max(costs[3], costs[5]) < 2 * costs[1]
    assert costs[4] > 1.9 * costs[2]


@pytest.mark.parametrize("seed", some_of(range(30), 12))
def test_frontiers_that_cannot_win_are_those_beside_which_another_is_no_dearer(seed: int) -> None:
    """Asked for many at once, and by exact numbers beyond 53 bits: the same as one by one."""
    from eqsat.extraction import frontier

    rng = Random(seed)
    width, most = rng.choice([1, 5, 20, 70]), rng.choice([3, 50, 10**6, 10**17])
    masks = {rng.getrandbits(width) & rng.getrandbits(width) for _ in range(200)}
    costs = sorted(((mask, rng.randrange(most)) for mask in masks), key=lambda x: x[1])
    costs = [(mask, cost - costs[0][1]) for mask, cost in costs]
    used = [n for n in range(width) if any(mask >> n & 1 for mask in masks)]
    views = {
        1 << n: (
            *sorted((rng.randrange(most), x) for x in used if x != n and rng.random() < 0.3),
            (rng.randrange(2 * most), -1),
        )
        for n in used
    }
    kept: list[tuple[int, int]] = []
    for mask, cost in costs:
        added = {
            n: next(price for price, other in views[1 << n] if other < 0 or mask >> other & 1)
            for n in used
            if not mask >> n & 1
        }
        if not any(less + sum(added[n] for n in added if other >> n & 1) <= cost for other, less in kept):
            kept.append((mask, cost))
    found = frontier._kept(costs, views, Budget(1e9, float("inf")))  # pyright: ignore[reportPrivateUsage]
    assert found == [mask for mask, _ in kept]
    assert frontier._kept(costs, views, Budget(1.0, float("inf"))) is None  # pyright: ignore[reportPrivateUsage]
