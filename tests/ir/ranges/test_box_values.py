"""Exact intervals over small boxes: those of all values, where the term is defined and the guards hold."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from term_strategies import LEAVES, terms

from eqsat.ir.dtypes import BOOL, INDEX, NDArray
from eqsat.ir.ranges.box_values import BoxValues, Closed, PointValues
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term

BOX = {leaf: (low, low + 3) for leaf, low in zip(LEAVES, (0, 1, 0, -2, 2, 3, 4), strict=True)}
SHAPE = (3,) * len(BOX)
GRID: dict[Term, NDArray] = {
    leaf: axis + start for leaf, (start, _), axis in zip(BOX, BOX.values(), np.indices(SHAPE, sparse=True), strict=True)
}


NUMBERS = st.integers(-4, 9).map(t.index_const)
DIVISORS = st.sampled_from([1, 2, 3, 5, -2])
Strategy = st.SearchStrategy[Term]


def _summed(a: Term, b: Term, c: Term) -> Term:
    return 3 * a - 2 * b + c


def divided(parts: Strategy) -> Strategy:
    return st.builds(t.binary, st.sampled_from(["floordiv", "mod"]), parts, DIVISORS)


def wider(parts: Strategy) -> Strategy:
    """What is computed without a look at where it is undefined."""
    paired = st.builds(t.binary, st.sampled_from(["min", "max", "bitand", "bitor", "bitxor"]), parts, parts)
    summed = st.builds(_summed, parts, parts, NUMBERS)
    compared = st.builds(t.compare, st.sampled_from(["lt", "le", "eq", "ne"]), parts, parts)
    joined = st.builds(t.junction, st.sampled_from(["and", "or"]), st.lists(compared, min_size=2, max_size=3))
    chosen = st.builds(t.where, st.one_of(compared, joined, compared.map(t.logical_not)), parts, parts)
    return st.one_of(divided(parts), paired, summed, parts.map(t.absolute), chosen)


READ = st.sampled_from(list(BOX))
TOTAL = st.recursive(st.one_of(READ, divided(READ), NUMBERS), wider, max_leaves=10)


@settings(max_examples=80, deadline=None)
@given(e=TOTAL, a=TOTAL)
def test_intervals_of_total_terms(e: Term, a: Term) -> None:
    box = BoxValues(BOX)
    assert box.interval(e) == expected(e, []) and box.interval(e <= a) == expected(e <= a, [])


def expected(term: Term, guards: list[Term]) -> Closed | None:
    (value, bad), *given_ = evaluate_masked([term, *guards], GRID, load_table)
    keep: Any = np.ones(SHAPE, bool) if bad is None else np.broadcast_to(~bad, SHAPE)
    for holds, undefined in given_:
        keep = keep & holds if undefined is None else keep & holds & ~undefined
    values = np.broadcast_to(value, SHAPE)[keep]
    return (int(values.min()), int(values.max())) if values.size else None


@settings(max_examples=60, deadline=None)
@given(e=st.one_of(terms(INDEX, loads=False), terms(BOOL, loads=False)), p=terms(BOOL, steps=4, loads=False))
def test_intervals_are_those_of_the_values(e: Term, p: Term) -> None:
    """Guards that share no leaf with a term may be left out, so its interval may hold more, never less."""
    box = BoxValues(BOX)
    if e.lanes == 1:
        assert box.interval(e) == expected(e, [])
    if e.lanes == p.lanes == 1:
        exact, found = expected(e, [p]), box.under(p).interval(e)
        assert exact is None or (found is not None and found[0] <= exact[0] and exact[1] <= found[1])
        both = t.where(p, e, e)  # reads the leaves of both
        assert both is e or box.under(p).interval(both) == exact


@pytest.mark.parametrize("factor", [1 << 40, 1 << 61, -(1 << 62), 10**20])
def test_values_beyond_int64_are_exact(factor: int) -> None:
    i, j = t.var("i"), t.var("j")
    here = PointValues({i: np.arange(3, 9), j: np.arange(3, 9)})
    value, bad = here.of((factor * i + factor * j) // 7 + i)
    assert bad is None and value.tolist() == [2 * factor * k // 7 + k for k in range(3, 9)]


def test_undefined_points_do_not_count() -> None:
    i, j = t.var("i"), t.var("j")
    box = BoxValues({i: (0, 4), j: (-1, 3)})
    assert box.interval(i // j) == (-3, 3) and box.under(j < 2).interval(i // j) == (-3, 3)
    assert box.interval(t.where(t.compare("eq", j, 0), 7, i // j)) == (-3, 7)
    assert box.interval(t.var("k") + i) is None and box.under(j < -1).interval(j) is None


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, -(10**25)])
def test_coefficients_beyond_int64_of_what_is_small(number: int) -> None:
    """They are computed exactly, of 0, too, which no coefficient makes large."""
    i, j = t.var("i"), t.var("j")
    box = BoxValues({i: (0, 1), j: (-1, 2)})
    assert box.interval(number * (i // 8) + j) == (-1, 1)
    assert box.interval(number * j) == (-abs(number), abs(number))
    assert box.interval((number * (i & 3) ^ j) + number) == (number - 1, number + 1)
