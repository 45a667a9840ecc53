"""Maps with negative outputs: verdicts about them are answers, and what needs a shape says why there is none."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsat.ir.errors import LayoutError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, var

N, M = t.sym("N", lower=1), t.sym("M", lower=1)
CASES: list[tuple[str, Any, str]] = [
    ("i, j -> i+j, i-j", (4, 3), "proved"),
    ("i, j -> i+j, i-j", (1000, 3000), "proved"),
    ("i, j -> i+j, i-j", (N, M), "proved"),
    ("i, j -> i-j", (4, 3), "refuted"),
    ("i, j -> 3*i-j", (4, 3), "proved"),
    ("i, j -> 3*i-j", (4, 4), "refuted"),
    ("i -> -i", (5,), "proved"),
    ("i -> -i", (N,), "proved"),
    ("i -> i//2-3, i%2-1", (9,), "proved"),
    ("i -> i//2-3", (9,), "refuted"),
    ("i, j -> -4*i-j", (1 << 30, 4), "proved"),
    ("i, j -> M*i-j-N", (N, M), "proved"),
    ("i -> 5-i, -i*i", (9,), "proved"),
    ("i -> -1", (1,), "proved"),
    ("i -> i - 7", (0,), "proved"),
]


@pytest.mark.parametrize(("text", "shape", "verdict"), CASES)
def test_injectivity_of_maps_with_negative_cells(text: str, shape: Any, verdict: str) -> None:  # feature: A7
    m = IndexMap.parse(text, {"N": N, "M": M} if any(isinstance(d, Term) for d in shape) else None)
    proof = m.is_injective(shape)
    assert proof.verdict == verdict, proof
    if verdict == "refuted":
        assert proof.witness is not None
        first, second = (tuple(proof.witness[k].values()) for k in ("first", "second"))
        assert first != second and m.map_indices(first) == m.map_indices(second)


def combine(p: Term, q: Term, c: int, d: int) -> Term:
    return c * p + q + d


def quotient(p: Term, n: int) -> Term:
    return p // n


def remainder(p: Term, n: int) -> Term:
    return p % n - n


def over(a: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    numbers = st.integers(2, 5)
    sums = st.builds(combine, a, a, st.integers(-4, 4), st.integers(-9, 3))
    return st.one_of(sums, st.builds(quotient, a, numbers), st.builds(remainder, a, numbers))


def outputs() -> st.SearchStrategy[Term]:
    return st.recursive(st.sampled_from([var("i"), var("j")]), over, max_leaves=4)


@given(st.lists(outputs(), min_size=1, max_size=2), st.integers(0, 6), st.integers(1, 5))
def test_injectivity_agrees_with_all_points(found: list[Term], rows: int, columns: int) -> None:
    m = IndexMap(("i", "j"), tuple(found))
    cells = [m.map_indices(p) for p in itertools.product(range(rows), range(columns))]
    proof = m.is_injective((rows, columns))
    assert proof.verdict == ("proved" if len(set(cells)) == len(cells) else "refuted")
    if any(x < 0 for cell in cells for x in cell):
        for ask in (m.is_bijective, m.inverse, m.non_surjective_inverse, m.map_shape, m.first_padding):
            with pytest.raises(LayoutError, match="physical indices start at 0"):
                ask((rows, columns))


def test_equivalence_and_composition_need_no_shape() -> None:
    skew = IndexMap.parse("i, j -> i+j, i-j")
    back = IndexMap.parse("a, b -> (a+b)//2, (a-b)//2")
    assert skew.then(back).is_identity((8, 8)).verdict == "proved"
    assert skew.is_equivalent_to(IndexMap.parse("i, j -> j+i, -j+i"), (8, 8)).verdict == "proved"
    with pytest.raises(LayoutError, match="physical indices start at 0"):
        skew.is_bijective((N, M))
