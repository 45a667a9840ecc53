"""Small laws of texts and holes: what is printed is read again, zero times a hole is zero, a hole decides no index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eqsat as eq
from eqsat.ir.errors import ParseError, TypeMismatch
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.tensors.tensor import Tensor, compute, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import MOST_PRINTED, table_load
from eqsat.ir.terms.text import parse_expr

X = input("x", (4,), "int32")
W = input("w", (9,), "float32")
PADDED = X.pad(((0, 2),), eq.UNDEF)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=MOST_PRINTED), st.integers(0, 5))
def test_tables_are_read_again(numbers: list[int], offset: int) -> None:
    i = t.var("i")
    term = 2 * table_load(np.array(numbers, np.int64), i + offset) - 1
    assert parse_expr(str(term)) is term
    m = IndexMap(("i",), (term, i))
    assert IndexMap.parse(str(m)) == m and str(IndexMap.parse(str(m))) == str(m)


def test_a_long_table_says_that_its_text_does_not_hold_it() -> None:
    m = IndexMap(("i",), (table_load(np.arange(MOST_PRINTED + 1), t.var("i")),))
    with pytest.raises(ParseError, match="JSON holds it"):
        IndexMap.parse(str(m))
    assert IndexMap.from_json(m.to_json()) == m


@pytest.mark.parametrize("text", ["[1, x][i]", "[1, 2.5][i]", f"[{2**63}][i]", "[1, 2][i, j]", "[[1]][i]"])
def test_tables_hold_integers(text: str) -> None:
    with pytest.raises(ParseError):
        parse_expr(text)


def at(y: Tensor, extent: int) -> Any:
    return lambda: compute((extent,), lambda i: W[t.cast_to(y[i], "index")])


READS_A_HOLE: list[tuple[str, Any]] = [
    ("directly", lambda: compute((6,), lambda i: W[t.cast_to(t.hole(1, "int32", [i]), "index")])),
    ("a padded tensor", at(PADDED, 6)),
    ("after an operator", at(PADDED * 2 + 1, 6)),
    ("after a reduction", at(PADDED.broadcast_to((6, 6)).max(1), 6)),
    ("behind a crop that keeps one", at(PADDED.crop((0,), (5,)), 5)),
    ("through an index", at(compute((6,), lambda i: PADDED[t.cast_to(X[i % 4], "index")]), 6)),
]
READS_NONE: list[tuple[str, Any]] = [
    ("the part that is not padded", at(PADDED, 4)),
    ("cropped away", at(PADDED.crop((0,), (4,)), 4)),
    ("guarded", lambda: compute((6,), lambda i: W[t.where(i < 4, t.cast_to(PADDED[i], "index"), t.index_const(0))])),
    ("padded by a number", at(X.pad(((0, 2),), 0), 6)),
]


@pytest.mark.parametrize("build", [c[1] for c in READS_A_HOLE], ids=[c[0] for c in READS_A_HOLE])
def test_a_hole_decides_no_index(build: Any) -> None:  # feature: E2
    with pytest.raises(TypeMismatch, match="depends on a hole"):
        build()


@pytest.mark.parametrize("build", [c[1] for c in READS_NONE], ids=[c[0] for c in READS_NONE])
def test_cells_beside_a_hole_may(build: Any) -> None:
    found = eq.evaluate(build(), {"x": np.array([3, 1, 2, 0], "int32"), "w": np.arange(9, dtype="float32")})
    assert found[:4].tolist() == [3, 1, 2, 0]


def test_zero_times_a_hole_is_zero_for_integers() -> None:  # feature: E2
    hole = t.hole(1, "int32", [t.index_const(0)])
    assert eq.simplify(hole * t.const(0, "int32")) is t.const(0, "int32")
    zeros = eq.Program([X], {"out": eq.constant(np.zeros(6, "int32"))})
    assert eq.verify(PADDED * 0, zeros).verdict == "proved"
    floats = input("x", (4,), "float32")
    wide = eq.Program([floats], {"out": eq.constant(np.zeros(6, "float32"))})
    assert eq.verify(floats.pad(((0, 2),), eq.UNDEF) * 0.0, wide).verdict == "refuted"


def test_a_hole_is_one_number_and_two_holes_are_two() -> None:  # feature: E2
    other = X.pad(((0, 2),), eq.UNDEF)
    zeros = eq.Program([X], {"out": eq.constant(np.zeros(6, "int32"))})
    assert eq.verify(zeros, PADDED - PADDED).verdict == eq.verify(PADDED - PADDED, zeros).verdict == "proved"
    assert eq.verify(zeros, PADDED - other).verdict == "refuted"
    assert eq.verify(PADDED - other, zeros).verdict == "unknown"  # it holds: both may be filled alike


def test_a_moved_reduction_is_printed_with_no_number_of_another_layout() -> None:
    x = input("x", (2, 3, 4), "float32")
    moved = x.permute_dims((2, 0, 1)).sum(2, keepdims=True).relu().permute_dims((1, 2, 0))
    lines = [line for line in str(eq.optimize(moved).program).splitlines() if "reduce_sum" in line]
    assert lines and not any("axes" in line for line in lines)
