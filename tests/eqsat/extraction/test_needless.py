"""What having something adds to a program at most, and the ways that no cheapest choice takes, against all choices."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import product
from math import inf
from random import Random
from types import SimpleNamespace

import pytest

from eqsat.extraction import needless
from eqsat.extraction.cheapest import cheapest
from eqsat.extraction.extract import Alternative, Direct, InsertView, UseLeaf, UseSum
from eqsat.extraction.needless import Bounds
from eqsat.extraction.parts import take_apart
from eqsat.extraction.rows import narrower, rows_of
from eqsat.extraction.values import values_of
from eqsat.graph.nodes import ClassId, UseForm

LAYOUTS = 2
Table = dict[ClassId, list[Alternative]]


def _network(blocks: int, rng: Random) -> tuple[Table, list[ClassId]]:
    """Values in two layouts that are views of each other, one made of the other in any; and of each a part, which is a
    view of it and can be made of the part of the value before as well. The root is the last part."""
    table: Table = {0: [Alternative(UseLeaf(0), 0, ())], 1: [Alternative(UseForm(1, 0, (0,)), 1, (0,))]}
    below, part = [0, 1], 1
    for _ in range(blocks):
        own = [len(table), len(table) + 1]
        for c, d, x in zip(own, own[::-1], below, strict=True):
            table[c] = [Alternative(UseForm(c, 0, (x,)), rng.randint(1, 9), (x,))]
            table[c].append(Alternative(InsertView(d, 0), rng.randint(1, 4), (d,)))
        new = len(table)
        table[new] = [Alternative(InsertView(c, 1), rng.randint(1, 3), (c,)) for c in own]
        table[new].append(Alternative(UseForm(new, 0, (part, 0)), rng.randint(0, 5), (part, 0)))
        below, part = own, new
    top = len(table)
    table[top] = [Alternative(UseForm(top, 0, (x, part)), rng.randint(0, 3), (x, part)) for x in below]
    return table, [top]


def _sums(blocks: int, rng: Random) -> tuple[Table, list[ClassId]]:
    """Products in two layouts that are views of each other, and sums over them, one of which costs nothing over a
    product that is made for it alone; some products are outputs, too."""
    table: Table = {0: [Alternative(UseLeaf(0), 0, ())]}
    below, roots = [0, 0], list[ClassId]()
    for _ in range(blocks):
        p, s = [len(table), len(table) + 1], [len(table) + 2, len(table) + 3]
        for own, made, dear in ((p, below, 9), (s, p, 4)):
            for c, d, x in zip(own, own[::-1], made, strict=True):
                table[c] = [Alternative(UseForm(c, 0, (x,)), rng.randint(1, dear), (x,))]
                table[c].append(Alternative(InsertView(d, 0), rng.randint(1, 4), (d,)))
        direct = Direct(p[0], UseForm(s[0], 0, (p[0],)))
        table[direct] = [Alternative(UseForm(p[0], 0, (below[0],)), table[p[0]][0].cost, (below[0],))]
        table[s[0]].append(Alternative(UseSum(direct.reader, 0, direct), 0, (direct,)))
        roots += [p[rng.randint(0, 1)]] if rng.random() < 0.3 else []
        below = s
    return table, [*roots, below[rng.randint(0, 1)]]


def _least(table: Table, roots: list[ClassId]) -> int:
    """The cost of the cheapest of all choices."""
    best: int | None = None
    for picks in product(*(range(len(ways)) for ways in table.values())):
        way = {c: table[c][n] for c, n in zip(table, picks, strict=True)}
        cost, state, stack, circular = 0, dict[ClassId, bool](), [(root, False) for root in roots], False
        while stack and not circular:
            c, done = stack.pop()
            if done:
                state[c] = True
            elif c in state:
                circular = not state[c]
            else:
                state[c] = False
                cost += way[c].cost
                stack.append((c, True))
                stack.extend((need, False) for need in way[c].needs)
        if not circular and (best is None or cost < best):
            best = cost
    assert best is not None
    return best


def test_bounds_hold_for_the_cheapest_program() -> None:
    """With a node more, or with one beside another, it costs no more than they say; some are below the node's own."""
    near = 0  # feature: G12
    for seed in range(4):
        table, roots = _network(2, Random(seed))
        apart = take_apart(table, roots)
        assert apart is not None
        least = _least(table, roots)
        for part in apart.parts:
            bounds = Bounds(rows_of(part), values_of(part))
            for n, (c, _) in enumerate(bounds.rows.order):
                most = bounds.most[n]
                assert most is not None and _least(table, [*roots, c]) <= least + most
                for cost, x in bounds.near[n]:
                    other = bounds.rows.order[x][0]
                    assert _least(table, [*roots, c, other]) <= _least(table, [*roots, other]) + cost
                    near += cost < most and other != c
    assert near > 0


