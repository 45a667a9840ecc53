"""The default prover of the language: what it says of index maps, against brute force and against the solver."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given

from eqsat.ir.decide import decider
from eqsat.ir.enumerator import Enumerator
from eqsat.ir.errors import LayoutError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.map_on_box import MapOnBox
from eqsat.ir.points import values_at
from eqsat.ir.terms import term as t
from eqsat.testing import index_maps

MAPS = [
    ("i -> i//4, i%4", (16,)),
    ("i -> i//4, i%4", (14,)),
    ("i, j -> j, i", (3, 5)),
    ("i, j -> i + j", (3, 4)),
    ("i, j -> i, j ^ i%4", (5, 8)),
    ("i -> (5*i + 3)%16", (16,)),
    ("i -> 3*i", (7,)),
    ("i -> i%5", (7,)),
    ("i, j -> 0*i + j, 0*j", (1, 4)),
    ("i, j -> j, i", (0, 5)),
    ("i -> 0*i", (0,)),
]


def question(text: str, shape: tuple[int, ...], back: str | None = None) -> MapOnBox:
    m = IndexMap.parse(text)
    m = IndexMap(m.names, m.final_indices, (), None if back is None else IndexMap.parse(back))
    return m._on_box(shape)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(("text", "shape"), MAPS)
def test_maps_by_enumeration_and_by_brute_force(text: str, shape: tuple[int, ...]) -> None:  # feature: A9
    asked, ask, m = question(text, shape), Enumerator(), IndexMap.parse(text)
    assert asked.numbers is not None
    declared = asked.numbers[1]
    point_of: dict[tuple[int, ...], tuple[int, ...]] = {}
    for point in product(*(range(n) for n in shape)):
        point_of.setdefault(m.map_indices(point), point)
    single = len(point_of) == prod(shape)
    assert ask.map_injective(asked).verdict == ("proved" if single else "refuted")
    onto = single and len(point_of) == prod(declared)
    proof = ask.map_bijective(asked)
    assert proof.verdict == decider().map_bijective(asked).verdict == ("proved" if onto else "refuted")
    if not single:
        witness = proof.witness or {}
        first, second = (tuple(witness[k].values()) for k in ("first", "second"))
        assert first != second and m.map_indices(first) == m.map_indices(second)
        with pytest.raises(LayoutError, match="not injective"):
            ask.map_inverse(asked)
        return
    found, solved = ask.map_inverse(asked), decider().map_inverse(asked)
    missed = [c for c in product(*(range(n) for n in declared)) if c not in point_of]
    assert found.first_padding == solved.first_padding == (missed[0] if missed else None)
    assert onto or proof.witness == {"padding": missed[0]}
    cells = np.array(list(product(*(range(n) for n in declared))), np.int64).reshape(-1, len(declared))
    env = dict(zip(asked.physical, cells.T, strict=True))
    for inverse in (found, solved):
        values = values_at([t.where(inverse.padding, 1, 0)], env, len(cells))
        assert values is not None
        assert [bool(p) for p in values[0]] == [tuple(c) not in point_of for c in cells.tolist()]
    values = values_at(found.values, env, len(cells))
    assert values is not None
    for n, cell in enumerate(cells.tolist()):
        if tuple(cell) in point_of:
            assert tuple(int(v[n]) for v in values) == point_of[tuple(cell)]


@given(index_maps(max_points=64))
def test_the_solver_says_what_enumeration_says(drawn: tuple[IndexMap, tuple[int, ...]]) -> None:  # feature: A9 A10
    m, shape = drawn
    try:
        asked = m._on_box(shape)  # pyright: ignore[reportPrivateUsage]
    except LayoutError:
        return  # an output is negative or undefined somewhere
    ask, solver = Enumerator(), decider()
    assert ask.map_injective(asked).verdict == solver.map_injective(asked).verdict
    assert ask.map_bijective(asked).verdict == solver.map_bijective(asked).verdict
    if ask.map_injective(asked):
        assert ask.map_inverse(asked).first_padding == solver.map_inverse(asked).first_padding


def test_a_given_inverse_is_tried_at_every_point() -> None:  # feature: A9
    good = question("i -> i//4, i%4", (14,), "a, b -> 4*a + b")
    found = Enumerator().map_inverse(good)
    assert found.values == good.given and found.first_padding == (3, 2)
    with pytest.raises(LayoutError, match="inverse_index_map"):
        Enumerator().map_inverse(question("i -> i//4, i%4", (14,), "a, b -> 4*a + b%3"))


def test_what_it_cannot_try_is_unknown() -> None:  # feature: A9
    n = t.sym("N")
    asked = IndexMap.parse("i -> i")._on_box((n,))  # pyright: ignore[reportPrivateUsage]
    large = question("i -> i//4, i%4", (1 << 20,))
    for m in (asked, large):
        ask = Enumerator(limit=1 << 10)
        assert ask.map_injective(m).verdict == ask.map_bijective(m).verdict == "unknown"
        with pytest.raises(LayoutError, match="few points"):
            ask.map_inverse(m)
