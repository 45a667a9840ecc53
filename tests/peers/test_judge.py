"""The judge of the peer comparison sees each kind of mistake; it needs no peer."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from judge import Judge, function_of

from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms.tables import table_load
from eqsat.ir.terms.term import Term, index_const, where
from eqsat.ir.terms.text import parse_expr
from eqsat.testing.maps import MAP_FAMILIES, random_map

SPLIT = Judge(IndexMap.parse("i -> i//4, i%4"), (14,))


@pytest.mark.parametrize("family", MAP_FAMILIES)
def test_python_and_numpy_read_terms_alike(family: str) -> None:
    for seed in range(5):
        m, shape = random_map(family, Random(seed), 200)
        arrays = m.map_indices([a.ravel() for a in np.indices(shape)])
        assert Judge(m, shape).images == [tuple(map(int, p)) for p in zip(*arrays, strict=True)]


def test_mistakes_are_seen() -> None:
    assert SPLIT.injective and SPLIT.missed((4, 4)) == (3, 2) and SPLIT.missed((3, 4)) is None
    assert SPLIT.outside((4, 4)) is None and SPLIT.outside((3, 4)) == (12,) and SPLIT.outside((16,)) == (0,)
    assert SPLIT.not_inverted(IndexMap.parse("a, b -> 4*a + b")) is None
    assert SPLIT.not_inverted(IndexMap.parse("a, b -> 5*a + b")) == ((4,), (5,))
    padding = parse_expr("4*a + b >= 14")
    assert SPLIT.wrong_padding(padding, ("a", "b"), (4, 4)) is None
    assert SPLIT.wrong_padding(parse_expr("a == 3 and b >= 3"), ("a", "b"), (4, 4)) == (3, 2)
    assert Judge(IndexMap.parse("i -> i % 7"), (14,)).collision == ((0,), (7,))


def test_loads_outside_of_a_table_are_no_index() -> None:
    i = IndexMap.parse("i -> i").inputs[0]
    load: Term = table_load(np.array([3, 1]), i)
    assert [function_of([load], ["i"])(n)[0] for n in (-1, 0, 1, 2)] == [1 << 80, 3, 1, 1 << 80]
    guarded = where(i < 2, load, index_const(0))
    assert function_of([guarded], ["i"])(5) == (0,)
