"""Intervals contain every value, and are exact where the shape of a term allows it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from term_strategies import LEAVES, TABLE, terms

from eqsat.ir.dtypes import INDEX
from eqsat.ir.ranges.bounds import Bounds, Interval, bounds, fits_int32, narrow, overflowing
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import load_table, table_load
from eqsat.ir.terms.term import Term

i, j = t.ax(0, 16), t.ax(1, 5)
n, m = t.sym("N"), t.sym("M", lower=2, upper=9, multiple_of=4)
in_n = t.ax(2, n)
v = t.var("v")


@given(terms(loads=False), st.data())
def test_bounds_contain_every_value(term: Term, data: st.DataObject) -> None:
    env: dict[Term, np.ndarray] = {}
    ranges: dict[Term, tuple[int, int]] = {}
    for axis, leaf in enumerate(LEAVES):
        low, most = (-6, 6) if leaf is LEAVES[3] else (2, 5) if leaf.op == "sym" else (0, 2)
        low = data.draw(st.integers(low, most - 1))
        high = data.draw(st.integers(low + 1, most))
        env[leaf] = np.arange(low, high).reshape([-1 if k == axis else 1 for k in range(len(LEAVES))])
        ranges[leaf] = (low, high)
    env[LEAVES[-1]], ranges[LEAVES[-1]] = np.asarray(2), (2, 3)
    value, bad = evaluate_masked([term], env, load_table)[0]
    shape = np.broadcast_shapes(value.shape, () if bad is None else bad.shape)
    defined = np.ones(shape, bool) if bad is None else ~np.broadcast_to(bad, shape)
    values = np.broadcast_to(value, defined.shape)[defined]
    low, high = bounds(term, ranges)
    if values.size:
        assert low is None or low <= int(values.min())
        assert high is None or int(values.max()) <= high


EXACT: list[tuple[Term, Interval]] = [
    (i, (0, 15)), (2 * i - 3 * j + 1, (-11, 31)), (i // 4, (0, 3)), (-i // 4, (-4, 0)), (i % 4, (0, 3)),
    (i % 32, (0, 15)),
    ((i + 32) % 32, (0, 15)), (i % -4, (-3, 0)), (i // -4, (-4, 0)), (i * j, (0, 60)), ((i - 8) * (j - 2), (-16, 16)),
    ((i - 8) * (i - 8), (0, 64)), (t.absolute(i - 8), (0, 8)), (t.absolute(i + 2), (2, 17)),
    (t.binary("min", i, 7), (0, 7)), (t.binary("max", i, 7), (7, 15)), (i & 3, (0, 3)), (i | 3, (3, 15)),
    (i ^ 3, (0, 15)), (i << 2, (0, 60)), (i >> 2, (0, 3)),
    ((i - 16) >> 2, (-4, -1)), (t.binary("truncdiv", i - 8, 3), (-2, 2)), (t.binary("truncmod", i - 8, 3), (-2, 2)),
    (t.where(j < 9, i, -100), (0, 15)), (t.where(j < 3, i, -100), (-100, 15)), (n, (1, None)), (m, (4, 8)),
    (in_n, (0, None)), (in_n - n, (None, -1)), (in_n * 4 + i % 4 - 4 * n, (None, -1)), (n - in_n, (1, None)),
    (in_n * m - n * m, (None, -4)), (n // 4, (0, None)), (n % 4, (0, 3)), (-n, (None, -1)), (v, (None, None)),
    (v % 8, (0, 7)), (v * 0 + 3, (3, 3)), (v - v // 8 * 8, (0, 7)), (v // 8 * 8 + v % 8 - v, (0, 0)),
    (i // 4 * 4 + i % 4, (0, 15)), (2 * (i + j) - (i + j) // 3 * 6, (0, 4)), (t.ax(0, 0), (None, None)),
    (t.ax(0, t.sym("K", lower=0)), (None, None)), (table_load(TABLE.array, t.ax(0, 3)), (-1, 4)),
    (table_load(TABLE.array, v), (-5, 9)), (t.cast_to(t.load(0, [i], "uint8"), INDEX) + 1, (1, 256)),
    (t.cast_to(t.cast_to(i, "int8"), INDEX), (0, 15)), (t.cast_to(t.cast_to(i * 100, "int8"), INDEX), (-128, 127)),
    (t.cast_to(i < 4, INDEX), (0, 1)), (t.ramp(i, 3, 4), (0, 24)), (i < 16, (1, 1)), (i < 0, (0, 0)), (i < 3, (0, 1)),
    (i <= i + v - v, (1, 1)), (t.compare("eq", i, i + 1), (0, 0)), (t.logical_not(i < 16), (0, 0)),
    (t.logical_and(i >= 0, in_n < n), (1, 1)), (t.load(0, [i], "float32") < 1.0, (0, 1)), (v // 0, (None, None)),
    ((i - 20) // n, (-20, -1)), (t.binary("truncdiv", i - 20, n), (-20, 0)), (i // -n, (-15, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("term", "expected"), EXACT, ids=[str(term) for term, _ in EXACT])
def test_exact_bounds(term: Term, expected: Interval) -> None:
    assert bounds(term) == expected


def test_ranges_are_half_open_and_may_be_of_any_term() -> None:
    assert bounds(v * 2, {v: (-3, 5)}) == (-6, 8)
    assert bounds(n - 1, {n: (4, 9)}) == (3, 7)
    assert bounds(v // 4 + 1, {v // 4: (0, 3)}) == (1, 3)
    assert bounds(i, {i: (4, 100)}) == (4, 15)
    assert bounds(v, {v: (3, 3)}) == (None, None), "an empty range says nothing"


def test_every_subterm_must_fit() -> None:
    wide = t.ax(0, 1 << 20)
    assert fits_int32(wide * 2047) and not fits_int32(wide * 2048 + wide)
    assert overflowing(wide * 4096 // 4096 + 1) is wide * 4096
    assert not fits_int32(wide * 2047 + v * 2047, {v: (0, 1 << 20)}), "a partial sum leaves the range"
    assert not fits_int32((1 << 31) - 1 - wide * 2047 - v * 2047, {v: (0, 1 << 20)})
    assert not fits_int32(n * 2) and fits_int32(n * 2, {n: (1, 1000)}) and overflowing(n + 1, bits=64) is not None
    assert fits_int32(t.ax(0, n) * 4, {t.ax(0, n): (0, 1000)}), "an extent with a given range is not computed"
    big = t.ax(0, 1 << 11)
    assert not fits_int32(big * t.ax(1, 1 << 11) * t.ax(2, 1 << 11) // 8)


def test_guards_narrow_ranges() -> None:
    guard = t.logical_and(i - 1 >= 1, i + 2 * j < 8, v == 3, v // 4 < 9)
    found = narrow(guard)
    assert found[i] == (2, 8) and found[j] == (0, 3) and found[v] == (3, 4)
    assert Bounds().under(v < 9).of(v) == (None, 8) and Bounds().under(n - 2 >= 3).of(n) == (5, None)
    assert narrow(t.logical_or(i < 3, j < 3)) == {} and narrow(i != 3) == {}
    assert bounds(i - 1, narrow(t.logical_and(i >= 1, i <= 14))) == (0, 13)


@given(st.integers(-20, 20), st.integers(-5, 5), st.integers(-5, 5), st.sampled_from(["lt", "le", "eq"]))
def test_narrowing_keeps_every_point(constant: int, a: int, b: int, op: str) -> None:
    guard = t.compare(op, a * i + constant, b * j)
    holds = np.broadcast_to(guard.evaluate({"i0": np.arange(16)[:, None], "i1": np.arange(5)}), (16, 5))
    found = narrow(guard)
    for axis, positions in zip((i, j), np.nonzero(holds), strict=True):
        low, high = found.get(axis, (0, 16))
        assert ((low <= positions) & (positions < high)).all()


def test_deep_terms() -> None:
    term = i
    for k in range(20_000):
        term = t.binary("min", term + (k % 3) - 1, 100) if k % 2 else t.binary("max", term, -100)
    low, high = bounds(term)
    assert low is not None and high is not None and low >= -102 and high <= 102
