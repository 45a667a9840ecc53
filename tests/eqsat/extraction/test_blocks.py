"""Parts in which blocks repeat: found whatever lies around them, chosen for a few and spread to all."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from eqsat.extraction import blocks, cheapest
from eqsat.extraction.blocks import fewer_blocks
from eqsat.extraction.cheapest import Extraction
from eqsat.extraction.extract import Alternative, InsertView, UseLeaf
from eqsat.extraction.parts import Component, needed_by_all, settled, take_apart
from eqsat.extraction.rows import Rows, places_of, rows_of
from eqsat.extraction.values import values_of
from eqsat.graph.nodes import ClassId, UseForm

LAYOUTS, VALUES = 3, 12


def _network(count: int, seed: int, shared: bool) -> tuple[dict[ClassId, list[Alternative]], ClassId]:
    """So many equal blocks behind each other, each of values in some layouts, of which each is made of two before it;
    shared: all blocks read one value that lies before them."""
    rng = Random(seed)
    table: dict[ClassId, list[Alternative]] = {}

    def value(made: list[list[tuple[int, list[int]]]], views: list[int]) -> list[ClassId]:
        """A value whose layouts are made at some costs of some classes each."""
        own = list(range(len(table), len(table) + LAYOUTS))
        for k, c in enumerate(own):
            ways = [
                Alternative(UseForm(10 * c + n, 0, tuple(needs)) if needs else UseLeaf(c), cost, tuple(needs))
                for n, (cost, needs) in enumerate(made[k])
            ]
            ways += [Alternative(InsertView(d, 0), views[(k - j) % LAYOUTS], (d,)) for j, d in enumerate(own) if j != k]
            table[c] = ways
        return own

    first = [[(0, list[int]())] if k == 0 else [] for k in range(LAYOUTS)]
    mask, stream = value(first, [0, 40, 45]), value(first, [0, 40, 45])
    plan = [
        [
            [(rng.randint(1, 30), rng.randrange(LAYOUTS), rng.randrange(LAYOUTS)) for _ in range(2)]
            for _ in range(LAYOUTS)
        ]
        for _ in range(VALUES)
    ]
    far = [rng.randint(1, 4) for _ in range(VALUES)]
    views = [[0, rng.randint(5, 30), rng.randint(5, 30)] for _ in range(VALUES)]
    for _ in range(count):
        block = [stream]
        for k in range(VALUES):
            a, b = block[-1], mask if shared and k == 5 else block[max(0, len(block) - far[k])]
            made = [[(cost, [a[x], b[y]]) for cost, x, y in some] for some in plan[k]]
            block.append(value(made, views[k]))
        stream = block[-1]
    return table, stream[0]


def _part(count: int, seed: int, shared: bool = True) -> tuple[Component, Rows]:
    table, root = _network(count, seed, shared)
    apart = take_apart(table, [root])
    assert apart is not None
    part = max(apart.parts, key=lambda p: len(p.ways))
    return part, rows_of(part)


@pytest.mark.parametrize("shared", [False, True])
def test_blocks_are_found(shared: bool) -> None:
    """All but a few are left out, whatever all of them share, and however many they are."""
    sizes: list[int] = []
    for count in (12, 24):
        part, rows = _part(count, 1, shared)
        fewer = fewer_blocks(rows, values_of(part))
        assert fewer is not None and fewer.rows.whole
        assert fewer.gone % fewer.period == 0 and len(fewer.rows.order) == len(rows.order) - fewer.gone
        sizes.append(len(fewer.rows.order))
    assert sizes[0] == sizes[1] < len(rows.order) / 2


def test_a_choice_for_a_few_blocks_is_one_for_all() -> None:
    """What is spread has a step for all that it needs, and costs per block what the blocks cost that were chosen."""
    part, rows = _part(24, 1)
    fewer = fewer_blocks(rows, values_of(part))
    assert fewer is not None
    rng = Random(0)
    for _ in range(20):
        chosen = {node: rng.choice(fewer.rows.table[n])[2] for n, node in enumerate(fewer.rows.order)}
        steps = fewer.spread(chosen)
        assert steps is not None
        needed = [rows.order[n] for n in places_of(rows.start, 0)]
        seen = set(needed)
        while needed:
            node = needed.pop()
            assert any(step is steps[node] for step in rows.steps[node])
            needed += [x for x in steps[node].needs if x not in seen]
            seen.update(needed)
        for n, node in enumerate(rows.order):
            if node in steps and n >= fewer.cut + fewer.gone:
                assert steps[node].way is chosen[node].way


def test_what_cannot_be_had_is_not_spread() -> None:
    """Blocks differ in what is chosen, and between them a class is needed that has no way."""
    part, rows = _part(24, 1)
    fewer = fewer_blocks(rows, values_of(part))
    assert fewer is not None
    out = range(fewer.cut + 1, fewer.cut + fewer.gone)
    missing = [rows.table[n][:0] if n in out else rows.table[n] for n in range(len(rows.table))]
    keys = [fewer.keys[n][:0] if n in out else fewer.keys[n] for n in range(len(rows.table))]
    broken = replace(fewer, whole=replace(rows, table=missing), keys=keys)
    assert broken.spread({node: fewer.rows.table[n][0][2] for n, node in enumerate(fewer.rows.order)}) is None


def test_rows_without_blocks_stay() -> None:
    rng = Random(3)
    table: dict[ClassId, list[Alternative]] = {0: [Alternative(UseLeaf(0), 1, ())]}
    for c in range(1, 200):
        some = [rng.randrange(max(0, c - 5), c) for _ in range(2)]
        table[c] = [Alternative(UseForm(c, n, (x,)), rng.randint(1, 1_000_000), (x,)) for n, x in enumerate(some)]
    apart = take_apart(table, [199])
    assert apart is not None and apart.parts
    assert all(fewer_blocks(rows_of(one), values_of(one)) is None for one in apart.parts)


def _cheapest(count: int, seed: int, work: float) -> Extraction:
    table, root = _network(count, seed, True)
    found = cheapest.cheapest(table, [root], 600.0, work)
    assert found is not None
    return found


def test_many_blocks_are_chosen_as_well_as_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an effort that is too little for all of them; by itself, each would be chosen worse."""
    monkeypatch.setattr(cheapest, "FRONTIER", 0)
    monkeypatch.setattr(cheapest, "LITTLE", 0)
    monkeypatch.setattr("eqsat.extraction.bound.LARGEST", 2_000)  # too large for a linear program: 24 blocks, not a few
    work, few, many = 100_000, 8, 32
    with_it = _cheapest(many, 2, work).cost
    assert with_it <= 1.02 * _cheapest(few, 2, work).cost * many / few
    monkeypatch.setattr(blocks, "LEAST", 10**6)
    assert with_it < _cheapest(many, 2, work).cost


@pytest.mark.parametrize("seed", range(40))
def test_what_all_need_is_what_none_can_be_built_without(seed: int) -> None:
    """Against each class left out; with circles, and classes that cannot be built."""
    rng = Random(seed)
    count = rng.randint(2, 9)
    ways = {
        c: [[rng.randrange(count) for _ in range(rng.randint(0, 2))] for _ in range(rng.randint(1, 3))]
        for c in range(count)
    }
    built = settled({c: [(1, needs) for needs in some] for c, some in ways.items()})
    ways = {c: [needs for needs in ways[c] if all(x in built for x in needs)] for c in built}
    roots = [c for c in built if rng.random() < 0.3]
    needed = needed_by_all(ways, roots)
    for c in built:
        left = settled({d: [(1, needs) for needs in some if c not in needs] for d, some in ways.items() if d != c})
        assert (c in needed) == any(root not in left for root in roots), c
