"""With fast paths off, inverses come from the index e-graph alone, or are tables: almost all of them are formulas."""

from __future__ import annotations

from random import Random

import pytest
from map_oracle import disagreements

from eqsat.ir.errors import LayoutError
from eqsat.ir.fast import by_rules_alone
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms import term as t
from eqsat.testing.maps import MAP_FAMILIES, random_map

SIZES = (300, 10**5, 10**9)
WRITTEN: list[tuple[str, tuple[int, ...]]] = [
    ("i, j -> i + j, i - j + 12", (47, 13)),
    ("i, j -> (i + j)%48, (4*j + i)%2", (48, 2)),
    ("i, j -> (i + j)%13, (i + 3*j)%13", (13, 13)),
    ("i -> i ^ (i >> 1)", (1 << 40,)),
    ("i, j -> i, j*(2*i + 1)%16", (29, 16)),
    ("i, j -> i, (j + 1)*(2*i + 3)", (5, 6)),
    ("i -> i%16, i%15, i%9", (719,)),
    ("i -> i//7, i%8", (563,)),
    ("i -> where(i%2 == 0, i//2, 5 + i//2)", (10,)),
    ("i, j -> where(i < 3, i, i - 3), where(i < 3, j, j + 37)", (8, 37)),
    ("i -> where(i < 500000000000, i + 500000000000, i - 500000000000)", (10**12,)),
    ("a, b -> (a%65536)*4 + b%4, a//65536, b//4", (1 << 30, 1 << 30)),
]
LATER: list[tuple[str, tuple[int, ...]]] = [
    ("i -> (i ^ (i >> 1))//6, (i ^ (i >> 1))%6", (1000,)),
    ("i -> 2*abs(i - 43) + where(i < 43, 1, 0)", (80,)),
]


def formula(m: IndexMap, shape: tuple[int, ...]) -> IndexMap | None:
    """The inverse where it is known as a formula."""
    try:
        found, _ = m.non_surjective_inverse(shape)
    except LayoutError:
        return None
    return None if found.is_table else found


@pytest.mark.parametrize(("text", "shape"), [*WRITTEN, *(pytest.param(*w, marks=pytest.mark.slow) for w in LATER)])
def test_the_graph_alone_solves(text: str, shape: tuple[int, ...]) -> None:
    m = IndexMap.parse(text)
    with by_rules_alone():
        found = formula(m, shape)
    assert found is not None
    rng = Random(text)
    for _ in range(50):
        point = tuple(rng.randrange(n) for n in shape)
        assert found.map_indices(m.map_indices(point)) == point


@pytest.mark.parametrize("each", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_formulas_of_all_families_are_found_by_the_graph_alone(each: int) -> None:
    """At least 95 of 100 of those that are known with fast paths; and all answers are right. In every run, each family
    is of one size."""
    known = reached = 0
    for k, family in enumerate(MAP_FAMILIES):
        for size in SIZES if each > 1 else SIZES[k % 2 * 2 : k % 2 * 2 + 1]:
            for n in range(each):
                rng = Random(f"congruence {family} {size} {n}")
                m, shape = random_map(family, rng, size)
                if formula(m, shape) is None:
                    continue
                known += 1
                with by_rules_alone():
                    reached += formula(m, shape) is not None
                    if size == SIZES[0]:
                        assert list(disagreements(m, shape, rng)) == []
    assert known > (50 * each if each > 1 else 16) and reached >= 0.95 * known


def test_linear_systems_with_symbolic_sizes() -> None:  # feature: A14
    n, m = t.sym("N", 1), t.sym("M", 1)
    table = {"N": n, "M": m}
    for text, inverse in (
        ("i, j -> 2*i + j, i + j", "p0, p1 -> p0 - p1, 2*p1 - p0"),
        ("i, j -> i + j, i - j + M", "p0, p1 -> (p0 + p1 - M) // 2, (M + p0 - p1) // 2"),
    ):
        found = IndexMap.parse(text, table)
        assert found.is_injective((n, m)).verdict == "proved"
        assert str(found.non_surjective_inverse((n, m))[0]) == inverse