@pytest.mark.parametrize("farthest", [3, 400])
def test_no_cheapest_choice_takes_what_is_needless(farthest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the ways found needless, the cheapest program costs the same; there are such ways, near or far."""
    monkeypatch.setattr(needless, "FARTHEST", farthest)
    gone = 0  # feature: G12
    for seed in range(30):
        table, roots = _network(2, Random(seed))
        apart = take_apart(table, roots)
        assert apart is not None
        dear = {
            (bounds.rows.order[n][0], step.way.choice)
            for part in apart.parts
            for bounds in [Bounds(rows_of(part), values_of(part))]
            for n, step in bounds.needless()
            if step.way is not None and bounds.rows.order[n][0] not in {c for c, made in bounds.rows.order if made}
        }
        gone += len(dear)
        left = {c: [way for way in ways if (c, way.choice) not in dear] for c, ways in table.items()}
        found = cheapest(table, roots, 20.0)
        assert found is not None and found.gap == 0.0 and found.cost == _least(left, roots) == _least(table, roots)
    assert gone > 10


def test_a_long_chain_is_not_walked_from_each_of_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at grows as the network does, not as its square."""
    table, roots = _network(60, Random(0))
    apart = take_apart(table, roots)
    assert apart is not None
    parts = [(rows_of(part), values_of(part)) for part in apart.parts]
    looks: list[int] = []
    monkeypatch.setattr(needless, "FARTHEST", 10)
    monkeypatch.setattr(needless, "heapq", SimpleNamespace(heappop=_counted(looks), heappush=heapq.heappush))
    nodes = 0
    for rows, values in parts:
        assert Bounds(rows, values).near
        nodes += len(rows.table)
    assert nodes > 100 and nodes < len(looks) <= 10 * nodes


class _Looked(dict[int, int]):
    """Views of a node that count how many of them are looked at: their number is asked before."""

    total = 0

    def __len__(self) -> int:
        _Looked.total += super().__len__()
        return super().__len__()


def test_views_of_all_layouts_by_each_other_are_not_all_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    """From each of so many nodes, a view of each other one by each of them would be looked at: their third power."""
    table, roots = _network(10, Random(0))
    apart = take_apart(table, roots)
    assert apart is not None
    part = max(apart.parts, key=lambda part: len(part.ways))
    bounds = Bounds(rows_of(part), values_of(part))
    nodes = len(bounds.views)
    bounds.views = [_Looked({y: 2 + (x + y) % 5 for y in range(nodes) if y != x}) for x in range(nodes)]
    bounds.most = list[int | None]([None] * nodes)
    monkeypatch.setattr(needless, "STEPS", 40)
    _Looked.total = 0
    assert nodes > 30 and any(bounds.near)
    assert nodes * 40 <= _Looked.total <= nodes * (40 + nodes)


def test_bounds_that_are_not_found_in_time_are_left_out() -> None:
    """What is known at the deadline is true of the whole part, and no way is needless that is not so anyway."""
    fewer = 0
    for seed in range(30):
        table, roots = _network(4, Random(seed))
        apart = take_apart(table, roots)
        assert apart is not None
        for part in apart.parts:
            rows, values = rows_of(part), values_of(part)
            whole, late = Bounds(rows, values), Bounds(rows, values, deadline=0.0)
            assert not any(late.near)
            for some, all_of_them in zip(late.most, whole.most, strict=True):
                assert some is None or (all_of_them is not None and all_of_them <= some)
            gone = {(n, id(step)) for n, step in whole.needless()}
            still = {(n, id(step)) for n, step in late.needless()}
            assert still <= gone
            fewer += still < gone
    assert fewer > 3


def _counted(looks: list[int]) -> Callable[[list[tuple[int, int]]], tuple[int, int]]:
    def popped(heap: list[tuple[int, int]]) -> tuple[int, int]:
        looks.append(len(heap))
        return heapq.heappop(heap)

    return popped


def test_a_product_may_be_made_for_one_sum() -> None:
    """It makes a value that is needed anyway: what it costs does not go where the sum is had otherwise."""
    taken = 0
    for seed in range(60):
        table, roots = _sums(2, Random(seed))
        apart = take_apart(table, roots)
        assert apart is not None
        for part in apart.parts:
            of = values_of(part).of
            assert all(of[c] == of[c.source] for c in of if isinstance(c, Direct) and c.source in of)
        found = cheapest(table, roots, 20.0)
        assert found is not None and found.cost == _least(table, roots)
        taken += any(isinstance(choice, UseSum) for choice in found.choices.values())
    assert 10 < taken < 60


def test_equal_parts_in_several_layouts_are_answered_once() -> None:
    """Also where the layouts are views of each other, which goes round in circles."""
    from eqsat.extraction.cheapest import _taken_apart  # pyright: ignore[reportPrivateUsage]

    table: Table = {0: [Alternative(UseLeaf(0), 0, ())]}  # feature: G12
    below = 0
    for _ in range(5):
        a, b, c, top = range(len(table), len(table) + 4)
        table[a] = [Alternative(UseForm(a, 0, (below,)), 2, (below,)), Alternative(InsertView(b, 0), 4, (b,))]
        table[b] = [Alternative(UseForm(b, 0, (below,)), 3, (below,)), Alternative(InsertView(a, 0), 4, (a,))]
        table[c] = [Alternative(UseForm(c, n, (x,)), 6 - n, (x,)) for n, x in enumerate((a, b))]
        table[top] = [Alternative(UseForm(top, n, (c, x)), 2 - n, (c, x)) for n, x in enumerate((a, b))]
        below = top
    found = _taken_apart(table, [below], inf)
    assert found is not None and len(found[1]) > 1
    assert len({question.key for question in found[1]}) == 1


def test_each_next_row_brings_the_fewest_new_ones() -> None:
    """The order of `narrower`, against its definition: of what nothing waits for, the first with fewest new needs."""
    rng = Random(7)
    seen = 0
    for _ in range(60):
        table, roots = rng.choice([_network, _sums])(rng.randint(2, 6), rng)
        apart = take_apart(table, roots)
        for part in apart.parts if apart else ():
            rows = rows_of(part)
            if not rows.whole:
                continue
            seen += 1
            below = {node: dict.fromkeys(x for s in rows.steps[node] for x in s.needs) for node in rows.order}
            there = {x for x in rows.order if not any(x in some for some in below.values())}
            left = list(rows.order)
            for node in narrower(rows, part).order:
                ready = [x for x in left if not any(x in below[user] for user in left)]
                assert node == min(ready, key=lambda x: sum(need not in there for need in below[x]))
                left.remove(node)
                there.update(below[node])
            assert not left
    assert seen > 20
