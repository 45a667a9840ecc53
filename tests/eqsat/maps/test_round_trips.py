"""Maps with their inverses behind them, and cells that no index reaches."""

from __future__ import annotations

import pytest

from eqsat.ir.fast import by_rules_alone
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms import term as t


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("n, c -> n, c//4, c%4", (2, 32)),
        ("i -> i ^ i//2", (1 << 20,)),
        ("i, j -> i, j ^ i%8", (64, 64)),
        ("i, j -> i, j ^ 3*i%8", (8, 8)),
        ("i, j -> (8*i + j)//7, (8*i + j)%7", (7, 8)),
        ("i -> 5*i%16", (16,)),
        ("i -> i%3, i%5", (15,)),
        ("i -> i%2*4 + i//2%2*2 + i//4", (8,)),
        ("i, j -> i, (i + j)%8", (8, 8)),
        ("i -> 255 - i", (256,)),
    ],
)
def test_there_and_back_is_the_plain_indices(text: str, shape: tuple[int, ...]) -> None:  # feature: A16, A17
    m = IndexMap.parse(text)
    again = m.then(m.inverse(shape), shape)
    assert all(a is b for a, b in zip(again.final_indices, m.inputs, strict=True))


def test_a_missed_cell_of_a_large_bit_map_is_one() -> None:  # feature: A13
    proof = IndexMap.parse("i -> i ^ i//2").is_bijective((10**9,))
    assert proof.verdict == "refuted" and proof.witness is not None
    (cell,) = proof.witness["padding"]
    index = 0
    while cell:
        index, cell = index ^ cell, cell >> 1
    assert 10**9 <= index < 2**30


def test_axes_that_pass_need_no_solver(monkeypatch: pytest.MonkeyPatch) -> None:  # feature: A13
    """Those that nothing else depends on; with fast paths off, they are solved like all others."""
    solved = ("i, j -> i, (i + j)%7", (7, 7))

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("eqsat.maps.inverse.solution", refuse)
    passed = IndexMap.parse("i, j, k -> k, i, j")
    found, padding = passed.non_surjective_inverse((3, 1, 71))
    assert str(found) == "p0, p1, p2 -> p1, 0, p0" and padding is t.FALSE
    with pytest.raises(AssertionError):
        IndexMap.parse(solved[0]).inverse(solved[1])
    with by_rules_alone(), pytest.raises(AssertionError):
        passed.inverse((3, 1, 71))
